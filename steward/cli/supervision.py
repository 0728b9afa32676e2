"""Stops this process at a signal, reports its state to the service manager, and restarts further processes.

The service manager is told by sd_notify of systemd.
"""

import asyncio
import math
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from steward.clock import LONGEST_BACKOFF, backoff
from steward.telemetry.log import Log

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
    """Returns an event that the first SIGTERM or SIGINT sets; the second exits at once.

    A terminal that closes sets it too, unless hang-ups are ignored (`nohup`); it does not count as the first.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    is_requested = False

    def request_stop() -> None:
        nonlocal is_requested
        if is_requested:
            os._exit(1)
        is_requested = True
        stop.set()

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, request_stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop.set)  # the kernel and the shell may each send one
    return stop


@dataclass(slots=True)
class FurtherProcess:
    """A further process, which is restarted if it ends by itself, with a backoff of 1 to 30 s."""

    begin: Callable[[], "subprocess.Popen[str]"]
    log: Log
    _child: "subprocess.Popen[str] | None" = None
    _begun_at: float = 0.0
    _due_at: float = -math.inf
    _failures: int = 0

    def keep(self, now: float) -> None:
        """Logs the end of the process, and begins it if it is due. `now` is a monotonic time."""
        if self._child is not None:
            if self._child.poll() is None:
                return
            self.log.error("api_process_ended", code=self._child.returncode)
            self._child = None
            if now - self._begun_at >= LONGEST_BACKOFF:
                self._failures = 0
            self._back_off(now)
        if now < self._due_at:
            return
        try:
            self._child = self.begin()
            self._begun_at = now
        except OSError as error:  # such as for want of memory
            self.log.error("api_process_not_begun", reason=str(error))
            self._back_off(now)

    def _back_off(self, now: float) -> None:
        self._failures += 1
        self._due_at = now + backoff(self._failures)

    def terminate(self) -> None:
        """Asks the process to end."""
        if self._child is not None:
            self._child.terminate()

    def wait(self) -> None:
        """Waits for the end of the process."""
        if self._child is not None:
            self._child.wait()
