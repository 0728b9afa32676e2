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
_APART_SECONDS = 0.1
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
        self._wanted: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._voice: Any = None

    def tell(self, kind: str) -> None:
        """Notifies every listening process of possible work of this kind; call it after the commit."""
        self._wanted.add(kind)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    def listen(self) -> None:
        """Starts to receive the hints of other processes, until `close`."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def close(self) -> None:
        """Stops sending and receiving hints and closes both connections."""
        for task in (self._telling, self._listening):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._voice is not None:
            self._voice.terminate()

    async def _tell(self) -> None:
        while self._wanted:
            kinds, self._wanted = sorted(self._wanted), set()
            try:
                if self._voice is None or self._voice.is_closed():
                    self._voice = await self._connected()
                for kind in kinds:
                    telling = self._voice.execute("SELECT pg_notify($1, $2)", _CHANNEL, kind)
                    await _to_its_end(asyncio.create_task(telling))
            except _BROKEN:
                self._wanted.clear()  # polling finds the work; the next hint reconnects
                if self._voice is not None:
                    self._voice.terminate()
                    self._voice = None
            await self._clock.sleep(_APART_SECONDS)

    async def _listen(self) -> None:
        wait = 1.0
        while True:
            with contextlib.suppress(*_BROKEN):
                ear = await self._connected()
                ended = asyncio.Event()
                ear.add_termination_listener(lambda _, ended=ended: ended.set())
                try:
                    await ear.add_listener(_CHANNEL, self._hear)
                    wait = 1.0
                    for kind in KINDS:  # covers hints that were missed while disconnected
                        self._on_hint(kind)
                    await self._watch(ear, ended)
                finally:
                    ear.terminate()
            await self._clock.sleep(wait)
            wait = min(wait * 2, _LONGEST_RETRY_SECONDS)

    async def _watch(self, ear: Any, ended: asyncio.Event) -> None:
        """Returns when the connection has ended, or when its server, one of several, has become a standby.

        Raises TimeoutError when the server does not answer.
        """
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._check_every)
                return
            asking = ear.fetchval(
                "SELECT pg_is_in_recovery()", timeout=min(_CHECK_SECONDS, self._check_every)
            )
            if await _to_its_end(asyncio.create_task(asking)) and self._hosts.are_many:
                return

    async def _connected(self) -> Any:
        opening = asyncio.create_task(self._hosts.connect(timeout=10, command_timeout=10))
        try:
            return await _to_its_end(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(*_BROKEN):
                opening.result().terminate()
            raise

    def _hear(self, _connection: Any, teller: int, _channel: str, kind: str) -> None:
        is_own = self._voice is not None and teller == self._voice.get_server_pid()
        if kind in KINDS and not is_own:  # this process needs no hint of its own work
            self._on_hint(kind)


async def _to_its_end(call: asyncio.Task[Any]) -> Any:
    """Returns the result of the call and completes it even when cancelled.

    A call that is cut off would leave asyncpg with an open connection.
    """
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait({call})
        raise
