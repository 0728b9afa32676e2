"""Rewrites an SQLite file, so that nothing removed from it is left in its pages or in its log."""

import sqlite3
from contextlib import closing
from pathlib import Path

from steward.store.engine_sqlite import take_lock


def compact(path: Path) -> None:
    """Rewrites the file and empties its log; no service may use it meanwhile. Raises AlreadyServed."""
    with closing(take_lock(path)), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
