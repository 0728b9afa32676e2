"""Tests moving an occurrence and every later one, which changes the schedule.

See docs/design/api/calendar.md#move and docs/design/schedule.md#moving-this-and-later.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from steward.database.automations import history
from steward.model.automation import Automation
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import ValidationFailed, WrongState
from tests.automations.world import HOURLY, World
from tests.occurrences.calendar_edits import (
    DAY,
    HOUR,
    LATER,
    MINUTE,
    SECOND,
    CalendarClient,
    fields,
    short,
    utc,
)

PENDING, QUEUED, SKIPPED = OccurrenceState
WEEKLY = {"cadence": "weekly", "run_at": "08:00", "day_of_week": 1}
INSTANT = timedelta(milliseconds=1)


async def times(diary: CalendarClient, automation: Automation, days: int = 10) -> list[str]:
    """Returns the times of the coming days."""
    rows = await diary.rows(automation, until=diary.world.now + days * DAY, states=[PENDING])
    return [short(row.run_at) for row in rows]


async def test_the_chosen_run_and_every_later_one_follow(world: World, diary: CalendarClient) -> None:
    """The chosen occurrence and every later one move. See docs/design/schedule.md#moving-this-and-later."""
    automation = await world.create()
    world.clock.tick(60)
    edited = await diary.move(automation, utc("05-04 08:00"), utc("05-04 10:30"), LATER)
    assert await times(diary, automation, 6) == [
        "05-01 08:00", "05-02 08:00", "05-03 08:00", "05-04 10:30", "05-05 10:30", "05-06 10:30",
    ]  # fmt: skip
    row, after = edited.occurrence, edited.automation
    assert (row.slot_at, row.run_at, row.moved_from) == (
        utc("05-04 08:00"), utc("05-04 10:30"), utc("05-04 08:00"),
    )  # fmt: skip
    assert (row.state, row.version, row.is_projected, row.automation_version) == (PENDING, 1, False, 2)
    assert after == await world.read(automation)
    assert (after.version, after.updated_at, after.schedule.time_of_day) == (2, world.now, "10:30")
    assert after.next_run_at == utc("05-01 08:00")
    assert (await world.timing(automation)).slots_after == utc("05-04 10:30")


@pytest.mark.parametrize(
    ("schedule", "slot_at", "run_at", "expected"),
    [
        (WEEKLY, "05-11 08:00", "05-12 09:00", {"run_at": "09:00", "day_of_week": 2}),
        (WEEKLY, "05-11 08:00", "05-10 08:00", {"run_at": "08:00", "day_of_week": 7}),
        (
            {"cadence": "weekdays", "run_at": "08:00"},
            "05-08 08:00",
            "05-09 08:00",
            {"run_at": "08:00", "days": [1, 2, 3, 4, 6]},
        ),
        (
            {"cadence": "monthly", "run_at": "08:00", "day_of_month": 31},
            "06-30 08:00",
            "06-30 09:00",
            {"run_at": "09:00", "day_of_month": 31},
        ),
        (
            {"cadence": "monthly", "run_at": "08:00", "day_of_week": 5, "week_of_month": 4},
            "05-22 08:00",
            "05-29 08:00",
            {"day_of_week": 5, "week_of_month": -1},
        ),
        (
            {"cadence": "once", "run_at": "08:00", "date": "2026-05-10"},
            "05-10 08:00",
            "05-02 07:15",
            {"date": "2026-05-02", "run_at": "07:15"},
        ),
    ],
)
async def test_the_schedule_changes_by_the_table(
    world: World,
    diary: CalendarClient,
    schedule: dict[str, Any],
    slot_at: str,
    run_at: str,
    expected: dict[str, Any],
) -> None:
    """The schedule changes as the design's table says. See docs/design/schedule.md#moving-this-and-later."""
    automation = await world.create(schedule=schedule)
    edited = await diary.move(automation, utc(slot_at), utc(run_at), LATER)
    wire = edited.automation.schedule.to_wire()
    assert {name: wire[name] for name in expected} == expected
    assert edited.occurrence.run_at == utc(run_at)


