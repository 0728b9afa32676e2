"""Instants in the text form of the API."""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_SHAPE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def wire_time(instant: datetime) -> str:
    """Returns the API form of an instant: UTC, `Z`, always three fraction digits, the rest cut off."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    if instant >= _EARLIEST:  # a quarter of the other path's time: instants are close together
        return wire_time_of((instant - _EARLIEST) // _MILLISECOND)
    return instant.isoformat(timespec="milliseconds")[:-6] + "Z"


def wire_time_of(stored: int) -> str:
    """Formats an instant like `wire_time`, from milliseconds since 1970 UTC."""
    minute, rest = divmod(stored, 60_000)
    return f"{_minute(minute)}{_SECONDS[rest // 1000]}{_FRACTIONS[rest % 1000]}"


@lru_cache(maxsize=4096)
def _minute(number: int) -> str:
    """Returns the common beginning of a minute's timestamps; minutes are counted from 1970."""
    return (_EARLIEST + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:")


_SECONDS = tuple(f"{number:02}" for number in range(60))
_FRACTIONS = tuple(f".{number:03}Z" for number in range(1000))


def wire_time_or_none(instant: datetime | None) -> str | None:
    """Formats an instant like `wire_time`; returns None for None."""
    return None if instant is None else wire_time(instant)


def read_time(text: str) -> datetime | None:
    """Returns the instant of a timestamp in UTC, cut to milliseconds; None when it is not a timestamp.

    RFC 3339 with `T` and with `Z` or a numeric offset, up to 9 fraction digits, years 1970 to 9999.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = match.groups()
    microsecond = int(fraction[:3].ljust(3, "0")) * 1000 if fraction else 0
    zone: timezone = UTC
    if sign is not None:
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes))
        zone = timezone(-offset if sign == "-" else offset)
    try:
        local = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second), microsecond, tzinfo=zone
        )
        instant = local.astimezone(UTC)
    except (ValueError, OverflowError):  # no such day or time, or past the year 9999 in UTC
        return None
    return instant if instant >= _EARLIEST else None
