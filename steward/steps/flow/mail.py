"""Send internal email: its text goes to the Teams channel bound to it, no mail is sent (imports 8.3)."""

from collections.abc import Iterable

from steward.connectors.base import PostCard
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.steps.flow.kinds import FlowAsked, FlowCall, FlowResult, FlowType, ItemFailed, Problem, StepBroke

LONGEST_TITLE = 200


class SendEmail(FlowType):
    """A message to the merchant's own people; the addresses it names get nothing, which its finding says."""

    tasks = ("shopify::flow::send_email",)
    label = "Send internal email"
    kind = StepKind.SEND
    known = frozenset(("address", "subject", "message"))

    def operation(self, asked: FlowAsked) -> str:
        """One thing only."""
        return "teams.post"

    def needs(self, asked: FlowAsked) -> str:
        """A channel."""
        return "teams"

    def check(self, asked: FlowAsked) -> Iterable[Problem]:
        """That there is something to say, and to whom it is not said."""
        if not asked.config.get("subject") and not asked.config.get("message"):
            yield Problem("error", "parameter", "It has neither subject nor message. Remove the step.")
        words = "No mail is sent: its text is posted to the Teams channel bound to it, not to the addresses "
        yield Problem("warning", "parameter", f"{words}in the file. Look whether the right people read it.")

    async def run(self, call: FlowCall) -> FlowResult:
        """One message."""
        subject, lines = call.text("subject"), _lines(call.text("message"))
        if not subject and not lines:
            raise ItemFailed("The message of this step is empty.")
        title = subject or lines.pop(0)
        binding = call.scene.binding(call.step.name)
        number = binding.get("integration_id") if binding is not None else None
        for integration, account in call.context.accounts.items():
            if integration == number:
                card = PostCard(title=title[:LONGEST_TITLE], text=tuple(lines))
                operation = account.changes["teams.post"]
                planned = operation.plan([card], integration_id=account.connection.integration_id)
                if planned.problems:
                    raise ItemFailed(" ".join(problem.message for problem in planned.problems))
                return FlowResult(proposals=planned.proposals, counts=Counts(matched=1))
        raise StepBroke("This step is bound to no connection that can be used. Bind one.")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
