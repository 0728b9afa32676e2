"""Tests skipping an occurrence and removing the skip.

See docs/design/schedule.md#skip-and-un-skip and docs/design/api/calendar.md#coming-runs.
"""

from datetime import timedelta

import pytest

from steward.database.automations import history
from steward.model.occurrence import OccurrenceState, SkipReason
from steward.model.refusals import NotFound, StaleVersion, ValidationFailed, WrongState
from tests.automations.world import BY_HAND, HOURLY, World
from tests.occurrences.calendar_edits import DAY, HOUR, MINUTE, CalendarClient, fields, short, utc

SLOT = utc("05-02 08:00")
INSTANT = timedelta(milliseconds=1)
PENDING, QUEUED, SKIPPED = OccurrenceState


async def test_a_skipped_run_does_not_start(world: World, diary: CalendarClient) -> None:
    """A skipped occurrence starts no run. See docs/design/schedule.md#skip-and-un-skip."""
    automation = await world.create()
    edited = await diary.skip(automation, utc("05-01 08:00"))
    row = edited.occurrence
    assert (row.state, row.reason, row.version) == (SKIPPED, SkipReason.BY_MERCHANT, 1)
    assert (row.is_projected, row.moved_from, row.run_at) == (False, None, row.slot_at)
    assert edited.automation.version == automation.version
    assert edited.automation.next_run_at == SLOT
    await world.at("2026-05-02T08:00")
    await world.dispatch()
    rows = await world.rows(automation)
    assert [slot.state for slot in rows] == [SKIPPED, QUEUED]
    assert rows[0].reason is SkipReason.BY_MERCHANT


async def test_a_skip_is_withdrawn(world: World, diary: CalendarClient) -> None:
    """An occurrence whose skip was removed runs. See docs/design/schedule.md#skip-and-un-skip."""
    automation = await world.create()
    first = utc("05-01 08:00")
    await diary.skip(automation, first)
    edited = await diary.unskip(automation, first)
    row = edited.occurrence
    assert (row.state, row.reason, row.version, row.is_projected) == (PENDING, None, 2, False)
    assert edited.automation.next_run_at == first
    await world.at("2026-05-01T08:00")
    await world.dispatch()
    assert [slot.state for slot in await world.rows(automation)] == [QUEUED]


async def test_a_moved_run_that_is_skipped_keeps_its_time(world: World, diary: CalendarClient) -> None:
    """A moved occurrence that is skipped keeps its time. See docs/design/schedule.md#skip-and-un-skip."""
    automation = await world.create()
    await diary.move(automation, SLOT, SLOT + HOUR)
    row = (await diary.skip(automation, SLOT, version=1)).occurrence
    assert (row.run_at, row.moved_from, row.version) == (SLOT + HOUR, SLOT, 2)
    row = (await diary.unskip(automation, SLOT, version=2)).occurrence
    assert (row.run_at, row.moved_from, row.version, row.state) == (SLOT + HOUR, SLOT, 3, PENDING)


@pytest.mark.parametrize(
    ("schedule", "last", "past"),
    [
        ({"cadence": "daily", "run_at": "06:00"}, "05-15 06:00", "05-16 06:00"),
        (HOURLY, "05-03 08:00", "05-03 09:00"),  # the fiftieth and the next
        ({"cadence": "monthly", "run_at": "08:00", "day_of_month": 30}, "05-30 08:00", "06-30 08:00"),
    ],
)
async def test_a_projected_run_cannot_be_skipped(
    world: World, diary: CalendarClient, schedule: object, last: str, past: str
) -> None:
    """The last occurrence that is not projected can be skipped, the next cannot.

    See docs/design/schedule.md#skip-and-un-skip.
    """
    automation = await world.create(schedule=schedule)
    with pytest.raises(WrongState):
        await diary.skip(automation, utc(past))
    assert (await diary.skip(automation, utc(last))).occurrence.version == 1


async def test_a_far_run_that_was_moved_can_be_skipped(world: World, diary: CalendarClient) -> None:
    """A moved occurrence is not projected and can be skipped. See docs/design/schedule.md#calendar."""
    automation = await world.create()
    far = utc("07-20 08:00")
    await diary.move(automation, far, far + HOUR)
    assert (await diary.skip(automation, far, version=1)).occurrence.state is SKIPPED


async def test_queued_and_skipped_runs_cannot_be_skipped(world: World, diary: CalendarClient) -> None:
    """Queued and skipped occurrences answer 409 `wrong_state`.

    See docs/design/schedule.md#skip-and-un-skip.
    """
    automation = await world.create()
    await diary.skip(automation, SLOT)
    await world.at("2026-05-01T08:00")
    await world.dispatch()
    with pytest.raises(WrongState):
        await diary.skip(automation, utc("05-01 08:00"))
    with pytest.raises(WrongState):
        await diary.skip(automation, SLOT, version=1)


