"""Wake-up hints between processes by LISTEN and NOTIFY; polling finds the work of a lost hint."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import asyncpg

from steward.clock import Clock
from steward.database.engine.hosts import UNREACHABLE, Hosts

_CHANNEL = "steward_wake"
KINDS = frozenset({"ready", "due", "event", "settle", "listen", "catch_up"})
# Hints of one kind within this time merge into one.
_MERGE_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 30.0
# A query detects a server that has frozen, or vanished without closing the connection.
_CHECK_EVERY_SECONDS = 10.0
_CHECK_SECONDS = 3.0
_BROKEN = (asyncpg.PostgresError, *UNREACHABLE)


class Wakeups:
    """Sends and receives hints, each on its own connection, outside the transactions that write."""

    def __init__(
        self,
        url: str,
        on_hint: Callable[[str], None],
        *,
        clock: Clock,
        check_every: float = _CHECK_EVERY_SECONDS,
    ) -> None:
        self._hosts = Hosts(url)
        self._on_hint = on_hint
        self._clock = clock
        self._check_every = check_every  # seconds
        self._pending_kinds: set[str] = set()
        self._notify_task: asyncio.Task[None] | None = None
        self._listen_task: asyncio.Task[None] | None = None
        self._notify_connection: Any = None

    def notify(self, kind: str) -> None:
        """Notifies every listening process of possible work of this kind; call it after the commit."""
        self._pending_kinds.add(kind)
        if self._notify_task is None or self._notify_task.done():
            self._notify_task = asyncio.create_task(self._notify_pending())

    def listen(self) -> None:
        """Starts to receive the hints of other processes, until `close`."""
        if self._listen_task is None:
            self._listen_task = asyncio.create_task(self._listen())

    async def close(self) -> None:
        """Stops sending and receiving hints and closes both connections."""
        for task in (self._notify_task, self._listen_task):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._notify_connection is not None:
            self._notify_connection.terminate()

    async def _notify_pending(self) -> None:
        """Sends the pending hints, and those added in the meantime, at most ten times a second."""
        while self._pending_kinds:
            kinds, self._pending_kinds = sorted(self._pending_kinds), set()
            try:
                if self._notify_connection is None or self._notify_connection.is_closed():
                    self._notify_connection = await self._connected()
                for kind in kinds:
                    sending = self._notify_connection.execute("SELECT pg_notify($1, $2)", _CHANNEL, kind)
                    await _shielded(asyncio.create_task(sending))
            except _BROKEN:
                self._pending_kinds.clear()  # polling finds the work; the next hint reconnects
                if self._notify_connection is not None:
                    self._notify_connection.terminate()
                    self._notify_connection = None
            await self._clock.sleep(_MERGE_SECONDS)

    async def _listen(self) -> None:
        """Receives hints; after a lost connection, connects again with a growing delay."""
        wait = 1.0
        while True:
            with contextlib.suppress(*_BROKEN):
                connection = await self._connected()
                ended = asyncio.Event()
                connection.add_termination_listener(lambda _, ended=ended: ended.set())
                try:
                    await connection.add_listener(_CHANNEL, self._on_notification)
                    wait = 1.0
                    for kind in KINDS:  # covers hints that were missed while disconnected
                        self._on_hint(kind)
                    await self._watch(connection, ended)
                finally:
                    connection.terminate()
            await self._clock.sleep(wait)
            wait = min(wait * 2, _LONGEST_RETRY_SECONDS)

    async def _watch(self, connection: Any, ended: asyncio.Event) -> None:
        """Returns when the connection has ended, or when its server, one of several, has become a standby.

        Raises TimeoutError when the server does not answer.
        """
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._check_every)
                return
            check = connection.fetchval(
                "SELECT pg_is_in_recovery()", timeout=min(_CHECK_SECONDS, self._check_every)
            )
            if await _shielded(asyncio.create_task(check)) and self._hosts.are_many:
                return

    async def _connected(self) -> Any:
        """Returns a new connection; closes it if the caller was cancelled in the meantime."""
        opening = asyncio.create_task(self._hosts.connect(timeout=10, command_timeout=10))
        try:
            return await _shielded(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(*_BROKEN):
                opening.result().terminate()
            raise

    def _on_notification(self, _connection: Any, sender_pid: int, _channel: str, kind: str) -> None:
        is_own = (
            self._notify_connection is not None and sender_pid == self._notify_connection.get_server_pid()
        )
        if kind in KINDS and not is_own:  # this process needs no hint of its own work
            self._on_hint(kind)


async def _shielded(call: asyncio.Task[Any]) -> Any:
    """Returns the result of the call; when cancelled, waits for the call to complete first.

    asyncpg leaves a connection open whose call is cancelled.
    """
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait({call})
        raise