@pytest.mark.parametrize("schedule", [HOURLY, {"cadence": "every_6_hours"}])
async def test_schedules_of_several_runs_a_day_are_refused(
    world: World, diary: CalendarClient, schedule: dict[str, str]
) -> None:
    """A schedule with several runs a day is refused with 422 on `scope`.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    automation = await world.create(schedule=schedule)
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, utc("05-01 12:00"), world.now - DAY, LATER)
    assert fields(refused.value) == ["scope"]


@pytest.mark.parametrize(
    ("run_at", "is_right"),
    [
        ("05-03 08:00", False),  # the slot before
        ("05-03 08:01", True),
        ("05-04 23:59", True),
        ("05-05 07:59", True),
        ("05-05 08:00", False),  # the slot after
        ("05-04 10:00:01", False),  # not a whole minute
    ],
)
async def test_the_new_time_lies_between_the_neighbours(
    world: World, diary: CalendarClient, run_at: str, is_right: bool
) -> None:
    """The new time is a whole minute strictly between the neighbouring slots.

    See docs/design/schedule.md#moving-this-and-later.
    """
    automation = await world.create()
    if is_right:
        edited = await diary.move(automation, utc("05-04 08:00"), utc(run_at), LATER)
        assert edited.occurrence.run_at == utc(run_at)
        return
    before = await world.rows(automation)
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, utc("05-04 08:00"), utc(run_at), LATER)
    assert fields(refused.value) == ["run_at"]
    assert (await world.rows(automation), await world.read(automation)) == (before, automation)


@pytest.mark.parametrize(
    ("ahead", "is_right"), [(timedelta(0), False), (MINUTE, True), (366 * DAY, True), (367 * DAY, False)]
)
async def test_the_new_time_lies_within_366_days(
    world: World, diary: CalendarClient, ahead: timedelta, is_right: bool
) -> None:
    """The new time is at most 366 days ahead; a `once` has no neighbours.

    See docs/design/schedule.md#moving-this-and-later.
    """
    automation = await world.create(schedule={"cadence": "once", "run_at": "08:00", "date": "2026-05-10"})
    if is_right:
        edited = await diary.move(automation, utc("05-10 08:00"), world.now + ahead, LATER)
        assert edited.automation.next_run_at == world.now + ahead
        return
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, utc("05-10 08:00"), world.now + ahead, LATER)
    assert fields(refused.value) == ["run_at"]


async def test_a_time_that_has_passed_is_refused(world: World, diary: CalendarClient) -> None:
    """A past time is refused to the second. See docs/design/api/calendar.md#move.

    Interface statements: 4.2 rule 3.
    """
    automation = await world.create()
    world.clock.tick(30)
    for run_at in (utc("05-01 06:00"), utc("05-01 05:00")):
        with pytest.raises(ValidationFailed):
            await diary.move(automation, utc("05-01 08:00"), run_at, LATER)
    assert (
        await diary.move(automation, utc("05-01 08:00"), utc("05-01 06:01"), LATER)
    ).occurrence.version == 1


async def test_the_chosen_run_is_exact_and_later_ones_have_the_spread(
    world: World, diary: CalendarClient
) -> None:
    """The chosen occurrence runs exactly then, later ones with their spread.

    See docs/design/schedule.md#moving-this-and-later.
    """
    world.rules = replace(world.rules, spread_max=9)
    automation = await world.create()
    while automation.spread_minutes == 0:
        automation = await world.create()
    spread = automation.spread_minutes * MINUTE
    chosen = utc("05-04 08:00") + spread
    await diary.move(automation, chosen, utc("05-04 10:30"), LATER)
    rows = await diary.rows(automation, until=world.now + 6 * DAY)
    assert [row.run_at for row in rows] == [
        *(utc(f"05-0{day} 08:00") + spread for day in (1, 2, 3)),
        utc("05-04 10:30"),
        *(utc(f"05-0{day} 10:30") + spread for day in (5, 6)),
    ]


async def test_earlier_moves_and_skips_stay(world: World, diary: CalendarClient) -> None:
    """Earlier occurrences keep their times and skips. See docs/design/schedule.md#moving-this-and-later."""
    automation = await world.create()
    await diary.move(automation, utc("05-02 08:00"), utc("05-02 12:00"))
    await diary.skip(automation, utc("05-03 08:00"))
    automation = (await diary.move(automation, utc("05-05 08:00"), utc("05-05 06:00"), LATER)).automation
    rows = await diary.rows(automation, until=world.now + 6 * DAY)
    assert [(short(row.run_at), row.state, row.version, row.is_projected) for row in rows] == [
        ("05-01 08:00", PENDING, 0, False),
        ("05-02 12:00", PENDING, 1, False),
        ("05-03 08:00", SKIPPED, 1, False),
        ("05-04 08:00", PENDING, 0, False),
        ("05-05 06:00", PENDING, 1, False),
        ("05-06 06:00", PENDING, 0, False),
    ]
    assert (await diary.unskip(automation, utc("05-03 08:00"))).occurrence.state is PENDING


