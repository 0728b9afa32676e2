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
        self._wake.release(2)
        self._thread.join()
        self._connection.close()

    def _loop(self) -> None:
        turns = 1
        while not self._closed:
            for _ in range(turns):
                self._wake.acquire()
            if self._closed:
                return
            pages = self._copy()
            while self._wake.acquire(blocking=False):
                pass  # one pass copies whatever there is
            # Two cannot copy at once. Past the longest it is the writer's turn, which holds up its writes: a
            # thread slower than the writer would never come to an end, and the log would grow for as long.
            turns = 2 if pages >= LONGEST_PAGES else 1

    def _copy(self) -> int:
        """Copies what there is; the pages of the log."""
        # A full or failing disk: the writer, which meets it too, says so.
        with contextlib.suppress(sqlite3.Error):
            _, pages, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return int(pages)
        return LONGEST_PAGES
