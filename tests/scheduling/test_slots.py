"""Tests what streams of slots promise beside the worked cases: ends, neighbours, keys and spread."""

from datetime import UTC, datetime, timedelta

import pytest

from steward.model.schedule import MANUAL, Cadence, Schedule, SlotNote
from steward.scheduling.slots import (
    Slot,
    find_slot,
    key_instant,
    next_slot,
    next_slots,
    slot_after,
    slot_before,
    slot_of_key,
    slot_on,
    slots,
)
from steward.scheduling.spread import spread_minutes
from tests.scheduling.shorthand import at, daily, monthly, monthly_by_week, once, place, weekdays, weekly

_HOURLY = Schedule(Cadence.HOURLY)
_SIX_HOURLY = Schedule(Cadence.EVERY_6_HOURS)
_EVERY_CADENCE = [
    _HOURLY,
    _SIX_HOURLY,
    daily("08:00"),
    weekdays((6,), "08:00"),
    weekly(3, "08:00"),
    monthly(31, "08:00"),
    monthly_by_week(-1, 5, "08:00"),
    once("2026-06-01", "08:00"),
]


@pytest.mark.parametrize("schedule", _EVERY_CADENCE, ids=lambda schedule: schedule.cadence)
def test_a_stream_holds_neither_of_its_ends(schedule: Schedule) -> None:
    """Yields slots strictly after `after` and strictly before `until` (R9).

    See docs/guides/contributors.md#conventions.
    """
    berlin = place("Europe/Berlin")
    first = next_slot(schedule, berlin, spread_minutes=3, after=at("2026-05-01 00:00"))
    assert first is not None
    day = timedelta(days=1)

    def inside(after: datetime, until: datetime) -> list[Slot]:
        return list(slots(schedule, berlin, spread_minutes=3, after=after, until=until))

    hair = timedelta(microseconds=1)
    assert first not in inside(first.slot_at, first.slot_at + day)
    assert first not in inside(first.slot_at - day, first.slot_at)
    assert inside(first.slot_at - hair, first.slot_at + hair) == [first]
    assert inside(first.slot_at, first.slot_at - day) == []


def test_manual_has_no_slots() -> None:
    """Finds no slot of a manual schedule in any way of asking (R12)."""
    berlin = place("Europe/Berlin")
    assert next_slot(MANUAL, berlin, spread_minutes=0, after=at("2026-01-01 00:00")) is None
    assert slot_before(MANUAL, berlin, at("2026-01-01 00:00")) is None
    assert find_slot(MANUAL, berlin, at("2026-01-01 00:00"), spread_minutes=0) is None
    assert slot_on(MANUAL, berlin, at("2026-01-01 00:00").date(), spread_minutes=0) is None


@pytest.mark.parametrize("schedule", [daily("23:30"), monthly(28, "23:30"), weekly(6, "23:30")])
def test_a_slot_pushed_past_midnight_is_found_from_the_new_date(schedule: Schedule) -> None:
    """Finds Saturday's 23:30 at 00:10 on Sunday, as the clock in Nuuk skips that hour (R4 and R5)."""
    nuuk = place("America/Nuuk")
    slot = next_slot(schedule, nuuk, spread_minutes=0, after=at("2026-03-29 01:10"))
    assert slot == Slot(at("2026-03-29 01:30"), at("2026-03-29 01:30"), "2026-03-28T23:30", SlotNote.GAP)
    assert slot_before(schedule, nuuk, at("2026-03-29 01:31")) == slot


def test_a_slot_not_after_slots_after_does_not_exist() -> None:
    """Leaves out slots at or before `slots_after`, as for a time already past when typed (R15)."""
    utc = place("UTC")
    after, typed = at("2026-01-10 08:03"), at("2026-01-10 08:00")
    for since, day in ((typed, 11), (typed - timedelta(microseconds=1), 10)):
        slot = next_slot(daily("08:00"), utc, spread_minutes=7, after=after, slots_after=since)
        assert slot is not None
        assert slot.slot_at == datetime(2026, 1, day, 8, 7, tzinfo=UTC)


