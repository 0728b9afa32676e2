"""Rows of the lanes: which live run of an automation holds it (engine 8)."""

from steward.model.ids import AutomationId, OrgId, RunId
from steward.store.engine import Tx


async def lock(tx: Tx, org: OrgId, automation: AutomationId) -> RunId | None:
    """Locks the automation's lane, making it when absent; its holder."""
    row = await tx.one(
        "INSERT INTO lanes (org_id, automation_id, dropped)"
        " VALUES (:org, :automation, 0)"
        " ON CONFLICT (org_id, automation_id) DO UPDATE SET dropped = lanes.dropped"
        " RETURNING holder_run_id",
        {"org": org, "automation": automation},
    )
    return row["holder_run_id"] if row else None


async def hold(tx: Tx, org: OrgId, automation: AutomationId, *, run: RunId | None, was: RunId | None) -> int:
    """Gives the lane to `run` (None: frees it) when `was` holds it; rows changed."""
    return await tx.execute(
        "UPDATE lanes SET holder_run_id = :run"
        " WHERE org_id = :org AND automation_id = :automation"
        " AND coalesce(holder_run_id, '') = coalesce(CAST(:was AS text), '')",
        {"org": org, "automation": automation, "run": run, "was": was},
    )


async def count_dropped(tx: Tx, org: OrgId, automation: AutomationId, events: int) -> None:
    """Counts store events that were not run (interface 2.5); call it under the lane's lock."""
    await tx.execute(
        "UPDATE lanes SET dropped = dropped + :events, dropped_at = :now"
        " WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation, "events": events},
    )


async def oldest_blocked(tx: Tx, org: OrgId, automation: AutomationId) -> RunId | None:
    """The run that comes next when the lane is freed."""
    row = await tx.one(
        "SELECT id FROM runs"
        " WHERE org_id = :org AND automation_id = :automation AND queue = 'blocked'"
        " AND status = 'queued'"  # as the index of queued runs has it
        " ORDER BY queued_at, id LIMIT 1",
        {"org": org, "automation": automation},
    )
    return row["id"] if row else None


async def waiting(tx: Tx, org: OrgId, automation: AutomationId, most: int) -> int:
    """Runs of the automation queued, up to `most` + 1, or waiting for approval (contract 2.4).

    Of the latter only the lane's holder can be one.
    """
    row = await tx.one(
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM runs"
        " WHERE org_id = :org AND automation_id = :automation AND status = 'queued' LIMIT :most) AS counted)"
        " + (SELECT count(*) FROM lanes AS l JOIN runs AS r ON r.org_id = l.org_id AND r.id = l.holder_run_id"
        " WHERE l.org_id = :org AND l.automation_id = :automation AND r.status = 'waiting_approval') AS n",
        {"org": org, "automation": automation, "most": most + 1},
    )
    return int(row["n"]) if row else 0
