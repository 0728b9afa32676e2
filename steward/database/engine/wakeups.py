"""Wake-up hints between processes by LISTEN and NOTIFY; a lost one costs only the poll."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import asyncpg

from steward.clock import Clock

_CHANNEL = "steward_wake"
KINDS = frozenset({"ready", "due", "event", "settle", "listen", "catch_up"})
# Later hints of a kind merge into one; the poll behind them is not much slower.
_APART_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 30.0
_BROKEN = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that was cut in the midst of a statement
    OSError,
    TimeoutError,
)


class Wakeups:
    """One process's ear and voice, each on a connection of its own, never in a transaction that writes."""

    def __init__(self, url: str, heard: Callable[[str], None], *, clock: Clock) -> None:
        self._url = url
        self._heard = heard
        self._clock = clock
        self._wanted: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._voice: Any = None

    def tell(self, kind: str) -> None:
        """Tells every process that listens that there may be work of this kind; call it after the commit."""
        self._wanted.add(kind)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    def listen(self) -> None:
        """Hears what other processes tell, from now until `close`."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def close(self) -> None:
        """Falls silent and deaf."""
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
                self._wanted.clear()  # the polls find the work; the next hint tries anew
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
                    for kind in KINDS:  # what was told while nobody listened
                        self._heard(kind)
                    await ended.wait()
                finally:
                    ear.terminate()
            await self._clock.sleep(wait)
            wait = min(wait * 2, _LONGEST_RETRY_SECONDS)

    async def _connected(self) -> Any:
        opening = asyncio.create_task(asyncpg.connect(self._url, timeout=10, command_timeout=10))
        try:
            return await _to_its_end(opening)
        except asyncio.CancelledError:
            with contextlib.suppress(*_BROKEN):
                opening.result().terminate()
            raise

    def _hear(self, _connection: Any, teller: int, _channel: str, kind: str) -> None:
        is_own = self._voice is not None and teller == self._voice.get_server_pid()
        if kind in KINDS and not is_own:  # this process was told when it happened
            self._heard(kind)


async def _to_its_end(call: asyncio.Task[Any]) -> Any:
    """What the call gives; cancelled, it still ends first: half a call leaves asyncpg a connection behind."""
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait({call})
        raise
