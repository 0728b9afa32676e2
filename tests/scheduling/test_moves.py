"""Tests moving one run, or it and every later one: limits, the new schedule, no slot lost or doubled."""

import random
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from steward.model.refusals import ValidationFailed
from steward.model.schedule import MANUAL, MONDAY_TO_FRIDAY, Cadence, Schedule
from steward.scheduling.moves import MovedSchedule, check_this, move_this_and_later
from steward.scheduling.slots import Slot, next_slots, slot_of_key
from tests.scheduling.shorthand import at, daily, monthly, monthly_by_week, once, place, weekdays, weekly

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Nuuk",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Antarctica/Troll",
    "Pacific/Kiritimati",
    "Africa/Casablanca",
    "America/Santiago",
)


def _move(
    schedule: Schedule,
    key: str,
    to: datetime,
    *,
    zone: str = "UTC",
    now: datetime,
    slots_after: datetime | None = None,
    stored: dict[datetime, datetime] | None = None,
) -> MovedSchedule:
    return move_this_and_later(
        schedule,
        place(zone),
        key,
        new_run_at=to,
        now=now,
        slots_after=slots_after,
        stored=stored or {},
    )


def _refused_field(schedule: Schedule, key: str, to: datetime, now: datetime) -> str:
    with pytest.raises(ValidationFailed) as refused:
        _move(schedule, key, to, now=now)
    [field] = refused.value.errors or {}
    return field


def test_one_run_moves_to_any_time_from_now_to_366_days_ahead() -> None:
    """Accepts whole seconds from now to 366 days ahead, and drops the fraction.

    See docs/design/schedule.md#moving-one-run.

    Interface statements: 4.2 rule 3.
    """
    now, present = at("2026-01-10 12:00:00.500"), at("2026-01-11 08:00")
    far = now + timedelta(days=366)
    for to in (at("2026-01-10 12:00:01"), at("2026-01-10 12:00:01.999"), far):
        assert check_this(to, now=now, present_run_at=present, occupied=()) == to.replace(microsecond=0)
    for wrong in (at("2026-01-10 12:00:00.999"), now, now - _DAY, far + timedelta(seconds=1)):
        with pytest.raises(ValidationFailed) as refused:
            check_this(wrong, now=now, present_run_at=present, occupied=())
        assert list(refused.value.errors or {}) == ["run_at"]


def test_one_run_does_not_move_onto_another_but_may_stay_where_it_is() -> None:
    """Refuses another run's exact instant; one second beside it and the run's own instant are allowed.

    See docs/design/schedule.md#moving-one-run.
    """
    now, present, other = at("2026-01-10 12:00"), at("2026-01-11 08:00"), at("2026-01-12 08:00")
    for used in ({other}, {other, present}):
        assert check_this(present, now=now, present_run_at=present, occupied=used) == present
        near = other + timedelta(seconds=1)
        assert check_this(near, now=now, present_run_at=present, occupied=used) == near
        with pytest.raises(ValidationFailed, match="Another run"):
            check_this(other, now=now, present_run_at=present, occupied=used)


def test_this_and_later_takes_whole_minutes_from_now_to_366_days_ahead() -> None:
    """Accepts whole minutes from now to 366 days ahead; refuses others with an error on `run_at`.

    See docs/design/schedule.md#moving-this-and-later.
    """
    schedule, key = once("2026-06-01", "08:00"), "2026-06-01T08:00"
    now = at("2026-01-10 12:00:30")
    far = at("2027-01-11 12:00")
    assert far - now < timedelta(days=366)
    for to in (at("2026-01-10 12:01"), far):
        assert _move(schedule, key, to, now=now).slots_after == to
    for wrong in (
        at("2026-01-10 12:00"),
        far + _MINUTE,
        at("2026-01-11 12:00:01"),
        far.replace(microsecond=1),
    ):
        assert _refused_field(schedule, key, wrong, now) == "run_at"
    exactly = at("2026-01-10 12:00")
    assert _refused_field(schedule, key, exactly, exactly) == "run_at"
    assert _move(schedule, key, exactly + timedelta(days=366), now=exactly).schedule.date == "2027-01-11"


