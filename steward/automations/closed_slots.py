"""Judges due slots of the fast path by the closed periods of their organizations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from steward.closed_periods import acting
from steward.closed_periods.acting import ActingPeriods
from steward.database.engine.base import Row, Tx, ms
from steward.database.runs.fast_slots import ClosedSlot, PlainSlot
from steward.model.closed_period import ClosedPeriod
from steward.model.ids import OrgId
from steward.model.schedule import Schedule
from steward.scheduling import slots
from steward.scheduling.closings import closing_at, closings, first_open, stopping_runs
from steward.scheduling.zones import LAST, zone

_INSTANT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class JudgedSlots:
    """The slots that no period leaves out, nor the next ones after them, and those that one leaves out."""

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
    periods = await acting.read_many(tx, sorted({plain_slot.row["org_id"] for plain_slot in doubtful}), since)
    judges = _judges(doubtful, periods)
    unaffected, closed = [], []
    for plain_slot in due:
        judge_of_org = judges.get(plain_slot.row["org_id"])
        if judge_of_org is None or not _may_be_closed(plain_slot):
            unaffected.append(plain_slot)
            continue
        name = judge_of_org.closed_name(plain_slot)
        if name is not None:
            closed.append(ClosedSlot(plain_slot, name, judge_of_org.next_open(plain_slot)))
        elif plain_slot.next_at is None or not judge_of_org.is_closed(plain_slot.row, plain_slot.next_at):
            unaffected.append(plain_slot)
    return JudgedSlots(unaffected, closed)


def _may_be_closed(plain_slot: PlainSlot) -> bool:
    """Whether the slot or the next one does not lie before the organization's first closing."""
    closed_from = plain_slot.row["closed_from"]
    last = plain_slot.slot_at if plain_slot.next_at is None else plain_slot.next_at
    return closed_from is not None and closed_from <= ms(last)


def _judges(doubtful: Iterable[PlainSlot], periods: Mapping[OrgId, ActingPeriods]) -> dict[int, "_Judge"]:
    """Returns the judge of each organization, for the time from its first slot to its last next one."""
    spans: dict[int, tuple[datetime, datetime]] = {}
    for plain_slot in doubtful:
        first = plain_slot.slot_at
        last = plain_slot.next_at or first
        since, until = spans.get(plain_slot.row["org_id"], (first, last))
        spans[plain_slot.row["org_id"]] = (min(since, first), max(until, last))
    return {
        org: _Judge(periods.get(OrgId(org), ActingPeriods()), since, until)
        for org, (since, until) in spans.items()
    }


@dataclass
class _Judge:
    """What the periods of one organization leave out of slots between two instants.

    Of an organization's many periods few reach into that time; only these are asked about each slot.
    """

    periods: ActingPeriods
    since: datetime
    until: datetime
    _near: ActingPeriods = field(init=False)
    _names: dict[tuple[tuple[int, ...], datetime], str | None] = field(default_factory=dict)
    _open_at: dict[tuple[object, ...], datetime | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        reach = self.until + _INSTANT
        self._near = ActingPeriods(
            tuple(
                period
                for period in stopping_runs(self.periods.periods)
                if any(True for _ in closings(period, since=self.since, until=reach))
            )
        )

    def closed_name(self, plain_slot: PlainSlot) -> str | None:
        """Returns the name of the period that leaves the slot out; None when none does."""
        return self._name_at(plain_slot.row, plain_slot.slot_at)

    def is_closed(self, row: Row, instant: datetime) -> bool:
        """Whether a period leaves out a slot of the automation at an instant of the judge's time."""
        return self._name_at(row, instant) is not None

    def next_open(self, plain_slot: PlainSlot) -> datetime | None:
        """Returns the first open slot after this one; None when there is none."""
        row, next_at = plain_slot.row, plain_slot.next_at
        if next_at is None or not self.is_closed(row, next_at):
            return next_at
        acting_periods = self.periods.on_runs_of(row["id"], row["integration_id"])
        key = (_key(acting_periods), row["schedule"], row["timezone"], row["spread_minutes"], next_at)
        if key not in self._open_at:
            self._open_at[key] = _first_open(row, acting_periods, next_at)
        return self._open_at[key]

    def _name_at(self, row: Row, instant: datetime) -> str | None:
        acting_periods = self._near.on_runs_of(row["id"], row["integration_id"])
        if not acting_periods:
            return None
        key = (_key(acting_periods), instant)
        if key not in self._names:
            closing = closing_at(acting_periods, instant)
            self._names[key] = None if closing is None else closing.period.name
        return self._names[key]


def _key(periods: Iterable[ClosedPeriod]) -> tuple[int, ...]:
    """Identifies periods that one judge holds, which live as long as it does."""
    return tuple(map(id, periods))


def _first_open(row: Row, periods: Sequence[ClosedPeriod], since: datetime) -> datetime | None:
    schedule = Schedule.from_wire(msgspec.json.decode(row["schedule"]))
    zone_info = zone(row["timezone"])
    if zone_info is None:
        raise LookupError(f"the zone database has no {row['timezone']}")

    def slots_from(instant: datetime) -> Iterator[datetime]:
        stream = slots.slots(
            schedule, zone_info, spread_minutes=row["spread_minutes"], after=instant - _INSTANT, until=LAST
        )
        return (slot.slot_at for slot in stream)

    return first_open(slots_from, periods, since)
