"""Reads and stores the state of the slot auditor, and the time-zone database in use."""

from collections.abc import Collection, Mapping
from datetime import datetime

from steward.database.automations.schedules import Timing
from steward.database.engine.base import Json, PerEngine, Tx, from_ms, from_ms_or_none, ms
from steward.model.ids import AutomationId, OrgId
from steward.model.json import JsonValue

_DUE = PerEngine(
    sqlite="SELECT s.org_id, s.automation_id, s.audited_until FROM schedules AS s"
    " WHERE s.audited_until < :before AND (s.due_at IS NULL OR s.due_at > :until)"
    " ORDER BY s.audited_until, s.automation_id LIMIT :most",
    postgresql="SELECT org_id, automation_id, audited_until"
    " FROM queue_slots_to_audit(:before, :until, :most)",
)
_ALL = PerEngine(
    sqlite="SELECT s.org_id, s.automation_id FROM schedules AS s"
    " WHERE (s.org_id, s.automation_id) > (:after_org, :after_id)"
    " ORDER BY s.org_id, s.automation_id LIMIT :most",
    postgresql="SELECT org_id, automation_id FROM queue_schedules(:after_org, :after_id, :most)",
)
_SET_AUDITED = PerEngine(
    sqlite="UPDATE schedules SET audited_until = r.value ->> 1 FROM json_each(:rows) AS r"
    " WHERE schedules.org_id = :org AND schedules.automation_id = r.value ->> 0",
    postgresql="UPDATE schedules SET audited_until = (r.value ->> 1)::bigint"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r"
    " WHERE schedules.org_id = :org AND schedules.automation_id = r.value ->> 0",
)

Key = tuple[OrgId, AutomationId]
# Sorts before every automation: the auditor's pass over all automations starts here.
FIRST: Key = (OrgId(0), AutomationId(""))


async def time_zone_data(tx: Tx) -> str | None:
    """Returns the version of the zone database that all slots follow; None in a new database."""
    row = await tx.first("SELECT version FROM time_zone_data WHERE singleton = 1")
    return None if row is None else str(row["version"])


async def store_time_zone_data(tx: Tx, version: str) -> None:
    """Records that all slots are computed with this version of the zone database."""
    await tx.execute(
        "INSERT INTO time_zone_data (singleton, version, since) VALUES (1, :version, :now)"
        " ON CONFLICT (singleton) DO UPDATE SET version = excluded.version, since = excluded.since",
        {"version": version},
    )


async def due(
    tx: Tx, *, before: datetime, until: datetime, max_rows: int
) -> tuple[list[Key], datetime | None]:
    """Returns automations of all organizations audited up to less than `before`, longest ago first.

    Also returns up to when the first one is audited. Omits automations with a run due by `until`, which
    dispatch has yet to decide.
    """
    rows = await tx.all(_DUE, {"before": before, "until": until, "most": max_rows})
    keys = [(OrgId(row["org_id"]), AutomationId(row["automation_id"])) for row in rows]
    return keys, from_ms(rows[0]["audited_until"]) if rows else None


async def after(tx: Tx, key: Key, *, max_rows: int) -> list[Key]:
    """Returns up to `max_rows` automations of all organizations that come after `key`, in order."""
    rows = await tx.all(_ALL, {"after_org": key[0], "after_id": key[1], "most": max_rows})
    return [(OrgId(row["org_id"]), AutomationId(row["automation_id"])) for row in rows]


async def lock(tx: Tx, org: OrgId, automations: Collection[AutomationId]) -> dict[AutomationId, Timing]:
    """Locks the automations' schedules in ascending order of id; skips those that others have locked."""
    rows = await tx.all(
        "SELECT s.automation_id, s.next_run_at, s.next_slot_at, s.slots_after, s.audited_until, s.due_at"
        " FROM schedules AS s WHERE s.org_id = :org AND s.automation_id IN (:automations)"
        " ORDER BY s.automation_id {skip_locked}",
        {"org": org, "automations": list(automations)},
    )
    return {
        AutomationId(row["automation_id"]): Timing(
            from_ms_or_none(row["next_run_at"]),
            from_ms_or_none(row["next_slot_at"]),
            from_ms(row["slots_after"]),
            from_ms(row["audited_until"]),
            from_ms_or_none(row["due_at"]),
        )
        for row in rows
    }


async def set_audited(tx: Tx, org: OrgId, audited: Mapping[AutomationId, datetime]) -> None:
    """Stores up to when the slots of the automations have been audited; call it with them locked."""
    rows: list[JsonValue] = [[automation, ms(until)] for automation, until in audited.items()]
    await tx.execute(_SET_AUDITED, {"org": org, "rows": Json(rows)})
