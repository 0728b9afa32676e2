"""Parses a schedule into a Schedule or into errors by field."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

from steward.model.schedule import FIELDS, Cadence, Schedule
from steward.scheduling.nominal import LAST_DAY, clock_time
from steward.scheduling.words import day_words
from steward.scheduling.zones import FIRST, LAST, instant_of

_T = TypeVar("_T")

FieldErrors = dict[str, list[str]]

_DAYS_AHEAD = 1_826  # five years (docs/design/schedule.md#shape)

_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMED = frozenset({Cadence.ONCE, Cadence.DAILY, Cadence.WEEKDAYS, Cadence.WEEKLY, Cadence.MONTHLY})
_LARGEST = 2**53 - 1
_CADENCES = {cadence.value: cadence for cadence in Cadence}

NOT_BY_EVENTS = "Store events start this automation, not a schedule. Set the cadence to manual."
_CADENCE_WORDS = f"Choose one of {', '.join(Cadence)}."
_TIME_WORDS = "Give the time of day as HH:MM, 00:00 to 23:59, for example 08:00."
_WEEKDAY_WORDS = "Give a whole number from 1 (Monday) to 7 (Sunday)."
_MONTHDAY_WORDS = "Give a whole number from 1 to 31."
_WEEK_WORDS = "Give 1, 2, 3 or 4, or -1 for the last such weekday of the month."
_DATE_WORDS = "Give a day of the calendar as YYYY-MM-DD, for example 2026-11-20."
_DAYS_WORDS = "Give a list of 1 to 7 whole numbers from 1 (Monday) to 7 (Sunday), none of them twice."


@dataclass(slots=True)
class _ScheduleFields:
    """A schedule's fields as sent, with the path of the schedule and the errors found so far."""

    path: str
    sent: Mapping[str, object]
    errors: FieldErrors = field(default_factory=dict)

    def refuse(self, name: str, words: str) -> None:
        self.errors.setdefault(f"{self.path}.{name}", []).append(words)

    def refuse_unknown(self) -> None:
        for name in self.sent:
            if name not in FIELDS:
                self.refuse(str(name), f"A schedule has no such field. It has {', '.join(FIELDS)}.")

    def is_sent(self, name: str) -> bool:
        return self.sent.get(name) is not None

    def is_valid(self, name: str) -> bool:
        return self.is_sent(name) and f"{self.path}.{name}" not in self.errors

    def parse(self, name: str, read: Callable[[object], _T | None], words: str) -> _T | None:
        """Returns the field's value; None if it is absent, null or refused."""
        value = self.sent.get(name)
        if value is None:
            return None
        parsed = read(value)
        if parsed is None:
            self.refuse(name, words)
        return parsed

    def require(self, name: str, words: str) -> None:
        if not self.is_sent(name):
            self.refuse(name, words)


def read_schedule(
    sent: object,
    *,
    zone: ZoneInfo | None,
    now: datetime,
    is_event_started: bool = False,
    path: str = "schedule",
) -> Schedule | FieldErrors:
    """Parses the schedule in `sent`; returns all errors by dotted path if it is invalid.

    Fields that the cadence does not use are dropped if they are well-formed. `zone` is None if the zone sent
    with it is refused; checks that depend on the zone are then skipped. With `is_event_started` the cadence
    must be `manual` (R12).
    """
    if not isinstance(sent, Mapping):
        return {path: [f"Give the schedule as an object with these fields: {', '.join(FIELDS)}."]}
    schedule_fields = _ScheduleFields(path, sent)
    schedule_fields.refuse_unknown()
    cadence = schedule_fields.parse("cadence", _cadence, _CADENCE_WORDS)
    schedule_fields.require("cadence", _CADENCE_WORDS)
    schedule = Schedule(
        cadence=cadence or Cadence.MANUAL,
        time_of_day=schedule_fields.parse("run_at", _time_of_day, _TIME_WORDS),
        day_of_week=schedule_fields.parse("day_of_week", _weekday, _WEEKDAY_WORDS),
        day_of_month=schedule_fields.parse("day_of_month", _monthday, _MONTHDAY_WORDS),
        date=schedule_fields.parse("date", _date, _DATE_WORDS),
        days=schedule_fields.parse("days", _days, _DAYS_WORDS),
        week_of_month=schedule_fields.parse("week_of_month", _week_of_month, _WEEK_WORDS),
    )
    if cadence is not None:
        _check_required(schedule_fields, cadence)
        if cadence is Cadence.ONCE and zone is not None:
            _check_once(schedule_fields, schedule, zone, now)
        if is_event_started and cadence is not Cadence.MANUAL:  # R12
            schedule_fields.refuse("cadence", NOT_BY_EVENTS)
    return schedule_fields.errors or _used(schedule)


