"""Tests moving one occurrence: order of refusals, limits and effects.

See docs/design/api/calendar.md#move and docs/design/schedule.md#order-of-checks-of-an-edit.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from steward.database.automations import history
from steward.model.ids import AutomationId, new_id
from steward.model.instants import wire_time
from steward.model.occurrence import OccurrenceState
from steward.model.refusals import NotFound, Refusal, StaleVersion, ValidationFailed, WrongState
from steward.model.run import RunStatus
from tests.automations.world import BY_HAND, HOURLY, ON_ORDERS, World
from tests.occurrences.calendar_edits import (
    DAY,
    HOUR,
    LATER,
    MINUTE,
    SECOND,
    THIS,
    CalendarClient,
    fields,
    short,
    utc,
)

SLOT = utc("05-02 08:00")
INSTANT = timedelta(milliseconds=1)


async def test_a_move_changes_one_row_and_nothing_else(world: World, diary: CalendarClient) -> None:
    """A move sets `moved_from` and raises the version of one row.

    See docs/design/schedule.md#moving-one-run and docs/design/api/calendar.md#states.
    """
    automation = await world.create()
    before = await diary.rows(automation)
    edited = await diary.move(automation, SLOT, utc("05-02 09:30"))
    row = edited.occurrence
    assert (row.slot_at, row.run_at, row.moved_from) == (SLOT, utc("05-02 09:30"), SLOT)
    assert (row.state, row.version, row.is_projected, row.run_id) == (OccurrenceState.PENDING, 1, False, None)
    assert edited.automation == await world.read(automation)
    assert (edited.automation.version, edited.automation.updated_at) == (
        automation.version,
        automation.updated_at,
    )
    after = await diary.rows(automation)
    assert [each_occurrence for each_occurrence in after if each_occurrence.slot_at != SLOT] == [
        occurrence for occurrence in before if occurrence.slot_at != SLOT
    ]
    assert row in after


async def test_a_second_move_keeps_where_the_run_was_just_before(world: World, diary: CalendarClient) -> None:
    """`moved_from` is the time just before; moving back is a move as well.

    See docs/design/schedule.md#moving-one-run.
    """
    automation = await world.create()
    await diary.move(automation, SLOT, SLOT + HOUR)
    again = (await diary.move(automation, SLOT, SLOT + 2 * HOUR, version=1)).occurrence
    assert (again.moved_from, again.version) == (SLOT + HOUR, 2)
    back = (await diary.move(automation, SLOT, SLOT, version=2)).occurrence
    assert (back.run_at, back.moved_from, back.version) == (SLOT, SLOT + 2 * HOUR, 3)


async def test_a_move_to_where_it_is_changes_nothing(world: World, diary: CalendarClient) -> None:
    """A move to the same time changes nothing, also for a projected row.

    See docs/design/schedule.md#moving-one-run.
    """
    automation = await world.create()
    same = (await diary.move(automation, SLOT, SLOT + 999 * INSTANT)).occurrence
    assert (same.version, same.moved_from) == (0, None)
    assert await world.rows(automation) == []
    far = utc("07-20 08:00")
    assert (await diary.move(automation, far, far)).occurrence.is_projected


async def test_the_new_time_is_cut_to_whole_seconds(world: World, diary: CalendarClient) -> None:
    """The new time is cut to whole seconds. See docs/design/schedule.md#moving-one-run."""
    automation = await world.create()
    moved = await diary.move(automation, SLOT, SLOT + HOUR + SECOND + 999 * INSTANT)
    assert moved.occurrence.run_at == SLOT + HOUR + SECOND


async def test_next_run_at_follows_at_once(world: World, diary: CalendarClient) -> None:
    """`next_run_at` is updated in the same transaction. See docs/design/schedule.md#slot-rules."""
    automation = await world.create()
    first = utc("05-01 08:00")
    assert automation.next_run_at == first
    assert (await diary.move(automation, first, first + HOUR)).automation.next_run_at == first + HOUR
    moved = await diary.move(automation, SLOT, first - HOUR)
    assert moved.automation.next_run_at == first - HOUR
    moved = await diary.move(automation, first, first + 3 * DAY + HOUR, version=1)
    assert moved.automation.next_run_at == first - HOUR
    moved = await diary.move(automation, SLOT, SLOT, version=1)
    assert moved.automation.next_run_at == SLOT


