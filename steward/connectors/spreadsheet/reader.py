"""Reads a Google spreadsheet.

Iits tabs, whole tabs with row numbers, and what a write is compared with.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from steward.connectors.base.connector import CurrentValue, WriteOperation
from steward.connectors.base.queries import ReadOp, RecordPage, TabsQuery, ValuesQuery
from steward.connectors.base.records import SheetRow, SheetTab, SheetTable
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.spreadsheet.cells import (
    area_range,
    column_range,
    first_row,
    in_path,
    key_of,
    read_rows,
    stored_cell,
    tab_range,
)
from steward.model.change import Part
from steward.model.json import JsonValue
from steward.outbound.client import ReadClient
from steward.outbound.errors import (
    CallError,
    Invalid,
    PlatformUnavailable,
    RemoteNotFound,
    Unauthorized,
    UnusableResponse,
)
from steward.outbound.response import Decoded, PlatformResponse

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741

_GRID = "gridProperties(rowCount,columnCount)"
_SHEETS = f"sheets.properties(sheetId,title,index,sheetType,{_GRID})"
# Below the caps on an answer's values, whatever stands in the cells.
CELLS_A_CALL = 100_000
_FIELDS = f"spreadsheetId,properties(title,timeZone),{_SHEETS}"
_RAW = {"valueRenderOption": "UNFORMATTED_VALUE", "dateTimeRenderOption": "SERIAL_NUMBER"}


class SpreadsheetReader:
    """A reader of one spreadsheet, or with `spreadsheet_id` null of the one each ask names."""

    def __init__(
        self, http: ReadClient, changes: Mapping[str, WriteOperation[Any]], *, spreadsheet_id: str | None
    ) -> None:
        self._http = http
        self._changes = changes
        self._own = spreadsheet_id

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """The one page of a read. Raises CallError; KeyError for a read it does not have."""
        reads: dict[str, Callable[[Any], AsyncIterator[RecordPage[Any]]]] = {
            "tabs": self._tabs,
            "values": self._values,
        }
        return cast("AsyncIterator[RecordPage[I]]", reads[op.name](params))

    async def title(self) -> str:
        """The connection's own spreadsheet's name. Raises CallError."""
        _, found = await self._described(None)
        properties = found.get("properties")
        title = properties.get("title") if isinstance(properties, dict) else None
        return title if isinstance(title, str) else self._path(None).rpartition("/")[2]

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Appends: those of their keys that are there. Cells: what stands there."""
        return [CurrentValue(part, await self._value(part)) for part in parts]

    async def confirm(self, part: Part) -> WriteOutcome:
        """Reads cells or keys back; a blind append stays unknown (engine 11.3)."""
        op = self._changes[part.operation]
        if part.operation == "sheet.append_rows" and part.after is None:
            return WriteOutcome(
                WriteState.UNKNOWN, reason="Appended rows without a key cannot be looked for."
            )
        try:
            seen = await self._value(part)
        except CallError as error:
            return WriteOutcome.of_error(WriteState.UNKNOWN, error)
        if op.same(part.after, seen):
            return WriteOutcome(WriteState.APPLIED, seen=seen)
        if op.same(part.before, seen) or (part.before is None and seen is None):
            return WriteOutcome(WriteState.NOT_SENT, seen=seen)
        return WriteOutcome(WriteState.CONFLICT, seen=seen, reason="It has another value now.")

    async def find_marker(self, part: Part, key: str) -> bool:
        """Whether every key of an append is in its column. Raises CallError."""
        return part.after is not None and await self._value(part) == part.after

    async def keys(self, tab: str, column: int, spreadsheet_id: str | None = None) -> frozenset[str]:
        """The keys of a column, for leaving out rows already there. Raises CallError."""
        found = await self._range(spreadsheet_id, column_range(tab, column))
        return frozenset(key_of(row[0]) for row in read_rows(found.get("values")) if row)

    async def _value(self, part: Part) -> JsonValue:
        place = part.arguments.get("spreadsheet_id")
        own = place if isinstance(place, str) else None
        match part.operation:
            case "sheet.write_cells" | "sheet.clear":
                return {"rows": await self._kept(own, part.target)}
            case "sheet.delete_rows":
                whole = await self._kept(own, tab_range(str(part.arguments["tab"])))
                return {"used": len(whole), "rows": await self._kept(own, part.target)}
            case "sheet.add_tab":
                tabs, _ = await self._described(own)
                return part.after if any(tab.title == part.target for tab in tabs) else None
            case _:
                return await self._appended(part, own)

    async def _kept(self, own: str | None, name: str) -> list[JsonValue]:
        rows = read_rows((await self._range(own, name)).get("values"))
        return [[stored_cell(cell) for cell in row] for row in rows]

    async def _appended(self, part: Part, own: str | None) -> JsonValue:
        after, column = part.after, part.arguments["key_column"]
        wanted = after.get("keys") if isinstance(after, Mapping) else None
        if not isinstance(wanted, list | tuple) or not isinstance(column, int):
            return None
        present = await self.keys(part.target, column, own)
        return {"keys": [key for key in wanted if key in present]}

    async def _tabs(self, ask: TabsQuery) -> AsyncIterator[RecordPage[SheetTab]]:
        tabs, _ = await self._described(ask.spreadsheet_id)
        yield RecordPage(tuple(tabs), total=len(tabs))

    async def _values(self, ask: ValuesQuery) -> AsyncIterator[RecordPage[SheetTable]]:
        tabs, found = await self._described(ask.spreadsheet_id)
        tab = next((each for each in tabs if ask.tab in (None, each.title)), None)
        if tab is None:
            raise RemoteNotFound("The tab is gone or was renamed.")
        rows: list[SheetRow] = []
        for name in _blocks(tab, ask.area, _size(found, tab)):
            answered = await self._range(ask.spreadsheet_id, name)
            start = first_row(answered.get("range"))
            held = read_rows(answered.get("values"))
            # Rows at the end of a block that hold nothing are not told.
            rows += [SheetRow(at, ()) for at in range(rows[-1].number + 1 if rows else start, start)]
            rows += [SheetRow(start + at, cells) for at, cells in enumerate(held)]
        while rows and not rows[-1].cells:
            rows.pop()
        properties = found.get("properties")
        zone = properties.get("timeZone") if isinstance(properties, dict) else None
        table = SheetTable(
            self._path(ask.spreadsheet_id).rpartition("/")[2],
            tab.title,
            tuple(rows),
            zone if isinstance(zone, str) else None,
            _size(found, tab)[0],
        )
        yield RecordPage((table,), total=1)

    async def _described(self, spreadsheet_id: str | None) -> tuple[list[SheetTab], dict[str, Decoded]]:
        answer = await self._http.get(self._path(spreadsheet_id), {"fields": _FIELDS}, operation="tabs")
        found = object_of(answer)
        sheets = found.get("sheets")
        if not isinstance(sheets, list):
            raise UnusableResponse("the spreadsheet has no list of tabs")
        tabs = [tab for tab in map(_tab, sheets) if tab is not None]
        return sorted(tabs, key=lambda tab: tab.index), found

    async def _range(self, spreadsheet_id: str | None, name: str) -> dict[str, Decoded]:
        path = f"{self._path(spreadsheet_id)}/values/{in_path(name)}"
        answer = await self._http.get(path, {"majorDimension": "ROWS", **_RAW}, operation="values")
        if answer.status == 400:
            raise range_error(answer.quote(answer.body[:2000].decode("utf-8", "replace")))
        return object_of(answer)

    def _path(self, spreadsheet_id: str | None) -> str:
        return path_of(self._own, spreadsheet_id)


