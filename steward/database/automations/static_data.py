"""The sealed static data of workflows: one row for each automation that has some."""

from steward.database.engine.base import Tx
from steward.model.ids import AutomationId, OrgId, RunId


async def get(tx: Tx, org: OrgId, automation: AutomationId) -> tuple[int, bytes] | None:
    """Returns the data key's number and the sealed content; None when nothing is stored."""
    row = await tx.first(
        "SELECT content, content_key FROM static_data WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation},
    )
    return None if row is None else (row["content_key"], bytes(row["content"]))


async def put(
    tx: Tx, org: OrgId, automation: AutomationId, *, key_no: int, content: bytes, run: RunId
) -> None:
    """Stores the static data that a run left, in place of the earlier data."""
    await tx.execute(
        "INSERT INTO static_data (org_id, automation_id, content, content_key, run_id, updated_at)"
        " VALUES (:org, :automation, :content, :key, :run, :now)"
        " ON CONFLICT (org_id, automation_id) DO UPDATE SET content = excluded.content,"
        " content_key = excluded.content_key, run_id = excluded.run_id, updated_at = excluded.updated_at",
        {"org": org, "automation": automation, "content": content, "key": key_no, "run": run},
    )


async def sealed_under_others(tx: Tx, org: OrgId, number: int) -> list[AutomationId]:
    """Returns the automations whose static data is sealed with a data key other than `number`."""
    rows = await tx.all(
        "SELECT automation_id FROM static_data WHERE org_id = :org AND content_key <> :number"
        " ORDER BY automation_id",
        {"org": org, "number": number},
    )
    return [AutomationId(row["automation_id"]) for row in rows]


async def reseal(
    tx: Tx, org: OrgId, automation: AutomationId, *, before: int, key_no: int, content: bytes
) -> int:
    """Stores resealed data; returns 0 when it is no longer sealed under data key `before`."""
    return await tx.execute(
        "UPDATE static_data SET content = :content, content_key = :key"
        " WHERE org_id = :org AND automation_id = :automation AND content_key = :before",
        {"org": org, "automation": automation, "content": content, "key": key_no, "before": before},
    )
