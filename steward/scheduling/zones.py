"""Wall clock to instant and back: the zone database and the whole clock-change policy; no schedules here."""

from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from importlib import metadata
from zoneinfo import ZoneInfo, available_timezones, reset_tzpath

from steward.model.schedule import SlotNote

# Arithmetic ends here: three days short of what a datetime holds, so that no zone runs over its edges.
FIRST = datetime(1, 1, 4, tzinfo=UTC)
LAST = datetime(9999, 12, 28, tzinfo=UTC)

NO_SUCH_ZONE = "This is not a timezone of the IANA database, such as Europe/Berlin."
_NO_ZONES = frozenset({"Factory", "localtime", "posixrules"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def use_packaged_zones() -> None:
    """Reads zones from the tzdata package alone from now on; every process calls it once at its start.

    The operating system's copy differs from machine to machine, or is absent.
    """
    reset_tzpath(to=())
    ZoneInfo.clear_cache()
    zone_names.cache_clear()
    _load.cache_clear()
    instant_of.cache_clear()


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Returns every name a timezone may have: the package's own, links included, exact in case."""
    return frozenset(available_timezones()) - _NO_ZONES


def zone(name: str) -> ZoneInfo | None:
    """Returns the zone called exactly `name`; None when there is none."""
    # A name is looked up before it is loaded: zoneinfo would take other cases, and paths, for files.
    return _load(name) if name in zone_names() else None


@cache  # bounded by the number of zones; zoneinfo itself keeps only eight
def _load(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@cache
def tzdata_version() -> str:
    """Returns the version of the package the zones come from, such as `2026.6`."""
    return metadata.version("tzdata")


# Slots of many automations fall on one local time; computing one again costs five times a look-up.
@lru_cache(maxsize=65_536)
def instant_of(day: date, local_time: time, tz: ZoneInfo) -> tuple[datetime, SlotNote | None]:
    """Returns the instant of a local date and time, with a note when the clock changes there.

    A time shown twice is its first pass (R3); one never shown is later by the gap's length (R4): both
    are what `fold=0` means.
    """
    wall = datetime.combine(day, local_time, tz)
    first, second = wall.utcoffset(), wall.replace(fold=1).utcoffset()
    if first == second or first is None or second is None:
        return wall.astimezone(UTC), None
    return wall.astimezone(UTC), SlotNote.GAP if first < second else SlotNote.FOLD


def local_time(instant: datetime, tz: ZoneInfo) -> str:
    """Returns the instant on the local clock as `YYYY-MM-DDTHH:MM±HH:MM`."""
    # Cut to whole minutes of offset: a few zones had seconds in theirs until 1972.
    return instant.astimezone(tz).isoformat(timespec="minutes")[:22]


def seconds_of(instant: datetime) -> int:
    """Returns the whole seconds since 1970, fractions cut towards the past."""
    return (instant - _EPOCH) // _SECOND


def at_seconds(seconds: int) -> datetime:
    """Returns the instant `seconds` after 1970 began."""
    return _EPOCH + timedelta(seconds=seconds)


def offset_seconds(instant: datetime, tz: ZoneInfo) -> int:
    """Returns how far the local clock is ahead of UTC at that instant."""
    offset = instant.astimezone(tz).utcoffset()
    return 0 if offset is None else offset.days * 86_400 + offset.seconds
