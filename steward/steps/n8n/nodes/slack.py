"""The node slack: messages, channels, reactions and users, with the app's bot token."""

from collections.abc import Iterable, Mapping, Sequence

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem

_WHERE = {"channelId": "which channel it means"}
_WHEN = _WHERE | {"timestamp": "which message it means"}
_COPIED = ("link_names", "mrkdwn", "unfurl_links", "unfurl_media", "icon_emoji", "icon_url", "username")
_COLLECTIONS = {
    "otherOptions": frozenset(
        (
            *_COPIED, "thread_ts", "make_reply", "reply_broadcast", "parse", "sendAsUser", "botProfile",
            "ephemeral", "includeLinkToWorkflow",
        )
    ),
    "updateFields": frozenset(("link_names", "parse")),
    "filters": frozenset(("excludeArchived", "types", "inclusive", "latest", "oldest")),
    "options": frozenset(("includeNumMembers",)),
}  # fmt: skip
_NAMES = (
    "authentication resource operation select channel channelId user text messageType blocksUi blocksJson"
    " attachments attachmentsJson jsonParameters otherOptions updateFields as_user username ts timestamp"
    " returnAll limit filters name channelVisibility userIds purpose topic options"
)


def _channel(fields: ServiceFields) -> str:
    """Returns the channel or user in Slack's form: `#name`, `@name` or an id."""
    if fields.version < 2:
        return fields.text("channel") or fields.text("channelId")
    is_person = fields.text("select") == "user"
    path = "user" if is_person else "channelId"
    text, mode = fields.text(path).strip(), fields.mode(path)
    if mode == "url":
        return text.rstrip("/").rpartition("/")[2]
    mark = {"username": "@", "name": "#"}.get(mode, "")
    return text if not mark or not text or text.startswith(mark) else f"{mark}{text}"


def _receiver(fields: ServiceFields) -> str:
    channel = _channel(fields)
    if not channel:
        raise ItemFailed("This step does not say which channel or person it writes to. Fill it in.")
    return channel


def _attachments(fields: ServiceFields) -> list[AnyJson] | None:
    """Returns the attachments; the node nests their fields one level deeper than Slack does."""
    if fields.version < 2 and fields.flag("jsonParameters"):
        parsed = fields.json("attachmentsJson", "Attachments")
        return parsed if isinstance(parsed, list) else None
    rows = fields.value("attachments")
    if isinstance(rows, Mapping):
        return [rows]
    attachments = []
    for row in rows if isinstance(rows, list) else ():
        attachment = dict(row) if isinstance(row, Mapping) else {}
        nested = attachment.get("fields")
        if isinstance(nested, Mapping):
            attachment["fields"] = nested.get("item", [])
        attachments.append(attachment)
    return attachments or None


def _blocks(fields: ServiceFields) -> list[AnyJson] | None:
    """Returns the blocks, given as a list or as the JSON of Slack's Block Kit Builder. Raises ItemFailed."""
    if fields.version < 2:
        parsed = fields.json("blocksJson", "Blocks") if fields.flag("jsonParameters") else None
    else:
        parsed = fields.json("blocksUi", "Blocks")
    blocks = parsed.get("blocks") if isinstance(parsed, Mapping) else parsed
    if parsed is not None and not isinstance(blocks, list):
        raise ItemFailed("“Blocks” holds no list of blocks. Copy what the Block Kit Builder shows.")
    return blocks


def _content(fields: ServiceFields) -> JsonObject:
    """Returns the text, blocks and attachments that the message type includes."""
    kind = fields.text("messageType", "text") if fields.version >= 2 else ""
    content: dict[str, JsonValue] = {"text": fields.value("text")}
    if kind in ("", "block"):
        content["blocks"] = _blocks(fields)
    if kind in ("", "attachment"):
        content["attachments"] = _attachments(fields)
    return content


