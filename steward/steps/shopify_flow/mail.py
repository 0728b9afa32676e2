"""Task "Send internal email": sends mail, or posts its text to a channel or sheet."""

from collections.abc import Iterable, Mapping
from datetime import UTC

from steward.connectors.base.commands import AppendRows, PostCard
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.mail import SEND_MAIL, SendMail
from steward.connectors.base.messages import message_operation
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.outbound.mail_message import InvalidMail, mailboxes_of, one_line
from steward.steps.base import AccountAccess
from steward.steps.shopify_flow.task_types import (
    FlowCall,
    FlowResult,
    FlowType,
    ItemFailed,
    StepProblem,
    TaskDefinition,
    WorkflowStepFailed,
)
from steward.steps.workflow.javascript import dates as js_dates

_MAX_TITLE = 200


class SendEmail(FlowType):
    """Sends a message to the merchant's own staff through the bound mail account.

    If a channel or sheet is bound instead, a channel gets a card, a sheet a row of time, subject and message,
    and the addresses get nothing; a finding says so.
    """

    tasks = ("shopify::flow::send_email",)
    label = "Send internal email"
    kind = StepKind.SEND
    fields = frozenset(("address", "subject", "message"))
    connection_kinds = ("teams", "spreadsheet", "smtp", "gmail")

    def operation(self, definition: TaskDefinition) -> str:
        """Returns mail.send, whatever is bound."""
        return SEND_MAIL.name

    def required_connection(self, definition: TaskDefinition) -> str:
        """Returns teams; a mail account or a sheet may be bound instead."""
        return "teams"

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields an error without any text, and a warning that only a mail account reaches the addresses."""
        if not definition.config.get("subject") and not definition.config.get("message"):
            yield StepProblem("error", "parameter", "It has neither subject nor message. Remove the step.")
        message = (
            "It is sent as e-mail when a mail account is bound to it. A Teams channel or a sheet gets its"
            " text instead, and the addresses in the file get nothing. Choose which of them it is."
        )
        yield StepProblem("warning", "parameter", message)

    async def run(self, call: FlowCall) -> FlowResult:
        """Proposes one message."""
        subject, lines = call.text("subject"), _lines(call.text("message"))
        if not subject and not lines:
            raise ItemFailed("The message of this step is empty. Fill it in.")
        binding = call.run_environment.binding(call.step.name) or {}
        for integration, account in call.context.accounts.items():
            if integration == binding.get("integration_id"):
                if SEND_MAIL.name in account.changes:
                    planned = _mail(call, account, subject)
                elif account.connection.kind == "spreadsheet":
                    planned = _row(call, account, binding.get("target"), subject, lines)
                else:
                    planned = _card(account, subject, lines)
                if planned.problems:
                    raise ItemFailed(" ".join(problem.message for problem in planned.problems))
                return FlowResult(proposals=planned.proposals, counts=Counts(matched=1))
        raise WorkflowStepFailed("This step is bound to no connection that can be used. Bind one.")


def _mail(call: FlowCall, account: AccountAccess, subject: str) -> PlannedChanges:
    try:
        receivers = mailboxes_of(call.text("address"))
    except InvalidMail as error:
        raise ItemFailed(str(error)) from None
    command = SendMail(to=receivers, subject=one_line(subject), text=call.text("message"))
    operation = account.changes[SEND_MAIL.name]
    return operation.plan([command], integration_id=account.connection.integration_id)


def _card(account: AccountAccess, subject: str, lines: list[str]) -> PlannedChanges:
    title, text = (subject, lines) if subject else (lines[0], lines[1:])
    card = PostCard(title=title[:_MAX_TITLE], text=tuple(text))
    operation = message_operation(account.changes)
    return operation.plan([card], integration_id=account.connection.integration_id)


def _row(
    call: FlowCall, account: AccountAccess, target: JsonValue, subject: str, lines: list[str]
) -> PlannedChanges:
    sheet_target = target if isinstance(target, Mapping) else {}
    tab, document = sheet_target.get("sheet"), sheet_target.get("spreadsheet_id")
    if not isinstance(tab, str) or not tab:
        raise WorkflowStepFailed(
            "It is not said which tab of the sheet its rows go to. Bind it again, naming the tab."
        )
    moment = js_dates.iso(call.now.astimezone(js_dates.zone_of(call.run_environment.zone) or UTC))
    row = (moment, subject, "\n".join(lines))
    command = AppendRows(tab=tab, rows=(row,), spreadsheet_id=document if isinstance(document, str) else None)
    operation = account.changes["sheet.append_rows"]
    return operation.plan([command], integration_id=account.connection.integration_id)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
