"""Tests runs whose workers are lost repeatedly: the service failed, not the automation."""

from datetime import timedelta
from functools import partial

from steward.database.automations import records as automations
from steward.database.operator import health
from steward.database.runs import workers
from steward.model.automation import AutomationState
from steward.model.run import RunStatus
from steward.runs import claim, recover
from tests.crash.killing import kill_at
from tests.runs.shop import Shop
from tests.runs.test_recovery import run_state


async def test_lost_workers_pause_no_automation_and_the_operator_sees_them(shop: Shop) -> None:
    """An interrupted run does not count towards the five failures that pause an automation."""
    automation = await shop.set_up("hide-out-of-stock-products", {}, {"cadence": "daily", "run_at": "23:00"})
    await shop.tamper("UPDATE schedules SET consecutive_failures = 4 WHERE org_id = :org")
    run = await shop.run_now(automation)
    await kill_at(shop, "after_start", "after_start", "after_start")
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "interrupted")
    assert "interrupted by the service" in (ended.message or "")
    assert ended.summary is not None
    assert "nothing was compared and nothing was changed" in str(ended.summary["text"])
    after = await shop.read(partial(automations.get, org=shop.owner.org, automation=automation.id))
    assert (after.state, after.consecutive_failures) == (AutomationState.ACTIVE, 4)
    for since, many in ((ended.finished_at, 1), (shop.clock.now() + timedelta(seconds=1), 0)):
        assert since is not None
        load = partial(health.interrupted_runs, org=shop.owner.org, since=since)
        assert await shop.read(load) == many  # what `steward doctor` asks
    assert shop.service.worker_context.metrics.value("steward_runs_interrupted_total") == 1


async def test_losses_more_than_an_hour_apart_restart_the_count(shop: Shop) -> None:
    """Losses within an hour count together; a millisecond over, counting starts again."""
    run = await shop.run_now(await shop.hiding())
    attempts = []
    for seconds in (0, 3600, 3600.001, 3600):
        shop.clock.tick(seconds)
        hired = await shop.registered_worker()
        await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
        leased = await shop.read(partial(workers.runs_of, worker=hired.id))
        assert await shop.write(partial(recover.release, worker=hired.id, leased_runs=leased, lost=True)) == 1
        attempts.append((await run_state(shop, run)).attempt)
    assert attempts == [2, 3, 2, 3]


async def test_a_run_that_is_handed_back_uses_up_no_attempt(shop: Shop) -> None:
    """A released run uses up no attempt and does not extend the hour in which losses count."""
    run = await shop.run_now(await shop.hiding())
    attempts = []
    for lost in (True, False, True):
        hired = await shop.registered_worker()
        await claim.claim(shop.engine, shop.clock.now(), hired.id, free=1, full=[])
        leased = await shop.read(partial(workers.runs_of, worker=hired.id))
        await shop.write(partial(recover.release, worker=hired.id, leased_runs=leased, lost=lost))
        attempts.append((await run_state(shop, run)).attempt)
        shop.clock.tick(1801)
    assert attempts == [2, 2, 2]
