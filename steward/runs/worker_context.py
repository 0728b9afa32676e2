"""What a worker's code needs to run automations: engine, clock, templates and access to connections."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from steward.automations.rules import AutomationRules
from steward.clock import Clock
from steward.connections.vault import Vault
from steward.connectors.base.connector import Reader, WriteOperation
from steward.connectors.base.writing import WriteOutcome
from steward.database.engine.base import Engine
from steward.database.engine.disk_space import Space
from steward.database.runs import transitions
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
from steward.runs.retention import RetentionRules
from steward.runs.rounds import BatchSizes
from steward.sandbox.pool import SandboxPool
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.templates.base import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """The settings of runs, with their defaults."""

    approval: timedelta = timedelta(hours=72)
    time_limit: timedelta = timedelta(hours=1)
    queue_limit: timedelta = timedelta(hours=24)
    lease: timedelta = timedelta(seconds=30)
    settle_quiet: timedelta = timedelta(seconds=120)
    write_timeout: timedelta = timedelta(seconds=60)
    concurrency: int = 20
    organization_concurrency: int = 50
    max_waiting_events: int = 200
    catch_up: timedelta = timedelta(minutes=15)
    base_url: str = ""


class BatchWriter(Protocol):
    """The one method of a writer that `apply.py` uses."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of `batch` and returns one outcome per part, in order."""
        ...


class ConnectionAccess(Protocol):
    """How runs reach an organization's connections."""

    async def reader(
        self,
        org: OrgId,
        connection: Connection,
        *,
        urgency: Urgency = Urgency.READ,
        still_wanted: CancelCheck | None = None,
    ) -> Reader:
        """Returns a reader, which can send nothing but reads.

        `urgency` WRITE is for reads that belong to a write. Raises NotConnected.
        """
        ...

    async def writer(self, org: OrgId, connection: Connection, grant: WriteGrant) -> BatchWriter:
        """Returns a writer bound to `grant`; only `apply.py` calls it. Raises NotConnected."""
        ...

    def changes(self, kind: str) -> Mapping[str, WriteOperation[Any]]:
        """Returns the write operations of a kind of connection, by name."""
        ...

    def receives_messages(self, kind: str) -> bool:
        """Whether what is written to a kind of connection is a message to people."""
        ...

    def web(self, org: OrgId, *, still_wanted: CancelCheck | None = None) -> WebReadClient:
        """Returns reads of addresses that belong to no connection."""
        ...


@dataclass(slots=True)
class LeaseConfirmation:
    """Until when this process's lease is confirmed, by its monotonic clock, or that it is lost."""

    until: float = 0.0
    lost: bool = False
    stopping: bool = False
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    def confirm(self, until: float) -> None:
        """Notes that the lease holds until `until`, in seconds of the monotonic clock."""
        self.until, self.lost = until, False
        self._notify()

    def lose(self) -> None:
        """Notes that another worker may have the lease: running work is dropped."""
        self.lost = True
        self._notify()

    def stop(self) -> None:
        """Notes that the process ends: no new work starts."""
        self.stopping = True
        self._notify()

    async def changed(self) -> None:
        """Waits until the state changes."""
        await self._change.wait()

    def _notify(self) -> None:
        changed, self._change = self._change, asyncio.Event()
        changed.set()


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running run does now; `total` is None while the amount is unknown."""

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
class WorkerContext:
    """The dependencies of a worker."""

    engine: Engine
    clock: Clock
    log: Log
    metrics: Metrics
    rules: RunRules
    automation_rules: AutomationRules
    templates: Mapping[str, Template]
    access: ConnectionAccess
    vault: Vault
    sandbox_pool: SandboxPool = field(default_factory=lambda: SandboxPool(2))
    retention: RetentionRules = field(default_factory=RetentionRules)
    space: Space | None = None
    lease_confirmation: LeaseConfirmation = field(default_factory=LeaseConfirmation)
    progress: dict[RunId, Progress] = field(default_factory=dict)
    batch_sizes: BatchSizes = field(default_factory=BatchSizes)
    wake: Callable[[str], None] = field(default=lambda kind: None)

    @property
    def accepts_work(self) -> bool:
        """Whether new work may start; False while the disk is full."""
        return self.space is None or not self.space.is_full

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


async def check_run_wanted(ctx: WorkerContext, lease: Lease) -> None:
    """Checks before a read that this worker still owns the run and that nobody asked to cancel it.

    Raises LeaseLost, CancelRequested.
    """
    read_lease = partial(transitions.read_lease, lease=lease)
    is_owner, cancel = await ctx.engine.read(ctx.clock.now(), read_lease, org=lease.org, small=True)
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
