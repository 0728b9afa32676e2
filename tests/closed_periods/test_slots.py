"""Tests slots in closed periods: one record each, the calendar, moves, and runs that a person lets through.

See docs/design/closed-periods.md#slots.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest

from steward.closed_periods import bounds
from steward.closed_periods.effect import PeriodEffect, effect_of
from steward.database.closed_periods import records
from steward.database.engine.base import Tx
from steward.model.account import CreatedVia
from steward.model.automation import Automation
from steward.model.closed_period import ClosedKind, ClosedScope, ClosedScopeKind, Stops
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.model.json import JsonObject
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import ValidationFailed, WrongState
from steward.occurrences import closings
from steward.scheduling.zones import instant_of
from tests.automations.world import DAILY, HOURLY, World
from tests.closed_periods.edit_periods import WHOLE, PeriodEditor
from tests.occurrences.calendar_edits import LATER, CalendarClient, utc

PENDING, QUEUED, SKIPPED = OccurrenceState.PENDING, OccurrenceState.QUEUED, OccurrenceState.SKIPPED
FIRST, SECOND, THIRD = utc("05-01 08:00"), utc("05-02 08:00"), utc("05-03 08:00")
DAY = timedelta(days=1)


@pytest.fixture
def diary(world: World) -> CalendarClient:
    """Provides the calendar of the web app."""
    return CalendarClient(world)


async def daily(world: World) -> Automation:
    """Creates a daily automation whose slots are at 08:00 UTC."""
    return await world.create(timezone="UTC")


async def followed(world: World) -> None:
    """Updates the next runs after a change of periods."""
    while await world.write(partial(closings.follow_changes, org=world.org)):
        pass


async def test_a_slot_in_a_closed_period_is_left_out_and_recorded(world: World, closer: PeriodEditor) -> None:
    """Records the slot once as skipped by the merchant with the period's name; the next day runs (B1)."""
    automation = await daily(world)
    await closer.close("05-01T00:00", "05-02T00:00")
    await followed(world)
    assert (await world.read(automation)).next_run_at == SECOND
    for instant in (FIRST, SECOND):
        await world.clock.advance_to(instant)
        await world.dispatch()
    closed, started = await world.rows(automation)
    assert (closed.state, closed.reason, closed.closed_name) == (SKIPPED, SkipReason.BY_MERCHANT, "Christmas")
    assert (closed.run_id, closed.version, closed.is_skipped_by_person) == (None, 0, False)
    assert (started.state, started.closed_name) == (QUEUED, None)
    assert (await world.read(automation)).next_run_at == THIRD


async def test_a_closed_slot_is_not_late(world: World, closer: PeriodEditor) -> None:
    """Records a slot of the period as skipped by it, not as too late, after the dispatcher stood still."""
    automation = await daily(world)
    await closer.close("05-01T00:00", "05-02T00:00")
    await world.clock.advance_to(FIRST + timedelta(hours=30))
    await world.dispatch()
    first, second = await world.rows(automation)
    assert (first.reason, second.reason) == (SkipReason.BY_MERCHANT, SkipReason.TOO_LATE)


async def test_a_period_touches_no_slot_whose_time_has_come(world: World, closer: PeriodEditor) -> None:
    """Starts the slot that was due before the period was made (B3)."""
    automation = await daily(world)
    await world.clock.advance_to(FIRST + timedelta(seconds=2))
    await closer.close("05-01T00:00", "05-03T00:00")
    await world.clock.advance(1)
    await world.dispatch()
    [row] = await world.rows(automation)
    assert row.state is QUEUED


async def test_ending_a_period_opens_no_slot_whose_time_has_come(world: World, closer: PeriodEditor) -> None:
    """Judges a slot by the version of the period that was valid at its time (B3)."""
    automation = await daily(world)
    period = await closer.close("05-01T00:00", "05-03T00:00")
    await world.clock.advance_to(FIRST + timedelta(seconds=2))
    await closer.end(period)
    await world.clock.advance_to(SECOND)
    await world.dispatch()
    first, second = await world.rows(automation)
    assert (first.closed_name, second.closed_name) == ("Christmas", None)