def _options(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the members that options add to a message's body."""
    options = fields.options("otherOptions", *_COPIED, "reply_broadcast")
    chosen = fields.options("otherOptions")
    reply = chosen.get("thread_ts", chosen.get("make_reply"))
    if isinstance(reply, Mapping):
        options |= {name: value for name, value in _inner(reply, "replyValues").items() if value != ""}
    elif reply is not None:
        options["thread_ts"] = str(reply)
    if chosen.get("sendAsUser"):
        options["username"] = chosen["sendAsUser"]
    profile = _inner(chosen.get("botProfile"), "imageValues")
    options |= {name: profile[name] for name in ("icon_emoji", "icon_url") if profile.get(name)}
    return options


def _inner(value: JsonValue, name: str) -> JsonObject:
    inner = value.get(name) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _ephemeral(fields: ServiceFields) -> JsonObject:
    values = _inner(fields.options("otherOptions").get("ephemeral"), "ephemeralValues")
    return values if values.get("ephemeral", True) else {}


def _post(fields: ServiceFields) -> JsonObject:
    body = {"channel": _receiver(fields), **_content(fields), **_options(fields)}
    if fields.version < 2 and fields.flag("as_user"):
        body["as_user"] = True
    elif fields.version < 2 and fields.text("username"):
        body["username"] = fields.text("username")
    person = _ephemeral(fields).get("user", fields.value("user") if fields.version < 2 else None)
    if isinstance(person, Mapping):
        person = person.get("value")
    return body | ({"user": person} if person else {})


def _post_path(fields: ServiceFields) -> str:
    return "/chat.postEphemeral" if _ephemeral(fields).get("user") else "/chat.postMessage"


def _update(fields: ServiceFields) -> dict[str, JsonValue]:
    options = fields.options("updateFields", "link_names", "parse") | fields.options("otherOptions", *_COPIED)
    return {"channel": _receiver(fields), "ts": fields.value("ts"), **_content(fields), **options}


def _answered(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    """Returns the response; from version 2 on its timestamp is named `message_timestamp`."""
    item = dict(response) if isinstance(response, Mapping) else {}
    if fields.version >= 2 and "ts" in item:
        item["message_timestamp"] = item.pop("ts")
    return [item]


def _next_page(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    cursor = _inner(response, "response_metadata").get("next_cursor")
    return {**query, "cursor": str(cursor)} if cursor else None


def _members(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
    members = response.get("members") if isinstance(response, Mapping) else None
    return [{"member": member} for member in (members if isinstance(members, list) else ())]


def _filters(fields: ServiceFields) -> dict[str, JsonValue]:
    chosen = fields.options("filters")
    types = chosen.get("types")
    return {
        "exclude_archived": chosen.get("excludeArchived"),
        "types": ",".join(map(str, types)) if isinstance(types, list) else types,
        "limit": 200,
    }


def _message_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    target = {"user": "user", "channel": "channelId"}.get(str(node.get("select", "channel")), "channelId")
    paths = ("channel", "channelId") if node.version < 2 else (f"{target}.value", target)
    if all(node.get(path) in (None, "", "=") or isinstance(node.get(path), Mapping) for path in paths):
        message = "It does not say which channel or person it writes to, so it would fail."
        yield StepProblem("warning", "parameter", f"{message} Fill it in in n8n and import it again.")
    if node.version < 2 and not node.get("jsonParameters") and node.get("blocksUi.blocksValues"):
        message = "Its blocks are written in the form of an old version. Write them as JSON."
        yield StepProblem("error", "parameter", message)
    is_text = node.get("messageType", "text") == "text"
    if node.version >= 2.1 and is_text and node.get("otherOptions.includeLinkToWorkflow", True):
        message = "n8n adds a line that links to the workflow, which is left out here. Nothing to do."
        yield StepProblem("note", "parameter", message)


def _send(path: str, needed: Mapping[str, str], items: str = "", **body: str) -> ServiceOperation:
    """Returns an operation on a channel."""
    return ServiceOperation("POST", path, body, items, recipient="channelId", needed=needed)


_POST = ServiceOperation(
    "POST",
    "",
    _post,
    recipient=_channel,
    text="text",
    to_items=_answered,
    choose_path=_post_path,
    check=_message_problems,
)
_CHANNEL, _MESSAGE = {"channel": "channelId"}, {"channel": "channelId", "timestamp": "timestamp"}
_OPERATIONS = {
    "message.post": _POST,
    "message.postEphemeral": ServiceOperation(
        "POST", "/chat.postEphemeral", _post, recipient=_channel, text="text", to_items=_answered
    ),
    "message.update": ServiceOperation(
        "POST", "/chat.update", _update, recipient=_channel, text="text", to_items=_answered,
        needed={"ts": "which message it changes"},
    ),
    "message.delete": ServiceOperation(
        "POST", "/chat.delete", {"channel": _receiver, "ts": "timestamp"}, recipient=_channel,
        needed={"timestamp": "which message it deletes"}, to_items=_answered,
    ),
    "message.getPermalink": ServiceOperation(
        "GET", "/chat.getPermalink", {"channel": "channelId", "message_ts": "timestamp"}, needed=_WHEN
    ),
    "channel.get": ServiceOperation(
        "GET", "/conversations.info", {**_CHANNEL, "include_num_members": "options.includeNumMembers"},
        "channel", needed=_WHERE,
    ),
    "channel.getAll": ServiceOperation(
        "GET", "/conversations.list", _filters, "channels", next_page=_next_page
    ),
    "channel.history": ServiceOperation(
        "GET", "/conversations.history",
        {
            **_CHANNEL, "inclusive": "filters.inclusive", "latest": "filters.latest",
            "oldest": "filters.oldest",
        },
        "messages", needed=_WHERE, next_page=_next_page,
    ),
    "channel.replies": ServiceOperation(
        "GET", "/conversations.replies", {**_CHANNEL, "ts": "ts"}, "messages", next_page=_next_page,
        needed=_WHERE | {"ts": "which message it means"},
    ),
    "channel.member": ServiceOperation(
        "GET", "/conversations.members", _CHANNEL, to_items=_members, needed=_WHERE, next_page=_next_page
    ),
    "channel.create": ServiceOperation(
        "POST", "/conversations.create",
        {"name": "channelId", "is_private": lambda fields: fields.text("channelVisibility") == "private"},
        "channel", recipient="channelId", needed={"channelId": "the name of the channel"},
    ),
    "channel.archive": _send("/conversations.archive", _WHERE, **_CHANNEL),
    "channel.unarchive": _send("/conversations.unarchive", _WHERE, **_CHANNEL),
    "channel.join": _send("/conversations.join", _WHERE, "channel", **_CHANNEL),
    "channel.leave": _send("/conversations.leave", _WHERE, **_CHANNEL),
    "channel.rename": _send("/conversations.rename", _WHERE, "channel", **_CHANNEL, name="name"),
    "channel.setPurpose": _send(
        "/conversations.setPurpose", _WHERE, "channel", **_CHANNEL, purpose="purpose"
    ),
    "channel.setTopic": _send("/conversations.setTopic", _WHERE, "channel", **_CHANNEL, topic="topic"),
    "channel.invite": ServiceOperation(
        "POST", "/conversations.invite",
        {**_CHANNEL, "users": lambda fields: ",".join(map(str, fields.value("userIds") or ()))},
        "channel", recipient="channelId", needed=_WHERE,
    ),
    "reaction.add": _send("/reactions.add", _WHEN, **_MESSAGE, name="name"),
    "reaction.remove": _send("/reactions.remove", _WHEN, **_MESSAGE, name="name"),
    "reaction.get": ServiceOperation("GET", "/reactions.get", _MESSAGE, needed=_WHEN),
    "user.info": ServiceOperation(
        "GET", "/users.info", {"user": "user"}, "user", needed={"user": "which person it means"}
    ),
    "user.getProfile": ServiceOperation(
        "GET", "/users.profile.get", {"user": "user"}, "profile", needed={"user": "which person it means"}
    ),
    "user.getPresence": ServiceOperation(
        "GET", "/users.getPresence", {"user": "user"}, needed={"user": "which person it means"}
    ),
    "user.getAll": ServiceOperation(
        "GET", "/users.list", {"limit": lambda fields: 200}, "members", next_page=_next_page
    ),
}  # fmt: skip
_DEFAULTS = {"message": "post", "channel": "create", "user": "info", "reaction": "add"}

_SHOWN_FOR = {
    "filters": ("channel.getAll", "channel.history", "channel.replies"),
    "updateFields": ("message.update",),
}


class SlackNode(ServiceNode):
    """Supports messages, channels, reactions and users, but not files, stars and groups."""

    types = ("slack",)
    versions = (1, 2, 2.1, 2.2, 2.3, 2.4)
    connector = "slack"
    service = "Slack"
    parameters = frozenset(_NAMES.split(" "))
    collections = _COLLECTIONS
    shown_for = _SHOWN_FOR
    default_resource = "message"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