async def test_only_a_persons_skip_is_withdrawn(world: World, diary: CalendarClient) -> None:
    """Only a person's skip can be removed. See docs/design/schedule.md#skip-and-un-skip."""
    automation = await world.create()
    await world.at("2026-05-01T09:00")
    await world.dispatch()
    assert [row.reason for row in await world.rows(automation)] == [SkipReason.TOO_LATE]
    with pytest.raises(WrongState):
        await diary.unskip(automation, utc("05-01 08:00"), version=0)
    with pytest.raises(WrongState):
        await diary.unskip(automation, SLOT, version=0)


@pytest.mark.parametrize(("before", "is_right"), [(INSTANT, True), (timedelta(0), False)])
async def test_a_skip_whose_time_has_passed_stays(
    world: World, diary: CalendarClient, before: timedelta, is_right: bool
) -> None:
    """A skip cannot be removed from its `run_at` on. See docs/design/schedule.md#skip-and-un-skip."""
    automation = await world.create()
    await diary.skip(automation, SLOT)
    await world.clock.advance_to(SLOT - before)
    if is_right:
        assert (await diary.unskip(automation, SLOT)).occurrence.state is PENDING
        return
    with pytest.raises(WrongState):
        await diary.unskip(automation, SLOT)


@pytest.mark.parametrize("turn", ["pause", "archive"])
async def test_runs_of_automations_that_are_not_active_are_left_alone(
    world: World, diary: CalendarClient, turn: str
) -> None:
    """An inactive automation refuses skips with wrong_state. See docs/design/api/calendar.md#coming-runs."""
    automation = await world.create()
    await diary.skip(automation, SLOT)
    automation = await world.turn(turn, automation)
    with pytest.raises(WrongState):
        await diary.skip(automation, SLOT + DAY)
    if turn == "pause":  # archiving deletes the row, and the slot is an unedited one again
        with pytest.raises(WrongState):
            await diary.unskip(automation, SLOT)


async def test_skip_and_unskip_check_versions_and_slot_as_a_move_does(
    world: World, diary: CalendarClient
) -> None:
    """Skip and unskip check slot and versions in the order of a move.

    See docs/design/schedule.md#skip-and-un-skip.
    """
    automation = await world.create()
    current = (await diary.skip(automation, SLOT)).occurrence
    for turn in (diary.skip, diary.unskip):
        with pytest.raises(StaleVersion) as refused:
            await turn(automation, SLOT, version=0)
        assert refused.value.data == {"occurrence": current, "automation": await world.read(automation)}
        with pytest.raises(StaleVersion):
            await turn(automation, SLOT, version=1, automation_version=2)
        with pytest.raises(ValidationFailed) as missing:
            await turn(automation, SLOT + MINUTE, version=0)
        assert fields(missing.value) == ["slot_at"]
        with pytest.raises(NotFound):
            await turn(automation, SLOT, version=1, actor=world.stranger)
    by_hand = await world.create(schedule=BY_HAND)
    with pytest.raises(ValidationFailed):
        await diary.skip(by_hand, SLOT)


async def test_next_run_at_is_null_when_the_only_run_is_skipped(world: World, diary: CalendarClient) -> None:
    """`next_run_at` is null while the only occurrence is skipped. See docs/design/schedule.md#slot-rules."""
    automation = await world.create(schedule={"cadence": "once", "date": "2026-05-04", "run_at": "10:00"})
    slot_at = utc("05-04 10:00")
    assert (await diary.skip(automation, slot_at)).automation.next_run_at is None
    assert [row.state for row in await diary.rows(automation)] == [SKIPPED]
    assert (await diary.unskip(automation, slot_at)).automation.next_run_at == slot_at


async def test_skips_stay_on_their_dates_when_the_time_changes(world: World, diary: CalendarClient) -> None:
    """Skips stay on their dates when the schedule's time changes; moves are dropped.

    See docs/design/schedule.md#calendar.
    """
    automation = await world.create()
    await diary.skip(automation, utc("05-04 08:00"))
    await diary.move(automation, utc("05-05 08:00"), utc("05-05 12:00"))
    automation = await world.update(automation, schedule={"cadence": "weekdays", "run_at": "07:30"})
    rows = await diary.rows(automation, until=world.now + 6 * DAY)
    assert [(short(row.run_at), row.state, row.version) for row in rows] == [
        ("05-01 07:30", PENDING, 0),
        ("05-04 07:30", SKIPPED, 1),
        ("05-05 07:30", PENDING, 0),
        ("05-06 07:30", PENDING, 0),
    ]
    assert (await diary.unskip(automation, utc("05-04 07:30"))).occurrence.version == 2


async def test_the_history_says_who_skipped_which_run(world: World, diary: CalendarClient) -> None:
    """The history lists who skipped and unskipped. See docs/design/api/automations.md#history."""
    automation = await world.create()
    world.clock.tick(1)
    await diary.skip(automation, SLOT)
    world.clock.tick(1)
    await diary.unskip(automation, SLOT)
    entries = await world.write(lambda tx: history.find(tx, automation.org, automation.id, limit=10))
    assert [entry.action for entry in entries] == ["unskipped", "skipped", "created"]
    states = {edit.field: (edit.before, edit.after) for edit in entries[1].fields}["state"]
    assert states == ("pending", "skipped")
