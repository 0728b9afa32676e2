"""The node gmail: sends messages, replies to them and changes labels, through the bound mailbox."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from steward.connectors.base.mail import SEND_MAIL, SendMail
from steward.connectors.base.queries import PATH, PathQuery
from steward.connectors.base.settings import IDENTITY
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.outbound.mail_message import InvalidMail, Mailbox, mailboxes_of, one_line
from steward.steps.base import AccountAccess
from steward.steps.n8n.mail.attachments import attached_files, names_in
from steward.steps.n8n.mail.gmail_reads import READS, GmailReads
from steward.steps.n8n.mail.mail_nodes import (
    mailboxes,
    needed_problems,
    option_problems,
    propose_mail,
    subject_of,
)
from steward.steps.n8n.service_fields import ServiceFields, fields_of_node, filled_path
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation, parsed_response
from steward.steps.workflow.external_calls import ItemProposals, account_of, read_all
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
)

_MESSAGES, _THREADS = "/gmail/v1/users/me/messages", "/gmail/v1/users/me/threads"
_LABELS, _DRAFTS = "/gmail/v1/users/me/labels", "/gmail/v1/users/me/drafts"
_MESSAGE, _THREAD = {"messageId": "which message it means"}, {"threadId": "which thread it means"}
_SENT = frozenset(("message.send", "message.reply", "thread.reply", "draft.create"))
_OPTIONS = frozenset(
    [
        "appendAttribution", "attachmentsUi", "bccList", "ccList", "replyTo", "replyToRecipientsOnly",
        "replyToSenderOnly", "senderName",
    ]
)  # fmt: skip
_DRAFT_OPTIONS = frozenset(
    ("attachmentsUi", "bccList", "ccList", "replyTo", "sendTo", "senderName", "threadId", "toList")
)
_READ_OPTIONS = frozenset(
    [
        "dataPropertyAttachmentsPrefixName", "downloadAttachments", "format", "includeSpamTrash", "labelIds",
        "q", "returnOnlyMessages",
    ]
)  # fmt: skip
_FILTERS = {
    "filters": frozenset(
        [
            "includeSpamTrash", "labelIds", "q", "readStatus", "receivedAfter", "receivedBefore", "sender",
        ]
    )
}  # fmt: skip
# Message ids in the References of a reply; the newest are enough to find the thread.
_MAX_REFERENCES = 10
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,300}>")


def _label_ids(fields: ServiceFields) -> list[str]:
    chosen = fields.value("labelIds")
    return [str(label) for label in chosen] if isinstance(chosen, list) else [str(chosen or "")]


def _mail_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields unsupported options and missing parameters of a step that sends."""
    is_first = node.version < 2
    collection = "additionalFields" if is_first else "options"
    yield from option_problems(node, collection, _OPTIONS, has_attribution=not is_first)
    operation = node.get("operation", "send")
    if operation == "reply":
        yield from needed_problems(node, ("messageId", "which message it answers"))
    else:
        yield from needed_problems(node, ("toList" if is_first else "sendTo", "whom it writes to"))


def _draft_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields options that a draft does not support."""
    collection = "additionalFields" if node.version < 2 else "options"
    yield from option_problems(node, collection, _DRAFT_OPTIONS, has_attribution=False)


def _read_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields unknown options of a read."""
    yield from option_problems(node, "options", _READ_OPTIONS, has_attribution=False)
    if node.version < 2:
        yield from option_problems(node, "additionalFields", _READ_OPTIONS, has_attribution=False)


def _reads(path: str, needed: Mapping[str, str] = MappingProxyType({})) -> ServiceOperation:
    """Returns the table entry of a read that `GmailReads` performs."""
    return ServiceOperation("GET", path, needed=needed, check=_read_problems)


def _success(response: JsonValue, fields: ServiceFields) -> list[dict[str, JsonValue]]:
    return [{"success": True}]


def _new_label(fields: ServiceFields) -> JsonObject:
    return {
        "name": fields.value("name"),
        "labelListVisibility": fields.text("options.labelListVisibility", "labelShow"),
        "messageListVisibility": fields.text("options.messageListVisibility", "show"),
    }


def _sends() -> ServiceOperation:
    """Returns the table entry of an operation that sends mail, which `GmailNode.run` performs."""
    return ServiceOperation("POST", f"{_MESSAGES}/send", check=_mail_problems)


def _modifies(path: str, needed: Mapping[str, str], **labels: AnyJson) -> ServiceOperation:
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
    "message.get": _reads(f"{_MESSAGES}/{{messageId}}", _MESSAGE),
    "message.getAll": _reads(_MESSAGES),
    "thread.get": _reads(f"{_THREADS}/{{threadId}}", _THREAD),
    "thread.getAll": _reads(_THREADS),
    "draft.create": ServiceOperation("POST", _DRAFTS, check=_draft_problems),
    "draft.get": _reads(f"{_DRAFTS}/{{messageId}}", {"messageId": "which draft it means"}),
    "draft.getAll": _reads(_DRAFTS),
    "draft.delete": ServiceOperation(
        "DELETE", f"{_DRAFTS}/{{messageId}}", needed={"messageId": "which draft it means"}, to_items=_success
    ),
    "label.create": ServiceOperation(
        "POST", _LABELS, _new_label, needed={"name": "what the label is called"}, recipient="name"
    ),
    "label.delete": ServiceOperation(
        "DELETE", f"{_LABELS}/{{labelId}}", needed={"labelId": "which label it means"}, to_items=_success
    ),
    "label.getAll": ServiceOperation("GET", _LABELS, items="labels"),
    "label.get": ServiceOperation(
        "GET", f"{_LABELS}/{{labelId}}", needed={"labelId": "which label it means"}
    ),
}
_DEFAULTS = {"message": "send", "label": "create", "thread": "getAll", "draft": "create"}


