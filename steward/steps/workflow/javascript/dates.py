"""Parses dates in the formats that n8n accepts, and writes them as luxon does."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from steward.steps.workflow.javascript.date_texts import read_date_text

MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_MAX_DATE_CHARACTERS: Final = 128  # longest parsed date

_ISO = re.compile(
    r"([+-]\d{6}|\d{4})(?:-?(\d\d)(?:-?(\d\d))?|-?W(\d\d)(?:-?([1-7]))?|-?(\d{3}))?"
    r"(?:(?:[Tt]|(?<=\d{4}-\d\d-\d\d) )(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"\s*(Z|z|[+-]\d\d(?::?\d\d)?)?)?"
    r"(?:\[[^\]]+\])?\Z"
)
# days that overflow their month, which JavaScript allows
_ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)\Z")
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?\Z")


def zone_of(name: str) -> tzinfo | None:
    """Returns the time zone for an IANA name, UTC+2 or an offset, or None."""
    match = _OFFSET.match(name)
    if match:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    if name.lower() in ("utc", "gmt", "z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def parse(value: str, zone: tzinfo) -> datetime | None:
    """Parses an ISO or SQL date, or any text that JavaScript reads as one; returns None for any other text.

    ISO and SQL dates without an offset are in `zone`; dates that only JavaScript parses are in the zone of
    the n8n process, which is UTC.
    """
    text = value.strip()
    if len(text) > _MAX_DATE_CHARACTERS:
        return None
    try:
        date = _iso(text, zone)
    except (ValueError, OverflowError):
        date = None
    if date is not None or text.isdecimal():  # luxon reads some numbers as times of today
        return date
    return read_date_text(_ISO_TIME.sub(r"\1 \2", text))


def _iso(text: str, zone: tzinfo) -> datetime | None:
    match = _ISO.match(text)
    if match is None:
        return None
    hour, minute, second, fraction, offset = match.group(7, 8, 9, 10, 11)
    ends_the_day = hour == "24"
    date = _iso_day(match).replace(
        hour=0 if ends_the_day else int(hour or 0),
        minute=int(minute or 0),
        second=int(second or 0),
        microsecond=int((fraction or "0")[:3].ljust(6, "0")),
    )
    if ends_the_day:
        date += timedelta(days=1)
    return date.replace(tzinfo=_offset(offset) if offset else zone)


def _iso_day(match: re.Match[str]) -> datetime:
    """Returns the midnight of a calendar, week or ordinal date."""
    year, month, day, week, weekday, ordinal = match.group(1, 2, 3, 4, 5, 6)
    if week:
        return datetime.fromisocalendar(int(year), int(week), int(weekday or 1)).replace(tzinfo=UTC)
    if ordinal:
        return datetime(int(year), 1, 1, tzinfo=UTC) + timedelta(days=int(ordinal) - 1)
    return datetime(int(year), int(month or 1), int(day or 1), tzinfo=UTC)


def _offset(text: str) -> tzinfo:
    return UTC if text in "Zz" else zone_of(text) or UTC


def from_millis(value: float, zone: tzinfo) -> datetime | None:
    """Returns the instant for milliseconds since 1970, or None if it is out of range."""
    try:
        return (
            datetime.fromtimestamp(0, UTC).astimezone(zone)
            if value == 0
            else (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)).astimezone(zone)
        )
    except (OverflowError, ValueError):
        return None


def normalized(value: datetime) -> datetime:
    """Moves a local time that does not exist forward, as luxon does."""
    return value.astimezone(UTC).astimezone(value.tzinfo)


def iso(value: datetime) -> str:
    """Formats as ISO with milliseconds and offset; `Z` only for UTC itself, else `+00:00`."""
    offset = value.utcoffset() or timedelta()
    text = value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}"
    return text + ("Z" if value.tzinfo is UTC else offset_text(offset))


def utc_iso(value: datetime) -> str:
    """Formats as ISO in UTC with milliseconds and `Z`."""
    return iso(value.astimezone(UTC))


def offset_text(offset: timedelta, *, colon: bool = True) -> str:
    """Formats an offset as +02:00."""
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}{':' if colon else ''}{abs(minutes) % 60:02d}"
