"""Decides which due slots qualify for the fast path; all others take the slow path of `automations/due.py`.

Most due slots are alike: the automation's only one, in time, no active run, its connections connected. Such a
slot starts, and its automation is due again at its next slot; no whole record is needed.
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
from steward.database.engine.base import Row, Tx, from_ms, ms
from steward.database.runs import fast_slots
from steward.database.runs.fast_slots import SlotStart
from steward.model.automation import AutomationKind, AutomationState
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId, new_id
from steward.model.schedule import Schedule
from steward.scheduling import slots
from steward.scheduling.slots import Slot
from steward.scheduling.zones import LAST, zone

_INSTANT = timedelta(milliseconds=1)
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class FastStarts:
    """What one transaction started on the fast path."""

    automations: Collection[tuple[OrgId, AutomationId]]
    delays: Sequence[timedelta]


class _Candidate(NamedTuple):  # one is made for each slot: a third of what a frozen dataclass costs
    row: Row
    slot: Slot
    next_at: datetime | None
    needs: tuple[IntegrationId, ...]


async def start(tx: Tx, keys: Collection[tuple[OrgId, AutomationId]], rules: AutomationRules) -> FastStarts:
    """Starts runs of qualifying due slots among `keys`, of any number of organizations, in few statements."""
    late = tx.now - rules.late_limit
    candidates = [
        candidate
        for row in await fast_slots.lock(tx, keys)
        if (candidate := _candidate(row, now=tx.now, late=late, rules=rules)) is not None
    ]
    named = {(candidate.row["org_id"], number) for candidate in candidates for number in candidate.needs}
    connected = await fast_slots.connected(tx, named) if named else frozenset()
    started = await fast_slots.start(tx, _slot_starts(candidates, connected, tx.now))
    return FastStarts(
        [(OrgId(slot_start.row["org_id"]), AutomationId(slot_start.row["id"])) for slot_start in started],
        [tx.now - slot_start.slot_at for slot_start in started],
    )


def _slot_starts(
    candidates: Sequence[_Candidate], connected: Collection[tuple[OrgId, IntegrationId]], now: datetime
) -> list[SlotStart]:
    """Returns the starts of the candidates whose connections are all connected."""
    return [
        SlotStart(
            candidate.row,
            RunId(new_id(now)),
            candidate.slot.slot_at,
            candidate.slot.local_key,
            candidate.next_at,
        )
        for candidate in candidates
        if all((candidate.row["org_id"], number) in connected for number in candidate.needs)
    ]


def _candidate(row: Row, *, now: datetime, late: datetime, rules: AutomationRules) -> _Candidate | None:
    """Returns the row's slot when it qualifies, connections aside; otherwise None.

    A workflow's readiness has rules of its own and never qualifies.
    """
    if not _is_plain(row):
        return None
    template = rules.templates.get(row["template_id"])
    if template is None:
        return None
    slot, next_at = _from(row["schedule"], row["timezone"], row["spread_minutes"], row["next_slot_at"])
    if slot is None or not late <= slot.slot_at <= now or (next_at is not None and next_at <= now):
        return None
    if row["closed_from"] is not None and row["closed_from"] <= ms(
        slot.slot_at if next_at is None else next_at
    ):
        return None  # a closed period may hold this slot or the next
    needs = readiness.needed(
        template,
        integration=row["integration_id"],
        reads=_reads(row["connections"]),
        inputs=msgspec.json.decode(row["inputs"]),
        bindings=msgspec.json.decode(row["bindings"]),
    )
    return _Candidate(row, slot, next_at, needs)


def _is_plain(row: Row) -> bool:
    return (
        row["state"] == AutomationState.ACTIVE
        and row["kind"] == AutomationKind.TEMPLATE
        and row["holder"] is None
        and not row["stored"]
        and row["automations_on"]
        and row["next_slot_at"] is not None
        # Slots begin before the stream looks, so `slots_after` leaves none of them out.
        and row["slots_after"] < row["next_slot_at"] - row["spread_minutes"] * _MINUTE_MS
    )


# Automations due at one time share few schedules; a look-up costs a fiftieth of working the slots out.
@lru_cache(maxsize=16_384)
def _from(schedule: str, timezone: str, spread: int, slot_ms: int) -> tuple[Slot | None, datetime | None]:
    """Returns the slot at exactly that instant, if the schedule has it, and the instant of the next one."""
    zone_info = zone(timezone)
    if zone_info is None:
        return None, None
    slot_at = from_ms(slot_ms)
    stream = slots.slots(
        Schedule.from_wire(msgspec.json.decode(schedule)),
        zone_info,
        spread_minutes=spread,
        after=slot_at - _INSTANT,
        until=LAST,
    )
    first, second = _two(stream)
    if first is None or first.slot_at != slot_at:
        return None, None
    return first, None if second is None else second.slot_at


def _two(stream: Iterator[Slot]) -> tuple[Slot | None, Slot | None]:
    first_two = list(islice(stream, 2))
    return (first_two[0] if first_two else None), (first_two[1] if len(first_two) == 2 else None)


@lru_cache(maxsize=1024)
def _reads(connections: str) -> tuple[IntegrationId, ...]:
    stored_reads: Sequence[Mapping[str, int]] = msgspec.json.decode(connections)
    return tuple(IntegrationId(read["integration_id"]) for read in stored_reads)
