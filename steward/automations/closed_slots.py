"""Judges due slots of the fast path by the closed periods of their organizations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial

import msgspec

from steward.closed_periods import applicable
from steward.closed_periods.applicable import ApplicablePeriods
from steward.database.engine.base import Tx, ms
from steward.database.runs.fast_slots import ClosedSlot, PlainSlot
from steward.model.ids import OrgId
from steward.model.schedule import Schedule
from steward.scheduling import slots
from steward.scheduling.closings import ClosedTimes
from steward.scheduling.zones import LAST, zone

_INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class JudgedSlots:
    """Due slots: `closed` are left out by a closed period; of `unaffected` the next slot is open too."""

    unaffected: Sequence[PlainSlot]
    closed: Sequence[ClosedSlot]


async def judge(tx: Tx, due: Sequence[PlainSlot]) -> JudgedSlots:
    """Judges due slots of any organizations; call it with their schedules locked.

    An open slot whose next one is closed is in neither list: the slow path decides it.
    """
    doubtful = [plain_slot for plain_slot in due if _may_be_closed(plain_slot)]
    if not doubtful:
        return JudgedSlots(due, [])
    since = min(plain_slot.slot_at for plain_slot in doubtful)
    periods = await applicable.read_many(
        tx, sorted({plain_slot.row["org_id"] for plain_slot in doubtful}), since
    )
    unaffected, closed = [], []
    for plain_slot in due:
        times = _closed_times(plain_slot, periods) if _may_be_closed(plain_slot) else None
        closing = None if times is None else times.closing_at(plain_slot.slot_at)
        if times is not None and closing is not None:
            closed.append(ClosedSlot(plain_slot, closing.period.name, _next_open(plain_slot, times)))
        elif times is None or plain_slot.next_at is None or times.stretch_at(plain_slot.next_at) is None:
            unaffected.append(plain_slot)
    return JudgedSlots(unaffected, closed)


def _may_be_closed(plain_slot: PlainSlot) -> bool:
    """Returns whether the slot or the next one can lie in a closed period of the organization."""
    closed_from = plain_slot.row["closed_from"]
    last = plain_slot.slot_at if plain_slot.next_at is None else plain_slot.next_at
    return closed_from is not None and closed_from <= ms(last)


def _closed_times(plain_slot: PlainSlot, periods: Mapping[OrgId, ApplicablePeriods]) -> ClosedTimes | None:
    """Returns when no run of the slot's automation begins; None when no period acts on it."""
    row = plain_slot.row
    applicable_periods = periods.get(row["org_id"])
    return None if applicable_periods is None else applicable_periods.times(row["id"], row["integration_id"])


def _next_open(plain_slot: PlainSlot, times: ClosedTimes) -> datetime | None:
    """Returns the first open slot after a closed one; None when there is none."""
    next_at = plain_slot.next_at
    if next_at is None or times.stretch_at(next_at) is None:
        return next_at
    row = plain_slot.row
    stream = row["schedule"], row["timezone"], row["spread_minutes"]
    return times.first_open_of(stream, partial(_slots_from, *stream), next_at)


def _slots_from(schedule: str, timezone: str, spread_minutes: int, instant: datetime) -> Iterator[datetime]:
    """Yields the slots of a stored schedule from an instant on."""
    zone_info = zone(timezone)
    if zone_info is None:
        raise LookupError(f"the zone database has no {timezone}")
    stream = slots.slots(
        _schedule(schedule), zone_info, spread_minutes=spread_minutes, after=instant - _INSTANT, until=LAST
    )
    return (slot.slot_at for slot in stream)


@lru_cache(maxsize=1024)
def _schedule(stored: str) -> Schedule:
    return Schedule.from_wire(msgspec.json.decode(stored))