async def test_the_fast_path_starts_no_slot_that_a_period_leaves_out(
    world: World, closer: PeriodEditor
) -> None:
    """Records each of several due slots of a closed store as skipped when they are dispatched together."""
    store = (await daily(world)).integration_id
    assert store is not None
    closed = [await daily(world) for _ in range(3)]
    await closer.close("05-01T00:00", "05-02T00:00", scope=ClosedScope(ClosedScopeKind.STORE, store))
    await world.clock.advance_to(FIRST)
    await world.dispatch()
    for automation in closed:
        [row] = await world.rows(automation)
        assert row.closed_name == "Christmas"


async def test_automations_of_one_schedule_share_the_search_of_their_next_run(
    world: World, closer: PeriodEditor
) -> None:
    """Searches once for five automations of one schedule that never run again."""
    [first, *others] = [await daily(world) for _ in range(6)]
    own = ClosedScope(ClosedScopeKind.AUTOMATION, automation=first.id)
    mornings: JsonObject = {"days": [1, 2, 3, 4, 5, 6, 7], "from": "07:00", "to": "09:00"}

    async def decide(instant: datetime) -> int:
        await followed(world)
        await world.clock.advance_to(instant)
        before = instant_of.cache_info()
        await world.dispatch()
        after = instant_of.cache_info()
        return after.hits + after.misses - before.hits - before.misses

    await closer.make(ClosedKind.WEEKLY, mornings, scope=own)
    alone = await decide(FIRST)
    await closer.make(ClosedKind.WEEKLY, mornings, scope=WHOLE)
    together = await decide(SECOND)
    assert [(await world.read(automation)).next_run_at for automation in (first, *others)] == [None] * 6
    assert 2_000 < alone < together < 3 * alone


async def test_a_period_of_one_automation_leaves_others_alone(world: World, closer: PeriodEditor) -> None:
    """Skips the slots of that automation, and starts those of another one."""
    closed, open_one = await daily(world), await daily(world)
    scope = ClosedScope(ClosedScopeKind.AUTOMATION, automation=closed.id)
    await closer.close("05-01T00:00", "05-02T00:00", scope=scope)
    await world.clock.advance_to(FIRST)
    await world.dispatch()
    assert [row.state for row in await world.rows(closed)] == [SKIPPED]
    assert [row.state for row in await world.rows(open_one)] == [QUEUED]


async def test_a_period_that_stops_changes_lets_slots_start(world: World, closer: PeriodEditor) -> None:
    """Starts slots in a period that stops changes, because only writes wait."""
    automation = await daily(world)
    await closer.close("05-01T00:00", "05-02T00:00", stops=Stops.CHANGES)
    await world.clock.advance_to(FIRST)
    await world.dispatch()
    assert [row.state for row in await world.rows(automation)] == [QUEUED]


async def test_the_calendar_shows_coming_closed_runs_as_skipped(
    world: World, diary: CalendarClient, closer: PeriodEditor
) -> None:
    """Shows coming slots as skipped with the period's id and name.

    Filters count them, and past ones keep the name.
    """
    automation = await daily(world)
    period = (await closer.close("05-01T00:00", "05-02T00:00")).period
    first, second = (await diary.rows(automation, limit=2))[:2]
    assert (first.state, first.reason, first.version) == (SKIPPED, SkipReason.BY_MERCHANT, 0)
    assert (first.closed_id, first.closed_name, first.is_projected) == (period.id, "Christmas", False)
    assert (second.state, second.closed_name) == (PENDING, None)
    assert [row.slot_at for row in await diary.rows(automation, states=[SKIPPED])] == [FIRST]
    assert (await diary.rows(automation, states=[PENDING], limit=1))[0].slot_at == SECOND
    await world.clock.advance_to(SECOND)
    await world.dispatch()
    row = await diary.row(automation, FIRST)
    assert (row.closed_id, row.closed_name) == (None, "Christmas")


