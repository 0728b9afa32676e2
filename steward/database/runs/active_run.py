"""An automation's lane: which live run holds it, and its lock, the automation's schedule (engine 8).

The lane has no row of its own: its holder is the automation's one live run that is neither done nor blocked,
which `runs_one_live` lets be one alone.
"""

from collections.abc import Collection
from typing import NamedTuple

from steward.database.engine.base import Tx
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.run import RunStatus

# As the index `runs_one_live` has it.
LIVE = "{run}.mode = 'live' AND {run}.queue IN ('ready', 'leased', 'sleeping', 'parked')"


class ActiveRun(NamedTuple):
    """The live run that holds a lane, and its status."""

    run: RunId
    status: RunStatus


async def lock(tx: Tx, org: OrgId, automations: Collection[AutomationId]) -> None:
    """Locks the automations' lanes by rising id; call it before anything is locked of their runs (engine 2).

    SQLite has one writer: within its transaction everything is locked.
    """
    if tx.dialect == "postgresql":
        await tx.all(
            "SELECT 1 AS locked FROM schedules WHERE org_id = :org AND automation_id IN (:automations)"
            " ORDER BY automation_id {for_update}",
            {"org": org, "automations": list(automations)},
        )


async def active_runs(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, ActiveRun]:
    """The holders of those of the lanes that are held; call it with the lanes locked."""
    rows = await tx.all(
        "SELECT r.automation_id, r.id, r.status FROM runs AS r"
        f" WHERE r.org_id = :org AND r.automation_id IN (:automations) AND {LIVE.format(run='r')}",
        {"org": org, "automations": list(automations)},
    )
    return {
        AutomationId(row["automation_id"]): ActiveRun(RunId(row["id"]), RunStatus(row["status"]))
        for row in rows
    }


async def count_dropped(tx: Tx, org: OrgId, automation: AutomationId, events: int) -> None:
    """Counts store events that were not run (interface 2.5); call it under the lane's lock."""
    await tx.execute(
        "UPDATE schedules SET events_dropped = events_dropped + :events, events_dropped_at = :now"
        " WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation, "events": events},
    )


async def oldest_blocked(tx: Tx, org: OrgId, automation: AutomationId) -> RunId | None:
    """The run that comes next when the lane is freed."""
    row = await tx.first(
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
    row = await tx.first(
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM runs"
        " WHERE org_id = :org AND automation_id = :automation AND status = 'queued'"
        " ORDER BY queued_at, id LIMIT :most) AS counted)"
        " + (SELECT count(*) FROM runs AS r WHERE r.org_id = :org AND r.automation_id = :automation"
        f" AND {LIVE.format(run='r')} AND r.status = 'waiting_approval') AS n",
        {"org": org, "automation": automation, "most": most + 1},
    )
    return int(row["n"]) if row else 0
