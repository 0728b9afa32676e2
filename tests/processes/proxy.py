"""Provides a TCP proxy that a test can cut, silence, slow down or lead to another port."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from steward.clock import SystemClock

CLOCK = SystemClock()
CHUNK = 1 << 16


@dataclass
class Proxy:
    """Connects a loopback port with `host`:`port`; what a test sets also holds for open connections."""

    host: str
    port: int
    refuses: bool = False  # closes new connections at once
    cut_after: int | None = None  # bytes of responses until a connection is reset
    delay_s: float = 0.0  # waits before each piece is passed on
    listen_port: int = 0
    passed: int = 0
    # Pieces from callers. For one that waits for each response, these are its round trips.
    request_pieces: int = 0
    _passes: asyncio.Event = field(default_factory=asyncio.Event)
    _lines: set[asyncio.Task[None]] = field(default_factory=set)

    def heal(self) -> None:
        """Removes every fault, and delivers what was held back."""
        self.refuses, self.cut_after, self.delay_s = False, None, 0.0
        self._passes.set()

    def silence(self) -> None:
        """Holds back all bytes without closing a connection, like a network that drops packets."""
        self._passes.clear()

    def heal_new(self) -> None:
        """Passes the bytes of new connections; silent ones stay silent."""
        self._passes = asyncio.Event()
        self._passes.set()

    async def cut(self) -> None:
        """Resets every connection and refuses new ones."""
        self.refuses = True
        await self.reset()

    async def reset(self) -> None:
        """Resets every connection and accepts new ones."""
        lines = list(self._lines)
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection to its end."""
        task = asyncio.current_task()
        assert task is not None
        self._lines.add(task)
        onward: asyncio.StreamWriter | None = None
        try:
            if self.refuses:
                return
            back, onward = await asyncio.open_connection(self.host, self.port)
            ways = [
                asyncio.create_task(self._pass(reader, onward, self._passes, responses=False)),
                asyncio.create_task(self._pass(back, writer, self._passes, responses=True)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for direction in ways:
                    direction.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # nobody listens behind: the caller's connection is closed
        except asyncio.CancelledError:
            pass  # reset by the test
        finally:
            for side in (writer, onward):
                if side is not None:
                    side.transport.abort()
            self._lines.discard(task)

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        passes: asyncio.Event,
        *,
        responses: bool,
    ) -> None:
        sent_bytes = 0
        with contextlib.suppress(OSError):
            while piece := await source.read(CHUNK):
                if self.delay_s:
                    await CLOCK.sleep(self.delay_s)
                await passes.wait()
                if responses and self.cut_after is not None and sent_bytes + len(piece) > self.cut_after:
                    target.write(piece[: self.cut_after - sent_bytes])
                    await target.drain()
                    return
                sent_bytes += len(piece)
                self.passed += len(piece)
                self.request_pieces += not responses
                target.write(piece)
                await target.drain()


@contextlib.asynccontextmanager
async def line_to(host: str, port: int) -> AsyncIterator[Proxy]:
    """Opens a proxy on a loopback port."""
    proxy = Proxy(host, port)
    proxy.heal()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.listen_port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.reset()
