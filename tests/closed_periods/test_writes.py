"""Tests writes in closed periods: nothing is sent, runs wait and continue, and runs without a slot.

See docs/design/closed-periods.md#writing.
"""

import pytest

from steward import periodic_tasks
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.change import Outcome
from steward.model.closed_period import ClosedScope, ClosedScopeKind, Stops
from steward.model.notice import Topic
from steward.model.refusals import InClosedPeriod, ValidationFailed
from steward.model.run import Mode, RunStatus
from steward.notifications.texts import sentence
from tests.closed_periods.edit_periods import PeriodEditor
from tests.notifications.notified_people import join, rows_of, told
from tests.runs.shop import Shop
from tests.runs.undoing import approved, tables, undo_now

DAILY = {"cadence": "daily", "run_at": "08:00"}


async def test_a_freeze_holds_approved_changes_until_it_is_ended(
    shop: Shop, shopkeeper: PeriodEditor
) -> None:
    """Sends nothing during a freeze, names it in the run and in gauges, and writes once it is ended."""
    run = await shop.waiting(await shop.pricing())
    frozen = await shopkeeper.freeze()
    await shop.approve(run)
    await shop.drain()
    held = await shop.run(run)
    assert (held.status, held.held_name, held.held_until) == (RunStatus.RUNNING, frozen.period.name, None)
    metrics = (hired := await shop.registered_worker()).ctx.metrics
    await periodic_tasks.export_gauges(hired)
    gauges = ("steward_runs_held", "steward_frozen_organizations")
    assert [metrics.value(name) for name in gauges] == [1, 1]
    assert shop.writes() == []
    await shop.pass_time(minutes=25)
    assert shop.writes() == []
    await shopkeeper.end(frozen)
    await shop.pass_time(seconds=1)
    ended = await shop.run(run)
    assert (ended.status, ended.held_name) == (RunStatus.SUCCEEDED, None)
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}
    await periodic_tasks.export_gauges(hired)
    assert [metrics.value(name) for name in gauges] == [0, 0]


async def test_approvers_see_that_changes_stop_and_resume(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Notifies owners and approvers of a freeze and of its end, in words that differ, but not members."""
    people = {role: await join(shop, role.value, role) for role in (Role.OWNER, Role.APPROVER, Role.MEMBER)}
    deciders = {people[Role.OWNER].id, people[Role.APPROVER].id}
    await shopkeeper.end(await shopkeeper.freeze())
    store = ClosedScope(ClosedScopeKind.STORE, shop.connections["woocommerce"].integration_id)
    await shopkeeper.end(await shopkeeper.freeze(store))
    name = shop.connections["woocommerce"].name
    assert {sentence(Topic(row["topic"]), row["facts"]) for row in await told(shop)} == {
        "All changes were stopped",
        "Changes were resumed",
        f"Changes to “{name}” were stopped",
        f"Changes to “{name}” were resumed",
    }
    await shop.drain()
    rows = [row for row in await rows_of(shop, "inbox") if row["topic"] == Topic.CHANGES_STOPPED]
    assert {row["person_id"] for row in rows} == deciders
    assert sum(row["count"] for row in rows) == 4 * len(deciders)


async def test_a_second_freeze_of_one_scope_is_the_first(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Returns the first freeze of the same scope; a store is another scope."""
    first = await shopkeeper.freeze()
    assert (await shopkeeper.freeze()).period.id == first.period.id
    store = ClosedScope(ClosedScopeKind.STORE, shop.connections["woocommerce"].integration_id)
    assert (await shopkeeper.freeze(store)).period.id != first.period.id


async def test_writing_stops_five_seconds_before_a_closing_begins(
    shop: Shop, shopkeeper: PeriodEditor
) -> None:
    """Begins no write within 5 s before a closing, because a call may take that long to leave."""
    await shopkeeper.close("05-01T06:10", "05-01T06:20", stops=Stops.CHANGES)
    run = await shop.waiting(await shop.pricing())
    await shop.clock.advance(595 - (shop.clock.now().minute * 60 + shop.clock.now().second))
    await shop.approve(run)
    await shop.drain()
    assert shop.writes() == []
    held = await shop.run(run)
    assert held.held_until is not None
    assert (held.held_until.hour, held.held_until.minute) == (6, 20)
    await shop.pass_time(minutes=6)
    assert shop.writes() == []
    await shop.until_settled(run)
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}


