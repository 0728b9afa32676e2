"""Adds to, truncates and compares dates exactly as luxon does."""

import math
from calendar import monthrange
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")
_HIGH = UNITS[:5]  # added by the calendar; smaller units by the clock
_LOW = UNITS[5:]
_DAY_MS = 86_400_000
_MS: dict[str, float] = {
    "year": 365 * _DAY_MS,
    "quarter": 91 * _DAY_MS,
    "month": 30 * _DAY_MS,
    "week": 7 * _DAY_MS,
    "day": _DAY_MS,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1000,
    "millisecond": 1,
}


def _checked(unit: str) -> str:
    if unit not in UNITS:
        raise ItemFailed(f"The unit “{unit}” is not known.")
    return unit


def local(naive: datetime, before: timedelta, zone: tzinfo) -> datetime:
    """Returns the instant of a local time.

    An ambiguous time has the offset `before`, a skipped one the offset before the gap.
    """

    def offset(utc: datetime) -> timedelta:
        return utc.replace(tzinfo=UTC).astimezone(zone).utcoffset() or timedelta()

    guess = naive - before
    second = offset(guess)
    if second != before:
        guess = naive - second
        third = offset(guess)
        if third != second:
            guess = naive - min(second, third)
    return guess.replace(tzinfo=UTC).astimezone(zone)


def _at_local_time(date: datetime, naive: datetime) -> datetime:
    return local(naive, date.utcoffset() or timedelta(), date.tzinfo or UTC)


def shifted(start: datetime, unit: str, amount: float) -> datetime:
    """Moves the date by an amount: whole units by the calendar, fractions by their length."""
    return plus(start, {_checked(unit): amount})


def plus(start: datetime, amounts: Mapping[str, float]) -> datetime:
    """Moves the date by several units at once. Raises ItemFailed if the result is out of range."""
    try:
        whole_units = {unit: math.trunc(amounts.get(unit, 0)) for unit in _HIGH}
        months = whole_units["year"] * 12 + whole_units["quarter"] * 3 + whole_units["month"]
        naive = _by_months(start.replace(tzinfo=None, fold=0), months)
        moved = _at_local_time(start, naive + timedelta(days=whole_units["day"] + 7 * whole_units["week"]))
        milliseconds = sum((amounts.get(unit, 0) - whole_units[unit]) * _MS[unit] for unit in _HIGH)
        milliseconds += sum(amounts.get(unit, 0) * _MS[unit] for unit in _LOW)
        return (moved.astimezone(UTC) + timedelta(milliseconds=milliseconds)).astimezone(start.tzinfo)
    except (OverflowError, ValueError):
        raise ItemFailed("The date is out of range.") from None


def _by_months(start: datetime, months: int) -> datetime:
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1, day=min(start.day, monthrange(year, month + 1)[1]))


def floor(date: datetime, unit: str) -> datetime:
    """Returns the start of the date's unit; weeks start on Monday."""
    _checked(unit)
    wall = date.replace(tzinfo=None, fold=0)
    if unit == "millisecond":
        return date
    wall = wall.replace(microsecond=0)
    if unit in _LOW:
        wall = wall.replace(second=0 if unit != "second" else wall.second)
        return _at_local_time(date, wall.replace(minute=0) if unit == "hour" else wall)
    wall = wall.replace(hour=0, minute=0, second=0)
    if unit == "week":
        wall -= timedelta(days=wall.weekday())
    elif unit == "month":
        wall = wall.replace(day=1)
    elif unit == "quarter":
        wall = wall.replace(day=1, month=(wall.month - 1) // 3 * 3 + 1)
    elif unit == "year":
        wall = wall.replace(day=1, month=1)
    return _at_local_time(date, wall)


def difference(start: datetime, end: datetime, units: Sequence[str]) -> dict[str, float]:
    """Returns the time from start to end in these units; only the smallest unit may have a fraction."""
    if end < start:
        return {unit: -value for unit, value in difference(end, start, units).items()}
    high = [unit for unit in _HIGH if unit in units]
    low = [unit for unit in _LOW if unit in units]
    amounts, cursor, ahead = _by_calendar(start, end, high)
    remaining_ms = _milliseconds_between(end, cursor)
    if high and not low:
        amounts[high[-1]] += _fraction(cursor, end, ahead, high[-1])
    return {unit: js.plain_number(value) for unit, value in (amounts | _by_clock(remaining_ms, low)).items()}


def _fraction(cursor: datetime, end: datetime, ahead: datetime, unit: str) -> float:
    """Returns the fraction of a unit between `cursor` and `end`.

    `ahead` is `cursor` plus one unit, unless it lies before `end`; it is then computed.
    """
    if ahead < end:
        ahead = plus(cursor, {unit: 1})
    return _milliseconds_between(end, cursor) / _milliseconds_between(ahead, cursor) if ahead != cursor else 0


def _by_calendar(
    start: datetime, end: datetime, units: Sequence[str]
) -> tuple[dict[str, float], datetime, datetime]:
    """Returns the whole units, the date they lead to, and the first date tried past `end`, if any."""
    amounts: dict[str, float] = {}
    cursor = ahead = start
    for unit in units:
        amounts[unit] = _estimated(cursor, end, unit)
        ahead = plus(start, amounts)
        if ahead <= end:
            cursor = ahead
            continue
        while ahead > end:
            last, amounts[unit] = ahead, amounts[unit] - 1
            ahead = plus(start, amounts)
        cursor, ahead = ahead, last
    return amounts, cursor, ahead


def _estimated(start: datetime, end: datetime, unit: str) -> int:
    """Returns the difference in a calendar unit; it may be one too high."""
    if unit == "year":
        return end.year - start.year
    if unit == "quarter":
        return (end.month - 1) // 3 - (start.month - 1) // 3 + (end.year - start.year) * 4
    if unit == "month":
        return end.month - start.month + (end.year - start.year) * 12
    days = (end.date() - start.date()).days
    return days // 7 if unit == "week" else days


def _milliseconds_between(later: datetime, earlier: datetime) -> int:
    return (later.astimezone(UTC) - earlier.astimezone(UTC)) // timedelta(milliseconds=1)


def _by_clock(millis: int, units: Sequence[str]) -> dict[str, float]:
    amounts: dict[str, float] = dict.fromkeys(units, 0)
    for finer, coarser in zip(reversed(units), [*reversed(units[:-1]), None], strict=False):
        if finer == units[-1]:
            amounts[finer] = millis if finer == "millisecond" else millis / _MS[finer]
        if coarser is not None:
            size = _MS[coarser] / _MS[finer]
            up = math.floor(amounts[finer] / size)
            amounts[coarser], amounts[finer] = amounts[coarser] + up, amounts[finer] - up * size
    return amounts


def iso_duration(amounts: Mapping[str, float]) -> str:
    """Formats a duration as P1Y2M3DT4H5M6.7S."""
    date = {
        "Y": amounts.get("year", 0),
        "M": amounts.get("month", 0) + 3 * amounts.get("quarter", 0),
        "W": amounts.get("week", 0),
        "D": amounts.get("day", 0),
    }
    seconds = amounts.get("second", 0) + amounts.get("millisecond", 0) / 1000
    seconds = js.plain_number(math.floor(seconds * 1000 + 0.5) / 1000)
    time = {"H": amounts.get("hour", 0), "M": amounts.get("minute", 0), "S": seconds}
    text, clock = ("".join(f"{js.number_text(v)}{k}" for k, v in part.items() if v) for part in (date, time))
    return "PT0S" if not text and not clock else f"P{text}{'T' + clock if clock else ''}"
