"""Tests the limits of a run, and what its automation and its reader see when one is reached.

See docs/design/runs.md#limits and docs/design/runs.md#periodic-tasks-and-failing-rows.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from steward import failpoint, periodic_tasks, worker
from steward.database.automations import records as automations
from steward.database.runs import steps
from steward.database.runs.changes import STILL_OPEN
from steward.model.automation import Automation, AutomationState, PausedBy
from steward.model.change import Outcome
from steward.model.run import Mode, Run, RunStatus
from steward.runs.tasks import timers
from steward.steps.base import StepContext
from tests.crash.killing import kill_at
from tests.runs.consistency import assert_agrees
from tests.runs.shop import Shop

DAILY = {"cadence": "daily", "run_at": "23:00"}


async def automation_of(shop: Shop, automation: Automation) -> Automation:
    """Reads the run's automation again."""
    return await shop.read(partial(automations.get, org=shop.owner.org, automation=automation.id))


def rules(shop: Shop, **changed: Any) -> None:
    """Restarts the service with other settings."""
    ctx = shop.service.worker_context
    shop.service = replace(shop.service, worker_context=replace(ctx, rules=replace(ctx.rules, **changed)))


async def failing(shop: Shop, schedule: Mapping[str, Any] = DAILY) -> Automation:
    """Creates an automation whose every run exceeds its limit of changes."""
    inputs = {"threshold": 5, "limit": 1}
    return await shop.set_up("hide-out-of-stock-products", inputs, schedule)


async def test_a_run_no_worker_took_in_time_expires(shop: Shop) -> None:
    """A run that no worker claimed for 24 hours expires with `not_started`, and not before.

    See docs/design/api/runs.md#states.
    """
    automation = await shop.hiding()
    run, lagging = await shop.run_now(automation), await shop.run_now(automation)
    hired = await shop.registered_worker()
    limit = hired.ctx.worker_rules.queue_limit.total_seconds()
    await shop.clock.advance(limit - 0.001)
    await periodic_tasks.expire_unstarted(hired)
    assert (await shop.run(run)).status is RunStatus.QUEUED
    await shop.clock.advance(0.001)
    await periodic_tasks.expire_unstarted(hired)
    for ended in (await shop.run(run), await shop.run(lagging)):
        assert (ended.status, ended.code) == (RunStatus.EXPIRED, "not_started")
        assert (ended.started_at, ended.summary) == (None, None)
    assert (await shop.run_and_drain(automation)).status is RunStatus.WAITING_APPROVAL


async def test_five_failures_in_a_row_pause_the_automation(shop: Shop) -> None:
    """The fifth failure in a row pauses the automation in the transaction that ends the run.

    See docs/design/runs.md#end-of-a-run.
    """
    automation = await failing(shop)
    assert automation.state is AutomationState.ACTIVE
    for number in range(1, 6):
        assert (await automation_of(shop, automation)).state is AutomationState.ACTIVE
        run = await shop.run_and_drain(automation)
        assert (run.status, run.code) == (RunStatus.FAILED, "too_many_changes")
        assert (await automation_of(shop, automation)).consecutive_failures == number
    paused = await automation_of(shop, automation)
    assert (paused.state, paused.paused_by) == (AutomationState.PAUSED, PausedBy.SYSTEM)
    assert paused.paused_reason is not None
    assert "5 runs failed in a row" in paused.paused_reason
    assert paused.next_run_at is None


async def test_a_success_resets_the_count_and_other_ends_keep_it(shop: Shop) -> None:
    """A success resets the failure count; other ends and test runs leave it.

    See docs/design/api/runs.md#states.
    """
    automation = await failing(shop)
    for _ in range(2):
        await shop.run_and_drain(automation)
    await shop.cancel(await shop.run_now(automation))
    await shop.run_and_drain(automation, Mode.TEST)
    assert (await automation_of(shop, automation)).consecutive_failures == 2
    await shop.tamper("UPDATE automations SET inputs = replace(inputs, '\"limit\":1', '\"limit\":99')")
    run = await shop.waiting(automation)
    await shop.approve(run)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert (await automation_of(shop, automation)).consecutive_failures == 0


async def test_the_last_run_is_the_last_live_one_that_began(shop: Shop) -> None:
    """`last_run_at` is the start of the last live run. See docs/design/api/runs.md#states."""
    automation = await shop.hiding()
    await shop.run_and_drain(automation, Mode.TEST)
    assert (await automation_of(shop, automation)).last_run_at is None
    shop.clock.tick(60)
    await shop.cancel(await shop.run_now(automation))
    assert (await automation_of(shop, automation)).last_run_at is None
    run = await shop.waiting(automation)
    assert (await automation_of(shop, automation)).last_run_at == run.started_at


