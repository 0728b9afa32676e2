"""How long ago something was: in hours, and in local days that the clocks make longer or shorter (E16)."""

from datetime import UTC, datetime, timedelta

from steward.scheduling.zones import zone


def days_before(instant: datetime, days: int, zone_name: str) -> datetime:
    """The same local time so many days earlier, in UTC. A zone nobody knows is UTC."""
    local = instant.astimezone(zone(zone_name) or UTC)
    return (local - timedelta(days=days)).astimezone(UTC)


def whole_days(since: datetime, now: datetime, zone_name: str) -> int:
    """How many whole local days have passed; 0 for a time that is yet to come."""
    days = (
        now.astimezone(zone(zone_name) or UTC).date() - since.astimezone(zone(zone_name) or UTC).date()
    ).days
    return max(days if since <= days_before(now, days, zone_name) else days - 1, 0)


def whole_hours(since: datetime, now: datetime) -> int:
    """How many whole hours have passed; 0 for a time that is yet to come."""
    return max((now - since) // timedelta(hours=1), 0)
