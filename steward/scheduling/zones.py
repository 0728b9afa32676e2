"""Converts between local time and instants: the zone database and the whole clock-change policy."""

import zoneinfo
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from importlib import metadata
from zoneinfo import ZoneInfo, available_timezones, reset_tzpath

from steward.model.schedule import SlotNote

# Limits of arithmetic: three days inside those of datetime, so that no zone overflows.
FIRST = datetime(1, 1, 4, tzinfo=UTC)
LAST = datetime(9999, 12, 28, tzinfo=UTC)

NO_SUCH_ZONE = "This is not a timezone of the IANA database, such as Europe/Berlin."
_NO_ZONES = frozenset({"Factory", "localtime", "posixrules"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def use_packaged_zones() -> None:
    """Makes this process read zones only from the tzdata package, unless it does so already.

    The operating system's copy differs between machines, or is missing.
    """
    if zoneinfo.TZPATH == ():
        return
    reset_tzpath(to=())
    ZoneInfo.clear_cache()
    zone_names.cache_clear()
    _load.cache_clear()
    instant_of.cache_clear()


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Returns all valid timezone names, case-sensitive, including the package's links."""
    return frozenset(available_timezones()) - _NO_ZONES


def zone(name: str) -> ZoneInfo | None:
    """Returns the zone with exactly this name, or None."""
    # Checked before loading, since zoneinfo would accept other cases, and paths, as file names.
    return _load(name) if name in zone_names() else None


@cache  # bounded by the number of zones; zoneinfo itself caches only eight
def _load(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@cache
def tzdata_version() -> str:
    """Returns the version of the zone package, such as `2026.6`."""
    return metadata.version("tzdata")


# Slots of many automations share a local time; computing takes five times as long as a look-up.
@lru_cache(maxsize=65_536)
def instant_of(day: date, local_time: time, tz: ZoneInfo) -> tuple[datetime, SlotNote | None]:
    """Returns the instant of a local date and time, with a note if the clock changes there.

    A repeated time gives its first instant (R3); a skipped time is shifted later by the length of the gap
    (R4), both as `fold=0` defines.
    """
    wall = datetime.combine(day, local_time, tz)
    first, second = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    if first == second or first is None or second is None:
        return wall.astimezone(UTC), None
    return wall.astimezone(UTC), SlotNote.GAP if first < second else SlotNote.FOLD


def local_time(instant: datetime, tz: ZoneInfo) -> str:
    """Returns the instant in local time as `YYYY-MM-DDTHH:MM±HH:MM`."""
    # Without seconds of the offset, which a few zones had until 1972.
    return instant.astimezone(tz).isoformat(timespec="minutes")[:22]


def seconds_of(instant: datetime) -> int:
    """Returns the whole seconds since 1970, rounded down."""
    return (instant - _EPOCH) // _SECOND


def at_seconds(seconds: int) -> datetime:
    """Returns the instant `seconds` after the beginning of 1970."""
    return _EPOCH + timedelta(seconds=seconds)


def offset_seconds(instant: datetime, tz: ZoneInfo) -> int:
    """Returns the zone's offset from UTC at that instant, in seconds."""
    offset = instant.astimezone(tz).utcoffset()
    return 0 if offset is None else offset.days * 86_400 + offset.seconds
