"""Tests which rows the calendar lists, in which order, and its pages.

See docs/design/schedule.md#calendar and docs/design/api/calendar.md#coming-runs.
"""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from steward.automations import setup
from steward.database.engine.base import Tx
from steward.model.automation import Automation
from steward.model.ids import AutomationId, IntegrationId, new_id
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import ValidationFailed
from steward.model.run import RunStatus
from steward.occurrences.calendar import calendar_key
from tests.automations.world import BY_HAND, DAILY, HOURLY, ON_ORDERS, World
from tests.occurrences.calendar_edits import DAY, HOUR, LATER, CalendarClient, fields, short, utc

PENDING, QUEUED, SKIPPED = OccurrenceState
INSTANT = timedelta(milliseconds=1)


async def theirs_too(tx: Tx, *, world: World) -> Automation:
    """Adds a daily automation of the other organization."""
    query = world.ask(integration_id=world.foreign_store)
    return (await setup.create(tx, world.stranger, query, rules=world.rules)).automation


async def test_coming_slots_of_the_next_fourteen_days_are_listed(world: World, diary: CalendarClient) -> None:
    """By default the range is now to 14 days later. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    rows = await diary.rows()
    assert [short(row.run_at) for row in rows] == [f"05-{day:02} 08:00" for day in range(1, 15)]
    first = rows[0]
    assert (first.automation_id, first.automation_name, first.automation_version) == (
        automation.id,
        automation.name,
        1,
    )
    assert (first.slot_at, first.state, first.version, first.is_projected) == (
        first.run_at,
        PENDING,
        0,
        False,
    )
    assert (first.reason, first.run_id, first.run_status, first.moved_from) == (None, None, None, None)


async def test_the_range_ends_before_its_end(world: World, diary: CalendarClient) -> None:
    """The range includes `from` and excludes `to`. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    moment = utc("05-02 08:00")
    assert [row.run_at for row in await diary.rows(automation, since=moment, until=moment + INSTANT)] == [
        moment
    ]
    assert await diary.rows(automation, since=moment - HOUR, until=moment) == []
    assert await diary.rows(automation, since=moment + INSTANT, until=moment + HOUR) == []


@pytest.mark.parametrize(
    ("since", "until", "wrong"),
    [
        (-31 * DAY, None, []),
        (-31 * DAY - INSTANT, None, ["from"]),
        (timedelta(0), timedelta(0), ["to"]),
        (timedelta(0), INSTANT, []),
        (timedelta(0), 92 * DAY, []),
        (timedelta(0), 92 * DAY + INSTANT, ["to"]),
        (300 * DAY, 366 * DAY, []),
        (300 * DAY, 366 * DAY + INSTANT, ["to"]),
        (352 * DAY, None, []),
        (352 * DAY + INSTANT, None, ["to"]),
        (-32 * DAY, -33 * DAY, ["from", "to"]),
        (2_900_000 * DAY, None, ["to"]),
    ],
)
async def test_the_range_has_limits(
    world: World, diary: CalendarClient, since: timedelta, until: timedelta | None, wrong: list[str]
) -> None:
    """The range is accepted at each limit and refused one past it. See docs/design/schedule.md#calendar."""
    query: dict[str, Any] = {"since": world.now + since}
    if until is not None:
        query["until"] = world.now + until
    if not wrong:
        await diary.rows(**query)
        return
    with pytest.raises(ValidationFailed) as refused:
        await diary.rows(**query)
    assert fields(refused.value) == wrong


async def test_foreign_and_unknown_filters_are_refused(world: World, diary: CalendarClient) -> None:
    """Another organization's id and an unknown id both give 422.

    See docs/design/api/calendar.md#coming-runs and docs/design/api/conventions.md#codes.

    Interface statements: 7 filter.
    """
    theirs = await world.write(partial(theirs_too, world=world), world.stranger.org)
    for foreign in (theirs.id, AutomationId(new_id(world.now))):
        with pytest.raises(ValidationFailed) as refused:
            await diary.page(automation=foreign, integration=IntegrationId(999_999))
        assert fields(refused.value) == ["automation_id", "integration_id"]
    with pytest.raises(ValidationFailed) as refused:
        await diary.rows(integration=world.foreign_store)
    assert fields(refused.value) == ["integration_id"]


async def test_another_organizations_rows_are_not_listed(world: World, diary: CalendarClient) -> None:
    """Rows of another organization are not listed. See docs/design/api/conventions.md#scope."""
    await world.write(partial(theirs_too, world=world), world.stranger.org)
    assert await diary.rows() == []
    assert len((await diary.page(actor=world.stranger)).rows) == 14


