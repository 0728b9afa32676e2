"""Compares slots of all cadences in all zones with those of a walk along the local clock.

`STEWARD_SLOT_CASES` sets the number of random cases (default 500) and `STEWARD_SLOT_SEED` the seed.
"""

import os
import random
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from steward.model.schedule import Cadence, Schedule, SlotNote
from steward.scheduling.slots import Slot, next_slots, slot_after, slot_before, slots
from steward.scheduling.zones import zone_names
from tests.scheduling.shorthand import at, daily, place
from tests.scheduling.walk import every_minute, expected_slots, stretches

_CASES = int(os.environ.get("STEWARD_SLOT_CASES", "500"))
_SEED = os.environ.get("STEWARD_SLOT_SEED", "steward")
_DAY = timedelta(days=1)
_YEARS = range(1990, 2050)
_TURNS = ("Pacific/Apia", "Pacific/Kwajalein", "Pacific/Enderbury", "Asia/Pyongyang", "America/Caracas",
          "Australia/Lord_Howe", "Antarctica/Troll", "America/Nuuk", "Africa/Casablanca")  # fmt: skip


def test_slots_are_those_of_a_walk_along_the_local_clock() -> None:
    """Gives the same slots in random cases of rules R1 to R12, half of them around a change of the clock."""
    draw = random.Random(_SEED)
    names = sorted(zone_names())
    draw.shuffle(names)
    for number in range(_CASES):
        name = names[number % len(names)]
        zone = place(name)
        case = f"case {number} of seed {_SEED}: {name}"
        middle = _middle(draw, name) if number % 2 else _somewhere(draw)
        schedule = _schedule(draw, middle, zone)
        long = schedule.cadence is Cadence.MONTHLY
        after = middle - timedelta(minutes=draw.randrange(40 if long else 3) * 1440 + draw.randrange(1440))
        until = after + timedelta(days=80 if long else 9, seconds=draw.randrange(86_400))
        _assert_same_slots(schedule, zone, after, until, draw.randrange(10), case)


@pytest.mark.parametrize("cadence", [Cadence.HOURLY, Cadence.EVERY_6_HOURS, Cadence.DAILY])
@pytest.mark.parametrize("name", _TURNS)
def test_slots_are_those_seen_by_looking_at_the_clock_each_minute(name: str, cadence: Cadence) -> None:
    """Gives the slots that a look at every minute gives around odd changes of the clock, as the walk does."""
    zone = place(name)
    draw = random.Random(f"{_SEED} {name} {cadence}")
    change = draw.choice(_changes(name, 1990, 40))
    local = (change - timedelta(minutes=draw.randrange(-60, 120))).astimezone(zone)
    schedule = Schedule(cadence, f"{local:%H:%M}" if cadence is Cadence.DAILY else None)
    after, until = change - 2 * _DAY, change + 2 * _DAY
    seen = every_minute(schedule, zone, after, until)
    assert [slot.nominal_at for slot in _slots(schedule, zone, after, until)] == seen
    assert [instant for instant, _ in expected_slots(schedule, zone, after, until)] == seen


def test_a_jump_of_half_an_hour_at_half_past_loses_no_full_hour() -> None:
    """Yields a slot for each full hour in Pyongyang, where 23:30 became 00:00 in 2018 (R1)."""
    slots = next_slots(
        Schedule(Cadence.HOURLY),
        place("Asia/Pyongyang"),
        spread_minutes=0,
        after=at("2018-05-04 14:29"),
        count=3,
    )
    assert [slot.slot_at for slot in slots] == [
        at("2018-05-04 14:30"),
        at("2018-05-04 15:00"),
        at("2018-05-04 16:00"),
    ]


def test_a_skipped_day_gives_each_instant_one_slot_with_the_later_date() -> None:
    """Yields one slot under the later date for the day that Apia skipped, 30 December 2011 (R8)."""
    slots = _slots(daily("08:00"), place("Pacific/Apia"), at("2011-12-29 00:00"), at("2012-01-01 00:00"))
    assert [slot.local_key for slot in slots] == [
        "2011-12-29T08:00",
        "2011-12-31T08:00",
        "2012-01-01T08:00",
    ]
    assert [slot.note for slot in slots] == [None, None, None]


