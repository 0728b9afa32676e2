"""The fake spreadsheets: tabs, cells, metadata, and the calls of the values interface."""

import copy
import json
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from steward.fake_platforms import a1
from steward.fake_platforms.exchange import FakeChange, FakeRequest, FakeResponse, Row, json_response

_MAX_CELLS = 10_000_000


class SheetError(Exception):
    """A refusal in the form of the Google interfaces."""

    def __init__(self, status: int, word: str, message: str) -> None:
        super().__init__(message)
        self.status, self.word, self.message = status, word, message

    def response(self) -> FakeResponse:
        """Returns `{"error": {code, message, status}}`."""
        row = {"code": self.status, "message": self.message, "status": self.word}
        return json_response(self.status, {"error": row})


def _invalid(message: str) -> SheetError:
    """Returns a refusal with 400 INVALID_ARGUMENT."""
    return SheetError(400, "INVALID_ARGUMENT", message)


@dataclass(slots=True)
class FakeTab:
    """A sheet of a spreadsheet; `cells` holds only written cells."""

    sheet_id: int
    title: str
    rows: int = 1000
    columns: int = 26
    cells: dict[tuple[int, int], Any] = field(default_factory=dict)
    metadata: list[Row] = field(default_factory=list)

    def values(self) -> list[list[Any]]:
        """Returns all rows down to the last one with content, as stored."""
        return self.read(a1.Area(self.title))

    def read(self, area: a1.Area) -> list[list[Any]]:
        """Returns the rows of an area without trailing empty cells and rows, as the service does."""
        bottom = min(area.end_row or self.rows, self.rows)
        right = min(area.end_column or self.columns, self.columns)
        inside = [
            (row, column)
            for (row, column), value in self.cells.items()
            if value != "" and area.first_row <= row < bottom and area.first_column <= column < right
        ]
        last = max((row for row, _ in inside), default=area.first_row - 1)
        lines: list[list[Any]] = [[] for _ in range(last + 1 - area.first_row)]
        for row, column in sorted(inside):
            line = lines[row - area.first_row]
            line.extend([""] * (column - area.first_column - len(line)))
            line.append(self.cells[row, column])
        return lines

    def delete_rows(self, top: int, bottom: int) -> None:
        """Deletes rows from `top` to before `bottom`, counted from 0; rows below move up."""
        moved: dict[tuple[int, int], Any] = {}
        for (row, column), value in self.cells.items():
            if not top <= row < bottom:
                moved[row - (bottom - top) if row >= bottom else row, column] = value
        self.cells = moved
        self.rows -= bottom - top

    def last_row(self) -> int:
        """Returns the number of the last row with content; 0 without one."""
        return max((row + 1 for (row, _), value in self.cells.items() if value != ""), default=0)


@dataclass(slots=True)
class FakeSpreadsheet:
    """A spreadsheet, and the addresses with which it is shared."""

    id: str
    title: str
    tabs: list[FakeTab]
    shared_with: set[str] = field(default_factory=set)
    metadata: list[Row] = field(default_factory=list)

    def tab(self, title: str) -> FakeTab:
        """Returns the tab with that title."""
        return next(tab for tab in self.tabs if tab.title == title)

    def area(self, text: str) -> a1.Area:
        """Returns the area of a range. Raises SheetError 400 for a bad range or an unknown tab."""
        area = a1.parsed(text, [tab.title for tab in self.tabs])
        if area is None:
            raise _invalid(f"Unable to parse range: {text}")
        tab = self.tab(area.tab)
        if area.first_row >= tab.rows or area.first_column >= tab.columns:
            limit = a1.written(a1.Area(tab.title), tab.rows, tab.columns)
            raise _invalid(f"Range ({text}) exceeds grid limits. Max range: {limit}")
        return area


def _entered(value: Any, option: str) -> Any:
    """Returns a value as stored: RAW keeps text as text, USER_ENTERED reads it as if typed."""
    if isinstance(value, dict | list):
        raise _invalid("Invalid values: a cell holds text, a number or a boolean")
    if option != "USER_ENTERED" or not isinstance(value, str):
        return value
    if value.startswith("'"):
        return value[1:]
    if value.upper() in ("TRUE", "FALSE"):
        return value.upper() == "TRUE"
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number == int(number) and "." not in value else number


class FormattedNumber(float):
    """A number in a cell whose format shows it as another text, such as a share in percent."""

    text: str

    def __new__(cls, value: float, text: str = "") -> "FormattedNumber":
        """Returns the number that a cell shows as `text`."""
        number = super().__new__(cls, value)
        number.text = text
        return number


