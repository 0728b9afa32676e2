"""Copies SQLite's write-ahead log into the file on a thread of its own, so that the writer need not."""

import contextlib
import sqlite3
import threading

# Rows written since the last time: about as many pages of the log, whatever they are rows of.
ROWS = 4_000
# Pages after which the writer copies itself, what is not yet copied: then the log begins anew. While the
# writer never rests, nobody else can make it.
LONGEST_PAGES = 12_000


class LogCopier:
    """The thread that copies. All of it was durable before; whatever stops it, the writer does the rest."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Takes `connection` for its own, and closes it."""
        self._connection = connection
        self._wake = threading.Semaphore(0)
        self._copied = 0
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="steward-log", daemon=True)
        self._thread.start()

    def written(self, rows: int) -> None:
        """Hears from the writer, after a commit, how many rows it has written in all."""
        if rows - self._copied >= ROWS:
            self._copied = rows
            self._wake.release()

    def close(self) -> None:
        """Ends the thread after what it is at."""
        self._closed = True
        self._wake.release()
        self._thread.join()
        self._connection.close()

    def _loop(self) -> None:
        while True:
            self._wake.acquire()
            while self._wake.acquire(blocking=False):
                pass  # one pass copies whatever there is
            if self._closed:
                return
            # A full or failing disk: the writer, which meets it too, says so.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
