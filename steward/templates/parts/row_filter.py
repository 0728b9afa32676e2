"""Which rows of a sheet a person means: cells compared as text, as numbers or as dates (templates 5.22)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from steward.connectors.base.records import Cell
from steward.steps.rows import is_blank
from steward.steps.skus import RowRefused, key_of
from steward.templates.parts.numbers import ANY, read_number

ORDERED = ("lt", "gt")


@dataclass(frozen=True, slots=True)
class Where:
    """`value` as typed; `form` says how numbers are written (E5)."""

    op: str
    value: str
    form: str

    def fits(self, cell: Cell) -> bool:
        """Whether a cell is one of those. Raises RowRefused `number_ambiguous`."""
        if self.op == "empty":
            return is_blank(cell)
        if self.op in ORDERED:
            return self._is_beyond(cell)
        shown, wanted = _shown(cell), _shown(self.value)
        return {"eq": shown == wanted, "ne": shown != wanted, "contains": wanted in shown}[self.op]

    def _is_beyond(self, cell: Cell) -> bool:
        """Numbers with numbers and dates with dates; other cells do not match."""
        wanted_day, day = date_of(self.value), date_of(cell)
        if wanted_day is not None:
            return day is not None and _BEYOND[self.op](day.toordinal(), wanted_day.toordinal())
        wanted, number = number_of(self.value, self.form), number_of(cell, self.form)
        return wanted is not None and number is not None and _BEYOND[self.op](number, wanted)


def date_of(cell: Cell) -> date | None:
    """A date written `YYYY-MM-DD`."""
    text = key_of(cell) if isinstance(cell, str) else ""
    try:
        return date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def number_of(cell: Cell, form: str) -> Decimal | None:
    """The number in a cell, None when it holds none. Raises RowRefused `number_ambiguous`."""
    try:
        return read_number(cell, form=form, currency=ANY)
    except RowRefused as refusal:
        if refusal.code == "number_ambiguous":
            raise
        return None


def _shown(cell: Cell) -> str:
    """The text of a cell as it is compared: without outer blanks and without regard to case."""
    return key_of(cell).casefold()


_BEYOND: dict[str, Callable[[Decimal | int, Decimal | int], bool]] = {
    "lt": lambda seen, wanted: seen < wanted,
    "gt": lambda seen, wanted: seen > wanted,
}
