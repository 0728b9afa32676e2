"""Converts rows of CSV and spreadsheet files to items, by the options of the steps that read them."""

import re
from collections.abc import Mapping, Sequence

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, Params

_RANGE = re.compile(r"\$?([A-Za-z]{1,3})\$?(\d{1,7})(?::\$?([A-Za-z]{1,3})\$?(\d{1,7}))?")

READ_OPTIONS = frozenset(
    (
        "delimiter",
        "enableBOM",
        "encoding",
        "fromLine",
        "headerRow",
        "includeEmptyCells",
        "maxRowCount",
        "range",
        "rawData",
        "readAsString",
        "relaxQuotes",
        "sheetName",
        "skipRecordsWithErrors",
    )
)
WRITE_OPTIONS = frozenset(
    ("addBOM", "compression", "delimiter", "encoding", "fileName", "headerRow", "sheetName")
)


def csv_options(params: Params) -> JsonObject:
    """Returns the options of the CSV reader."""
    max_rows = js.number(params.get("options.maxRowCount", -1))
    header = params.flag("options.headerRow", default=True)
    skipping = params.get("options.skipRecordsWithErrors.value", None)
    skipped = 0
    if isinstance(skipping, Mapping) and skipping.get("enabled"):
        limit = js.number(skipping.get("maxSkippedRecords", -1))
        skipped = int(limit) if limit >= 0 else 1_000_000
    return {
        "delimiter": params.text("options.delimiter") or ",",
        "encoding": params.text("options.encoding") or "utf8",
        "bom": params.flag("options.enableBOM"),
        "from_line": max(int(js.number(params.get("options.fromLine", 0)) or 0), 1),
        "relax_quotes": params.flag("options.relaxQuotes"),
        "max_rows": int(max_rows) + header if max_rows >= 0 else None,
        "max_skipped": skipped,
    }


def csv_items(rows: Sequence[Sequence[str]], params: Params) -> list[dict[str, JsonValue]]:
    """Returns one object per row; omits empty fields unless the step includes them."""
    with_empty = params.flag("options.includeEmptyCells")
    if not params.flag("options.headerRow", default=True):
        return [{"row": list(row)} for row in rows]
    if not rows:
        return []
    names = rows[0]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value != "" or with_empty}
        for row in rows[1:]
    ]


def sheet_items(rows: Sequence[Sequence[JsonValue]], params: Params) -> list[dict[str, JsonValue]]:
    """Returns one object per row of a sheet; omits empty rows if there is a header."""
    rows = _in_range(rows, params.get("options.range", ""))
    with_empty = params.flag("options.includeEmptyCells")
    if not params.flag("options.headerRow", default=True):
        return [{"row": [_filled(cell, with_empty=with_empty) for cell in _trimmed(row)]} for row in rows]
    if not rows:
        return []
    width = max(len(row) for row in rows)
    names = _names([*rows[0], *[None] * (width - len(rows[0]))])
    return [
        {
            name: _filled(value, with_empty=with_empty)
            for name, value in zip(names, [*row, *[None] * (width - len(row))], strict=True)
            if value is not None or with_empty
        }
        for row in rows[1:]
        if any(value is not None for value in row)
    ]


def _filled(cell: AnyJson, *, with_empty: bool) -> AnyJson:
    return "" if cell is None and with_empty else cell


def _trimmed(row: Sequence[JsonValue]) -> Sequence[JsonValue]:
    end = len(row)
    while end and row[end - 1] is None:
        end -= 1
    return row[:end]


def _names(cells: Sequence[JsonValue]) -> list[str]:
    """Returns the column names: an empty one becomes `__EMPTY`, a repeated one gets a number."""
    names: list[str] = []
    counts: dict[str, int] = {}
    for cell in cells:
        name = "__EMPTY" if cell is None else js.text(cell)
        number = counts.get(name, 0)
        counts[name] = number + 1
        names.append(f"{name}_{number}" if number else name)
    return names


def _in_range(rows: Sequence[Sequence[JsonValue]], bounds: JsonValue) -> Sequence[Sequence[JsonValue]]:
    """Returns the rows within a range such as A2:D10; a plain number is the first row, counted from 0."""
    if bounds in ("", None, js.UNDEFINED):
        return rows
    text = js.text(bounds).strip()
    if text.isdigit():
        return rows[int(text) :]
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ItemFailed(f"The range “{text[:40]}” is not known. Write it as A1:D10.")
    left, top, right, bottom = match.groups()
    first_column = _column(left)
    last_column = _column(right) if right else first_column
    last_row = int(bottom) if bottom else int(top)
    return [row[first_column : last_column + 1] for row in rows[int(top) - 1 : last_row]]


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number - 1
