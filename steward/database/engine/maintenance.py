"""Maintenance of an SQLite file: returns free pages to the file system and shortens its log."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

from steward.database.engine.base import Tx

_PAGES_AT_ONCE = 1_000
_LONGEST_LOG = 64 * 1024 * 1024
_BUSY_TIMEOUT_MS = 100


async def release_free_pages(tx: Tx) -> None:
    """Returns up to 1,000 free pages to the file system; does nothing on PostgreSQL."""
    if tx.dialect == "postgresql":
        return
    row = await tx.first("PRAGMA freelist_count")
    for _ in range(min(_PAGES_AT_ONCE, row["freelist_count"] if row else 0)):
        # One at a time: the driver executes a single step of a statement that returns no columns.
        await tx.execute("PRAGMA incremental_vacuum(1)")


def log_size(file: Path) -> int:
    """Returns the size of the file's write-ahead log in bytes; 0 when there is none."""
    try:
        return file.with_name(file.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


async def truncate_log(file: Path, *, longest: int = _LONGEST_LOG) -> bool:
    """Empties a write-ahead log of more than `longest` bytes, unless it is in use; returns whether it did."""
    if log_size(file) <= longest:
        return False
    return await asyncio.to_thread(_truncate, file)


def _truncate(file: Path) -> bool:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
