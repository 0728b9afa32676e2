"""Provides short ways to write zones, instants and schedules in these tests."""

from collections.abc import Collection
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from steward.model.closed_period import ClosedPeriod, ClosedScope, ClosedScopeKind, ClosedWhen, Stops
from steward.model.ids import OrgId
from steward.model.schedule import Cadence, Schedule
from steward.scheduling.closings import ClosedTimes
from steward.scheduling.zones import zone

_EVER = datetime(1990, 1, 1, tzinfo=UTC)
_WHOLE = ClosedScope(ClosedScopeKind.ORGANIZATION)


def at(text: str) -> datetime:
    """Returns the instant of a text such as `2026-01-15 08:00`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def place(name: str) -> ZoneInfo:
    """Returns the zone of that name, which must exist."""
    timezone = zone(name)
    assert timezone is not None, name
    return timezone


def daily(time_of_day: str) -> Schedule:
    return Schedule(Cadence.DAILY, time_of_day)


def weekly(weekday: int, time_of_day: str) -> Schedule:
    return Schedule(Cadence.WEEKLY, time_of_day, day_of_week=weekday)


def weekdays(days: tuple[int, ...] | None, time_of_day: str) -> Schedule:
    return Schedule(Cadence.WEEKDAYS, time_of_day, days=days)


def monthly(day: int, time_of_day: str) -> Schedule:
    return Schedule(Cadence.MONTHLY, time_of_day, day_of_month=day)


def monthly_by_week(week: int, weekday: int, time_of_day: str) -> Schedule:
    return Schedule(Cadence.MONTHLY, time_of_day, day_of_week=weekday, week_of_month=week)


def once(day: str, time_of_day: str) -> Schedule:
    return Schedule(Cadence.ONCE, time_of_day, date=day)


def closed_period(
    when: ClosedWhen,
    *,
    timezone: str = "Europe/Berlin",
    name: str = "Christmas",
    scope: ClosedScope = _WHOLE,
    stops: Stops = Stops.RUNS,
    valid: tuple[datetime, datetime | None] = (_EVER, None),
) -> ClosedPeriod:
    """Returns a closed period of organization 1, valid since 1990 by default; its id is its name."""
    return ClosedPeriod(OrgId(1), name, 1, *valid, name, scope, stops, when, timezone)


def open_from(periods: Collection[ClosedPeriod] | ClosedTimes, instant: datetime) -> datetime | None:
    """Returns the first open instant at or after `instant`."""
    times = periods if isinstance(periods, ClosedTimes) else ClosedTimes(periods, instant)
    stretch = times.stretch_at(instant)
    return instant if stretch is None else stretch.end