def _rendered(value: Any, option: str, dates: str) -> Any:
    """Returns a cell as read: formatted values as text, others as stored; dates as the options say."""
    if isinstance(value, date):
        is_number = option != "FORMATTED_VALUE" and dates == "SERIAL_NUMBER"
        return (value - _DAY_ZERO).days if is_number else value.strftime("%d/%m/%Y")
    if option != "FORMATTED_VALUE":
        return float(value) if isinstance(value, FormattedNumber) else value
    return _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, str | FormattedNumber):
        return value if isinstance(value, str) else value.text
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(int(value)) if value == int(value) else repr(value)


def _turned(rows: list[list[Any]]) -> list[list[Any]]:
    return [[row[n] if n < len(row) else "" for row in rows] for n in range(_width(rows))]


def _width(rows: list[list[Any]]) -> int:
    return max((len(row) for row in rows), default=0)


def _choice(request: FakeRequest | Row, name: str, choices: tuple[str, ...], *, default: str | None) -> str:
    value = request.first(name) if isinstance(request, FakeRequest) else request.get(name)
    if value is None:
        if default is None:
            raise _invalid(f"'{name}' is required but not specified")
        return default
    if value not in choices:
        raise _invalid(f"Invalid value at '{name}': \"{value}\"")
    return str(value)


_INPUT = ("RAW", "USER_ENTERED")
_RENDER = ("FORMATTED_VALUE", "UNFORMATTED_VALUE", "FORMULA")
_DATES = ("SERIAL_NUMBER", "FORMATTED_STRING")
_DAY_ZERO = date(1899, 12, 30)  # of serial numbers
_DIMENSION = ("ROWS", "COLUMNS")


def _value_range(
    book: FakeSpreadsheet, text: str, *, render: str, dimension: str, dates: str = "SERIAL_NUMBER"
) -> Row:
    """Returns a ValueRange in the form of `values.get`; without `values` for an empty range."""
    area = book.area(text)
    tab = book.tab(area.tab)
    rows = [[_rendered(value, render, dates) for value in row] for row in tab.read(area)]
    row: Row = {"range": a1.written(area, tab.rows, tab.columns), "majorDimension": dimension}
    if rows:
        row["values"] = _turned(rows) if dimension == "COLUMNS" else rows
    return row


def _rows_of(body: Row) -> list[list[Any]]:
    rows = body.get("values", [])
    if not isinstance(rows, list) or any(not isinstance(row, list) for row in rows):
        raise _invalid("Invalid value at 'data.values'")
    dimension = _choice(body, "majorDimension", _DIMENSION, default="ROWS")
    return _turned(rows) if dimension == "COLUMNS" else rows


def _touched(
    book: FakeSpreadsheet, tab: FakeTab, area: str, before: list[list[Any]], after: list[list[Any]]
) -> FakeChange:
    where = f"{book.id}/{area}"
    return FakeChange("range", where, ("values",), {"values": before}, {"values": after})


def write(book: FakeSpreadsheet, text: str, body: Row, option: str) -> tuple[Row, FakeChange]:
    """Writes values into a range; null leaves a cell unchanged. Raises SheetError when they do not fit."""
    area = _written_area(book, text, body.get("range"))
    tab, rows = book.tab(area.tab), _rows_of(body)
    height, width = len(rows), _width(rows)
    _refuse_overflow(tab, area, height, width)
    filled = a1.Area(
        tab.title,
        area.first_row,
        area.first_column,
        area.first_row + max(height, 1),
        area.first_column + max(width, 1),
    )
    before = tab.read(filled)
    stored = [[None if value is None else _entered(value, option) for value in row] for row in rows]
    _store(tab, filled, stored)
    where = a1.written(filled, tab.rows, tab.columns)
    result: Row = {"spreadsheetId": book.id, "updatedRange": where}
    cell_count = sum(len(row) for row in rows)
    if cell_count:
        result |= {"updatedRows": height, "updatedColumns": width, "updatedCells": cell_count}
    return result, _touched(book, tab, where, before, tab.read(filled))


def _written_area(book: FakeSpreadsheet, text: str, body_range: Any) -> a1.Area:
    """Returns the area to write. Raises SheetError when body and request name different ones."""
    area = book.area(text)
    if body_range is not None and not isinstance(body_range, str):
        raise _invalid("Invalid value at 'data.range'")
    if body_range and book.area(body_range) != area:
        raise _invalid(f"Requested range [{text}] does not match value range [{body_range}]")
    return area


