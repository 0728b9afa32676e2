"""The node telegram: messages, chats and replies to callbacks, through the bound bot."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from steward.connectors.base.service_calls import SendCall
from steward.model.json import JsonObject, JsonValue
from steward.steps.n8n import item_files
from steward.steps.n8n.drive_fields import call_file, file_of_run
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation, ServicePort, parsed_response
from steward.steps.workflow.external_calls import read_items
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    paired_with,
)

_FILE_PATH = "/file/"  # path under which the connector serves files sent to the bot
_CHAT = {"chatId": "which chat it writes to"}
_MESSAGE = _CHAT | {"messageId": "which message it means"}
_ADDITIONAL = frozenset(
    [
        "appendAttribution",
        "caption",
        "disable_notification",
        "disable_web_page_preview",
        "duration",
        "fileName",
        "height",
        "message_thread_id",
        "parse_mode",
        "performer",
        "protect_content",
        "reply_to_message_id",
        "thumb",
        "title",
        "width",
        "cache_time",
        "show_alert",
        "text",
        "url",
        "has_spoiler",
        "supports_streaming",
    ]
)
_NAMES = (
    "resource operation chatId text additionalFields replyMarkup inlineKeyboard replyKeyboard forceReply"
    " replyKeyboardOptions replyKeyboardRemove binaryData binaryPropertyName file media latitude longitude"
    " action messageId inlineMessageId messageType userId queryId results fileId download title description"
)


def _options(fields: ServiceFields) -> dict[str, JsonValue]:
    options = fields.options("additionalFields")
    return {name: value for name, value in options.items() if name not in ("appendAttribution", "fileName")}


def _buttons(fields: ServiceFields, path: str) -> list[JsonValue]:
    """Returns rows of buttons; the node nests their actions one level deeper than Telegram does."""
    return [
        [
            {"text": button.text("text"), **button.options("additionalFields")}
            for button in row.rows("row.buttons")
        ]
        for row in fields.rows(f"{path}.rows")
    ]


def _markup(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the keyboard of a message, if it has one."""
    match fields.text("replyMarkup", "none"):
        case "inlineKeyboard":
            markup: JsonValue = {"inline_keyboard": _buttons(fields, "inlineKeyboard")}
        case "replyKeyboard":
            keyboard = {"keyboard": _buttons(fields, "replyKeyboard")}
            markup = keyboard | fields.options("replyKeyboardOptions")
        case "forceReply":
            markup = fields.options("forceReply")
        case "replyKeyboardRemove":
            markup = fields.options("replyKeyboardRemove")
        case _:
            return {}
    return {"reply_markup": markup}


def _text(fields: ServiceFields) -> dict[str, JsonValue]:
    body = {"chat_id": fields.value("chatId"), "text": fields.value("text"), **_markup(fields)}
    options = _options(fields)
    # n8n's default
    options["parse_mode"] = options.get("parse_mode") or "Markdown"
    return body | options


def _edited(fields: ServiceFields) -> dict[str, JsonValue]:
    body: dict[str, JsonValue] = {"text": fields.value("text")}
    if fields.text("messageType", "message") == "inlineMessage":
        body["inline_message_id"] = fields.value("inlineMessageId")
    else:
        body |= {"chat_id": fields.value("chatId"), "message_id": fields.value("messageId")}
    return body | _markup(fields) | _options(fields)


def _media_group(fields: ServiceFields) -> JsonObject:
    media = [
        {"type": row.value("type"), "media": row.value("media"), **row.options("additionalFields")}
        for row in fields.rows("media.media")
    ]
    return {"chat_id": fields.value("chatId"), "media": media, **_options(fields)}


def _inline_reply(fields: ServiceFields) -> JsonObject:
    results = fields.json("results", "Results")
    return {"inline_query_id": fields.value("queryId"), "results": results, **_options(fields)}