@pytest.mark.parametrize("spread", [0, 9])
async def test_a_moved_run_starts_exactly_then(world: World, diary: CalendarClient, spread: int) -> None:
    """A moved occurrence starts without spread. See docs/design/schedule.md#moving-one-run."""
    world.rules = replace(world.rules, spread_max=spread)
    automation = await world.create()
    assert automation.next_run_at is not None
    slot_at = automation.next_run_at
    await diary.move(automation, slot_at, utc("05-01 10:17"))
    await world.clock.advance_to(utc("05-01 10:17") - INSTANT)
    await world.dispatch()
    assert await world.runs(automation) == []
    await world.clock.advance_to(utc("05-01 10:17"))
    await world.dispatch()
    [run] = await world.runs(automation)
    assert run.slot_at == slot_at
    row = await diary.row(automation, slot_at)
    assert (row.state, row.run_status) == (OccurrenceState.QUEUED, RunStatus.QUEUED)
    assert (row.version, row.run_id) == (1, run.id)


async def test_a_run_moved_before_its_slot_does_not_run_again_at_it(
    world: World, diary: CalendarClient
) -> None:
    """An occurrence that ran before its slot does not run at it again.

    See docs/design/schedule.md#dispatch.
    """
    automation = await world.create()
    third = utc("05-03 08:00")
    await diary.move(automation, third, utc("05-01 07:00"))
    for day in range(1, 5):
        await world.at(f"2026-05-0{day}T08:00")
        await world.dispatch()
        await world.end(automation)
    rows = await world.rows(automation)
    assert [short(row.slot_at) for row in rows] == [f"05-0{day} 08:00" for day in (1, 2, 3, 4)]
    assert len({row.run_id for row in rows if row.run_id}) == len(await world.runs(automation))
    assert rows[2].run_at == utc("05-01 07:00")


@pytest.mark.parametrize(
    ("run_at", "is_right"),
    [
        (timedelta(0), False),
        (SECOND, True),
        (999 * INSTANT, False),
        (366 * DAY, True),
        (366 * DAY + SECOND, False),
        (-HOUR, False),
    ],
)
async def test_the_new_time_lies_within_366_days(
    world: World, diary: CalendarClient, run_at: timedelta, is_right: bool
) -> None:
    """The new time is in the next 366 days. See docs/design/schedule.md#moving-one-run.

    Interface statements: 4.2 rule 3.
    """
    automation = await world.create()
    if is_right:
        assert (await diary.move(automation, SLOT, world.now + run_at)).occurrence.version == 1
        return
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, SLOT, world.now + run_at)
    assert fields(refused.value) == ["run_at"]
    assert await world.rows(automation) == []


async def test_the_instant_of_another_pending_run_is_refused(world: World, diary: CalendarClient) -> None:
    """The time of another pending occurrence is refused. See docs/design/schedule.md#moving-one-run."""
    automation = await world.create()
    following = SLOT + DAY
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, SLOT, following)
    assert fields(refused.value) == ["run_at"]
    await diary.move(automation, following, utc("05-03 12:00"))
    with pytest.raises(ValidationFailed):
        await diary.move(automation, SLOT, utc("05-03 12:00"))
    # Nobody runs at the following slot's own time any more, nor a second later than the moved run.
    assert (await diary.move(automation, SLOT, following)).occurrence.version == 1
    assert (await diary.move(automation, SLOT, utc("05-03 12:00:01"), version=1)).occurrence.version == 2


async def test_a_skipped_run_leaves_its_instant_free(world: World, diary: CalendarClient) -> None:
    """The time of a skipped occurrence is free. See docs/design/schedule.md#moving-one-run."""
    automation = await world.create()
    await diary.skip(automation, SLOT + DAY)
    assert (await diary.move(automation, SLOT, SLOT + DAY)).occurrence.run_at == SLOT + DAY


async def test_another_automations_run_does_not_matter(world: World, diary: CalendarClient) -> None:
    """Occurrences of another automation do not matter. See docs/design/schedule.md#moving-one-run."""
    automation = await world.create()
    await world.create(schedule={"cadence": "daily", "run_at": "09:00"})
    assert (await diary.move(automation, SLOT, SLOT + HOUR)).occurrence.version == 1


async def test_a_run_may_pass_earlier_and_later_ones(world: World, diary: CalendarClient) -> None:
    """An occurrence can be moved past others of its automation.

    See docs/design/schedule.md#moving-one-run.
    """
    automation = await world.create()
    await diary.move(automation, utc("05-05 08:00"), utc("05-01 07:00"))
    await diary.move(automation, utc("05-03 08:00"), utc("06-01 07:00"))
    rows = await diary.rows(automation, until=world.now + 40 * DAY)
    assert short(rows[0].slot_at) == "05-05 08:00"


