"""Cells and A1 ranges: how values are stored in plans, sent to Google and compared."""

import re
from collections.abc import Sequence
from decimal import Decimal
from urllib.parse import quote

from steward.connectors.base.records import Cell
from steward.model.json import JsonValue
from steward.outbound.errors import UnusableResponse
from steward.outbound.response import Decoded

CELL_CHARACTERS = 50_000
# What may follow a tab: cells, whole columns, whole rows, open-ended ranges.
AREA = re.compile(
    r"[A-Z]{1,3}[1-9][0-9]{0,6}(:([A-Z]{1,3}[1-9][0-9]{0,6}|[A-Z]{1,3}|[1-9][0-9]{0,6}))?"
    r"|[A-Z]{1,3}:[A-Z]{1,3}([1-9][0-9]{0,6})?|[1-9][0-9]{0,6}:[1-9][0-9]{0,6}"
)
_START = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})")
_BLOCK = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6}):([A-Z]{1,3})([1-9][0-9]{0,6})")
_SPLIT_CELLS = 2_000


def stored_cell(cell: Cell) -> JsonValue:
    """Returns a cell as a plan stores it: a number as `{"number": text}`, anything else unchanged."""
    return {"number": format(cell, "f")} if isinstance(cell, Decimal) else cell


def sheets_value(value: JsonValue) -> JsonValue:
    """Returns a stored cell as Google Sheets accepts it; null empties the cell."""
    if isinstance(value, dict):
        number = Decimal(str(value["number"]))
        return int(number) if number == number.to_integral_value() else float(number)
    return "" if value is None else value


def _read_cell(value: Decoded) -> Cell:
    """Returns a cell that was read unformatted. Raises UnusableResponse for lists and objects."""
    if value is None or value == "":
        return None
    if isinstance(value, bool | str | Decimal):
        return value
    if isinstance(value, int):
        return Decimal(value)
    raise UnusableResponse("a cell contains a list or an object")


def read_rows(values: Decoded) -> list[tuple[Cell, ...]]:
    """Returns the rows of a range without trailing empty cells. Raises UnusableResponse."""
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(row, list) for row in values):
        raise UnusableResponse("the values are not rows")
    return [_trimmed([_read_cell(cell) for cell in row]) for row in values if isinstance(row, list)]


def same_rows(expected: JsonValue, seen: JsonValue) -> bool:
    """Compares stored rows: numbers by value, empty text as an empty cell, without trailing empty cells."""
    return _comparable(expected) == _comparable(seen)


def key_of(cell: Cell) -> str:
    """Returns a cell as a key: whole numbers as their digits, text without whitespace around it."""
    if isinstance(cell, Decimal):
        return format(cell.quantize(1) if cell == cell.to_integral_value() else cell.normalize(), "f")
    return "" if cell is None else str(cell).strip()


def tab_range(tab: str, start: str | None = None, rows: Sequence[Sequence[object]] = ()) -> str:
    """Returns the A1 range of a whole tab, or of `rows` from the cell `start`. Raises ValueError."""
    name = "'" + tab.replace("'", "''") + "'"
    if start is None:
        return name
    match = _START.fullmatch(start)
    if match is None:
        raise ValueError(f"{start!r} is not a cell")
    width = max((len(row) for row in rows), default=1)
    last = _column(_number(match[1]) + max(width, 1) - 1)
    return f"{name}!{start}:{last}{int(match[2]) + max(len(rows), 1) - 1}"


def area_range(tab: str, area: str | None) -> str:
    """Returns the A1 range of an area of a tab, or of the whole tab. Raises ValueError."""
    if area is None:
        return tab_range(tab)
    if not AREA.fullmatch(area):
        raise ValueError(f"{area!r} is not a range")
    return f"{tab_range(tab)}!{area}"


def single_cells(area: str, value: JsonValue) -> dict[str, JsonValue]:
    """Returns the cells of a block by their ranges, each as a block of one cell.

    An open-ended area, or one of more than `_SPLIT_CELLS` cells, is one value.
    """
    tab, _, corners = area.rpartition("!")
    match = _BLOCK.fullmatch(corners)
    if match is None:
        return {area: value}
    left, top, right, bottom = _number(match[1]), int(match[2]), _number(match[3]), int(match[4])
    if (right - left + 1) * (bottom - top + 1) > _SPLIT_CELLS:
        return {area: value}
    rows = value.get("rows") if isinstance(value, dict) else None
    listed = [row for row in rows if isinstance(row, list | tuple)] if isinstance(rows, list | tuple) else []
    return {
        f"{tab}!{_column(left + x)}{top + y}": {"rows": [[_cell_at(listed, x, y)]]}
        for y in range(bottom - top + 1)
        for x in range(right - left + 1)
    }


def _cell_at(rows: Sequence[Sequence[JsonValue]], x: int, y: int) -> JsonValue:
    return rows[y][x] if y < len(rows) and x < len(rows[y]) else None


def column_range(tab: str, index: int) -> str:
    """Returns the A1 range of one whole column, counted from 0."""
    name = _column(index + 1)
    return f"{tab_range(tab)}!{name}:{name}"


def in_path(text: str) -> str:
    """Escapes a range as one segment of a path."""
    return quote(text, safe="")


def first_row(range_name: Decoded) -> int:
    """Returns the number of a range's first row; 1 when it names none."""
    match = re.search(r"!\$?[A-Z]*\$?([0-9]{1,7})", range_name) if isinstance(range_name, str) else None
    return int(match[1]) if match else 1


def _trimmed(cells: list[Cell]) -> tuple[Cell, ...]:
    while cells and cells[-1] is None:
        cells.pop()
    return tuple(cells)


def _comparable(value: JsonValue) -> JsonValue:
    rows = value.get("rows") if isinstance(value, dict) else None
    if not isinstance(rows, list | tuple):
        return value
    compared = [_comparable_row(row) for row in rows if isinstance(row, list | tuple)]
    while compared and not compared[-1]:
        compared.pop()
    return [*compared]


def _comparable_row(row: Sequence[JsonValue]) -> JsonValue:
    cells = _trimmed([_plain(cell) for cell in row])
    return [str(cell) if isinstance(cell, Decimal) else [cell] for cell in cells]


def _plain(value: JsonValue) -> Cell:
    if isinstance(value, dict):
        return Decimal(str(value["number"])).normalize()
    return None if value in (None, "") else value if isinstance(value, bool) else str(value)


def _number(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def _column(number: int) -> str:
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