def _administrators(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    members = response.get("result") if isinstance(response, Mapping) else None
    return [
        member for member in (members if isinstance(members, list) else ()) if isinstance(member, Mapping)
    ]


def _text_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("additionalFields.appendAttribution", node.version >= 1.1):
        message = "n8n adds a line that says who sent the message, which is left out here. Nothing to do."
        yield StepProblem("note", "parameter", message)


def _sent(method: str, needed: Mapping[str, str], **body: str) -> ServiceOperation:
    """Returns an operation on a chat, with the step's options."""

    def fields_of(fields: ServiceFields) -> dict[str, JsonValue]:
        return {name: fields.value(path) for name, path in body.items()} | _markup(fields) | _options(fields)

    return ServiceOperation("POST", f"/{method}", fields_of, recipient="chatId", needed=needed)


def _file(method: str, name: str) -> ServiceOperation:
    """Returns an operation that sends the item's file, or one given by URL or Telegram id."""

    def fields_of(fields: ServiceFields) -> dict[str, JsonValue]:
        is_own = fields.flag("binaryData")  # the file itself is a separate part of the request
        body = {"chat_id": fields.value("chatId"), name: None if is_own else fields.value("file")}
        return body | _markup(fields) | _options(fields)

    return ServiceOperation(
        "POST",
        f"/{method}",
        fields_of,
        recipient="chatId",
        text="additionalFields.caption",
        needed=_CHAT,
    )


_FILES = {
    f"message.send{name.capitalize()}": name
    for name in ("photo", "document", "video", "audio", "animation", "sticker")
}
_OPERATIONS = {
    "message.sendMessage": ServiceOperation(
        "POST", "/sendMessage", _text, recipient="chatId", text="text", needed=_CHAT, check=_text_problems
    ),
    "message.editMessageText": ServiceOperation(
        "POST", "/editMessageText", _edited, recipient="chatId", text="text"
    ),
    **{key: _file(key.partition(".")[2], name) for key, name in _FILES.items()},
    "message.sendMediaGroup": ServiceOperation(
        "POST", "/sendMediaGroup", _media_group, recipient="chatId", needed=_CHAT
    ),
    "message.sendLocation": _sent(
        "sendLocation", _CHAT, chat_id="chatId", latitude="latitude", longitude="longitude"
    ),
    "message.sendChatAction": _sent("sendChatAction", _CHAT, chat_id="chatId", action="action"),
    "message.deleteMessage": _sent("deleteMessage", _MESSAGE, chat_id="chatId", message_id="messageId"),
    "message.pinChatMessage": _sent("pinChatMessage", _MESSAGE, chat_id="chatId", message_id="messageId"),
    "message.unpinChatMessage": _sent("unpinChatMessage", _MESSAGE, chat_id="chatId", message_id="messageId"),
    "chat.get": ServiceOperation("GET", "/getChat", {"chat_id": "chatId"}, needed=_CHAT),
    "chat.member": ServiceOperation(
        "GET", "/getChatMember", {"chat_id": "chatId", "user_id": "userId"}, needed=_CHAT
    ),
    "chat.administrators": ServiceOperation(
        "GET", "/getChatAdministrators", {"chat_id": "chatId"}, needed=_CHAT, to_items=_administrators
    ),
    "chat.leave": _sent("leaveChat", _CHAT, chat_id="chatId"),
    "chat.setDescription": _sent("setChatDescription", _CHAT, chat_id="chatId", description="description"),
    "chat.setTitle": _sent("setChatTitle", _CHAT, chat_id="chatId", title="title"),
    "callback.answerQuery": _sent(
        "answerCallbackQuery", {"queryId": "which query it answers"}, callback_query_id="queryId"
    ),
    "callback.answerInlineQuery": ServiceOperation(
        "POST", "/answerInlineQuery", _inline_reply, needed={"queryId": "which query it answers"}
    ),
    "file.get": ServiceOperation(
        "GET", "/getFile", {"file_id": "fileId"}, needed={"fileId": "which file it means"}
    ),
}  # fmt: skip
_DEFAULTS = {"message": "sendMessage", "chat": "get", "callback": "answerQuery", "file": "get"}
_COLLECTIONS = {"additionalFields": _ADDITIONAL}


class TelegramNode(ServiceNode):
    """Supports messages, chats, and files of the item or given by URL."""

    types = ("telegram",)
    versions = (1, 1.1, 1.2)
    connector = "telegram"
    service = "Telegram"
    parameters = frozenset(_NAMES.split(" "))
    collections = _COLLECTIONS
    default_resource = "message"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
    sends_files = frozenset(_FILES)

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item with the item's file that it sends. Raises ItemFailed."""
        prepared = self.operations[key].call(fields)
        if key not in _FILES or not fields.flag("binaryData"):
            return prepared
        name, content, kind = await file_of_run(call, index, fields, fields.text("binaryPropertyName"))
        name = fields.text("additionalFields.fileName") or name or _FILES[key]
        return replace(prepared, file=replace(call_file(name, content, kind), field=_FILES[key], name=name))

    async def run(self, call: StepCall) -> NodeResult:
        """Fetches a file for each item, or makes one call or read for each."""
        node = NodeDefinition(call.step.name, call.version, call.first.tree)
        if self.operation_key(node) != "file.get" or call.first.get("download", True) is not True:
            return await super().run(call)
        port = self.port(call)

        async def fetch(index: int, item: Item) -> list[Item]:
            fields = ServiceFields(call.params(index), call.version, {}, item.json)
            request = self.operations["file.get"].call(fields)
            response = parsed_response(
                (await port.read(request.path, request.query)).body.decode("utf-8", "replace")
            )
            path = js.text(js.get_path(response, "result.file_path"))
            content = (await port.read(f"{_FILE_PATH}{quote(path)}", {})).body
            file = await item_files.store(call, content, file_name=path.rpartition("/")[2])
            return [Item(dict(response), paired_with(index), binary={"data": file})]

        return await read_items(call, fetch)
