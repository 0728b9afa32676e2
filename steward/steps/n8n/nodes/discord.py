"""The node discord: messages through a webhook or a bot, and a bot's channels and members."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from steward.connectors.base.service_calls import SendCall
from steward.model.json import JsonObject, JsonValue
from steward.steps.n8n.drive_fields import call_file, file_of_run
from steward.steps.n8n.service_fields import ServiceFields, fields_of_node
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation, ServicePort
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall, StepProblem

_FLAGS = {"SUPPRESS_EMBEDS": 1 << 2, "SUPPRESS_NOTIFICATIONS": 1 << 12}
_PAGE = 100
_NAMES = (
    "authentication resource operation webhookUri text content options embeds files guildId sendTo channelId"
    " userId messageId emoji name type returnAll limit simplify after before"
)
_COLLECTIONS = {
    "options": frozenset(
        [
            "allowedMentions",
            "attachments",
            "avatarUrl",
            "components",
            "embeds",
            "flags",
            "payloadJson",
            "username",
            "tts",
            "wait",
            "avatar_url",
            "message_reference",
            "bitrate",
            "nsfw",
            "parent_id",
            "position",
            "rate_limit_per_user",
            "topic",
            "user_limit",
            "filter",
            "simplify",
            "name",
        ]
    )
}


def _older(fields: ServiceFields) -> JsonObject:
    """Returns the body of a message of version 1, whose lists are JSON texts."""
    options = fields.options("options", "username", "tts", "flags")
    body = {
        "content": fields.text("text") or fields.text("content"),
        "avatar_url": fields.value("options.avatarUrl"),
        "embeds": fields.json("options.embeds", "Embeds"),
        "components": fields.json("options.components", "Components"),
        "allowed_mentions": fields.json("options.allowedMentions", "Allowed mentions"),
        "payload_json": fields.json("options.payloadJson", "JSON payload"),
    }
    return {name: value for name, value in {**options, **body}.items() if value not in (None, "")}


def _embed(fields: ServiceFields) -> JsonObject:
    if fields.text("inputMethod", "fields") == "json":
        parsed = fields.json("json", "Embed")
        if not isinstance(parsed, Mapping):
            raise ItemFailed("The JSON of an embed is not an object. Correct it.")
        return dict(parsed)
    embed = {name: fields.value(name) for name in ("title", "description", "url", "timestamp")}
    if color := fields.text("color").removeprefix("#"):
        try:
            embed["color"] = int(color, 16)
        except ValueError:
            raise ItemFailed(f"“{color[:40]}” is not a colour of an embed, such as #ff0000.") from None
    if author := fields.text("author"):
        embed["author"] = {"name": author}
    for name in ("image", "thumbnail", "video"):
        if address := fields.text(name):
            embed[name] = {"url": address}
    return {name: value for name, value in embed.items() if value not in (None, "")}


def _message(fields: ServiceFields) -> JsonObject:
    """Returns the body of a message of version 2."""
    body = {"content": fields.value("content"), **fields.options("options", "tts", "username", "avatar_url")}
    embeds = [_embed(row) for row in fields.rows("embeds.values")]
    if embeds:
        body["embeds"] = embeds
    names = fields.value("options.flags")
    if isinstance(names, list) and names:
        body["flags"] = sum(_FLAGS.get(str(name), 0) for name in set(names))
    if reply := fields.text("options.message_reference"):
        body["message_reference"] = {"message_id": reply, "guild_id": fields.text("guildId")}
    return body


def _file_names(fields: ServiceFields) -> list[str]:
    """Returns the names of the item's files that a message has."""
    return [row.text("inputFieldName") or "data" for row in fields.rows("files.values")]


def _webhook_query(fields: ServiceFields) -> dict[str, str]:
    return {"wait": "true"} if fields.flag("options.wait") else {}