def path_of(own: str | None, named: JsonValue) -> str:
    """The path of a spreadsheet: the connection's own, or the one named without one.

    Raises RemoteNotFound.
    """
    chosen = own if own is not None else named
    if not isinstance(chosen, str) or (own is not None and named not in (None, own)):
        raise RemoteNotFound("The step does not name a spreadsheet of this connection.")
    return f"/v4/spreadsheets/{in_path(chosen)}"


def _blocks(tab: SheetTab, area: str | None, size: tuple[int, int]) -> list[str]:
    """The ranges read one after the other: a large tab in blocks of rows, so that no answer is too large."""
    if area is not None:
        return [area_range(tab.title, area)]
    rows, columns = size
    each = max(1, CELLS_A_CALL // max(columns, 1))
    if rows <= each:
        return [tab_range(tab.title)]
    return [
        area_range(tab.title, f"{start}:{min(start + each - 1, rows)}") for start in range(1, rows + 1, each)
    ]


def _size(found: Mapping[str, Decoded], tab: SheetTab) -> tuple[int, int]:
    """Rows and columns of a tab's grid; none told counts as small."""
    sheets = found.get("sheets")
    for sheet in sheets if isinstance(sheets, list) else []:
        properties = sheet.get("properties") if isinstance(sheet, dict) else None
        if isinstance(properties, dict) and properties.get("title") == tab.title:
            grid = properties.get("gridProperties")
            held = grid if isinstance(grid, dict) else {}
            rows, columns = held.get("rowCount"), held.get("columnCount")
            if isinstance(rows, int) and isinstance(columns, int):
                return rows, columns
    return 0, 0


def object_of(answer: PlatformResponse) -> dict[str, Decoded]:
    """An object answer. Raises UnusableResponse, or the error it stands for (connectors 7.3)."""
    if not answer.ok:
        raise error_of(answer)
    decoded = answer.json()
    if not isinstance(decoded, dict):
        raise UnusableResponse("an object was expected")
    return decoded


def error_of(answer: PlatformResponse) -> CallError:
    """The error of an answer that is no 2xx; a sheet no longer shared needs reconnecting."""
    text = answer.quote(answer.body[:2000].decode("utf-8", "replace"))
    if answer.status == 401:
        return Unauthorized(platform_text=text)
    if answer.status in (403, 404):
        return Unauthorized(
            "The spreadsheet was deleted or is no longer shared with the service account.", platform_text=text
        )
    if answer.status == 400:
        return Invalid([], "The spreadsheet refused the values.", platform_text=text)
    if answer.status >= 500:
        return PlatformUnavailable(platform_text=text)
    return UnusableResponse(f"status {answer.status}", platform_text=text)


def range_error(text: str | None) -> CallError:
    """The error of a range that was refused with `text`: the tab ends before it, or is not there."""
    if re.search(r"exceeds grid limits", text or "", re.IGNORECASE):
        words = "The tab has no such column or row. Add empty columns or rows to it, then run this again."
        return Invalid([], words, platform_text=text or "")
    return RemoteNotFound("The tab is gone or was renamed.")


def _tab(sheet: Decoded) -> SheetTab | None:
    properties = sheet.get("properties") if isinstance(sheet, dict) else None
    if not isinstance(properties, dict) or properties.get("sheetType", "GRID") != "GRID":
        return None
    number, title, index = properties.get("sheetId", 0), properties.get("title"), properties.get("index", 0)
    if not isinstance(title, str) or not isinstance(number, int) or not isinstance(index, int):
        raise UnusableResponse("a tab has no title")
    return SheetTab(str(number), title, index)
