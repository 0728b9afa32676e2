"""The PostgreSQL connections of one process: at most `size`, of which idle ones are reused."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType

import asyncpg

from steward.clock import Clock
from steward.database.engine.hosts import UNREACHABLE, Hosts, ServerConnection
from steward.model.refusals import Refusal

# An idle connection is closed after this time, except the last one.
_IDLE_SECONDS = 300.0
# A connection is replaced after this time, because its server process keeps its caches until it ends.
_AGE_SECONDS = 3600.0


class ConnectionPool:
    """Lends connections, the most recently used one first; callers that wait are served in turn.

    Taking and returning an idle connection waits for nothing and needs no timer and no task, unlike in the
    library's pool, where that costs as much as a small statement.
    """

    def __init__(
        self,
        hosts: Hosts,
        *,
        prepare: Callable[[ServerConnection], Awaitable[None]],
        size: int,
        deadline: float,
        clock: Clock,
    ) -> None:
        self._hosts = hosts
        self._prepare = prepare
        self._size = size
        self._deadline = deadline
        self._clock = clock
        self._slots = asyncio.Semaphore(size)
        self._idle: list[ServerConnection] = []
        self._in_use: set[ServerConnection] = set()
        self._resets: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def connection(self) -> "_Loan":
        """Returns a context that lends a connection; entering it raises one of UNREACHABLE."""
        return _Loan(self)

    async def acquire(self) -> ServerConnection:
        """Returns a connection; first checks one that was open when another was lost."""
        self._refuse_if_closed()
        if self._slots.locked():
            async with asyncio.timeout(self._deadline):
                await self._slots.acquire()
        else:
            await self._slots.acquire()
        try:
            connection = await self._take_idle() or await self._connect()
        except BaseException:  # also when cancelled
            self._slots.release()
            raise
        self._in_use.add(connection)
        return connection

    async def _take_idle(self) -> ServerConnection | None:
        self._refuse_if_closed()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_closed():
                continue
            if connection.losses == self._hosts.losses or await self._hosts.still_serves(connection):
                return connection
        return None

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise asyncpg.InterfaceError("the pool is closed")

    async def _connect(self) -> ServerConnection:
        async with asyncio.timeout(self._deadline):
            connection = await self._hosts.connect(timeout=self._deadline, command_timeout=self._deadline)
            try:
                await self._prepare(connection)
            except BaseException:  # also when cancelled
                connection.terminate()
                raise
        connection.opened_at = self._clock.monotonic()
        return connection

    def release(self, connection: ServerConnection, error: BaseException | None = None) -> None:
        """Returns a connection to the pool; resets it first if its use failed, except by a refusal."""
        if error is None or isinstance(error, Refusal) or connection.is_closed():
            self._keep(connection)
            return
        task = asyncio.ensure_future(self._reset(connection))
        self._resets.add(task)
        task.add_done_callback(self._resets.discard)

    async def _reset(self, connection: ServerConnection) -> None:
        """Waits for a cancelled statement to end and rolls back; closes a connection that fails."""
        try:
            await connection.reset(timeout=self._deadline)
        except (*UNREACHABLE, asyncpg.PostgresError):
            connection.terminate()
        finally:
            self._keep(connection)

    def _keep(self, connection: ServerConnection) -> None:
        now = self._clock.monotonic()
        # A caller who gave up during the commit did not see that the standby lacks it; the next user would.
        if connection.is_unconfirmed or now - connection.opened_at > _AGE_SECONDS:
            connection.terminate()
        if not connection.is_closed():
            connection.idle_since = now
            self._idle.append(connection)
        if len(self._idle) > 1 and now - self._idle[0].idle_since > _IDLE_SECONDS:
            self._idle.pop(0).terminate()
        self._in_use.discard(connection)
        self._slots.release()

    async def close(self) -> None:
        """Closes every connection; terminates those that are in use or do not answer at the deadline."""
        self._is_closed = True
        acquired_slots = 0
        try:
            async with asyncio.timeout(self._deadline):
                for _ in range(self._size):
                    await self._slots.acquire()
                    acquired_slots += 1
                for connection in self._idle:
                    await connection.close()
        except UNREACHABLE:
            for connection in (*self._idle, *self._in_use):
                connection.terminate()
        finally:
            for _ in range(acquired_slots):  # later callers are refused at once instead of waiting
                self._slots.release()


class _Loan:
    """A connection while it is in use."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    async def __aenter__(self) -> ServerConnection:
        self._connection = await self._pool.acquire()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.release(self._connection, error)
