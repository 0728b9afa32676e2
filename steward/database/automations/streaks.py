"""Stores when the last live run of each automation began, and its failures in a row."""

from steward.database.engine.base import Tx
from steward.model.ids import AutomationId, OrgId


async def record_run_began(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Records that a live run of the automation began now."""
    await tx.execute(
        "UPDATE schedules SET last_run_at = {now} WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation},
    )


async def reset_failures(tx: Tx, org: OrgId, automation: AutomationId) -> None:
    """Resets the number of failed runs in a row."""
    await tx.execute(
        "UPDATE schedules SET consecutive_failures = 0"
        " WHERE org_id = :org AND automation_id = :automation AND consecutive_failures > 0",
        {"org": org, "automation": automation},
    )


async def count_failure(tx: Tx, org: OrgId, automation: AutomationId) -> int:
    """Counts a failed live run; returns the number of failures in a row."""
    row = await tx.first(
        "UPDATE schedules SET consecutive_failures = consecutive_failures + 1"
        " WHERE org_id = :org AND automation_id = :automation RETURNING consecutive_failures",
        {"org": org, "automation": automation},
    )
    return int(row["consecutive_failures"]) if row else 0
