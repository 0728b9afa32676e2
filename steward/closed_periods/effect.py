"""Computes which runs a closed period would exclude, before it is created."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TypeAlias

import msgspec

from steward.database.closed_periods import affected, records
from steward.database.closed_periods.affected import ScheduleGroup
from steward.database.engine.base import Tx
from steward.model.closed_period import ClosedPeriod, ClosedScopeKind, Closing, Stops
from steward.model.schedule import Schedule
from steward.scheduling.closings import ClosedTimes, closings, count_closed, first_open, stopping_runs
from steward.scheduling.slots import slots
from steward.scheduling.zones import LAST, zone

_DAYS = 30
_MAX_SLOTS = 10_000
_MAX_NAMES = 20
_NEXT_CLOSINGS = 5
_INSTANT = timedelta(milliseconds=1)

Stretch: TypeAlias = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class PeriodEffect:
    """The effect of a period; `slots_closed` covers the next 30 days, counted up to 10,000.

    `automations` is the number of active ones in its scope, `runs_waiting` that of live runs whose changes
    would wait, `never_open` the names of automations that would no longer run at all.
    """

    slots_closed: int
    automations: int
    runs_waiting: int
    never_open: tuple[str, ...]


def next_closings(period: ClosedPeriod, now: datetime) -> list[Closing]:
    """Returns the next five closings of a period, including the current one."""
    return list(islice(closings(period, since=now, until=LAST), _NEXT_CLOSINGS))


async def effect_of(tx: Tx, period: ClosedPeriod) -> PeriodEffect:
    """Returns the effect of the period, in addition to existing periods.

    Automations are grouped by schedule, and closings are computed once for all of them.
    """
    groups = await affected.schedule_groups(tx, period.org, period.scope)
    waiting = await affected.live_runs(tx, period.org, period.scope)
    automations = sum(group.automations for group in groups)
    if period.stops is not Stops.RUNS:
        return PeriodEffect(0, automations, waiting, ())
    closed, since = 0, tx.now
    stretches = _closed_stretches(period, since)
    for group in groups if stretches else ():
        closed += _slots_closed(group, stretches, since) * group.automations
        if closed >= _MAX_SLOTS:
            closed = _MAX_SLOTS
            break
    return PeriodEffect(closed, automations, waiting, await _never_open(tx, period, groups))


async def _never_open(tx: Tx, period: ClosedPeriod, groups: list[ScheduleGroup]) -> tuple[str, ...]:
    """Returns names of automations left without an open slot by this and the organization's periods."""
    others = [
        other
        for other in stopping_runs(await records.valid(tx, period.org, since=tx.now))
        if other.scope.kind is ClosedScopeKind.ORGANIZATION and other.id != period.id
    ]
    closed = ClosedTimes([period, *others], tx.now)
    names: list[str] = []
    for group in groups:
        if len(names) == _MAX_NAMES:
            break
        if _is_never_open(group, closed, tx.now):
            names += await affected.names_of_group(
                tx, period.org, period.scope, group, limit=_MAX_NAMES - len(names)
            )
    return tuple(names)


def _closed_stretches(period: ClosedPeriod, now: datetime) -> list[Stretch]:
    """Returns the stretches of the next 30 days that the period closes, by start."""
    until = now + timedelta(days=_DAYS)
    stretches: list[Stretch] = []
    for closing in closings(period, since=now, until=until):
        start = max(closing.start, now)
        end = until if closing.end is None else min(closing.end, until)
        if stretches and start <= stretches[-1][1]:
            start, end = stretches[-1][0], max(end, stretches.pop()[1])
        if start < end:
            stretches.append((start, end))
    return stretches


def _slots_closed(group: ScheduleGroup, stretches: Sequence[Stretch], now: datetime) -> int:
    def slots_from(instant: datetime) -> Iterator[datetime]:
        return _slots_of(group, after=max(instant - _INSTANT, now), until=stretches[-1][1])

    return count_closed(slots_from, stretches)


def _is_never_open(group: ScheduleGroup, closed: ClosedTimes, now: datetime) -> bool:
    def slots_from(instant: datetime) -> Iterator[datetime]:
        return _slots_of(group, after=instant - _INSTANT, until=LAST)

    return first_open(slots_from, closed, now) is None and next(slots_from(now), None) is not None


def _slots_of(group: ScheduleGroup, *, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yields the group's slots in ascending order; none if its zone is no longer known."""
    local_zone = zone(group.timezone)
    if local_zone is None:
        return iter(())
    schedule = _schedule(group.schedule)
    stream = slots(schedule, local_zone, spread_minutes=group.spread_minutes, after=after, until=until)
    return map(attrgetter("slot_at"), stream)


@lru_cache(maxsize=1024)
def _schedule(text: str) -> Schedule:
    return Schedule.from_wire(msgspec.json.decode(text.encode("utf-8"), type=dict[str, object]))
