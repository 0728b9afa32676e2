"""The fast path of due slots, of many organizations at once: locked, read, and started as runs.

`automations/fast_path.py` decides which slots qualify; `automations/due.py` processes every other slot.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import itemgetter
from typing import NamedTuple

from steward.database import due_rows
from steward.database.engine.base import Json, PerEngine, Row, Tx, ms
from steward.database.runs.active_run import LIVE
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId

_LOCKED = PerEngine(
    # SQLite has one writer, so reading in its transaction is the lock. CROSS JOIN keeps the order of the
    # keys. They are the members of one object, because json_each would parse each pair of an array once more.
    sqlite="SELECT s.org_id, s.automation_id AS id, s.next_slot_at, s.slots_after, a.version, a.kind,"
    " a.template_id, a.template_version, a.integration_id, a.name, a.state, a.inputs, a.schedule, a.timezone,"
    " a.spread_minutes, a.connections, a.bindings, a.plan_version, o.automations_on, o.closed_from,"
    " (SELECT r.id FROM runs AS r WHERE r.org_id = s.org_id AND r.automation_id = s.automation_id"
    f" AND {LIVE.format(run='r')}) AS active_run,"
    " EXISTS (SELECT 1 FROM occurrences AS c WHERE c.org_id = s.org_id AND c.automation_id = s.automation_id"
    " AND c.slot_at >= s.next_slot_at)"
    " OR EXISTS (SELECT 1 FROM occurrences AS c WHERE c.org_id = s.org_id"
    " AND c.automation_id = s.automation_id AND c.state = 'pending') AS has_stored_rows"
    " FROM json_each(:keys) AS k CROSS JOIN schedules AS s ON s.org_id = k.value"
    " AND s.automation_id = k.key"
    " JOIN automations AS a ON a.org_id = s.org_id AND a.id = s.automation_id"
    " JOIN organizations AS o ON o.org_id = s.org_id"
    f" WHERE s.due_at <= {{now}}{due_rows.NOT_DEFERRED.format(task='dispatch', key='s.automation_id')}",
    postgresql="SELECT l.* FROM steward_lock_slots(:orgs, :ids) AS l"
    f" WHERE true{due_rows.NOT_DEFERRED.format(task='dispatch', key='l.id')}",
)
_CONNECTED = PerEngine(
    sqlite="SELECT c.org_id, c.integration_id FROM json_each(:pairs) AS k CROSS JOIN connections AS c"
    " ON c.org_id = k.value ->> 0 AND c.integration_id = k.value ->> 1 WHERE c.state = 'connected'",
    postgresql="SELECT c.org_id, c.integration_id FROM unnest(CAST(:orgs AS bigint[]),"
    " CAST(:integrations AS bigint[])) AS k (org_id, integration_id) JOIN connections AS c"
    " ON c.org_id = k.org_id AND c.integration_id = k.integration_id WHERE c.state = 'connected'",
)
_START = (
    "SELECT n FROM steward_start_slots(:orgs, :ids, :runs, :slots, :keys, :nexts, :names, :versions,"
    " :templates, :template_versions, :plans, :stores)"
)
_STAMPS = (
    "INSERT INTO fairness_orgs (org_id, last_vt) SELECT k.value ->> 0, (SELECT vt FROM fairness_clock)"
    " + (k.value ->> 1) FROM json_each(:counts) AS k WHERE true"
    " ON CONFLICT (org_id) DO UPDATE SET last_vt = max(fairness_orgs.last_vt, (SELECT vt FROM"
    " fairness_clock))"
    " + excluded.last_vt - (SELECT vt FROM fairness_clock) RETURNING org_id, last_vt"
)
_RUNS = (
    "INSERT INTO runs (org_id, id, automation_id, integration_id, mode, status, queue, vt, epoch, attempt,"
    " last_seq,"
    " plan_version, slot_at, leased_ms, queued_at, automation_name, automation_version, template_id,"
    " template_version, started_by)"
    " VALUES (:org, :run, :automation, :store, 'live', 'queued', 'ready', :vt, 0, 1, 0, :plan, :slot, 0,"
    " :queued, :name, :version, :template, :template_version, 'schedule')"
)
_OCCURRENCES = (
    "INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, run_id, version,"
    " by_auditor, from_edit, updated_at)"
    " VALUES (:org, :automation, :slot, :slot, :key, 'queued', :run, 0, 0, 0, :updated)"
)
_CLOSED_OCCURRENCES = (
    "INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason, closed_name,"
    " version, by_auditor, from_edit, updated_at) VALUES (:org, :automation, :slot, :slot, :key, 'skipped',"
    " 'by_merchant', :name, 0, 0, 0, :updated)"
)
_SKIP_CLOSED = "SELECT steward_skip_closed_slots(:orgs, :ids, :slots, :keys, :names, :nexts, :opens)"
_ADVANCE = (
    "UPDATE schedules SET next_run_at = :open, due_at = :next, next_slot_at = :next"
    " WHERE org_id = :org AND automation_id = :automation"
)


class PlainSlot(NamedTuple):  # one is created for each slot: a third of the cost of a frozen dataclass
    """An automation's only due slot: its `row` from `lock`, and the next slot."""

    row: Row
    slot_at: datetime
    local_key: str
    next_at: datetime | None


