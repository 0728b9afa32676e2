"""Parses dates in the formats that n8n accepts, and writes them as luxon does."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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

_MAX_DATE_CHARACTERS: Final = 128  # longest parsed date; the patterns below take more than linear time

_ISO = re.compile(
    r"([+-]\d{6}|\d{4})(?:-?(\d\d)(?:-?(\d\d))?|-?W(\d\d)(?:-?([1-7]))?|-?(\d{3}))?"
    r"(?:[Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?)?\s*(Z|z|[+-]\d\d(?::?\d\d)?)?)?"
    r"(?:\[[^\]]+\])?\Z"
)
_CLOCK = (
    r"(?:,?\s+(\d{1,2}):(\d\d)(?::(\d\d))?\s*([AaPp][Mm])?(?:\s+(?:GMT|UTC)?([+-]\d\d:?\d\d|Z|GMT|UTC))?)?"
)
_END = _CLOCK + r"\s*(?:\([^)]*\))?\Z"
_NUMBERS = re.compile(
    r"(?:(\d{4})([-/.])(\d{1,2})\2(\d{1,2})|(\d{1,2})([-/.])(\d{1,2})\6(\d{4}|\d\d))" + _END
)
_DAY_NAME = r"(?:[A-Za-z]{3,9},?\s+)?"
_BETWEEN = r"[\s,/-]+"
_WORDS = re.compile(
    rf"{_DAY_NAME}(?:([A-Za-z]{{3,9}})\.?{_BETWEEN}(\d{{1,2}}){_BETWEEN}(\d{{4}})"
    rf"|(\d{{1,2}}){_BETWEEN}([A-Za-z]{{3,9}})\.?{_BETWEEN}(\d{{4}})"
    rf"|(\d{{4}}){_BETWEEN}([A-Za-z]{{3,9}})\.?{_BETWEEN}(\d{{1,2}})"
    rf"|([A-Za-z]{{3,9}})\.?{_BETWEEN}(\d{{4}})){_END}"
)
_ASCTIME = re.compile(r"[A-Za-z]{3} [A-Za-z]{3} +\d{1,2} \d\d:\d\d:\d\d \d{4}\Z")
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
    """Parses an ISO, SQL, mail or written-out date; returns None for any other text.

    ISO, SQL and mail dates without an offset are in `zone`; dates that only JavaScript parses are in the zone
    of the n8n process, which is UTC.
    """
    text = value.strip()
    if len(text) > _MAX_DATE_CHARACTERS:
        return None
    for read in (_iso, _mail, _numbered, _worded):
        try:
            date = read(text, zone)
        except (ValueError, OverflowError):
            date = None
        if date is not None:
            return date
    return None


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


def _mail(text: str, zone: tzinfo) -> datetime | None:
    if not re.match(r"[A-Za-z]{3},? |\d{1,2} [A-Za-z]{3} \d{4} \d\d:", text) or not re.search(
        r"\d\d:\d\d", text
    ):
        return None
    if _ASCTIME.match(text):
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    date = parsedate_to_datetime(text)
    return date if date.tzinfo is not None else None


def _numbered(text: str, zone: tzinfo) -> datetime | None:
    match = _NUMBERS.match(text)
    if match is None:
        return None
    year, _, month, day, first, _, second, last, *clock = match.groups()
    if year is None:
        month, day, year = first, second, last
    number = int(year) if len(year) == 4 else int(year) + (2000 if int(year) < 50 else 1900)
    return _built(number, int(month), int(day), clock)


def _worded(text: str, zone: tzinfo) -> datetime | None:
    match = _WORDS.match(text)
    if match is None:
        return None
    groups = match.groups()
    name = next(groups[group] for group in (0, 4, 7, 9) if groups[group] is not None)
    day = next((groups[group] for group in (1, 3, 8) if groups[group] is not None), "1")
    year = next(groups[group] for group in (2, 5, 6, 10) if groups[group] is not None)
    month = _month(name)
    return None if month is None else _built(int(year), month, int(day), groups[11:])


def _month(name: str) -> int | None:
    for number, month in enumerate(MONTHS, 1):
        if len(name) >= 3 and month.lower().startswith(name.lower()):
            return number
    return None


def _built(year: int, month: int, day: int, clock: Sequence[str | None]) -> datetime:
    """Returns a date; days up to the 31st overflow into the next month, as in JavaScript."""
    hour, minute, second, half, offset = clock
    hours = _hours(int(hour or 0), (half or "").lower())
    if not 1 <= day <= 31:
        raise ValueError(day)
    zone = UTC if offset is None or offset[0] not in "+-" else _offset(offset)
    first = datetime(year, month, 1, hours, int(minute or 0), int(second or 0), tzinfo=zone)
    return first + timedelta(days=day - 1)


def _hours(hour: int, half: str) -> int:
    if half == "pm" and hour < 12:
        return hour + 12
    return 0 if half == "am" and hour == 12 else hour


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