def test_notes_are_gap_at_a_time_never_shown_and_fold_at_one_shown_twice() -> None:
    """Notes a skipped time as a gap and a repeated one as a fold, in every zone that changes its clock.

    See docs/design/schedule.md#calendar.
    """
    noted = 0
    for name in sorted(zone_names()):
        for change in _changes(name, 2027, 1):
            zone = place(name)
            clock = stretches(zone, change - _DAY, change + _DAY)
            if len(clock) != 2:
                continue
            jump = clock[1].ahead - clock[0].ahead
            inside = change + (clock[0].ahead if jump > timedelta(0) else clock[1].ahead)
            [slot] = [
                slot
                for slot in _slots(daily(f"{inside:%H:%M}"), zone, change - _DAY, change + _DAY)
                if slot.local_key == f"{inside:%Y-%m-%dT%H:%M}"
            ]
            assert slot.note is (SlotNote.GAP if jump > timedelta(0) else SlotNote.FOLD), name
            noted += 1
    assert noted > 100


def _assert_same_slots(
    schedule: Schedule, zone: ZoneInfo, after: datetime, until: datetime, spread_minutes: int, case: str
) -> None:
    spread = timedelta(minutes=spread_minutes)
    expected = expected_slots(schedule, zone, after - spread, until - spread)
    listed_slots = list(slots(schedule, zone, spread_minutes=spread_minutes, after=after, until=until))
    assert [(slot.nominal_at, slot.local_key) for slot in listed_slots] == expected, f"{case} {schedule}"
    assert all(slot.slot_at == slot.nominal_at + spread for slot in listed_slots), case
    first = next_slots(schedule, zone, spread_minutes=spread_minutes, after=after, count=2)
    assert first[: len(listed_slots)] == listed_slots[:2], case
    for earlier, later in pairwise(listed_slots):
        assert slot_before(schedule, zone, later.nominal_at) == _unspread(earlier), f"{case} {schedule}"
        assert slot_after(schedule, zone, earlier.nominal_at) == _unspread(later), f"{case} {schedule}"
    if listed_slots:  # R15: a slot that is not after `slots_after` does not exist
        since = listed_slots[0].nominal_at
        remaining = slots(
            schedule, zone, spread_minutes=spread_minutes, after=after, until=until, slots_after=since
        )
        assert list(remaining) == listed_slots[1:], case


def _unspread(slot: Slot) -> Slot:
    return Slot(slot.nominal_at, slot.nominal_at, slot.local_key, slot.note)


def _slots(schedule: Schedule, zone: ZoneInfo, after: datetime, until: datetime) -> list[Slot]:
    return list(slots(schedule, zone, spread_minutes=0, after=after, until=until))


def _middle(draw: random.Random, name: str) -> datetime:
    return draw.choice(_changes(name, draw.choice(_YEARS), 2) or [_somewhere(draw)])


def _somewhere(draw: random.Random) -> datetime:
    return datetime(draw.choice(_YEARS), 1, 1, tzinfo=UTC) + timedelta(minutes=draw.randrange(525_600))


@cache
def _changes(name: str, first_year: int, years: int) -> list[datetime]:
    """Returns when the zone's clock changed, looking every week; a change there and back may be missed."""
    zone = place(name)
    changes = []
    week = datetime(first_year, 1, 1, tzinfo=UTC)
    while week.year < first_year + years:
        if week.astimezone(zone).utcoffset() != (week + 7 * _DAY).astimezone(zone).utcoffset():
            changes.append(stretches(zone, week, week + 7 * _DAY)[0].end)
        week += 7 * _DAY
    return changes


def _schedule(draw: random.Random, middle: datetime, zone: ZoneInfo) -> Schedule:
    cadence = draw.choice([cadence for cadence in Cadence if cadence is not Cadence.MANUAL])
    local = (middle + timedelta(minutes=draw.randrange(-180, 180))).astimezone(zone)
    near = f"{local:%H:%M}"  # near the change of the clock
    anywhere = f"{draw.randrange(24):02}:{draw.randrange(60):02}"
    time_of_day = draw.choice([near, near, f"{local:%H}:00", anywhere])
    match cadence:
        case Cadence.HOURLY | Cadence.EVERY_6_HOURS:
            return Schedule(cadence)
        case Cadence.WEEKLY:
            return Schedule(cadence, time_of_day, day_of_week=draw.choice([local.isoweekday(), 1, 7]))
        case Cadence.WEEKDAYS:
            days = tuple(draw.sample(range(1, 8), draw.randrange(1, 8)))
            return Schedule(cadence, time_of_day, days=draw.choice([days, days, None]))
        case Cadence.ONCE:
            return Schedule(cadence, time_of_day, date=f"{local:%Y-%m-%d}")
        case Cadence.MONTHLY if draw.randrange(2):
            return Schedule(cadence, time_of_day, day_of_month=draw.choice([local.day, 29, 30, 31]))
        case Cadence.MONTHLY:
            weekday, week = draw.choice([local.isoweekday(), 7]), draw.choice([1, 2, 3, 4, -1, -1])
            return Schedule(cadence, time_of_day, day_of_week=weekday, week_of_month=week)
    return Schedule(cadence, time_of_day)