class SlotStart(NamedTuple):
    """A slot to start as a run."""

    slot: PlainSlot
    run: RunId


class ClosedSlot(NamedTuple):
    """A slot that a closed period skips, and the automation's first open slot after it."""

    slot: PlainSlot
    closed_name: str
    open_at: datetime | None


_started = itemgetter(
    "org_id",
    "id",
    "next_slot_at",
    "name",
    "version",
    "template_id",
    "template_version",
    "plan_version",
    "integration_id",
)


async def lock(tx: Tx, keys: Collection[tuple[OrgId, AutomationId]]) -> list[Row]:
    """Locks the schedules that are still due and not deferred, in order of organization and id.

    Each row has its automation, the id of the `active_run`, the switch `automations_on`, and whether pending
    or later occurrences are stored (`has_stored_rows`). Schedules that others have locked are skipped.
    """
    ordered = sorted(keys)
    return await tx.all(
        _LOCKED,
        {
            "keys": _members(ordered),
            "orgs": [org for org, _ in ordered],
            "ids": [automation for _, automation in ordered],
        },
    )


def _members(keys: Sequence[tuple[OrgId, AutomationId]]) -> str:
    """Returns a JSON object that maps each automation to its organization.

    An id that occurs in two organizations has two members.
    """
    return "{" + ",".join([f'"{automation}":{org}' for org, automation in keys]) + "}"


async def connected(
    tx: Tx, connections: Collection[tuple[OrgId, IntegrationId]]
) -> set[tuple[OrgId, IntegrationId]]:
    """Returns which of the connections exist and are connected."""
    if not connections:
        return set()
    ordered = sorted(connections)
    rows = await tx.all(
        _CONNECTED,
        {
            "pairs": Json([[org, integration] for org, integration in ordered]),
            "orgs": [org for org, _ in ordered],
            "integrations": [integration for _, integration in ordered],
        },
    )
    return {(OrgId(row["org_id"]), IntegrationId(row["integration_id"])) for row in rows}


