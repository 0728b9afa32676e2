"""Group commit on PostgreSQL: waiting writes of a process share a call, and few calls run at a time."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from steward.database.engine.base import Act, Batchable, Tx
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable

GROUP_ITEMS = 200
_MAX_CALLS_OF_A_KIND = 2
# A second call of a kind starts beside the first when at least this many writes of that kind wait and no
# others do: the server writes one while this process prepares the other. The fixed cost of a call equals
# that of about a dozen items.
MIN_FOR_SECOND_CALL = 40
# A call runs alone for this long. Most end sooner, and the writes that arrive in the meantime share the next
# call. One that takes longer is waiting for a slow disk or a locked row and must not hold up the others.
_EXCLUSIVE_WINDOW_S = 0.010


class CallAbandoned(Unavailable):
    """Raised when a call took too long, or its connection was lost and the commit's outcome is unknown."""


class _WriteAlone(Protocol):
    """Writes one act as `PostgresEngine.write_alone` does; with `org` None, without a transaction."""

    def __call__(
        self, now: datetime, act: Act[Any], *, org: OrgId | Collection[OrgId] | None
    ) -> Awaitable[Any]: ...


@dataclass(slots=True)
class _WaitingWrite:
    now: datetime
    act: Batchable[Any, Any]
    orgs: Collection[OrgId]
    result: "asyncio.Future[Any]"
    number: int


@dataclass(slots=True, eq=False)
class _BatchKind:
    """Acts that may share a call: the waiting ones, oldest first, and the number of running calls."""

    name: str
    waiting: deque[_WaitingWrite] = field(default_factory=deque)
    running_calls: int = 0


class Committer:
    """Starts the shared calls of a process, first the call with the longest waiting write.

    A run awaits each of its writes, so at most one is in progress; the lease's epoch refuses any other.
    `on_commit` receives the number of items of a call, `on_batch_split` the kind and error of a failed
    call.
    """

    def __init__(
        self,
        write_alone: _WriteAlone,
        *,
        on_commit: Callable[[int], None],
        on_batch_split: Callable[[str, Exception], None],
    ) -> None:
        self._write_alone = write_alone
        self._on_commit = on_commit
        self._on_batch_split = on_batch_split
        self._kinds: dict[object, _BatchKind] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Calls in the window in which they run alone, each with its kind and the timer that ends the window.
        self._in_exclusive_window: dict[asyncio.Task[None], tuple[_BatchKind, asyncio.TimerHandle]] = {}
        self._is_start_scheduled = False
        self._number = 0
        self._loop = asyncio.get_running_loop()  # looked up once: asyncio checks the process id each time

    async def write(self, now: datetime, act: Batchable[Any, Any], orgs: Collection[OrgId]) -> Any:
        """Queues `act` for a shared call and returns its result once the call is committed."""
        kind = self._kinds.get(act.run_batch)
        if kind is None:
            kind = self._kinds[act.run_batch] = _BatchKind(act.kind)
        self._number += 1
        item = _WaitingWrite(now, act, orgs, self._loop.create_future(), self._number)
        kind.waiting.append(item)
        self._schedule_start()
        return await item.result

    def _schedule_start(self) -> None:
        """Schedules the start of calls after the callbacks that are ready now, whose writes share a call."""
        if not self._is_start_scheduled:
            self._is_start_scheduled = True
            self._loop.call_soon(self._start_calls)

    def _start_calls(self) -> None:
        self._is_start_scheduled = False
        while (kind := self._next_kind()) is not None:
            batch = [kind.waiting.popleft() for _ in range(_size(kind))]
            kind.running_calls += 1
            task = self._loop.create_task(self._commit(kind, batch))
            self._tasks.add(task)
            self._in_exclusive_window[task] = (
                kind,
                self._loop.call_later(_EXCLUSIVE_WINDOW_S, self._exclusive_window_expired, task),
            )
            task.add_done_callback(self._call_ended)

    def _next_kind(self) -> _BatchKind | None:
        waiting = [
            kind
            for kind in self._kinds.values()
            if kind.waiting and kind.running_calls < _MAX_CALLS_OF_A_KIND
        ]
        if not self._in_exclusive_window:
            return min(waiting, key=lambda kind: kind.waiting[0].number, default=None)
        if len(waiting) == 1 and len(waiting[0].waiting) >= MIN_FOR_SECOND_CALL:
            same_kind = all(kind is waiting[0] for kind, _ in self._in_exclusive_window.values())
            return waiting[0] if same_kind else None
        return None

    def _exclusive_window_expired(self, task: "asyncio.Task[None]") -> None:
        del self._in_exclusive_window[task]
        self._schedule_start()

    def _call_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task in self._in_exclusive_window:
            self._in_exclusive_window.pop(task)[1].cancel()
        self._schedule_start()

    async def _commit(self, kind: _BatchKind, batch: list[_WaitingWrite]) -> None:
        try:
            await self._write(kind, batch)
        except Exception as error:  # every waiting write gets a result
            _fail_all(batch, error)
        finally:
            kind.running_calls -= 1

    async def _write(self, kind: _BatchKind, batch: list[_WaitingWrite]) -> None:
        """Runs one call for all items; if it fails, one transaction each, so that only faulty items fail.

        After a lost connection every item fails, as the call may have committed; and after a call that took
        too long, as each item alone may take as long.
        """
        self._on_commit(len(batch))
        first, items = batch[0], [waiting.act.item for waiting in batch]
        failed: Exception | None = None

        async def run_batch(tx: Tx) -> Sequence[Any]:
            return await first.act.run_batch(tx, items)

        if len(batch) > 1 or first.act.autocommit:
            orgs = None if first.act.autocommit else _orgs_of(batch)
            try:
                results = await self._write_alone(first.now, run_batch, org=orgs)
            except CallAbandoned as error:  # a stored item that runs again would look fenced
                _fail_all(batch, error)
                return
            except Exception as error:  # the transactions below show whose fault it is
                failed = error
            else:
                _resolve_all(batch, results)
                return
        for waiting in batch:
            await self._write_separately(waiting)
        if failed is not None:
            self._on_batch_split(kind.name, failed)  # last, because logging may fail on a full disk

    async def _write_separately(self, waiting: _WaitingWrite) -> None:
        try:
            _resolve(waiting, await self._write_alone(waiting.now, waiting.act, org=waiting.orgs))
        except Exception as error:  # raised by the caller that waits for this write
            _fail(waiting, error)


def _size(kind: _BatchKind) -> int:
    """Returns the size of the next call; the first of two calls leaves enough items for the second."""
    waiting = len(kind.waiting)
    if kind.running_calls == 0 and waiting >= 2 * MIN_FOR_SECOND_CALL:
        waiting //= 2
    return min(waiting, GROUP_ITEMS)


def _orgs_of(batch: Sequence[_WaitingWrite]) -> list[OrgId]:
    return sorted({org for waiting in batch for org in waiting.orgs})


def _fail_all(batch: Sequence[_WaitingWrite], error: Exception) -> None:
    for waiting in batch:
        _fail(waiting, error)


def _resolve_all(batch: Sequence[_WaitingWrite], results: Sequence[Any]) -> None:
    for waiting, result in zip(batch, results, strict=True):
        _resolve(waiting, result)


def _fail(waiting: _WaitingWrite, error: Exception) -> None:
    if not waiting.result.done():
        waiting.result.set_exception(error)


def _resolve(waiting: _WaitingWrite, result: Any) -> None:
    if not waiting.result.done():
        waiting.result.set_result(result)
