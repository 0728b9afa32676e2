"""What every pretend service is asked and answers with; knows nothing of what any of them does."""

import json
from dataclasses import dataclass, field
from typing import Any

JSON_TYPE = "application/json; charset=UTF-8"

Row = dict[str, Any]


class Dropped(ConnectionError):
    """The pretend world closed the connection without answering, on request of a fault (contract 9.2)."""


class AnsweredLate(TimeoutError):
    """The caller in the same process did not wait as long as the answer takes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived, whole."""

    method: str
    path: str
    raw_path: str
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: bytes
    scheme: str

    def first(self, name: str) -> str | None:
        """The last value of a query parameter, as PHP and most servers read it; None when absent."""
        found = [value for key, value in self.query if key == name]
        return found[-1] if found else None

    def json(self) -> Any:
        """The body read as JSON, or None when it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Touched:
    """One object a write stored: the fields it wrote, as they were and as they became."""

    type: str
    id: int | str
    fields: tuple[str, ...]
    before: Row
    after: Row

    def as_row(self) -> Row:
        """The form of a ledger entry's `objects` (contract 9.2)."""
        return {
            "type": self.type,
            "id": self.id,
            "fields": list(self.fields),
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, with the objects that were changed on the way to it."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    touched: tuple[Touched, ...] = ()


def compact(value: Any) -> bytes:
    """JSON as short as it gets, in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def answer_json(
    status: int,
    value: Any,
    headers: dict[str, str] | None = None,
    *,
    touched: tuple[Touched, ...] = (),
) -> Answer:
    """An answer that carries JSON."""
    return Answer(status, compact(value), {"content-type": JSON_TYPE, **(headers or {})}, touched)


def answer_text(status: int, text: str, *, kind: str = "text/plain; charset=UTF-8") -> Answer:
    """An answer that carries text of the given media type."""
    return Answer(status, text.encode(), {"content-type": kind})
