"""Counts for the status page, and the row in which the scheduler reports its delays."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Json, Tx, from_ms, from_ms_or_none
from steward.database.operator.restored import with_history
from steward.database.run_indexes import BY_KIND
from steward.model.automation import AutomationState, facets
from steward.model.ids import OrgId
from steward.model.run import RunStatus, kinds

# Upper bounds in seconds of the buckets in which delays are counted; the last bucket has none.
DELAY_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
Minute = tuple[int, list[int]]
# A count of this value means "at least this many".
MAX_COUNTED = 10_000


def _literals(numbers: Sequence[int]) -> str:
    """Returns SQL constants: with a list as one parameter, SQLite reads every run of the organization."""
    return ", ".join(map(str, numbers))


_COUNTED = {
    "active": f"automations WHERE org_id = :org AND facet IN ({_literals(facets([AutomationState.ACTIVE]))})",
    "paused": f"automations WHERE org_id = :org AND facet IN ({_literals(facets([AutomationState.PAUSED]))})",
    "waiting_approvals": "approvals WHERE org_id = :org AND status = 'pending'",
    "queued_runs": f"runs WHERE org_id = :org AND kind IN ({_literals(kinds([RunStatus.QUEUED]))})"
    f" AND {BY_KIND.format(run='runs')}",
}
_COUNTS = "SELECT " + ", ".join(
    f"(SELECT count(*) FROM (SELECT 1 FROM {rows} LIMIT :cap) AS counted) AS {name}"
    for name, rows in _COUNTED.items()
)


@dataclass(frozen=True, slots=True)
class StatusCounts:
    """Counts of an organization's records, each up to MAX_COUNTED."""

    active: int
    paused: int
    waiting_approvals: int
    queued_runs: int


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """Dispatched slots of the last hour: the counts by delay bucket for each minute (since 1970)."""

    minutes: tuple[Minute, ...]
    oldest_due_at: datetime | None
    written_at: datetime


async def counts(tx: Tx, org: OrgId, *, cap: int = MAX_COUNTED) -> StatusCounts:
    """Returns the organization's counts, each up to `cap`, in one statement."""
    row = await tx.first(_COUNTS, {"org": org, "cap": cap})
    if row is None:
        return StatusCounts(0, 0, 0, 0)
    return StatusCounts(row["active"], row["paused"], row["waiting_approvals"], row["queued_runs"])


async def scheduler(tx: Tx) -> SchedulerStats | None:
    """Returns the scheduler's last report; None before its first pass."""
    row = await tx.first("SELECT minutes, oldest_due_at, written_at FROM service_stats WHERE singleton = 1")
    if row is None:
        return None
    minutes = tuple(
        (int(minute), [int(count) for count in steps]) for minute, steps in json.loads(row["minutes"])
    )
    return SchedulerStats(minutes, from_ms_or_none(row["oldest_due_at"]), from_ms(row["written_at"]))


_WRITE_SCHEDULER = with_history(
    "INSERT INTO service_stats (singleton, minutes, oldest_due_at, written_at, server_history)"
    " VALUES (1, :minutes, :oldest_due_at, :now, {history})"
    " ON CONFLICT (singleton) DO UPDATE SET minutes = excluded.minutes,"
    " oldest_due_at = excluded.oldest_due_at, written_at = excluded.written_at,"
    " server_history = excluded.server_history"
)


async def write_scheduler(tx: Tx, minutes: Sequence[Minute], oldest_due_at: datetime | None) -> None:
    """Stores the scheduler's report, and which history of the server is served."""
    await tx.execute(
        _WRITE_SCHEDULER,
        {
            "minutes": Json([[minute, list(steps)] for minute, steps in minutes]),
            "oldest_due_at": oldest_due_at,
        },
    )


async def applied_migrations(tx: Tx) -> dict[int, str]:
    """Returns the hash of each applied migration, by number."""
    rows = await tx.all("SELECT version, sha256 FROM schema_version")
    return {row["version"]: row["sha256"] for row in rows}