async def start(tx: Tx, starts: Sequence[SlotStart]) -> list[SlotStart]:
    """Starts the runs and advances the schedules. Returns the starts whose queue was still empty.

    Call it with the rows of `lock`, in their order, in the same transaction.
    """
    if not starts:
        return []
    if tx.dialect == "postgresql":
        return await _start_by_function(tx, starts)
    stamps = await _stamps(tx, starts)
    runs, slots, next_slots = [], [], []
    now = ms(tx.now)
    for slot_start in starts:
        row, run = slot_start.slot.row, slot_start.run
        org, automation, slot, name, version, template, template_version, plan, store = _started(row)
        next_at = _ms(slot_start.slot.next_at)
        runs.append(
            (
                org,
                run,
                automation,
                store,
                stamps[org],
                plan,
                slot,
                now,
                name,
                version,
                template,
                template_version,
            )
        )
        slots.append((org, automation, slot, slot_start.slot.local_key, run, now))
        next_slots.append((next_at, next_at, org, automation))
        stamps[org] += 1
    await tx.many(_RUNS, runs)
    await tx.many(_OCCURRENCES, slots)
    await tx.many(_ADVANCE, next_slots)
    await due_rows.clear(tx, "dispatch", [slot_start.slot.row["id"] for slot_start in starts])
    return list(starts)


async def skip_closed(tx: Tx, closed: Sequence[ClosedSlot]) -> None:
    """Records that closed periods skip the slots, and advances the schedules.

    Call it with the rows of `lock`, in their order, in the same transaction.
    """
    if not closed:
        return
    rows = [closed_slot.slot.row for closed_slot in closed]
    nexts = [_ms(closed_slot.slot.next_at) for closed_slot in closed]
    opens = [_ms(closed_slot.open_at) for closed_slot in closed]
    if tx.dialect == "postgresql":
        arguments = {
            "orgs": [row["org_id"] for row in rows],
            "ids": [row["id"] for row in rows],
            "slots": [row["next_slot_at"] for row in rows],
            "keys": [closed_slot.slot.local_key for closed_slot in closed],
            "names": [closed_slot.closed_name for closed_slot in closed],
            "nexts": nexts,
            "opens": opens,
        }
        await tx.all(_SKIP_CLOSED, arguments)
        return
    now = ms(tx.now)
    slots, next_slots = [], []
    for (slot, name, _), next_at, open_at in zip(closed, nexts, opens, strict=True):
        org, automation, slot_at = slot.row["org_id"], slot.row["id"], slot.row["next_slot_at"]
        slots.append((org, automation, slot_at, slot.local_key, name, now))
        next_slots.append((open_at, next_at, org, automation))
    await tx.many(_CLOSED_OCCURRENCES, slots)
    await tx.many(_ADVANCE, next_slots)
    await due_rows.clear(tx, "dispatch", [row["id"] for row in rows])


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else ms(instant)


async def _stamps(tx: Tx, starts: Sequence[SlotStart]) -> dict[int, int]:
    """Returns the first stamp of each organization's runs, which get consecutive ones."""
    counts: dict[int, int] = {}
    for slot_start in starts:
        org = slot_start.slot.row["org_id"]
        counts[org] = counts.get(org, 0) + 1
    rows = await tx.all(_STAMPS, {"counts": Json([[org, n] for org, n in counts.items()])})
    return {row["org_id"]: row["last_vt"] - counts[row["org_id"]] for row in rows}


# The column for each argument of the PostgreSQL function.
_START_COLUMNS = {
    "orgs": "org_id",
    "ids": "id",
    "slots": "next_slot_at",
    "names": "name",
    "versions": "version",
    "templates": "template_id",
    "template_versions": "template_version",
    "plans": "plan_version",
    "stores": "integration_id",
}


async def _start_by_function(tx: Tx, starts: Sequence[SlotStart]) -> list[SlotStart]:
    rows = [slot_start.slot.row for slot_start in starts]
    arguments: dict[str, object] = {
        name: [row[column] for row in rows] for name, column in _START_COLUMNS.items()
    }
    arguments["runs"] = [slot_start.run for slot_start in starts]
    arguments["keys"] = [slot_start.slot.local_key for slot_start in starts]
    arguments["nexts"] = [_ms(slot_start.slot.next_at) for slot_start in starts]
    started_rows = await tx.all(_START, arguments)
    return [starts[row["n"] - 1] for row in started_rows]
