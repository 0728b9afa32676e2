"""Runs that a closed period holds: asleep until the period ends, with its name."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Tx, from_ms_or_none
from steward.database.runs.transitions import Lease
from steward.model.ids import AutomationId, OrgId


@dataclass(frozen=True, slots=True)
class WriterLock:
    """A locked run: its cancel request, whether a person exempted it, and from when it may be closed."""

    automation: AutomationId
    cancel_code: str | None
    is_exempt: bool
    closed_from: datetime | None


async def release(tx: Tx, org: OrgId) -> None:
    """Makes the runs that a closed period holds check again at once."""
    await tx.execute(
        "UPDATE runs SET wake_at = :now WHERE org_id = :org AND queue = 'sleeping' AND held_name IS NOT NULL"
        " AND wake_at > :now",
        {"org": org},
    )


async def restart_queue_limit(tx: Tx, org: OrgId, automation: AutomationId, since: datetime) -> None:
    """Makes the queue time limit of the automation's runs count from `since` on."""
    await tx.execute(
        "UPDATE schedules SET queue_opened_at = :at WHERE org_id = :org AND automation_id = :automation",
        {"org": org, "automation": automation, "at": since},
    )


async def lock_writer(tx: Tx, lease: Lease) -> WriterLock | None:
    """Locks a run that is about to write; returns None when the lease was lost."""
    return await _writer(tx, lease, " {for_update}")


async def read_writer(tx: Tx, lease: Lease) -> WriterLock | None:
    """Returns the same as `lock_writer` without locking."""
    return await _writer(tx, lease, "")


async def _writer(tx: Tx, lease: Lease, locking: str) -> WriterLock | None:
    row = await tx.first(
        "SELECT r.automation_id, r.cancel_code, r.exempt, (SELECT o.closed_from FROM organizations AS o"
        " WHERE o.org_id = r.org_id) AS closed_from FROM runs AS r WHERE r.org_id = :org AND r.id = :run"
        f" AND r.epoch = :epoch AND r.queue = 'leased'{locking}",
        {"org": lease.org, "run": lease.run, "epoch": lease.epoch},
    )
    if row is None:
        return None
    return WriterLock(
        AutomationId(row["automation_id"]),
        row["cancel_code"],
        bool(row["exempt"]),
        from_ms_or_none(row["closed_from"]),
    )
