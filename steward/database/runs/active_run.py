"""The active run of an automation and the lock of its queue, which is the automation's schedule row.

The queue has no row of its own: the active run is the automation's one live run that is neither done nor
blocked, which the unique index `runs_active` enforces.
"""

from collections.abc import Collection
from typing import NamedTuple

from steward.database.engine.base import PerEngine, Tx
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.run import RunStatus

# As in the index `runs_active`; PostgreSQL adds the turn, see docs/design/runs.md#run-queue
LIVE = "{run}.mode = 'live' AND {run}.queue IN ('ready', 'leased', 'sleeping', 'parked')"


_ACTIVE = PerEngine(
    sqlite="SELECT r.automation_id, r.id, r.status FROM runs AS r"
    f" WHERE r.org_id = :org AND r.automation_id IN (:automations) AND {LIVE.format(run='r')}",
    postgresql="SELECT r.automation_id, r.id, r.status FROM schedules AS s CROSS JOIN LATERAL ("
    "SELECT q.automation_id, q.id, q.status FROM runs AS q WHERE (q.org_id = s.org_id) IS TRUE"
    ' AND q.automation_id COLLATE "POSIX" = s.automation_id AND q.turn = s.turn'
    f" AND {LIVE.format(run='q')} OFFSET 0) AS r"
    " WHERE s.org_id = :org AND s.automation_id IN (:automations)",
)
_WAITING = PerEngine(
    sqlite="SELECT (SELECT count(*) FROM (SELECT 1 FROM runs"
    " WHERE org_id = :org AND automation_id = :automation AND status = 'queued'"
    " ORDER BY queued_at, id LIMIT :most) AS counted)"
    " + (SELECT count(*) FROM runs AS r WHERE r.org_id = :org AND r.automation_id = :automation"
    f" AND {LIVE.format(run='r')} AND r.status = 'waiting_approval') AS n",
    postgresql="SELECT (steward_count_waiting(ARRAY[org_id], ARRAY[automation_id], ARRAY[turn], :most))[1]"
    " AS n FROM schedules WHERE org_id = :org AND automation_id = :automation",
)


class ActiveRun(NamedTuple):
    """The active live run of an automation, and its status."""

    run: RunId
    status: RunStatus


async def lock(tx: Tx, org: OrgId, automations: Collection[AutomationId]) -> None:
    """Locks the automations' queues in order of their ids, before any row of their runs is locked.

    SQLite has one writer: its transaction is the lock. See docs/design/storage.md#lock-order.
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
    """Returns the active runs by automation; call it with the queues locked."""
    rows = await tx.all(_ACTIVE, {"org": org, "automations": list(automations)})
    return {
        AutomationId(row["automation_id"]): ActiveRun(RunId(row["id"]), RunStatus(row["status"]))
        for row in rows
    }


async def count_dropped(tx: Tx, org: OrgId, automation: AutomationId, events: int) -> None:
    """Counts store events that started no run; call it with the queue locked."""
    await tx.execute(
        "UPDATE schedules SET events_dropped = events_dropped + :events, events_dropped_at = :now"
        " WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation, "events": events},
    )


async def oldest_blocked(tx: Tx, org: OrgId, automation: AutomationId) -> RunId | None:
    """Returns the run to promote next."""
    row = await tx.first(
        "SELECT id FROM runs"
        " WHERE org_id = :org AND automation_id = :automation AND queue = 'blocked'"
        " AND status = 'queued'"  # as in SQLite's index
        " ORDER BY queued_at, id LIMIT 1",
        {"org": org, "automation": automation},
    )
    return row["id"] if row else None


async def waiting(tx: Tx, org: OrgId, automation: AutomationId, limit: int) -> int:
    """Counts the automation's queued runs, up to `limit` + 1, and those that wait for approval.

    Only the active run can wait for approval.
    """
    row = await tx.first(_WAITING, {"org": org, "automation": automation, "most": limit + 1})
    return int(row["n"]) if row else 0
