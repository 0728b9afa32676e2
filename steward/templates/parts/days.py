"""Local days as the instants they begin and end at (templates E16); which day a run is about is the run's."""

from datetime import UTC, date, datetime, time, timedelta

from steward.scheduling.zones import zone


def window_of(day: date, zone_name: str) -> tuple[datetime, datetime]:
    """When the local day begins and when the next one does, in UTC: 23 to 25 hours apart (E16).

    A day whose midnight the clocks leave out begins when they go on. A zone nobody knows is UTC.
    """
    return _start(day, zone_name), _start(day + timedelta(days=1), zone_name)


def _start(day: date, zone_name: str) -> datetime:
    return datetime.combine(day, time(), tzinfo=zone(zone_name) or UTC).astimezone(UTC)
