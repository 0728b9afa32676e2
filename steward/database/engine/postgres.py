"""The PostgreSQL engine: a pool whose transactions set a tenant context and read the server's clock."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TypeVar, cast

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
from steward.database.engine.disk_space import DiskFull
from steward.database.engine.group_commit import CallAbandoned, Committer
from steward.database.engine.hosts import UNREACHABLE, Hosts, ServerConnection
from steward.database.engine.observer import UNOBSERVED, EngineObserver
from steward.database.engine.pool import ConnectionPool
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable

T = TypeVar("T")

TRIES = 5
DEADLINE = 8.0
# Shorter for the heartbeat, which must find out in time that its lease was not extended.
HEARTBEAT_DEADLINE = 5.0
# For the read that identifies a request's caller, which is part of the request's own 10 s.
_CALLER_SECONDS = 3.0
_TRANSIENT_ERRORS = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
)


class _NotReplicated(Exception):
    """Raised when a commit was confirmed before the standby had it, so that a fail-over may lose it."""


# The server's disk is full or reports errors.
_DISK_ERRORS = (asyncpg.DiskFullError, asyncpg.PostgresSystemError)
# Errors that a reachable server reports; the transaction was rolled back.
_SERVER_ERRORS = (
    *_DISK_ERRORS,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
)
_UNAVAILABLE_ERRORS = (*UNREACHABLE, *_SERVER_ERRORS, asyncpg.ReadOnlySQLTransactionError, _NotReplicated)
_REASONS: Sequence[tuple[type[BaseException], str]] = (
    (TimeoutError, "deadline"),
    (asyncpg.ReadOnlySQLTransactionError, "read_only"),
    (_NotReplicated, "not_replicated"),
    (asyncpg.OperatorInterventionError, "shut_down"),
)
# The server cancels a statement after this share of its caller's deadline: the caller then knows that nothing
# was written, and the connection stays usable. A server that no longer responds is given up at the deadline.
_SERVER_SHARE = 0.9
_IDLE_MS = 10_000
_DISCARD_PLANS = "DISCARD PLANS"
_SET_TENANT = "SELECT steward_set_tenant($1, $2, $3)"
_CLEAR_TENANT = "SELECT set_config('app.orgs', '', false)"


def _unavailable(error: BaseException) -> Unavailable:
    if isinstance(error, _DISK_ERRORS):
        return DiskFull()
    if isinstance(error, asyncpg.InsufficientResourcesError):
        return Unavailable("The database cannot be reached.", retry_after=2)
    if isinstance(error, asyncpg.QueryCanceledError):
        return CallAbandoned("The database took too long.", retry_after=2)
    return CallAbandoned("The database cannot be reached.", retry_after=2)


def _statement_timeout(deadline: float) -> str:
    return f"statement_timeout = {round(deadline * _SERVER_SHARE * 1000)}"


class PostgresTx:
    """A transaction, or a sequence of reads, on one connection."""

    __slots__ = ("_connection", "_local", "_test", "_timeout", "now")

    def __init__(
        self,
        connection: ServerConnection,
        now: datetime,
        *,
        local: bool,
        test: bool,
        timeout: float,
    ) -> None:
        self._connection = connection
        self._timeout = timeout  # of each statement
        self.now = now
        self._local = local
        self._test = test

    @property
    def dialect(self) -> Dialect:
        """The kind of database that this runs on."""
        return "postgresql"

    @property
    def test_now(self) -> datetime | None:
        """The instant that a test has set for the database's clock."""
        return self.now if self._test else None

    def _bound(self, sql: Sql, args: Args | None) -> tuple[str, Sequence[object]]:
        statement = prepare(sql, "postgresql")
        return statement.text, bind(statement, args, self.now, dialect="postgresql")

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """Returns the first row, or None."""
        text, values = self._bound(sql, args)
        return cast("Row | None", await self._connection.fetchrow(text, *values, timeout=self._timeout))

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Returns every row."""
        text, values = self._bound(sql, args)
        return cast("list[Row]", await self._connection.fetch(text, *values, timeout=self._timeout))

    async def execute(self, sql: Sql, args: Args | None = None) -> int:
        """Runs a statement and returns the number of rows it changed."""
        return await self._count_changed(*self._bound(sql, args))

    async def _count_changed(self, text: str, values: Sequence[object]) -> int:
        status = str(await self._connection.execute(text, *values, timeout=self._timeout))
        count = status.rsplit(" ", 1)[-1]  # such as `INSERT 0 3`; other commands end in no number
        return int(count) if count.isdigit() else 0

    async def many(self, sql: str, rows: Sequence[Sequence[object]]) -> int:
        """Runs a statement for each of `rows` and returns the number of rows it changed."""
        return sum([await self._count_changed(prepare(sql, "postgresql").text, row) for row in rows])

    async def set_tenant(self, orgs: Collection[OrgId]) -> None:
        """Sets the tenant context to these organizations and reads the database's clock."""
        org_list = ",".join(str(int(org)) for org in orgs)
        test_now = ms(self.now) if self._test else None
        database_now = await self._connection.fetchval(
            _SET_TENANT, org_list, self._local, test_now, timeout=self._timeout
        )
        self.now = from_ms(database_now)

    async def extend_time_limit(self, seconds: float) -> None:
        """Extends the time limit of each later statement of this transaction, here and on the server."""
        if seconds > self._timeout:
            await self._connection.execute(f"SET LOCAL {_statement_timeout(seconds)}", timeout=self._timeout)
            self._timeout = seconds


