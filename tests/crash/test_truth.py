"""Tests that the counts, text and changes of a run agree wherever it is cancelled or interrupted."""

import os
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

import pytest

from steward.database.engine.base import Act
from steward.model.change import Outcome
from steward.model.ids import OrgId
from steward.model.run import TERMINAL, Run, RunStatus
from steward.runs import cancel
from tests.crash.killing import KINDS, Killer, ProcessKilled, bury, count_writes, watching
from tests.crash.stalled_worker import StallingEngine
from tests.runs.consistency import assert_agrees
from tests.runs.shop import Shop

T = TypeVar("T")

# Of the writes, every one of this number; `make soak` cancels before all of them.
EVERY = {kind: int(os.environ.get("CANCEL_EVERY", few)) for kind, few in (("hide", "4"), ("price", "1"))}
LOST_EVERY = int(os.environ.get("LOST_EVERY", "15"))


@dataclass
class CancellingEngine(StallingEngine):
    """An engine that cancels the run before a chosen write of the organization."""

    shop: Shop | None = None
    run: Run | None = None

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes, after a cancel if this is the chosen write."""
        if org != () and self.run is not None and self.shop is not None:
            self.writes += 1
            if self.writes == self.stalled_write:
                wish = partial(cancel.cancel, actor=self.shop.owner, run=self.run.id)
                with suppress(Exception):  # a run that has ended is no longer cancelled
                    await self.engine.write(now, wish, org=self.shop.owner.org)
        return await self.engine.write(now, act, org=org, urgent=urgent)


async def assert_true(shop: Shop, run: Run) -> None:
    """Asserts that the run's summary agrees with its changes and with what the shop received."""
    ended, changes = await shop.run(run), await shop.changes(run)
    assert ended.status in TERMINAL
    if ended.summary is None:
        assert ended.started_at is None
        assert not changes
        return
    assert_agrees(ended, changes)
    assert Outcome.PROPOSED not in {change.outcome for change in changes}
    assert Outcome.APPROVED not in {each_change.outcome for each_change in changes}
    touched = {item[1] for item in count_writes(shop) if item[0] != "tag"}
    actual = {
        int(entry.proposal.parts[-1].target.rpartition("/")[2])
        for entry in changes
        if entry.outcome in (Outcome.APPLIED, Outcome.FAILED)
    }
    assert touched <= actual, "something was written that no change tells of"
    if touched:
        done = [row for row in await shop.steps(run) if row["kind"] == "change" and row["status"] != "held"]
        assert len(done) == 1, "no step tells of what was written"


@pytest.mark.parametrize("kind", ["hide", "price"])
async def test_cancelled_at_any_write(shop: Shop, kind: str) -> None:
    """A cancel before any of the run's writes leaves a consistent report."""
    ends: Counter[RunStatus] = Counter()
    for index in range(2, 60, EVERY[kind]):
        await shop.world.reset()
        shop.connected_at = 0
        run = await shop.run_now(await KINDS[kind](shop))
        cancelling = CancellingEngine(shop.engine, index, shop=shop, run=run)
        ctx = shop.service.worker_context
        hired = await shop.registered_worker()
        hired.ctx = replace(ctx, engine=cancelling)
        await shop.drain()
        if (await shop.run(run)).status is RunStatus.WAITING_APPROVAL:
            await shop.approve(run)
            await shop.drain()
        hired.ctx = ctx
        ended = await shop.until_settled(run)
        await assert_true(shop, ended)
        ends[ended.status] += 1
        if ended.status is RunStatus.SUCCEEDED:
            break
    assert ends[RunStatus.CANCELLED] >= 5
    assert ends[RunStatus.SUCCEEDED] == 1


@pytest.mark.parametrize("kind", ["hide", "price"])
async def test_lost_permanently_from_any_point(shop: Shop, kind: str) -> None:
    """A run interrupted by three lost workers, the first at any point, reports consistently."""
    for first in range(5, 50, LOST_EVERY):
        await shop.world.reset()
        await shop.restart()
        shop.connected_at = 0
        run = await shop.run_now(await KINDS[kind](shop))
        killer = Killer(visits=(first, 1, 1))
        with watching(shop, killer):
            for _ in range(8):
                with suppress(ProcessKilled):
                    fresh = await shop.until_settled(run)
                    if fresh.status is RunStatus.WAITING_APPROVAL:
                        await shop.approve(run)
                if killer.is_dead:
                    await bury(shop, killer)
        await assert_true(shop, await shop.until_settled(run))
