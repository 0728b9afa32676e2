"""Types of JSON values, and their canonical form for hashing."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = Mapping[str, JsonValue]
# A JSON value whose members are used without checks, such as a response whose shape its platform documents.
# mypy does not check its uses: prefer JsonValue where possible.
AnyJson: TypeAlias = Any

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: JsonValue) -> bytes:
    """Returns `value` as canonical JSON: UTF-8, keys sorted by code point, no spaces.

    Raises ValueError for a fraction: in hashed values, fractions are decimal text.
    """
    _refuse_fractions(value)
    return _ENCODER.encode(value).encode("utf-8")


def digest(value: JsonValue) -> str:
    """Returns the SHA-256 of the canonical form, 64 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _refuse_fractions(value: JsonValue) -> None:
    if isinstance(value, float):
        raise ValueError("a fraction must be decimal text before it is hashed")
    if isinstance(value, dict | list | tuple):  # the only types encoded; checks of ABCs are slow
        for item in value.values() if isinstance(value, dict) else value:
            if not isinstance(item, str):
                _refuse_fractions(item)
