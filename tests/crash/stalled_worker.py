"""Stops a worker for longer than its lease, lets another finish its run, and wakes it."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from steward import worker
from steward.database.engine.base import Act, Dialect, Engine, Tx
from steward.model.ids import OrgId
from steward.model.run import TERMINAL, Run, RunStatus
from steward.runs import claim
from steward.runs.lease import LeaseConfirmation
from steward.runs.walk import leased_run
from steward.worker import Hints, Worker, WorkerContext
from tests.runs.shop import Shop

T = TypeVar("T")
TABLES = (
    "runs",
    "steps",
    "step_values",
    "changes",
    "write_ledger",
    "approvals",
    "memory",
    "schedules",
)


@dataclass
class StallingEngine:
    """An engine that holds back write number `stalled_write` until `go_on` is set."""

    engine: Engine
    stalled_write: int
    writes: int = 0
    stalled: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def dialect(self) -> Dialect:
        """Returns the dialect of the engine."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Counts the writes of organizations' rows and holds back number `stalled_write`."""
        if org != ():
            self.writes += 1
            if self.writes == self.stalled_write:
                self.stalled.set()
                await self.go_on.wait()
        return await self.engine.write(now, act, org=org, urgent=urgent)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """Reads without delay."""
        return await self.engine.read(now, act, org=org, small=small)

    async def close(self) -> None:
        """Does nothing: the test that opened the engine closes it."""


@dataclass
class StalledWorker:
    """A worker that is stopped within a run, with its engine and the run's task."""

    worker: Worker
    engine: StallingEngine
    task: "asyncio.Task[None]"


async def stall(shop: Shop, index: int) -> StalledWorker | None:
    """Claims a run with a worker that stops before write number `index`; None if it makes fewer writes."""
    engine = StallingEngine(shop.engine, index)
    ctx: WorkerContext = replace(
        shop.service.worker_context, engine=engine, lease_confirmation=LeaseConfirmation(), progress={}
    )
    slow = await worker.register(ctx, Hints(), poll=timedelta(seconds=1))
    [lease] = await claim.claim(ctx.engine, ctx.clock.now(), slow.id, free=1, full=[])
    task = asyncio.create_task(leased_run.work(ctx, lease))
    waiting = asyncio.create_task(engine.stalled.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not engine.stalled.is_set():
        await task
        return None
    return StalledWorker(slow, engine, task)


async def finish_elsewhere(shop: Shop, run: Run) -> Run:
    """Lets another worker take the run over, approves what it asks, and returns the ended run."""
    await shop.clock.advance(shop.service.worker_context.worker_rules.lease.total_seconds() + 1)
    shop.worker = None
    await shop.registered_worker()
    for _ in range(4):
        fresh = await shop.until_settled(run)
        if fresh.status in TERMINAL:
            return fresh
        assert fresh.status is RunStatus.WAITING_APPROVAL
        await shop.approve(run)
    raise AssertionError("the run does not end")


async def rows(shop: Shop) -> dict[str, list[str]]:
    """Returns every stored row of the organization's runs by table."""

    async def load(tx: Tx) -> dict[str, list[str]]:
        rows_by_table = {}
        for table in TABLES:
            stored_rows = await tx.all(f"SELECT * FROM {table} WHERE org_id = :org", {"org": shop.owner.org})
            fields = [[(name, _plain(row[name])) for name in row.keys()] for row in stored_rows]  # noqa: SIM118
            rows_by_table[table] = sorted(map(repr, fields))
        return rows_by_table

    return await shop.read(load)


def _plain(value: Any) -> Any:
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else value


async def wake(stalled: StalledWorker) -> None:
    """Lets the stopped worker continue until it has released the run."""
    stalled.engine.go_on.set()
    await asyncio.wait_for(stalled.task, 30)


async def count_run_writes(shop: Shop) -> int:
    """Runs the one ready run as far as it goes and returns the number of writes that took."""
    engine = StallingEngine(shop.engine, 0)
    ctx: WorkerContext = replace(
        shop.service.worker_context, engine=engine, lease_confirmation=LeaseConfirmation(), progress={}
    )
    hand = await worker.register(ctx, Hints(), poll=timedelta(seconds=1))
    [lease] = await claim.claim(ctx.engine, ctx.clock.now(), hand.id, free=1, full=[])
    await leased_run.work(ctx, lease)
    return engine.writes
