"""The group commit of a process on PostgreSQL: writes that wait share a call, and the calls take turns.

Connections and transactions are engine_postgres.py's; what a call writes is the act's own.
"""

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
MAX_CALLS_OF_A_KIND = 2
# Two calls of a kind set out beside each other when so many wait for each of them and nothing else does: the
# server writes the one while this process goes on with the other. A call alone costs it as much as a dozen
# items.
MIN_FOR_SECOND_CALL = 40
# So long a call has its process's turn to itself. Most are over by then, and what came meanwhile shares the
# next one. One that takes longer waits itself: for a slow disk, for a row that somebody has locked.
EXCLUSIVE_WINDOW_S = 0.010


class ConnectionLost(Unavailable):
    """The server was lost: whether it committed is not known."""


class RunAlone(Protocol):
    """How one act is written, as `PostgresEngine.write_alone`; `org` None: without a transaction."""

    def __call__(
        self, now: datetime, act: Act[Any], *, org: OrgId | Collection[OrgId] | None
    ) -> Awaitable[Any]: ...


@dataclass(slots=True)
class _WaitingWrite:
    now: datetime
    act: Batchable[Any, Any]
    orgs: Collection[OrgId]
    answer: "asyncio.Future[Any]"
    number: int


@dataclass(slots=True, eq=False)
class _BatchKind:
    """Acts that may share a call: what waits, in the order it came, and how many calls are under way."""

    name: str
    waiting: deque[_WaitingWrite] = field(default_factory=deque)
    under_way: int = 0


class Committer:
    """Lets the shared calls of a process set out one after the other, what waits longest first (engine 2).

    A run has at most one item under way, for it awaits each; whatever else may come is the fence's to refuse.
    `told` hears how many items went in a call, `split` of which kind one failed, and of what.
    """

    def __init__(
        self,
        alone: RunAlone,
        *,
        on_commit: Callable[[int], None],
        on_batch_split: Callable[[str, Exception], None],
    ) -> None:
        self._alone = alone
        self._on_commit = on_commit
        self._on_batch_split = on_batch_split
        self._kinds: dict[object, _BatchKind] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        # Calls that have their turn still to themselves, and what ends it.
        self._in_exclusive_window: dict[asyncio.Task[None], tuple[_BatchKind, asyncio.TimerHandle]] = {}
        self._is_start_scheduled = False
        self._number = 0
        self._loop = asyncio.get_running_loop()  # to ask for it asks the kernel whose process this is

    async def write(self, now: datetime, act: Batchable[Any, Any], orgs: Collection[OrgId]) -> Any:
        """Waits for the commit that `act` shares."""
        kind = self._kinds.get(act.run_batch)
        if kind is None:
            kind = self._kinds[act.run_batch] = _BatchKind(act.run_batch.__module__.rpartition(".")[2])
        self._number += 1
        item = _WaitingWrite(now, act, orgs, self._loop.create_future(), self._number)
        kind.waiting.append(item)
        self._schedule_start()
        return await item.answer

    def _schedule_start(self) -> None:
        """Looks what may set out when all that can go on now has done so, and waits where it waits."""
        if not self._is_start_scheduled:
            self._is_start_scheduled = True
            self._loop.call_soon(self._start_calls)

    def _start_calls(self) -> None:
        self._is_start_scheduled = False
        while (kind := self._next()) is not None:
            batch = [kind.waiting.popleft() for _ in range(_size(kind))]
            kind.under_way += 1
            task = self._loop.create_task(self._commit(kind, batch))
            self._under_way.add(task)
            self._in_exclusive_window[task] = (
                kind,
                self._loop.call_later(EXCLUSIVE_WINDOW_S, self._exclusive_window_expired, task),
            )
            task.add_done_callback(self._ended)

    def _next(self) -> _BatchKind | None:
        waiting = [
            kind for kind in self._kinds.values() if kind.waiting and kind.under_way < MAX_CALLS_OF_A_KIND
        ]
        if not self._in_exclusive_window:
            return min(waiting, key=lambda kind: kind.waiting[0].number, default=None)
        if len(waiting) == 1 and len(waiting[0].waiting) >= MIN_FOR_SECOND_CALL:
            alike = all(kind is waiting[0] for kind, _ in self._in_exclusive_window.values())
            return waiting[0] if alike else None
        return None

    def _exclusive_window_expired(self, task: "asyncio.Task[None]") -> None:
        del self._in_exclusive_window[task]
        self._schedule_start()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        if task in self._in_exclusive_window:
            self._in_exclusive_window.pop(task)[1].cancel()
        self._schedule_start()

    async def _commit(self, kind: _BatchKind, batch: list[_WaitingWrite]) -> None:
        try:
            await self._write(kind, batch)
        except Exception as error:  # whatever fails on the way, nobody waits for ever (engine 2)
            for item in batch:
                _fail(item, error)
        finally:
            kind.under_way -= 1

    async def _write(self, kind: _BatchKind, batch: list[_WaitingWrite]) -> None:
        """One call for all; when one item fails it, a transaction each, so that it alone has the error."""
        self._on_commit(len(batch))
        first, items = batch[0], [waiting.act.item for waiting in batch]
        failed: Exception | None = None

        async def together(tx: Tx) -> Sequence[Any]:
            return await first.act.run_batch(tx, items)

        if len(batch) > 1 or first.act.autocommit:
            all_orgs = sorted({org for waiting in batch for org in waiting.orgs})
            orgs = None if first.act.autocommit else all_orgs
            try:
                answers = await self._alone(first.now, together, org=orgs)
            except ConnectionLost as error:  # an item that was kept would look fenced when it is run again
                for waiting in batch:
                    _fail(waiting, error)
                return
            except Exception as error:
                failed = error
            else:
                for waiting, answer in zip(batch, answers, strict=True):
                    _settle(waiting, answer)
                return
        for waiting in batch:
            await self._by_itself(waiting)
        if failed is not None:
            self._on_batch_split(kind.name, failed)  # last of all: where it is told, the disk may be full

    async def _by_itself(self, waiting: _WaitingWrite) -> None:
        try:
            _settle(waiting, await self._alone(waiting.now, waiting.act, org=waiting.orgs))
        except Exception as error:
            _fail(waiting, error)


def _size(kind: _BatchKind) -> int:
    """How many of a kind go in its next call: the first of two leaves the other what is worth it."""
    waiting = len(kind.waiting)
    if kind.under_way == 0 and waiting >= 2 * MIN_FOR_SECOND_CALL:
        waiting //= 2
    return min(waiting, GROUP_ITEMS)


def _fail(waiting: _WaitingWrite, error: Exception) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(error)


def _settle(waiting: _WaitingWrite, answer: Any) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(answer)
