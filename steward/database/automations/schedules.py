"""The schedule row of each automation: when it is due next, and up to when its slots are decided."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from steward.database.due_rows import NOT_DEFERRED
from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none, ms
from steward.model.ids import AutomationId, OrgId

_NOT_DEFERRED = NOT_DEFERRED.format(task="dispatch", key="s.automation_id")
_DUE = PerEngine(
    sqlite="SELECT s.org_id, s.automation_id FROM schedules AS s"
    f" WHERE s.due_at <= {{now}}{_NOT_DEFERRED}"
    " ORDER BY s.due_at, s.automation_id LIMIT :most",
    postgresql="SELECT org_id, automation_id FROM queue_due_slots(:most, :test_now)",
)
_NEXT_DUE = PerEngine(
    sqlite="SELECT min(due_at) AS due_at FROM schedules WHERE due_at IS NOT NULL",
    postgresql="SELECT queue_next_due() AS due_at",
)
_COLUMNS = (
    "s.org_id, s.automation_id, s.next_run_at, s.next_slot_at, s.slots_after, s.audited_until, s.due_at"
)
_SET_MANY = PerEngine(
    # Not UPDATE … FROM: SQLite's planner would scan the table once per row (20 times slower at 500). The rows
    # exist, so this never inserts.
    sqlite="INSERT INTO schedules (org_id, automation_id, next_run_at, next_slot_at, slots_after, due_at,"
    " consecutive_failures, audited_until)"
    " SELECT :org, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, 0, 0"
    " FROM json_each(:rows) AS r WHERE true"
    " ON CONFLICT (org_id, automation_id) DO UPDATE SET next_run_at = excluded.next_run_at,"
    " next_slot_at = excluded.next_slot_at, slots_after = excluded.slots_after, due_at = excluded.due_at",
    postgresql="UPDATE schedules SET next_run_at = (r.value ->> 1)::bigint,"
    " next_slot_at = (r.value ->> 2)::bigint, slots_after = (r.value ->> 3)::bigint,"
    " due_at = (r.value ->> 4)::bigint"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r"
    " WHERE schedules.org_id = :org AND schedules.automation_id = r.value ->> 0",
)


@dataclass(frozen=True, slots=True)
class Timing:
    """The time when an automation is due, and which of its slots are decided.

    `due_at` is the first undecided slot, `next_run_at` the first of these outside every closed period.
    Every slot before `next_slot_at` has a stored row; `next_slot_at` is null when there are no future
    slots.
    """

    next_run_at: datetime | None
    next_slot_at: datetime | None
    slots_after: datetime
    audited_until: datetime
    due_at: datetime | None = None


async def insert(tx: Tx, org: OrgId, automation: AutomationId, timing: Timing) -> None:
    """Stores the schedule row of a new automation."""
    await tx.execute(
        "INSERT INTO schedules (org_id, automation_id, next_run_at, next_slot_at, slots_after, due_at,"
        " consecutive_failures, audited_until)"
        " VALUES (:org, :automation, :next_run, :next_slot, :slots_after, :due, 0, :audited)",
        {
            "org": org,
            "automation": automation,
            "next_run": timing.next_run_at,
            "next_slot": timing.next_slot_at,
            "slots_after": timing.slots_after,
            "audited": timing.audited_until,
            "due": timing.due_at,
        },
    )


async def lock(tx: Tx, org: OrgId, automation: AutomationId) -> Timing | None:
    """Locks the automation's schedule, first in the lock order; returns None when it does not exist."""
    row = await tx.first(
        f"SELECT {_COLUMNS} FROM schedules AS s"
        " WHERE s.org_id = :org AND s.automation_id = :automation {for_update}",
        {"org": org, "automation": automation},
    )
    return None if row is None else _timing(row)


async def lock_many(tx: Tx, org: OrgId, automations: Collection[AutomationId]) -> dict[AutomationId, Timing]:
    """Locks the existing schedules of the automations in ascending order of id; waits for each."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM schedules AS s WHERE s.org_id = :org AND s.automation_id IN (:automations)"
        " ORDER BY s.automation_id {for_update}",
        {"org": org, "automations": list(automations)},
    )
    return {AutomationId(row["automation_id"]): _timing(row) for row in rows}


async def due(tx: Tx, *, max_rows: int) -> list[tuple[OrgId, AutomationId]]:
    """Returns automations of all organizations with a run due, longest due first, without deferred ones."""
    rows = await tx.all(_DUE, {"most": max_rows, "test_now": tx.test_now})
    return [(OrgId(row["org_id"]), AutomationId(row["automation_id"])) for row in rows]


async def next_due(tx: Tx) -> datetime | None:
    """Returns the smallest `due_at` of all organizations."""
    row = await tx.first(_NEXT_DUE)
    return None if row is None else from_ms_or_none(row["due_at"])


async def lock_due(tx: Tx, org: OrgId, automations: Collection[AutomationId]) -> dict[AutomationId, Timing]:
    """Locks the given schedules that are still due and not deferred, in ascending order of id.

    Skips those that others have locked.
    """
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM schedules AS s"
        " WHERE s.org_id = :org AND s.automation_id IN (:automations) AND s.due_at <= {now}"
        f"{_NOT_DEFERRED} ORDER BY s.automation_id {{skip_locked}}",
        {"org": org, "automations": list(automations)},
    )
    return {AutomationId(row["automation_id"]): _timing(row) for row in rows}


async def set_many(tx: Tx, org: OrgId, timings: Mapping[AutomationId, Timing]) -> None:
    """Stores when each of the automations is due next; call it with the schedules locked."""
    rows = [
        [
            automation,
            _ms(timing.next_run_at),
            _ms(timing.next_slot_at),
            ms(timing.slots_after),
            _ms(timing.due_at),
        ]
        for automation, timing in timings.items()
    ]
    await tx.execute(_SET_MANY, {"org": org, "rows": Json(rows)})


async def stop(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Clears the due times of an automation."""
    await tx.execute(
        "UPDATE schedules SET next_run_at = NULL, next_slot_at = NULL, due_at = NULL"
        " WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation},
    )


def _timing(row: Row) -> Timing:
    return Timing(
        from_ms_or_none(row["next_run_at"]),
        from_ms_or_none(row["next_slot_at"]),
        from_ms(row["slots_after"]),
        from_ms(row["audited_until"]),
        from_ms_or_none(row["due_at"]),
    )


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else ms(instant)
