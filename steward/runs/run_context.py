"""The dependencies of a run: to write to stores (`WriteContext`) and to execute it (`RunContext`)."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from steward.automations.rules import AutomationRules
from steward.clock import Clock
from steward.config import default_of
from steward.connections.vault import Vault
from steward.connectors.base.connector import AnyWriteOperation, Reader
from steward.connectors.base.writing import WriteOutcome
from steward.database.engine.base import Engine
from steward.database.engine.disk_space import DiskSpace
from steward.database.runs import file_folder, transitions
from steward.database.runs.transitions import Lease
from steward.model.change import Batch
from steward.model.connection import Connection
from steward.model.ids import OrgId, RunId
from steward.model.instants import wire_time
from steward.model.json import JsonObject
from steward.model.plan import PlanStep
from steward.outbound.call_queue import Urgency
from steward.outbound.grant import WriteGrant
from steward.outbound.transport import CancelCheck
from steward.outbound.web import WebReadClient
from steward.run_queue import spans
from steward.runs.rounds import BatchSizes
from steward.sandbox.pool import SandboxPool
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.telemetry.traces import NO_TRACES, Traces, current_run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """The settings of one run, with their defaults."""

    approval: timedelta = timedelta(hours=default_of("approval_hours"))
    time_limit: timedelta = timedelta(seconds=default_of("run_time_limit_seconds"))
    settle_quiet: timedelta = timedelta(seconds=default_of("settle_quiet_seconds"))
    write_timeout: timedelta = timedelta(seconds=60)


class BatchWriter(Protocol):
    """The one method of a writer that `apply.py` uses."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of `batch` and returns one outcome per part, in order."""
        ...


class ConnectionAccess(Protocol):
    """The access of runs to an organization's connections."""

    async def reader(
        self,
        org: OrgId,
        connection: Connection,
        *,
        urgency: Urgency = Urgency.READ,
        check_cancelled: CancelCheck | None = None,
    ) -> Reader:
        """Returns a reader, which can send nothing but reads.

        `urgency` WRITE is for reads that belong to a write. Raises NotConnected.
        """
        ...

    async def writer(self, org: OrgId, connection: Connection, grant: WriteGrant) -> BatchWriter:
        """Returns a writer bound to `grant`; only `apply.py` calls it. Raises NotConnected."""
        ...

    def changes(self, kind: str) -> Mapping[str, AnyWriteOperation]:
        """Returns the write operations of a kind of connection, by name."""
        ...

    def receives_messages(self, kind: str) -> bool:
        """Returns whether what is written to a kind of connection is a message to people."""
        ...

    def web(self, org: OrgId, *, check_cancelled: CancelCheck | None = None) -> WebReadClient:
        """Returns reads of addresses that belong to no connection."""
        ...


@dataclass(slots=True)
class LeaseConfirmation:
    """The end of this process's lease as confirmed, by its monotonic clock, or that it is lost."""

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


@dataclass(frozen=True, slots=True)
class FileFolder:
    """The folder in which SQLite keeps the files of runs, and the disk that it fills."""

    path: Path
    space: DiskSpace | None = None

    @classmethod
    def beside(cls, database: Path, space: DiskSpace | None) -> "FileFolder":
        """Returns the folder of an SQLite file."""
        return cls(file_folder.folder_of(database), space)


@dataclass(frozen=True, slots=True)
class Progress:
    """The step that a run executes now; `total` is None while the amount is unknown."""

    lease: Lease
    step: PlanStep
    started_at: datetime
    done: int = 0
    total: int | None = None

    def wire(self) -> JsonObject:
        """Returns the public `current_step` of the run."""
        return {
            "name": self.step.name,
            "title": self.step.title,
            "kind": self.step.kind,
            "started_at": wire_time(self.started_at),
            "done": self.done,
            "total": self.total,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """The dependencies of every periodic task; `wake` hints to a kind of task that it has work."""

    engine: Engine
    clock: Clock
    log: Log
    metrics: Metrics
    wake: Callable[[str], None] = field(default=lambda kind: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext(TaskContext):
    """The dependencies of writes to stores: the ledger's database, connections, the worker's lease."""

    rules: RunRules
    access: ConnectionAccess
    vault: Vault
    lease_confirmation: LeaseConfirmation = field(default_factory=LeaseConfirmation)
    progress: dict[RunId, Progress] = field(default_factory=dict)
    batch_sizes: BatchSizes = field(default_factory=BatchSizes)

    def confirmed_until(self) -> datetime:
        """Returns the end of the lease as last confirmed, as wall-clock time."""
        ahead = self.lease_confirmation.until - self.clock.monotonic()
        return self.clock.now() + timedelta(seconds=ahead)

    async def wait_for_lease(self, lease: Lease) -> None:
        """Waits until the lease is confirmed, so that a step or call may start.

        Raises LeaseLost, or WorkerStopping when the process ends.
        """
        while True:
            if self.lease_confirmation.stopping:
                raise WorkerStopping
            if self.lease_confirmation.lost:
                raise LeaseLost(lease)
            if self.clock.monotonic() < self.lease_confirmation.until:
                return
            await self.lease_confirmation.changed()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(WriteContext):
    """The dependencies of a run from start to end: besides its writes, how its steps run."""

    automation_rules: AutomationRules
    sandbox_pool: SandboxPool = field(default_factory=lambda: SandboxPool(2))
    files: FileFolder | None = None
    traces: Traces = NO_TRACES

    def begin_trace(self, lease: Lease) -> None:
        """Assigns what this task calls from now on to the run's trace."""
        current_run.set(lease.run)

    def add_sleep(self, lease: Lease, began_at: datetime, wake_at: datetime) -> None:
        """Sends the span of a sleep that the run begins."""
        spans.add_sleep(self.traces, lease.run, epoch=lease.epoch, began_at=began_at, wake_at=wake_at)

    async def add_trace(self, lease: Lease) -> None:
        """Sends the run's trace if the run has ended."""
        now = self.clock.now()
        await spans.add_finished(
            self.traces, self.engine, now, org=lease.org, run=lease.run, attempt=lease.attempt
        )


async def check_run_wanted(engine: Engine, clock: Clock, lease: Lease) -> None:
    """Checks before a read that this worker still owns the run and that nobody asked to cancel it.

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


class UnknownPlan(Exception):
    """This release does not have the run's template, or a step type of its plan."""


class WorkerStopping(Exception):
    """The process ends: the run is released at its next checkpoint."""


class CancelRequested(Exception):
    """The run was asked to stop at its next checkpoint."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