async def test_pages_of_a_closed_calendar_hold_every_row_once(
    world: World, diary: CalendarClient, closer: PeriodEditor
) -> None:
    """Returns each row once over filtered pages, however many rows the period skips."""
    automation = await world.create(timezone="UTC", schedule=HOURLY)
    await closer.close("05-01T09:00", "05-02T09:00")
    whole = await diary.rows(automation, states=[SKIPPED], limit=500)
    assert len(whole) == 24
    paged, after = [], None
    while True:
        page = await diary.page(
            automation=automation.id, states=[SKIPPED], limit=7, after=after,
            since=world.now, until=world.now + 14 * DAY,
        )  # fmt: skip
        paged += page.rows
        if not page.has_more:
            break
        last = page.rows[-1]
        after = (last.run_at, last.slot_at, last.automation_id)
    assert [row.slot_at for row in paged] == [row.slot_at for row in whole]


async def test_a_person_lets_a_closed_run_through(
    world: World, diary: CalendarClient, closer: PeriodEditor
) -> None:
    """Starts the slot in the period with an exempt run; skipping it again ends the exemption."""
    automation = await daily(world)
    await closer.close("05-01T00:00", "05-03T00:00")
    through = await diary.unskip(automation, FIRST, version=0, actor=closer.actor)
    assert (through.occurrence.state, through.occurrence.version) == (PENDING, 1)
    assert through.automation.next_run_at == FIRST
    await diary.unskip(automation, SECOND, version=0, actor=closer.actor)
    skipped = await diary.skip(automation, SECOND, version=1, actor=closer.actor)
    assert skipped.occurrence.state is SKIPPED
    for instant in (FIRST, SECOND):
        await world.clock.advance_to(instant)
        await world.dispatch()
    first, second = await world.rows(automation)
    assert (first.state, second.state, second.exempt) == (QUEUED, SKIPPED, False)
    [run] = await world.runs(automation)

    async def exempt(tx: Tx) -> bool:
        row = await tx.first("SELECT exempt FROM runs WHERE id = :run", {"run": run.id})
        return row is not None and bool(row["exempt"])

    assert await world.write(exempt)


async def test_a_token_lets_nothing_through(
    world: World, diary: CalendarClient, closer: PeriodEditor
) -> None:
    """Refuses to let a slot through with an API token."""
    automation = await daily(world)
    await closer.close("05-01T00:00", "05-03T00:00")
    token = replace(closer.actor, via=CreatedVia.API_TOKEN)
    with pytest.raises(WrongState, match="closed period Christmas"):
        await diary.unskip(automation, FIRST, version=0, actor=token)


async def test_a_run_is_not_moved_into_a_closed_period(
    world: World, diary: CalendarClient, closer: PeriodEditor
) -> None:
    """Refuses to move one run, or it and all later ones, into a period that stops runs.

    A period that stops changes does not matter.
    """
    automation = await daily(world)
    await closer.close("05-01T10:00", "05-01T12:00")
    await closer.close("05-01T12:00", "05-01T13:00", stops=Stops.CHANGES, name="Quiet")
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, FIRST, utc("05-01 11:00"))
    assert "Christmas" in str(refused.value.errors["run_at"]) if refused.value.errors else False
    with pytest.raises(ValidationFailed):
        await diary.move(automation, FIRST, utc("05-01 11:00"), LATER)
    moved = await diary.move(automation, FIRST, utc("05-01 12:30"))
    assert moved.occurrence.run_at == utc("05-01 12:30")


async def test_a_closed_run_is_not_moved(world: World, diary: CalendarClient, closer: PeriodEditor) -> None:
    """Refuses to move a skipped run until a person has let it through."""
    automation = await daily(world)
    await closer.close("05-01T00:00", "05-02T00:00")
    with pytest.raises(WrongState, match="Christmas"):
        await diary.move(automation, FIRST, utc("05-02 09:00"))
    await diary.unskip(automation, FIRST, version=0, actor=closer.actor)
    moved = await diary.move(automation, FIRST, utc("05-02 09:00"), version=1)
    assert moved.occurrence.state is PENDING


