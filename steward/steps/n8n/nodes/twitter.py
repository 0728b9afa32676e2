"""The node twitter: posts on X, by a bound account."""

import re
from collections.abc import Iterable, Mapping

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
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
    """Returns the id of a post that is named by its id or its address."""
    inner = value.get("value") if isinstance(value, Mapping) else value
    match = _ID.match(str(inner).strip())
    return match[1] if match else str(inner)


def _new_tweet(fields: ServiceFields) -> JsonObject:
    """Returns the post; version 1 names what it answers among its options by the id alone."""
    return {"text": fields.text("text"), **_NEW.read(fields)}


def _checked(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _NEW.check(node)
    if node.version < 2:
        words = (
            "X has ended the interface that this version of the step calls. It is posted by the present one."
        )
        yield StepProblem("warning", "parameter", f"{words} Choose an account with the right to post.")


def _data(answer: JsonValue, fields: ServiceFields) -> list[dict[str, JsonValue]]:
    data = answer.get("data") if isinstance(answer, Mapping) else None
    return [dict(data)] if isinstance(data, Mapping) else [{}]


_OPERATIONS = {
    "tweet.create": ServiceOperation(
        "POST", "/tweets", _new_tweet, recipient="additionalFields.inReplyToStatusId", text="text",
        needed={"text": "the text of the post"}, answered=_data, check=_checked,
    ),
    "tweet.delete": ServiceOperation(
        "DELETE", "/tweets/", recipient="tweetDeleteId", answered=_data,
        choose_path=lambda fields: f"/tweets/{_tweet_id(fields.value('tweetDeleteId'))}",
        needed={"tweetDeleteId": "which post it means"},
    ),
}  # fmt: skip


_DEFAULTS = {"tweet": "create"}


class TwitterNode(HttpServiceNode):
    """Creates and deletes posts; pictures, likes, messages and searches are not supported."""

    types = ("twitter",)
    versions = (1, 2)
    service = "X"
    address = "https://api.x.com/2"
    credential_types = ("twitterOAuth2Api",)
    parameters = frozenset(_NAMES.split())
    default_resource = "tweet"
    default_operations = _DEFAULTS
    operations = _OPERATIONS

    def lacks_answer(self, node: NodeDefinition) -> bool:
        """Version 1 hands on an answer of another shape, which X no longer gives."""
        return node.version < 2

    def account(self, node: NodeDefinition) -> JsonObject | None:
        """Returns the sign-in of the present interface, for every version."""
        return super().account(
            NodeDefinition(node.name, node.version, node.parameters, self.credential_types)
        )
