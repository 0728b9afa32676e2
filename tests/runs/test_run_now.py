"""Tests starting a run by hand: one run per key, and every reason to refuse.

See docs/design/api/conventions.md#operations and docs/design/api/runs.md#requests.
"""

import asyncio
from dataclasses import replace
from functools import partial

import asyncpg
import pytest

from steward.automations import lifecycle
from steward.automations.pauses import StateCommand
from steward.database.accounts import idempotency
from steward.database.engine.base import Tx
from steward.database.runs import active_run
from steward.model.connection import ConnectionState
from steward.model.ids import OrgId
from steward.model.refusals import KeyReused, NotConnected, NotFound, TooManyWaiting, WrongState
from steward.model.run import Mode, RunStatus, StartedBy
from steward.runs import claim
from steward.runs.start import StartedRun
from tests.occurrences.interleaving import BLOCKED
from tests.runs.shop import Shop, neighbour


async def test_a_new_key_makes_a_queued_run_of_the_person(shop: Shop) -> None:
    """A new key starts a queued run in the name of the person.

    See docs/design/api/runs.md#requests and docs/design/api/runs.md#run.
    """
    automation = await shop.hiding()
    started = await shop.started(automation, key="first")
    assert not started.replayed
    run = started.run
    assert (run.status, run.started_by, run.idempotency_key) == (RunStatus.QUEUED, StartedBy.HAND, "first")
    assert run.maker.created_by == shop.owner.person
    assert (run.started_at, run.summary, run.approval_id, run.last_seq) == (None, None, None, 0)


async def test_a_known_key_returns_its_run_as_it_now_is(shop: Shop) -> None:
    """A repeated key answers its run as it is now, whatever state the automation is in.

    See docs/design/api/runs.md#requests.
    """
    automation = await shop.hiding(threshold=5)
    first = await shop.started(automation, key="same")
    await shop.drain()
    archive = partial(
        lifecycle.archive,
        actor=shop.owner,
        command=StateCommand(automation.id),
        rules=shop.service.worker_context.automation_rules,
    )
    await shop.write(archive)
    again = await shop.started(automation, key="same")
    assert (again.replayed, again.run.id) == (True, first.run.id)
    assert (again.run.status, again.run.code) == (RunStatus.CANCELLED, "archived")
    with pytest.raises(WrongState):
        await shop.started(automation, key="new")


async def test_the_mode_of_a_replay_is_that_of_the_first_request(shop: Shop) -> None:
    """A replay keeps the mode of the first request. See docs/design/api/runs.md#requests."""
    automation = await shop.hiding()
    await shop.started(automation, Mode.TEST, key="same")
    again = await shop.started(automation, Mode.LIVE, key="same")
    assert (again.replayed, again.run.mode) == (True, Mode.TEST)


async def test_a_key_of_another_automation_is_refused(shop: Shop) -> None:
    """A key already used for another automation answers 422 `key_reused`.

    See docs/design/api/runs.md#requests.
    """
    automation, other = await shop.hiding(), await shop.alerting()
    await shop.started(automation, key="same")
    with pytest.raises(KeyReused) as refused:
        await shop.started(other, key="same")
    assert set(refused.value.errors or {}) == {"idempotency_key"}


async def test_an_automation_of_another_organization_is_not_found(shop: Shop) -> None:
    """An automation of another organization answers not_found.

    See docs/design/api/conventions.md#order-of-refusals.
    """
    automation = await shop.hiding()
    stranger = replace(shop.owner, org=OrgId(shop.owner.org + 1))
    with pytest.raises(NotFound):
        await shop.started(automation, actor=stranger)


async def test_a_store_that_is_not_connected_starts_nothing(shop: Shop) -> None:
    """An automation whose store is not connected answers 422 `not_connected`; the key stays unused.

    See docs/design/api/runs.md#requests.
    """
    automation = await shop.hiding()
    await shop.set_connection_state("woocommerce", ConnectionState.NEEDS_RECONNECTING)
    with pytest.raises(NotConnected):
        await shop.started(automation, key="kept free")
    await shop.set_connection_state("woocommerce", ConnectionState.CONNECTED)
    assert not (await shop.started(automation, key="kept free")).replayed


async def test_as_many_runs_may_wait_as_the_limit_says_and_no_more(shop: Shop) -> None:
    """At the limit of waiting runs, test runs included, the next is refused; its key stays unused.

    See docs/design/api/runs.md#requests.
    """
    automation = await shop.hiding(threshold=5)
    await shop.waiting(automation)
    await shop.started(automation, Mode.TEST, max_waiting=3)
    last = await shop.started(automation, key="third", max_waiting=3)
    with pytest.raises(TooManyWaiting):
        await shop.started(automation, key="fourth", max_waiting=3)
    with pytest.raises(TooManyWaiting):
        await shop.started(automation, Mode.TEST, key="fifth", max_waiting=3)
    find = partial(idempotency.find, org=shop.owner.org, kind="run", key="fourth")
    assert await shop.read(find) is None
    waiting = partial(active_run.waiting, org=shop.owner.org, automation=automation.id, limit=10)
    assert await shop.read(waiting) == 3
    await shop.cancel(last.run)
    assert not (await shop.started(automation, key="fourth", max_waiting=3)).replayed