async def test_rows_kept_from_the_old_schedule_run_and_can_be_edited(
    world: World, diary: CalendarClient
) -> None:
    """Rows of the old schedule run and can be edited until the next update.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    automation = (await diary.move(automation, utc("05-04 08:00"), utc("05-04 10:00"), LATER)).automation
    assert (await diary.move(automation, utc("05-02 08:00"), utc("05-02 09:00"))).occurrence.version == 1
    await diary.skip(automation, utc("05-03 08:00"))
    await world.at("2026-05-01T08:00")
    await world.dispatch()
    assert [row.state for row in await world.rows(automation)][:1] == [QUEUED]
    automation = await world.update(automation, schedule={"cadence": "daily", "run_at": "11:00"})
    rows = await diary.rows(automation, until=world.now + 4 * DAY)
    assert [(short(row.run_at), row.state) for row in rows] == [
        ("05-01 08:00", QUEUED),
        ("05-01 11:00", PENDING),
        ("05-02 11:00", PENDING),
        ("05-03 11:00", SKIPPED),
        ("05-04 11:00", PENDING),
    ]


async def test_later_moves_are_reset_and_later_skips_go_over(world: World, diary: CalendarClient) -> None:
    """The skip of the k-th later slot moves to the k-th slot after the new time.

    See docs/design/schedule.md#moving-this-and-later.
    """
    automation = await world.create(schedule=WEEKLY)  # Mondays: 4, 11, 18, 25 May
    await diary.move(automation, utc("05-18 08:00"), utc("05-19 12:00"))
    await diary.move(automation, utc("05-25 08:00"), utc("05-26 12:00"))
    await diary.skip(automation, utc("05-25 08:00"), version=1)
    edited = await diary.move(automation, utc("05-11 08:00"), utc("05-14 09:00"), LATER)
    rows = await diary.rows(edited.automation, until=world.now + 40 * DAY)
    assert [(short(row.run_at), row.state, row.version) for row in rows] == [
        ("05-04 08:00", PENDING, 0),
        ("05-14 09:00", PENDING, 1),
        ("05-21 09:00", PENDING, 0),
        ("05-28 09:00", SKIPPED, 2),
        ("06-04 09:00", PENDING, 0),
    ]
    assert rows[3].moved_from is None


async def test_a_second_move_starts_from_the_new_date(world: World, diary: CalendarClient) -> None:
    """A second move starts from the new date and time. See docs/design/schedule.md#moving-this-and-later."""
    automation = await world.create(schedule=WEEKLY)
    slot_at = utc("05-11 08:00")
    automation = (await diary.move(automation, slot_at, utc("05-13 09:00"), LATER)).automation
    with pytest.raises(ValidationFailed):  # the Monday before is still planned for 4 May
        await diary.move(automation, slot_at, utc("05-04 08:00"), LATER, version=1)
    with pytest.raises(ValidationFailed):
        await diary.move(automation, slot_at, utc("05-20 09:00"), LATER, version=1)
    edited = await diary.move(automation, slot_at, utc("05-20 08:59"), LATER, version=1)
    assert (edited.occurrence.slot_at, edited.occurrence.version) == (slot_at, 2)
    assert edited.occurrence.moved_from == utc("05-13 09:00")
    assert (edited.automation.version, edited.automation.schedule.time_of_day) == (3, "08:59")
    assert await times(diary, automation, 35) == ["05-04 08:00", "05-20 08:59", "05-27 08:59", "06-03 08:59"]


