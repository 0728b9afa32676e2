"""Stores after how many periods without a success people are notified about an automation."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Tx, from_ms_or_none
from steward.model.ids import AutomationId, OrgId


@dataclass(frozen=True, slots=True)
class SuccessWatch:
    """The number of periods chosen for the automation, if any, and since when it has had no success."""

    quiet_after: int | None
    quiet_since: datetime | None


async def get(tx: Tx, org: OrgId, automation: AutomationId) -> SuccessWatch:
    """Returns the watch of an automation; the default without a row."""
    row = await tx.first(
        "SELECT quiet_after, quiet_since FROM automation_watch"
        " WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation},
    )
    return (
        SuccessWatch(None, None)
        if row is None
        else SuccessWatch(row["quiet_after"], from_ms_or_none(row["quiet_since"]))
    )


async def save_quiet_after(tx: Tx, org: OrgId, automation: AutomationId, quiet_after: int | None) -> None:
    """Stores the number of periods; None for the service's default."""
    await tx.execute(
        "INSERT INTO automation_watch (org_id, automation_id, quiet_after)"
        " VALUES (:org, :automation, :quiet_after) ON CONFLICT (org_id, automation_id)"
        " DO UPDATE SET quiet_after = excluded.quiet_after",
        {"org": org, "automation": automation, "quiet_after": quiet_after},
    )