def has_passed(schedule: Schedule, zone: ZoneInfo, now: datetime) -> bool:
    """Returns whether the time of a `once` schedule is over, ignoring spread (R11); else False."""
    if schedule.cadence is not Cadence.ONCE or schedule.date is None or schedule.time_of_day is None:
        return False
    day = date.fromisoformat(schedule.date)
    if not FIRST.date() < day <= LAST_DAY:  # not an instant in any zone
        return day <= FIRST.date()
    return instant_of(day, clock_time(schedule.time_of_day), zone)[0] <= now


def _check_required(schedule_fields: _ScheduleFields, cadence: Cadence) -> None:
    """Adds an error for each missing field that the cadence requires."""
    if cadence in _TIMED:
        schedule_fields.require("run_at", _TIME_WORDS)
    if cadence is Cadence.ONCE:
        schedule_fields.require("date", _DATE_WORDS)
    if cadence is Cadence.WEEKLY:
        schedule_fields.require("day_of_week", _WEEKDAY_WORDS)
    if cadence is not Cadence.MONTHLY:
        return
    if not schedule_fields.is_sent("week_of_month"):
        schedule_fields.require(
            "day_of_month", f"{_MONTHDAY_WORDS} Or give week_of_month and day_of_week instead."
        )
        return
    schedule_fields.require("day_of_week", _WEEKDAY_WORDS)
    if schedule_fields.is_sent("day_of_month"):
        schedule_fields.refuse("day_of_month", "Give either day_of_month or week_of_month, not both.")


def _check_once(schedule_fields: _ScheduleFields, schedule: Schedule, zone: ZoneInfo, now: datetime) -> None:
    """Adds an error if the date of `once` is past or too far ahead."""
    if not schedule_fields.is_valid("date") or schedule.date is None:
        return
    today = min(now, LAST).astimezone(zone).date()
    day = date.fromisoformat(schedule.date)
    if (day - today).days > _DAYS_AHEAD or day > LAST_DAY:
        latest = min(LAST_DAY - today, timedelta(days=_DAYS_AHEAD)) + today
        schedule_fields.refuse("date", f"This is too far ahead. Give a day up to {day_words(latest)}.")
    elif schedule_fields.is_valid("run_at") and has_passed(schedule, zone, now):
        schedule_fields.refuse(
            "date", "This day and time have already passed. Give a later day or time of day."
        )


def _used(schedule: Schedule) -> Schedule:
    """Returns the schedule without fields that its cadence does not use."""
    cadence = schedule.cadence
    is_monthly = cadence is Cadence.MONTHLY
    is_by_week = is_monthly and schedule.week_of_month is not None
    return Schedule(
        cadence=cadence,
        time_of_day=schedule.time_of_day if cadence in _TIMED else None,
        day_of_week=schedule.day_of_week if cadence is Cadence.WEEKLY or is_by_week else None,
        day_of_month=schedule.day_of_month if is_monthly and not is_by_week else None,
        date=schedule.date if cadence is Cadence.ONCE else None,
        days=schedule.days if cadence is Cadence.WEEKDAYS else None,
        week_of_month=schedule.week_of_month if is_by_week else None,
    )


def _cadence(value: object) -> Cadence | None:
    return _CADENCES.get(value) if isinstance(value, str) else None


def _time_of_day(value: object) -> str | None:
    return value if isinstance(value, str) and _TIME_OF_DAY.fullmatch(value) else None


def _date(value: object) -> str | None:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return None
    try:
        date.fromisoformat(value)
    except ValueError:  # such as 30 February
        return None
    return value


def _integer(value: object) -> int | None:
    """Returns a JSON number without a fraction as an int: `6.0` is 6, `true` and `"6"` are refused."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and abs(value) <= _LARGEST else None


def _from_to(minimum: int, maximum: int) -> Callable[[object], int | None]:
    def read(value: object) -> int | None:
        number = _integer(value)
        return number if number is not None and minimum <= number <= maximum else None

    return read


_weekday = _from_to(1, 7)
_monthday = _from_to(1, 31)


def _week_of_month(value: object) -> int | None:
    number = _integer(value)
    return number if number in (1, 2, 3, 4, -1) else None


def _days(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 7:
        return None
    numbers = [number for number in map(_weekday, value) if number is not None]
    is_valid = len(numbers) == len(value) == len(set(numbers))
    return tuple(numbers) if is_valid else None
