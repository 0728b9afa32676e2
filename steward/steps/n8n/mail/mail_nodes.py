"""A base for nodes that send mail: how they read, send and output a message.

See docs/design/mail.md#steps.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from steward.connectors.base.mail import SEND_MAIL, SendMail
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.write_response import WriteResponse
from steward.outbound.mail_message import InvalidMail, Mailbox, mailboxes_of, one_line
from steward.steps.base import AccountAccess
from steward.steps.n8n.mail.attachments import attached_files
from steward.steps.n8n.service_fields import ServiceFields, fields_of_node
from steward.steps.workflow.external_calls import ItemProposals, account_of
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    SentItem,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
)

_ATTRIBUTION = "n8n adds a line about itself below the message, which is left out here. Nothing to do."
WAITS = (
    "It waits for an answer by e-mail, which cannot be given here."
    " Send a message instead, and let a step wait for approval."
)


class MailNode(StepType):
    """Sends one message for each item; a subclass names the connector and reads the parameters."""

    connector: ClassVar[str]
    kind = StepKind.SEND
    field_use = FieldUse.REPLACES_ITEMS

    def operation(self, node: NodeDefinition) -> str:
        """Returns mail.send."""
        return SEND_MAIL.name

    def required_connection(self, node: NodeDefinition) -> str:
        """Returns the kind of connection."""
        return self.connector

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns the server's report on the message."""
        return (Item(_response_object(response)),)

    @abstractmethod
    def command(self, fields: ServiceFields) -> SendMail:
        """Builds the message from the parameters of one item. Raises ItemFailed, InvalidMail."""

    def attachment_names(self, fields: ServiceFields) -> list[str]:
        """Returns the names of the item's files to attach."""
        return []

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the names of the files to attach."""
        return self.attachment_names(fields_of_node(node))

    async def run(self, call: StepCall) -> NodeResult:
        """Proposes one message for each item."""
        account, item_proposals = account_of(call), ItemProposals(call)
        for index in range(len(call.items)):
            try:
                fields = ServiceFields(call.params(index), call.version, {})
                files = await attached_files(call, index, self.attachment_names(fields))
                command = replace(self.command(fields), attachments=files)
            except (ItemFailed, InvalidMail) as failure:
                item_proposals.fail_item(index, str(failure))
                continue
            propose_mail(item_proposals, account, index, command)
        return item_proposals.result()


def propose_mail(
    item_proposals: ItemProposals,
    account: AccountAccess,
    index: int,
    command: SendMail,
    settings: JsonObject | None = None,
) -> None:
    """Proposes the message of one item; the step's output comes from the server's response."""
    operation = account.changes[SEND_MAIL.name]
    planned = operation.plan([command], integration_id=account.connection.integration_id)
    item = Item({}, paired_with(index))
    item_proposals.add_plan(index, planned, item, operation, settings or {})


def _response_object(response: WriteResponse) -> JsonObject:
    """Returns the response if it is an object, else an empty object."""
    try:
        value = response.json()
    except (ValueError, RecursionError):
        return {}
    return dict(value) if isinstance(value, Mapping) else {}


def mailboxes(fields: ServiceFields, path: str, label: str) -> list[Mailbox]:
    """Parses the addresses of a parameter, a text or a list of texts. Raises ItemFailed naming `label`."""
    value = fields.value(path)
    text = ", ".join(map(js.text, value)) if isinstance(value, list) else fields.text(path)
    try:
        return mailboxes_of(text)
    except InvalidMail as error:
        raise ItemFailed(f"“{label}”: {error}") from None


def subject_of(fields: ServiceFields) -> str:
    """Returns the subject as one line."""
    return one_line(fields.text("subject"))


def option_problems(
    node: NodeDefinition, path: str, names: frozenset[str], *, has_attribution: bool = True
) -> Iterable[StepProblem]:
    """Yields unknown options, and a note about the line that n8n would append."""
    options = node.get(path)
    chosen = options if isinstance(options, Mapping) else {}
    for name in chosen:
        if name not in names:
            message = f"Its option “{str(name)[:80]}” is not known here. Remove it."
            yield StepProblem("error", "parameter", message)
    if has_attribution and chosen.get("appendAttribution", True) is not False:
        yield StepProblem("note", "parameter", _ATTRIBUTION)


def _holds_value(value: JsonValue) -> bool:
    """Returns whether a parameter, or anything inside it, is filled in."""
    if isinstance(value, Mapping):
        return any(_holds_value(member) for member in value.values())
    if isinstance(value, list):
        return any(_holds_value(member) for member in value)
    return value not in (None, "", "=", False)


def needed_problems(node: NodeDefinition, *needed: tuple[str, str]) -> Iterable[StepProblem]:
    """Yields a warning for each empty parameter that the step would fail without."""
    for path, words in needed:
        if not _holds_value(node.get(path)):
            yield StepProblem(
                "warning",
                "parameter",
                f"It does not say {words}, so it would fail. Fill it in in n8n and import it again.",
            )
