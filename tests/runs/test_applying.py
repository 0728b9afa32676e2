"""Tests every way a write can go wrong: what the run does then and what it reports.

See docs/design/writes.md#two-tables.
"""

import asyncio
from collections import Counter
from typing import Any

import pytest

from steward import periodic_tasks, worker
from steward.database.runs.changes import STILL_OPEN
from steward.database.runs.write_ledger import LedgerState
from steward.model.change import Change, Outcome
from steward.model.connection import ConnectionState
from steward.model.run import Run, RunStatus
from tests.runs.shop import Shop

BATCH = "**/batch"


def counts_of(run: Run) -> dict[str, int]:
    """Returns the non-zero counts of the run's summary."""
    assert run.summary is not None
    counts: Any = run.summary["counts"]
    return {name: number for name, number in counts.items() if number}


async def approved(shop: Shop) -> tuple[Run, list[Change]]:
    """Returns a price run with 10 approved changes that are not yet applied, and the changes."""
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    return run, await shop.changes(run)


def once_each(shop: Shop) -> None:
    """Asserts that no two applied writes share an idempotency key or set the same fields of an object.

    See docs/design/fake-platforms.md#control.
    """
    keys = Counter(entry["idempotency_key"] for entry in shop.applied())
    assert [key for key, times in keys.items() if times > 1] == []
    touched = Counter(
        (item["type"], item["id"], tuple(item["fields"]))
        for entry in shop.applied()
        for item in entry["objects"]
    )
    assert [item for item, times in touched.items() if times > 1] == []


def product_of(shop: Shop, change: Change) -> Any:
    """Returns the fake shop's row of the product or variation that a change is about."""
    number = int(change.proposal.parts[0].target.rpartition("/")[2])
    rows = [*shop.world.state.shop.products.values(), *shop.world.state.shop.variations.values()]
    [row] = [row for row in rows if row["id"] == number]
    return row


async def test_a_value_changed_meanwhile_is_a_conflict(shop: Shop) -> None:
    """A change whose object has neither the old nor the new value is a conflict and is not written.

    See docs/design/security.md#promises.
    """
    run, changes = await approved(shop)
    product_of(shop, changes[1])["regular_price"] = "77.70"
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.SUCCEEDED, None)
    outcomes = [change.outcome for change in await shop.changes(run)]
    assert outcomes == [Outcome.APPLIED, Outcome.CONFLICT] + [Outcome.APPLIED] * 8
    assert product_of(shop, changes[1])["regular_price"] == "77.70"
    assert counts_of(ended)["conflicts"] == 1
    once_each(shop)


async def test_a_value_that_is_already_set_is_not_written(shop: Shop) -> None:
    """A change whose object already has the new value is `unchanged` and causes no write.

    See docs/design/writes.md#protocol-of-one-write.
    """
    run, changes = await approved(shop)
    after: Any = changes[0].proposal.parts[0].after
    product_of(shop, changes[0])["regular_price"] = after["regular_price"]
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert (await shop.changes(run))[0].outcome is Outcome.UNCHANGED
    assert len(shop.applied()) == 3
    assert len(await shop.ledger(run)) == 9


async def test_a_run_whose_changes_all_conflict_has_failed(shop: Shop) -> None:
    """A run in which every change conflicts fails with `all_conflicted` and writes nothing.

    See docs/design/api/runs.md#states.
    """
    run, changes = await approved(shop)
    for change in changes:
        product_of(shop, change)["regular_price"] = "1.23"
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "all_conflicted")
    assert (ended.message or "").startswith(f"All {len(changes)} had been changed by somebody else")
    assert {each_change.outcome for each_change in await shop.changes(run)} == {Outcome.CONFLICT}
    assert shop.writes() == []


async def test_a_run_with_one_change_speaks_of_one_change(shop: Shop) -> None:
    """A run whose only approved change conflicts says so in the singular.

    See docs/design/api/runs.md#states.
    """
    run = await shop.waiting(await shop.pricing())
    change, *others = await shop.changes(run)
    await shop.approve(run, others)
    product_of(shop, change)["regular_price"] = "1.23"
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "all_conflicted")
    message = "The one change was left out: somebody else had changed its object in the meantime."
    assert ended.message == message