async def test_an_overdue_run_of_an_ended_period_is_not_moved(
    world: World, diary: CalendarClient, closer: PeriodEditor
) -> None:
    """Judges a slot that nobody decided in time by the version that was valid then (R16)."""
    automation = await daily(world)
    period = await closer.close("05-01T00:00", "05-02T00:00")
    await world.clock.advance_to(FIRST + timedelta(hours=1))
    await closer.end(period)
    with pytest.raises(WrongState, match="has passed, within the closed period Christmas"):
        await diary.move(automation, FIRST, utc("05-02 09:00"))
    await world.dispatch()
    [row] = await world.rows(automation)
    assert (row.state, row.closed_name) == (SKIPPED, "Christmas")


async def test_a_run_that_was_let_through_is_moved_within_its_closing_alone(
    world: World, diary: CalendarClient, closer: PeriodEditor
) -> None:
    """Moves the run within its closing, but not into another one. At an open time it loses its exemption."""
    automation = await daily(world)
    await closer.close("05-01T00:00", "05-02T00:00")
    await closer.close("05-01T20:00", "05-01T22:00", name="Inventory")
    await closer.close("05-03T00:00", "05-04T00:00", name="Sunday")
    await diary.unskip(automation, FIRST, version=0, actor=closer.actor)
    for refused_at in ("05-01 21:00", "05-03 09:00"):
        with pytest.raises(ValidationFailed) as refused:
            await diary.move(automation, FIRST, utc(refused_at), version=1)
        assert "in the closed period" in str(refused.value.errors)
    await diary.move(automation, FIRST, utc("05-01 12:00"), version=1)
    assert (await diary.row(automation, FIRST)).state is PENDING
    await diary.move(automation, FIRST, utc("05-02 12:00"), version=2)
    assert [row.exempt for row in await world.rows(automation) if row.slot_at == FIRST] == [False]
    await closer.close("05-02T10:00", "05-02T14:00", name="Late")
    assert (await diary.row(automation, FIRST)).closed_name == "Late"


async def test_an_exemption_follows_its_date_to_the_new_schedule(
    world: World, diary: CalendarClient, closer: PeriodEditor
) -> None:
    """Keeps the exemption when the schedule changes and when an earlier run moves with all later ones."""
    automation = await daily(world)
    await closer.close("05-02T00:00", "05-03T00:00")
    await diary.unskip(automation, SECOND, version=0, actor=closer.actor)
    changed = await world.update(automation, schedule={"cadence": "daily", "run_at": "09:00"})
    assert (await diary.row(changed, utc("05-02 09:00"))).state is PENDING
    moved = await diary.move(changed, utc("05-01 09:00"), utc("05-01 10:00"), LATER)
    assert (await diary.row(moved.automation, utc("05-02 10:00"))).state is PENDING


async def test_an_automation_that_is_never_open_has_no_next_run(world: World, closer: PeriodEditor) -> None:
    """Sets no next run while every day is closed at its hour, and sets it when the period ends."""
    automation = await daily(world)
    every_day: list[int] = [1, 2, 3, 4, 5, 6, 7]
    fields = {"days": every_day, "from": "07:00", "to": "09:00"}
    period = await closer.make(ClosedKind.WEEKLY, fields)
    await followed(world)
    assert (await world.read(automation)).next_run_at is None
    assert (await daily(world)).next_run_at is None
    await closer.end(period)
    await followed(world)
    assert (await world.read(automation)).next_run_at == FIRST


async def test_the_effect_names_what_never_runs_again_however_late_it_closes(
    world: World, closer: PeriodEditor
) -> None:
    """Names an automation whose only run, months ahead, is closed as never open."""
    schedule = {"cadence": "once", "date": "2026-12-24", "run_at": "08:00"}
    automation = await world.create(schedule=schedule, timezone="UTC")
    stored = await closer.close("12-24T00:00", "12-27T00:00")

    async def read(tx: Tx) -> PeriodEffect:
        return await effect_of(tx, stored.period)

    effect = await world.engine.read(world.now, read, org=world.owner.org)
    assert (effect.slots_closed, effect.never_open) == (0, (automation.name,))


