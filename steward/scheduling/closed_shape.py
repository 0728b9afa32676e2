"""Parses the times of a closed period into a ClosedWhen or into errors by field."""

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from steward.model.closed_period import ClosedKind, ClosedWhen
from steward.scheduling.closings import local_of
from steward.scheduling.zones import LAST, instant_of

_LONGEST_DAYS = 366
_USED = {
    ClosedKind.ONCE: ("start", "end"),
    ClosedKind.WEEKLY: ("days", "from", "to"),
    ClosedKind.YEARLY: ("first", "last"),
}
_LOCAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]")
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_DAY_OF_YEAR = re.compile(r"(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_LEAP_YEAR = 2028
_LOCAL_WORDS = "Give a local date and time as YYYY-MM-DDTHH:MM, for example 2026-12-24T00:00."
_TIME_WORDS = "Give the time of day as HH:MM, 00:00 to 23:59, or leave both times out for whole days."
_DAYS_WORDS = "Give a list of 1 to 7 whole numbers from 1 (Monday) to 7 (Sunday), none of them twice."
_DAY_WORDS = "Give a day of the year as MM-DD, for example 12-24."

FieldErrors = dict[str, list[str]]


def read_when(
    kind: ClosedKind, sent: Mapping[str, object], *, zone: ZoneInfo, now: datetime
) -> ClosedWhen | FieldErrors:
    """Returns the times of a period of this kind, or all errors by dotted path below `when`.

    `sent` holds the fields by their API names; null counts as not sent. Raises ValueError for a freeze, which
    has no times.
    """
    if kind is ClosedKind.FREEZE:
        raise ValueError("a freeze has no times")
    errors: FieldErrors = {}
    for name, value in sent.items():
        if value is not None and name not in _USED[kind]:
            errors[f"when.{name}"] = [f"A {kind.value} period has no such field."]
    readers = {ClosedKind.ONCE: _read_once, ClosedKind.WEEKLY: _read_weekly, ClosedKind.YEARLY: _read_yearly}
    when = readers[kind](sent, errors)
    if when is not None and not errors and kind is ClosedKind.ONCE:
        _check_once(when, zone, now, errors)
    return errors if errors or when is None else when


def _read_once(sent: Mapping[str, object], errors: FieldErrors) -> ClosedWhen | None:
    start, end = sent.get("start"), sent.get("end")
    for name, value in (("start", start), ("end", end)):
        if not isinstance(value, str) or not _LOCAL.fullmatch(value) or not _is_date(value[:10]):
            errors[f"when.{name}"] = [_LOCAL_WORDS]
    if not isinstance(start, str) or not isinstance(end, str):
        return None
    return ClosedWhen(ClosedKind.ONCE, start=start, end=end)


def _check_once(when: ClosedWhen, zone: ZoneInfo, now: datetime, errors: FieldErrors) -> None:
    start, end = local_of(when.start), local_of(when.end)
    if end <= start:
        errors["when.end"] = ["Give an end after the start."]
    elif end - start > timedelta(days=_LONGEST_DAYS):
        errors["when.end"] = [f"Give an end at most {_LONGEST_DAYS} days after the start."]
    elif end.year >= LAST.year:
        errors["when.end"] = [_LOCAL_WORDS]
    elif instant_of(end.date(), end.time(), zone)[0] <= now:
        errors["when.end"] = ["This time has passed already. Give a later end."]


def _read_weekly(sent: Mapping[str, object], errors: FieldErrors) -> ClosedWhen | None:
    days, from_time, to_time = sent.get("days"), sent.get("from"), sent.get("to")
    numbers = _weekdays(days, errors)
    if from_time is not None or to_time is not None:
        _check_time("from", from_time, errors)
        _check_time("to", to_time, errors)
    return ClosedWhen(
        ClosedKind.WEEKLY,
        days=tuple(numbers),
        from_time=from_time if isinstance(from_time, str) else None,
        to_time=to_time if isinstance(to_time, str) else None,
    )


def _weekdays(days: object, errors: FieldErrors) -> list[int]:
    numbers = [day for day in days if type(day) is int and 1 <= day <= 7] if isinstance(days, list) else []
    if not isinstance(days, list) or not numbers or sorted(set(numbers)) != sorted(days):
        errors["when.days"] = [_DAYS_WORDS]
    return sorted(numbers)


def _check_time(name: str, value: object, errors: FieldErrors) -> None:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        errors[f"when.{name}"] = [_TIME_WORDS]


def _read_yearly(sent: Mapping[str, object], errors: FieldErrors) -> ClosedWhen | None:
    first, last = sent.get("first"), sent.get("last")
    for name, value in (("first", first), ("last", last)):
        is_day = isinstance(value, str) and _DAY_OF_YEAR.fullmatch(value) is not None
        if not is_day or not _is_date(f"{_LEAP_YEAR}-{value}"):
            errors[f"when.{name}"] = [_DAY_WORDS]
    if not isinstance(first, str) or not isinstance(last, str):
        return None
    return ClosedWhen(ClosedKind.YEARLY, first=first, last=last)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
