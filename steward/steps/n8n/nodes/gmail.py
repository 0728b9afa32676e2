"""The node gmail: sends and answers messages, and changes labels, as the mailbox bound to it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from steward.connectors.base.mail import SEND_MAIL, SendMail
from steward.connectors.base.queries import PATH, PathQuery
from steward.connectors.base.settings import IDENTITY
from steward.model.json import JsonObject
from steward.outbound.mail_message import InvalidMail, Mailbox, mailboxes_of, one_line
from steward.steps.base import AccountAccess
from steward.steps.n8n.mail.mail_nodes import (
    mailboxes,
    needed_problems,
    option_problems,
    propose_mail,
    subject_of,
)
from steward.steps.n8n.service_fields import ServiceFields, filled_path
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation, parsed_answer
from steward.steps.workflow.effects import Effects, account_of, read_all
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
)

_MESSAGES, _THREADS = "/gmail/v1/users/me/messages", "/gmail/v1/users/me/threads"
_LABELS = "/gmail/v1/users/me/labels"
_MESSAGE, _THREAD = {"messageId": "which message it means"}, {"threadId": "which thread it means"}
_SENT = frozenset(("message.send", "message.reply", "thread.reply"))
_OPTIONS = frozenset(
    [
        "appendAttribution", "attachmentsUi", "bccList", "ccList", "replyTo", "replyToRecipientsOnly",
        "replyToSenderOnly", "senderName",
    ]
)  # fmt: skip
# Message ids of a conversation that a reply refers to; the newest ones say where it belongs.
_MAX_REFERENCES = 10
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,300}>")


def _label_ids(fields: ServiceFields) -> list[str]:
    chosen = fields.value("labelIds")
    return [str(each) for each in chosen] if isinstance(chosen, list) else [str(chosen or "")]


def _mail_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields what differs when a message is sent."""
    is_first = node.version < 2
    collection = "additionalFields" if is_first else "options"
    yield from option_problems(
        node, collection, _OPTIONS, files="attachmentsUi", has_attribution=not is_first
    )
    operation = node.get("operation", "send")
    if operation == "reply":
        yield from needed_problems(node, ("messageId", "which message it answers"))
    else:
        yield from needed_problems(node, ("toList" if is_first else "sendTo", "whom it writes to"))


def _sends() -> ServiceOperation:
    """Returns the entry of an operation that sends mail, which `GmailNode.run` carries out."""
    return ServiceOperation("POST", f"{_MESSAGES}/send", check=_mail_problems)


def _modifies(path: str, needed: Mapping[str, str], **labels: Any) -> ServiceOperation:
    return ServiceOperation("POST", f"{path}/modify", labels, needed=needed)


def _unread(fields: ServiceFields) -> list[str]:
    return ["UNREAD"]


_OPERATIONS = {
    "message.send": _sends(),
    "message.reply": _sends(),
    "thread.reply": _sends(),
    "message.addLabels": _modifies(f"{_MESSAGES}/{{messageId}}", _MESSAGE, addLabelIds=_label_ids),
    "message.removeLabels": _modifies(f"{_MESSAGES}/{{messageId}}", _MESSAGE, removeLabelIds=_label_ids),
    "message.markAsRead": _modifies(f"{_MESSAGES}/{{messageId}}", _MESSAGE, removeLabelIds=_unread),
    "message.markAsUnread": _modifies(f"{_MESSAGES}/{{messageId}}", _MESSAGE, addLabelIds=_unread),
    "thread.addLabels": _modifies(f"{_THREADS}/{{threadId}}", _THREAD, addLabelIds=_label_ids),
    "thread.removeLabels": _modifies(f"{_THREADS}/{{threadId}}", _THREAD, removeLabelIds=_label_ids),
    "thread.trash": ServiceOperation("POST", f"{_THREADS}/{{threadId}}/trash", needed=_THREAD),
    "thread.untrash": ServiceOperation("POST", f"{_THREADS}/{{threadId}}/untrash", needed=_THREAD),
    "label.getAll": ServiceOperation("GET", _LABELS, items="labels"),
    "label.get": ServiceOperation(
        "GET", f"{_LABELS}/{{labelId}}", needed={"labelId": "which label it means"}
    ),
}
_DEFAULTS = {"message": "send", "label": "create", "thread": "getAll", "draft": "create"}