_SHOWN_FOR = {"filters": ("draft.getAll", "message.getAll", "thread.getAll")}


class GmailNode(ServiceNode):
    """Supports messages, threads, drafts and labels, but not permanent deletion."""

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
    collections = _FILTERS
    shown_for = _SHOWN_FOR

    def operation(self, node: NodeDefinition) -> str:
        """Returns mail.send, or the connector's read or call."""
        return SEND_MAIL.name if self.operation_key(node) in _SENT else super().operation(node)

    def operation_key(self, node: NodeDefinition) -> str:
        """Returns `resource.operation`; version 1 creates drafts by default."""
        if node.version < 2 and node.get("resource") is None:
            return "draft.create"
        return super().operation_key(node)

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the names of the files attached to its message or draft."""
        return _attachment_names(fields_of_node(node)) if self.operation_key(node) in _SENT else ()

    async def run(self, call: StepCall) -> NodeResult:
        """Proposes one message or call for each item, or reads."""
        node = NodeDefinition(call.step.name, call.version, call.first.tree)
        key = self.operation_key(node)
        resource, _, name = key.partition(".")
        if key in READS:
            return await GmailReads(call, resource).run(many=name == "getAll")
        if key not in _SENT:
            return await super().run(call)
        account, item_proposals = account_of(call), ItemProposals(call)
        settings: JsonObject = {"operation": key, "version": call.version, "parameters": {}}
        for index in range(len(call.items)):
            fields = ServiceFields(call.params(index), call.version, {})
            try:
                files = await attached_files(call, index, _attachment_names(fields))
                command = await _command(fields, account, key)
            except (ItemFailed, InvalidMail) as failure:
                item_proposals.fail_item(index, str(failure))
                continue
            propose_mail(item_proposals, account, index, replace(command, attachments=files), settings)
        return item_proposals.result()


def _attachment_names(fields: ServiceFields) -> list[str]:
    collection = "additionalFields" if fields.version < 2 else "options"
    rows = fields.rows(f"{collection}.attachmentsUi.attachmentsBinary")
    return [name for row in rows for name in names_in(row.text("property"))]


async def _command(fields: ServiceFields, account: AccountAccess, key: str) -> SendMail:
    """Builds the message from the parameters of one item. Raises ItemFailed."""
    if key == "draft.create":
        return _draft_command(fields)
    return mail_command(fields) if key == "message.send" else await _reply(fields, account)


def _draft_command(fields: ServiceFields) -> SendMail:
    """Builds the draft from the parameters of one item. Raises ItemFailed."""
    receivers = "additionalFields.toList" if fields.version < 2 else "options.sendTo"
    command = mail_command(fields)
    if fields.version >= 2 and not fields.text("emailType"):
        command = replace(command, text=fields.text("message"), html=None)  # n8n's default for drafts
    return replace(
        command,
        to=mailboxes(fields, receivers, "To"),
        thread=fields.text("options.threadId"),
        options={"draft": True},
    )


def mail_command(fields: ServiceFields) -> SendMail:
    """Builds the message from the parameters of one item. Raises ItemFailed."""
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
    """Reads the original message and builds the reply to it. Raises ItemFailed."""
    if not fields.text("messageId"):
        raise ItemFailed("This step does not say which message it answers. Fill it in.")
    path = filled_path(fields, f"{_MESSAGES}/{{messageId}}")
    [response] = await read_all(account.reader.read(PATH, PathQuery(path, (("format", "metadata"),))))
    original = parsed_response(response.body.decode("utf-8", "replace"))
    headers = _headers_of(original)
    command = mail_command(fields)
    own_address = str(account.connection.facts.get(IDENTITY, "")).removeprefix("gmail ")
    ids = _MESSAGE_ID.findall(headers.get("message-id", ""))
    references = [*_MESSAGE_ID.findall(headers.get("references", "")), *ids]
    threading = {"In-Reply-To": ids[0], "References": " ".join(references[-_MAX_REFERENCES:])} if ids else {}
    subject = one_line(headers.get("subject", ""))
    return SendMail(
        to=[*command.to, *_receivers(fields, headers, own_address)],
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


def _receivers(fields: ServiceFields, headers: Mapping[str, str], own_address: str) -> list[Mailbox]:
    """Returns the recipients of a reply, as the options of the step choose them.

    They are the addresses that the sender wants replies at, the other recipients of the message, or both. The
    step's own mailbox is left out of the last two; if nobody is left then, the reply goes to the sender.
    """
    senders = _header_mailboxes(headers.get("reply-to", "")) or _header_mailboxes(headers.get("from", ""))
    others = _header_mailboxes(headers.get("to", ""))
    if fields.flag("options.replyToSenderOnly"):
        return senders
    chosen = others if fields.flag("options.replyToRecipientsOnly") else [*senders, *others]
    receivers = {
        mailbox.address.lower(): mailbox for mailbox in chosen if mailbox.address.lower() != own_address
    }
    return list(receivers.values()) or senders


def _header_mailboxes(text: str) -> list[Mailbox]:
    """Parses the addresses of a header; returns none if it is malformed."""
    try:
        return mailboxes_of(text)
    except InvalidMail:
        return []


def _headers_of(message: JsonObject) -> dict[str, str]:
    payload = message.get("payload")
    rows = payload.get("headers") if isinstance(payload, Mapping) else None
    return {
        str(row.get("name", "")).lower(): str(row.get("value", ""))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, Mapping)
    }