async def test_the_calendar_is_narrowed_to_an_automation_or_a_store(
    world: World, diary: CalendarClient
) -> None:
    """Filters by automation_id and integration_id. See docs/design/api/calendar.md#coming-runs."""
    automation = await world.create()
    two = await world.create(integration_id=world.other_store)
    assert {row.automation_id for row in await diary.rows()} == {automation.id, two.id}
    assert {row.automation_id for row in await diary.rows(automation)} == {automation.id}
    assert {row.automation_id for row in await diary.rows(integration=world.other_store)} == {two.id}
    assert await diary.rows(automation, integration=world.other_store) == []


@pytest.mark.parametrize("turn", ["pause", "archive"])
async def test_only_active_automations_have_coming_rows(
    world: World, diary: CalendarClient, turn: str
) -> None:
    """Paused, archived, draft and event-triggered automations have no coming rows.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    await world.create(schedule=BY_HAND)
    started = await world.create(schedule=BY_HAND, trigger=ON_ORDERS)
    await world.turn("resume", started)
    await diary.move(automation, utc("05-03 08:00"), utc("05-03 09:00"))
    await diary.skip(automation, utc("05-04 08:00"))
    assert {row.automation_id for row in await diary.rows()} == {automation.id}
    await world.turn(turn, automation)
    assert await diary.rows() == []


async def test_moved_and_skipped_rows_come_back_on_resume(world: World, diary: CalendarClient) -> None:
    """Moved and skipped rows reappear when the automation is resumed.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    await diary.move(automation, utc("05-03 08:00"), utc("05-03 09:00"))
    await diary.skip(automation, utc("05-04 08:00"))
    before = await diary.rows()
    await world.turn("pause", automation)
    automation = await world.turn("resume", await world.read(automation))
    after = await diary.rows()
    assert [(row.slot_at, row.run_at, row.state) for row in after] == [
        (row.slot_at, row.run_at, row.state) for row in before
    ]


async def test_past_rows_show_what_became_of_them(world: World, diary: CalendarClient) -> None:
    """Past rows have their run's status or the reason of the skip. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    await world.at("2026-05-01T08:00")
    await world.dispatch()
    await world.at("2026-05-02T08:00")
    await world.dispatch()
    first, second = await diary.rows(automation, since=world.now - 2 * DAY, until=world.now + INSTANT)
    [run] = await world.runs(automation)
    assert (first.state, first.run_id, first.run_status) == (QUEUED, run.id, RunStatus.QUEUED)
    assert (second.state, second.reason) == (SKIPPED, SkipReason.PREVIOUS_RUNNING)
    assert (first.is_projected, second.is_projected, first.version) == (False, False, 0)
    lease = await world.claim()
    await world.finish(automation, lease, RunStatus.SUCCEEDED)
    [again] = await diary.rows(automation, since=world.now - 2 * DAY, until=world.now)
    assert again.run_status is RunStatus.SUCCEEDED


async def test_past_rows_of_paused_automations_stay_and_of_archived_go(
    world: World, diary: CalendarClient
) -> None:
    """Past rows are listed unless the automation is archived. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    await world.at("2026-05-01T08:00")
    await world.dispatch()
    since = world.now - HOUR
    await world.turn("pause", automation)
    assert [row.state for row in await diary.rows(automation, since=since)] == [QUEUED]
    await world.turn("archive", await world.read(automation))
    assert await diary.rows(automation, since=since) == []


async def test_the_calendar_is_narrowed_to_states(world: World, diary: CalendarClient) -> None:
    """Filters by a list of states. See docs/design/api/calendar.md#coming-runs."""
    automation = await world.create()
    await world.at("2026-05-01T08:00")
    await world.dispatch()
    await diary.skip(automation, utc("05-03 08:00"))
    query: dict[str, Any] = {"since": world.now, "until": world.now + 4 * DAY}

    async def days(*states: OccurrenceState) -> list[str]:
        return [short(row.run_at)[:5] for row in await diary.rows(automation, states=states, **query)]

    assert await days(PENDING) == ["05-02", "05-04"]
    assert await days(QUEUED) == ["05-01"]
    assert await days(SKIPPED) == ["05-03"]
    assert await days(SKIPPED, QUEUED) == ["05-01", "05-03"]
    assert await days() == ["05-01", "05-02", "05-03", "05-04"]


