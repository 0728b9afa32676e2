"""Sessions on one PostgreSQL, by statement, in an order a seed draws or a test names."""

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
    """One session: what it waits for."""

    task: "asyncio.Task[object] | None" = None
    turn: "asyncio.Future[None] | None" = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> None:
        """Waits until the next statement may go."""
        self.turn = asyncio.get_running_loop().create_future()
        self.moved.set()
        await self.turn
        self.turn = None


class Deadlocked(AssertionError):
    """PostgreSQL ended a transaction because two waited for each other; the engine would try it again."""


@dataclass
class HeldAt:
    """The first session stops before a statement until the others have ended or wait for its locks.

    `left` is how many statements it still had to do then: more than 0 when it never came so far.
    """

    left: int
    order: list[Session] = field(default_factory=list)

    def __call__(self, waiting: Sequence[Session]) -> Session:
        """Whose statement is next."""
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
        """As the transaction behind."""
        return self.behind.now

    @property
    def dialect(self) -> Dialect:
        """As the transaction behind."""
        return self.behind.dialect

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """In its turn."""
        await self.session.next()
        return await self.behind.first(sql, args)

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """In its turn."""
        await self.session.next()
        return await self.behind.all(sql, args)

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """In its turn."""
        await self.session.next()
        return await self.behind.execute(sql, args)

    async def many(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """In its turn."""
        await self.session.next()
        return await self.behind.many(sql, rows)

    async def set_tenant(self, orgs: Collection[OrgId]) -> None:
        """In its turn."""
        await self.session.next()
        await self.behind.set_tenant(orgs)


@dataclass
class Stepped:
    """A session's way to the database; its commit waits for a turn too."""

    engine: Engine
    session: Session

    @property
    def dialect(self) -> Dialect:
        """As the engine behind."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Every statement in its turn."""

        async def stepped(tx: Tx) -> T:
            try:
                answer = await act(SteppedTx(tx, self.session, tx.test_now))
            except asyncpg.DeadlockDetectedError as error:
                raise Deadlocked(str(error)) from error
            await self.session.next()
            return answer

        return await self.engine.write(now, stepped, org=org, urgent=urgent)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """Every statement in its turn."""

        async def stepped(tx: Tx) -> T:
            return await act(SteppedTx(tx, self.session, tx.test_now))

        return await self.engine.read(now, stepped, org=org, small=small)

    async def close(self) -> None:
        """The engine behind is closed by who opened it."""


def two(world: World) -> tuple[tuple[Session, World], tuple[Session, World]]:
    """The world as two sessions see it."""
    first, second = Session(), Session()
    return (
        (first, replace(world, engine=Stepped(world.engine, first))),
        (second, replace(world, engine=Stepped(world.engine, second))),
    )


async def stepped(
    choose: Callable[[Sequence[Session]], Session],
    watcher: Any,
    sessions: Sequence[Session],
    acts: Sequence[Awaitable[object]],
) -> list[object]:
    """The acts, one statement at a time, `choose` naming whose is next; what each gave or raised."""
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
    [answer] = await asyncio.gather(act, return_exceptions=True)
    session.moved.set()
    return answer


async def _quiet(session: Session, watcher: Any) -> None:
    """Returns once the session waits for a turn, has ended, or waits for a lock of the other."""
    while session.turn is None and not (session.task is not None and session.task.done()):
        try:
            await asyncio.wait_for(session.moved.wait(), LOOK_S)
            session.moved.clear()
        except TimeoutError:
            if await watcher.fetchval(BLOCKED):
                return
