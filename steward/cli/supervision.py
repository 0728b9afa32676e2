"""Stops this process at a signal, and reports its state to the service manager (sd_notify of systemd)."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

SOCKET = "NOTIFY_SOCKET"
_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Supervisor:
    """The socket of a service manager, and the interval at which it expects a sign of life."""

    address: str | None
    watchdog_seconds: float | None

    def ready(self) -> None:
        """Reports that the process takes requests or runs."""
        self.notify("READY=1")

    def notify(self, state: str) -> None:
        """Sends one state; does nothing without a service manager."""
        if self.address is None:
            return
        # Addresses that begin with @ are in the abstract namespace, whose first byte is zero.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
            notifications.connect(address)
            notifications.send(state.encode())

    async def watch(self, stop: asyncio.Event, is_well: Callable[[], bool]) -> None:
        """Sends a sign of life twice per interval while `is_well`; after `stop`, reports stopping."""
        pause = None if self.watchdog_seconds is None else self.watchdog_seconds / 2
        while not stop.is_set():
            if pause is not None and is_well():
                self.notify("WATCHDOG=1")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)
        self.notify("STOPPING=1")


def _supervisor_of(environ: Mapping[str, str]) -> Supervisor:
    """Returns the manager that the environment names; its interval applies only to the named process."""
    period = environ.get("WATCHDOG_USEC", "")
    is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    seconds = int(period) / _MICROSECONDS if period.isdecimal() and int(period) and is_ours else None
    return Supervisor(environ.get(SOCKET) or None, seconds)


@asynccontextmanager
async def supervised(
    environ: Mapping[str, str], stop: asyncio.Event, *, is_well: Callable[[], bool] = lambda: True
) -> AsyncIterator[Supervisor]:
    """Reports this process's state to the service manager, if there is one."""
    supervisor = _supervisor_of(environ)
    watching = asyncio.create_task(supervisor.watch(stop, is_well))
    try:
        yield supervisor
    finally:
        watching.cancel()


def stop_on_signals() -> asyncio.Event:
    """Returns an event that the first SIGTERM or SIGINT sets; the second exits at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def request_stop() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, request_stop)
    return stop
