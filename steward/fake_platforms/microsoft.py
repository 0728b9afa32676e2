"""A fake Teams channel behind a workflow address: accepts cards and stores them."""

import hmac
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from steward.fake_platforms.exchange import FakeChange, FakeRequest, FakeResponse, Row, json_response

_MAX_BYTES = 28 * 1024


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        if value.get("type") in ("TextBlock", "TextRun") and isinstance(value.get("text"), str):
            yield value["text"]
        if value.get("type") == "FactSet":
            yield from _fact_texts(value.get("facts"))
        for name in ("body", "items", "columns", "rows", "cells", "inlines"):
            yield from _texts(value.get(name))


def _fact_texts(facts: Any) -> Iterator[str]:
    for fact in facts if isinstance(facts, list) else ():
        if isinstance(fact, dict):
            yield f"{fact.get('title', '')}: {fact.get('value', '')}"


def _plain_text(card: Any) -> str:
    """Returns the visible text of a card, line by line."""
    return "\n".join(_texts(card))


class FakeTeams:
    """The workflows, and the messages that each received."""

    def __init__(self, workflows: dict[str, str], now: Callable[[], datetime]) -> None:
        self._signatures = workflows
        self._now = now
        self.inbox: dict[str, list[Row]] = {name: [] for name in workflows}

    def respond(self, request: FakeRequest) -> FakeResponse:
        """Serves `POST /teams/workflows/{name}?sig=…`: 202; wrong signature 401; over 28 KB 413."""
        name = request.path.removeprefix("/teams/workflows/").partition("/")[0]
        expected = self._signatures.get(name)
        if expected is None:
            return _refused(404, "WorkflowNotFound", f"The workflow '{name}' could not be found.")
        if request.method != "POST":
            return _refused(405, "MethodNotAllowed", "The method is not allowed.")
        if not hmac.compare_digest((request.first("sig") or "").encode(), expected.encode()):
            words = "The provided signature is not valid."
            return _refused(401, "DirectApiAuthorizationRequired", words)
        if len(request.body) > _MAX_BYTES:
            return _refused(413, "RequestEntityTooLarge", "The request content exceeded the limit.")
        message = request.json()
        if not isinstance(message, dict):
            return _refused(400, "InvalidRequestContent", "The request content is not valid JSON.")
        card = _first_card(message)
        text = _plain_text(card) if card is not None else str(message.get("text", ""))
        posted_at = self._now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        self.inbox[name].append({"at": posted_at, "card": card, "text": text})
        touched = FakeChange("message", len(self.inbox[name]), ("card",), {}, {"text": text})
        return FakeResponse(202, b"", {}, (touched,))


def _first_card(message: Row) -> Any:
    attachments = message.get("attachments")
    first = attachments[0] if isinstance(attachments, list) and attachments else {}
    return first.get("content") if isinstance(first, dict) else None


def _refused(status: int, code: str, message: str) -> FakeResponse:
    return json_response(status, {"error": {"code": code, "message": message}})