def _refuse_overflow(tab: FakeTab, area: a1.Area, height: int, width: int) -> None:
    limit = a1.written(area, tab.rows, tab.columns)
    if height > min(area.end_row or tab.rows, tab.rows) - area.first_row:
        reached = f"row [{area.first_row + height}]"
        raise _invalid(f"Requested writing within range [{limit}], but tried writing to {reached}")
    if width > min(area.end_column or tab.columns, tab.columns) - area.first_column:
        column = a1.column_letters(area.first_column + width - 1)
        raise _invalid(f"Requested writing within range [{limit}], but tried writing to column [{column}]")


def _store(tab: FakeTab, area: a1.Area, rows: list[list[Any]]) -> None:
    """Writes all values except nulls into the tab, from the area's first cell on."""
    for row_number, row in enumerate(rows, area.first_row):
        for column, value in enumerate(row, area.first_column):
            if value is not None:
                tab.cells[row_number, column] = value


def append(book: FakeSpreadsheet, text: str, body: Row, request: FakeRequest) -> tuple[Row, FakeChange]:
    """Adds rows below the table of the range; each call adds them again."""
    option = _choice(request, "valueInputOption", _INPUT, default=None)
    _choice(request, "insertDataOption", ("OVERWRITE", "INSERT_ROWS"), default="OVERWRITE")
    area, rows = book.area(text), _rows_of(body)
    tab = book.tab(area.tab)
    last = tab.last_row()
    start = last if last > area.first_row else area.first_row
    if start + len(rows) > tab.rows:
        if (start + len(rows)) * tab.columns > _MAX_CELLS:
            message = "This action would increase the number of cells in the workbook above the limit of"
            raise _invalid(f"{message} {_MAX_CELLS} cells.")
        tab.rows = start + len(rows)
    tab.columns = max(tab.columns, area.first_column + _width(rows))
    target = f"{a1.quoted(tab.title)}!{a1.column_letters(area.first_column)}{start + 1}"
    target += f":{a1.column_letters(area.first_column + max(_width(rows), 1) - 1)}{start + max(len(rows), 1)}"
    updates, touched = write(book, target, {"values": rows}, option)
    result: Row = {"spreadsheetId": book.id}
    if last > area.first_row:
        table = a1.Area(tab.title, area.first_row, area.first_column, last, None)
        wide = max((len(row) for row in tab.read(table)), default=1)
        area_of_table = a1.Area(tab.title, area.first_row, area.first_column, last, area.first_column + wide)
        result["tableRange"] = a1.written(area_of_table, tab.rows, tab.columns)
    return {**result, "updates": updates}, touched


def clear(book: FakeSpreadsheet, text: str) -> tuple[Row, FakeChange]:
    """Empties a range."""
    area = book.area(text)
    tab = book.tab(area.tab)
    before = tab.read(area)
    bottom, right = area.end_row or tab.rows, area.end_column or tab.columns
    for row, column in list(tab.cells):
        if area.first_row <= row < bottom and area.first_column <= column < right:
            del tab.cells[row, column]
    where = a1.written(area, tab.rows, tab.columns)
    return {"spreadsheetId": book.id, "clearedRange": where}, _touched(book, tab, where, before, [])


def about(book: FakeSpreadsheet) -> Row:
    """Returns the spreadsheet's properties, tabs and metadata."""
    sheets = [
        {
            "properties": {
                "sheetId": tab.sheet_id,
                "title": tab.title,
                "index": index,
                "sheetType": "GRID",
                "gridProperties": {"rowCount": tab.rows, "columnCount": tab.columns},
            },
            **({"developerMetadata": list(tab.metadata)} if tab.metadata else {}),
        }
        for index, tab in enumerate(book.tabs)
    ]
    properties = {
        "title": book.title,
        "locale": "en_GB",
        "autoRecalc": "ON_CHANGE",
        "timeZone": "Europe/Berlin",
    }
    row: Row = {"spreadsheetId": book.id, "properties": properties, "sheets": sheets}
    if book.metadata:
        row["developerMetadata"] = list(book.metadata)
    return row


def values_call(
    book: FakeSpreadsheet, remaining_path: str, request: FakeRequest
) -> tuple[Row, tuple[FakeChange, ...]]:
    """Serves one call below `/values`; `remaining_path` is the range with its verb. Raises SheetError."""
    body = _body(request)
    render = _choice(request, "valueRenderOption", _RENDER, default="FORMATTED_VALUE")
    dimension = _choice(request, "majorDimension", _DIMENSION, default="ROWS")
    text = remaining_path.removeprefix("/")
    match request.method:
        case "GET":
            return _read_values(book, text, request, render=render, dimension=dimension), ()
        case "POST":
            return _post_values(book, text, request, body)
        case "PUT":
            option = _choice(request, "valueInputOption", _INPUT, default=None)
            result, touched = _all_or_nothing(book, lambda draft: write(draft, text, body, option))
            return result, (touched,)
    raise _unknown_method()