class GmailNode(ServiceNode):
    """Sending, answering and labels; reading mail, drafts and deleting for good are not carried out."""

    types = ("gmail",)
    versions = (1, 2, 2.1, 2.2)
    connector = "gmail"
    service = "Gmail"
    default_resource = "message"
    default_operations = _DEFAULTS
    parameters = frozenset(
        [
            "additionalFields", "authentication", "emailType", "filters", "htmlMessage", "includeHtml",
            "labelId", "labelIds", "limit", "message", "messageId", "name", "operation", "options",
            "resource", "returnAll", "sendTo", "simple", "subject", "threadId", "toList",
        ]
    )  # fmt: skip
    operations = _OPERATIONS

    def operation(self, node: NodeDefinition) -> str:
        """Returns mail.send, or the call or read of the connector."""
        return SEND_MAIL.name if self.operation_key(node) in _SENT else super().operation(node)

    def operation_key(self, node: NodeDefinition) -> str:
        """Returns `resource.operation`; the first version makes drafts where the file names nothing."""
        if node.version < 2 and node.get("resource") is None:
            return "draft.create"
        return super().operation_key(node)

    async def run(self, call: StepCall) -> NodeResult:
        """Proposes one message or call for each item, or reads."""
        node = NodeDefinition(call.step.name, call.version, call.first.tree)
        key = self.operation_key(node)
        if key not in _SENT:
            return await super().run(call)
        account, effects = account_of(call), Effects(call)
        settings: JsonObject = {"operation": key, "version": call.version, "parameters": {}}
        for index in range(len(call.items)):
            fields = ServiceFields(call.params(index), call.version, {})
            try:
                is_new = key == "message.send"
                command = mail_command(fields) if is_new else await _reply(fields, account)
            except (ItemFailed, InvalidMail) as failure:
                effects.fail_item(index, str(failure))
                continue
            propose_mail(effects, account, index, command, settings)
        return effects.result()


def mail_command(fields: ServiceFields) -> SendMail:
    """Returns the message that the parameters of one item make. Raises ItemFailed."""
    is_first = fields.version < 2
    collection = "additionalFields" if is_first else "options"
    text, markup = _bodies(fields)
    return SendMail(
        to=mailboxes(fields, "toList" if is_first else "sendTo", "To"),
        subject=subject_of(fields),
        text=text,
        html=markup,
        cc=mailboxes(fields, f"{collection}.ccList", "CC"),
        bcc=mailboxes(fields, f"{collection}.bccList", "BCC"),
        reply_to=mailboxes(fields, f"{collection}.replyTo", "Send Replies To"),
        sender_name=one_line(fields.text(f"{collection}.senderName")),
    )


def _bodies(fields: ServiceFields) -> tuple[str | None, str | None]:
    message = fields.text("message")
    if fields.version < 2:
        return message, fields.text("htmlMessage") if fields.flag("includeHtml") else None
    return (message, None) if fields.text("emailType", "html") == "text" else (None, message)


async def _reply(fields: ServiceFields, account: AccountAccess) -> SendMail:
    """Returns the answer to a message that is read first. Raises ItemFailed."""
    if not fields.text("messageId"):
        raise ItemFailed("This step does not say which message it answers. Fill it in.")
    path = filled_path(fields, f"{_MESSAGES}/{{messageId}}")
    [response] = await read_all(account.reader.read(PATH, PathQuery(path, (("format", "metadata"),))))
    original = parsed_answer(response.body.decode("utf-8", "replace"))
    headers = _headers_of(original)
    command = mail_command(fields)
    own = str(account.connection.facts.get(IDENTITY, "")).removeprefix("gmail ")
    ids = _MESSAGE_ID.findall(headers.get("message-id", ""))
    references = [*_MESSAGE_ID.findall(headers.get("references", "")), *ids]
    threading = {"In-Reply-To": ids[0], "References": " ".join(references[-_MAX_REFERENCES:])} if ids else {}
    subject = one_line(headers.get("subject", ""))
    return SendMail(
        to=[*command.to, *_receivers(fields, headers, own)],
        subject=subject if subject.lower().startswith("re:") else f"Re: {subject}",
        text=command.text,
        html=command.html,
        cc=command.cc,
        bcc=command.bcc,
        reply_to=command.reply_to,
        sender_name=command.sender_name,
        headers=threading,
        thread=str(original.get("threadId", "")),
    )


def _receivers(fields: ServiceFields, headers: Mapping[str, str], own: str) -> list[Mailbox]:
    """Returns whom a reply goes to: the sender and the other recipients, but not the mailbox itself."""
    senders, others = _known(headers.get("from", "")), _known(headers.get("to", ""))
    if fields.flag("options.replyToSenderOnly"):
        return senders
    chosen = others if fields.flag("options.replyToRecipientsOnly") else [*senders, *others]
    receivers = {each.address.lower(): each for each in chosen if each.address.lower() != own}
    return list(receivers.values()) or senders


def _known(text: str) -> list[Mailbox]:
    """Returns the addresses of a header; none where it cannot be read."""
    try:
        return mailboxes_of(text)
    except InvalidMail:
        return []


def _headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    payload = message.get("payload")
    rows = payload.get("headers") if isinstance(payload, Mapping) else None
    return {
        str(row.get("name", "")).lower(): str(row.get("value", ""))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, Mapping)
    }
