"""The node microsoftOutlook: mail of the bound mailbox, through Microsoft Graph."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from steward.connectors.base.mail import SEND_MAIL
from steward.connectors.base.service_calls import SendCall
from steward.connectors.microsoft_outlook.messages import file_attachment
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.outbound.mail_message import InvalidMail
from steward.steps.n8n.mail.attachments import attached_files
from steward.steps.n8n.mail.mail_nodes import needed_problems, propose_mail
from steward.steps.n8n.mail.outlook_fields import (
    ATTACHMENT,
    FOLDERS,
    MESSAGES,
    listed_folders,
    listed_messages,
    message_body,
    message_path,
    new_mail,
    next_page,
    selected,
    selected_fields,
    simplified,
)
from steward.steps.n8n.mail.outlook_files import downloaded, with_files
from steward.steps.n8n.mail.outlook_replies import is_to_sender, reply_draft, reply_mail, sent_draft
from steward.steps.n8n.service_fields import ServiceFields, fields_of_node, path_segment
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation, ServicePort
from steward.steps.workflow.external_calls import ItemProposals, account_of
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    is_expression,
)

_MESSAGE = {"messageId": "which message it means"}
_FOLDER = {"folderId": "which folder it means"}
_ATTACHMENT = {**_MESSAGE, "attachmentId": "which attachment it means"}
_SENT = frozenset(("message.send", "message.reply"))
_ATTACHING = _SENT | {"draft.create", "message.createReply"}
_SENDER = "It writes as another person than the one who signs in. Here it writes as the mailbox bound to it."
_MOVES = "It moves the message while it changes it. Move it in a separate step."
_RECIPIENTS = "It sets recipients while it sends a draft. Set them where the draft is made."
_EXPRESSION = "An expression decides whether it sends or makes a draft. Choose one of them."
_REPLY_FIELDS = "The additional fields of a reply to all are left out, as n8n does. Nothing to do."


def _success(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
    return [{"success": True}]


def _one_row(response: JsonValue, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    return [simplified(response, fields)]


def _many(response: JsonValue, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    rows = response.get("value") if isinstance(response, Mapping) else None
    return [simplified(row, fields) for row in (rows if isinstance(rows, list) else ())]


def _draft_path(more: str = "") -> AnyJson:
    """Returns a function for the path of a draft, which version 1 calls a message."""

    def choose(fields: ServiceFields) -> str:
        return message_path(fields, "messageId" if fields.version < 2 else "draftId", more)

    return choose


def _new_folder_path(fields: ServiceFields) -> str:
    parent = fields.text("options.folderId.value") or fields.text("options.folderId")
    return f"{FOLDERS}/{path_segment(parent, 'folder')}/childFolders" if parent else FOLDERS


def _reply_path(fields: ServiceFields) -> str:
    return message_path(fields, more="/createReply" if is_to_sender(fields) else "/createReplyAll")


def _attachment_path(fields: ServiceFields) -> str:
    more = path_segment(fields.text("attachmentId"), "attachment")
    return message_path(fields, more=f"/attachments/{more}")


def _changed(fields: ServiceFields) -> dict[str, JsonValue]:
    return message_body(fields, "updateFields")


def _sending_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("additionalFields.from"):
        yield StepProblem("warning", "parameter", _SENDER)
    if is_expression(node.get("additionalFields.saveAsDraft")):
        yield StepProblem("error", "parameter", _EXPRESSION)
    yield from needed_problems(node, ("toRecipients", "whom it writes to"))


def _reply_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    draft = node.get("send") if node.version < 2 else node.get("options.saveAsDraft")
    if is_expression(draft):
        yield StepProblem("error", "parameter", _EXPRESSION)
    to_sender = (
        node.get("replyType", "reply") == "reply" if node.version < 2 else node.get("replyToSenderOnly")
    )
    chosen = node.get("additionalFields")
    others = set(chosen) - {"attachments"} if isinstance(chosen, Mapping) else set()
    if not to_sender and others:
        yield StepProblem("note", "parameter", _REPLY_FIELDS)


def _update_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("updateFields.folderId"):
        yield StepProblem("error", "parameter", _MOVES)


def _draft_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from needed_problems(
        node,
        ("messageId", "which draft it means") if node.version < 2 else ("draftId", "which draft it means"),
    )
    if node.get("to") or node.get("additionalFields.recipients"):
        yield StepProblem("error", "parameter", _RECIPIENTS)


_OPERATIONS = {
    "message.send": ServiceOperation(
        "POST", "/v1.0/me/sendMail", check=_sending_problems, to_items=_success
    ),
    "message.reply": ServiceOperation(
        "POST", MESSAGES, needed=_MESSAGE, check=_reply_problems, to_items=_success
    ),
    "message.createReply": ServiceOperation(
        "POST", MESSAGES, reply_draft, needed=_MESSAGE, choose_path=_reply_path, check=_reply_problems,
        recipient="messageId", text="message",
    ),
    "message.get": ServiceOperation(
        "GET", f"{MESSAGES}/{{messageId}}", selected, needed=_MESSAGE, to_items=_one_row
    ),
    "message.getAll": ServiceOperation(
        "GET", MESSAGES, listed_messages, to_items=_many, next_page=next_page
    ),
    "message.getMime": ServiceOperation("GET", MESSAGES, needed=_MESSAGE, choose_path=message_path),
    "message.move": ServiceOperation(
        "POST", f"{MESSAGES}/{{messageId}}/move", {"destinationId": "folderId"},
        needed={**_MESSAGE, **_FOLDER}, to_items=_success,
        text=lambda fields: "Move to the folder " + fields.text("folderId"),
    ),
    "message.update": ServiceOperation(
        "PATCH", f"{MESSAGES}/{{messageId}}", _changed, needed=_MESSAGE, check=_update_problems
    ),
    "message.delete": ServiceOperation(
        "DELETE", f"{MESSAGES}/{{messageId}}", needed=_MESSAGE, to_items=_success
    ),
    "draft.create": ServiceOperation(
        "POST", MESSAGES, lambda fields: message_body(fields, "additionalFields"),
        recipient="toRecipients", text="bodyContent",
    ),
    "draft.get": ServiceOperation("GET", MESSAGES, selected, choose_path=_draft_path(), to_items=_one_row),
    "draft.update": ServiceOperation("PATCH", MESSAGES, _changed, choose_path=_draft_path()),
    "draft.send": ServiceOperation(
        "POST", MESSAGES, choose_path=_draft_path("/send"), check=_draft_problems, to_items=_success
    ),
    "draft.delete": ServiceOperation("DELETE", MESSAGES, choose_path=_draft_path(), to_items=_success),
    "folder.create": ServiceOperation(
        "POST", FOLDERS, {"displayName": "displayName"}, choose_path=_new_folder_path,
        needed={"displayName": "how the folder is called"}, recipient="displayName",
    ),
    "folder.get": ServiceOperation(
        "GET", f"{FOLDERS}/{{folderId}}", selected_fields(), needed=_FOLDER
    ),
    "folder.getAll": ServiceOperation(
        "GET", FOLDERS, listed_folders, "value", choose_path=_new_folder_path, next_page=next_page
    ),
    "folder.getChildren": ServiceOperation(
        "GET", f"{FOLDERS}/{{folderId}}/childFolders", listed_folders, "value", needed=_FOLDER,
        next_page=next_page,
    ),
    "folder.update": ServiceOperation(
        "PATCH", f"{FOLDERS}/{{folderId}}", {"displayName": "displayName"}, needed=_FOLDER,
        recipient="displayName",
    ),
    "folder.delete": ServiceOperation(
        "DELETE", f"{FOLDERS}/{{folderId}}", needed=_FOLDER, to_items=_success
    ),
    "folderMessage.getAll": ServiceOperation(
        "GET", f"{FOLDERS}/{{folderId}}/messages", listed_messages, needed=_FOLDER, to_items=_many,
        next_page=next_page,
    ),
    "messageAttachment.add": ServiceOperation(
        "POST", f"{MESSAGES}/{{messageId}}/attachments", needed=_MESSAGE, to_items=_success
    ),
    "messageAttachment.download": ServiceOperation(
        "GET", MESSAGES, needed=_ATTACHMENT, choose_path=_attachment_path
    ),
    "messageAttachment.get": ServiceOperation(
        "GET", f"{MESSAGES}/{{messageId}}/attachments/{{attachmentId}}", selected_fields(ATTACHMENT),
        needed=_ATTACHMENT,
    ),
    "messageAttachment.getAll": ServiceOperation(
        "GET", f"{MESSAGES}/{{messageId}}/attachments", selected_fields(ATTACHMENT), "value", needed=_MESSAGE,
        next_page=next_page,
    ),
}  # fmt: skip
_DOWNLOAD = {"operation": "download"}
_DEFAULTS = {
    "message": "send",
    "draft": "create",
    "folder": "create",
    "folderMessage": "getAll",
    "messageAttachment": "add",
    "event": "getAll",
    "contact": "getAll",
    "calendar": "getAll",
}
_OF_MESSAGE = frozenset(
    [
        "attachments", "bccRecipients", "bodyContent", "bodyContentType", "categories", "ccRecipients",
        "from", "importance", "internetMessageHeaders", "isRead", "isReadReceiptRequested", "replyTo",
        "subject", "toRecipients",
    ]
)  # fmt: skip
_OF_READ = frozenset(
    ("attachmentsPrefix", "dataPropertyAttachmentsPrefixName", "downloadAttachments", "fields", "filter")
)
_COLLECTIONS = {
    "additionalFields": _OF_MESSAGE | _OF_READ | {"fileName", "recipients", "saveAsDraft", "saveToSentItems"},
    "updateFields": _OF_MESSAGE | {"folderId"},
    "options": _OF_READ | {"fileName", "folderId", "getMimeContent", "saveAsDraft"},
}

_SHOWN_FOR = {"updateFields": ("draft.update", "folder.update", "message.update")}


class MicrosoftOutlookNode(ServiceNode):
    """Supports messages, drafts, folders and attachments, but not calendars and contacts."""

    types = ("microsoftOutlook",)
    versions = (1, 2)
    connector = "microsoft_outlook"
    service = "Microsoft Outlook"
    default_resource = "message"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
    response_parameters = ("output",)
    file_parameters = _DOWNLOAD
    collections = _COLLECTIONS
    shown_for = _SHOWN_FOR
    parameters = frozenset(
        [
            "additionalFields", "attachmentId", "authentication", "binaryPropertyName", "bodyContent",
            "comment", "displayName", "draftId", "fields", "filtersNotice", "filtersUI", "folderId", "limit",
            "message", "messageId", "operation", "options", "output", "replyToSenderOnly", "replyType",
            "resource", "returnAll", "send", "subject", "to", "toRecipients", "updateFields",
        ]
    )  # fmt: skip

    def operation(self, node: NodeDefinition) -> str:
        """Returns mail.send, or the connector's read or call."""
        return SEND_MAIL.name if self.operation_key(node) in _SENT else super().operation(node)

    def operation_key(self, node: NodeDefinition) -> str:
        """Returns `resource.operation`; saving a message only as a draft has its own key."""
        key = super().operation_key(node)
        if key == "message.send" and node.get("additionalFields.saveAsDraft") is True:
            return "draft.create"
        if key != "message.reply":
            return key
        keeps = node.get("send") is not True if node.version < 2 else node.get("options.saveAsDraft") is True
        return "message.createReply" if keeps else key

    def lacks_response(self, node: NodeDefinition) -> bool:
        """Returns True for a reply: Microsoft returns nothing, but n8n outputs the draft it made before."""
        return self.operation_key(node) == "message.reply"

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the names of the files attached to its message or draft."""
        key = self.operation_key(node)
        if key == "messageAttachment.add":
            return (node.file_name("binaryPropertyName"),)
        return _attachment_names(fields_of_node(node)) if key in _ATTACHING else ()

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item with its attachments. Raises ItemFailed."""
        prepared = (
            await sent_draft(port, _draft_path()(fields))
            if key == "draft.send"
            else self.operations[key].call(fields)
        )
        if key == "messageAttachment.add":
            name = fields.text("binaryPropertyName") or "data"
            [file] = await attached_files(call, index, [name])
            collection = "additionalFields" if fields.version < 2 else "options"
            file = replace(file, file_name=fields.text(f"{collection}.fileName") or file.file_name)
            return replace(prepared, body=file_attachment(file), recipient=file.file_name)
        if key not in _ATTACHING:
            return prepared
        files = await attached_files(call, index, _attachment_names(fields))
        if not files:
            return prepared
        attached: JsonObject = {"attachments": [file_attachment(file) for file in files]}
        if key == "draft.create":
            return replace(prepared, body={**prepared.body, **attached})
        message = prepared.body.get("message")
        message = {**message, **attached} if isinstance(message, Mapping) else attached
        return replace(prepared, body={**prepared.body, "message": message})

    async def run(self, call: StepCall) -> NodeResult:
        """Proposes one message or call for each item, or reads."""
        node = NodeDefinition(call.step.name, call.version, call.first.tree)
        key = self.operation_key(node)
        if key in ("message.getMime", "messageAttachment.download"):
            return await downloaded(
                call, self.operations[key].choose_path or message_path, is_message=key == "message.getMime"
            )
        if key in _SENT:
            return await _sent(call, key)
        result = await super().run(call)
        collection = "additionalFields" if call.version < 2 else "options"
        attached = call.first.get(f"{collection}.downloadAttachments") is True
        mime = key == "message.get" and call.first.get("options.getMimeContent") is not None
        if self.operations[key].reads and (attached or mime):
            return await with_files(call, result, collection, attachments=attached, mime=mime)
        return result


def _attachment_names(fields: ServiceFields) -> list[str]:
    rows = fields.rows("additionalFields.attachments.attachments")
    return [row.text("binaryPropertyName") for row in rows if row.text("binaryPropertyName")]


async def _sent(call: StepCall, key: str) -> NodeResult:
    """Proposes one message for each item."""
    account, item_proposals = account_of(call), ItemProposals(call)
    settings: JsonObject = {"operation": key, "version": call.version, "parameters": {}}
    for index in range(len(call.items)):
        fields = ServiceFields(call.params(index), call.version, {})
        try:
            command = new_mail(fields) if key == "message.send" else await reply_mail(call, fields, account)
            files = await attached_files(call, index, _attachment_names(fields))
        except (ItemFailed, InvalidMail) as failure:
            item_proposals.fail_item(index, str(failure))
            continue
        propose_mail(item_proposals, account, index, replace(command, attachments=files), settings)
    return item_proposals.result()
