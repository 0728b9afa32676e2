"""Reads a Google spreadsheet: its tabs, whole tabs with row numbers, and the values that writes set."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from steward.connectors.base.connector import AnyWriteOperation, CurrentValue
from steward.connectors.base.queries import ReadOp, RecordPage, TabsQuery, ValuesQuery
from steward.connectors.base.records import SheetRow, SheetTab, SheetTable
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.spreadsheet.appended import AppendedRows
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
from steward.model.undo import TWICE, LookUpResult
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
# Low enough to stay below the caps on a response's values, whatever the cells hold.
CELLS_A_CALL = 100_000
_FIELDS = f"spreadsheetId,properties(title,timeZone),{_SHEETS}"


class SpreadsheetReader:
    """Reads one spreadsheet; with `spreadsheet_id` null, the spreadsheet that each query names."""

    def __init__(
        self, http: ReadClient, changes: Mapping[str, AnyWriteOperation], *, spreadsheet_id: str | None
    ) -> None:
        self._http = http
        self._changes = changes
        self._spreadsheet_id = spreadsheet_id

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Yields the one page of a read. Raises CallError; KeyError for an unsupported read."""
        reads: dict[str, Callable[[Any], AsyncIterator[RecordPage[Any]]]] = {
            "tabs": self._tabs,
            "values": self._values,
        }
        return cast("AsyncIterator[RecordPage[I]]", reads[op.name](params))

    async def title(self) -> str:
        """Returns the name of the connection's own spreadsheet. Raises CallError."""
        _, description = await self._described(None)
        return _property(description, "title") or self._path(None).rpartition("/")[2]

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Returns the existing keys for appends, and the current cells for other parts."""
        return [CurrentValue(part, await self._value(part)) for part in parts]

    async def confirm(self, part: Part) -> WriteOutcome:
        """Reads cells or keys back; an append without keys stays unknown."""
        op = self._changes[part.operation]
        if part.operation == "sheet.append_rows" and part.after is None:
            return WriteOutcome(
                WriteState.UNKNOWN, reason="Appended rows without a key cannot be looked for."
            )
        try:
            value_now = await self._value(part)
        except CallError as error:
            return WriteOutcome.of_error(WriteState.UNKNOWN, error)
        if op.same(part.after, value_now):
            return WriteOutcome(WriteState.APPLIED, seen=value_now)
        if op.same(part.before, value_now) or (part.before is None and value_now is None):
            return WriteOutcome(WriteState.NOT_SENT, seen=value_now)
        return WriteOutcome(WriteState.CONFLICT, seen=value_now, reason="It has another value now.")

    async def find_marker(self, part: Part, key: str) -> bool:
        """Returns whether every key of an append is in its column. Raises CallError."""
        return part.after is not None and await self._value(part) == part.after

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Finds the rows that each append wrote, and plans their removal."""
        if is_overwritten:
            return [TWICE for _ in parts]
        tabs: dict[tuple[str | None, str], AppendedRows] = {}
        look_ups: list[LookUpResult] = []
        for part in parts:
            named_id = part.arguments.get("spreadsheet_id")
            spreadsheet_id = named_id if isinstance(named_id, str) else None
            if (spreadsheet_id, part.target) not in tabs:
                described, _ = await self._described(spreadsheet_id)
                tab_id = next((tab.id for tab in described if tab.title == part.target), None)
                rows = (
                    [] if tab_id is None else await self._stored_rows(spreadsheet_id, tab_range(part.target))
                )
                tabs[spreadsheet_id, part.target] = AppendedRows(tab_id, rows)
            look_ups.append(tabs[spreadsheet_id, part.target].removal(part))
        return look_ups

    async def keys(self, tab: str, column: int, spreadsheet_id: str | None = None) -> frozenset[str]:
        """Returns the keys of a column, so that existing rows are not written again. Raises CallError."""
        response = await self._range(spreadsheet_id, column_range(tab, column))
        return frozenset(key_of(row[0]) for row in read_rows(response.get("values")) if row)

    async def _value(self, part: Part) -> JsonValue:
        named_id = part.arguments.get("spreadsheet_id")
        spreadsheet_id = named_id if isinstance(named_id, str) else None
        match part.operation:
            case "sheet.write_cells" | "sheet.clear":
                return {"rows": await self._stored_rows(spreadsheet_id, part.target)}
            case "sheet.delete_rows":
                stored_rows = await self._stored_rows(spreadsheet_id, tab_range(str(part.arguments["tab"])))
                return {
                    "used": len(stored_rows),
                    "rows": await self._stored_rows(spreadsheet_id, part.target),
                }
            case "sheet.add_tab":
                tabs, _ = await self._described(spreadsheet_id)
                return part.after if any(tab.title == part.target for tab in tabs) else None
            case _:
                return await self._appended(part, spreadsheet_id)

    async def _stored_rows(self, spreadsheet_id: str | None, name: str) -> list[JsonValue]:
        rows = read_rows((await self._range(spreadsheet_id, name)).get("values"))
        return [[stored_cell(cell) for cell in row] for row in rows]

    async def _appended(self, part: Part, spreadsheet_id: str | None) -> JsonValue:
        after, column = part.after, part.arguments["key_column"]
        keys = after.get("keys") if isinstance(after, Mapping) else None
        if not isinstance(keys, list | tuple) or not isinstance(column, int):
            return None
        present = await self.keys(part.target, column, spreadsheet_id)
        return {"keys": [key for key in keys if key in present]}

    async def _tabs(self, query: TabsQuery) -> AsyncIterator[RecordPage[SheetTab]]:
        tabs, _ = await self._described(query.spreadsheet_id)
        yield RecordPage(tuple(tabs), total=len(tabs))

    async def _values(self, query: ValuesQuery) -> AsyncIterator[RecordPage[SheetTable]]:
        tabs, description = await self._described(query.spreadsheet_id)
        tab = next((candidate for candidate in tabs if query.tab in (None, candidate.title)), None)
        if tab is None:
            raise RemoteNotFound("The tab is gone or was renamed.")
        rows: list[SheetRow] = []
        for name in _blocks(tab, query.area, _size(description, tab)):
            response = await self._range(query.spreadsheet_id, name, values=query.values, dates=query.dates)
            start = first_row(response.get("range"))
            block_rows = read_rows(response.get("values"))
            # Google omits empty rows at the end of a block.
            rows += [SheetRow(offset, ()) for offset in range(rows[-1].number + 1 if rows else start, start)]
            rows += [SheetRow(start + offset, cells) for offset, cells in enumerate(block_rows)]
        while rows and not rows[-1].cells:
            rows.pop()
        path, grid_rows = self._path(query.spreadsheet_id), _size(description, tab)[0]
        zone = _property(description, "timeZone")
        yield RecordPage(
            (SheetTable(path.rpartition("/")[2], tab.title, tuple(rows), zone, grid_rows),), total=1
        )

    async def _described(self, spreadsheet_id: str | None) -> tuple[list[SheetTab], dict[str, Decoded]]:
        response = await self._http.get(self._path(spreadsheet_id), {"fields": _FIELDS}, operation="tabs")
        description = object_of(response)
        sheets = description.get("sheets")
        if not isinstance(sheets, list):
            raise UnusableResponse("the spreadsheet has no list of tabs")
        tabs = [tab for tab in map(_tab, sheets) if tab is not None]
        return sorted(tabs, key=lambda tab: tab.index), description

    async def _range(
        self,
        spreadsheet_id: str | None,
        name: str,
        *,
        values: str = "UNFORMATTED_VALUE",
        dates: str = "SERIAL_NUMBER",
    ) -> dict[str, Decoded]:
        path = f"{self._path(spreadsheet_id)}/values/{in_path(name)}"
        params = {"majorDimension": "ROWS", "valueRenderOption": values, "dateTimeRenderOption": dates}
        response = await self._http.get(path, params, operation="values")
        if response.status == 400:
            raise range_error(response.quote(response.body[:2000].decode("utf-8", "replace")))
        return object_of(response)

    def _path(self, spreadsheet_id: str | None) -> str:
        return path_of(self._spreadsheet_id, spreadsheet_id)


