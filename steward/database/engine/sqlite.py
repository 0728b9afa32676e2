"""The SQLite engine: a group-committing writer thread, a reader on the loop, four reader threads."""

import asyncio
import contextlib
import fcntl
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from steward.clock import Clock
from steward.database.engine.base import Act, Batchable, Busy, Dialect, NeedsSlowPath
from steward.database.engine.disk_space import DiskFull
from steward.database.engine.observer import UNOBSERVED, EngineObserver
from steward.database.engine.private_files import make_file, open_to_write
from steward.database.engine.sqlite_log import LONGEST_PAGES, LogCheckpointer
from steward.database.engine.sqlite_transaction import STATEMENTS, SqliteTx, drive
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable

T = TypeVar("T")

_BATCH_JOBS = 500
_BATCH_SECONDS = 0.020
_SAME_KIND_JOBS = 200
_QUEUE_JOBS = 10_000
QUEUE_BYTES = 64 * 1024 * 1024
_READERS = 4
# With SQLite's default of 2 MiB, a batch of due automations evicts pages that it needs again.
_WRITER_CACHE_KIB = 64 * 1024
# The rows that are due at one time are spread over the pages of a large file. Reading each page by a system
# call took an eighth of the time to turn a slot into a run, so the writer maps the file, for reading only.
_WRITER_MAPPED_BYTES = 1024**3
_TRIES = 5


class AlreadyServed(Exception):
    """Raised when another process serves this SQLite file."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Opens a durable connection in autocommit mode."""
    if sqlite3.sqlite_version_info < (3, 38):
        raise RuntimeError(f"SQLite 3.38 or later is needed; this Python has {sqlite3.sqlite_version}.")
    with contextlib.suppress(OSError):  # SQLite's own error states the reason
        make_file(path)  # its log files inherit its permissions
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS, timeout=30.0
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA busy_timeout = 30000")
    connection.execute("PRAGMA foreign_keys = ON")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
        connection.execute(f"PRAGMA mmap_size = {_WRITER_MAPPED_BYTES}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LONGEST_PAGES}")
    return connection


