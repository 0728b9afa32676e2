"""Writes rows and cells to a Google spreadsheet: always RAW, one call per part; compares the response."""

import re
from collections.abc import Callable, Mapping, Sequence

from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.spreadsheet.cells import (
    in_path,
    read_rows,
    same_rows,
    sheets_value,
    stored_cell,
    tab_range,
)
from steward.connectors.spreadsheet.reader import error_of, object_of, path_of, range_error
from steward.model.change import Batch, Part
from steward.model.json import JsonValue
from steward.outbound.client import WriteClient
from steward.outbound.errors import CallError, Invalid, NotSent, RemoteNotFound, WriteFailed
from steward.outbound.response import Decoded, PlatformResponse

# The service's wording for protected cells, and for a spreadsheet that has reached its cell limit.
_NOT_WRITABLE = re.compile(r"protected|number of cells", re.IGNORECASE)


class SpreadsheetWriter:
    """Writes to one spreadsheet; with `spreadsheet_id` null, to the spreadsheet that each part names."""

    def __init__(self, http: WriteClient, *, spreadsheet_id: str | None) -> None:
        self._http = http
        self._spreadsheet_id = spreadsheet_id

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Sends the one call of `batch`, which Google applies as a whole. Never raises a call's error."""
        [part] = batch.parts
        try:
            response = await self._send(part, batch)
        except WriteFailed as failure:
            return [WriteOutcome.of_failure(failure)]
        if not response.ok:
            error = error_of(response)
            state = WriteState.UNKNOWN if response.status >= 500 else WriteState.REFUSED
            return [WriteOutcome.of_error(state, _refusal(error) if response.status == 400 else error)]
        try:
            return [_compared(part, object_of(response))]
        except CallError as error:
            return [WriteOutcome.of_error(WriteState.UNKNOWN, error)]

    async def _send(self, part: Part, batch: Batch) -> PlatformResponse:
        try:
            spreadsheet_path = path_of(self._spreadsheet_id, part.arguments.get("spreadsheet_id"))
        except RemoteNotFound as error:
            raise NotSent(error) from None
        if part.operation in _FORM:
            body: JsonValue = {"requests": [_FORM[part.operation](part)]}
            return await self._post(f"{spreadsheet_path}:batchUpdate", body, batch)
        if part.operation == "sheet.clear":
            return await self._post(f"{spreadsheet_path}/values/{in_path(part.target)}:clear", {}, batch)
        rows = [[sheets_value(cell) for cell in row] for row in _rows(part)]
        if part.operation == "sheet.append_rows":
            name = tab_range(part.target)
            path = f"{spreadsheet_path}/values/{in_path(name)}:append"
            params = {"valueInputOption": "RAW", "insertDataOption": "INSERT_ROWS"}
            body = {"range": name, "majorDimension": "ROWS", "values": rows}
            return await self._post(path, body, batch, params=params)
        block: JsonValue = {"range": part.target, "majorDimension": "ROWS", "values": rows}
        body = {
            "valueInputOption": "RAW",
            "data": [block],
            "includeValuesInResponse": True,
            "responseValueRenderOption": "UNFORMATTED_VALUE",
        }
        return await self._post(f"{spreadsheet_path}/values:batchUpdate", body, batch)

    async def _post(
        self, path: str, body: JsonValue, batch: Batch, *, params: Mapping[str, str] | None = None
    ) -> PlatformResponse:
        return await self._http.send(
            "POST",
            path,
            body,
            params=params,
            write_keys=batch.write_keys,
            key=batch.key,
            operation=batch.parts[0].operation,
        )


def _refusal(error: CallError) -> CallError:
    """Returns the error of a refused write: a protected or full tab, or a range that does not exist."""
    if _NOT_WRITABLE.search(error.platform_text or ""):
        return Invalid([], "The spreadsheet is protected there, or full.", platform_text=error.platform_text)
    return range_error(error.platform_text)


def _deletion(part: Part) -> JsonValue:
    first, count = part.arguments["first"], part.arguments["count"]
    if not isinstance(first, int) or not isinstance(count, int):
        raise NotSent(Invalid(["first"]))
    span: JsonValue = {
        "sheetId": int(str(part.arguments["tab_id"])),
        "dimension": "ROWS",
        "startIndex": first - 1,
        "endIndex": first - 1 + count,
    }
    return {"deleteDimension": {"range": span}}


def _addition(part: Part) -> JsonValue:
    return {"addSheet": {"properties": {"title": part.target}}}


_FORM: Mapping[str, Callable[[Part], JsonValue]] = {
    "sheet.delete_rows": _deletion,
    "sheet.add_tab": _addition,
}


def _rows(part: Part) -> Sequence[Sequence[JsonValue]]:
    rows = part.arguments["rows"]
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise NotSent(Invalid(["rows"]))
    return [row for row in rows if isinstance(row, Sequence) and not isinstance(row, str)]


def _compared(part: Part, response: dict[str, Decoded]) -> WriteOutcome:
    """Returns applied when the response confirms the write, else unknown."""
    if part.operation == "sheet.write_cells":
        return _compared_cells(part, response)
    if part.operation in _FORM:
        replies = response.get("replies")
        confirmed = isinstance(replies, list) and len(replies) == 1
        doubt = "The spreadsheet did not say what it did."
    elif part.operation == "sheet.clear":
        confirmed = isinstance(response.get("clearedRange"), str)
        doubt = "The spreadsheet did not say what it emptied."
    else:
        updates = response.get("updates")
        confirmed = isinstance(updates, dict) and updates.get("updatedRows") == len(_rows(part))
        doubt = "The spreadsheet reported another number of rows."
    if confirmed:
        return WriteOutcome(WriteState.APPLIED, seen=part.after)
    return WriteOutcome(WriteState.UNKNOWN, reason=doubt)


def _updated_data(response: dict[str, Decoded]) -> Decoded:
    responses = response.get("responses")
    first = responses[0] if isinstance(responses, list) and responses else None
    return first.get("updatedData") if isinstance(first, dict) else None


def _compared_cells(part: Part, response: dict[str, Decoded]) -> WriteOutcome:
    data = _updated_data(response)
    if data is None and response.get("totalUpdatedCells") == sum(len(row) for row in _rows(part)):
        return WriteOutcome(WriteState.APPLIED)  # Raw values are stored as sent; the response held no copy.
    if isinstance(data, dict):
        rows = read_rows(data.get("values"))
        stored_cells: JsonValue = {"rows": [[stored_cell(cell) for cell in row] for row in rows]}
        if same_rows(part.after, stored_cells):
            return WriteOutcome(WriteState.APPLIED, seen=stored_cells)
    return WriteOutcome(WriteState.UNKNOWN, reason="The spreadsheet did not answer with the values sent.")
