"""Stops a worker for longer than its lease, lets another finish its runs, and wakes it again."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from steward import worker
from steward.database.engine.base import Act, Dialect, Engine, Tx
from steward.model.ids import OrgId
from steward.model.run import TERMINAL, Run, RunStatus
from steward.runs import claim, walk
from steward.runs.run_context import LeaseConfirmation
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
class Stalling:
    """An engine that holds back the write number `at` of a run, until it is told to go on."""

    engine: Engine
    at: int
    writes: int = 0
    stalled: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def dialect(self) -> Dialect:
        """As the engine behind."""
        return self.engine.dialect

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes of organisations' rows are counted; the one that is waited for is held back."""
        if org != ():
            self.writes += 1
            if self.writes == self.at:
                self.stalled.set()
                await self.go_on.wait()
        return await self.engine.write(now, act, org=org, urgent=urgent)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), small: bool = False
    ) -> T:
        """As the engine behind."""
        return await self.engine.read(now, act, org=org, small=small)

    async def close(self) -> None:
        """The engine behind is closed by who opened it."""


@dataclass
class Stalled:
    """A worker in the midst of a run, and the task that has it."""

    worker: Worker
    engine: Stalling
    task: "asyncio.Task[None]"


async def stall(shop: Shop, index: int) -> Stalled | None:
    """A worker that claims what is ready and stops before its write number `at`; None: it made fewer."""
    engine = Stalling(shop.engine, index)
    ctx: WorkerContext = replace(
        shop.service.worker_context, engine=engine, lease_confirmation=LeaseConfirmation(), progress={}
    )
    slow = await worker.register(ctx, Hints(), poll=timedelta(seconds=1))
    [lease] = await claim.claim(ctx.engine, ctx.clock.now(), slow.id, free=1, full=[])
    task = asyncio.create_task(walk.work(ctx, lease))
    waiting = asyncio.create_task(engine.stalled.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not engine.stalled.is_set():
        await task
        return None
    return Stalled(slow, engine, task)


async def taken_over(shop: Shop, run: Run) -> Run:
    """The run at its end, after another worker took it over and a person approved what it asked."""
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
    """Everything kept of the organisation's runs."""

    async def look(tx: Tx) -> dict[str, list[str]]:
        collected = {}
        for table in TABLES:
            stored_rows = await tx.all(f"SELECT * FROM {table} WHERE org_id = :org", {"org": shop.owner.org})
            fields = [[(name, _plain(row[name])) for name in row.keys()] for row in stored_rows]  # noqa: SIM118
            collected[table] = sorted(map(repr, fields))
        return collected

    return await shop.read(look)


def _plain(value: Any) -> Any:
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else value


async def wake(stalled: Stalled) -> None:
    """The stopped worker goes on where it was, until it has let go of the run."""
    stalled.engine.go_on.set()
    await asyncio.wait_for(stalled.task, 30)


async def count(shop: Shop) -> int:
    """Takes up the one run that is ready and plays it as far as it goes; how many writes that took."""
    engine = Stalling(shop.engine, 0)
    ctx: WorkerContext = replace(
        shop.service.worker_context, engine=engine, lease_confirmation=LeaseConfirmation(), progress={}
    )
    hand = await worker.register(ctx, Hints(), poll=timedelta(seconds=1))
    [lease] = await claim.claim(ctx.engine, ctx.clock.now(), hand.id, free=1, full=[])
    await walk.work(ctx, lease)
    return engine.writes
