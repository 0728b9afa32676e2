"""Reads a supplier's file: its age and size, its text, and its rows by named columns."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from steward.connectors.base.queries import FILE, FileQuery
from steward.connectors.base.records import CloudFile, FileContent, SheetRow, SheetTable
from steward.outbound.errors import RemoteNotFound, ResponseTooLarge
from steward.scheduling.words import local_words
from steward.steps.base import AccountAccess, StepFailed
from steward.steps.rows import NamedRow, named_rows
from steward.steps.skus import display_text, key_of
from steward.templates.parts.sku_rows import RefusedRow

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # the input already names the encoding


@dataclass(slots=True)
class _FeedTable:
    """The readable rows, the rows whose cells do not match the header, and the number of rows."""

    rows: tuple[NamedRow, ...] = ()
    broken: list[RefusedRow] = field(default_factory=list)
    count: int = 0


async def read_file(account: AccountAccess, path: str, *, max_age: timedelta, now: datetime) -> FileContent:
    """Reads the whole file. Raises StepFailed `file_missing`, `file_too_old`, `file_too_large`."""
    missing = StepFailed("file_missing", f"There is no file {path}. Check its name and folder.")
    try:
        async for page in account.reader.read(FILE, FileQuery(path)):
            for content in page.items:
                _check_age(content.file, max_age, now)
                return content
    except RemoteNotFound as error:
        raise missing from error
    except ResponseTooLarge as error:
        raise StepFailed("file_too_large", "The file is larger than 20 MiB.") from error
    raise missing


def table_of(body: bytes, *, encoding: str, delimiter: str, columns: Sequence[str | None]) -> _FeedTable:
    """Returns the rows below the header with the cells of `columns`, without empty rows.

    Quoted cells may contain delimiters and line breaks. Raises StepFailed `file_unreadable`, `file_empty`,
    `column_missing`, `column_repeated`.
    """
    records = _records(body, encoding, delimiter)
    header = records[0] if records else []
    table = _FeedTable()
    complete: list[SheetRow] = [SheetRow(1, tuple(header))]
    for number, cells in enumerate(records[1:], start=2):
        if not any(cell.strip() for cell in cells):
            continue
        table.count += 1
        if len(cells) == len(header):
            complete.append(SheetRow(number, tuple(cells)))
        else:
            message = f"This row has {len(cells)} cells, the header {len(header)}."
            key = _key_of_broken(cells, header, columns[0])
            table.broken.append(RefusedRow(number, key, "row_broken", message))
    if not table.count or not any(cell.strip() for cell in header):
        raise StepFailed("file_empty", "The file has no rows. Nothing was changed.")
    table.rows = named_rows(SheetTable("", "", tuple(complete)), columns, source="file")
    return table


def _records(body: bytes, encoding: str, delimiter: str) -> list[list[str]]:
    try:
        codec = "cp1252" if encoding == "windows-1252" else encoding
        text = body.removeprefix(_BYTE_ORDER_MARK).decode(codec)
    except UnicodeDecodeError as error:
        message = f"The file is not written in {encoding}: byte {error.start + 1} cannot be read."
        raise StepFailed("file_unreadable", message) from None
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        message = f"The file cannot be read as rows of cells: {error}."
        raise StepFailed("file_unreadable", message) from None


def _check_age(file: CloudFile, max_age: timedelta, now: datetime) -> None:
    if now - file.modified_at > max_age:
        hours = int(max_age.total_seconds() // 3600)
        changed = f"{local_words(file.modified_at, UTC)} UTC"
        message = f"The file was last changed on {changed}, more than {hours} hours ago."
        raise StepFailed("file_too_old", f"{message} Nothing was changed.")


def _key_of_broken(cells: Sequence[str], header: Sequence[str], column: str | None) -> str | None:
    """Returns the SKU of a row whose cells do not match the header, if it has one."""
    heads = [key_of(head).casefold() for head in header]
    head = key_of(column).casefold()
    index = heads.index(head) if head in heads else len(cells)
    return display_text(cells[index]) if index < len(cells) and cells[index].strip() else None