async def test_the_bound_is_raised_once_a_closing_has_passed(world: World, closer: PeriodEditor) -> None:
    """Raises the bound after a closing has passed to the next one, and removes it when none is coming."""
    await daily(world)
    await closer.close("05-01T00:00", "05-02T00:00")
    later = await closer.close("05-05T00:00", "05-06T00:00", name="Later")

    async def bound(tx: Tx) -> object:
        return await records.closed_from(tx, world.org)

    async def raised() -> object:
        late_limit = world.rules.late_limit
        for org in await world.write(partial(bounds.passed, late_limit=late_limit, after=OrgId(0))):
            await world.write(partial(bounds.raise_bound, org=org, late_limit=late_limit), org)
        return await world.write(bound)

    assert await raised() is not None
    await world.clock.advance_to(utc("05-02 00:14"))
    assert await raised() == utc("05-01 06:00")
    await world.clock.advance_to(utc("05-02 00:16"))
    assert await raised() == utc("05-05 00:00")
    await closer.end(later)
    await world.clock.advance_to(utc("05-06 00:16"))
    assert await raised() is None


async def test_foreign_ids_are_refused(world: World, closer: PeriodEditor) -> None:
    """Refuses an unknown store or automation with an error on its field."""
    for scope, field in (
        (ClosedScope(ClosedScopeKind.STORE, IntegrationId(9_999)), "scope.integration_id"),
        (ClosedScope(ClosedScopeKind.AUTOMATION, automation=AutomationId("0" * 26)), "scope.automation_id"),
    ):
        with pytest.raises(ValidationFailed) as refused:
            await closer.close("05-01T00:00", "05-02T00:00", scope=scope)
        assert set(refused.value.errors or {}) == {field}


async def test_an_organization_has_at_most_two_hundred_periods(world: World, closer: PeriodEditor) -> None:
    """Refuses the 201st period of an organization and the 21st of one automation, until one is ended."""
    scope = ClosedScope(ClosedScopeKind.AUTOMATION, automation=(await daily(world)).id)
    for scopes, limit in ((scope, 20), (WHOLE, 200 - 20)):
        [first, *_] = await closer.close_often(limit, scopes)
        with pytest.raises(ValidationFailed) as refused:
            await closer.close("05-01T00:00", "05-02T00:00", scope=scopes)
        assert set(refused.value.errors or {}) == {"body"}
        await closer.end(first)
        await closer.close("05-01T00:00", "05-02T00:00", scope=scopes)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ClosedKind.ONCE, {"start": "2026-05-03T07:00", "end": "2026-05-05T08:00"}),
        (ClosedKind.WEEKLY, {"days": [3, 7], "from": None, "to": None}),
        (ClosedKind.WEEKLY, {"days": [1, 2, 3, 4, 5, 6, 7], "from": "06:00", "to": "09:00"}),
        (ClosedKind.WEEKLY, {"days": [1, 2, 3, 4, 5, 6, 7], "from": None, "to": None}),
        (ClosedKind.YEARLY, {"first": "05-10", "last": "05-11"}),
    ],
)
async def test_the_effect_counts_the_runs_that_the_calendar_leaves_out(
    world: World, closer: PeriodEditor, kind: ClosedKind, fields: JsonObject
) -> None:
    """Counts the slots of the next 30 days that the calendar shows as closed, of automations alike or not."""
    weekly: JsonObject = {"cadence": "weekly", "run_at": "08:00", "day_of_week": 7}
    monthly: JsonObject = {"cadence": "monthly", "run_at": "00:00", "day_of_month": 10}
    for schedule in ({"cadence": "every_6_hours"}, DAILY, DAILY, weekly, monthly):
        await world.create(schedule=schedule, timezone="UTC")
    stored = await closer.make(kind, fields)

    async def read(tx: Tx) -> PeriodEffect:
        return await effect_of(tx, stored.period)

    effect = await world.engine.read(world.now, read, org=world.owner.org)
    until = world.now + timedelta(days=30)
    rows = await CalendarClient(world).rows(states=[SKIPPED], since=world.now, until=until, limit=500)
    assert effect.slots_closed == len(rows) > 0
