"""Tests the run queue: one live run of an automation at a time, the others in order."""

from functools import partial

from steward.database.runs import transitions
from steward.model.automation import Automation
from steward.model.ids import RunId
from steward.model.run import Mode, Queue, Run, RunStatus
from steward.runs import claim
from tests.runs.shop import Shop, neighbour


async def queue_of(shop: Shop, run: Run) -> Queue:
    """Returns the run's state in the queue."""
    hot = await shop.read(partial(transitions.read_state, org=shop.owner.org, run=run.id))
    assert hot is not None
    return hot.queue


async def live(shop: Shop, automation: Automation) -> list[RunId]:
    """Returns the automation's runs that run or wait for approval."""
    run_ids = []
    for status in (RunStatus.RUNNING, RunStatus.WAITING_APPROVAL):
        ids = partial(transitions.ids_of, org=shop.owner.org, automation=automation.id, status=status)
        run_ids += [run for run, _, _ in await shop.read(ids)]
    return run_ids


async def test_a_second_live_run_waits_for_the_first(shop: Shop) -> None:
    """A second live run of an automation waits for the first. See docs/design/runs.md#run-queue."""
    automation = await shop.hiding(threshold=5)
    first, second = await shop.run_now(automation), await shop.run_now(automation)
    assert (await queue_of(shop, first), await queue_of(shop, second)) == (Queue.READY, Queue.BLOCKED)
    await shop.drain()
    assert (await shop.run(first)).status is RunStatus.WAITING_APPROVAL
    assert (await shop.run(second)).status is RunStatus.QUEUED
    assert await live(shop, automation) == [first.id]


async def test_runs_started_by_hand_come_in_the_order_they_were_asked_for(shop: Shop) -> None:
    """Each end of the active run promotes the oldest blocked one. See docs/design/runs.md#run-queue."""
    automation = await shop.hiding(threshold=5)
    queued = []
    for _ in range(4):
        queued.append(await shop.run_now(automation))
        shop.clock.tick(0.001)
    for number, run in enumerate(queued):
        await shop.drain()
        assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL
        assert [(await shop.run(later)).status for later in queued[number + 1 :]] == [RunStatus.QUEUED] * (
            3 - number
        )
        await shop.reject(run)
    assert {(await shop.run(run)).status for run in queued} == {RunStatus.CANCELLED}


async def test_a_cancelled_run_in_the_queue_is_passed_over(shop: Shop) -> None:
    """A run cancelled in the queue is not promoted.

    See docs/design/runs.md#run-queue and docs/design/runs.md#cancellation.
    """
    automation = await shop.hiding(threshold=5)
    first = await shop.run_now(automation)
    second, third = [await shop.run_now(automation) for _ in range(2)]
    await shop.cancel(second)
    assert (await queue_of(shop, first), await queue_of(shop, third)) == (Queue.READY, Queue.BLOCKED)
    await shop.cancel(first)
    assert await queue_of(shop, third) is Queue.READY
    await shop.drain()
    assert (await shop.run(third)).status is RunStatus.WAITING_APPROVAL


async def test_test_runs_neither_block_nor_are_blocked(shop: Shop) -> None:
    """A test run neither blocks other runs nor is blocked. See docs/design/api/runs.md#states."""
    automation = await shop.hiding(threshold=5)
    held = await shop.waiting(automation)
    trials = [await shop.run_now(automation, Mode.TEST) for _ in range(2)]
    lagging = await shop.run_now(automation)
    assert [await queue_of(shop, run) for run in trials] == [Queue.READY, Queue.READY]
    await shop.drain()
    assert [(await shop.run(run)).status for run in trials] == [RunStatus.SUCCEEDED] * 2
    assert (await shop.run(held)).status is RunStatus.WAITING_APPROVAL
    assert (await shop.run(lagging)).status is RunStatus.QUEUED


async def test_a_live_run_goes_at_once_beside_a_test_run(shop: Shop) -> None:
    """A live run starts immediately while a test run is active. See docs/design/runs.md#run-queue."""
    automation = await shop.hiding(threshold=5)
    await shop.run_now(automation, Mode.TEST)
    real = await shop.run_now(automation)
    assert await queue_of(shop, real) is Queue.READY


async def test_every_end_of_the_holder_lets_the_next_one_go(shop: Shop) -> None:
    """Every way in which the active run ends promotes the next. See docs/design/runs.md#end-of-a-run."""
    automation = await shop.pricing()
    first = await shop.run_now(automation)
    following = [await shop.run_now(automation) for _ in range(2)]
    await shop.drain()
    await shop.approve(first)
    await shop.drain()  # the second finds nothing left to change and ends at once, then the third
    assert {(await shop.run(run)).status for run in (first, *following)} == {RunStatus.SUCCEEDED}


async def test_one_run_of_another_organization_is_not_behind_many(shop: Shop) -> None:
    """Claims alternate between organizations, so a single run does not wait behind many of another.

    See docs/design/runs.md#fairness.
    """
    other = await neighbour(shop)
    many = [await shop.set_up("hide-out-of-stock-products", {"threshold": 5}) for _ in range(30)]
    for automation in many:
        await shop.run_now(automation)
    hired = await shop.registered_worker()
    first = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=3, full=[])
    assert {lease.org for lease in first} == {shop.owner.org}
    theirs = await other.run_now(await other.hiding(threshold=5))
    following = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=3, full=[])
    assert theirs.id in [lease.run for lease in following]


async def test_a_full_organization_is_left_out(shop: Shop) -> None:
    """An organization at STEWARD_ORGANIZATION_CONCURRENCY is left out of the claim.

    See docs/design/runs.md#claim.
    """
    other = await neighbour(shop)
    await shop.run_now(await shop.hiding())
    theirs = await other.run_now(await other.hiding())
    hired = await shop.registered_worker()
    claimed = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=20, full=[shop.owner.org])
    assert [lease.run for lease in claimed] == [theirs.id]
    full = partial(transitions.full_organizations, cap=1)
    assert await shop.engine.read(shop.clock.now(), full) == [other.owner.org]
