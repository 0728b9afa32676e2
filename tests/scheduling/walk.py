"""Finds slots by walking the local clock, without fold, gap arithmetic or the service's code.

It looks for the stretches between two changes of the clock's offset. The first stretch that shows a
local time gives the slot; a time that none shows lies in the jump between two of them. `every_minute`
does the same by looking at the clock each minute.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from steward.model.schedule import Cadence, Schedule

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)

Wall = datetime  # a clock's face, written as if it were UTC
Keyed = tuple[datetime, str]


@dataclass(frozen=True)
class ClockSpan:
    """Describes a time from `start` to `end` in which the clock runs without a jump, `ahead` of UTC."""

    start: datetime
    end: datetime
    ahead: timedelta


def stretches(zone: ZoneInfo, start: datetime, end: datetime) -> list[ClockSpan]:
    """Returns the stretches between two instants, found by hours, and by minutes where the clock changed."""
    found_stretches: list[ClockSpan] = []
    since, moment = start, start
    ahead = _ahead(zone, start)
    while moment < end:
        if _ahead(zone, moment + _HOUR) != ahead:
            change = moment + _MINUTE
            while _ahead(zone, change) == ahead:
                change += _MINUTE
            found_stretches.append(ClockSpan(since, change, ahead))
            since, ahead = change, _ahead(zone, change)
            moment = change
        else:
            moment += _HOUR
    return [*found_stretches, ClockSpan(since, end, ahead)]


def expected_slots(schedule: Schedule, zone: ZoneInfo, after: datetime, until: datetime) -> list[Keyed]:
    """Returns nominal instants and local keys after `after` and before `until` by rules R1 to R12."""
    clock = stretches(zone, after - 4 * _DAY, until + 4 * _DAY)
    if schedule.cadence is Cadence.HOURLY:
        found_by_instant = [(moment, f"{moment:%Y-%m-%dT%H:%M}") for moment in _full_hours(clock)]
    else:
        by_instant: dict[datetime, str] = {}
        for wall in _walls(schedule, after.date() - 3 * _DAY, until.date() + 3 * _DAY):
            instant = shown_at(clock, wall)
            if instant is not None:
                by_instant[instant] = f"{wall:%Y-%m-%dT%H:%M}"  # rising, so the later date stays (R8)
        found_by_instant = sorted(by_instant.items())
    return [keyed for keyed in found_by_instant if after < keyed[0] < until]


def every_minute(schedule: Schedule, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    """Returns the same instants by looking at the clock each minute."""
    start = (after - 3 * _DAY).replace(second=0, microsecond=0)
    expected = set(_walls(schedule, after.date() - 3 * _DAY, until.date() + 3 * _DAY))
    instants: set[datetime] = set()
    seen: set[Wall] = set()
    before: Wall | None = None
    moment = start
    while moment < until:
        wall = moment.astimezone(zone).replace(tzinfo=UTC)
        if schedule.cadence is Cadence.HOURLY:
            instants |= {moment} if wall.minute == 0 else set()
        else:
            if wall in expected and wall not in seen:
                instants.add(moment)
            seen.add(wall)
            missed = before + _MINUTE if before is not None else wall
            jumped_at = missed
            while missed < wall:  # never shown: as long after the jump as it lies inside it
                if missed in expected and missed not in seen:
                    instants.add(moment + (missed - jumped_at))
                missed += _MINUTE
        before = wall
        moment += _MINUTE
    return sorted(instant for instant in instants if after < instant < until)


def shown_at(clock: list[ClockSpan], wall: Wall) -> datetime | None:
    """Returns when the clock first shows `wall`, or would without its jump; None outside the walk."""
    for stretch in clock:
        if stretch.start <= wall - stretch.ahead < stretch.end:
            return wall - stretch.ahead
    for before, then in pairwise(clock):
        if before.end + before.ahead <= wall < then.start + then.ahead:
            return before.end + (wall - (before.end + before.ahead))
    return None


def _full_hours(clock: list[ClockSpan]) -> Iterator[datetime]:
    for stretch in clock:
        wall = stretch.start + stretch.ahead
        past = timedelta(minutes=wall.minute, seconds=wall.second)
        moment = stretch.start if not past else stretch.start + _HOUR - past
        while moment < stretch.end:
            yield moment
            moment += _HOUR


def _walls(schedule: Schedule, start: date, end: date) -> Iterator[Wall]:
    """Yields each local date and time of the rule, checking every day."""
    if schedule.cadence in (Cadence.MANUAL, Cadence.HOURLY):
        return
    times = ["00:00", "06:00", "12:00", "18:00"]
    if schedule.cadence is not Cadence.EVERY_6_HOURS:
        times = [str(schedule.time_of_day)]
    day = start
    while day <= end:
        if _is_meant(schedule, day):
            for time in times:
                yield datetime.fromisoformat(f"{day} {time}").replace(tzinfo=UTC)
        day += _DAY


def _is_meant(schedule: Schedule, day: date) -> bool:
    weekday = day.weekday() + 1
    match schedule.cadence:
        case Cadence.ONCE:
            return str(day) == schedule.date
        case Cadence.WEEKDAYS:
            return weekday in (schedule.days or (1, 2, 3, 4, 5))
        case Cadence.WEEKLY:
            return weekday == schedule.day_of_week
        case Cadence.MONTHLY if schedule.week_of_month is None:
            expected = schedule.day_of_month or 0
            is_last = (day + _DAY).day == 1
            return day.day == expected or (is_last and day.day < expected)
        case Cadence.MONTHLY:
            same = [
                n for n in range(1, 32) if _is_day(day, n) and day.replace(day=n).weekday() == day.weekday()
            ]
            expected = schedule.week_of_month or 0
            meant = same[-1] if expected == -1 else same[expected - 1]
            return weekday == schedule.day_of_week and day.day == meant
    return True


def _is_day(day: date, number: int) -> bool:
    return number <= 28 or (day.replace(day=28) + (number - 28) * _DAY).month == day.month


def _ahead(zone: ZoneInfo, moment: datetime) -> timedelta:
    local = moment.astimezone(zone)
    return local.replace(tzinfo=UTC) - moment
