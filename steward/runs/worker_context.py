"""What the run machinery is given: engine, clock, templates and the ways to stores; wired by app.py."""

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
from steward.database.runs import transitions as run_queue
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
    """The settings runs obey (contract 8), with their defaults."""

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
    """The one thing runs/apply.py does with a writer (connectors/writing.py)."""

    async def apply(self, batch: Batch) -> list[WriteOutcome]:
        """Makes the one request of `batch`; one outcome per part, in order."""
        ...


class ConnectionAccess(Protocol):
    """How runs reach the organisation's stores and accounts."""

    async def reader(
        self,
        org: OrgId,
        connection: Connection,
        *,
        urgency: Urgency = Urgency.READ,
        still_wanted: CancelCheck | None = None,
    ) -> Reader:
        """A reader, which can emit nothing but reads; WRITE for those of a write. Raises NotConnected."""
        ...

    async def writer(self, org: OrgId, connection: Connection, grant: WriteGrant) -> BatchWriter:
        """A writer bound to `grant`; only runs/apply.py asks for one. Raises NotConnected."""
        ...

    def changes(self, kind: str) -> Mapping[str, WriteOperation[Any]]:
        """The plannable changes of a kind of connection."""
        ...

    def web(self, org: OrgId, *, still_wanted: CancelCheck | None = None) -> WebReadClient:
        """Reads of addresses no connection stands for."""
        ...


@dataclass(slots=True)
class LeaseConfirmation:
    """Until when this process knows its lease to hold, by its own monotonic clock; or that it is lost."""

    until: float = 0.0
    lost: bool = False
    stopping: bool = False
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self, until: float) -> None:
        """The lease is known to hold until then."""
        self.until, self.lost = until, False
        self._tell()

    def lose(self) -> None:
        """The lease is known to be another's: what is in hand is to be dropped."""
        self.lost = True
        self._tell()

    def stop(self) -> None:
        """The process ends: nothing more is begun."""
        self.stopping = True
        self._tell()

    async def changed(self) -> None:
        """Waits for the next word about the lease."""
        await self._change.wait()

    def _tell(self) -> None:
        told, self._change = self._change, asyncio.Event()
        told.set()


@dataclass(frozen=True, slots=True)
class Progress:
    """What a run in hand is doing; `total` None: it is not known of how much."""

    lease: Lease
    step: PlanStep
    started_at: datetime
    done: int = 0
    total: int | None = None

    def wire(self) -> JsonObject:
        """As `current_step` shows it (contract 3.2)."""
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
    """Everything a worker's code is given."""

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
        """Whether anything new may be begun: not while the disk is full (engine 18)."""
        return self.space is None or not self.space.is_full

    def confirmed_until(self) -> datetime:
        """The end of the lease as last confirmed, on the wall clock."""
        ahead = self.lease_confirmation.until - self.clock.monotonic()
        return self.clock.now() + timedelta(seconds=ahead)

    async def wait_for_lease(self, lease: Lease) -> None:
        """Waits until the lease is confirmed, so that a step or call may start (engine 5).

        Raises LeaseLost when the lease was lost, WorkerStopping when the process ends.
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
    """Looks whether the run is still this worker's and still wanted, which a read asks before each request.

    Raises LeaseLost, CancelRequested.
    """
    look = partial(run_queue.read_lease, lease=lease)
    ours, cancel = await ctx.engine.read(ctx.clock.now(), look, org=lease.org, small=True)
    if not ours:
        raise LeaseLost(lease)
    if cancel is not None:
        raise CancelRequested(cancel)


class LeaseLost(Exception):
    """The run is no longer this worker's: stop, and write nothing more."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(f"run {lease.run} is no longer held at epoch {lease.epoch}")


class WorkerStopping(Exception):
    """The process ends: what is in hand is handed back at its next border (engine 15)."""


class CancelRequested(Exception):
    """Somebody wants the run to stop at its next border."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
