"""The rows of a data table: typed values, conditions and order.

See docs/design/static-data.md#data-tables.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

import msgspec

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed

Row: TypeAlias = dict[str, AnyJson]
Condition: TypeAlias = Callable[[Row], bool]

_DATE: Final = "date"
_OWN_COLUMNS: Final = {"id": "number", "createdAt": _DATE, "updatedAt": _DATE}  # present in every table
OWN_COLUMNS: Final = frozenset(_OWN_COLUMNS)
_TYPES: Final = {
    "string": "string",
    "number": "number",
    "boolean": "boolean",
    "date": _DATE,
    "dateTime": _DATE,
}
VALUELESS: Final = frozenset(("isEmpty", "isNotEmpty", "isTrue", "isFalse"))
_COMPARISONS: Final = {
    "eq": operator.eq,
    "neq": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
CONDITIONS: Final = VALUELESS | _COMPARISONS.keys()


@dataclass(slots=True)
class Table:
    """A data table: its columns' types, `""` if unknown, and its rows ordered by id."""

    columns: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    next_id: int = 1

    @classmethod
    def of_stored(cls, stored: JsonObject) -> "Table":
        """Returns the stored table, or an empty table for an empty object."""
        return msgspec.convert(stored, cls)

    def stored(self) -> JsonObject:
        """Returns the table in its stored form."""
        return {"columns": dict(self.columns), "rows": list(self.rows), "next_id": self.next_id}

    def add_columns(self, types: Mapping[str, object]) -> None:
        """Adds missing columns, and types for columns without one."""
        for name, kind in types.items():
            if name not in _OWN_COLUMNS and not self.columns.get(name):
                self.columns[name] = _TYPES.get(str(kind), "")

    def type_of(self, column: str) -> str:
        """Returns the type of a column, or `""` if it is unknown."""
        return _OWN_COLUMNS.get(column) or self.columns.get(column, "")

    def insert(self, values: JsonObject, now: datetime) -> Row:
        """Adds a row and returns it. Raises ItemFailed for a value of the wrong type."""
        stored = self._converted(values)
        time = js_dates.utc_iso(now)
        row: Row = {"id": self.next_id, "createdAt": time, "updatedAt": time, **stored}
        self.next_id += 1
        self.rows.append(row)
        return row

    def update(self, rows: Sequence[Row], values: Mapping[str, AnyJson], now: datetime) -> None:
        """Changes rows. Raises ItemFailed for a value of the wrong type."""
        stored = self._converted(values)
        for row in rows:
            row |= {**stored, "updatedAt": js_dates.utc_iso(now)}

    def delete(self, rows: Sequence[Row]) -> None:
        """Removes rows."""
        removed_ids = {row["id"] for row in rows}
        self.rows = [row for row in self.rows if row["id"] not in removed_ids]

    def shown(self, row: Row) -> Row:
        """Returns a row as the node outputs it, with null in columns without a value."""
        return {**dict.fromkeys(self.columns), **row}

    def matching(self, conditions: Sequence[Condition], *, all_of_them: bool) -> list[Row]:
        """Returns the rows that meet all conditions, or any of them; every row if there are none."""
        decide = all if all_of_them else any
        return [row for row in self.rows if not conditions or decide(meets(row) for meets in conditions)]

    def condition(self, column: str, name: str, value: JsonValue) -> Condition:
        """Returns a condition on a column. Raises ItemFailed if it has no value to compare with."""
        if name == "isEmpty":
            return lambda row: row.get(column) is None
        if name == "isNotEmpty":
            return lambda row: row.get(column) is not None
        if name in ("isTrue", "isFalse"):
            return lambda row: row.get(column) is (name == "isTrue")
        if js.is_missing(value):
            raise ItemFailed(f"The value that “{column}” is compared with is empty. Check its expression.")
        compare, kind = _COMPARISONS[name], self.type_of(column)
        others = {kind: _comparable(value, kind, column)} if kind else {}

        def meets(row: Row) -> bool:
            cell = row.get(column)
            if cell is None:  # a missing value equals nothing and differs from nothing
                return False
            cell_kind = kind or _type_of_value(cell)
            if cell_kind not in others:
                others[cell_kind] = _comparable(value, cell_kind, column)
            return bool(compare(_comparable(cell, cell_kind, column), others[cell_kind]))

        return meets

    def ordered(self, rows: Sequence[Row], column: str, *, is_descending: bool) -> list[Row]:
        """Returns the rows sorted by a column; missing values count as lowest."""
        valued = [row for row in rows if row.get(column) is not None]
        empty = [row for row in rows if row.get(column) is None]
        kind = self.type_of(column)

        def sort_key(row: Row) -> tuple[str, AnyJson]:
            cell_kind = kind or _type_of_value(row[column])
            return cell_kind, _comparable(row[column], cell_kind, column)

        valued.sort(key=sort_key, reverse=is_descending)
        return [*valued, *empty] if is_descending else [*empty, *valued]

    def _converted(self, values: JsonObject) -> Row:
        self.add_columns(dict.fromkeys(values, ""))
        return {name: converted(value, self.type_of(name), name) for name, value in values.items()}


def converted(value: AnyJson, kind: str, column: str) -> AnyJson:
    """Converts a value to a column's type. Raises ItemFailed."""
    if js.is_missing(value):
        return None
    if js.is_object(value) or js.is_list(value):
        message = f"“{column}” is a list or an object, which a data table cannot hold. Write it as text."
        raise ItemFailed(message)
    result = _CONVERSIONS[kind](value) if kind else value
    if result is None:
        text = js.json_text(value)[:80]
        raise ItemFailed(f"{text} in “{column}” is not {_NAMES[kind]}. Correct the value.")
    return result


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or (isinstance(value, str) and not value.strip()):
        return None
    number = js.number(value)
    return js.plain_number(number) if math.isfinite(number) else None


def _boolean(value: JsonValue) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False, "1": True, "0": False}.get(js.text(value).strip().lower())


def _date(value: JsonValue) -> str | None:
    date = js_dates.parse(value, UTC) if isinstance(value, str) else None
    return None if date is None else js_dates.utc_iso(date)


_CONVERSIONS: Final[dict[str, Callable[[AnyJson], AnyJson]]] = {
    "string": js.text,
    "number": _number,
    "boolean": _boolean,
    _DATE: _date,
}
_NAMES: Final = {"string": "text", "number": "a number", "boolean": "true or false", _DATE: "a date"}


def _type_of_value(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if js.is_number(value) else "string"


def _comparable(value: JsonValue, kind: str, column: str) -> datetime | AnyJson:
    """Returns a value in a form comparable with others of its type. Raises ItemFailed."""
    stored = converted(value, kind, column)
    return datetime.fromisoformat(stored) if kind == _DATE else stored
