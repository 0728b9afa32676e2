"""The event loop of the tests: a connection that outlives a test belongs to a loop that does so too."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any


class SessionLoop(asyncio.SelectorEventLoop):
    """An event loop that all async tests of a process run on, one after the other.

    Each test has a runner of its own, which cancels the test's tasks and then closes the loop: instead, the
    loop forgets what the test has left in it. `shared_sockets` returns the sockets that belong to no test.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shared_sockets: Callable[[], Collection[int]] = tuple

    def close(self) -> None:
        """Forgets signals, timers and sockets of a test, whose open transports then warn of themselves."""
        loop: Any = self
        for number in list(loop._signal_handlers):
            self.remove_signal_handler(number)
        for timer in loop._scheduled:
            timer.cancel()
        shared = {loop._ssock.fileno(), *self.shared_sockets()}
        for descriptor in set(loop._selector.get_map()) - shared:
            loop._remove_reader(descriptor)
            loop._remove_writer(descriptor)

    def end(self) -> None:
        """Closes the loop."""
        self.call_soon(self.stop)
        self.run_forever()  # what closed transports have still to do
        super().close()

    async def shutdown_asyncgens(self) -> None:
        """Closes the generators of a test."""
        await super().shutdown_asyncgens()
        loop: Any = self
        loop._asyncgens_shutdown_called = False

    async def shutdown_default_executor(self, *timeout: Any) -> None:
        """Ends the threads of a test."""
        await super().shutdown_default_executor(*timeout)
        loop: Any = self
        loop._executor_shutdown_called = False
        loop._default_executor = None