def _unknown_method() -> SheetError:
    return SheetError(404, "NOT_FOUND", "Method not found.")


def _read_values(
    book: FakeSpreadsheet, text: str, request: FakeRequest, *, render: str, dimension: str
) -> Row:
    dates = _choice(request, "dateTimeRenderOption", _DATES, default="SERIAL_NUMBER")
    if text not in ("batchGet", ":batchGet"):
        return _value_range(book, text, render=render, dimension=dimension, dates=dates)
    ranges = [value for name, value in request.query if name == "ranges"]
    value_ranges = [
        _value_range(book, range_text, render=render, dimension=dimension, dates=dates)
        for range_text in ranges
    ]
    return {"spreadsheetId": book.id, "valueRanges": value_ranges}


def _post_values(
    book: FakeSpreadsheet, text: str, request: FakeRequest, body: Row
) -> tuple[Row, tuple[FakeChange, ...]]:
    range_text, _, verb = text.rpartition(":")
    match verb:
        case "batchUpdate" if not range_text:
            return _values_batch(book, body)
        case "batchClear" if not range_text:
            return _clear_batch(book, body)
        case "append":
            result, touched = _all_or_nothing(book, lambda draft: append(draft, range_text, body, request))
            return result, (touched,)
        case "clear":
            result, touched = clear(book, range_text)
            return result, (touched,)
    raise _unknown_method()


def _clear_batch(book: FakeSpreadsheet, body: Row) -> tuple[Row, tuple[FakeChange, ...]]:
    results = _all_or_nothing(
        book, lambda draft: [clear(draft, range_text) for range_text in _texts(body.get("ranges"))]
    )
    cleared = [result["clearedRange"] for result, _ in results]
    return {"spreadsheetId": book.id, "clearedRanges": cleared}, tuple(change for _, change in results)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or any(not isinstance(text, str) for text in value):
        raise _invalid("Invalid value at 'ranges'")
    return value


def _value_ranges(value: Any) -> list[Row]:
    if not isinstance(value, list) or not all(isinstance(part, dict) and "range" in part for part in value):
        raise _invalid("Invalid value at 'data'")
    return value


def _values_batch(book: FakeSpreadsheet, body: Row) -> tuple[Row, tuple[FakeChange, ...]]:
    option = _choice(body, "valueInputOption", _INPUT, default=None)
    parts = _value_ranges(body.get("data", []))
    results = _all_or_nothing(book, lambda draft: [write(draft, str(p["range"]), p, option) for p in parts])
    updates = [row for row, _ in results]
    totals = {
        "totalUpdatedRows": sum(row.get("updatedRows", 0) for row in updates),
        "totalUpdatedColumns": sum(row.get("updatedColumns", 0) for row in updates),
        "totalUpdatedCells": sum(row.get("updatedCells", 0) for row in updates),
        "totalUpdatedSheets": len({row["updatedRange"].rpartition("!")[0] for row in updates}),
    }
    return {"spreadsheetId": book.id, **totals, "responses": updates}, tuple(
        touched for _, touched in results
    )


def _all_or_nothing(book: FakeSpreadsheet, act: Any) -> Any:
    """Applies a request as a whole: a failure half-way restores the state before."""
    saved = copy.deepcopy((book.tabs, book.metadata))
    try:
        return act(book)
    except SheetError:
        book.tabs, book.metadata = saved
        raise


def book_batch(book: FakeSpreadsheet, request: FakeRequest) -> tuple[Row, tuple[FakeChange, ...]]:
    """Performs `spreadsheets.batchUpdate` on tabs and metadata, all requests or none. Raises SheetError."""
    requests = _body(request).get("requests", [])
    if not isinstance(requests, list) or not requests:
        raise _invalid("Must specify at least one request.")
    before = about(book)
    replies = _all_or_nothing(book, lambda draft: [_request(draft, request_row) for request_row in requests])
    after = about(book)
    changed = [name for name in after if after[name] != before.get(name)]
    old = {name: before[name] for name in changed if name in before}
    touched = FakeChange("spreadsheet", book.id, tuple(changed), old, {name: after[name] for name in changed})
    return {"spreadsheetId": book.id, "replies": replies}, (touched,) if changed else ()


