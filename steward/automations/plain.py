"""Judges which due slots nothing stands in the way of; all others are left to automations/due.py.

Most due slots are alike: the automation's only one, in time, its lane free, its connections connected. Such a
slot is D6 of schedule.md 5, and its automation is due again at its next slot; no whole record is needed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from steward.automations import readiness
from steward.automations.rules import AutomationRules
from steward.database.engine.base import Row, Tx, from_ms
from steward.database.runs import fast_slots as plain_slots
from steward.database.runs.fast_slots import PlainStart
from steward.model.automation import AutomationKind, AutomationState
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId, new_id
from steward.model.schedule import Schedule
from steward.scheduling import slots
from steward.scheduling.slots import Slot
from steward.scheduling.zones import LAST, zone

_INSTANT = timedelta(milliseconds=1)
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Started:
    """What one transaction made of the slots nothing stood in the way of."""

    automations: Collection[tuple[OrgId, AutomationId]]
    delays: Sequence[timedelta]


class _Candidate(NamedTuple):  # one is made for each slot: a third of what a frozen dataclass costs
    row: Row
    slot: Slot
    next_at: datetime | None
    needs: tuple[IntegrationId, ...]


async def start(tx: Tx, keys: Collection[tuple[OrgId, AutomationId]], rules: AutomationRules) -> Started:
    """Makes runs of the plain due slots among `keys`, of any number of organisations, in few statements."""
    late = tx.now - rules.late_limit
    candidates = [
        found
        for row in await plain_slots.lock(tx, keys)
        if (found := _candidate(row, now=tx.now, late=late, rules=rules)) is not None
    ]
    named = {(one.row["org_id"], number) for one in candidates for number in one.needs}
    connected = await plain_slots.connected(tx, named) if named else frozenset()
    starts = [
        PlainStart(one.row, RunId(new_id(tx.now)), one.slot.slot_at, one.slot.local_key, one.next_at)
        for one in candidates
        if all((one.row["org_id"], number) in connected for number in one.needs)
    ]
    made = await plain_slots.start(tx, starts)
    return Started(
        [(OrgId(one.row["org_id"]), AutomationId(one.row["id"])) for one in made],
        [tx.now - one.slot_at for one in made],
    )


def _candidate(row: Row, *, now: datetime, late: datetime, rules: AutomationRules) -> _Candidate | None:
    """The row's slot when it is plain but for its connections; None when anything else is the matter.

    A workflow's readiness has rules of its own, and is never judged here.
    """
    if (
        row["state"] != AutomationState.ACTIVE
        or row["kind"] != AutomationKind.TEMPLATE
        or row["holder"] is not None
        or row["stored"]
        or not row["automations_on"]
        or row["next_slot_at"] is None
        # Slots begin before the stream looks, so `slots_after` (R15) leaves none of them out.
        or row["slots_after"] >= row["next_slot_at"] - row["spread_minutes"] * _MINUTE_MS
    ):
        return None
    template = rules.templates.get(row["template_id"])
    if template is None:
        return None
    slot, next_at = _from(row["schedule"], row["timezone"], row["spread_minutes"], row["next_slot_at"])
    if slot is None or not late <= slot.slot_at <= now or (next_at is not None and next_at <= now):
        return None
    needs = readiness.needed(
        template,
        integration=row["integration_id"],
        reads=_reads(row["connections"]),
        inputs=msgspec.json.decode(row["inputs"]),
        bindings=msgspec.json.decode(row["bindings"]),
    )
    return _Candidate(row, slot, next_at, needs)


# Automations due at one time share few schedules; a look-up costs a fiftieth of working the slots out.
@lru_cache(maxsize=16_384)
def _from(schedule: str, timezone: str, spread: int, slot_ms: int) -> tuple[Slot | None, datetime | None]:
    """The slot at exactly that instant, if the schedule has it, and the instant of the one after it."""
    place = zone(timezone)
    if place is None:
        return None, None
    slot_at = from_ms(slot_ms)
    stream = slots.slots(
        Schedule.from_wire(msgspec.json.decode(schedule)),
        place,
        spread_minutes=spread,
        after=slot_at - _INSTANT,
        until=LAST,
    )
    first, second = _two(stream)
    if first is None or first.slot_at != slot_at:
        return None, None
    return first, None if second is None else second.slot_at


def _two(stream: Iterator[Slot]) -> tuple[Slot | None, Slot | None]:
    found = list(islice(stream, 2))
    return (found[0] if found else None), (found[1] if len(found) == 2 else None)


@lru_cache(maxsize=1024)
def _reads(connections: str) -> tuple[IntegrationId, ...]:
    kept: Sequence[Mapping[str, int]] = msgspec.json.decode(connections)
    return tuple(IntegrationId(one["integration_id"]) for one in kept)