def _success(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
    """Returns the message, or a success item if Discord's response is empty."""
    return [response] if isinstance(response, Mapping) and response else [{"success": True}]


def _message_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("options.attachments"):
        message = "It sends files with a setting of an older version. Add the step again in n8n."
        yield StepProblem("error", "binary", message)
    if len(_file_names(fields_of_node(node))) > 1:
        message = "It sends several files in one message. Make a step for each of them."
        yield StepProblem("error", "binary", message)
    if node.get("webhookUri"):
        message = "It posts to the webhook of the connection bound to it, not to the one in the file."
        yield StepProblem("note", "parameter", f"{message} Check that this is right.")
    if node.get("sendTo") == "user":
        message = (
            "It writes to a person, for which a conversation has to be opened first. Write to a channel."
        )
        yield StepProblem("error", "parameter", message)


def _channel(fields: ServiceFields) -> JsonObject:
    kind = fields.value("type")
    options = fields.options("options")
    return {"name": fields.value("name"), "type": int(str(kind)) if str(kind).isdigit() else None, **options}


def _channels(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
    """Returns the channels of a server, of the kinds that the step names if it names any."""
    kinds = fields.value("options.filter")
    names = {str(kind) for kind in kinds} if isinstance(kinds, list) else set()
    channels = response if isinstance(response, list) else []
    return [
        channel
        for channel in channels
        if isinstance(channel, Mapping) and (not names or str(channel.get("type")) in names)
    ]


def _shortened_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("options.simplify") or node.get("simplify"):
        message = "n8n passes on a part of each object that it reads. Here the whole object is passed on."
        yield StepProblem("note", "parameter", message)


def _next_messages(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    last_id = _last_id(response, "id")
    return {**query, "before": last_id} if last_id else None


def _next_members(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    last_id = _last_id(response, "user.id")
    return {**query, "after": last_id} if last_id else None


def _last_id(response: JsonValue, path: str) -> str:
    """Returns the id of the last object of a full page, or an empty text."""
    if not isinstance(response, list) or len(response) < _PAGE:
        return ""
    last_id = js.get_path(response[-1], path)
    return "" if js.is_missing(last_id) else js.text(last_id)


_WITH_FILES = frozenset(("webhook.sendLegacy", "message.send"))
_WHERE = {"channelId": "which channel it means"}
_OPERATIONS = {
    "webhook.send": ServiceOperation(
        "POST", "", _older, text="text", to_items=_success, check=_message_problems
    ),
    "webhook.sendLegacy": ServiceOperation(
        "POST", "", _message, text="content", to_items=_success, query=_webhook_query,
        check=_message_problems,
    ),
    "message.send": ServiceOperation(
        "POST", "/channels/{channelId}/messages", _message, recipient="channelId", text="content",
        needed=_WHERE, check=_message_problems,
    ),
    "message.deleteMessage": ServiceOperation(
        "DELETE", "/channels/{channelId}/messages/{messageId}", recipient="channelId", to_items=_success
    ),
    "message.get": ServiceOperation(
        "GET", "/channels/{channelId}/messages/{messageId}", check=_shortened_problems
    ),
    "message.getAll": ServiceOperation(
        "GET", "/channels/{channelId}/messages", {"limit": lambda fields: _PAGE}, next_page=_next_messages,
        check=_shortened_problems,
    ),
    "message.react": ServiceOperation(
        "PUT", "/channels/{channelId}/messages/{messageId}/reactions/{emoji}/@me", recipient="channelId",
        to_items=_success,
    ),
    "channel.create": ServiceOperation("POST", "/guilds/{guildId}/channels", _channel, recipient="name"),
    "channel.get": ServiceOperation("GET", "/channels/{channelId}"),
    "channel.getAll": ServiceOperation("GET", "/guilds/{guildId}/channels", to_items=_channels),
    "channel.update": ServiceOperation("PATCH", "/channels/{channelId}", _channel, recipient="channelId"),
    "channel.deleteChannel": ServiceOperation("DELETE", "/channels/{channelId}", recipient="channelId"),
    "member.getAll": ServiceOperation(
        "GET", "/guilds/{guildId}/members", {"limit": lambda fields: _PAGE}, next_page=_next_members,
        check=_shortened_problems,
    ),
}  # fmt: skip
_DEFAULTS = {"channel": "create", "message": "send", "member": "getAll", "webhook": "sendLegacy"}


class DiscordNode(ServiceNode):
    """Sends messages with a file through a webhook or a bot, but no messages to users."""

    types = ("discord",)
    versions = (1, 2)
    connector = "discord"
    service = "Discord"
    parameters = frozenset(_NAMES.split(" "))
    account_parameters = frozenset(("webhookUri",))
    collections = _COLLECTIONS
    default_resource = "channel"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def operation_key(self, node: NodeDefinition) -> str:
        """Returns the key of the operation; a webhook has only one in each version."""
        if node.version < 2:
            return "webhook.send"
        if node.get("authentication") == "webhook":
            return f"webhook.{node.get('operation', 'sendLegacy')}"
        return super().operation_key(node)

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the names of the files that its message has."""
        return _file_names(fields_of_node(node)) if self.operation_key(node) in _WITH_FILES else ()

    async def prepared(
        self, call: StepCall, index: int, port: ServicePort, fields: ServiceFields, key: str
    ) -> SendCall:
        """Returns the call of one item with the file that its message has. Raises ItemFailed."""
        prepared = self.operations[key].call(fields)
        names = _file_names(fields) if key in _WITH_FILES else []
        if not names:
            return prepared
        if len(names) > 1:
            raise ItemFailed("This step sends several files in one message. Make a step for each of them.")
        name, content, kind = await file_of_run(call, index, fields, names[0])
        file_name = name or names[0]
        file = replace(call_file(file_name, content, kind), field="files[0]", name=file_name)
        return replace(prepared, body={"payload_json": prepared.body}, file=file)