async def test_a_store_that_is_closed_takes_no_writes(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Holds writes to the closed store, whatever automation makes them."""
    run = await shop.waiting(await shop.pricing())
    store = ClosedScope(ClosedScopeKind.STORE, shop.connections["woocommerce"].integration_id)
    await shopkeeper.close("05-01T00:00", "05-02T00:00", stops=Stops.CHANGES, scope=store)
    await shop.approve(run)
    await shop.drain()
    assert shop.writes() == []
    assert (await shop.run(run)).held_name == "Christmas"


async def test_a_message_is_sent_while_changes_are_stopped(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Sends messages to people during a freeze, because they are no changes."""
    await shopkeeper.freeze()
    run = await shop.run_and_drain(await shop.alerting())
    assert run.status is RunStatus.SUCCEEDED
    assert len(shop.writes()) == 1


async def test_a_held_run_can_be_cancelled(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Cancels a held run without writing anything."""
    run = await shop.waiting(await shop.pricing())
    await shopkeeper.freeze()
    await shop.approve(run)
    await shop.drain()
    await shop.cancel(run)
    await shop.drain()
    cancelled = await shop.run(run)
    assert (cancelled.status, cancelled.held_name) == (RunStatus.CANCELLED, None)
    assert shop.writes() == []


async def test_an_undo_is_written_now_although_changes_are_stopped(
    shop: Shop, shopkeeper: PeriodEditor
) -> None:
    """Writes an undo during a freeze when its approver says so.

    Another run may not be written, and an undo approved without it is held.
    """
    before = tables(shop)
    run = await approved(shop, await shop.waiting(await shop.pricing()))
    frozen = await shopkeeper.freeze()
    hiding = await shop.waiting(await shop.hiding())
    with pytest.raises(ValidationFailed) as refused:
        await shop.approve(hiding, write_now=True)
    assert set(refused.value.errors or {}) == {"write_now"}
    await shop.approve(hiding)
    undo_run = (await undo_now(shop, run)).run
    await shop.drain()
    writes = len(shop.writes())
    decided = await shop.approve(await shop.run(undo_run), write_now=True)
    assert decided.approval.write_now
    await shop.drain()
    assert (await shop.run(undo_run)).status is RunStatus.SUCCEEDED
    assert tables(shop) == before
    assert (await shop.run(hiding)).held_name == frozen.period.name
    assert len(shop.writes()) > writes
    redo = (await undo_now(shop, await shop.run(undo_run))).run
    await shop.drain()
    await shop.approve(await shop.run(redo))
    await shop.drain()
    assert (await shop.run(redo)).held_name == frozen.period.name
    assert tables(shop) == before


async def test_a_live_run_by_hand_is_refused_and_a_test_begins(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Names the period in the refusal and leaves the key free; a test run starts."""
    hiding = await shop.hiding()
    period = await shopkeeper.close("05-01T00:00", "05-02T00:00")
    with pytest.raises(InClosedPeriod, match="Christmas stops this automation until 2026-05-02"):
        await shop.started(hiding, key="once")
    tested = await shop.run_and_drain(hiding, Mode.TEST)
    assert tested.status is RunStatus.SUCCEEDED
    await shopkeeper.end(period)
    assert not (await shop.started(hiding, key="once")).replayed


async def test_a_run_queued_before_a_period_waits_for_its_end(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Starts the queued run after the period, without counting the period against its queue limit."""
    run = await shop.run_now(await shop.hiding())
    await shopkeeper.close("05-01T00:00", "05-03T00:00")
    await shop.drain()
    held = await shop.run(run)
    assert (held.status, held.started_at, held.held_name) == (RunStatus.QUEUED, None, "Christmas")
    for _ in range(3):
        await shop.pass_time(hours=13)
        assert (await shop.run(run)).status is RunStatus.QUEUED
    await shop.pass_time(hours=3)
    assert (await shop.until_settled(run)).started_at is not None


async def test_a_slots_run_that_has_not_begun_is_refused(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Refuses the run of a slot that has not begun when the period starts."""
    automation = await shop.set_up("hide-out-of-stock-products", {}, DAILY)
    assert automation.next_run_at is not None
    await shop.registered_worker()
    await shop.clock.advance_to(automation.next_run_at)
    await periodic_tasks.dispatch_due(await shop.registered_worker())  # alone: nothing claims the run yet
    await shopkeeper.close("05-01T00:00", "05-03T00:00")
    await shop.drain()

    async def codes(tx: Tx) -> list[str]:
        rows = await tx.all("SELECT code FROM runs WHERE automation_id = :id", {"id": automation.id})
        return [row["code"] for row in rows]

    assert await shop.read(codes) == ["closed_period"]


async def test_a_gap_between_two_closings_lets_writes_through(shop: Shop, shopkeeper: PeriodEditor) -> None:
    """Writes in the gap between two closings."""
    run = await shop.waiting(await shop.pricing())
    await shopkeeper.close("05-01T06:00", "05-01T07:00", stops=Stops.CHANGES)
    await shopkeeper.close("05-01T07:30", "05-01T09:00", stops=Stops.CHANGES, name="Second")
    await shop.approve(run)
    await shop.drain()
    assert (await shop.run(run)).held_name == "Christmas"
    ended = await shop.until_settled(run, minutes=75)
    assert ended.status is RunStatus.SUCCEEDED
    assert ended.finished_at is not None
    assert (ended.finished_at.hour, ended.finished_at.minute < 30) == (7, True)


@pytest.mark.parametrize("when", ['{"kind": "lunar"}', "{", "[]"])
async def test_nothing_is_written_while_a_period_cannot_be_read(
    shop: Shop, shopkeeper: PeriodEditor, when: str
) -> None:
    """Writes nothing while a period cannot be read, and tries again each minute."""
    run = await shop.waiting(await shop.pricing())
    await shopkeeper.freeze()
    broken = f"UPDATE closed_periods SET when_json = '{when}' WHERE org_id = :org"
    assert await shop.tamper(broken) == 1
    await shop.approve(run)
    await shop.drain()
    await shop.pass_time(minutes=3)
    assert (await shop.run(run)).status is RunStatus.RUNNING
    assert shop.writes() == []
    assert await shop.tamper("DELETE FROM closed_periods WHERE org_id = :org") == 1
    await shop.pass_time(seconds=61)
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}
