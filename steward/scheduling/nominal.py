"""The local dates and times that a schedule names; `slots.py` handles zones and clock changes."""

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, time, timedelta
from functools import lru_cache
from typing import TypeVar

from steward.model.schedule import MONDAY_TO_FRIDAY, Cadence, Schedule

_T = TypeVar("_T")

# The last date that lies within the instants of every zone (see zones.LAST).
LAST_DAY = date(9999, 12, 29)
_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_SIX_HOURLY = (time(0), time(6), time(12), time(18))


def times_of(schedule: Schedule) -> tuple[time, ...]:
    """Returns the local times of day for every date of the schedule (R2)."""
    if schedule.cadence is Cadence.EVERY_6_HOURS:
        return _SIX_HOURLY
    if schedule.time_of_day is None:
        raise ValueError(f"a {schedule.cadence} schedule has no time of day")
    return (clock_time(schedule.time_of_day),)


@lru_cache(maxsize=1440)
def clock_time(text: str) -> time:
    """Parses a time of day `HH:MM`."""
    return time(int(text[:2]), int(text[3:]))


def dates_of(schedule: Schedule, since: date) -> Iterator[date]:
    """Yields the schedule's dates from `since` on, ascending; `once` yields its date even before `since`.

    Not for `hourly` and `manual`, which have no dates.
    """
    match schedule.cadence:
        case Cadence.ONCE:
            yield date.fromisoformat(_need(schedule.date))
        case Cadence.MONTHLY:
            yield from _monthly(schedule, since)
        case Cadence.WEEKLY:
            ahead = (_need(schedule.day_of_week) - since.isoweekday()) % 7
            yield from _every(since + ahead * _DAY, _WEEK)
        case Cadence.WEEKDAYS:
            named = frozenset(schedule.days or MONDAY_TO_FRIDAY)
            yield from (day for day in _every(since, _DAY) if day.isoweekday() in named)
        case Cadence.DAILY | Cadence.EVERY_6_HOURS:
            yield from _every(since, _DAY)
        case Cadence.HOURLY | Cadence.MANUAL:
            raise ValueError(f"a {schedule.cadence} schedule names no dates")


def day_of_year(text: str | None, year: int) -> date:
    """Returns the date `MM-DD` of a year, or the month's last day if the month is too short (R6)."""
    month_and_day = _need(text)
    month, day = int(month_and_day[:2]), int(month_and_day[3:])
    return date(year, month, min(day, monthrange(year, month)[1]))


def is_shortened(schedule: Schedule, day: date) -> bool:
    """Returns whether `day` replaces a later day that its month lacks (R6)."""
    if schedule.cadence is not Cadence.MONTHLY or schedule.week_of_month is not None:
        return False
    return _need(schedule.day_of_month) > day.day


def _every(day: date, step: timedelta) -> Iterator[date]:
    while day <= LAST_DAY:
        yield day
        day += step


def _monthly(schedule: Schedule, since: date) -> Iterator[date]:
    year, month = since.year, since.month
    while year <= LAST_DAY.year:
        day = _in_month(schedule, year, month)
        if day > LAST_DAY:
            return
        if day >= since:
            yield day
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)


def _in_month(schedule: Schedule, year: int, month: int) -> date:
    _, length = monthrange(year, month)
    week = schedule.week_of_month
    if week is None:
        return date(year, month, min(_need(schedule.day_of_month), length))  # R6
    weekday = _need(schedule.day_of_week)
    if week == -1:
        last = date(year, month, length)
        return last - ((last.isoweekday() - weekday) % 7) * _DAY
    first = date(year, month, 1)
    return first + ((weekday - first.isoweekday()) % 7) * _DAY + (week - 1) * _WEEK


def _need(value: _T | None) -> _T:
    if value is None:
        raise ValueError("the schedule lacks a field its cadence needs")
    return value
