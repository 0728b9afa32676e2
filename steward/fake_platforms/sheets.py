"""The pretend spreadsheets: tabs, cells, metadata, and the calls of the values interface (contract 9.1)."""

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from steward.fake_platforms import a1
from steward.fake_platforms.exchange import Answer, Asked, Row, Touched, answer_json

MOST_CELLS = 10_000_000


class SheetError(Exception):
    """A refusal in the form of the Google interfaces."""

    def __init__(self, status: int, word: str, message: str) -> None:
        super().__init__(message)
        self.status, self.word, self.message = status, word, message

    def answer(self) -> Answer:
        """`{"error": {code, message, status}}`."""
        row = {"code": self.status, "message": self.message, "status": self.word}
        return answer_json(self.status, {"error": row})


def invalid(message: str) -> SheetError:
    """400 INVALID_ARGUMENT."""
    return SheetError(400, "INVALID_ARGUMENT", message)


@dataclass(slots=True)
class Tab:
    """One sheet of a spreadsheet; `cells` holds only what was written."""

    sheet_id: int
    title: str
    rows: int = 1000
    columns: int = 26
    cells: dict[tuple[int, int], Any] = field(default_factory=dict)
    metadata: list[Row] = field(default_factory=list)

    def values(self) -> list[list[Any]]:
        """All rows down to the last that holds something, as they were stored."""
        return self.read(a1.Area(self.title))

    def read(self, area: a1.Area) -> list[list[Any]]:
        """The rows of an area; empty ends of rows and of the area are left out, as the service does."""
        bottom = min(area.bottom or self.rows, self.rows)
        right = min(area.right or self.columns, self.columns)
        inside = [
            (row, column)
            for (row, column), value in self.cells.items()
            if value != "" and area.top <= row < bottom and area.left <= column < right
        ]
        last = max((row for row, _ in inside), default=area.top - 1)
        found: list[list[Any]] = [[] for _ in range(last + 1 - area.top)]
        for row, column in sorted(inside):
            line = found[row - area.top]
            line.extend([""] * (column - area.left - len(line)))
            line.append(self.cells[row, column])
        return found

    def take_out(self, top: int, bottom: int) -> None:
        """Removes rows from `top` on, `bottom` excluded, counted from 0; what is below moves up."""
        moved: dict[tuple[int, int], Any] = {}
        for (row, column), value in self.cells.items():
            if not top <= row < bottom:
                moved[row - (bottom - top) if row >= bottom else row, column] = value
        self.cells = moved
        self.rows -= bottom - top

    def last_row(self) -> int:
        """How many rows there are down to the last that holds something."""
        return max((row + 1 for (row, _), value in self.cells.items() if value != ""), default=0)


@dataclass(slots=True)
class Book:
    """One spreadsheet, and the addresses it is shared with."""

    id: str
    title: str
    tabs: list[Tab]
    shared_with: set[str] = field(default_factory=set)
    metadata: list[Row] = field(default_factory=list)

    def tab(self, title: str) -> Tab:
        """The tab of that name."""
        return next(tab for tab in self.tabs if tab.title == title)

    def area(self, text: str) -> a1.Area:
        """The area a range means; raises SheetError 400 for one that cannot be read, a tab gone included."""
        found = a1.parsed(text, [tab.title for tab in self.tabs])
        if found is None:
            raise invalid(f"Unable to parse range: {text}")
        tab = self.tab(found.tab)
        if found.top >= tab.rows or found.left >= tab.columns:
            most = a1.written(a1.Area(tab.title), tab.rows, tab.columns)
            raise invalid(f"Range ({text}) exceeds grid limits. Max range: {most}")
        return found


def entered(value: Any, option: str) -> Any:
    """A value as stored: RAW keeps text as text, USER_ENTERED reads it as if typed."""
    if isinstance(value, dict | list):
        raise invalid("Invalid values: a cell holds text, a number or a boolean")
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


def shown(value: Any, option: str) -> Any:
    """A cell as read: formatted values are text, the others as stored."""
    if option != "FORMATTED_VALUE" or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(int(value)) if value == int(value) else repr(value)


def _turned(rows: list[list[Any]]) -> list[list[Any]]:
    width = max((len(row) for row in rows), default=0)
    return [[row[n] if n < len(row) else "" for row in rows] for n in range(width)]


def _choice(asked: Asked | Row, name: str, known: tuple[str, ...], *, default: str | None) -> str:
    value = asked.first(name) if isinstance(asked, Asked) else asked.get(name)
    if value is None:
        if default is None:
            raise invalid(f"'{name}' is required but not specified")
        return default
    if value not in known:
        raise invalid(f"Invalid value at '{name}': \"{value}\"")
    return str(value)


