"""Tests the time limits of runs, whose clock counts, and deferred rows.

See docs/design/approvals.md#held-changes and docs/design/runs.md#periodic-tasks-and-failing-rows.
"""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from steward import periodic_tasks, worker
from steward.database import due_rows
from steward.database.runs import approvals, transitions, write_ledger
from steward.model.change import Outcome
from steward.model.run import Queue, Run, RunStatus
from steward.runs.tasks import timers
from steward.worker import Hints
from tests.crash.skew import skewed
from tests.runs.shop import Shop
from tests.runs.test_limits import rules
from tests.runs.test_recovery import run_state

SECOND = timedelta(seconds=1)
DAYS = timedelta(days=90)


@pytest.mark.parametrize("ahead", [timedelta(days=3), timedelta(days=-3)])
async def test_a_wrong_clock_of_a_worker_ends_no_run_too_early_and_none_too_late(
    shop: Shop, ahead: timedelta
) -> None:
    """The `not_started` limit is measured by the database's clock, not by the worker's.

    See docs/design/api/runs.md#states and docs/design/runs.md#principles.
    """
    run = await shop.run_now(await shop.hiding())
    wrong = await worker.register(skewed(shop, ahead), Hints(), poll=SECOND)
    limit = wrong.ctx.worker_rules.queue_limit.total_seconds()
    await shop.clock.advance(limit - 0.001)
    await periodic_tasks.expire_unstarted(wrong)
    assert (await shop.run(run)).status is RunStatus.QUEUED
    await shop.clock.advance(0.001)
    await periodic_tasks.expire_unstarted(wrong)
    assert (await shop.run(run)).code == "not_started"


async def test_a_run_sleeps_as_long_as_it_was_asked_to_whatever_its_workers_clock_says(shop: Shop) -> None:
    """The pause a platform asks for is measured by the database's clock.

    See docs/design/runs.md#principles.
    """
    shop.fault("throttle", "GET", "**/products", retry_after=600)
    run = await shop.run_now(await shop.hiding())
    slow = await worker.register(skewed(shop, -timedelta(minutes=20)), Hints(), poll=SECOND)
    await worker.drain(slow, periodic_tasks.of_worker(slow))
    assert (await run_state(shop, run)).queue is Queue.SLEEPING
    await shop.clock.advance(599)
    await timers.wake_sleeping(slow.ctx)
    assert (await run_state(shop, run)).queue is Queue.SLEEPING
    await shop.clock.advance(1)
    await timers.wake_sleeping(slow.ctx)
    assert (await run_state(shop, run)).queue is Queue.READY


async def test_each_step_has_an_hour_of_patience_of_its_own(shop: Shop) -> None:
    """A throttled read is tried again for an hour from the step's first failure.

    See docs/design/runs.md#claim.
    """
    shop.fault("throttle", "GET", "/sheets/**/values/**", retry_after=1799, count=2)
    shop.fault("throttle", "GET", "**/products", retry_after=1799, count=2)
    run = await shop.run_now(await shop.pricing())
    waits = await shop.until_settled(run, minutes=200)
    assert waits.status is RunStatus.WAITING_APPROVAL, waits
    assert waits.started_at is not None
    assert shop.clock.now() - waits.started_at >= 4 * 1799 * SECOND


@pytest.mark.parametrize(("pause", "status"), [(3599, RunStatus.RUNNING), (3600, RunStatus.FAILED)])
async def test_a_read_that_fails_for_an_hour_fails_its_step(
    shop: Shop, pause: int, status: RunStatus
) -> None:
    """A failing read is tried again just before the hour is over and not at the hour.

    See docs/design/runs.md#claim.
    """
    shop.fault("throttle", "GET", "**/products", retry_after=pause, count=-1)
    run = await shop.run_now(await shop.hiding())
    await shop.drain()
    await shop.clock.advance(pause)
    await shop.drain()
    assert (await shop.run(run)).status is status
    await shop.clock.advance(pause)
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "step_failed")
    assert [row["code"] for row in await shop.steps(run)][-1] == "throttled"


async def test_a_run_continues_for_ninety_days_at_most(shop: Shop) -> None:
    """A run, waiting for people included, ends at 90 days and not before. See docs/design/runs.md#limits."""
    rules(shop, approval=timedelta(days=100))
    early, late = await shop.waiting(await shop.pricing()), await shop.waiting(await shop.pricing())
    began = (await shop.run(early)).started_at
    assert began is not None
    await shop.clock.advance_to(began + DAYS - SECOND)
    await shop.approve(early)
    await shop.drain()
    assert (await shop.run(early)).status is RunStatus.SUCCEEDED
    written = len(shop.writes())
    began = (await shop.run(late)).started_at
    assert began is not None
    await shop.clock.advance_to(began + DAYS)
    await shop.approve(late)
    await shop.drain()
    ended = await shop.run(late)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "timed_out")
    assert {change.outcome for change in await shop.changes(late)} == {Outcome.CANCELLED}
    assert len(shop.writes()) == written