async def test_a_run_moved_alone_before_is_treated_by_its_slot(world: World, diary: CalendarClient) -> None:
    """An occurrence moved alone before counts by its slot.

    See docs/design/schedule.md#moving-this-and-later.
    """
    automation = await world.create()
    slot_at = utc("05-04 08:00")
    await diary.move(automation, slot_at, utc("05-20 15:00"))
    with pytest.raises(ValidationFailed):
        await diary.move(automation, slot_at, utc("05-20 16:00"), LATER, version=1)
    edited = await diary.move(automation, slot_at, utc("05-04 09:00"), LATER, version=1)
    assert edited.occurrence.moved_from == utc("05-20 15:00")
    assert await times(diary, automation, 5) == [
        "05-01 08:00", "05-02 08:00", "05-03 08:00", "05-04 09:00", "05-05 09:00",
    ]  # fmt: skip


async def test_the_instant_of_an_earlier_run_that_stays_is_refused(
    world: World, diary: CalendarClient
) -> None:
    """The time of another pending occurrence that stays is refused.

    See docs/design/api/calendar.md#coming-runs.
    """
    automation = await world.create()
    await diary.move(automation, utc("05-02 08:00"), utc("05-04 09:00"))
    await diary.move(automation, utc("05-06 08:00"), utc("05-04 10:00"))
    with pytest.raises(ValidationFailed) as refused:
        await diary.move(automation, utc("05-04 08:00"), utc("05-04 09:00"), LATER)
    assert fields(refused.value) == ["run_at"]
    edited = await diary.move(automation, utc("05-04 08:00"), utc("05-04 10:00"), LATER)
    assert edited.occurrence.run_at == utc("05-04 10:00")


async def test_due_slots_are_decided_before_a_change(world: World, diary: CalendarClient) -> None:
    """Every slot up to now is decided under its own schedule first.

    See docs/design/schedule.md#changes-decide-first.
    """
    automation = await world.create()
    await world.at("2026-05-03T08:05")
    moved = await diary.move(automation, utc("05-04 08:00"), utc("05-04 10:00"), LATER)
    rows = await world.rows(automation)
    assert [(short(row.slot_at), row.state, row.reason) for row in rows[:3]] == [
        ("05-01 08:00", SKIPPED, SkipReason.TOO_LATE),
        ("05-02 08:00", SKIPPED, SkipReason.TOO_LATE),
        ("05-03 08:00", QUEUED, None),
    ]
    assert moved.automation.next_run_at == utc("05-04 10:00")


async def test_a_run_that_is_due_can_no_longer_take_the_schedule_with_it(
    world: World, diary: CalendarClient
) -> None:
    """A due occurrence is decided first and then cannot be moved.

    See docs/design/schedule.md#moving-this-and-later.
    """
    automation = await world.create()
    await world.at("2026-05-01T08:00")
    with pytest.raises(WrongState):
        await diary.move(automation, utc("05-01 08:00"), utc("05-01 09:00"), LATER)
    assert await world.rows(automation) == []
    await world.dispatch()
    assert len(await world.runs(automation)) == 1


async def test_a_slot_already_past_that_was_moved_ahead_can_be_chosen(
    world: World, diary: CalendarClient
) -> None:
    """An occurrence moved ahead can be chosen although its slot is past.

    See docs/design/schedule.md#moving-this-and-later.
    """
    automation = await world.create()
    await diary.move(automation, utc("05-01 08:00"), utc("05-01 20:00"))
    await world.at("2026-05-01T12:00")
    automation = (
        await diary.move(automation, utc("05-01 08:00"), utc("05-01 18:00"), LATER, version=1)
    ).automation
    assert await times(diary, automation, 3) == ["05-01 18:00", "05-02 18:00", "05-03 18:00"]


