"""The group commit of a process on PostgreSQL: writes that wait share a call, and the calls take turns.

Connections and transactions are engine_postgres.py's; what a call writes is the act's own.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from steward.database.engine.base import Act, Shared, Tx
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable

GROUP_ITEMS = 200
GROUPS_AT_ONCE = 2
# Two calls of a kind set out beside each other when so many wait for each of them and nothing else does: the
# server writes the one while this process goes on with the other. A call alone costs it as much as a dozen
# items.
WORTH_A_SECOND = 40
# So long a call has its process's turn to itself. Most are over by then, and what came meanwhile shares the
# next one. One that takes longer waits itself: for a slow disk, for a row that somebody has locked.
PATIENCE_S = 0.010


class Lost(Unavailable):
    """The server was lost: whether it committed is not known."""


class Alone(Protocol):
    """How one act is written, as `PostgresEngine.write_alone`; `org` None: without a transaction."""

    def __call__(
        self, now: datetime, act: Act[Any], *, org: OrgId | Collection[OrgId] | None
    ) -> Awaitable[Any]: ...


@dataclass(slots=True)
class _Waiting:
    now: datetime
    act: Shared[Any, Any]
    orgs: Collection[OrgId]
    answer: "asyncio.Future[Any]"
    number: int


@dataclass(slots=True, eq=False)
class _Kind:
    """Acts that may share a call: what waits, in the order it came, and how many calls are under way."""

    name: str
    waiting: deque[_Waiting] = field(default_factory=deque)
    under_way: int = 0


class Committer:
    """Lets the shared calls of a process set out one after the other, what waits longest first (engine 2).

    A run has at most one item under way, for it awaits each; whatever else may come is the fence's to refuse.
    `told` hears how many items went in a call, `split` of which kind one failed, and of what.
    """

    def __init__(
        self, alone: Alone, *, told: Callable[[int], None], split: Callable[[str, Exception], None]
    ) -> None:
        self._alone = alone
        self._told = told
        self._split = split
        self._kinds: dict[object, _Kind] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        # Calls that have their turn still to themselves, and what ends it.
        self._fresh: dict[asyncio.Task[None], tuple[_Kind, asyncio.TimerHandle]] = {}
        self._about_to = False
        self._number = 0
        self._loop = asyncio.get_running_loop()  # to ask for it asks the kernel whose process this is

    async def write(self, now: datetime, act: Shared[Any, Any], orgs: Collection[OrgId]) -> Any:
        """Waits for the commit that `act` shares."""
        kind = self._kinds.get(act.together)
        if kind is None:
            kind = self._kinds[act.together] = _Kind(act.together.__module__.rpartition(".")[2])
        self._number += 1
        one = _Waiting(now, act, orgs, self._loop.create_future(), self._number)
        kind.waiting.append(one)
        self._soon()
        return await one.answer

    def _soon(self) -> None:
        """Looks what may set out when all that can go on now has done so, and waits where it waits."""
        if not self._about_to:
            self._about_to = True
            self._loop.call_soon(self._set_out)

    def _set_out(self) -> None:
        self._about_to = False
        while (kind := self._next()) is not None:
            batch = [kind.waiting.popleft() for _ in range(_size(kind))]
            kind.under_way += 1
            task = self._loop.create_task(self._commit(kind, batch))
            self._under_way.add(task)
            self._fresh[task] = kind, self._loop.call_later(PATIENCE_S, self._grown_old, task)
            task.add_done_callback(self._ended)

    def _next(self) -> _Kind | None:
        waiting = [kind for kind in self._kinds.values() if kind.waiting and kind.under_way < GROUPS_AT_ONCE]
        if not self._fresh:
            return min(waiting, key=lambda kind: kind.waiting[0].number, default=None)
        if len(waiting) == 1 and len(waiting[0].waiting) >= WORTH_A_SECOND:
            alike = all(kind is waiting[0] for kind, _ in self._fresh.values())
            return waiting[0] if alike else None
        return None

    def _grown_old(self, task: "asyncio.Task[None]") -> None:
        del self._fresh[task]
        self._soon()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        if task in self._fresh:
            self._fresh.pop(task)[1].cancel()
        self._soon()

    async def _commit(self, kind: _Kind, batch: list[_Waiting]) -> None:
        try:
            await self._write(kind, batch)
        except Exception as error:  # whatever fails on the way, nobody waits for ever (engine 2)
            for one in batch:
                _fail(one, error)
        finally:
            kind.under_way -= 1

    async def _write(self, kind: _Kind, batch: list[_Waiting]) -> None:
        """One call for all; when one item fails it, a transaction each, so that it alone has the error."""
        self._told(len(batch))
        first, items = batch[0], [one.act.item for one in batch]
        failed: Exception | None = None

        async def together(tx: Tx) -> Sequence[Any]:
            return await first.act.together(tx, items)

        if len(batch) > 1 or first.act.at_once:
            orgs = None if first.act.at_once else sorted({org for one in batch for org in one.orgs})
            try:
                answers = await self._alone(first.now, together, org=orgs)
            except Lost as error:  # an item that was kept would look fenced when it is run again
                for one in batch:
                    _fail(one, error)
                return
            except Exception as error:
                failed = error
            else:
                for one, answer in zip(batch, answers, strict=True):
                    _settle(one, answer)
                return
        for one in batch:
            await self._by_itself(one)
        if failed is not None:
            self._split(kind.name, failed)  # last of all: where it is told, the disk may be full

    async def _by_itself(self, one: _Waiting) -> None:
        try:
            _settle(one, await self._alone(one.now, one.act, org=one.orgs))
        except Exception as error:
            _fail(one, error)


def _size(kind: _Kind) -> int:
    """How many of a kind go in its next call: the first of two leaves the other what is worth it."""
    waiting = len(kind.waiting)
    if kind.under_way == 0 and waiting >= 2 * WORTH_A_SECOND:
        waiting //= 2
    return min(waiting, GROUP_ITEMS)


def _fail(one: _Waiting, error: Exception) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)


def _settle(one: _Waiting, answer: Any) -> None:
    if not one.answer.done():
        one.answer.set_result(answer)
