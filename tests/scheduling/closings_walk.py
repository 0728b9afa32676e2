"""Finds closed minutes by looking at the local clock each minute, without the service's code.

A whole day is the time in which its date is the latest that the clock has shown. A local time is looked
for among the times that the clock shows: a start is the first minute that shows it, an end the last. A
time that the clock skips is as long after the jump as it is inside of it.
"""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from steward.model.closed_period import ClosedKind, ClosedWhen

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


@dataclass
class Walk:
    """Numbers the minutes of a stretch of time, and holds what the clock of a zone shows in each."""

    since: datetime
    count: int = 0
    by_date: dict[date, list[int]] = field(default_factory=dict)  # by the latest date shown so far
    starts: dict[datetime, int] = field(default_factory=dict)
    ends: dict[datetime, int] = field(default_factory=dict)


def walk(zone: ZoneInfo, since: datetime, until: datetime) -> Walk:
    """Looks at the clock of the zone in every minute from `since` to `until`."""
    walked = Walk(since)
    minute, before, latest = since, None, date.min
    while minute < until:
        face = minute.astimezone(zone).replace(tzinfo=UTC)
        latest = max(latest, face.date())
        walked.by_date.setdefault(latest, []).append(walked.count)
        missed = face if before is None else before + _MINUTE
        late = 0
        while missed < face:
            walked.starts.setdefault(missed, walked.count + late)
            walked.ends[missed] = walked.count + late
            missed += _MINUTE
            late += 1
        walked.starts.setdefault(face, walked.count)
        walked.ends[face] = walked.count
        before = face
        minute += _MINUTE
        walked.count += 1
    return walked


def closed_numbers(when: ClosedWhen, walked: Walk) -> set[int]:
    """Returns the numbers of the minutes that the shape closes, exact except in the first and last days."""
    closed: set[int] = set()
    if when.kind is ClosedKind.YEARLY or (when.kind is ClosedKind.WEEKLY and when.from_time is None):
        for day, minutes in walked.by_date.items():
            if _in_year(when, day) if when.kind is ClosedKind.YEARLY else day.isoweekday() in when.days:
                closed.update(minutes)
        return closed
    for start, end in _faces(when, walked):
        if start in walked.starts and end in walked.ends:
            closed.update(range(walked.starts[start], walked.ends[end]))
    return closed


def closed_minutes(when: ClosedWhen, walked: Walk, since: datetime, until: datetime) -> set[datetime]:
    """Returns the minutes in [`since`, `until`) that the shape closes.

    The walk begins and ends days outside.
    """
    minutes = (walked.since + number * _MINUTE for number in closed_numbers(when, walked))
    return {minute for minute in minutes if since <= minute < until}


def _faces(when: ClosedWhen, walked: Walk) -> list[tuple[datetime, datetime]]:
    if when.kind is ClosedKind.ONCE:
        return [(_face(f"{when.start}"), _face(f"{when.end}"))]
    pairs = []
    day = min(walked.by_date) - _DAY
    while day <= max(walked.by_date) + _DAY:
        if day.weekday() + 1 in when.days:
            start, end = _face(f"{day}T{when.from_time}"), _face(f"{day}T{when.to_time}")
            pairs.append((start, end if end > start else end + _DAY))
        day += _DAY
    return pairs


def _face(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _in_year(when: ClosedWhen, day: date) -> bool:
    first, last, displayed = f"{when.first}", f"{when.last}", f"{day:%m-%d}"
    if (day + _DAY).month == 3 and displayed == "02-28":  # stands for the 29th that its year does not have
        first, last = first.replace("02-29", displayed), last.replace("02-29", displayed)
    return first <= displayed <= last if first <= last else displayed >= first or displayed <= last