@pytest.mark.parametrize("cadence", [Cadence.HOURLY, Cadence.EVERY_6_HOURS])
def test_hourly_cadences_do_not_move_as_a_whole(cadence: Cadence) -> None:
    """Refuses the scope for hourly cadences, before it looks at `run_at`.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    now = at("2026-01-10 12:00")
    for to in (at("2026-01-10 13:00"), now - _DAY):
        assert _refused_field(Schedule(cadence), "2026-01-10T18:00", to, now) == "scope"


def test_a_schedule_without_slots_has_none_to_move() -> None:
    """Refuses a move on a manual schedule with an error on `slot_at`.

    See docs/design/schedule.md#order-of-checks-of-an-edit.
    """
    now = at("2026-01-10 12:00")
    assert _refused_field(MANUAL, "2026-01-10T18:00", at("2026-01-10 13:00"), now) == "slot_at"


@pytest.mark.parametrize(
    ("schedule", "key", "before", "after"),
    [
        (daily("08:00"), "2026-01-15T08:00", "2026-01-14 08:00", "2026-01-16 08:00"),
        (weekdays(None, "08:00"), "2026-01-16T08:00", "2026-01-15 08:00", "2026-01-19 08:00"),
        (weekly(2, "08:00"), "2026-01-13T08:00", "2026-01-06 08:00", "2026-01-20 08:00"),
        (monthly(31, "08:00"), "2026-02-28T08:00", "2026-01-31 08:00", "2026-03-31 08:00"),
        (monthly_by_week(-1, 5, "08:00"), "2026-02-27T08:00", "2026-01-30 08:00", "2026-03-27 08:00"),
    ],
)
def test_this_and_later_stays_strictly_between_its_neighbours(
    schedule: Schedule, key: str, before: str, after: str
) -> None:
    """Refuses a time at or beyond the slots before and after, and accepts one a minute within them.

    See docs/design/schedule.md#moving-this-and-later.
    """
    now = at("2026-01-01 00:00")
    for wrong in (at(before), at(before) - _MINUTE, at(after), at(after) + _MINUTE):
        assert _refused_field(schedule, key, wrong, now) == "run_at"
    for right in (at(before) + _MINUTE, at(after) - _MINUTE):
        assert _move(schedule, key, right, now=now).slots_after == right


def test_a_slot_that_does_not_exist_is_no_neighbour() -> None:
    """Allows any time from now on before the first slot, since slots before it do not exist (R15)."""
    now = since = at("2026-01-12 12:00")
    to = at("2026-01-12 12:01")
    moved = _move(weekly(4, "08:00"), "2026-01-15T08:00", to, now=now, slots_after=since)
    assert moved.schedule == weekly(1, "12:01")


def test_a_stored_row_is_a_neighbour_as_much_as_a_generated_slot() -> None:
    """Does not move a run onto or before a stored run, whose row keeps its slot_at.

    See docs/design/schedule.md#moving-this-and-later.
    """
    now, first = at("2026-01-12 12:00"), at("2026-01-15 10:00")
    moved = _move(weekly(2, "08:00"), "2026-01-13T08:00", first, now=now)
    assert (moved.schedule, moved.local_key) == (weekly(4, "10:00"), "2026-01-15T10:00")
    stored = {at("2026-01-13 08:00"): first}  # the moved row keeps its slot_at
    key = "2026-01-22T10:00"
    with pytest.raises(ValidationFailed, match="after the run before"):
        _move(moved.schedule, key, first, now=now, slots_after=first, stored=stored)
    again = _move(moved.schedule, key, first + _MINUTE, now=now, slots_after=first, stored=stored)
    assert again.schedule == weekly(4, "10:01")
    # The moved row itself, moved once more, starts from its new time.
    back = _move(
        moved.schedule, moved.local_key, at("2026-01-16 10:00"), now=now, slots_after=first, stored=stored
    )
    assert back.schedule == weekly(5, "10:00")


@pytest.mark.parametrize(
    ("schedule", "key", "to", "changed"),
    [
        (daily("23:00"), "2026-01-15T23:00", "2026-01-16 01:00", daily("01:00")),
        (weekdays(None, "08:00"), "2026-01-16T08:00", "2026-01-16 09:00", weekdays(None, "09:00")),
        (weekdays((5, 3), "08:00"), "2026-01-16T08:00", "2026-01-16 09:00", weekdays((5, 3), "09:00")),
        (weekdays((5, 3), "08:00"), "2026-01-16T08:00", "2026-01-20 09:00", weekdays((2, 3), "09:00")),
        (weekdays((6, 7), "08:00"), "2026-01-17T08:00", "2026-01-16 08:00", weekdays((5, 7), "08:00")),
        (weekly(2, "08:00"), "2026-01-13T08:00", "2026-01-13 07:00", weekly(2, "07:00")),
        (monthly(31, "08:00"), "2026-02-28T08:00", "2026-02-27 08:00", monthly(27, "08:00")),
        (monthly(31, "08:00"), "2026-02-28T08:00", "2026-03-02 08:00", monthly(2, "08:00")),
        (
            monthly_by_week(2, 2, "08:00"),
            "2026-01-13T08:00",
            "2026-01-29 08:00",
            monthly_by_week(-1, 4, "08:00"),
        ),
        (
            monthly_by_week(2, 2, "08:00"),
            "2026-01-13T08:00",
            "2026-01-28 08:00",
            monthly_by_week(4, 3, "08:00"),
        ),
        (
            monthly_by_week(-1, 5, "08:00"),
            "2026-01-30T08:00",
            "2026-01-24 08:00",
            monthly_by_week(4, 6, "08:00"),
        ),
        (
            monthly_by_week(-1, 5, "08:00"),
            "2026-01-30T08:00",
            "2026-01-25 08:00",
            monthly_by_week(-1, 7, "08:00"),
        ),
        (
            monthly_by_week(-1, 5, "08:00"),
            "2026-01-30T08:00",
            "2026-01-30 09:00",
            monthly_by_week(-1, 5, "09:00"),
        ),
        (
            monthly_by_week(4, 5, "08:00"),
            "2026-02-27T08:00",
            "2026-02-28 08:00",
            monthly_by_week(4, 6, "08:00"),
        ),
        (once("2026-01-15", "08:00"), "2026-01-15T08:00", "2026-01-15 09:00", once("2026-01-15", "09:00")),
    ],
)
def test_the_schedule_follows_the_moved_run(schedule: Schedule, key: str, to: str, changed: Schedule) -> None:
    """Changes the time, weekday, day of the month or week of the schedule to those of the moved run.

    See docs/design/schedule.md#moving-this-and-later.
    """
    moved = _move(schedule, key, at(to), now=at("2026-01-01 00:00"))
    assert moved.schedule == changed
    assert moved.slots_after == at(to)
    assert moved.local_key == to.replace(" ", "T")


def test_the_second_pass_of_a_fold_is_kept_as_its_local_time() -> None:
    """Keeps the local time of a second pass; later slots are first passes, and this one does not run again.

    See docs/design/schedule.md#moving-this-and-later.
    """
    zone, to = "America/New_York", at("2026-11-01 06:30")
    now = at("2026-10-31 00:00")
    moved = _move(daily("08:00"), "2026-11-01T08:00", to, zone=zone, now=now)
    assert (moved.schedule, moved.local_key) == (daily("01:30"), "2026-11-01T01:30")
    [later] = next_slots(
        moved.schedule, place(zone), spread_minutes=0, after=now, count=1, slots_after=moved.slots_after
    )
    assert later.slot_at == at("2026-11-02 06:30")


def test_no_slot_is_lost_or_doubled_wherever_this_and_later_goes() -> None:
    """Keeps every earlier, moved and later run in order over 400 random moves.

    See docs/design/schedule.md#moving-this-and-later.
    """
    draw = random.Random("moves")
    for number in range(400):
        zone = place(draw.choice(_ZONES))
        now = at("2026-01-01 00:00") + timedelta(minutes=draw.randrange(1_000_000))
        schedule = _any_schedule(draw)
        old = next_slots(schedule, zone, spread_minutes=0, after=now, count=9)
        chosen = draw.randrange(1, 5)
        low, high = old[chosen - 1].nominal_at, old[chosen + 1].nominal_at
        to = low + draw.randrange(1, (high - low) // _MINUTE) * _MINUTE
        moved = move_this_and_later(
            schedule, zone, old[chosen].local_key, new_run_at=to, now=now, slots_after=now, stored={}
        )
        later = next_slots(
            moved.schedule, zone, spread_minutes=0, after=now, count=6, slots_after=moved.slots_after
        )
        case = f"case {number}: {zone.key}, {schedule}, {old[chosen]} to {to} gives {moved}"
        union = [slot.nominal_at for slot in old[:chosen]] + [to] + [slot.nominal_at for slot in later]
        assert all(earlier < then for earlier, then in pairwise(union)), case
        _is_followed_step_by_step(moved, zone, later, to, case)
        if moved.local_key[:10] == old[chosen].local_key[:10]:  # only the time has changed: the same dates
            assert [slot.nominal_on for slot in later[:3]] == [
                slot.nominal_on for slot in old[chosen + 1 :][:3]
            ], case


def _is_followed_step_by_step(
    moved: MovedSchedule, zone: ZoneInfo, later: list[Slot], to: datetime, case: str
) -> None:
    """Checks that the moved run is a slot of the new schedule, and each later slot the next one after it."""
    own_slot = slot_of_key(moved.schedule, zone, moved.local_key, spread_minutes=0)
    assert own_slot is not None, case
    assert to - own_slot.nominal_at in (
        timedelta(0),
        timedelta(minutes=30),
        timedelta(hours=1),
        timedelta(hours=2),
    )
    dates = [own_slot.nominal_on] + [slot.nominal_on for slot in later]
    for day, then in pairwise(dates):
        assert then == _next_date(moved.schedule, day), case


def _next_date(schedule: Schedule, day: date) -> date:
    match schedule.cadence:
        case Cadence.WEEKLY:
            return day + 7 * _DAY
        case Cadence.WEEKDAYS:
            named = schedule.days or MONDAY_TO_FRIDAY
            return next(day + n * _DAY for n in range(1, 8) if (day + n * _DAY).isoweekday() in named)
        case Cadence.MONTHLY:
            first = (day.replace(day=1) + 32 * _DAY).replace(day=1)
            month = [first + n * _DAY for n in range(31) if (first + n * _DAY).month == first.month]
            if schedule.week_of_month is None:
                return month[min(schedule.day_of_month or 0, len(month)) - 1]
            same = [then for then in month if then.isoweekday() == schedule.day_of_week]
            return same[-1] if schedule.week_of_month == -1 else same[schedule.week_of_month - 1]
    return day + _DAY


def _any_schedule(draw: random.Random) -> Schedule:
    time_of_day = f"{draw.randrange(24):02}:{draw.randrange(60):02}"
    plain = draw.choice(
        [
            daily(""),
            weekly(draw.randrange(1, 8), ""),
            weekdays(None, ""),
            weekdays(tuple(draw.sample(range(1, 8), draw.randrange(1, 8))), ""),
            monthly(draw.choice([1, 15, 28, 29, 30, 31]), ""),
            monthly_by_week(draw.choice([1, 2, 3, 4, -1]), draw.randrange(1, 8), ""),
        ]
    )
    return replace(plain, time_of_day=time_of_day)