async def test_moving_to_another_day_neither_loses_nor_doubles_a_run(
    world: World, diary: CalendarClient
) -> None:
    """After a move to another day one schedule covers this and every later run.

    See docs/design/schedule.md#moving-this-and-later.
    """
    automation = await world.create(schedule={"cadence": "weekdays", "run_at": "08:00", "days": [1, 3]})
    moved = await diary.move(automation, utc("05-06 08:00"), utc("05-05 08:00"), LATER)
    assert moved.automation.schedule.days == (1, 2)
    assert await times(diary, automation, 14) == ["05-04 08:00", "05-05 08:00", "05-11 08:00", "05-12 08:00"]


async def test_every_planned_slot_is_decided_after_a_move(world: World, diary: CalendarClient) -> None:
    """Dispatch does what the calendar planned, slot by slot. See docs/design/schedule.md#dispatch."""
    automation = await world.create()
    await diary.skip(automation, utc("05-07 08:00"))
    await diary.move(automation, utc("05-04 08:00"), utc("05-03 20:00"), LATER)
    planned = [(row.slot_at, row.run_at) for row in await diary.rows(automation, until=world.now + 8 * DAY)]
    for _ in range(8 * 24):
        await world.clock.advance(3600)
        await world.dispatch()
        await world.end(automation)
    assert [(row.slot_at, row.run_at) for row in await world.rows(automation)][: len(planned)] == sorted(
        planned
    )
    assert len(await world.runs(automation)) == len(planned) - 1


@pytest.mark.parametrize("turn", [("pause", "resume"), ("archive", "restore", "resume")])
async def test_a_pause_after_a_move_neither_loses_nor_doubles_a_run(
    world: World, diary: CalendarClient, turn: tuple[str, ...]
) -> None:
    """Stored rows reappear once on resume; after the archive only the schedule counts.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    automation = (await diary.move(automation, utc("05-04 08:00"), utc("05-04 10:00"), LATER)).automation
    for verb in turn:
        automation = await world.turn(verb, automation)
    stored = ["05-01 08:00", "05-02 08:00", "05-03 08:00"]
    again = ["05-01 10:00", "05-02 10:00", "05-03 10:00"]
    expected = (stored if "pause" in turn else again) + ["05-04 10:00", "05-05 10:00"]
    assert await times(diary, automation, 5) == expected


async def test_a_clock_change_is_where_the_run_is_moved_to(world: World, diary: CalendarClient) -> None:
    """A time in the second pass of a fold is stored as its local time.

    See docs/design/schedule.md#moving-this-and-later.
    """
    await world.at("2026-10-22T00:00")
    automation = await world.create(
        schedule={"cadence": "daily", "run_at": "04:00"}, timezone="Europe/Berlin"
    )
    edited = await diary.move(automation, utc("10-25 03:00"), utc("10-25 01:30"), LATER)
    assert edited.automation.schedule.time_of_day == "02:30"
    assert (await times(diary, automation, 6))[2:] == [
        "10-24 02:00",
        "10-25 01:30",
        "10-26 01:30",
        "10-27 01:30",
    ]


async def test_the_history_shows_the_move_and_the_schedule(world: World, diary: CalendarClient) -> None:
    """The history lists the move and the new schedule. See docs/design/api/automations.md#history."""
    automation = await world.create()
    world.clock.tick(1)
    await diary.move(automation, utc("05-04 08:00"), utc("05-04 10:00"), LATER)
    [entry, _] = await world.write(lambda tx: history.find(tx, automation.org, automation.id, limit=10))
    assert (entry.action, entry.version) == ("moved", 2)
    assert [edit.field for edit in entry.fields] == ["slot_at", "run_at", "schedule"]


async def test_a_move_of_seconds_is_refused_but_for_one_run(world: World, diary: CalendarClient) -> None:
    """A time with seconds is refused except for a single occurrence.

    See docs/design/schedule.md#moving-this-and-later.
    """
    automation = await world.create()
    for odd in (SECOND, INSTANT):
        with pytest.raises(ValidationFailed) as refused:
            await diary.move(automation, utc("05-04 08:00"), utc("05-04 09:00") + odd, LATER)
        assert fields(refused.value) == ["run_at"]
    assert (
        await diary.move(automation, utc("05-04 08:00"), utc("05-04 09:00") + HOUR, LATER)
    ).automation.version == 2
