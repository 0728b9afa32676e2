"""Reads the JSON of responses as records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Union

# How a field is read: as it is, as a record or an instant by name, as several of one kind, or as the record
# that one field of the value tells.
Kind = Union[None, str, "list[Any]", "tuple[str, Mapping[str, str]]"]


class Record:
    """What a response holds; fields that this release does not know are in `unknown_fields`."""

    KINDS: ClassVar[Mapping[str, tuple[str, Kind]]] = {}
    _classes: ClassVar[dict[str, type[Record]]] = {}

    def __init_subclass__(cls) -> None:
        Record._classes[cls.__name__] = cls


def read_record(record: type[Record], data: Mapping[str, Any]) -> Any:
    """Decodes a record from a JSON object; a field that is absent is None."""
    values: dict[str, Any] = {name: None for name, _ in record.KINDS.values()}
    unknown = {}
    for wire, value in data.items():
        if wire in record.KINDS:
            name, kind = record.KINDS[wire]
            values[name] = _read(value, kind)
        else:
            unknown[wire] = value
    make: Any = record
    return make(**values, unknown_fields=unknown)


def _read(value: Any, kind: Kind) -> Any:
    if isinstance(kind, list):
        if isinstance(value, Mapping):
            return {name: _read(part, kind[0]) for name, part in value.items()}
        return tuple(_read(part, kind[0]) for part in value or ())
    if isinstance(value, list) and kind is None:
        return tuple(value)
    if value is None or kind is None:
        return value
    if isinstance(kind, tuple):
        name = kind[1].get(value.get(kind[0]))
        return value if name is None else read_record(Record._classes[name], value)
    if kind == "datetime":
        return datetime.fromisoformat(value.replace("Z", "+00:00"))
    return read_record(Record._classes[kind], value)
