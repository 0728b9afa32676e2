"""Dates as the origin tool reads and writes them: many text forms in, one instant out; patterns for text."""

import re
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

_ISO = re.compile(
    r"([+-]\d{6}|\d{4})(?:-?(\d\d)(?:-?(\d\d))?|-?W(\d\d)(?:-?([1-7]))?|-?(\d{3}))?"
    r"(?:[Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?)?\s*(Z|z|[+-]\d\d(?::?\d\d)?)?)?"
    r"(?:\[[^\]]+\])?\Z"
)
_AMERICAN = re.compile(
    r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})(?:,?\s+(\d{1,2}):(\d\d)(?::(\d\d))?\s*([AaPp][Mm])?)?\Z"
)
_WORDS = re.compile(
    r"(?:[A-Za-z]{3,9},?\s+)?(?:([A-Za-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?|(\d{1,2})\s+([A-Za-z]{3,9})),?\s+(\d{4})"
    r"(?:,?\s+(\d{1,2}):(\d\d)(?::(\d\d))?\s*([AaPp][Mm])?)?\Z"
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?\Z")


def zone_of(name: str) -> tzinfo | None:
    """The zone of a name: IANA, UTC+2 or a plain offset; None when there is none."""
    found = _OFFSET.match(name)
    if found:
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    if name.lower() in ("utc", "gmt", "z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def parse(value: str, zone: tzinfo) -> datetime | None:
    """An instant from ISO, SQL, mail, American or written-out text; without an offset in `zone`."""
    text = value.strip()
    for read in (_iso, _mail, _american, _worded):
        try:
            found = read(text, zone)
        except (ValueError, OverflowError):
            found = None
        if found is not None:
            return found
    return None


def _iso(text: str, zone: tzinfo) -> datetime | None:
    found = _ISO.match(text)
    if found is None:
        return None
    year, month, day, week, weekday, ordinal, hour, minute, second, fraction, offset = found.groups()
    micro = int(((fraction or "")[:3] + "000000")[:6].ljust(6, "0")) if fraction else 0
    if week:
        date = datetime.fromisocalendar(int(year), int(week), int(weekday or 1)).replace(tzinfo=UTC)
    elif ordinal:
        date = datetime(int(year), 1, 1, tzinfo=UTC) + timedelta(days=int(ordinal) - 1)
    else:
        date = datetime(int(year), int(month or 1), int(day or 1), tzinfo=UTC)
    extra = timedelta(days=1) if hour == "24" else timedelta()
    date = date.replace(
        hour=0 if hour == "24" else int(hour or 0),
        minute=int(minute or 0),
        second=int(second or 0),
        microsecond=micro,
    )
    return (date + extra).replace(tzinfo=_offset(offset) if offset else zone)


def _offset(text: str) -> tzinfo:
    return UTC if text in "Zz" else zone_of(text) or UTC


def _mail(text: str, zone: tzinfo) -> datetime | None:
    if not re.match(r"[A-Za-z]{3},? |\d{1,2} [A-Za-z]{3} \d{4} \d\d:", text) or not re.search(
        r"\d\d:\d\d", text
    ):
        return None
    found = parsedate_to_datetime(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=zone)


def _american(text: str, zone: tzinfo) -> datetime | None:
    found = _AMERICAN.match(text)
    if found is None:
        return None
    month, day, year, hour, minute, second, half = found.groups()
    return _built(int(year), int(month), int(day), (hour, minute, second, half), zone)


def _worded(text: str, zone: tzinfo) -> datetime | None:
    found = _WORDS.match(text)
    if found is None:
        return None
    name, day, day_first, name_second, year, *clock = found.groups()
    month = _month(name or name_second)
    if month is None:
        return None
    return _built(int(year), month, int(day or day_first), tuple(clock), zone)


def _month(name: str) -> int | None:
    for number, month in enumerate(MONTHS, 1):
        if len(name) >= 3 and month.lower().startswith(name.lower()):
            return number
    return None


def _built(year: int, month: int, day: int, clock: tuple[str | None, ...], zone: tzinfo) -> datetime:
    hour, minute, second, half = clock
    hours = int(hour or 0)
    if half and half.lower() == "pm" and hours < 12:
        hours += 12
    if half and half.lower() == "am" and hours == 12:
        hours = 0
    return datetime(year, month, day, hours, int(minute or 0), int(second or 0), tzinfo=zone)


def from_millis(value: float, zone: tzinfo) -> datetime | None:
    """An instant from milliseconds since 1970."""
    try:
        return (
            datetime.fromtimestamp(0, UTC).astimezone(zone)
            if value == 0
            else (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)).astimezone(zone)
        )
    except (OverflowError, ValueError):
        return None


def settled(value: datetime) -> datetime:
    """The instant as it really is: a local time that does not exist moves forward, as luxon does."""
    return value.astimezone(UTC).astimezone(value.tzinfo)


def iso(value: datetime) -> str:
    """ISO text with milliseconds and the offset, `+00:00` never `Z`... unless it is UTC itself."""
    offset = value.utcoffset() or timedelta()
    text = value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}"
    return text + ("Z" if value.tzinfo is UTC else offset_text(offset))


def utc_iso(value: datetime) -> str:
    """ISO text in UTC with milliseconds and `Z`."""
    return iso(value.astimezone(UTC))


def offset_text(offset: timedelta, *, colon: bool = True) -> str:
    """+02:00"""
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}{':' if colon else ''}{abs(minutes) % 60:02d}"
