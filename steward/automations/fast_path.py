"""Decides which due slots take the fast path; all others take the slow path of `automations/due.py`.

Most due slots are alike: the automation's only one, in time, no active run, its connections connected. Such a
slot starts, and its automation is due again at its next slot; no whole record is needed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice

import msgspec

from steward.automations import closed_slots, readiness
from steward.automations.rules import AutomationRules
from steward.database.engine.base import Row, Tx, from_ms
from steward.database.runs import fast_slots
from steward.database.runs.fast_slots import PlainSlot, SlotStart
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
    """The decisions of one fast-path transaction: the automations, and how late each run started."""

    automations: Collection[tuple[OrgId, AutomationId]]
    delays: Sequence[timedelta]


async def start(tx: Tx, keys: Collection[tuple[OrgId, AutomationId]], rules: AutomationRules) -> FastStarts:
    """Starts runs of qualifying due slots among `keys`, of any number of organizations, in few statements.

    Slots that a closed period leaves out are recorded.
    """
    late = tx.now - rules.late_limit
    due = [
        plain_slot
        for row in await fast_slots.lock(tx, keys)
        if (plain_slot := _plain_slot(row, now=tx.now, late=late, rules=rules)) is not None
    ]
    judged = await closed_slots.judge(tx, due)
    ready = [
        (plain_slot, _needs(plain_slot.row, rules))
        for plain_slot in judged.unaffected
        if _may_start_if_connected(plain_slot.row)
    ]
    named = {(plain_slot.row["org_id"], number) for plain_slot, needs in ready for number in needs}
    connected = await fast_slots.connected(tx, named) if named else frozenset()
    started = await fast_slots.start(
        tx,
        [
            SlotStart(plain_slot, RunId(new_id(tx.now)))
            for plain_slot, needs in ready
            if all((plain_slot.row["org_id"], number) in connected for number in needs)
        ],
    )
    await fast_slots.skip_closed(tx, judged.closed)
    decided = [slot_start.slot.row for slot_start in started]
    decided += [closed_slot.slot.row for closed_slot in judged.closed]
    return FastStarts(
        [(OrgId(row["org_id"]), AutomationId(row["id"])) for row in decided],
        [tx.now - slot_start.slot.slot_at for slot_start in started],
    )


def _plain_slot(row: Row, *, now: datetime, late: datetime, rules: AutomationRules) -> PlainSlot | None:
    """Returns the row's slot if it is the only one due, in time, and without a stored row; otherwise None."""
    is_offered = row["kind"] == AutomationKind.WORKFLOW or row["template_id"] in rules.templates
    if (
        not is_offered
        or row["state"] != AutomationState.ACTIVE
        or row["has_stored_rows"]
        or row["next_slot_at"] is None
    ):
        return None
    # The stream below ignores `slots_after`, so slots that it could exclude take the slow path.
    if row["slots_after"] >= row["next_slot_at"] - row["spread_minutes"] * _MINUTE_MS:
        return None
    slot, next_at = _slot_and_next(
        row["schedule"], row["timezone"], row["spread_minutes"], row["next_slot_at"]
    )
    if slot is None or not late <= slot.slot_at <= now or (next_at is not None and next_at <= now):
        return None
    return PlainSlot(row, slot.slot_at, slot.local_key, next_at)


def _may_start_if_connected(row: Row) -> bool:
    """Returns whether nothing but its connections keeps the automation from starting a run.

    A workflow's readiness has rules of its own and never qualifies.
    """
    return (
        row["kind"] == AutomationKind.TEMPLATE and row["active_run"] is None and bool(row["automations_on"])
    )


def _needs(row: Row, rules: AutomationRules) -> tuple[IntegrationId, ...]:
    """Returns the connections that a run of the automation needs."""
    return readiness.needed(
        rules.templates[row["template_id"]],
        integration=row["integration_id"],
        reads=_connections_read(row["connections"]),
        inputs=msgspec.json.decode(row["inputs"]),
        bindings=msgspec.json.decode(row["bindings"]),
    )


# Automations due at one time share few schedules; a cached result costs a fiftieth of computing the slots.
@lru_cache(maxsize=16_384)
def _slot_and_next(
    schedule: str, timezone: str, spread: int, slot_ms: int
) -> tuple[Slot | None, datetime | None]:
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
    first, second = _first_two(stream)
    if first is None or first.slot_at != slot_at:
        return None, None
    return first, None if second is None else second.slot_at


def _first_two(stream: Iterator[Slot]) -> tuple[Slot | None, Slot | None]:
    first_two = list(islice(stream, 2))
    return (first_two[0] if first_two else None), (first_two[1] if len(first_two) == 2 else None)


@lru_cache(maxsize=1024)
def _connections_read(connections: str) -> tuple[IntegrationId, ...]:
    stored_reads: Sequence[Mapping[str, int]] = msgspec.json.decode(connections)
    return tuple(IntegrationId(read["integration_id"]) for read in stored_reads)
