"""PostgreSQL: a pool whose transactions set their tenant context and read the server's clock."""

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import asyncpg

from steward.clock import Clock
from steward.database.engine.base import (
    Act,
    Args,
    Autocommit,
    Batchable,
    Dialect,
    Row,
    Sql,
    bind,
    from_ms,
    ms,
    orgs_of,
    prepare,
)
from steward.database.engine.group_commit import Committer, ConnectionLost
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable

T = TypeVar("T")

TRIES = 5
_PASSING = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
)
# A server that shuts down, starts, has no room left, or still follows one that is gone is unreachable too
# .
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InternalClientError,  # a connection that was cut in the midst of a statement
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)
# Refused by a server that is there: nothing of the transaction was kept.
_REFUSED = (
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
)
# A connection makes its plans anew after so many calls, and then after four times as many each: until the
# server has looked at new tables, about a minute, a plan is as good as their size was when it was made.
_PLANS_ANEW = 16
_COUNTED = 500
_ANEW = "DISCARD PLANS"
_ENTER = "SELECT steward_set_tenant($1, $2, $3)"
_LEAVE = "SELECT set_config('app.orgs', '', false)"


def _unavailable(error: BaseException) -> Unavailable:
    refused = isinstance(error, _REFUSED)
    return (Unavailable if refused else ConnectionLost)("The database cannot be reached.", retry_after=2)


class PostgresTx:
    """A transaction, or a run of reads, on one connection."""

    __slots__ = ("_connection", "_local", "_test", "now")

    def __init__(self, connection: Any, now: datetime, *, local: bool, test: bool) -> None:
        self._connection = connection
        self.now = now
        self._local = local
        self._test = test

    @property
    def dialect(self) -> Dialect:
        """Which engine this runs on."""
        return "postgresql"

    @property
    def test_now(self) -> datetime | None:
        """The instant a test has set for the database's clock."""
        return self.now if self._test else None

    def _bound(self, sql: Sql, args: Args | None) -> tuple[str, Sequence[object]]:
        statement = prepare(sql, "postgresql")
        return statement.text, bind(statement, args, self.now, dialect="postgresql")

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """The first row, or None."""
        text, values = self._bound(sql, args)
        return cast("Row | None", await self._connection.fetchrow(text, *values))

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Every row."""
        text, values = self._bound(sql, args)
        return cast("list[Row]", await self._connection.fetch(text, *values))

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """Runs a statement; the number of rows it touched."""
        return await self._touched(*self._bound(sql, args))

    async def _touched(self, text: str, values: Sequence[object]) -> int:
        done = str(await self._connection.execute(text, *values))
        last = done.rsplit(" ", 1)[-1]
        return int(last) if last.isdigit() else 0

    async def many(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """Runs a statement for each of `rows`; the number of rows it touched."""
        return sum([await self._touched(prepare(sql, "postgresql").text, row) for row in rows])

    async def set_tenant(self, orgs: Collection[OrgId]) -> None:
        """Sets the tenant context to these organizations and reads the database's clock."""
        wall = ",".join(str(int(org)) for org in orgs)
        test_now = ms(self.now) if self._test else None
        stored = await self._connection.fetchval(_ENTER, wall, self._local, test_now)
        self.now = from_ms(stored)


async def _as_app(connection: Any) -> None:
    """Switches to the serving role, whichever role the URL names."""
    await connection.execute("SET ROLE steward_app; SET synchronous_commit = on; SET app.orgs = ''")


async def _keep(connection: Any) -> None:
    """Resets nothing: settings of transactions are local, and reads clear their tenant context."""