def path_of(connected_id: str | None, requested_id: JsonValue) -> str:
    """Returns the path of the connected spreadsheet, or of the one requested. Raises RemoteNotFound."""
    chosen = connected_id if connected_id is not None else requested_id
    if not isinstance(chosen, str) or (connected_id is not None and requested_id not in (None, connected_id)):
        raise RemoteNotFound("The step does not name a spreadsheet of this connection.")
    return f"/v4/spreadsheets/{in_path(chosen)}"


def _property(description: Mapping[str, Decoded], name: str) -> str | None:
    properties = description.get("properties")
    value = properties.get(name) if isinstance(properties, dict) else None
    return value if isinstance(value, str) else None


def _blocks(tab: SheetTab, area: str | None, size: tuple[int, int]) -> list[str]:
    """Returns the ranges to read one after another: blocks of rows, so that no response is too large."""
    if area is not None:
        return [area_range(tab.title, area)]
    rows, columns = size
    rows_a_block = max(1, CELLS_A_CALL // max(columns, 1))
    if rows <= rows_a_block:
        return [tab_range(tab.title)]
    return [
        area_range(tab.title, f"{start}:{min(start + rows_a_block - 1, rows)}")
        for start in range(1, rows + 1, rows_a_block)
    ]


def _size(description: Mapping[str, Decoded], tab: SheetTab) -> tuple[int, int]:
    """Returns rows and columns of a tab's grid; an unknown grid counts as small."""
    sheets = description.get("sheets")
    for sheet in sheets if isinstance(sheets, list) else []:
        properties = sheet.get("properties") if isinstance(sheet, dict) else None
        if isinstance(properties, dict) and properties.get("title") == tab.title:
            grid = properties.get("gridProperties")
            grid_size = grid if isinstance(grid, dict) else {}
            rows, columns = grid_size.get("rowCount"), grid_size.get("columnCount")
            if isinstance(rows, int) and isinstance(columns, int):
                return rows, columns
    return 0, 0


def object_of(response: PlatformResponse) -> dict[str, Decoded]:
    """Returns the JSON object of a response. Raises UnusableResponse, or the response's error."""
    if not response.ok:
        raise error_of(response)
    decoded = response.json()
    if not isinstance(decoded, dict):
        raise UnusableResponse("an object was expected")
    return decoded


def error_of(response: PlatformResponse) -> CallError:
    """Returns the error of a non-2xx response; a sheet that is no longer shared needs reconnecting."""
    text = response.quote(response.body[:2000].decode("utf-8", "replace"))
    if response.status == 401:
        return Unauthorized(platform_text=text)
    if response.status in (403, 404):
        return Unauthorized(
            "The spreadsheet was deleted or is no longer shared with the service account.", platform_text=text
        )
    if response.status == 400:
        return Invalid([], "The spreadsheet refused the values.", platform_text=text)
    if response.status >= 500:
        return PlatformUnavailable(platform_text=text)
    return UnusableResponse(f"status {response.status}", platform_text=text)


def range_error(text: str | None) -> CallError:
    """Returns the error of a refused range: the tab ends before it, or does not exist."""
    if re.search(r"exceeds grid limits", text or "", re.IGNORECASE):
        message = "The tab has no such column or row. Add empty columns or rows to it, then run this again."
        return Invalid([], message, platform_text=text or "")
    return RemoteNotFound("The tab is gone or was renamed.")


def _tab(sheet: Decoded) -> SheetTab | None:
    properties = sheet.get("properties") if isinstance(sheet, dict) else None
    if not isinstance(properties, dict) or properties.get("sheetType", "GRID") != "GRID":
        return None
    number, title, index = properties.get("sheetId", 0), properties.get("title"), properties.get("index", 0)
    if not isinstance(title, str) or not isinstance(number, int) or not isinstance(index, int):
        raise UnusableResponse("a tab has no title")
    return SheetTab(str(number), title, index)
