"""The answer to a write, as the write ledger keeps it and later steps of a workflow read it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from steward.model.json import JsonObject, JsonValue

ANSWER_BYTES = 1024 * 1024
REFUSAL_CHARACTERS = 8192  # of a refusing response that a failure tells


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """The response to a write: status, lower-case headers, and the body as text.

    `is_too_large`: the body was not kept: it was over 1 MiB, or there was no room left for it.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    text: str = field(repr=False)
    is_too_large: bool = False

    @classmethod
    def of_body(cls, status: int, headers: Mapping[str, str], body: bytes) -> Self:
        """Returns the answer with the body as UTF-8 text, without it if it is over 1 MiB."""
        if len(body) > ANSWER_BYTES:
            return cls(status, dict(headers), "", is_too_large=True)
        return cls(status, dict(headers), body.decode("utf-8", "replace"))

    @classmethod
    def of_value(cls, value: JsonValue, status: int = 200) -> Self:
        """Returns the answer of an account that does not answer over HTTP: a JSON value."""
        return cls.of_body(status, {}, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))

    @property
    def ok(self) -> bool:
        """Whether the status is a 2xx."""
        return 200 <= self.status < 300

    def json(self) -> JsonValue:
        """Returns the body as a JSON value. Raises ValueError, RecursionError if it is not storable JSON."""
        return parse_storable_json(self.text)

    def without_body(self) -> Self:
        """Returns the answer as one whose body there is no room for."""
        return type(self)(self.status, self.headers, "", is_too_large=True)

    def as_refusal(self) -> Self:
        """Returns what a failure tells of the answer: its status and the start of its text."""
        return type(self)(self.status, {}, self.text[:REFUSAL_CHARACTERS], self.is_too_large)

    def to_text(self) -> str:
        """Returns the stored form."""
        stored: JsonObject = {
            "status": self.status,
            "headers": dict(self.headers),
            "text": self.text,
            "too_large": self.is_too_large,
        }
        return json.dumps(stored, separators=(",", ":"))

    @classmethod
    def from_text(cls, stored: str) -> Self:
        """Reads the stored form."""
        fields = json.loads(stored)
        return cls(fields["status"], fields["headers"], fields["text"], fields["too_large"])


def parse_storable_json(text: str) -> JsonValue:
    """Parses JSON text. Raises ValueError, RecursionError if it is invalid or cannot be stored.

    Infinite numbers and unpaired surrogates cannot be stored.
    """
    parsed: JsonValue = json.loads(text)
    json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return parsed