async def test_hourly_runs_can_be_moved_alone(world: World, diary: CalendarClient) -> None:
    """A single hourly occurrence can be moved. See docs/design/api/calendar.md#move.

    Interface statements: 4.2 this_and_later, hourly.
    """
    automation = await world.create(schedule=HOURLY)
    moved = await diary.move(automation, utc("05-01 09:00"), utc("05-01 09:20"))
    assert moved.occurrence.version == 1


async def test_stale_versions_come_first_and_name_the_current_one(
    world: World, diary: CalendarClient
) -> None:
    """A stale version is refused before everything but 404 and the shape.

    See docs/design/schedule.md#order-of-checks-of-an-edit.

    Interface statements: 4.2 rule 1.
    """
    automation = await world.create()
    current = (await diary.move(automation, SLOT, SLOT + HOUR)).occurrence
    for version, of in ((0, automation.version), (2, automation.version), (1, automation.version + 1)):
        with pytest.raises(StaleVersion) as refused:
            await diary.move(automation, SLOT, world.now - DAY, version=version, automation_version=of)
        assert refused.value.data == {"occurrence": current, "automation": await world.read(automation)}


async def test_errors_for_a_stale_version_or_unknown_slot_name_no_occurrence(
    world: World, diary: CalendarClient
) -> None:
    """`data.occurrence` is null if the schedule no longer has the slot.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    automation = await world.create()
    await world.update(automation, name="Renamed")
    with pytest.raises(StaleVersion) as refused:
        await diary.move(automation, SLOT + MINUTE, SLOT + HOUR)
    assert refused.value.data == {"occurrence": None, "automation": await world.read(automation)}


@pytest.mark.parametrize("version", [0, 3])
async def test_a_slot_the_schedule_does_not_have_is_refused(
    world: World, diary: CalendarClient, version: int
) -> None:
    """An unknown slot gives 422 on `slot_at`, whatever version was sent.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    automation = await world.create()
    for slot_at in (SLOT + MINUTE, utc("04-30 08:00"), SLOT + 600 * DAY):
        with pytest.raises(ValidationFailed) as refused:
            await diary.move(automation, slot_at, SLOT + HOUR, version=version)
        assert fields(refused.value) == ["slot_at"]


async def test_slots_are_named_up_to_366_days_ahead(world: World, diary: CalendarClient) -> None:
    """A slot can be named up to 366 days ahead and not beyond.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    automation = await world.create(schedule={"cadence": "daily", "run_at": "06:00"})
    last = world.now + 366 * DAY
    assert (await diary.move(automation, last, last - HOUR)).occurrence.version == 1
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, last + DAY, last - 2 * HOUR)
    assert fields(refused.value) == ["slot_at"]


async def test_automations_without_slots_have_none_to_move(world: World, diary: CalendarClient) -> None:
    """Manual and event-triggered automations have no slot to move.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    by_hand = await world.create(schedule=BY_HAND)
    started = await world.turn("resume", await world.create(schedule=BY_HAND, trigger=ON_ORDERS))
    for automation in (by_hand, started):
        with pytest.raises(ValidationFailed) as refused:
            await diary.move(automation, SLOT, SLOT + HOUR)
        assert fields(refused.value) == ["slot_at"]


@pytest.mark.parametrize("scope", [THIS, LATER])
async def test_queued_and_skipped_runs_cannot_be_moved(
    world: World, diary: CalendarClient, scope: Any
) -> None:
    """Queued and skipped occurrences are refused by state, not by version.

    See docs/design/api/calendar.md#move and docs/design/schedule.md#calendar.

    Interface statements: 4.2 rule 2.
    """
    automation = await world.create()
    await diary.skip(automation, SLOT + DAY)
    await world.at("2026-05-02T08:00")
    await world.dispatch()
    row = await diary.row(automation, SLOT)
    assert (row.state, row.version) == (OccurrenceState.QUEUED, 0)
    for slot_at, version in ((SLOT, 0), (SLOT + DAY, 1)):
        with pytest.raises(WrongState):
            await diary.move(automation, slot_at, world.now - DAY, scope, version=version)


