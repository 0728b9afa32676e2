"""Reads a supplier's file: its age and size, its text, its rows by named columns (templates 5.12)."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from steward.connectors.base.queries import FILE, FileQuery
from steward.connectors.base.records import CloudFile, FileContent, SheetRow, SheetTable
from steward.model.json import JsonObject
from steward.outbound.errors import RemoteNotFound, ResponseTooLarge
from steward.steps.base import AccountAccess, StepFailed
from steward.steps.rows import NamedRow, named_rows
from steward.steps.skus import display_text, key_of

_MARK = b"\xef\xbb\xbf"  # a byte-order mark, which says nothing that the chosen encoding does not


@dataclass(slots=True)
class FeedTable:
    """The rows that can be read, those whose cells do not fit the header, and how many there are."""

    rows: tuple[NamedRow, ...] = ()
    broken: list[JsonObject] = field(default_factory=list)
    count: int = 0


async def read_file(account: AccountAccess, path: str, *, most_age: timedelta, now: datetime) -> FileContent:
    """The whole file. Raises StepFailed `file_missing`, `file_too_old`, `file_too_large`."""
    try:
        async for page in account.reader.read(FILE, FileQuery(path)):
            for content in page.items:
                _check_age(content.file, most_age, now)
                return content
    except RemoteNotFound as gone:
        raise StepFailed("file_missing", f"There is no file {path}. Check its name and folder.") from gone
    except ResponseTooLarge as large:
        raise StepFailed("file_too_large", "The file is larger than 20 MiB.") from large
    raise StepFailed("file_missing", f"There is no file {path}. Check its name and folder.")


def table_of(body: bytes, *, encoding: str, delimiter: str, columns: Sequence[str | None]) -> FeedTable:
    """The rows below the header with the cells of `columns`; wholly empty rows are skipped (E2).

    Quoted cells may hold delimiters and line breaks. Raises StepFailed `file_unreadable`, `file_empty`,
    `column_missing`, `column_repeated`.
    """
    records = _records(body, encoding, delimiter)
    header = records[0] if records else []
    found = FeedTable()
    whole: list[SheetRow] = [SheetRow(1, tuple(header))]
    for number, cells in enumerate(records[1:], start=2):
        if not any(cell.strip() for cell in cells):
            continue
        found.count += 1
        if len(cells) == len(header):
            whole.append(SheetRow(number, tuple(cells)))
        else:
            words = f"This row has {len(cells)} cells, the header {len(header)}."
            key = _key(cells, header, columns[0])
            found.broken.append({"row": number, "key": key, "code": "row_broken", "message": words})
    if not found.count or not any(cell.strip() for cell in header):
        raise StepFailed("file_empty", "The file has no rows. Nothing was changed.")
    found.rows = named_rows(SheetTable("", "", tuple(whole)), columns, what="file")
    return found


def _records(body: bytes, encoding: str, delimiter: str) -> list[list[str]]:
    try:
        text = body.removeprefix(_MARK).decode("cp1252" if encoding == "windows-1252" else encoding)
    except UnicodeDecodeError as error:
        words = f"The file is not written in {encoding}: byte {error.start + 1} cannot be read."
        raise StepFailed("file_unreadable", words) from None
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        words = f"The file cannot be read as rows of cells: {error}."
        raise StepFailed("file_unreadable", words) from None


def _check_age(file: CloudFile, most_age: timedelta, now: datetime) -> None:
    if now - file.modified_at > most_age:
        hours = int(most_age.total_seconds() // 3600)
        words = f"The file is of {file.modified_at:%Y-%m-%d %H:%M} UTC, older than {hours} hours."
        raise StepFailed("file_too_old", f"{words} Nothing was changed.")


def _key(cells: Sequence[str], header: Sequence[str], column: str | None) -> str | None:
    """The SKU of a row whose cells do not fit the header, where it has one at all."""
    heads = [key_of(head).casefold() for head in header]
    wanted = key_of(column).casefold()
    at = heads.index(wanted) if wanted in heads else len(cells)
    return display_text(cells[at]) if at < len(cells) and cells[at].strip() else None