def _without_row_factory(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.row_factory = None  # rows become dictionaries in SqliteTx
    return connection


@dataclass(slots=True)
class _Job:
    now: datetime
    act: Act[Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    weight: int = 0
    result: Any = None
    error: BaseException | None = None


class _Writer:
    """The writer thread: commits waiting jobs together and rolls back only those that fail."""

    def __init__(self, path: Path, observer: EngineObserver) -> None:
        self._observer = observer
        self._connection = _without_row_factory(connect(path))
        # Keeps the statement journal of a large INSERT in memory. A migration has its own connection and
        # sorts on disk.
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._checkpointer = LogCheckpointer(partial(connect, path))
        self._jobs: deque[_Job] = deque()
        self._put_bytes = 0  # one counter per thread; the difference is the number of waiting jobs
        self._removed_bytes = 0
        self._wake = threading.Condition()
        self._closed = False
        self._waking: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._loop, name="steward-writer", daemon=True)
        self._thread.start()

    def put(self, job: _Job, *, urgent: bool) -> None:
        """Queues a job, an urgent one at the head. Raises Unavailable when the queue is full or closed.

        The thread is woken at the end of the event loop's current iteration, so that the jobs of one
        iteration share a commit and the threads do not switch for each job.
        """
        if self._closed or (not urgent and self._is_full(job)):
            raise Unavailable(retry_after=1)
        self._put_bytes += job.weight
        if urgent:
            self._jobs.appendleft(job)
        else:
            self._jobs.append(job)
        if self._waking is not job.loop:
            self._waking = job.loop
            job.loop.call_soon(self._notify)

    def _is_full(self, job: _Job) -> bool:
        waiting = self._put_bytes - self._removed_bytes
        return len(self._jobs) >= _QUEUE_JOBS or (waiting > 0 and waiting + job.weight > QUEUE_BYTES)

    def _notify(self) -> None:
        self._waking = None
        with self._wake:
            self._wake.notify()

    def close(self) -> None:
        """Runs the queued jobs, ends the thread and closes its connections."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()
        self._checkpointer.close()
        self._connection.close()

    def _next(self) -> _Job | None:
        if not self._jobs:
            return None
        job = self._jobs.popleft()  # only this thread removes jobs
        self._removed_bytes += job.weight
        return job

    def _loop(self) -> None:
        """Runs batches until the writer is closed and no job is left; the body of the writer thread."""
        while True:
            with self._wake:
                while not self._jobs and not self._closed:
                    self._wake.wait()
                if not self._jobs:
                    return
            done: list[_Job] = []
            try:
                self._batch(done)
            except BaseException as error:  # each caller gets it; the writer thread must not end
                with contextlib.suppress(sqlite3.Error):
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                for job in done:
                    job.error = _as_busy(error)
            _deliver_results(done)
            self._observer.batch_committed(len(done))
            self._checkpointer.rows_written(self._connection.total_changes)

    def _batch(self, done: list[_Job]) -> None:
        """Runs waiting jobs in one transaction and appends them to `done`.

        Most jobs that fail have written nothing, so there is nothing to undo. When one fails after a write,
        the batch is rolled back and runs again from its start, each job under a savepoint of its own.
        """
        first = self._next()
        if first is None:
            return
        done.append(first)
        self._connection.execute("BEGIN IMMEDIATE")
        end = time.monotonic() + _BATCH_SECONDS
        is_clean = self._run_with_same_kind(first, done)
        while is_clean and len(done) < _BATCH_JOBS and time.monotonic() < end and (job := self._next()):
            done.append(job)
            is_clean = self._run_with_same_kind(job, done)
        if not is_clean:
            self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN IMMEDIATE")
            for job in done:
                self._run_apart(job)
        self._connection.execute("COMMIT")

    def _run_with_same_kind(self, job: _Job, done: list[_Job]) -> bool:
        """Runs a job together with directly following jobs of its kind; returns what `_run` returns."""
        kind = job.act
        if not isinstance(kind, Batchable) or not kind.on_sqlite:
            return self._run(job)
        same_kind = [job]
        while len(same_kind) < _SAME_KIND_JOBS and (other := self._next()):
            if not isinstance(other.act, Batchable) or other.act.run_batch is not kind.run_batch:
                self._jobs.appendleft(other)
                self._removed_bytes -= other.weight
                break
            same_kind.append(other)
            done.append(other)
        if len(same_kind) > 1:
            succeeded = self._run_together(kind, same_kind)
            if succeeded is not None:
                return succeeded
        return all([self._run(waiting) for waiting in same_kind])

    def _run_together(self, kind: Batchable[Any, Any], jobs: list[_Job]) -> bool | None:
        """Runs jobs of one kind in one call; returns whether it succeeded, or None if it failed unwritten.

        No savepoint is used, because SQLite would then copy each page before changing it.
        """
        before = self._connection.total_changes
        items = [job.act.item for job in jobs if isinstance(job.act, Batchable)]
        try:
            results = drive(lambda tx: kind.run_batch(tx, items), SqliteTx(self._connection, jobs[0].now))
        except Exception as error:  # each job runs again by itself, and gets its own error
            if not self._connection.in_transaction:
                raise  # SQLite has rolled back the whole batch
            if not isinstance(error, NeedsSlowPath):
                self._report_split(jobs[0], kind, error)
            return None if self._connection.total_changes == before else False
        for job, result in zip(jobs, results, strict=True):
            job.result = result
        return True

    def _report_split(self, job: _Job, kind: Batchable[Any, Any], error: Exception) -> None:
        """Reports a failed call on the event loop, because logging may fail and must not end this thread."""
        with contextlib.suppress(RuntimeError):  # the loop has closed
            job.loop.call_soon_threadsafe(self._observer.batch_split, kind.kind, error)

    def _run(self, job: _Job) -> bool:
        """Runs a job; returns False when it failed after a write, which then has to be rolled back."""
        before = self._connection.total_changes
        try:
            job.result = drive(job.act, SqliteTx(self._connection, job.now))
        except BaseException as error:  # raised by the caller that waits for the job
            job.error = error
            if not self._connection.in_transaction:
                raise  # SQLite has rolled back the whole batch
            return self._connection.total_changes == before
        return True

    def _run_apart(self, job: _Job) -> None:
        """Runs a job under a savepoint and rolls back to it when the job fails."""
        job.error = None
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = drive(job.act, SqliteTx(self._connection, job.now))
        except BaseException as error:  # as in `_run`
            job.error = error
            if not self._connection.in_transaction:
                raise  # as in `_run`
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")


def _as_busy(error: BaseException) -> BaseException:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return Busy(str(error))
    return error


def _deliver_results(jobs: list[_Job]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs_of_loop in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop has closed; no caller waits
            loop.call_soon_threadsafe(_resolve, jobs_of_loop)


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


class SqliteEngine:
    """The embedded database: each write returns after its commit, which waiting writes share."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        serve: bool = False,
        observer: EngineObserver = UNOBSERVED,
    ) -> None:
        """Opens `path`; with `serve` takes the file's lock. Raises AlreadyServed when another holds it."""
        self._clock = clock
        self._lock: IO[str] | None = take_lock(path) if serve else None
        self._writer = _Writer(path, observer)
        self._loop_reader = _without_row_factory(connect(path, read_only=True))
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="steward-reader")
        self._local = threading.local()
        self._thread_readers: list[sqlite3.Connection] = []
        self._path = path

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""
        return "sqlite"

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Runs `act` on the writer and waits for its commit.

        Raises Unavailable when the queue is full or the file stayed locked for five tries, and DiskFull.
        """
        loop = asyncio.get_running_loop()
        for attempt in range(_TRIES):
            job = _Job(now, act, loop.create_future(), loop, getattr(act, "weight", 0))
            self._writer.put(job, urgent=urgent)
            try:
                return cast("T", await job.future)
            except Busy:
                await self._clock.sleep(random.random() * 0.010 * 2**attempt)
            except sqlite3.OperationalError as error:
                # A system makes a disk that fails read-only.
                if any(word in str(error) for word in ("full", "I/O", "readonly")):
                    raise DiskFull from error
                raise
        raise Unavailable(retry_after=1)

    async def read(
        self,
        now: datetime,
        act: Act[T],
        *,
        org: OrgId | Collection[OrgId] = (),
        small: bool = False,
        sets_tenant: bool = False,
    ) -> T:
        """Runs `act` on the event loop when `small`, else on a reader thread and one snapshot."""
        if small:
            return drive(act, SqliteTx(self._loop_reader, now))
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read_on_thread, now, act)

    def _read_on_thread(self, now: datetime, act: Act[T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _without_row_factory(connect(self._path, read_only=True))
            self._local.connection = connection
            self._thread_readers.append(connection)
        connection.execute("BEGIN")
        try:
            return drive(act, SqliteTx(connection, now))
        finally:
            connection.execute("COMMIT")

    async def close(self) -> None:
        """Commits queued jobs, then closes every connection and releases the lock."""
        self._writer.close()
        self._pool.shutdown(wait=True)
        for connection in [self._loop_reader, *self._thread_readers]:
            connection.close()
        if self._lock is not None:
            self._lock.close()


def take_lock(path: Path) -> IO[str]:
    """Takes the lock of the process that serves `path` and holds it until the returned file is closed.

    Raises AlreadyServed when another process holds it.
    """
    handle = open_to_write(path.with_name(path.name + ".lock"))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise AlreadyServed(f"Another process already serves {path.name}. Stop it first.") from None
    return handle
