"""Rows of a sheet: its header, its named columns, and rows refused with a code (templates E4).

Leaves what a cell means to numbers.py and skus.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from steward.connectors.base.queries import VALUES, ValuesQuery
from steward.connectors.base.records import Cell, SheetTable
from steward.model.json import JsonValue
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import AccountAccess, StepFailed
from steward.steps.skus import key_of


@dataclass(frozen=True, slots=True)
class NamedRow:
    """One row that holds something: its number in the sheet, and the cells of the named columns."""

    number: int
    cells: tuple[Cell, ...]


async def read_table(
    account: AccountAccess, tab: str | None, spreadsheet_id: str | None = None
) -> SheetTable:
    """A whole tab. Raises StepFailed `tab_missing` when it is gone or renamed (templates 1, "sheet")."""
    try:
        async for page in account.reader.read(VALUES, ValuesQuery(tab, spreadsheet_id=spreadsheet_id)):
            return page.items[0]
    except RemoteNotFound as gone:
        if tab is not None:
            words = f"The sheet has no tab named {tab}. Name the tab it has now in the automation."
            raise StepFailed("tab_missing", words) from gone
        raise
    raise StepFailed("sheet_empty", "The sheet is empty. Its first row must name the columns.")


def named_rows(
    table: SheetTable, columns: Sequence[str | None], *, what: str = "sheet"
) -> tuple[NamedRow, ...]:
    """The rows below the header with the cells of `columns` (null: no such column is wanted).

    Wholly empty rows are skipped (E2). Raises StepFailed `sheet_empty`, `column_missing`,
    `column_repeated` (E4).
    """
    header = table.rows[0].cells if table.rows and table.rows[0].number == 1 else ()
    heads = [key_of(cell).casefold() for cell in header]
    if not any(heads):
        words = f"The {what} has no header. Its first row must name the columns."
        raise StepFailed("sheet_empty", words)
    places = [None if name is None else _place(heads, name, what) for name in columns]
    return tuple(
        NamedRow(row.number, tuple(None if at is None else _cell(row.cells, at) for at in places))
        for row in table.rows[1:]
        if any(not is_blank(cell) for cell in row.cells)
    )


def is_blank(cell: Cell) -> bool:
    """Whether a cell holds nothing, or nothing but blanks."""
    return cell is None or (isinstance(cell, str) and not key_of(cell))


def cell_to_json(cell: Cell) -> JsonValue:
    """A cell as JSON; a number becomes a list of its text, so that it stays exact and stays a number."""
    return [str(cell)] if isinstance(cell, Decimal) else cell


def cell_from_json(kept: JsonValue) -> Cell:
    """A cell back from JSON."""
    if isinstance(kept, list | tuple):
        return Decimal(str(kept[0]))
    return kept if isinstance(kept, str | bool) else None


def column_letters(column: int) -> str:
    """A column of a sheet by its letters; 0 is A."""
    found = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        found = chr(65 + rest) + found
    return found


def _place(heads: Sequence[str], name: str, what: str) -> int:
    wanted = key_of(name).casefold()
    places = [at for at, head in enumerate(heads) if head == wanted]
    if not places:
        raise StepFailed("column_missing", f"The {what} has no column named {name}. Check its first row.")
    if len(places) > 1:
        raise StepFailed("column_repeated", f"The {what} has more than one column named {name}.")
    return places[0]


def _cell(cells: Sequence[Cell], at: int) -> Cell:
    return cells[at] if at < len(cells) else None
