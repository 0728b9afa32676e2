"""A table of the readable fields of Flow's objects, built during setup.

The table holds what is the same in every supported API version; schema_build.py builds it.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_TABLE = Path(__file__).with_name("built") / "schema.json"


class FieldShape(StrEnum):
    """The shape of a field's value; the values are the table's codes."""

    LEAF = "s"
    LEAVES = "t"
    OBJECT = "o"
    OBJECTS = "l"  # a list that is returned whole
    FIRST = "f"  # a list of which a number of objects is requested
    CONNECTION = "c"
    METAFIELD = "m"  # needs a key: read only if a flow names the metafield


LISTS = frozenset((FieldShape.LEAVES, FieldShape.OBJECTS, FieldShape.FIRST, FieldShape.CONNECTION))


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its shape, and the type of its value or of each object."""

    shape: FieldShape
    type: str


class SchemaTable:
    """The types with their fields; `versions` are the API versions the table is valid for."""

    def __init__(self, table: Mapping[str, object]) -> None:
        self._types: Mapping[str, Mapping[str, str]] = table["types"]  # type: ignore[assignment]
        self._nodes = frozenset(table["nodes"])  # type: ignore[call-overload]
        self._sorts: Mapping[str, list[str]] = table["sorts"]  # type: ignore[assignment]
        self.versions: tuple[str, ...] = tuple(table["versions"])  # type: ignore[arg-type]

    def field(self, kind: str, name: str) -> Field | None:
        """Returns the field of a type; None when no such field can be read."""
        sign = self._types.get(kind, {}).get(name)
        return Field(FieldShape(sign[0]), sign[1:]) if sign is not None else None

    def names(self, kind: str) -> list[str]:
        """Returns the names of a type's fields."""
        return sorted(self._types.get(kind, {}))

    def is_node(self, kind: str) -> bool:
        """Returns whether an object of the type can be read by its id alone."""
        return kind in self._nodes

    def sorts(self, root: str) -> tuple[str, ...]:
        """Returns the sort keys of a list that Flow fetches."""
        return tuple(self._sorts.get(root, ()))


@functools.cache
def schema_table() -> SchemaTable:
    """Returns the table of this installation. Raises FileNotFoundError before `make` has built it."""
    return SchemaTable(json.loads(_TABLE.read_text("utf-8")))
