"""The bytes of an export: parsed within limits, hashed as sent."""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from steward.model.json import JsonObject, JsonValue

MAX_STEPS = 1_000  # per export
_MAX_VALUES = 200_000
_MAX_DEPTH = 64
_LARGEST = sys.float_info.max


class Unreadable(Exception):
    """Raised for content that is no usable export; the message says why (`errors.content`)."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Content:
    """An export as sent: its text, the hash, and the number of bytes hashed."""

    text: str
    sha256: str
    bytes: int


def content_of(sent: str | JsonObject) -> Content:
    """Returns the content sent: a text unchanged, or an object as JSON with sorted keys and no spaces."""
    text = (
        sent
        if isinstance(sent, str)
        else json.dumps(sent, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    )
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unreadable("The export contains invalid characters. Export it again.") from None
    return Content(text, hashlib.sha256(raw).hexdigest(), len(raw))


def parsed(text: str) -> JsonValue:
    """Parses JSON text. Raises Unreadable."""
    if text.count("[") + text.count("{") + text.count(",") > _MAX_VALUES:
        raise Unreadable("The export contains too many values to read.")
    try:
        value: JsonValue = json.loads(text.removeprefix("\ufeff"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Unreadable("This is not JSON. Export the workflow as a file and send its whole text.") from None
    _check_values(value)
    return value


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _check_values(value: JsonValue) -> None:
    stack = [(value, 1)]
    while stack:
        value_, depth = stack.pop()
        if depth > _MAX_DEPTH:
            raise Unreadable("The export is nested too deeply to be read.")
        if isinstance(value_, Mapping):
            stack += [(member, depth + 1) for member in value_.values()]
        elif isinstance(value_, list):
            stack += [(member, depth + 1) for member in value_]
        elif isinstance(value_, int | float) and abs(value_) > _LARGEST:
            raise Unreadable(
                "The export contains a number that is too large. Correct it and export it again."
            )
