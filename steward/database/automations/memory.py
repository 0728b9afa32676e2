"""A template's own memory per automation; written only with the checkpoint of a live run's step."""

import json

from steward.database.engine.base import Json, Tx
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.json import JsonValue


async def of_space(tx: Tx, org: OrgId, automation: AutomationId, space: str) -> dict[str, JsonValue]:
    """Returns everything remembered in one space."""
    rows = await tx.all(
        "SELECT key, value FROM memory"
        " WHERE org_id = :org AND automation_id = :automation AND space = :space",
        {"org": org, "automation": automation, "space": space},
    )
    return {row["key"]: json.loads(row["value"]) for row in rows}


async def of_template(tx: Tx, org: OrgId, template_id: str, space: str) -> dict[str, JsonValue]:
    """Like `of_space`, over all automations of a template; the newest value of a key takes precedence."""
    rows = await tx.all(
        "SELECT m.key, m.value FROM memory AS m"
        " JOIN automations AS a ON a.org_id = m.org_id AND a.id = m.automation_id"
        " WHERE m.org_id = :org AND a.template_id = :template AND m.space = :space"
        " ORDER BY m.updated_at",
        {"org": org, "template": template_id, "space": space},
    )
    return {row["key"]: json.loads(row["value"]) for row in rows}


async def value(tx: Tx, org: OrgId, automation: AutomationId, *, space: str, key: str) -> JsonValue:
    """Returns what is remembered under a key; None if nothing is."""
    row = await tx.first(
        "SELECT value FROM memory"
        " WHERE org_id = :org AND automation_id = :automation AND space = :space AND key = :key",
        {"org": org, "automation": automation, "space": space, "key": key},
    )
    present: JsonValue = None if row is None else json.loads(row["value"])
    return present


async def write(
    tx: Tx,
    org: OrgId,
    automation: AutomationId,
    *,
    space: str,
    key: str,
    value: JsonValue,
    run: RunId,
) -> None:
    """Remembers one value; None forgets it."""
    args: dict[str, object] = {"org": org, "automation": automation, "space": space, "key": key}
    if value is None:
        await tx.execute(
            "DELETE FROM memory"
            " WHERE org_id = :org AND automation_id = :automation AND space = :space AND key = :key",
            args,
        )
        return
    await tx.execute(
        "INSERT INTO memory (org_id, automation_id, space, key, value, run_id, updated_at)"
        " VALUES (:org, :automation, :space, :key, :value, :run, :now)"
        " ON CONFLICT (org_id, automation_id, space, key) DO UPDATE"
        " SET value = excluded.value, run_id = excluded.run_id, updated_at = excluded.updated_at",
        args | {"value": Json(value), "run": run},
    )