async def test_changes_of_deleted_objects_are_conflicts(shop: Shop) -> None:
    """A change to a product that was deleted meanwhile is a conflict; the run succeeds.

    See docs/design/connectors.md#errors.
    """
    run, changes = await approved(shop)
    number = int(changes[1].proposal.parts[0].target)
    del shop.world.state.shop.products[number]
    await shop.drain()
    assert (await shop.changes(run))[1].outcome is Outcome.CONFLICT
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED


async def test_a_write_that_the_shop_refuses_fails(shop: Shop) -> None:
    """A 4xx response marks the write as refused, and the run fails with `some_changes_failed`.

    See docs/design/writes.md#protocol-of-one-write and docs/design/api/runs.md#states.
    """
    run, _ = await approved(shop)
    refusal = {"code": "woocommerce_rest_invalid", "message": "No.", "data": {"status": 400}}
    shop.fault("status", "POST", BATCH, status=400, body=refusal)
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed")
    outcomes = Counter(change.outcome for change in await shop.changes(run))
    assert outcomes == {Outcome.FAILED: 1, Outcome.APPLIED: 9}
    assert {entry.state for entry in await shop.ledger(run)} == {LedgerState.REFUSED, LedgerState.DONE}


async def test_a_short_wait_is_waited_for_in_hand(shop: Shop) -> None:
    """A wait of at most 2 s after a 429 is spent in memory; the throttled call counts as not sent.

    See docs/design/runs.md#claim and docs/design/writes.md#protocol-of-one-write.
    """
    run, _ = await approved(shop)
    shop.fault("throttle", "POST", BATCH, retry_after=2)
    began = shop.clock.now()
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert 2 <= (shop.clock.now() - began).total_seconds() < 30
    assert len(shop.writes()) == len(shop.applied()) + 1
    assert max(entry.attempt for entry in await shop.ledger(run)) == 2
    once_each(shop)


async def test_a_long_wait_sleeps_the_run_and_holds_its_lane(shop: Shop) -> None:
    """A wait of over 2 s puts the run to sleep, and the next run of the automation stays queued.

    See docs/design/runs.md#claim and docs/design/writes.md#protocol-of-one-write.
    """
    automation = await shop.pricing()
    run = await shop.waiting(automation)
    lagging = await shop.run_now(automation)
    await shop.approve(run)
    shop.fault("throttle", "POST", BATCH, retry_after=300)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.RUNNING
    await shop.pass_time(seconds=200)
    assert (await shop.run(run)).status is RunStatus.RUNNING
    assert (await shop.run(lagging)).status is RunStatus.QUEUED
    await shop.pass_time(seconds=101)
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert (await shop.run(lagging)).status is RunStatus.SUCCEEDED
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}
    once_each(shop)


async def test_a_shop_that_never_has_time_is_asked_five_times(shop: Shop) -> None:
    """A write that is throttled every time is tried five times, then fails.

    See docs/design/writes.md#protocol-of-one-write.
    """
    run, _ = await approved(shop)
    shop.fault("throttle", "POST", BATCH, retry_after=300, count=-1)
    ended = await shop.until_settled(run, minutes=240)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed")
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.FAILED}
    assert {(entry.state, entry.attempt) for entry in await shop.ledger(run)} == {(LedgerState.NOT_SENT, 5)}
    assert shop.applied() == []


async def test_a_key_that_no_longer_opens_is_not_tried_for_each_object(shop: Shop) -> None:
    """One 401 to the page that reads all objects again fails them all; nothing more is sent."""
    run, _ = await approved(shop)
    refusal = {"code": "woocommerce_rest_cannot_view", "message": "No.", "data": {"status": 401}}
    for path in ("**/products", "**/variations"):
        shop.fault("status", "GET", path, status=401, body=refusal, count=-1)
    before = shop.world.state.ledger.last_seq
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed")
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.FAILED}
    paths = [entry.request.path for entry in shop.world.state.ledger.entries(before, reads=True)]
    assert len([path for path in paths if path.endswith(("/products", "/variations"))]) == 1
    assert shop.writes() == []


