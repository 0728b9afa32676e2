"""The event loop of the tests: a connection that outlives a test belongs to a loop that does so too."""

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Collection
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any
from weakref import WeakSet

import uvloop


class _Unclosed:
    """Warns as it is deleted, like transports: raised in `close`, it would leave the test's runner open."""

    def __init__(self, servers: Collection[asyncio.AbstractServer]) -> None:
        self._text = f"unclosed servers {servers}"

    def __del__(self) -> None:
        warnings.warn(self._text, ResourceWarning, stacklevel=1)


class SessionLoop(uvloop.Loop):
    """An event loop, of the service's kind, that all async tests of a process run on, one after the other.

    Each test has a runner of its own, which cancels the test's tasks and then closes the loop: instead, the
    loop ends what the test has left in it. Transports that a test has left open warn of themselves.
    """

    def __init__(self) -> None:
        super().__init__()
        self._timers_of_test: list[asyncio.TimerHandle] = []
        self._generators_of_test: WeakSet[AsyncGenerator[Any, Any]] = WeakSet()
        self._servers_of_test: WeakSet[asyncio.AbstractServer] = WeakSet()
        self._files_read: set[Any] = set()
        self._files_written: set[Any] = set()
        self._signals_handled: set[int] = set()
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Ends signal handlers, timers, watched files and servers of a test. A server causes a warning."""
        for number in list(self._signals_handled):
            self.remove_signal_handler(number)
        for timer in self._timers_of_test:
            timer.cancel()
        self._timers_of_test.clear()
        for file in list(self._files_read):
            self.remove_reader(file)
        for file in list(self._files_written):
            self.remove_writer(file)
        open_servers = [server for server in self._servers_of_test if server.is_serving()]
        for server in open_servers:
            server.close()
        if open_servers:
            _Unclosed(open_servers)

    def end(self) -> None:
        """Closes the loop."""
        self.call_soon(self.stop)
        self.run_forever()  # what closed transports have still to do
        super().close()

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Calls `callback` after `delay` seconds, unless the test ends before."""
        timer = super().call_later(delay, callback, *args, context=context)
        self._timers_of_test.append(timer)
        return timer

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        """Calls `callback` whenever the file can be read, until the test ends."""
        super().add_reader(fd, callback, *args)
        self._files_read.add(fd)

    def remove_reader(self, fd: Any) -> bool | None:
        """Ends `add_reader`."""
        self._files_read.discard(fd)
        return super().remove_reader(fd)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        """Calls `callback` whenever the file can be written, until the test ends."""
        super().add_writer(fd, callback, *args)
        self._files_written.add(fd)

    def remove_writer(self, fd: Any) -> bool | None:
        """Ends `add_writer`."""
        self._files_written.discard(fd)
        return super().remove_writer(fd)

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        """Calls `callback` at each signal `sig`, until the test ends."""
        super().add_signal_handler(sig, callback, *args)
        self._signals_handled.add(sig)

    def remove_signal_handler(self, sig: int) -> bool:
        """Ends `add_signal_handler`."""
        self._signals_handled.discard(sig)
        return super().remove_signal_handler(sig)

    async def create_server(self, *args: Any, **options: Any) -> Any:
        """Opens a server, which the test closes."""
        server = await super().create_server(*args, **options)
        self._servers_of_test.add(server)
        return server

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> Any:
        """Calls `func` in a thread, by default in one that ends with the test."""
        if executor is None:
            executor = self._threads = self._threads or ThreadPoolExecutor()
        return super().run_in_executor(executor, func, *args)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Ends the threads of a test."""
        threads, self._threads = self._threads, None
        if threads is not None:
            with ThreadPoolExecutor(1) as ending:
                await self.run_in_executor(ending, threads.shutdown)

    # uvloop's own two methods would go by a set of generators that is closed with the first test.
    def _asyncgen_firstiter_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        self._generators_of_test.add(agen)

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        self._generators_of_test.discard(agen)
        if not self.is_closed():
            self.call_soon_threadsafe(self.create_task, agen.aclose())

    async def shutdown_asyncgens(self) -> None:
        """Closes the generators of a test."""
        generators = list(self._generators_of_test)
        self._generators_of_test.clear()
        for outcome in await asyncio.gather(*(g.aclose() for g in generators), return_exceptions=True):
            if isinstance(outcome, Exception):
                self.call_exception_handler({"message": "closing a generator", "exception": outcome})