def test_a_slot_is_found_only_at_its_own_instant() -> None:
    """Finds a slot at its exact instant, and none a millisecond beside it or not after `slots_after`.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    utc = place("UTC")
    for shift, is_there in ((0, True), (-1, False), (1, False)):
        slot_at = at("2026-01-10 08:07") + timedelta(milliseconds=shift)
        slot = find_slot(daily("08:00"), utc, slot_at, spread_minutes=7)
        assert (slot is not None) == is_there
    nominal = at("2026-01-10 08:00")
    assert find_slot(daily("08:00"), utc, nominal, spread_minutes=0, slots_after=nominal) is None


def test_neighbours_of_a_slot_are_shown_without_spread() -> None:
    """Returns the slots before and after by their nominal instants, without spread.

    See docs/design/schedule.md#moving-this-and-later.
    """
    utc = place("UTC")
    current = at("2026-03-31 08:00")
    before, after = (
        slot_before(monthly(31, "08:00"), utc, current),
        slot_after(monthly(31, "08:00"), utc, current),
    )
    assert before is not None
    assert after is not None
    assert (before.slot_at, after.slot_at) == (at("2026-02-28 08:00"), at("2026-04-30 08:00"))
    assert (before.note, after.note) == (SlotNote.SHORT_MONTH, SlotNote.SHORT_MONTH)
    assert slot_before(monthly(31, "08:00"), utc, current, slots_after=before.slot_at) is None
    assert slot_before(once("2026-06-01", "08:00"), utc, current) is None
    assert slot_before(once("1999-06-01", "08:00"), utc, current) is not None
    assert slot_after(once("1999-06-01", "08:00"), utc, current) is None


@pytest.mark.parametrize("schedule", _EVERY_CADENCE, ids=lambda schedule: schedule.cadence)
def test_a_slot_is_found_again_by_its_key(schedule: Schedule) -> None:
    """Finds each slot by its local key of 16 characters, unless it is not after `slots_after`.

    See docs/design/schedule.md#terms and docs/design/storage.md#main-tables.
    """
    zone = place("America/New_York")
    for slot in next_slots(schedule, zone, spread_minutes=4, after=at("2026-05-01 00:00"), count=3):
        assert len(slot.local_key) == 16
        assert key_instant(schedule.cadence, zone, slot.local_key) == slot.nominal_at
        assert slot_of_key(schedule, zone, slot.local_key, spread_minutes=4) == slot
        since = slot.nominal_at
        assert slot_of_key(schedule, zone, slot.local_key, spread_minutes=4, slots_after=since) is None


def test_both_passes_of_a_full_hour_have_keys_of_their_own() -> None:
    """Gives both passes of an hour their own keys, since the key of `hourly` is the nominal instant.

    See docs/design/schedule.md#terms.
    """
    slots = next_slots(
        _HOURLY, place("America/New_York"), spread_minutes=0, after=at("2026-11-01 04:30"), count=2
    )
    assert [slot.local_key for slot in slots] == ["2026-11-01T05:00", "2026-11-01T06:00"]


def test_the_key_of_a_day_that_was_skipped_is_nobodys() -> None:
    """Finds no slot for the date that Apia skipped; its instant belongs to the later date (R8)."""
    apia = place("Pacific/Apia")
    assert slot_of_key(daily("08:00"), apia, "2011-12-30T08:00", spread_minutes=0) is None
    slot = slot_of_key(daily("08:00"), apia, "2011-12-31T08:00", spread_minutes=0)
    assert slot is not None
    assert slot.slot_at == at("2011-12-30 18:00")


def test_a_slot_is_found_by_its_nominal_date() -> None:
    """Finds the slot by its nominal date although its instant is on the next day.

    See docs/design/schedule.md#calendar.
    """
    nuuk = place("America/Nuuk")
    saturday = at("2026-03-28 00:00").date()
    slot = slot_on(daily("23:30"), nuuk, saturday, spread_minutes=5)
    assert slot is not None
    assert slot.slot_at == at("2026-03-29 01:35")
    assert slot_on(weekly(5, "23:30"), nuuk, saturday, spread_minutes=5) is None
    assert slot_on(_HOURLY, nuuk, saturday, spread_minutes=5) is None


def test_a_gap_comes_before_a_short_month_in_the_note() -> None:
    """Notes a gap rather than a short month: Cairo's night to 30 April 2010 lost its first hour.

    See docs/design/schedule.md#calendar.
    """
    slots = next_slots(
        monthly(31, "00:30"), place("Africa/Cairo"), spread_minutes=0, after=at("2010-02-01 00:00"), count=3
    )
    assert [(slot.local_key, slot.note) for slot in slots] == [
        ("2010-02-28T00:30", SlotNote.SHORT_MONTH),
        ("2010-03-31T00:30", None),
        ("2010-04-30T00:30", SlotNote.GAP),
    ]


@pytest.mark.parametrize("schedule", _EVERY_CADENCE, ids=lambda schedule: schedule.cadence)
@pytest.mark.parametrize("name", ["Pacific/Kiritimati", "Pacific/Niue", "UTC"])
def test_slots_end_quietly_with_the_calendar(name: str, schedule: Schedule) -> None:
    """Ends without raising at the year 9999, the last one that timestamps can have.

    See docs/design/api/conventions.md#requests.
    """
    last = datetime.max.replace(tzinfo=UTC)
    for before_the_end in (timedelta(0), timedelta(days=4), timedelta(days=40)):
        slots = next_slots(schedule, place(name), spread_minutes=9, after=last - before_the_end, count=2_000)
        assert all(slot.slot_at.year == 9999 for slot in slots)
    first = next_slot(schedule, place(name), spread_minutes=9, after=at("1970-01-01 00:00"))
    assert first is not None


def test_the_spread_follows_the_id_and_stays_inside_its_bounds() -> None:
    """Spreads automations evenly from 0 to STEWARD_SPREAD_MAX minutes by their id (R7)."""
    ids = [f"01KAGQ3W8ZJ4T6V9X2B5C7{number:04}" for number in range(1_000)]
    counts = [0] * 10
    for automation_id in ids:
        counts[spread_minutes(automation_id, 9)] += 1
        assert spread_minutes(automation_id, 0) == 0
        assert spread_minutes(automation_id, 1) in (0, 1)
    assert sum(counts) == 1_000
    assert min(counts) > 60
