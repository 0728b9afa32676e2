"""Tests that the last step of a run and its end are one commit, alone and in a batch."""

import asyncio
from dataclasses import replace
from functools import partial

import asyncpg
import pytest

from steward.database.automations import records as automations
from steward.database.automations import schedules
from steward.database.engine.base import Tx
from steward.database.runs.fast_runs import FinishResult
from steward.database.runs.transitions import Lease
from steward.model.automation import Automation
from steward.model.instants import wire_time
from steward.model.run import Run, RunStatus
from steward.runs import checkpoint, claim, finish
from steward.runs.finish import FinishRequest, RunEnd
from steward.runs.lease import LeaseLost
from tests.occurrences.interleaving import BLOCKED
from tests.runs.shop import Shop
from tests.runs.test_checkpoints import LONG, new_checkpoint

DONE, RUNNING = RunStatus.SUCCEEDED, RunStatus.RUNNING


async def end_with_step(shop: Shop, run: Run, lease: Lease, *, name: str = "look") -> FinishResult:
    """Ends the run successfully with a last step of this name."""
    end = RunEnd(DONE, message="Done.", result={"seen": 1})
    expected = FinishRequest(
        lease, end, run.automation_id, run.mode, shop.service.worker_context.automation_rules
    )
    step = new_checkpoint(shop, lease, name=name)
    assert step.ended is not None
    step_checkpoint = checkpoint.step_checkpoint(step, step.ended)
    return await finish.end_with_step(shop.engine, shop.clock.now(), expected, step_checkpoint)


async def consecutive_failures(tx: Tx, automation: Automation) -> int:
    """Returns how many runs of the automation have failed in a row."""
    return (await automations.get(tx, automation.org, automation.id)).consecutive_failures


async def test_each_of_several_that_end_at_once_has_its_own_outcome(shop: Shop) -> None:
    """Each run of a batch ends by itself.

    A cancelled one stores its step alone, a fenced one nothing, and one with a row that the database refuses
    neither step nor end. See docs/design/storage.md#group-commit.
    """
    ctx, hired = shop.service.worker_context, await shop.registered_worker()
    automations = [await shop.hiding() for _ in range(4)]
    runs = [await shop.run_now(automation) for automation in automations]
    lagging = [await shop.run_now(automation) for automation in automations]
    held = await shop.claimed()
    leases = [held[run.id] for run in runs]
    await asyncio.gather(*(shop.begun(lease) for lease in leases))
    await shop.tamper("UPDATE schedules SET consecutive_failures = 3 WHERE org_id = :org")
    await shop.cancel(runs[1])
    leases[2] = replace(leases[2], epoch=leases[2].epoch - 1)
    names = ["look", "look", "look", LONG]
    acts = [
        end_with_step(shop, run, lease, name=name)
        for run, lease, name in zip(runs, leases, names, strict=True)
    ]
    outcomes = await asyncio.gather(*acts, return_exceptions=True)
    assert outcomes[:2] == [FinishResult(True, True, None), FinishResult(True, False, "by_person")]
    assert isinstance(outcomes[2], LeaseLost)
    assert isinstance(outcomes[3], Exception)
    after = [await shop.run(run) for run in runs]
    assert [run.status for run in after] == [DONE, RUNNING, RUNNING, RUNNING]
    assert (after[0].message, after[0].result, after[0].finished_at) == (
        "Done.",
        {"seen": 1},
        shop.clock.now(),
    )
    assert [run.last_seq for run in after] == [1, 1, 0, 0]
    assert [len(await shop.steps(run)) for run in runs] == [run.last_seq for run in after]
    assert [row["finished_at"] for row in await shop.steps(runs[0])] == [wire_time(shop.clock.now())]
    failures = [
        await shop.read(partial(consecutive_failures, automation=automation)) for automation in automations
    ]
    assert failures == [0, 3, 3, 3]
    free = await claim.claim(ctx.engine, ctx.clock.now(), hired.id, free=9, full=[])
    assert {lease.run for lease in free} == {lagging[0].id}


async def test_a_last_step_by_itself_locks_its_schedule_before_its_run(shop: Shop, database_url: str) -> None:
    """A single last step locks its schedule first, so a holder of the schedule can still lock the run.

    See docs/design/storage.md#lock-order.
    """
    if shop.engine.dialect == "sqlite":
        pytest.skip("SQLite has one writer, and no rows to lock")
    runs = [await shop.run_now(await shop.hiding()) for _ in range(3)]
    held = await shop.claimed(3)
    await asyncio.gather(*(shop.begun(lease) for lease in held.values()))
    run = runs[1]
    ends: list[asyncio.Future[FinishResult]] = []

    async def first(tx: Tx) -> None:
        await schedules.lock(tx, shop.owner.org, run.automation_id)
        # The third fails the call it shares with the second, which then goes by itself.
        ends.extend(
            asyncio.ensure_future(
                end_with_step(shop, item, held[item.id], name=LONG if item is runs[2] else "look")
            )
            for item in runs
        )
        while not await watcher.fetchval(BLOCKED):
            assert not ends[1].done()
        args = {"org": shop.owner.org, "run": run.id}
        assert await tx.first("SELECT id FROM runs WHERE org_id = :org AND id = :run FOR UPDATE NOWAIT", args)

    watcher = await asyncpg.connect(database_url)
    await shop.write(first)
    await watcher.close()
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    assert outcomes[:2] == [FinishResult(True, True, None)] * 2
