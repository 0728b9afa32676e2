"""Checkpoints SQLite's write-ahead log on a thread of its own, to spare the writer that work."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable

# Rows written between two checkpoints; each row adds about one page to the log.
ROWS = 4_000
# Pages after which the writer checkpoints the rest itself, so that the log restarts at its beginning. While
# the writer is never idle, no other connection can achieve that.
LONGEST_PAGES = 12_000


class LogCheckpointer:
    """The checkpointing thread. The log is durable without it; if it fails, the writer checkpoints."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Starts the thread, which opens a connection by `connect` at its first checkpoint."""
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._wake = threading.Semaphore(0)
        self._rows_at_checkpoint = 0
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="steward-log", daemon=True)
        self._thread.start()

    def rows_written(self, rows: int) -> None:
        """Wakes the thread when enough rows were written; `rows` is the writer's total so far."""
        if rows - self._rows_at_checkpoint >= ROWS:
            self._rows_at_checkpoint = rows
            self._wake.release()

    def close(self) -> None:
        """Ends the thread after a checkpoint in progress and closes its connection."""
        self._closed = True
        self._wake.release(2)
        self._thread.join()
        if self._connection is not None:
            self._connection.close()

    def _loop(self) -> None:
        wakeups_needed = 1
        while not self._closed:
            for _ in range(wakeups_needed):
                self._wake.acquire()
            if self._closed:
                return
            pages = self._checkpoint()
            while self._wake.acquire(blocking=False):
                pass  # one checkpoint covers all of them
            # Two connections cannot checkpoint at once. Past LONGEST_PAGES this thread skips a turn, so that
            # the writer does it and delays its own writes: a thread slower than the writer would never catch
            # up, and the log would keep growing.
            wakeups_needed = 2 if pages >= LONGEST_PAGES else 1

    def _checkpoint(self) -> int:
        """Checkpoints the log and returns its length in pages; LONGEST_PAGES when it failed."""
        # The disk is full or failing; the writer meets the same error and reports it.
        with contextlib.suppress(sqlite3.Error):
            if self._connection is None:
                self._connection = self._connect()
            _, pages, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return int(pages)
        return LONGEST_PAGES
