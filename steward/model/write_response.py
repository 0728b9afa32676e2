"""The response to a write, as the write ledger stores it and later steps of a workflow read it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from steward.model.json import JsonObject, JsonValue

RESPONSE_BYTES = 1024 * 1024
REFUSAL_CHARACTERS = 8192  # characters of a refusal's body that a failure quotes


@dataclass(frozen=True, slots=True)
class WriteResponse:
    """The response to a write: status, lower-case headers, and the body as text.

    `is_too_large`: the body was not kept, because it was over 1 MiB or the memory budget was used up.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    text: str = field(repr=False)
    is_too_large: bool = False

    @classmethod
    def of_body(cls, status: int, headers: Mapping[str, str], body: bytes) -> Self:
        """Returns the response with the body as UTF-8 text, or without it if it is over 1 MiB."""
        if len(body) > RESPONSE_BYTES:
            return cls(status, dict(headers), "", is_too_large=True)
        return cls(status, dict(headers), body.decode("utf-8", "replace"))

    @classmethod
    def of_value(cls, value: JsonValue, status: int = 200) -> Self:
        """Returns a JSON value as the response of an account that does not use HTTP."""
        return cls.of_body(status, {}, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))

    @property
    def ok(self) -> bool:
        """Whether the status is a 2xx."""
        return 200 <= self.status < 300

    def json(self) -> JsonValue:
        """Returns the body as a JSON value. Raises ValueError, RecursionError if it is not storable JSON."""
        return parse_storable_json(self.text)

    def without_body(self) -> Self:
        """Returns the response with the body marked as too large to keep."""
        return type(self)(self.status, self.headers, "", is_too_large=True)

    def as_refusal(self) -> Self:
        """Returns the parts of the response that a failure reports: its status and the start of its text."""
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
        """Returns the response from its stored form."""
        fields = json.loads(stored)
        return cls(fields["status"], fields["headers"], fields["text"], fields["too_large"])


def parse_storable_json(text: str) -> JsonValue:
    """Parses JSON text. Raises ValueError, RecursionError if it is invalid or cannot be stored.

    Infinite numbers and unpaired surrogates cannot be stored.
    """
    parsed: JsonValue = json.loads(text)
    json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return parsed
