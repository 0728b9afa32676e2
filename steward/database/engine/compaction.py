"""Rewrites an SQLite file, so that nothing removed from it is left in its pages or in its log."""

import sqlite3
from contextlib import closing
from pathlib import Path

from steward.database.engine.sqlite import take_lock


class NotRewritten(Exception):
    """What was removed is still in the file or in its log: another command uses it, or there is no room."""


def compact(path: Path) -> None:
    """Rewrites the file and empties its log; no service may use it meanwhile.

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
        if is_read:  # SQLite tells of this by a value alone
            raise NotRewritten("another command reads it")
