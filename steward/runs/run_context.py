"""The dependencies of a run: to write to stores (`WriteContext`) and to execute it (`RunContext`)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from steward.automations.rules import AutomationRules
from steward.clock import Clock
from steward.config import default_of
from steward.connections.vault import Vault
from steward.database.engine.base import Engine
from steward.database.engine.disk_space import DiskSpace
from steward.database.runs import file_folder
from steward.database.runs.transitions import Lease
from steward.model.ids import RunId
from steward.model.instants import wire_time
from steward.model.json import JsonObject
from steward.model.plan import PlanStep
from steward.run_queue import spans
from steward.runs.batch_sizes import BatchSizes
from steward.runs.connection_access import ConnectionAccess
from steward.runs.lease import LeaseConfirmation, LeaseLost, WorkerStopping
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


class UnknownPlan(Exception):
    """This release does not have the run's template, or a step type of its plan."""
