"""The lease under which a worker holds runs, and what ends its work on one."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from steward.clock import Clock
from steward.database.engine.base import Engine
from steward.database.runs import transitions
from steward.database.runs.transitions import Lease


@dataclass(slots=True)
class LeaseConfirmation:
    """The last confirmed end of this process's lease, in seconds of its monotonic clock.

    Also whether the lease is lost, and whether the process is stopping.
    """

    until: float = 0.0
    lost: bool = False
    stopping: bool = False
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    def confirm(self, until: float) -> None:
        """Records that the lease holds until `until`, in seconds of the monotonic clock."""
        self.until, self.lost = until, False
        self._notify()

    def lose(self) -> None:
        """Records that another worker may have the lease, so that running work stops."""
        self.lost = True
        self._notify()

    def stop(self) -> None:
        """Records that the process ends, so that no new work starts."""
        self.stopping = True
        self._notify()

    async def changed(self) -> None:
        """Waits until the state changes."""
        await self._change.wait()

    def _notify(self) -> None:
        changed, self._change = self._change, asyncio.Event()
        changed.set()


async def check_run_wanted(engine: Engine, clock: Clock, lease: Lease) -> None:
    """Checks before a read that this worker still owns the run and that no cancellation was requested.

    Raises LeaseLost, CancelRequested.
    """
    read_lease = partial(transitions.read_lease, lease=lease)
    is_owner, cancel = await engine.read(clock.now(), read_lease, org=lease.org, small=True)
    if not is_owner:
        raise LeaseLost(lease)
    if cancel is not None:
        raise CancelRequested(cancel)


class LeaseLost(Exception):
    """Another worker owns the run now: this one stops and writes nothing more."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(f"run {lease.run} is no longer held at epoch {lease.epoch}")


class WorkerStopping(Exception):
    """The process ends: the run is released at its next checkpoint."""


class CancelRequested(Exception):
    """The run was asked to stop at its next checkpoint."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
