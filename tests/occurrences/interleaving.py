"""Steps several PostgreSQL sessions by statement, in an order that a seed draws or a test names."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import asyncpg

from steward.database.engine.base import Act, Args, Dialect, Engine, Row, Sql, Tx
from steward.model.ids import OrgId
from tests.automations.world import World

T = TypeVar("T")
LOOK_S = 0.002
BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@dataclass
class Session:
    """A session that waits for its next turn."""

    task: "asyncio.Task[object] | None" = None
    turn: "asyncio.Future[None] | None" = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> None:
        """Waits until the next statement may run."""
        self.turn = asyncio.get_running_loop().create_future()
        self.moved.set()
        await self.turn
        self.turn = None


class Deadlocked(AssertionError):
    """PostgreSQL ended a transaction because of a deadlock; the engine would repeat it."""


@dataclass
class StatementBarrier:
    """Stops the first session before a statement until the others have ended or wait for its locks.

    `left` counts down to that statement: above 0 if it was never reached.
    """

    left: int
    order: list[Session] = field(default_factory=list)

    def __call__(self, waiting: Sequence[Session]) -> Session:
        """Returns the session whose statement runs next."""
        if not self.order:
            self.order = list(waiting)
        first, *others = self.order
        if first in waiting and self.left > 0:
            self.left -= 1
            return first
        return next(session for session in (*others, first) if session in waiting)


@dataclass
class SteppedTx:
    """A transaction whose every statement waits for its turn."""

    behind: Tx
    session: Session
    test_now: datetime | None

    @property
    def now(self) -> datetime:
        """Returns the transaction's time."""
        return self.behind.now

    @property
    def dialect(self) -> Dialect:
        """Returns the transaction's dialect."""
        return self.behind.dialect

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """Runs in its turn."""
        await self.session.next()
        return await self.behind.first(sql, args)

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Runs in its turn."""
        await self.session.next()
        return await self.behind.all(sql, args)

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """Runs in its turn."""
        await self.session.next()
        return await self.behind.execute(sql, args)

    async def many(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """Runs in its turn."""
        await self.session.next()
        return await self.behind.many(sql, rows)

    async def set_tenant(self, orgs: Collection[OrgId]) -> None:
        """Runs in its turn."""
        await self.session.next()
        await self.behind.set_tenant(orgs)


@dataclass
class SteppedEngine:
    """A session's engine, whose commit waits for a turn as well."""

    engine: Engine
    session: Session

    @property
    def dialect(self) -> Dialect:
        """Returns the engine's dialect."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes with each statement in its turn."""

        async def stepped(tx: Tx) -> T:
            try:
                result = await act(SteppedTx(tx, self.session, tx.test_now))
            except asyncpg.DeadlockDetectedError as error:
                raise Deadlocked(str(error)) from error
            await self.session.next()
            return result

        return await self.engine.write(now, stepped, org=org, urgent=urgent)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """Reads with each statement in its turn."""

        async def stepped(tx: Tx) -> T:
            return await act(SteppedTx(tx, self.session, tx.test_now))

        return await self.engine.read(now, stepped, org=org, small=small)

    async def close(self) -> None:
        """Does nothing: the test that opened the engine closes it."""


def two(world: World) -> tuple[tuple[Session, World], tuple[Session, World]]:
    """Returns the world as two sessions see it."""
    first, second = Session(), Session()
    return (
        (first, replace(world, engine=SteppedEngine(world.engine, first))),
        (second, replace(world, engine=SteppedEngine(world.engine, second))),
    )


async def stepped(
    choose: Callable[[Sequence[Session]], Session],
    watcher: Any,
    sessions: Sequence[Session],
    acts: Sequence[Awaitable[object]],
) -> list[object]:
    """Runs the acts one statement at a time as `choose` orders; returns the result or error of each."""
    for session, act in zip(sessions, acts, strict=True):
        session.task = asyncio.ensure_future(_whole(act, session))
    while True:
        for session in sessions:
            await _quiet(session, watcher)
        waiting = [session for session in sessions if session.turn is not None]
        if waiting:
            chosen = choose(waiting)
            assert chosen.turn is not None
            chosen.moved.clear()
            chosen.turn.set_result(None)
            chosen.turn = None
        elif all(session.task is not None and session.task.done() for session in sessions):
            return [session.task.result() for session in sessions if session.task is not None]


async def _whole(act: Awaitable[object], session: Session) -> object:
    [result] = await asyncio.gather(act, return_exceptions=True)
    session.moved.set()
    return result


async def _quiet(session: Session, watcher: Any) -> None:
    """Returns once the session waits for a turn, has ended, or waits for a lock of the other."""
    while session.turn is None and not (session.task is not None and session.task.done()):
        try:
            await asyncio.wait_for(session.moved.wait(), LOOK_S)
            session.moved.clear()
        except TimeoutError:
            if await watcher.fetchval(BLOCKED):
                return