def _session_setup(deadline: float) -> Callable[[ServerConnection], Awaitable[None]]:
    """Returns a function that sets a connection's role and its server-side time limits."""

    # Functions rule out kinds of plans by a high cost, at which the server would compile short statements.
    async def prepare_connection(connection: ServerConnection) -> None:
        await connection.execute(
            "SET ROLE steward_app; SET synchronous_commit = on; SET app.orgs = ''; SET jit = off;"
            f" SET {_statement_timeout(deadline)}; SET idle_in_transaction_session_timeout = {_IDLE_MS}"
        )

    return prepare_connection


class PostgresEngine:
    """A PostgreSQL database shared by any number of processes."""

    def __init__(
        self,
        pool: ConnectionPool,
        hosts: Hosts,
        *,
        clock: Clock,
        test: bool,
        deadline: float = DEADLINE,
        heartbeat_deadline: float = HEARTBEAT_DEADLINE,
        observer: EngineObserver = UNOBSERVED,
    ) -> None:
        self._pool = pool
        self._hosts = hosts
        self._deadline = deadline
        self._heartbeat_deadline = min(heartbeat_deadline, deadline)
        self._clock = clock
        self._test = test
        self._urgent: ServerConnection | None = None
        self._urgent_lock = asyncio.Lock()
        self._observer = observer
        self._committer = Committer(
            self.write_alone,
            on_commit=self._observer.batch_committed,
            on_batch_split=self._observer.batch_split,
        )

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        size: int,
        clock: Clock,
        test: bool = False,
        deadline: float = DEADLINE,
        heartbeat_deadline: float = HEARTBEAT_DEADLINE,
        observer: EngineObserver = UNOBSERVED,
    ) -> "PostgresEngine":
        """Opens a pool of `size` connections with the serving role; refuses a server that may lose commits.

        After `deadline` seconds, measured here and not by the server, a statement or a wait for a connection
        fails and the connection counts as lost. The server cancels a statement shortly before.
        """
        hosts = Hosts(url, clock=clock, observer=observer)
        pool = ConnectionPool(
            hosts, prepare=_session_setup(deadline), size=size, deadline=deadline, clock=clock
        )
        try:
            async with pool.connection() as connection:
                fsync = await connection.fetchval("SHOW fsync")
        except _UNAVAILABLE_ERRORS as error:
            why = str(error) or f"no response within {deadline:g} s"
            raise Unavailable(f"The database cannot be reached: {why}.", retry_after=5) from error
        if not test and fsync != "on":
            await pool.close()
            raise Unavailable(
                "The database server runs with fsync off and may lose what it confirmed. Set fsync to on."
            )
        return cls(
            pool,
            hosts,
            clock=clock,
            test=test,
            deadline=deadline,
            heartbeat_deadline=heartbeat_deadline,
            observer=observer,
        )

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""
        return "postgresql"

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Runs `act` in one transaction. Raises Unavailable when the database is lost or stays busy.

        An urgent write has a connection of its own, so that a heartbeat never waits for the pool.
        """
        if urgent:
            return await self._write_urgent(now, act, orgs_of(org))
        if isinstance(act, Batchable):
            return cast("T", await self._committer.write(now, act, orgs_of(org)))
        return await self.write_alone(now, act, org=None if isinstance(act, Autocommit) else org)

    async def _write_urgent(self, now: datetime, act: Act[T], orgs: Collection[OrgId]) -> T:
        async with self._urgent_lock:
            try:
                limit = self._heartbeat_deadline
                if self._urgent is None or self._urgent.is_closed():
                    self._urgent = await self._hosts.connect(timeout=limit, command_timeout=limit)
                    await _session_setup(limit)(self._urgent)
                tx = PostgresTx(self._urgent, now, local=True, test=self._test, timeout=limit)
                return await self._commit(self._urgent, tx, act, orgs)
            except _UNAVAILABLE_ERRORS as error:
                if self._urgent is not None:
                    self._urgent.terminate()
                raise self._unavailable_error(error) from error

    def _unavailable_error(self, error: BaseException) -> Unavailable:
        """Converts a database error to the one that callers get; reports a full disk to the observer."""
        if isinstance(error, _DISK_ERRORS):
            self._observer.connection_lost("disk")  # although the connection goes on
        return _unavailable(error)

    async def _commit(
        self, connection: ServerConnection, tx: PostgresTx, act: Act[T], orgs: Collection[OrgId]
    ) -> T:
        """Runs `act` in a transaction and commits it."""
        try:
            with self._closed_when_lost(connection):
                async with connection.transaction():
                    with self._closed_when_lost(connection):
                        await tx.set_tenant(orgs)
                        result = await act(tx)
                    connection.is_committing = True
            return result
        finally:
            connection.is_committing = False

    async def _commit_statement(self, connection: ServerConnection, tx: PostgresTx, act: Act[T]) -> T:
        """Runs an act of one statement, which the server commits by itself."""
        connection.is_committing = True
        try:
            with self._closed_when_lost(connection):
                return await act(tx)
        finally:
            connection.is_committing = False

    @contextlib.contextmanager
    def _closed_when_lost(self, connection: ServerConnection) -> Iterator[None]:
        """Closes a connection whose server was lost or accepts no writes; the pool does not reuse it.

        It closes at once, without a rollback: a lost server would not respond to it, and a response after the
        deadline cannot be trusted.
        """
        try:
            yield
            if connection.is_unconfirmed:
                raise _NotReplicated
        except _SERVER_ERRORS:
            raise
        except _UNAVAILABLE_ERRORS as error:
            if connection.lose():
                if connection.is_committing and not isinstance(error, asyncpg.ReadOnlySQLTransactionError):
                    self._observer.commit_unknown()
                why = next((why for kind, why in _REASONS if isinstance(error, kind)), "connection")
                self._hosts.count_loss(why)
            raise

    async def write_alone(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] | None = ()
    ) -> T:
        """Writes as `write` does, but never in a shared call.

        With `org` None, as for an Autocommit act, no transaction is begun around it.
        """
        for attempt in range(TRIES):
            try:
                async with self._pool.connection() as connection:
                    tx = PostgresTx(connection, now, local=True, test=self._test, timeout=self._deadline)
                    if connection.plans_are_old():
                        with self._closed_when_lost(connection):
                            await connection.execute(_DISCARD_PLANS)
                    if org is None:
                        return await self._commit_statement(connection, tx, act)
                    return await self._commit(connection, tx, act, orgs_of(org))
            except _TRANSIENT_ERRORS:
                await self._clock.sleep(random.random() * 0.010 * 2**attempt)
            except _UNAVAILABLE_ERRORS as error:
                raise self._unavailable_error(error) from error
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
        """Runs a small read or an Autocommit act without a transaction, any other on one snapshot.

        Each statement of a read that identifies a request's caller (`sets_tenant`) times out after 3 s. The
        wait for a free connection does not count, so that a burst of requests waits instead of failing.
        """
        limit = min(_CALLER_SECONDS, self._deadline) if sets_tenant else self._deadline
        try:
            async with self._pool.connection() as connection:
                with self._closed_when_lost(connection):
                    tx = PostgresTx(connection, now, local=not small, test=self._test, timeout=limit)
                    return await self._read_on(connection, tx, act, org, small=small, sets_tenant=sets_tenant)
        except _UNAVAILABLE_ERRORS as error:
            raise self._unavailable_error(error) from error

    async def _read_on(
        self,
        connection: ServerConnection,
        tx: PostgresTx,
        act: Act[T],
        org: OrgId | Collection[OrgId],
        *,
        small: bool,
        sets_tenant: bool,
    ) -> T:
        """Reads on a connection as `read` describes."""
        if isinstance(act, Autocommit):
            result: T = await act(tx)
            return result
        if not small:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                with self._closed_when_lost(connection):
                    await tx.set_tenant(orgs_of(org))
                    return await act(tx)
        if org == () and not sets_tenant:
            await self._clear_context(connection)
        # Recorded before the context is set, because a read that is cancelled in between may have set it.
        connection.has_context = True
        if org != ():
            await tx.set_tenant(orgs_of(org))
        return await act(tx)

    async def _clear_context(self, connection: ServerConnection) -> None:
        """Clears the tenant context that a small read has left on the connection.

        Every user of a connection sets a context or calls this first, so no caller ever uses another's
        context. Clearing it after each read would cost every read another round trip.
        """
        if connection.has_context:
            await connection.execute(_CLEAR_TENANT)
            connection.has_context = False

    async def close(self) -> None:
        """Closes every connection; terminates those whose server has not answered by the deadline."""
        if self._urgent is not None:
            self._urgent.terminate()
        await self._pool.close()