_INPUT = ("RAW", "USER_ENTERED")
_RENDER = ("FORMATTED_VALUE", "UNFORMATTED_VALUE", "FORMULA")
_DIMENSION = ("ROWS", "COLUMNS")


def value_range(book: Book, text: str, *, render: str, dimension: str) -> Row:
    """A ValueRange as `values.get` answers it; `values` is left out when nothing is there."""
    area = book.area(text)
    tab = book.tab(area.tab)
    rows = [[shown(value, render) for value in row] for row in tab.read(area)]
    row: Row = {"range": a1.written(area, tab.rows, tab.columns), "majorDimension": dimension}
    if rows:
        row["values"] = _turned(rows) if dimension == "COLUMNS" else rows
    return row


def _rows_of(body: Row) -> list[list[Any]]:
    rows = body.get("values", [])
    if not isinstance(rows, list) or any(not isinstance(row, list) for row in rows):
        raise invalid("Invalid value at 'data.values'")
    dimension = _choice(body, "majorDimension", _DIMENSION, default="ROWS")
    return _turned(rows) if dimension == "COLUMNS" else rows


def _touched(book: Book, tab: Tab, area: str, before: list[list[Any]], after: list[list[Any]]) -> Touched:
    where = f"{book.id}/{area}"
    return Touched("range", where, ("values",), {"values": before}, {"values": after})


def write(book: Book, text: str, body: Row, option: str) -> tuple[Row, Touched]:
    """Writes values into a range; raises SheetError when they do not fit in it. null leaves a cell alone."""
    area = book.area(text)
    named = body.get("range")
    if named is not None and not isinstance(named, str):
        raise invalid("Invalid value at 'data.range'")
    if named and book.area(named) != area:
        raise invalid(f"Requested range [{text}] does not match value range [{named}]")
    tab, rows = book.tab(area.tab), _rows_of(body)
    height, width = len(rows), max((len(row) for row in rows), default=0)
    limit = a1.written(area, tab.rows, tab.columns)
    if height > min(area.bottom or tab.rows, tab.rows) - area.top:
        reached = f"row [{area.top + height}]"
        raise invalid(f"Requested writing within range [{limit}], but tried writing to {reached}")
    if width > min(area.right or tab.columns, tab.columns) - area.left:
        column = a1.column_letters(area.left + width - 1)
        raise invalid(f"Requested writing within range [{limit}], but tried writing to column [{column}]")
    filled = a1.Area(tab.title, area.top, area.left, area.top + max(height, 1), area.left + max(width, 1))
    before, cells = tab.read(filled), 0
    stored = [[None if value is None else entered(value, option) for value in row] for row in rows]
    for down, row in enumerate(stored):
        for across, value in enumerate(row):
            cells += 1
            if value is not None:
                tab.cells[area.top + down, area.left + across] = value
    where = a1.written(filled, tab.rows, tab.columns)
    told: Row = {"spreadsheetId": book.id, "updatedRange": where}
    if cells:
        told |= {"updatedRows": height, "updatedColumns": width, "updatedCells": cells}
    return told, _touched(book, tab, where, before, tab.read(filled))


def append(book: Book, text: str, body: Row, asked: Asked) -> tuple[Row, Touched]:
    """Adds rows below the table the range lies in; not repeatable, each call adds anew."""
    option = _choice(asked, "valueInputOption", _INPUT, default=None)
    _choice(asked, "insertDataOption", ("OVERWRITE", "INSERT_ROWS"), default="OVERWRITE")
    area, rows = book.area(text), _rows_of(body)
    tab = book.tab(area.tab)
    last = tab.last_row()
    start = last if last > area.top else area.top
    if start + len(rows) > tab.rows:
        if (start + len(rows)) * tab.columns > MOST_CELLS:
            words = "This action would increase the number of cells in the workbook above the limit of"
            raise invalid(f"{words} {MOST_CELLS} cells.")
        tab.rows = start + len(rows)
    tab.columns = max(tab.columns, area.left + max((len(row) for row in rows), default=0))
    target = f"{a1.quoted(tab.title)}!{a1.column_letters(area.left)}{start + 1}"
    width = max((len(row) for row in rows), default=1) or 1
    target += f":{a1.column_letters(area.left + width - 1)}{start + max(len(rows), 1)}"
    updates, touched = write(book, target, {"values": rows}, option)
    told: Row = {"spreadsheetId": book.id}
    if last > area.top:
        table = a1.Area(tab.title, area.top, area.left, last, None)
        wide = max((len(row) for row in tab.read(table)), default=1)
        area_of_table = a1.Area(tab.title, area.top, area.left, last, area.left + wide)
        told["tableRange"] = a1.written(area_of_table, tab.rows, tab.columns)
    return {**told, "updates": updates}, touched