async def test_a_moved_run_stands_at_its_new_time_only(world: World, diary: CalendarClient) -> None:
    """A moved occurrence is listed at its new time only. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    await diary.move(automation, utc("05-02 08:00"), utc("05-20 12:30"))
    rows = await diary.rows(until=world.now + 30 * DAY)
    [moved] = [row for row in rows if row.slot_at == utc("05-02 08:00")]
    assert (moved.run_at, moved.moved_from) == (utc("05-20 12:30"), utc("05-02 08:00"))
    assert "05-02 08:00" not in [short(row.run_at) for row in rows]
    assert [row.run_at for row in rows] == sorted(row.run_at for row in rows)


@pytest.mark.parametrize(
    ("schedule", "near"),
    [
        (DAILY, 14),  # every day up to 05-14; 05-15 08:00 lies behind 14 days
        (HOURLY, 50),
        ({"cadence": "every_6_hours"}, 50),
        ({"cadence": "weekly", "run_at": "08:00", "day_of_week": 5}, 2),
        ({"cadence": "monthly", "run_at": "08:00", "day_of_month": 30}, 1),  # the very next one
    ],
)
async def test_slots_are_projected_beyond_fourteen_days_or_fifty(
    world: World, diary: CalendarClient, schedule: dict[str, Any], near: int
) -> None:
    """Slots beyond fourteen days or fifty are `projected`. See docs/design/schedule.md#calendar."""
    automation = await world.create(schedule=schedule)
    rows = await diary.rows(automation, until=world.now + 92 * DAY, limit=500)
    flags = [row.is_projected for row in rows]
    assert flags == [False] * near + [True] * (len(rows) - near)
    assert len(rows) > near


async def test_fifty_slots_count_from_the_first_after_the_clock_was_set_back(
    world: World, diary: CalendarClient
) -> None:
    """After the clock was set back the fifty slots still start at the first one after set-up.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create(schedule=HOURLY)
    world.clock.jump(-60 * 3600)
    rows = await diary.rows(automation, until=world.clock.now() + 10 * DAY, limit=500)
    flags = [row.is_projected for row in rows]
    assert flags == [False] * 50 + [True] * (len(rows) - 50)
    assert len(rows) > 50


async def test_a_slot_exactly_fourteen_days_ahead_is_not_projected(
    world: World, diary: CalendarClient
) -> None:
    """A slot exactly 14 days ahead is not projected; one past it is. See docs/design/schedule.md#calendar."""
    automation = await world.create(schedule={"cadence": "daily", "run_at": "06:00"})
    moment = world.now + 14 * DAY
    [row] = await diary.rows(automation, since=moment, until=moment + INSTANT)
    assert not row.is_projected
    [row] = await diary.rows(automation, since=moment + DAY, until=moment + DAY + INSTANT)
    assert row.is_projected


async def test_an_edited_row_is_not_projected_however_far(world: World, diary: CalendarClient) -> None:
    """A row that a person edited is never projected. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    slot_at = utc("07-20 08:00")
    [row] = await diary.rows(automation, since=slot_at, until=slot_at + INSTANT)
    assert row.is_projected
    edited = await diary.move(automation, slot_at, slot_at + HOUR)
    assert not edited.occurrence.is_projected
    [row] = await diary.rows(automation, since=slot_at, until=slot_at + 2 * HOUR)
    assert (row, row.version) == (edited.occurrence, 1)


async def test_rows_of_one_instant_are_ordered_by_slot_then_automation(
    world: World, diary: CalendarClient
) -> None:
    """Rows are ordered by `run_at`, `slot_at`, `automation_id`. See docs/design/schedule.md#calendar."""
    automations = [await world.create(name=f"Automation {number}") for number in range(5)]
    early = await world.create(schedule={"cadence": "daily", "run_at": "07:00"})
    await diary.move(early, utc("05-02 07:00"), utc("05-03 08:00"))
    rows = await diary.rows(since=utc("05-03 08:00"), until=utc("05-03 08:01"))
    assert [row.automation_id for row in rows] == [
        early.id,
        *sorted(automation.id for automation in automations),
    ]
    every = [calendar_key(row) for row in await diary.rows()]
    assert every == sorted(every)