def _kind_and_fields(request: Any) -> tuple[str, Any]:
    """Returns the kind of a batch request and its fields. Raises SheetError for a malformed one."""
    if not isinstance(request, dict) or len(request) != 1:
        raise _invalid("Invalid requests[0]: exactly one kind of request is needed.")
    kind, fields = next(iter(request.items()))
    inner = list(fields.values()) if isinstance(fields, dict) else [None]
    if any(not isinstance(value, dict) for value in inner) and kind != "deleteSheet":
        raise _invalid(f"Invalid value at 'requests[0].{kind}'")
    return kind, fields


def _request(book: FakeSpreadsheet, request: Any) -> Row:
    kind, fields = _kind_and_fields(request)
    match kind:
        case "addSheet":
            return _add_tab(book, fields.get("properties", {}))
        case "createDeveloperMetadata":
            return _add_metadata(book, fields.get("developerMetadata", {}))
        case "deleteSheet":
            return _delete_tab(book, fields.get("sheetId"))
        case "deleteDimension":
            return _delete_rows(book, fields.get("range", {}))
        case "updateSheetProperties":
            return _rename_tab(book, fields.get("properties", {}))
    message = f"Unknown name \"{kind}\" at 'requests[0]': Cannot find field."
    raise _invalid(f"Invalid JSON payload received. {message}")


def _delete_tab(book: FakeSpreadsheet, sheet_id: Any) -> Row:
    remaining = [tab for tab in book.tabs if tab.sheet_id != sheet_id]
    if len(remaining) == len(book.tabs) or not remaining:
        raise _invalid(f"Invalid requests[0].deleteSheet: No grid with id: {sheet_id}")
    book.tabs = remaining
    return {}


def _rename_tab(book: FakeSpreadsheet, properties: Row) -> Row:
    for tab in book.tabs:
        if tab.sheet_id == properties.get("sheetId"):
            tab.title = str(properties.get("title", tab.title))
            return {}
    raise _invalid("Invalid requests[0].updateSheetProperties: No grid with that id")


def _delete_rows(book: FakeSpreadsheet, span: Row) -> Row:
    first, last = span.get("startIndex", 0), span.get("endIndex", 0)
    for tab in book.tabs:
        if (
            tab.sheet_id == span.get("sheetId")
            and span.get("dimension") == "ROWS"
            and 0 <= first < last <= tab.rows
        ):
            tab.delete_rows(first, last)
            return {}
    raise _invalid("Invalid requests[0].deleteDimension: No grid with that id, or no rows.")


def _add_tab(book: FakeSpreadsheet, properties: Row) -> Row:
    title = str(properties.get("title") or f"Sheet{len(book.tabs) + 1}")
    if any(tab.title.casefold() == title.casefold() for tab in book.tabs):
        message = f'A sheet with the name "{title}" already exists. Please enter another name.'
        raise _invalid(f"Invalid requests[0].addSheet: {message}")
    number = properties.get("sheetId", max(tab.sheet_id for tab in book.tabs) + 1)
    grid = properties.get("gridProperties", {})
    tab = FakeTab(int(number), title, int(grid.get("rowCount", 1000)), int(grid.get("columnCount", 26)))
    book.tabs = [*book.tabs, tab]
    return {"addSheet": {"properties": about(book)["sheets"][-1]["properties"]}}


def _add_metadata(book: FakeSpreadsheet, metadata: Row) -> Row:
    if not metadata.get("metadataKey") or metadata.get("visibility") not in ("DOCUMENT", "PROJECT"):
        raise _invalid(
            "Invalid requests[0].createDeveloperMetadata: key, location and visibility are needed."
        )
    every = [*book.metadata, *(entry for tab in book.tabs for entry in tab.metadata)]
    number = max((entry["metadataId"] for entry in every), default=0) + 1
    entry = {"metadataId": number, **metadata}
    location = metadata.get("location", {})
    if location.get("spreadsheet"):
        book.metadata = [*book.metadata, entry]
        return {"createDeveloperMetadata": {"developerMetadata": entry}}
    sheet_id = location.get("sheetId", location.get("dimensionRange", {}).get("sheetId"))
    for tab in book.tabs:
        if tab.sheet_id == sheet_id:
            tab.metadata = [*tab.metadata, entry]
            return {"createDeveloperMetadata": {"developerMetadata": entry}}
    raise _invalid(f"Invalid requests[0].createDeveloperMetadata: No grid with id: {sheet_id}")


def _body(request: FakeRequest) -> Row:
    if request.method in ("GET", "HEAD") or not request.body:
        return {}
    try:
        decoded = json.loads(request.body)
    except ValueError:
        raise _invalid("Invalid JSON payload received.") from None
    if not isinstance(decoded, dict):
        raise _invalid("Invalid JSON payload received.")
    return decoded