@pytest.mark.parametrize("turn", ["pause", "archive"])
async def test_runs_of_automations_that_are_not_active_cannot_be_moved(
    world: World, diary: CalendarClient, turn: str
) -> None:
    """An inactive automation refuses the move with 409 after the slot was found.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    automation = await world.turn(turn, await world.create())
    with pytest.raises(WrongState):
        await diary.move(automation, SLOT, world.now - DAY)
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, SLOT + MINUTE, SLOT + HOUR)
    assert fields(refused.value) == ["slot_at"]


async def test_another_organizations_automation_is_not_found(world: World, diary: CalendarClient) -> None:
    """Another organization's automation answers as an absent one.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    new_automation = await world.create()
    words: set[str] = set()
    for automation, actor in (
        (new_automation, world.stranger),
        (replace(new_automation, id=_unknown(world)), world.owner),
    ):
        with pytest.raises(NotFound) as refused:
            await diary.move(automation, SLOT, SLOT + HOUR, actor=actor)
        words.add(refused.value.message)
    assert len(words) == 1


def _unknown(world: World) -> AutomationId:
    return AutomationId(new_id(world.now))


async def test_a_refused_move_changes_nothing(world: World, diary: CalendarClient) -> None:
    """A refused move changes nothing. See docs/design/schedule.md#order-of-checks-of-an-edit."""
    automation = await world.create()
    await diary.move(automation, SLOT, SLOT + HOUR)
    before = (await world.rows(automation), await world.read(automation), await world.timing(automation))
    asks: list[tuple[datetime, datetime, Any, int]] = [
        (SLOT, world.now, THIS, 1),
        (SLOT, SLOT + DAY, THIS, 1),
        (SLOT, SLOT + 3 * DAY, LATER, 1),
        (SLOT, SLOT + 2 * HOUR, THIS, 0),
        (SLOT + MINUTE, SLOT + 2 * HOUR, THIS, 0),
    ]
    for slot_at, run_at, scope, version in asks:
        with pytest.raises(Refusal):
            await diary.move(automation, slot_at, run_at, scope, version=version)
    assert (
        await world.rows(automation),
        await world.read(automation),
        await world.timing(automation),
    ) == before


async def test_a_due_run_is_still_pending_until_it_is_dispatched(world: World, diary: CalendarClient) -> None:
    """A move before dispatch wins, and dispatch has nothing to do.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    automation = await world.create()
    first = utc("05-01 08:00")
    await world.at("2026-05-01T08:00")
    moved = await diary.move(automation, first, first + HOUR)
    assert moved.automation.next_run_at == first + HOUR
    await world.dispatch()
    assert await world.runs(automation) == []
    await world.at("2026-05-01T09:00")
    await world.dispatch()
    assert len(await world.runs(automation)) == 1


async def test_a_decided_slot_is_never_open_again(world: World, diary: CalendarClient) -> None:
    """A decided slot stays decided when the clock is set back. See docs/design/schedule.md#dispatch."""
    automation = await world.create()
    await world.at("2026-05-01T08:00")
    await world.dispatch()
    world.clock.jump(-2 * 3600)
    with pytest.raises(WrongState):
        await diary.move(automation, utc("05-01 08:00"), utc("05-01 07:00"))
    await world.dispatch()
    assert len(await world.runs(automation)) == 1


async def test_a_once_can_be_moved(world: World, diary: CalendarClient) -> None:
    """A `once` runs at its new time and then has no next run. See docs/design/schedule.md#moving-one-run."""
    automation = await world.create(schedule={"cadence": "once", "date": "2026-05-04", "run_at": "10:00"})
    moved = await diary.move(automation, utc("05-04 10:00"), utc("05-01 09:00"))
    assert moved.automation.next_run_at == utc("05-01 09:00")
    await world.at("2026-05-01T09:00")
    await world.dispatch()
    assert (await world.read(automation)).next_run_at is None
    await world.at("2026-05-05T00:00")
    await world.dispatch()
    assert len(await world.runs(automation)) == 1


async def test_the_history_says_who_moved_which_run(world: World, diary: CalendarClient) -> None:
    """The history lists the person and both times. See docs/design/api/automations.md#history."""
    automation = await world.create()
    world.clock.tick(1)
    await diary.move(automation, SLOT, SLOT + HOUR)
    [entry, _] = await world.write(lambda tx: history.find(tx, automation.org, automation.id, limit=10))
    assert (entry.action, entry.version, entry.person) == ("moved", 1, world.owner.person)
    assert {edit.field: (edit.before, edit.after) for edit in entry.fields} == {
        "slot_at": (wire_time(SLOT), wire_time(SLOT)),
        "run_at": (wire_time(SLOT), wire_time(SLOT + HOUR)),
    }