async def test_a_sleeping_run_wakes_no_later_than_its_last_day(shop: Shop) -> None:
    """A long pause does not keep a run beyond its 90 days. See docs/design/runs.md#limits."""
    rules(shop, approval=timedelta(days=100))
    run = await shop.waiting(await shop.pricing())
    began = (await shop.run(run)).started_at
    assert began is not None
    await shop.clock.advance_to(began + DAYS - timedelta(hours=12))
    shop.fault("throttle", "POST", "**/batch", retry_after=86_400)
    await shop.approve(run)
    await shop.drain()
    await shop.clock.advance_to(began + DAYS - SECOND)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.RUNNING
    await shop.clock.advance_to(began + DAYS)
    await shop.drain()
    assert (await shop.run(run)).code == "timed_out"


async def test_progress_is_shown_while_changes_are_applied(shop: Shop) -> None:
    """`current_step` reports `done` of `total` while changes are applied. See docs/design/api/runs.md#run."""
    run = await shop.waiting(await shop.hiding(threshold=0))
    await shop.approve(run)
    total = len(await shop.changes(run))
    shop.fault("throttle", "POST", "**/batch", retry_after=2, skip=1)
    hired = await shop.registered_worker()
    going = asyncio.create_task(worker.drain(hired, periodic_tasks.of_worker(hired)))
    await shop.clock.until_sleeping()
    await shop.clock.advance(1.5)
    await timers.note_progress(hired.ctx)
    current_step: Any = (await shop.run(run)).current_step
    assert current_step is not None
    assert current_step["kind"] == "change"
    assert (0 < current_step["done"] < current_step["total"], current_step["total"]) == (True, total)
    await shop.clock.advance(1)
    await going
    ended = await shop.run(run)
    assert (ended.status, ended.current_step) == (RunStatus.SUCCEEDED, None)


async def _runs(shop: Shop, count: int) -> list[Run]:
    return [await shop.run_now(await shop.hiding()) for _ in range(count)]


async def _defer(shop: Shop, tick: str, key: str) -> None:
    await shop.write(partial(due_rows.defer, task=tick, key=key, message="of no use"))


async def test_deferred_rows_take_no_place_in_the_limit(shop: Shop) -> None:
    """Deferred rows are excluded by the selecting statement, so they take no place in its limit.

    See docs/design/runs.md#periodic-tasks-and-failing-rows.
    """
    org = shop.owner.org
    first, second = await _runs(shop, 2)
    asleep = "UPDATE runs SET queue = 'sleeping', wake_at = :at WHERE org_id = :org AND id = :run"
    await shop.tamper(asleep, run=first.id, at=1)
    await shop.tamper(asleep, run=second.id, at=2)
    await _defer(shop, "wake", first.id)
    to_wake = partial(transitions.to_wake, limit=1)
    assert await shop.engine.read(shop.clock.now(), to_wake) == [(org, second.id)]
    await shop.clock.advance(60)
    assert await shop.engine.read(shop.clock.now(), to_wake) == [(org, first.id)]

    await shop.drain()
    approval_ids = [(await shop.approval(run)).id for run in (first, second)]
    await shop.clock.advance(72 * 3600)
    await _defer(shop, "expire_approvals", approval_ids[0])
    ended = partial(approvals.expired, limit=1)
    assert await shop.engine.read(shop.clock.now(), ended) == [(org, approval_ids[1])]

    third, fourth = [await shop.waiting(await shop.pricing()) for _ in range(2)]
    await shop.approve(third)
    await shop.drain()
    await shop.world.reset()
    await shop.tamper("UPDATE write_ledger SET state = 'unknown', reconcile_after = 0 WHERE org_id = :org")
    await _defer(shop, "settle", third.id)
    to_settle = partial(write_ledger.to_settle, limit=1)
    assert await shop.engine.read(shop.clock.now(), to_settle) == []
    assert (await shop.run(fourth)).status is RunStatus.WAITING_APPROVAL
    await shop.clock.advance(60)
    assert await shop.engine.read(shop.clock.now(), to_settle) == [(org, third.id)]

    fifth, sixth = await _runs(shop, 2)
    limit = shop.service.worker_context.worker_rules.queue_limit
    await shop.clock.advance(limit.total_seconds())
    await _defer(shop, "queue_limit", fifth.id)
    unstarted = partial(transitions.unstarted, limit=limit, row_limit=1)
    assert await shop.engine.read(shop.clock.now(), unstarted) == [(org, sixth.id)]
