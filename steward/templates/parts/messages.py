"""The one message a template's last step posts to Teams; its words and its cutting are others' (E17)."""

from collections.abc import Mapping

from steward.connectors.base.commands import PostCard
from steward.model.ids import IntegrationId
from steward.model.json import JsonValue
from steward.steps.base import MemoryWrite, StepContext, StepResult


def account_of(given: JsonValue) -> IntegrationId:
    """The connection that an input such as `teams` or `sheet` names."""
    number = given.get("integration_id") if isinstance(given, Mapping) else None
    if not isinstance(number, int):
        raise ValueError("the input names no connection")
    return IntegrationId(number)


def post_card(at: StepContext, card: PostCard, *, remember: tuple[MemoryWrite, ...] = ()) -> StepResult:
    """Posts `card` to the channel that the input `teams` names; `remember`: once it went out."""
    account = at.accounts[account_of(at.inputs["teams"])]
    number = account.connection.integration_id
    planned = account.changes["teams.post"].plan([card], integration_id=number)
    return StepResult({}, title="Post one message to Teams", proposals=planned.proposals, memory=remember)


def no_message() -> StepResult:
    """The step when there is nothing to tell (E17)."""
    return StepResult({}, title="Nothing to tell, no message")