def clear(book: Book, text: str) -> tuple[Row, Touched]:
    """Empties a range."""
    area = book.area(text)
    tab = book.tab(area.tab)
    before = tab.read(area)
    bottom, right = area.bottom or tab.rows, area.right or tab.columns
    for row, column in list(tab.cells):
        if area.top <= row < bottom and area.left <= column < right:
            del tab.cells[row, column]
    where = a1.written(area, tab.rows, tab.columns)
    return {"spreadsheetId": book.id, "clearedRange": where}, _touched(book, tab, where, before, [])


def about(book: Book) -> Row:
    """The spreadsheet itself: properties, tabs, metadata."""
    sheets = [
        {
            "properties": {
                "sheetId": tab.sheet_id,
                "title": tab.title,
                "index": place,
                "sheetType": "GRID",
                "gridProperties": {"rowCount": tab.rows, "columnCount": tab.columns},
            },
            **({"developerMetadata": list(tab.metadata)} if tab.metadata else {}),
        }
        for place, tab in enumerate(book.tabs)
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


def values_call(book: Book, rest: str, asked: Asked) -> tuple[Row, tuple[Touched, ...]]:
    """One call below `/values`; `rest` is the range with its verb. Raises SheetError."""
    body = _body(asked)
    render = _choice(asked, "valueRenderOption", _RENDER, default="FORMATTED_VALUE")
    dimension = _choice(asked, "majorDimension", _DIMENSION, default="ROWS")
    text, _, verb = rest.removeprefix("/").rpartition(":")
    match asked.method, verb:
        case "GET", "batchGet" if not text:
            ranges = [value for name, value in asked.query if name == "ranges"]
            found = [value_range(book, one, render=render, dimension=dimension) for one in ranges]
            return {"spreadsheetId": book.id, "valueRanges": found}, ()
        case "POST", "batchUpdate" if not text:
            return _values_batch(book, body)
        case "POST", "batchClear" if not text:
            done = _all_or_nothing(
                book, lambda draft: [clear(draft, one) for one in _texts(body.get("ranges"))]
            )
            cleared = [told["clearedRange"] for told, _ in done]
            return {"spreadsheetId": book.id, "clearedRanges": cleared}, tuple(t for _, t in done)
        case "POST", "append":
            told, touched = _all_or_nothing(book, lambda draft: append(draft, text, body, asked))
            return told, (touched,)
        case "POST", "clear":
            told, touched = clear(book, text)
            return told, (touched,)
    text = rest.removeprefix("/")
    if asked.method == "GET":
        return value_range(book, text, render=render, dimension=dimension), ()
    if asked.method == "PUT":
        option = _choice(asked, "valueInputOption", _INPUT, default=None)
        told, touched = _all_or_nothing(book, lambda draft: write(draft, text, body, option))
        return told, (touched,)
    raise SheetError(404, "NOT_FOUND", "Method not found.")


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or any(not isinstance(one, str) for one in value):
        raise invalid("Invalid value at 'ranges'")
    return value


def _values_batch(book: Book, body: Row) -> tuple[Row, tuple[Touched, ...]]:
    option = _choice(body, "valueInputOption", _INPUT, default=None)
    parts = body.get("data", [])
    if not isinstance(parts, list) or any(
        not isinstance(part, dict) or "range" not in part for part in parts
    ):
        raise invalid("Invalid value at 'data'")
    done = _all_or_nothing(book, lambda draft: [write(draft, str(p["range"]), p, option) for p in parts])
    told = [row for row, _ in done]
    totals = {
        "totalUpdatedRows": sum(row.get("updatedRows", 0) for row in told),
        "totalUpdatedColumns": sum(row.get("updatedColumns", 0) for row in told),
        "totalUpdatedCells": sum(row.get("updatedCells", 0) for row in told),
        "totalUpdatedSheets": len({row["updatedRange"].rpartition("!")[0] for row in told}),
    }
    return {"spreadsheetId": book.id, **totals, "responses": told}, tuple(touched for _, touched in done)


def _all_or_nothing(book: Book, act: Any) -> Any:
    """A request is atomic: what fails half-way leaves nothing behind."""
    kept = copy.deepcopy((book.tabs, book.metadata))
    try:
        return act(book)
    except SheetError:
        book.tabs, book.metadata = kept
        raise


def book_batch(book: Book, asked: Asked) -> tuple[Row, tuple[Touched, ...]]:
    """`spreadsheets.batchUpdate`: tabs and developer metadata; all requests or none. Raises SheetError."""
    requests = _body(asked).get("requests", [])
    if not isinstance(requests, list) or not requests:
        raise invalid("Must specify at least one request.")
    before = about(book)
    replies = _all_or_nothing(book, lambda draft: [_request(draft, one) for one in requests])
    after = about(book)
    changed = [name for name in after if after[name] != before.get(name)]
    old = {name: before[name] for name in changed if name in before}
    touched = Touched("spreadsheet", book.id, tuple(changed), old, {name: after[name] for name in changed})
    return {"spreadsheetId": book.id, "replies": replies}, (touched,) if changed else ()


def _request(book: Book, request: Any) -> Row:
    if not isinstance(request, dict) or len(request) != 1:
        raise invalid("Invalid requests[0]: exactly one kind of request is needed.")
    kind, ask = next(iter(request.items()))
    inner = list(ask.values()) if isinstance(ask, dict) else [None]
    if any(not isinstance(value, dict) for value in inner) and kind != "deleteSheet":
        raise invalid(f"Invalid value at 'requests[0].{kind}'")
    match kind:
        case "addSheet":
            return _add_tab(book, ask.get("properties", {}))
        case "createDeveloperMetadata":
            return _add_metadata(book, ask.get("developerMetadata", {}))
        case "deleteSheet":
            kept = [tab for tab in book.tabs if tab.sheet_id != ask.get("sheetId")]
            if len(kept) == len(book.tabs) or not kept:
                raise invalid(f"Invalid requests[0].deleteSheet: No grid with id: {ask.get('sheetId')}")
            book.tabs = kept
            return {}
        case "deleteDimension":
            return _delete_rows(book, ask.get("range", {}))
        case "updateSheetProperties":
            wanted = ask.get("properties", {})
            for tab in book.tabs:
                if tab.sheet_id == wanted.get("sheetId"):
                    tab.title = str(wanted.get("title", tab.title))
                    return {}
            raise invalid("Invalid requests[0].updateSheetProperties: No grid with that id")
    words = f"Unknown name \"{kind}\" at 'requests[0]': Cannot find field."
    raise invalid(f"Invalid JSON payload received. {words}")


def _delete_rows(book: Book, span: Row) -> Row:
    first, last = span.get("startIndex", 0), span.get("endIndex", 0)
    for tab in book.tabs:
        if (
            tab.sheet_id == span.get("sheetId")
            and span.get("dimension") == "ROWS"
            and 0 <= first < last <= tab.rows
        ):
            tab.take_out(first, last)
            return {}
    raise invalid("Invalid requests[0].deleteDimension: No grid with that id, or no rows.")


def _add_tab(book: Book, wanted: Row) -> Row:
    title = str(wanted.get("title") or f"Sheet{len(book.tabs) + 1}")
    if any(tab.title.casefold() == title.casefold() for tab in book.tabs):
        words = f'A sheet with the name "{title}" already exists. Please enter another name.'
        raise invalid(f"Invalid requests[0].addSheet: {words}")
    number = wanted.get("sheetId", max(tab.sheet_id for tab in book.tabs) + 1)
    grid = wanted.get("gridProperties", {})
    tab = Tab(int(number), title, int(grid.get("rowCount", 1000)), int(grid.get("columnCount", 26)))
    book.tabs = [*book.tabs, tab]
    return {"addSheet": {"properties": about(book)["sheets"][-1]["properties"]}}


def _add_metadata(book: Book, wanted: Row) -> Row:
    if not wanted.get("metadataKey") or wanted.get("visibility") not in ("DOCUMENT", "PROJECT"):
        raise invalid("Invalid requests[0].createDeveloperMetadata: key, location and visibility are needed.")
    every = [*book.metadata, *(entry for tab in book.tabs for entry in tab.metadata)]
    number = max((entry["metadataId"] for entry in every), default=0) + 1
    entry = {"metadataId": number, **wanted}
    location = wanted.get("location", {})
    if location.get("spreadsheet"):
        book.metadata = [*book.metadata, entry]
        return {"createDeveloperMetadata": {"developerMetadata": entry}}
    sheet_id = location.get("sheetId", location.get("dimensionRange", {}).get("sheetId"))
    for tab in book.tabs:
        if tab.sheet_id == sheet_id:
            tab.metadata = [*tab.metadata, entry]
            return {"createDeveloperMetadata": {"developerMetadata": entry}}
    raise invalid(f"Invalid requests[0].createDeveloperMetadata: No grid with id: {sheet_id}")


def _body(asked: Asked) -> Row:
    if asked.method in ("GET", "HEAD") or not asked.body:
        return {}
    try:
        found = json.loads(asked.body)
    except ValueError:
        raise invalid("Invalid JSON payload received.") from None
    if not isinstance(found, dict):
        raise invalid("Invalid JSON payload received.")
    return found