async def test_a_shop_that_stays_away_is_not_waited_for_with_each_object(shop: Shop) -> None:
    """After at most six failed reads of shrinking pages all other changes fail without a call."""
    run, _ = await approved(shop)
    for path in ("**/products", "**/variations"):
        shop.fault("status", "GET", path, status=503, count=-1)
    before = shop.world.state.ledger.last_seq
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed")
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.FAILED}
    requests = [entry.request for entry in shop.world.state.ledger.entries(before, reads=True)]
    pages = {str(request) for request in requests if request.path.endswith(("/products", "/variations"))}
    assert len(pages) <= 6, pages
    assert shop.writes() == []


@pytest.mark.parametrize("kind", ["status", "status_after", "drop_before", "drop_after"])
async def test_a_lost_response_is_found_out_and_never_written_twice(shop: Shop, kind: str) -> None:
    """A write without a response is read back after the quiet time and sent again only if it had no effect.

    See docs/design/writes.md#idempotency-classes and docs/design/security.md#promises.
    """
    run, [proposed, *_] = await approved(shop)
    assert proposed.message
    shop.fault(kind, "POST", BATCH, **({"status": 500} if kind.startswith("status") else {}))
    await shop.drain()
    waits = await shop.run(run)
    assert waits.status is RunStatus.RUNNING
    [lost, *_] = await shop.changes(run)
    assert (lost.outcome, lost.message) == (Outcome.UNKNOWN, f"{proposed.message} {STILL_OPEN}")
    before = len(shop.writes())
    await shop.pass_time(seconds=60)  # the quiet time is not over: a call may be in flight
    assert len(shop.writes()) == before

    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.SUCCEEDED, None)
    settled = (await shop.changes(run))[0]
    assert settled.outcome is Outcome.APPLIED
    assert settled.message == proposed.message
    assert settled.applied_at is not None
    was_applied = kind.endswith("after")
    assert len(shop.writes()) == before + (0 if was_applied else 1)
    once_each(shop)
    assert counts_of(ended)["applied"] == 10
    assert {entry.state for entry in await shop.ledger(run)} == {LedgerState.DONE}


async def test_every_response_lost_still_writes_everything_once(shop: Shop) -> None:
    """Every change is applied exactly once even if the response to every write is lost."""
    run, _ = await approved(shop)
    shop.fault("drop_after", "POST", BATCH, count=-1)
    ended = await shop.until_settled(run, minutes=120)
    assert ended.status is RunStatus.SUCCEEDED
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}
    once_each(shop)


async def test_a_product_is_marked_and_hidden_although_each_response_is_lost(shop: Shop) -> None:
    """Parts of a change are settled one by one, and a part follows only a part that succeeded.

    See docs/design/writes.md#two-tables.
    """
    run = await shop.waiting(await shop.hiding(threshold=5))
    await shop.approve(run)
    shop.fault("drop_after", "POST", "**", count=-1)
    shop.fault("drop_after", "PUT", "**", count=-1)
    ended = await shop.until_settled(run, minutes=120)
    assert (ended.status, ended.message) == (RunStatus.SUCCEEDED, None)
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}
    assert len(await shop.remembered(run, "visibility")) == len(await shop.changes(run))
    once_each(shop)
    # The tag, both parts of the product that has it made, and one request for each part of the others.
    assert len(shop.applied()) == 1 + 2 + 2


async def test_an_unknown_write_with_a_foreign_value_is_a_conflict(shop: Shop) -> None:
    """An unknown write whose object then has another value is a conflict; that value stays.

    See docs/design/writes.md#idempotency-classes.
    """
    run, changes = await approved(shop)
    shop.fault("drop_before", "POST", BATCH)
    await shop.drain()
    product_of(shop, changes[0])["regular_price"] = "66.60"
    await shop.until_settled(run)
    first = (await shop.changes(run))[0]
    assert first.outcome is Outcome.CONFLICT
    assert first.message == f"{changes[0].message} It has another value now."
    assert product_of(shop, changes[0])["regular_price"] == "66.60"


