"""Filters rows of a sheet: compares cells as text, as numbers or as dates."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from steward.connectors.base.records import Cell
from steward.steps.rows import is_blank
from steward.steps.skus import RowRefused, key_of
from steward.templates.parts.numbers import ANY_CURRENCY, read_number

ORDERED = ("lt", "gt")


@dataclass(frozen=True, slots=True)
class CellCondition:
    """A condition on a cell; `number_format` says how numbers are written."""

    op: str
    value: str
    number_format: str

    def matches(self, cell: Cell) -> bool:
        """Returns whether a cell matches. Raises RowRefused `number_ambiguous`."""
        if self.op == "empty":
            return is_blank(cell)
        if self.op in ORDERED:
            return self._is_beyond(cell)
        text, value = _folded(cell), _folded(self.value)
        return {"eq": text == value, "ne": text != value, "contains": value in text}[self.op]

    def _is_beyond(self, cell: Cell) -> bool:
        """Compares numbers with numbers and dates with dates; other cells do not match."""
        bound_day, day = date_of(self.value), date_of(cell)
        if bound_day is not None:
            return day is not None and _BEYOND[self.op](day.toordinal(), bound_day.toordinal())
        bound, number = (number_of(value, self.number_format) for value in (self.value, cell))
        return bound is not None and number is not None and _BEYOND[self.op](number, bound)


def date_of(cell: Cell) -> date | None:
    """Returns a cell's date, written as `YYYY-MM-DD`; None for other cells."""
    text = key_of(cell) if isinstance(cell, str) else ""
    try:
        return date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def number_of(cell: Cell, number_format: str) -> Decimal | None:
    """Returns the number in a cell; None when it has none. Raises RowRefused `number_ambiguous`."""
    try:
        return read_number(cell, form=number_format, currency=ANY_CURRENCY)
    except RowRefused as refusal:
        if refusal.code == "number_ambiguous":
            raise
        return None


def _folded(cell: Cell) -> str:
    """Returns a cell's text in the form for comparison: stripped and case-folded."""
    return key_of(cell).casefold()


_BEYOND: dict[str, Callable[[Decimal | int, Decimal | int], bool]] = {
    "lt": lambda value, bound: value < bound,
    "gt": lambda value, bound: value > bound,
}