async def test_pages_give_every_row_once(world: World, diary: CalendarClient) -> None:
    """Pages list every row that exists throughout exactly once. See docs/design/api/conventions.md#paging."""
    automations = [await world.create(name=f"Automation {number}") for number in range(4)]
    hourly = await world.create(schedule=HOURLY)
    await diary.move(automations[1], utc("05-05 08:00"), utc("05-05 08:30"))
    await diary.skip(automations[2], utc("05-05 08:00"))
    whole = (await diary.page(limit=500, until=world.now + 5 * DAY)).rows
    for limit in (1, 7, 26):
        rows, after, since, until = [], None, world.now, world.now + 5 * DAY
        while True:
            page = await diary.page(limit=limit, since=since, until=until, after=after)
            rows += page.rows
            if not page.has_more:
                break
            assert len(page.rows) == limit
            after = calendar_key(page.rows[-1])
        assert rows == list(whole)
    assert {row.automation_id for row in whole} == {automation.id for automation in automations} | {hourly.id}


async def test_a_change_between_pages_neither_doubles_nor_hides_the_others(
    world: World, diary: CalendarClient
) -> None:
    """A change between two pages neither repeats nor hides other rows.

    See docs/design/api/conventions.md#paging.
    """
    automation = await world.create()
    other = await world.create()
    first = await diary.page(limit=6)
    after = calendar_key(first.rows[-1])
    await diary.skip(other, utc("05-02 08:00"))
    await diary.move(other, utc("05-10 08:00"), utc("05-01 23:00"))
    second = await diary.page(limit=500, since=first.since, until=first.until, after=after)
    own_values = [row.slot_at for row in (*first.rows, *second.rows) if row.automation_id == automation.id]
    assert own_values == [row.slot_at for row in await diary.rows(automation)]


async def test_a_cursor_outlives_its_range(world: World, diary: CalendarClient) -> None:
    """A cursor still works when its `from` is more than 31 days old.

    See docs/design/api/conventions.md#paging.
    """
    automation = await world.create()
    first = await diary.page(limit=5)
    await world.clock.advance(40 * 86_400)
    await world.dispatch()
    after = calendar_key(first.rows[-1])
    rest = await diary.page(since=first.since, until=first.until, after=after)
    assert [short(row.slot_at)[:5] for row in rest.rows] == [f"05-{day:02}" for day in range(6, 15)]
    assert {row.reason for row in rest.rows} == {SkipReason.TOO_LATE}
    assert {row.automation_id for row in rest.rows} == {automation.id}


async def test_a_due_slot_is_still_pending_until_it_is_dispatched(
    world: World, diary: CalendarClient
) -> None:
    """A due slot is listed as pending until dispatch decides it. See docs/design/schedule.md#slot-rules."""
    automation = await world.create()
    await world.at("2026-05-01T08:00")
    [row] = await diary.rows(automation, until=world.now + HOUR)
    assert (row.state, row.is_projected) == (PENDING, False)
    await world.dispatch()
    [row] = await diary.rows(automation, until=world.now + HOUR)
    assert row.state is QUEUED


async def test_a_week_across_a_clock_change(world: World, diary: CalendarClient) -> None:
    """In Berlin's autumn of 2026 02:30 occurs once, and every hour has its run.

    See docs/design/schedule.md#slot-rules.
    """
    await world.at("2026-10-22T00:00")
    daily = {"cadence": "daily", "run_at": "02:30"}
    nightly = await world.create(schedule=daily, timezone="Europe/Berlin")
    hourly = await world.create(schedule=HOURLY, timezone="Europe/Berlin")
    week = await diary.rows(nightly, until=world.now + 7 * DAY)
    assert [short(row.run_at) for row in week] == [
        "10-22 00:30", "10-23 00:30", "10-24 00:30", "10-25 00:30",
        "10-26 01:30", "10-27 01:30", "10-28 01:30",
    ]  # fmt: skip
    night = await diary.rows(hourly, since=utc("10-25 00:00"), until=utc("10-25 03:00"))
    assert [short(row.run_at) for row in night] == ["10-25 00:00", "10-25 01:00", "10-25 02:00"]
    spring = await diary.rows(nightly, since=utc("2027-03-27 00:00"), until=utc("2027-03-30 00:00"))
    assert [short(row.run_at) for row in spring] == ["03-27 01:30", "03-28 01:30", "03-29 00:30"]


async def test_rows_carry_the_version_of_the_automation_as_it_is(world: World, diary: CalendarClient) -> None:
    """`automation_version` is raised by this_and_later, not by a move or a skip.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    await diary.move(automation, utc("05-02 08:00"), utc("05-02 09:00"))
    await diary.skip(automation, utc("05-03 08:00"))
    assert {row.automation_version for row in await diary.rows(automation)} == {1}
    await diary.move(automation, utc("05-04 08:00"), utc("05-04 10:00"), LATER)
    assert {row.automation_version for row in await diary.rows(automation)} == {2}
