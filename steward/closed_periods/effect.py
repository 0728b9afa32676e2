"""Computes what a closed period would leave out, before it is created."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice

import msgspec

from steward.database.closed_periods import affected, records
from steward.database.closed_periods.affected import ScheduleGroup
from steward.database.engine.base import Tx
from steward.model.closed_period import ClosedPeriod, ClosedScopeKind, Closing, Stops
from steward.model.schedule import Schedule
from steward.scheduling.closings import closings, first_open, stopping_runs
from steward.scheduling.slots import slots
from steward.scheduling.zones import LAST, zone

_DAYS = 30
_MAX_SLOTS = 10_000
_MAX_NAMES = 20
_NEXT_CLOSINGS = 5
_INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class PeriodEffect:
    """What a period would do: `slots_closed` of the next 30 days, counted up to 10,000.

    `automations` are the active ones in its scope, `runs_waiting` the live runs whose changes would wait,
    `never_open` names of automations that would no longer run at all.
    """

    slots_closed: int
    automations: int
    runs_waiting: int
    never_open: tuple[str, ...]


def next_closings(period: ClosedPeriod, now: datetime) -> list[Closing]:
    """Returns the present or next five closings of a period."""
    return list(islice(closings(period, since=now, until=LAST), _NEXT_CLOSINGS))


async def effect_of(tx: Tx, period: ClosedPeriod) -> PeriodEffect:
    """Returns what the period would do, beside the periods that there are.

    Automations are grouped by their schedule, so that ten thousand of them cost as much as ten.
    """
    groups = await affected.schedule_groups(tx, period.org, period.scope)
    waiting = await affected.live_runs(tx, period.org, period.scope)
    automations = sum(group.automations for group in groups)
    if period.stops is not Stops.RUNS:
        return PeriodEffect(0, automations, waiting, ())
    closed = 0
    for group in groups:
        closed += _slots_closed(group, period, tx.now) * group.automations
        if closed >= _MAX_SLOTS:
            closed = _MAX_SLOTS
            break
    return PeriodEffect(closed, automations, waiting, await _never_open(tx, period, groups))


async def _never_open(tx: Tx, period: ClosedPeriod, groups: list[ScheduleGroup]) -> tuple[str, ...]:
    """Returns names of automations that the period and the organization's own leave no open slot."""
    others = [
        other
        for other in stopping_runs(await records.valid(tx, period.org, since=tx.now))
        if other.scope.kind is ClosedScopeKind.ORGANIZATION and other.id != period.id
    ]
    names: list[str] = []
    for group in groups:
        if len(names) < _MAX_NAMES and _is_never_open(group, [period, *others], tx.now):
            names += await affected.names_of_group(
                tx, period.org, period.scope, group, limit=_MAX_NAMES - len(names)
            )
    return tuple(names)


def _slots_closed(group: ScheduleGroup, period: ClosedPeriod, now: datetime) -> int:
    schedule, local_zone = _schedule(group.schedule), zone(group.timezone)
    if local_zone is None:
        return 0
    until, count, counted_until = now + timedelta(days=_DAYS), 0, now
    for closing in closings(period, since=now, until=until):
        start = max(closing.start - _INSTANT, counted_until)
        end = until if closing.end is None else min(closing.end, until)
        stream = slots(schedule, local_zone, spread_minutes=group.spread_minutes, after=start, until=end)
        count += sum(1 for _ in stream)
        counted_until = max(counted_until, end - _INSTANT)
    return count


def _is_never_open(group: ScheduleGroup, periods: list[ClosedPeriod], now: datetime) -> bool:
    schedule, local_zone = _schedule(group.schedule), zone(group.timezone)
    if local_zone is None:
        return False

    def slots_from(instant: datetime) -> Iterator[datetime]:
        stream = slots(
            schedule,
            local_zone,
            spread_minutes=group.spread_minutes,
            after=instant - _INSTANT,
            until=LAST,
        )
        return (slot.slot_at for slot in stream)

    has_slots = next(slots_from(now), None) is not None
    return has_slots and first_open(slots_from, periods, now) is None


@lru_cache(maxsize=1024)
def _schedule(text: str) -> Schedule:
    return Schedule.from_wire(msgspec.json.decode(text.encode("utf-8"), type=dict[str, object]))
