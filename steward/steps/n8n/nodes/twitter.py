"""The node twitter: posts on X, through a bound account."""

import re
from collections.abc import Iterable, Mapping

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.calls.tables import CallForm, elements, get, get_all, token_pages
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, Shape
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.step_types import NodeDefinition, StepProblem

_PAGE = 100
_NAMES = (
    "authentication resource operation text noticeLocation additionalFields inReplyToStatusId tweetDeleteId"
    " tweetId username me user searchText returnAll limit"
)
_ID = re.compile(r"(?:.*/status(?:es)?/)?(\d+)(?:[/?#].*)?\Z")
_REPLY: Mapping[str, AnyJson] = {
    "inReplyToStatusId": lambda value: {"reply": {"in_reply_to_tweet_id": _tweet_id(value)}},
    "inQuoteToStatusId": lambda value: {"quote_tweet_id": _tweet_id(value)},
}
_NEW = OptionTable("additionalFields", "", _REPLY)


def _tweet_id(value: JsonValue) -> str:
    """Returns the id of a post given by id or URL."""
    inner = value.get("value") if isinstance(value, Mapping) else value
    match = _ID.match(str(inner).strip())
    return match[1] if match else str(inner)


def _new_tweet(fields: ServiceFields) -> JsonObject:
    """Returns the post to create."""
    return {"text": fields.text("text"), **_NEW.read(fields)}


def _checked(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _NEW.check(node)
    if node.version < 2:
        message = (
            "X has ended the interface that this version of the step calls. It is posted by the present one."
        )
        yield StepProblem("warning", "parameter", f"{message} Choose an account with the right to post.")


def _data(response: JsonValue, fields: ServiceFields) -> list[dict[str, JsonValue]]:
    data = response.get("data") if isinstance(response, Mapping) else None
    return [dict(data)] if isinstance(data, Mapping) else [{}]


def _fields_of(name: str) -> Shape:
    return lambda value: {name: ",".join(map(str, value))} if isinstance(value, list) and value else {}


_SEARCH = OptionTable(
    "additionalFields", "sortOrder:sort_order startTime:start_time endTime:end_time",
    {"tweetFieldsObject": _fields_of("tweet.fields")},
)  # fmt: skip


def _present_only(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.version < 2:
        message = "It searches by an interface that X has ended. Add the step again in n8n."
        yield StepProblem("error", "parameter", message)


def _user_path(fields: ServiceFields) -> str:
    if fields.flag("me"):
        return "/users/me"
    user = path_segment(fields.text("user").removeprefix("@"), "user")
    return f"/users/by/username/{user}" if fields.mode("user") == "username" else f"/users/{user}"


_OPERATIONS = {
    "tweet.search": get_all(
        "/tweets/search/recent", "data", token_pages("meta.next_token", "next_token"),
        CallForm("searchText:query", (_SEARCH,), fixed={"max_results": _PAGE}), limit=50,
        needed="searchText", check=_present_only, to_items=elements("data"),
    ),
    "user.searchUser": get("", items="data", choose_path=_user_path, check=_present_only),
    "tweet.create": ServiceOperation(
        "POST", "/tweets", _new_tweet, recipient="additionalFields.inReplyToStatusId", text="text",
        needed={"text": "the text of the post"}, to_items=_data, check=_checked,
    ),
    "tweet.delete": ServiceOperation(
        "DELETE", "/tweets/", recipient="tweetDeleteId", to_items=_data,
        choose_path=lambda fields: f"/tweets/{_tweet_id(fields.value('tweetDeleteId'))}",
        needed={"tweetDeleteId": "which post it means"},
    ),
}  # fmt: skip


_DEFAULTS = {"tweet": "create"}


class TwitterNode(HttpServiceNode):
    """Creates, deletes and searches posts; does not support pictures, likes and direct messages."""

    types = ("twitter",)
    versions = (1, 2)
    service = "X"
    address = "https://api.x.com/2"
    credential_types = ("twitterOAuth2Api",)
    parameters = frozenset(_NAMES.split())
    default_resource = "tweet"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def lacks_response(self, node: NodeDefinition) -> bool:
        """Returns True for version 1, whose output has a form that X no longer returns."""
        return node.version < 2

    def account(self, node: NodeDefinition) -> JsonObject | None:
        """Returns the account of the current API, for every version."""
        return super().account(
            NodeDefinition(node.name, node.version, node.parameters, ("twitterOAuth2Api",))
        )