class PostgresEngine:
    """A PostgreSQL database shared by any number of processes."""

    def __init__(
        self,
        pool: Any,
        url: str,
        *,
        clock: Clock,
        test: bool,
        on_commit: Callable[[int], None] = lambda count: None,
        on_batch_split: Callable[[str, Exception], None] = lambda kind, error: None,
    ) -> None:
        self._pool = pool
        self._url = url
        self._clock = clock
        self._test = test
        self._urgent: Any = None
        self._urgent_turn = asyncio.Lock()
        self._leaving: set[asyncio.Future[None]] = set()
        self._open: set[int] = set()  # connections on which a small read has left its wall
        self._committer = Committer(self.write_alone, on_commit=on_commit, on_batch_split=on_batch_split)
        # By connection: how many calls, and at how many its plans are made anew.
        self._calls: dict[int, tuple[int, int]] = {}

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        size: int,
        clock: Clock,
        test: bool = False,
        on_commit: Callable[[int], None] = lambda count: None,
        on_batch_split: Callable[[str, Exception], None] = lambda kind, error: None,
    ) -> "PostgresEngine":
        """Connects `size` connections as the role that serves; refuses a server that may lose commits."""
        try:
            pool = await asyncpg.create_pool(
                url, min_size=1, max_size=size, init=_as_app, reset=_keep, command_timeout=60
            )
        except _LOST as error:
            raise Unavailable("The database cannot be reached.", retry_after=5) from error
        if not test and await pool.fetchval("SHOW fsync") != "on":
            await pool.close()
            raise Unavailable("The database server runs with fsync off and may lose what it confirmed.")
        return cls(pool, url, clock=clock, test=test, on_commit=on_commit, on_batch_split=on_batch_split)

    @property
    def dialect(self) -> Dialect:
        """Which engine this is."""
        return "postgresql"

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Runs `act` in one transaction. Raises Unavailable when the database is lost or stays busy.

        An urgent one has a connection of its own: a heartbeat never waits for the pool.
        """
        if urgent:
            return await self._write_urgent(now, act, orgs_of(org))
        if isinstance(act, Batchable):
            return cast("T", await self._committer.write(now, act, orgs_of(org)))
        return await self.write_alone(now, act, org=None if isinstance(act, Autocommit) else org)

    async def _write_urgent(self, now: datetime, act: Act[T], orgs: Collection[OrgId]) -> T:
        async with self._urgent_turn:
            try:
                if self._urgent is None or self._urgent.is_closed():
                    self._urgent = await asyncpg.connect(self._url, command_timeout=10)
                    await _as_app(self._urgent)
                async with self._urgent.transaction():
                    tx = PostgresTx(self._urgent, now, local=True, test=self._test)
                    await tx.set_tenant(orgs)
                    return await act(tx)
            except _LOST as error:
                if self._urgent is not None:
                    self._urgent.terminate()
                raise Unavailable("The database cannot be reached.", retry_after=2) from error

    async def write_alone(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] | None = ()
    ) -> T:
        """As `write`, in a transaction of its own; with `org` None without one, for acts that say so."""
        for attempt in range(TRIES):
            try:
                async with self._pool.acquire() as connection:
                    tx = PostgresTx(connection, now, local=True, test=self._test)
                    try:
                        await self._count(connection)
                        if org is None:
                            return await act(tx)
                        async with connection.transaction():
                            await tx.set_tenant(orgs_of(org))
                            return await act(tx)
                    except asyncpg.InternalClientError:
                        connection.terminate()  # never used again
                        raise
            except _PASSING:
                await self._clock.sleep(random.random() * 0.010 * 2**attempt)
            except _LOST as error:
                raise _unavailable(error) from error
        raise Unavailable(retry_after=1)

    async def _count(self, connection: Any) -> None:
        """Lets the connection make its plans anew when it is time."""
        pid = connection.get_server_pid()
        if len(self._calls) > _COUNTED:  # most of them closed long since
            self._calls.clear()
        calls, border = self._calls.get(pid, (0, _PLANS_ANEW))
        if calls == border:
            await connection.execute(_ANEW)
            border *= 4
        self._calls[pid] = calls + 1, border

    async def read(
        self,
        now: datetime,
        act: Act[T],
        *,
        org: OrgId | Collection[OrgId] = (),
        small: bool = False,
        sets_tenant: bool = False,
    ) -> T:
        """Runs `act` without a transaction; longer reads see one snapshot."""
        try:
            connection = await self._pool.acquire()
        except _LOST as error:
            raise Unavailable("The database cannot be reached.", retry_after=2) from error
        try:
            tx = PostgresTx(connection, now, local=not small, test=self._test)
            if isinstance(act, Autocommit):
                answer: T = await act(tx)
                return answer
            if not small:
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    await tx.set_tenant(orgs_of(org))
                    return await act(tx)
            if org == () and not sets_tenant:
                await self._shut(connection)
            # Before it is opened: a read that is cancelled just then may have opened it.
            self._open.add(connection.get_server_pid())
            if org != ():
                await tx.set_tenant(orgs_of(org))
            return await act(tx)
        except _LOST as error:
            if isinstance(error, asyncpg.InternalClientError):
                connection.terminate()  # never used again
            raise Unavailable("The database cannot be reached.", retry_after=2) from error
        finally:
            self._hand_back(connection)

    async def _shut(self, connection: Any) -> None:
        """Takes back the wall a small read has left open on the connection.

        Anyone who takes a connection sets a wall of his own or comes by here first, so none is ever used by
        another caller; taking it back after each read would be a third round trip for every one.
        """
        if connection.get_server_pid() in self._open:
            await connection.execute(_LEAVE)
            self._open.discard(connection.get_server_pid())

    def _hand_back(self, connection: Any) -> None:
        task = asyncio.ensure_future(self._pool.release(connection))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Ends every connection."""
        if self._leaving:
            await asyncio.wait(self._leaving)
        if self._urgent is not None and not self._urgent.is_closed():
            await self._urgent.close()
        await self._pool.close()
