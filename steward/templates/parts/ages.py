"""Ages in whole hours and in local days, and the beginnings of local days."""

from datetime import UTC, date, datetime, time, timedelta

from steward.scheduling.zones import zone


def local_day(instant: datetime, zone_name: str) -> date:
    """Returns the local date of an instant. An unknown zone counts as UTC."""
    return instant.astimezone(zone(zone_name) or UTC).date()


def day_window(day: date, zone_name: str) -> tuple[datetime, datetime]:
    """Returns when the local day and the next one begin, in UTC: 23 to 25 hours apart.

    A day whose midnight is skipped by the clocks begins after the gap. An unknown zone counts as UTC.
    """
    return _start(day, zone_name), _start(day + timedelta(days=1), zone_name)


def days_before(instant: datetime, days: int, zone_name: str) -> datetime:
    """Returns the same local time a number of days earlier, in UTC. An unknown zone counts as UTC."""
    local = instant.astimezone(zone(zone_name) or UTC)
    return (local - timedelta(days=days)).astimezone(UTC)


def whole_days(since: datetime, now: datetime, zone_name: str) -> int:
    """Returns the number of whole local days that have passed; 0 for a future time."""
    days = (local_day(now, zone_name) - local_day(since, zone_name)).days
    return max(days if since <= days_before(now, days, zone_name) else days - 1, 0)


def whole_hours(since: datetime, now: datetime) -> int:
    """Returns the number of whole hours that have passed; 0 for a future time."""
    return max((now - since) // timedelta(hours=1), 0)


def _start(day: date, zone_name: str) -> datetime:
    return datetime.combine(day, time(), tzinfo=zone(zone_name) or UTC).astimezone(UTC)
