"""The node mattermost: messages, channels, users and reactions on the bound server."""

from collections.abc import Iterable, Mapping

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_API = "/api/v4"
_PAGE = 60
_WHERE = {"channelId": "which channel it means"}
_NAMES = (
    "authentication resource operation channelId message attachments otherOptions userId postId teamId"
    " displayName name type options returnAll limit email emojiName resolveData sort additionalFields"
)
# Filters of a list of users, with the API's names.
_USER_FILTERS = {
    "sort": "sort",
    "inTeam": "in_team",
    "notInTeam": "not_in_team",
    "inChannel": "in_channel",
    "notInChannel": "not_in_channel",
}
_COLLECTIONS = {
    "otherOptions": frozenset(("make_comment",)),
    "additionalFields": frozenset(_USER_FILTERS),
}


def _attachments(fields: ServiceFields) -> list[AnyJson]:
    """Returns the attachments; the node nests their fields one level deeper than Mattermost does."""
    rows = fields.value("attachments")
    attachments = []
    for row in rows if isinstance(rows, list) else ():
        attachment = dict(row) if isinstance(row, Mapping) else {}
        for name in ("fields", "actions"):
            nested = attachment.get(name)
            if isinstance(nested, Mapping):
                attachment[name] = nested.get("item", [])
        attachments.append(attachment)
    return attachments


def _post(fields: ServiceFields) -> JsonObject:
    body = {"channel_id": fields.value("channelId"), "message": fields.value("message")}
    attachments = _attachments(fields)
    if attachments:
        body["props"] = {"attachments": attachments}
    if reply := fields.text("otherOptions.make_comment"):
        body["root_id"] = reply
    return body


def _ephemeral(fields: ServiceFields) -> JsonObject:
    post = {"channel_id": fields.value("channelId"), "message": fields.value("message")}
    return {"user_id": fields.value("userId"), "post": post}


def _channel(fields: ServiceFields) -> JsonObject:
    kind = "O" if fields.text("type", "public") == "public" else "P"
    names = {"team_id": "teamId", "name": "channel", "display_name": "displayName"}
    return {name: fields.value(path) for name, path in names.items()} | {"type": kind}


def _next_page(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
    if not isinstance(response, list) or len(response) < _PAGE:
        return None
    return {**query, "page": str(int(query.get("page", "0")) + 1)}


def _page(fields: ServiceFields) -> dict[str, JsonValue]:
    chosen = fields.options("additionalFields", *_USER_FILTERS)
    return {"per_page": _PAGE, **{_USER_FILTERS[name]: value for name, value in chosen.items()}}


def _member_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("resolveData", True) is not False:
        message = "It reads the person of each member, which is not supported: only ids are read."
        todo = "Read the users in this channel instead, or switch “Resolve Data” off."
        yield StepProblem("error", "parameter", f"{message} {todo}")


_OPERATIONS = {
    "message.post": ServiceOperation(
        "POST", f"{_API}/posts", _post, recipient="channelId", text="message", needed=_WHERE
    ),
    "message.postEphemeral": ServiceOperation(
        "POST", f"{_API}/posts/ephemeral", _ephemeral, recipient="channelId", text="message", needed=_WHERE
    ),
    "message.delete": ServiceOperation("DELETE", f"{_API}/posts/{{postId}}"),
    "channel.create": ServiceOperation("POST", f"{_API}/channels", _channel, recipient="channel"),
    "channel.addUser": ServiceOperation(
        "POST", f"{_API}/channels/{{channelId}}/members", {"user_id": "userId"}, recipient="channelId"
    ),
    "channel.delete": ServiceOperation("DELETE", f"{_API}/channels/{{channelId}}", recipient="channelId"),
    "channel.restore": ServiceOperation(
        "POST", f"{_API}/channels/{{channelId}}/restore", recipient="channelId"
    ),
    "channel.members": ServiceOperation(
        "GET", f"{_API}/channels/{{channelId}}/members", _page, next_page=_next_page, check=_member_problems
    ),
    "channel.statistics": ServiceOperation("GET", f"{_API}/channels/{{channelId}}/stats"),
    "user.getByEmail": ServiceOperation("GET", f"{_API}/users/email/{{email}}"),
    "user.getAll": ServiceOperation("GET", f"{_API}/users", _page, next_page=_next_page),
    "user.deactive": ServiceOperation("DELETE", f"{_API}/users/{{userId}}", recipient="userId"),
    "reaction.create": ServiceOperation(
        "POST",
        f"{_API}/reactions",
        {"user_id": "userId", "post_id": "postId", "emoji_name": "emojiName"},
        needed={"postId": "which message it means"},
    ),
    "reaction.delete": ServiceOperation(
        "DELETE", f"{_API}/users/{{userId}}/posts/{{postId}}/reactions/{{emojiName}}"
    ),
    "reaction.getAll": ServiceOperation("GET", f"{_API}/posts/{{postId}}/reactions"),
}
_DEFAULTS = {"message": "post", "channel": "create", "user": "create", "reaction": "create"}


class MattermostNode(ServiceNode):
    """Supports messages with attachments, but not searching and creating users."""

    types = ("mattermost",)
    connector = "mattermost"
    service = "Mattermost"
    parameters = frozenset((*_NAMES.split(" "), "channel"))
    collections = _COLLECTIONS
    default_resource = "message"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