async def test_more_changes_than_the_limit_propose_nothing(shop: Shop) -> None:
    """A run over its limit fails with `too_many_changes` and proposes nothing, even after a lost worker.

    See docs/design/templates.md#e11-over-the-limit.
    """
    for is_killed in (False, True):
        run = await shop.run_now(await failing(shop))
        if is_killed:
            await kill_at(shop, "before_finish")
        ended = await shop.until_settled(run)
        assert (ended.status, ended.code) == (RunStatus.FAILED, "too_many_changes")
        assert ended.message is not None
        assert "limit of 1" in ended.message
        assert await shop.changes(run) == []


async def test_a_run_over_its_time_is_stopped_at_its_next_checkpoint(shop: Shop) -> None:
    """A run over its time is stopped at its next checkpoint with `timed_out`.

    See docs/design/runs.md#limits and docs/design/api/runs.md#states.
    """
    rules(shop, time_limit=timedelta(seconds=20))
    shop.fault("throttle", "GET", "**/products", retry_after=21)
    run = await shop.run_and_drain(await shop.hiding())
    assert (run.status, run.code) == (RunStatus.FAILED, "timed_out")
    assert run.last_seq == 1
    assert run.summary is not None


async def test_a_run_whose_worker_is_lost_while_it_is_stopped_never_succeeds(shop: Shop) -> None:
    """A timed-out run whose worker is lost while it stops still cancels its changes and fails.

    See docs/design/runs.md#limits.
    """
    allowed = shop.service.worker_context.rules.time_limit
    run = await shop.waiting(await shop.pricing())
    written = len(shop.writes())
    await shop.approve(run)
    rules(shop, time_limit=timedelta(0))
    await kill_at(shop, "after_drop")
    rules(shop, time_limit=allowed)
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "interrupted")
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.CANCELLED}
    assert len(shop.writes()) == written


async def test_waiting_and_sleeping_do_not_count_as_a_runs_time(shop: Shop) -> None:
    """Time spent waiting or sleeping does not count as running time. See docs/design/runs.md#limits."""
    rules(shop, time_limit=timedelta(seconds=20))
    run = await shop.waiting(await shop.pricing())
    await shop.pass_time(hours=5)
    await shop.approve(run)
    shop.fault("throttle", "POST", "**/batch", retry_after=600)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED


async def test_more_data_than_a_step_may_keep_fails_the_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step output over 8 MiB fails the run with `too_much_data`.

    See docs/design/api/runs.md#states and docs/design/runs.md#checkpoints.
    """
    monkeypatch.setattr(steps, "OUTPUT_BYTES", 2_000)
    run = await shop.run_and_drain(await shop.pricing())
    assert (run.status, run.code) == (RunStatus.FAILED, "too_much_data")
    assert shop.writes() == []


async def test_more_data_than_a_run_may_keep_fails_it_after_a_lost_worker_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 64 MiB of a run count the outputs of every worker that had it.

    See docs/design/runs.md#checkpoints.
    """
    whole = await shop.waiting(await shop.pricing())
    stored_step_values = await shop.read(partial(steps.values, org=shop.owner.org, run=whole.id))
    monkeypatch.setattr(steps, "RUN_BYTES", sum(value.stored_bytes for value in stored_step_values) - 1)
    run = await shop.run_now(await shop.pricing())
    await kill_at(shop, "after_checkpoint")
    assert (await shop.until_settled(run)).code == "too_much_data"


async def test_the_running_step_is_shown(shop: Shop) -> None:
    """`current_step` names the running step and is null otherwise. See docs/design/api/runs.md#run."""
    shop.fault("throttle", "GET", "**/products", retry_after=10)
    run = await shop.run_now(await shop.hiding())
    hired = await shop.registered_worker()
    going = asyncio.create_task(worker.drain(hired, periodic_tasks.of_worker(hired)))
    await shop.clock.until_sleeping()
    await timers.note_progress(hired.ctx)
    assert (await shop.run(run)).current_step is None  # a step of less than a second is not worth a write
    await shop.clock.advance(2)
    await timers.note_progress(hired.ctx)
    current_step = (await shop.run(run)).current_step
    assert current_step is not None
    assert (current_step["name"], current_step["kind"], current_step["done"]) == ("read-stock", "read", 0)
    await shop.clock.advance(8)
    await going
    waits = await shop.run(run)
    assert (waits.status, waits.current_step) == (RunStatus.WAITING_APPROVAL, None)


