"""PostgreSQL: a pool whose transactions open the wall to their organisations and read its clock."""

import asyncio
import random
from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar, cast

import asyncpg

from steward.clock import Clock
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable
from steward.store.engine import Act, Args, Dialect, Row, Sql, at, bind, ms, orgs_of, prepare

T = TypeVar("T")

TRIES = 5
_PASSING = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
)
_LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError, TimeoutError)
_ENTER = "SELECT steward_enter($1, $2, $3)"
_LEAVE = "SELECT set_config('app.orgs', '', false)"


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

    def _bound(self, sql: Sql, args: Args | None) -> tuple[str, list[object]]:
        statement = prepare(sql, "postgresql")
        return statement.text, bind(statement, args, self.now, dialect="postgresql")

    async def one(self, sql: Sql, args: Args | None = None) -> Row | None:
        """The first row, or None."""
        text, values = self._bound(sql, args)
        return cast("Row | None", await self._connection.fetchrow(text, *values))

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Every row."""
        text, values = self._bound(sql, args)
        return cast("list[Row]", await self._connection.fetch(text, *values))

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """Runs a statement; the number of rows it touched."""
        text, values = self._bound(sql, args)
        done = str(await self._connection.execute(text, *values))
        last = done.rsplit(" ", 1)[-1]
        return int(last) if last.isdigit() else 0

    async def enter(self, orgs: Collection[OrgId]) -> None:
        """Opens the wall to these organisations and takes the database's clock (safety 5)."""
        wall = ",".join(str(int(org)) for org in orgs)
        test_now = ms(self.now) if self._test else None
        stored = await self._connection.fetchval(_ENTER, wall, self._local, test_now)
        self.now = at(stored)


async def _keep(connection: Any) -> None:
    """Nothing to reset: what a transaction sets is local, and reads clear their wall themselves."""


class PostgresEngine:
    """A PostgreSQL database shared by any number of processes."""

    def __init__(self, pool: Any, *, clock: Clock, test: bool) -> None:
        self._pool = pool
        self._clock = clock
        self._test = test
        self._leaving: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, url: str, *, size: int, clock: Clock, test: bool = False) -> "PostgresEngine":
        """Connects `size` connections as the role that serves; refuses a server that may lose commits."""

        async def ready(connection: Any) -> None:
            await connection.execute("SET ROLE steward_app; SET synchronous_commit = on; SET app.orgs = ''")

        try:
            pool = await asyncpg.create_pool(
                url, min_size=1, max_size=size, init=ready, reset=_keep, command_timeout=60
            )
        except _LOST as error:
            raise Unavailable("The database cannot be reached.", retry_after=5) from error
        if not test and await pool.fetchval("SHOW fsync") != "on":
            await pool.close()
            raise Unavailable("The database server runs with fsync off and may lose what it confirmed.")
        return cls(pool, clock=clock, test=test)

    @property
    def dialect(self) -> Dialect:
        """Which engine this is."""
        return "postgresql"

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Runs `act` in one transaction. Raises Unavailable when the database is lost or stays busy."""
        for attempt in range(TRIES):
            try:
                async with self._pool.acquire() as connection, connection.transaction():
                    tx = PostgresTx(connection, now, local=True, test=self._test)
                    await tx.enter(orgs_of(org))
                    return await act(tx)
            except _PASSING:
                await self._clock.sleep(random.random() * 0.010 * 2**attempt)
            except _LOST as error:
                raise Unavailable("The database cannot be reached.", retry_after=2) from error
        raise Unavailable(retry_after=1)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """Runs `act` without a transaction; longer reads see one snapshot."""
        try:
            connection = await self._pool.acquire()
        except _LOST as error:
            raise Unavailable("The database cannot be reached.", retry_after=2) from error
        try:
            tx = PostgresTx(connection, now, local=not small, test=self._test)
            if small:
                if org != ():
                    await tx.enter(orgs_of(org))
                return await act(tx)
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                await tx.enter(orgs_of(org))
                return await act(tx)
        except _LOST as error:
            raise Unavailable("The database cannot be reached.", retry_after=2) from error
        finally:
            self._hand_back(connection, clear=small)

    def _hand_back(self, connection: Any, *, clear: bool) -> None:
        task = asyncio.ensure_future(self._leave(connection, clear=clear))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _leave(self, connection: Any, *, clear: bool) -> None:
        try:
            if clear and not connection.is_closed():
                await connection.execute(_LEAVE)
        except (*_LOST, asyncpg.PostgresError):
            connection.terminate()  # a wall that could not be cleared must not serve another caller
        finally:
            await self._pool.release(connection)

    async def close(self) -> None:
        """Ends every connection."""
        if self._leaving:
            await asyncio.wait(self._leaving)
        await self._pool.close()