async def test_a_replay_at_the_limit_is_a_replay(shop: Shop) -> None:
    """A replay answers its run even at the limit, also for simultaneous requests.

    See docs/design/api/conventions.md#order-of-refusals.
    """
    automation = await shop.hiding()
    starts = [shop.started(automation, key="one", max_waiting=1) for _ in range(5)]
    results = await asyncio.gather(*starts)
    assert sorted(result.replayed for result in results) == [False, True, True, True, True]
    assert len({result.run.id for result in results}) == 1


async def test_a_thousand_at_once_with_one_key_make_one_run(shop: Shop) -> None:
    """A thousand simultaneous requests with one key start one run, and one answers 201.

    See docs/guides/contributors.md#tests.
    """
    automation = await shop.hiding()
    results: list[StartedRun] = await asyncio.gather(
        *(shop.started(automation, key="the one") for _ in range(1000))
    )
    assert sum(not result.replayed for result in results) == 1
    assert len({result.run.id for result in results}) == 1
    waiting = partial(active_run.waiting, org=shop.owner.org, automation=automation.id, limit=1000)
    assert await shop.read(waiting) == 1


async def test_runs_made_at_once_are_each_judged_by_themselves(shop: Shop) -> None:
    """Each request of a batch is accepted or refused as if it were the only one.

    See docs/design/storage.md#group-commit and docs/design/runs.md#run-queue.
    """
    automation, other, archived = [await shop.hiding() for _ in range(3)]
    archive = partial(
        lifecycle.archive,
        actor=shop.owner,
        command=StateCommand(archived.id),
        rules=shop.service.worker_context.automation_rules,
    )
    await shop.write(archive)
    stranger = (await neighbour(shop)).owner
    requests = [
        shop.started(automation, key="first"),
        shop.started(automation, key="second"),
        shop.started(automation, Mode.TEST, key="test"),
        shop.started(automation, key="third"),
        shop.started(other, key="other"),
        shop.started(other, key="first"),
        shop.started(archived, key="archived"),
        shop.started(other, key="of a stranger", actor=stranger),
        shop.started(automation, key="second"),
    ]
    results = await asyncio.gather(*requests, return_exceptions=True)
    runs = [result for result in results if isinstance(result, StartedRun)]
    refused = [type(result) for result in results if not isinstance(result, StartedRun)]
    assert refused == [KeyReused, WrongState, NotFound]
    assert [result.replayed for result in runs] == [False] * 5 + [True]
    assert runs[5].run.id == runs[1].run.id
    if shop.engine.dialect == "postgresql":  # where all but the first share a call, and so their instant
        shared = [result.run.id for result in runs[1:5]]
        assert shared == sorted(shared)  # what waits starts in the order it was asked for
    hired = await shop.registered_worker()
    claimed = await claim.claim(shop.engine, shop.clock.now(), hired.id, free=9, full=[])
    ready = {result.run.id for result in runs[:1] + runs[2:3] + runs[4:5]}
    assert {lease.run for lease in claimed} == ready
    for result in runs[:5]:  # the run that was returned is the stored one
        assert await shop.run(result.run) == result.run


async def test_a_run_waits_little_for_one_whose_lane_is_locked(shop: Shop, database_url: str) -> None:
    """A second batch starts while the first waits for a lock of another transaction.

    See docs/design/storage.md#group-commit.
    """
    if shop.engine.dialect == "sqlite":
        pytest.skip("SQLite has one writer, and no rows to lock")
    locked, other = await shop.hiding(), await shop.hiding()
    watcher = await asyncpg.connect(database_url)

    async def hold(tx: Tx) -> asyncio.Task[StartedRun]:
        await active_run.lock(tx, shop.owner.org, [locked.id])
        late = asyncio.create_task(shop.started(locked, key="late"))
        while not await watcher.fetchval(BLOCKED):
            assert not late.done()
        await asyncio.wait_for(shop.started(other, key="soon"), 30)
        assert not late.done()
        return late

    assert not (await (await shop.write(hold))).replayed
    await watcher.close()


async def test_the_limit_holds_for_runs_made_at_once(shop: Shop) -> None:
    """Waiting runs are counted under the automation's lock, so simultaneous requests keep to the limit.

    See docs/design/runs.md#run-queue.
    """
    automation = await shop.hiding()
    requests = [shop.started(automation, key=f"key {n}", max_waiting=4) for n in range(9)]
    results = await asyncio.gather(*requests, return_exceptions=True)
    assert sum(isinstance(result, StartedRun) for result in results) == 4
    assert sum(isinstance(result, TooManyWaiting) for result in results) == 5
    waiting = partial(active_run.waiting, org=shop.owner.org, automation=automation.id, limit=10)
    assert await shop.read(waiting) == 4