async def test_a_defect_of_a_step_ends_its_run_and_no_other(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in a step's code fails its run at once with `step_failed`, without a retry.

    See docs/design/runs.md#periodic-tasks-and-failing-rows.
    """

    async def broken(context: StepContext) -> None:
        raise ZeroDivisionError(context.run_id)

    template: Any = shop.service.worker_context.automation_rules.templates["hide-out-of-stock-products"]
    monkeypatch.setitem(template.steps, "pick-sold-out", broken)
    run, other = await shop.run_now(await shop.hiding()), await shop.run_now(await shop.pricing())
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "step_failed")
    assert ended.message is not None
    assert "ZeroDivision" not in ended.message
    assert ended.summary is not None
    assert (await shop.run(other)).status is RunStatus.WAITING_APPROVAL


async def _stopped_after_a_call(shop: Shop) -> tuple[Run, str | None]:
    """Returns a run that a defect stopped before the outcome of its first write was stored.

    Returns the message of that write's change as well.
    """
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    message = (await shop.changes(run))[0].message

    def broken(point: str) -> None:
        if point == "after_call":
            raise ZeroDivisionError

    failpoint.watch(broken)
    try:
        await shop.drain()
    finally:
        failpoint.watch(None)
    return run, message


async def test_a_defect_while_changes_are_made_leaves_open_writes_unknown(shop: Shop) -> None:
    """A write still open when a run ends stays unknown and is read back afterwards.

    See docs/design/writes.md#reconciliation.
    """
    run, message = await _stopped_after_a_call(shop)
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "step_failed")
    first, *others = await shop.changes(run)
    assert (first.outcome, first.message) == (Outcome.UNKNOWN, f"{message} {STILL_OPEN}")
    assert {change.outcome for change in others} == {Outcome.CANCELLED}
    await shop.pass_time(minutes=10)
    first, *_ = await shop.changes(run)
    assert (first.outcome, first.message) == (Outcome.APPLIED, message)
    assert len(shop.writes()) == 1
    corrected = await shop.run(run)
    assert replace(corrected, summary=None) == replace(ended, summary=None)
    assert_agrees(corrected, await shop.changes(run))
    assert_agrees(ended, [replace(first, outcome=Outcome.UNKNOWN), *others])
    assert corrected.summary is not None
    assert "1 of 10 prices changed, 9 cancelled." in str(corrected.summary["text"])


async def test_an_outage_longer_than_a_day_leaves_no_write_unknown_that_can_be_read(shop: Shop) -> None:
    """The first look-up after an outage of 25 hours settles a write of a finished run.

    See docs/design/writes.md#unknown-outcomes-of-finished-runs.
    """
    run, message = await _stopped_after_a_call(shop)
    await shop.pass_downtime(hours=25)
    first, *_ = await shop.changes(run)
    assert (first.outcome, first.message) == (Outcome.APPLIED, message)
    assert len(shop.writes()) == 1


async def test_a_write_that_cannot_be_read_for_a_day_stays_unknown(shop: Shop) -> None:
    """A write of a finished run whose shop does not answer after 24 hours stays unknown for good.

    See docs/design/writes.md#unknown-outcomes-of-finished-runs.
    """
    run, message = await _stopped_after_a_call(shop)
    for path in ("**/products", "**/products/**"):
        shop.fault("status", "GET", path, status=503, count=-1)
    await shop.pass_downtime(hours=25)
    before = shop.world.state.ledger.last_seq
    await shop.pass_time(hours=2)
    first, *_ = await shop.changes(run)
    assert (first.outcome, first.message) == (Outcome.UNKNOWN, f"{message} {STILL_OPEN}")
    assert list(shop.world.state.ledger.entries(before, reads=True)) == []


@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.WAITING_APPROVAL])
async def test_an_ended_run_never_changes(shop: Shop, status: RunStatus) -> None:
    """A terminal status never changes."""
    automation = await shop.hiding()
    run = await (shop.run_now(automation) if status is RunStatus.QUEUED else shop.waiting(automation))
    assert run.status is status
    ended: Run = await shop.cancel(run)
    await shop.pass_time(days=100)
    assert await shop.run(run) == ended


async def test_a_failed_read_says_what_was_returned_and_how_often(shop: Shop) -> None:
    """The message quotes the response and the number of attempts, but no HTML page.

    See docs/design/web.md#run.
    """
    words = {"code": "wp_die", "message": "There has been a critical error."}
    for body, quoted in ((words, " (“There has been a critical error.”)"), ("<h1>Bad</h1>", "")):
        shop.fault("status", "GET", "/wp-json/**", status=500, count=3, body=body)
        ended = await shop.run_and_drain(await shop.hiding())
        assert ended.status is RunStatus.FAILED
        assert ended.message == f"The shop had a server error. It answered 500{quoted} to 3 calls in a row."
