"""Fakes that only receive messages: Slack's incoming webhook, and a receiver of signed webhooks."""

import hmac
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from steward.fake_platforms.exchange import FakeRequest, FakeResponse, Row, text_response

_MAX_BYTES = 64 * 1024
_MAX_MESSAGES = 1_000
_SIGNATURE_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


def _instant(now: Callable[[], datetime]) -> str:
    return now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class FakeSlack:
    """The incoming webhook of one channel, and the messages it received."""

    def __init__(self, path: str, now: Callable[[], datetime]) -> None:
        self._path = path
        self._now = now
        self.inbox: list[Row] = []

    def respond(self, request: FakeRequest) -> FakeResponse:
        """Serves `POST /slack/services/…`: 200 `ok`; another path 404; an invalid message 400."""
        if not hmac.compare_digest(request.path.encode(), self._path.encode()):
            return text_response(404, "no_service")
        if request.method != "POST":
            return text_response(405, "method_not_allowed")
        message = request.json()
        if not isinstance(message, dict) or not isinstance(message.get("text"), str):
            return text_response(400, "invalid_payload")
        lines = _block_texts(message) or [message["text"]]
        del self.inbox[:-_MAX_MESSAGES]
        self.inbox.append({"at": _instant(self._now), "text": "\n".join(lines), "message": message})
        return text_response(200, "ok")


def _block_texts(message: Mapping[str, Any]) -> list[str]:
    """Returns the visible texts of a message's blocks, in order."""
    texts: list[str] = []
    blocks = message.get("blocks")
    for block in blocks if isinstance(blocks, list) else ():
        parts = [block.get("text"), *(block.get("elements") or ())] if isinstance(block, dict) else ()
        texts += [str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part]
    return texts


class FakeReceiver:
    """An address that receives signed webhooks and stores their headers and bodies."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.deliveries: list[Row] = []

    def respond(self, request: FakeRequest) -> FakeResponse:
        """Serves `POST /hooks`: 204; over 64 KiB 413."""
        if request.method != "POST":
            return text_response(405, "method not allowed")
        if len(request.body) > _MAX_BYTES:
            return text_response(413, "too large")
        del self.deliveries[:-_MAX_MESSAGES]
        headers = {name: request.headers.get(name) for name in _SIGNATURE_HEADERS}
        text = request.body.decode("utf-8", "replace")
        self.deliveries.append({"at": _instant(self._now), "headers": headers, "body": text})
        return FakeResponse(204)
