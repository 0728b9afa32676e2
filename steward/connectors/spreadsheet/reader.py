"""Reads a Google spreadsheet: its tabs, whole tabs with row numbers, and what a write is compared with."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from steward.connectors.base import (
    Broken,
    CallError,
    ChangeOp,
    Current,
    Invalid,
    JsonValue,
    NotFound,
    Nothing,
    Page,
    Part,
    ReadHttp,
    ReadOp,
    SheetRow,
    SheetTable,
    Tab,
    Unauthorized,
    Unavailable,
    ValuesAsk,
    WriteOutcome,
    WriteState,
)
from steward.connectors.spreadsheet.cells import (
    column_range,
    first_row,
    in_path,
    kept,
    key_of,
    read_rows,
    tab_range,
)
from steward.outbound.answer import Answer, Decoded

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741

_SHEETS = "sheets.properties(sheetId,title,index,sheetType)"
_FIELDS = f"spreadsheetId,properties(title,timeZone),{_SHEETS}"
_RAW = {"valueRenderOption": "UNFORMATTED_VALUE", "dateTimeRenderOption": "SERIAL_NUMBER"}


class SpreadsheetReader:
    """A reader of one spreadsheet."""

    def __init__(self, http: ReadHttp, changes: Mapping[str, ChangeOp[Any]], *, spreadsheet_id: str) -> None:
        self._http = http
        self._changes = changes
        self._id = spreadsheet_id
        self._path = f"/v4/spreadsheets/{in_path(spreadsheet_id)}"

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[Page[I]]:
        """The one page of a read. Raises CallError; KeyError for a read it does not have."""
        reads: dict[str, Callable[[Any], AsyncIterator[Page[Any]]]] = {
            "tabs": self._tabs,
            "values": self._values,
        }
        return cast("AsyncIterator[Page[I]]", reads[op.name](params))

    async def title(self) -> str:
        """The spreadsheet's name. Raises CallError."""
        _, found = await self._described()
        properties = found.get("properties")
        title = properties.get("title") if isinstance(properties, dict) else None
        return title if isinstance(title, str) else self._id

    async def current(self, parts: Sequence[Part]) -> list[Current]:
        """Appends: the keys when all of them are there, else nothing. Cells: what stands there."""
        return [Current(part, await self._value(part)) for part in parts]

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
            return WriteOutcome(WriteState.UNKNOWN, reason=error.message, error=error.kind)
        if op.same(part.after, seen):
            return WriteOutcome(WriteState.APPLIED, seen=seen)
        if op.same(part.before, seen) or (part.before is None and seen is None):
            return WriteOutcome(WriteState.NOT_SENT, seen=seen)
        return WriteOutcome(WriteState.CONFLICT, seen=seen, reason="It has another value now.")

    async def find_marker(self, part: Part, key: str) -> bool:
        """Whether every key of an append is in its column. Raises CallError."""
        return part.after is not None and await self._value(part) == part.after

    async def keys(self, tab: str, column: int) -> frozenset[str]:
        """The keys of a column, for leaving out rows already there. Raises CallError."""
        rows = read_rows((await self._range(column_range(tab, column))).get("values"))
        return frozenset(key_of(row[0]) for row in rows if row)

    async def _value(self, part: Part) -> JsonValue:
        if part.operation == "sheet.write_cells":
            rows = read_rows((await self._range(part.target)).get("values"))
            return {"rows": [[kept(cell) for cell in row] for row in rows]}
        after, column = part.after, part.arguments["key_column"]
        wanted = after.get("keys") if isinstance(after, Mapping) else None
        if not isinstance(wanted, list | tuple) or not isinstance(column, int):
            return None
        present = await self.keys(part.target, column)
        return after if all(key in present for key in wanted) else None

    async def _tabs(self, ask: Nothing) -> AsyncIterator[Page[Tab]]:
        tabs, _ = await self._described()
        yield Page(tuple(tabs), total=len(tabs))

    async def _values(self, ask: ValuesAsk) -> AsyncIterator[Page[SheetTable]]:
        tabs, found = await self._described()
        tab = next((each.title for each in tabs if ask.tab in (None, each.title)), None)
        if tab is None:
            raise NotFound("The tab is gone or was renamed.")
        answered = await self._range(tab_range(tab))
        start = first_row(answered.get("range"))
        rows = read_rows(answered.get("values"))
        properties = found.get("properties")
        zone = properties.get("timeZone") if isinstance(properties, dict) else None
        table = SheetTable(
            self._id,
            tab,
            tuple(SheetRow(start + at, cells) for at, cells in enumerate(rows)),
            zone if isinstance(zone, str) else None,
        )
        yield Page((table,), total=1)

    async def _described(self) -> tuple[list[Tab], dict[str, Decoded]]:
        answer = await self._http.get(self._path, {"fields": _FIELDS}, operation="tabs")
        found = object_of(answer)
        sheets = found.get("sheets")
        if not isinstance(sheets, list):
            raise Broken("the spreadsheet has no list of tabs")
        tabs = [tab for tab in map(_tab, sheets) if tab is not None]
        return sorted(tabs, key=lambda tab: tab.index), found

    async def _range(self, name: str) -> dict[str, Decoded]:
        path = f"{self._path}/values/{in_path(name)}"
        answer = await self._http.get(path, {"majorDimension": "ROWS", **_RAW}, operation="values")
        if answer.status == 400:
            raise NotFound("The tab is gone or was renamed.")
        return object_of(answer)


def object_of(answer: Answer) -> dict[str, Decoded]:
    """An object answer. Raises Broken, or the error it stands for (connectors 7.3)."""
    if not answer.ok:
        raise error_of(answer)
    decoded = answer.json()
    if not isinstance(decoded, dict):
        raise Broken("an object was expected")
    return decoded


def error_of(answer: Answer) -> CallError:
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
        return Unavailable(platform_text=text)
    return Broken(f"status {answer.status}", platform_text=text)


def _tab(sheet: Decoded) -> Tab | None:
    properties = sheet.get("properties") if isinstance(sheet, dict) else None
    if not isinstance(properties, dict) or properties.get("sheetType", "GRID") != "GRID":
        return None
    number, title, index = properties.get("sheetId", 0), properties.get("title"), properties.get("index", 0)
    if not isinstance(title, str) or not isinstance(number, int) or not isinstance(index, int):
        raise Broken("a tab has no title")
    return Tab(str(number), title, index)