@pytest.mark.parametrize("fault", ["drop_before", "drop_after", 302, 408, 425, 502])
async def test_a_message_that_may_have_arrived_stays_unknown_and_is_not_repeated(
    shop: Shop, fault: str | int
) -> None:
    """A message stays unknown without a response, or with one (a status) that neither accepts nor refuses it.

    It is not repeated, and the run fails and says that a message may have been sent.

    See docs/design/writes.md#idempotency-classes and docs/design/api/runs.md#states.
    """
    if isinstance(fault, int):
        shop.fault("status", "POST", "/teams/**", status=fault)
    else:
        shop.fault(fault, "POST", "/teams/**")
    run = await shop.run_and_drain(await shop.alerting())
    ended = await shop.until_settled(run)
    assert ended.summary is not None
    assert "A message may have been sent to Teams" in str(ended.summary["text"])
    assert (ended.status, ended.code) == (RunStatus.FAILED, "outcome_unknown")
    assert [change.outcome for change in await shop.changes(run)] == [Outcome.UNKNOWN]
    assert counts_of(ended)["unknown"] == 1
    assert await shop.remembered(run, "told") == {}
    await shop.pass_time(days=2)
    assert len([entry for entry in shop.writes() if entry["service"] == "teams"]) == 1


async def test_a_message_that_was_refused_has_failed(shop: Shop) -> None:
    """A 4xx response of the channel fails the message and the run."""
    shop.fault("status", "POST", "/teams/**", status=400)
    ended = await shop.run_and_drain(await shop.alerting())
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed")
    assert [change.outcome for change in await shop.changes(ended)] == [Outcome.FAILED]


async def test_a_message_that_could_not_be_handed_over_yet_goes_later_once(shop: Shop) -> None:
    """A message answered with 429 was not sent; it is sent later, once.

    See docs/design/writes.md#protocol-of-one-write.
    """
    shop.fault("throttle", "POST", "/teams/**", retry_after=90)
    run = await shop.run_and_drain(await shop.alerting())
    assert run.status is RunStatus.RUNNING
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED
    assert counts_of(ended)["sent"] == 1
    assert len([entry for entry in shop.applied() if entry["service"] == "teams"]) == 1


async def test_a_store_disconnected_while_it_is_written_to_fails_the_rest(shop: Shop) -> None:
    """The changes left when the store is disconnected fail, each with the reason.

    See docs/design/api/runs.md#states.
    """
    run, _ = await approved(shop)
    shop.fault("throttle", "POST", BATCH, retry_after=2, skip=1)
    hired = await shop.registered_worker()
    going = asyncio.create_task(worker.drain(hired, periodic_tasks.of_worker(hired)))
    await shop.clock.until_sleeping()
    await shop.set_connection_state("woocommerce", ConnectionState.DISCONNECTED)
    await shop.clock.advance(2)
    await going
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed")
    first, *others = await shop.changes(run)
    assert first.outcome is Outcome.APPLIED
    assert {change.outcome for change in others} == {Outcome.FAILED}
    assert all("connected" in (other.message or "") for other in others)
    assert len(shop.applied()) == 1


async def test_a_store_that_is_disconnected_before_the_decision_changes_nothing(shop: Shop) -> None:
    """A run whose store is disconnected before it applies fails, and its changes are cancelled."""
    run, _ = await approved(shop)
    await shop.set_connection_state("woocommerce", ConnectionState.DISCONNECTED)
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "step_failed")
    assert ended.message is not None
    assert "connected" in ended.message
    assert ended.summary is not None
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.CANCELLED}
    assert shop.writes() == []


async def test_no_write_is_sent_without_its_key(shop: Shop) -> None:
    """Every write carries an Idempotency-Key of its own. See docs/design/fake-platforms.md#control."""
    run = await shop.waiting(await shop.hiding(threshold=5))
    await shop.approve(run)
    await shop.drain()
    await shop.run_and_drain(await shop.alerting())
    keys = [entry["idempotency_key"] for entry in shop.writes()]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert set(keys) == {entry.batch_key for entry in await shop.ledger(run)} | set(keys[-1:])
