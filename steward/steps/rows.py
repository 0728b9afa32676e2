"""Rows of a sheet: the header, named columns, and cells as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from steward.connectors.base.queries import VALUES, ValuesQuery
from steward.connectors.base.records import Cell, SheetTable
from steward.model.json import JsonValue
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import AccountAccess, StepFailed
from steward.steps.skus import key_of

# A cell in a step's output; a number is a 1-tuple of its text, which keeps it exact and distinct from text.
StoredCell: TypeAlias = str | bool | tuple[str] | None


@dataclass(frozen=True, slots=True)
class NamedRow:
    """A row that is not empty: its number in the sheet, and the cells of the named columns."""

    number: int
    cells: tuple[Cell, ...]


async def read_table(
    account: AccountAccess, tab: str | None, spreadsheet_id: str | None = None
) -> SheetTable:
    """Reads a whole tab. Raises StepFailed `tab_missing` if it was deleted or renamed."""
    try:
        async for page in account.reader.read(VALUES, ValuesQuery(tab, spreadsheet_id=spreadsheet_id)):
            return page.items[0]
    except RemoteNotFound as error:
        if tab is not None:
            message = f"The sheet has no tab named {tab}. Name the tab it has now in the automation."
            raise StepFailed("tab_missing", message) from error
        raise
    raise StepFailed("sheet_empty", "The sheet is empty. Its first row must name the columns.")


def named_rows(
    table: SheetTable, columns: Sequence[str | None], *, source: str = "sheet"
) -> tuple[NamedRow, ...]:
    """Returns the rows below the header with the cells of `columns`; None as a column gives None cells.

    Omits empty rows. Raises StepFailed `sheet_empty`, `column_missing`, `column_repeated`.
    """
    header = table.rows[0].cells if table.rows and table.rows[0].number == 1 else ()
    heads = [key_of(cell).casefold() for cell in header]
    if not any(heads):
        message = f"The {source} has no header. Its first row must name the columns."
        raise StepFailed("sheet_empty", message)
    indexes = [None if name is None else _column_index(heads, name, source) for name in columns]
    return tuple(
        NamedRow(row.number, tuple(_cell(row.cells, index) for index in indexes))
        for row in table.rows[1:]
        if any(not is_blank(cell) for cell in row.cells)
    )


def is_blank(cell: Cell) -> bool:
    """Returns whether a cell is empty or blank."""
    return cell is None or (isinstance(cell, str) and not key_of(cell))


def cell_to_json(cell: Cell) -> StoredCell:
    """Returns a cell in the form stored in a step's output."""
    return (str(cell),) if isinstance(cell, Decimal) else cell


def cell_from_json(stored: JsonValue) -> Cell:
    """Reads a cell that `cell_to_json` returned."""
    if isinstance(stored, list | tuple):
        return Decimal(str(stored[0]))
    return stored if isinstance(stored, str | bool) else None


def column_letters(column: int) -> str:
    """Returns the letters of a column; 0 is A."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _column_index(heads: Sequence[str], name: str, source: str) -> int:
    head = key_of(name).casefold()
    if head not in heads:
        raise StepFailed("column_missing", f"The {source} has no column named {name}. Check its first row.")
    if heads.count(head) > 1:
        raise StepFailed("column_repeated", f"The {source} has more than one column named {name}.")
    return heads.index(head)


def _cell(cells: Sequence[Cell], index: int | None) -> Cell:
    return cells[index] if index is not None and index < len(cells) else None
