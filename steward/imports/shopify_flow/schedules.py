"""Converts a flow's recurrence rule to a schedule if a cadence equals it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from steward.imports.n8n.schedules import wire
from steward.imports.shopify_flow.file import inner
from steward.model.json import JsonObject
from steward.scheduling.zones import zone

_START = re.compile(
    r"DTSTART(?:;TZID=(?P<zone>[^:;\s]+)|;VALUE=[A-Z-]+)*:"
    r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)(?:T(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)?(?P<utc>Z)?)?\Z"
)
_DAYS: Final = {name: number for number, name in enumerate(("MO", "TU", "WE", "TH", "FR", "SA", "SU"), 1)}
_SUPPORTED_PARTS: Final = frozenset(
    ("FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS", "WKST")
)
_NEAREST: Final = {
    "HOURLY": "hourly",
    "DAILY": "daily",
    "WEEKLY": "weekly",
    "MONTHLY": "monthly",
    "YEARLY": "monthly",
}


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The schedule that equals a recurrence, or None with the nearest cadence in words."""

    schedule: JsonObject | None
    nearest: str
    zone: str | None


@dataclass(frozen=True, slots=True)
class _Start:
    weekday: int
    day: int
    hour: int
    minute: int
    zone: str | None


def read_recurrence(text: str) -> Recurrence:
    """Parses a `recurrence` field, a list of rules; only a single rule can be a cadence."""
    rules = _rules_in(text)
    if not rules:
        return Recurrence(None, "daily", None)
    lines = [line.strip() for line in rules[0].replace("\\n", "\n").splitlines() if line.strip()]
    start = _start_in(lines)
    start_zone = start.zone if start is not None else None
    parts = _rule_parts(lines)
    if parts is None:
        return Recurrence(None, "daily", start_zone)
    nearest = _NEAREST.get(parts.get("FREQ", ""), "hourly")
    is_one_rule = len(rules) == 1 and len(lines) == 2
    schedule = _schedule(parts, start) if is_one_rule and start is not None else None
    return Recurrence(schedule, nearest, start_zone)


def _rules_in(text: str) -> list[str]:
    parsed = inner(text)
    return [rule for rule in parsed if isinstance(rule, str)] if isinstance(parsed, list) else [text]


def _start_in(lines: list[str]) -> _Start | None:
    starts = [line for line in lines if line.startswith("DTSTART")]
    return _start(starts[0]) if len(starts) == 1 else None


def _rule_parts(lines: list[str]) -> dict[str, str] | None:
    """Returns the parts of the only RRULE among the lines, or None if there is not exactly one."""
    rrules = [line.removeprefix("RRULE:") for line in lines if line.startswith("RRULE:")]
    if len(rrules) != 1:
        return None
    return dict(part.partition("=")[::2] for part in rrules[0].upper().split(";") if part)


def _start(line: str) -> _Start | None:
    """Returns the first run; later runs take from it the day and time that the rule omits."""
    match = _START.match(line)
    if match is None:
        return None
    try:
        day = date(int(match["y"]), int(match["m"]), int(match["d"]))
    except ValueError:
        return None
    hour, minute = int(match["hour"] or 0), int(match["minute"] or 0)
    if hour > 23 or minute > 59:
        return None
    name = "UTC" if match["utc"] else match["zone"]
    known_zone = name if name is not None and zone(name) is not None else None
    return _Start(day.isoweekday(), day.day, hour, minute, known_zone)


def _schedule(parts: Mapping[str, str], start: _Start) -> JsonObject | None:
    """Returns the cadence equal to the rule, or None."""
    if not parts.keys() <= _SUPPORTED_PARTS:
        return None
    frequency, every = parts.get("FREQ"), parts.get("INTERVAL", "1")
    if frequency == "HOURLY":
        return _hourly(parts, start, every)
    time_of_day = _time_of_day(parts, start)
    if time_of_day is None or every != "1":
        return None
    days = [day for day in parts.get("BYDAY", "").split(",") if day]
    if frequency == "MONTHLY":
        if days:
            return _on_weekday_of_month(parts, days, time_of_day)
        return _on_day_of_month(parts, start, time_of_day)
    return _on_weekdays(parts, days, start, time_of_day) if frequency in ("DAILY", "WEEKLY") else None


def _on_weekdays(
    parts: Mapping[str, str], days: list[str], start: _Start, time_of_day: str
) -> JsonObject | None:
    if "BYMONTHDAY" in parts or "BYSETPOS" in parts or not _DAYS.keys() >= set(days):
        return None
    if parts["FREQ"] == "DAILY" and not days:
        return wire(cadence="daily", run_at=time_of_day)
    numbers = sorted({_DAYS[day] for day in days}) or [start.weekday]
    if len(numbers) == 7:
        return wire(cadence="daily", run_at=time_of_day)
    if len(numbers) == 1:
        return wire(cadence="weekly", run_at=time_of_day, day_of_week=numbers[0])
    return wire(cadence="weekdays", run_at=time_of_day, days=numbers)


def _hourly(parts: Mapping[str, str], start: _Start, every: str) -> JsonObject | None:
    if set(parts) - {"FREQ", "INTERVAL", "WKST", "BYMINUTE", "BYSECOND"}:
        return None
    if parts.get("BYMINUTE", str(start.minute)) not in ("0", "00"):
        return None
    if every == "1":
        return wire(cadence="hourly")
    return wire(cadence="every_6_hours") if every == "6" and start.hour % 6 == 0 else None


def _time_of_day(parts: Mapping[str, str], start: _Start) -> str | None:
    """Returns the time of every run as HH:MM, or None for a rule with several times a day."""
    hour, minute = parts.get("BYHOUR", str(start.hour)), parts.get("BYMINUTE", str(start.minute))
    if not re.fullmatch(r"\d{1,2}", hour) or not re.fullmatch(r"\d{1,2}", minute):
        return None
    if int(hour) > 23 or int(minute) > 59:
        return None
    return f"{int(hour):02d}:{int(minute):02d}"


def _on_day_of_month(parts: Mapping[str, str], start: _Start, time_of_day: str) -> JsonObject | None:
    if "BYSETPOS" in parts:
        return None
    number = parts.get("BYMONTHDAY", str(start.day))
    if number == "-1":
        # Steward would run on a short month's last day
        return wire(cadence="monthly", run_at=time_of_day, day_of_month=31)
    if re.fullmatch(r"\d{1,2}", number) and 1 <= int(number) <= 28:
        return wire(cadence="monthly", run_at=time_of_day, day_of_month=int(number))
    return None


def _on_weekday_of_month(parts: Mapping[str, str], days: list[str], time_of_day: str) -> JsonObject | None:
    weekday = re.fullmatch(r"([+-]?\d)?([A-Z]{2})", days[0])
    if "BYMONTHDAY" in parts or len(days) > 1 or weekday is None or weekday[2] not in _DAYS:
        return None
    position = parts.get("BYSETPOS")
    if (weekday[1] is None) == (position is None):
        return None
    week = (weekday[1] or position or "").lstrip("+")
    if week not in ("1", "2", "3", "4", "-1"):
        return None
    return wire(cadence="monthly", run_at=time_of_day, day_of_week=_DAYS[weekday[2]], week_of_month=int(week))
