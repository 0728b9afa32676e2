"""The requests and responses that all fake services share."""

import json
from dataclasses import dataclass, field
from typing import Any

_JSON_TYPE = "application/json; charset=UTF-8"

Row = dict[str, Any]


class ConnectionDropped(ConnectionError):
    """Raised when a fault closed the connection without a response."""


class ResponseTooLate(TimeoutError):
    """Raised when a caller in the same process stopped waiting before the response."""


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """A complete request."""

    method: str
    path: str
    raw_path: str
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: bytes
    scheme: str

    def first(self, name: str) -> str | None:
        """Returns the last value of a query parameter, which PHP reads; null without one."""
        values = [value for key, value in self.query if key == name]
        return values[-1] if values else None

    def json(self) -> Any:
        """Returns the body as JSON; null when it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class FakeChange:
    """An object that a write changed: the written fields before and after."""

    type: str
    id: int | str
    fields: tuple[str, ...]
    before: Row
    after: Row

    def as_row(self) -> Row:
        """Returns the form of a ledger entry's `objects`."""
        return {
            "type": self.type,
            "id": self.id,
            "fields": list(self.fields),
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, slots=True)
class FakeResponse:
    """A response, with the objects that changed for it."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    changed_objects: tuple[FakeChange, ...] = ()


def compact(value: Any) -> bytes:
    """Encodes a value as compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_response(
    status: int,
    value: Any,
    headers: dict[str, str] | None = None,
    *,
    changed_objects: tuple[FakeChange, ...] = (),
) -> FakeResponse:
    """Returns a response with JSON."""
    return FakeResponse(
        status, compact(value), {"content-type": _JSON_TYPE, **(headers or {})}, changed_objects
    )


def text_response(status: int, text: str, *, kind: str = "text/plain; charset=UTF-8") -> FakeResponse:
    """Returns a response with text of the given media type."""
    return FakeResponse(status, text.encode(), {"content-type": kind})
