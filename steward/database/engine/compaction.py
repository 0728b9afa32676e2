"""Rewrites an SQLite file, so that removed rows remain neither in its pages nor in its log."""

import sqlite3
from contextlib import closing
from pathlib import Path

from steward.database.engine.sqlite import take_lock


class NotRewritten(Exception):
    """Raised when removed rows may remain in the file or log: it is in use, or the disk is full."""


def compact(path: Path) -> None:
    """Rewrites the file and empties its log; takes the lock that keeps a service from using it.

    Raises AlreadyServed, NotRewritten.
    """
    with (
        closing(take_lock(path)),
        closing(sqlite3.connect(path, timeout=2, isolation_level=None)) as connection,
    ):
        try:
            connection.execute("VACUUM")
            is_read, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            raise NotRewritten(str(error)) from error
        if is_read:  # SQLite reports this as a result, not as an error
            raise NotRewritten("another command reads it")
