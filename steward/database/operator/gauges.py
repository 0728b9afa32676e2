"""Counts pending work of all organizations for the operator's metrics, without naming any."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import PerEngine, Tx, from_ms_or_none

# Counting stops here, so that a scrape stays cheap: this number means "at least this many".
MAX_COUNTED = 100_000

_ORDERS = {
    "ready": "queue = 'ready' ORDER BY vt, id",
    "leased": "queue = 'leased' ORDER BY worker_id",
    "sleeping": "queue = 'sleeping' ORDER BY wake_at",
    "parked": "queue = 'parked' ORDER BY expires_at",
    "blocked": "status = 'queued' ORDER BY org_id, automation_id, queued_at, id",
}
_FIGURES = PerEngine(
    " UNION ALL ".join(
        f"SELECT '{queue}' AS queue, count(*) AS many, min(queued_at) AS oldest_at"
        f" FROM (SELECT queue, queued_at FROM runs WHERE {rows} LIMIT :cap) WHERE queue = '{queue}'"
        for queue, rows in _ORDERS.items()
    ),
    "SELECT queue, many, oldest_at FROM queue_gauges(:cap)",
)
_OPEN_WRITES = PerEngine(
    "SELECT state, count(*) AS many FROM (SELECT state FROM write_ledger WHERE state IN ('intent', 'unknown')"
    " ORDER BY reconcile_after LIMIT :cap) GROUP BY state",
    "SELECT state, many FROM queue_open_writes(:cap)",
)
_CLOSED = PerEngine(
    "SELECT (SELECT count(held_name) FROM (SELECT held_name FROM runs WHERE queue = 'sleeping'"
    " ORDER BY wake_at LIMIT :cap)) AS held,"
    " (SELECT count(DISTINCT org_id) FROM (SELECT org_id FROM closed_periods"
    " WHERE kind = 'freeze' AND valid_until IS NULL ORDER BY org_id LIMIT :cap)) AS frozen",
    "SELECT held, frozen FROM queue_closed_gauges(:cap)",
)


@dataclass(frozen=True, slots=True)
class WaitingRuns:
    """The number of runs in one state of the queue, and since when the oldest has waited."""

    queue: str
    count: int
    oldest_at: datetime | None


async def queues(tx: Tx, *, cap: int = MAX_COUNTED) -> list[WaitingRuns]:
    """Returns each state of the queue except finished, counted up to `cap`.

    With more runs than `cap`, the oldest is that of the runs to be claimed, woken or expired next.
    """
    rows = await tx.all(_FIGURES, {"cap": cap})
    return [WaitingRuns(row["queue"], row["many"], from_ms_or_none(row["oldest_at"])) for row in rows]


async def closed(tx: Tx, *, cap: int = MAX_COUNTED) -> tuple[int, int]:
    """Counts the runs that a closed period holds, and the organizations in which changes are stopped."""
    row = await tx.first(_CLOSED, {"cap": cap})
    return (0, 0) if row is None else (row["held"], row["frozen"])


async def open_writes(tx: Tx) -> dict[str, int]:
    """Counts the writes in progress, and those whose outcome is unknown."""
    rows = await tx.all(_OPEN_WRITES, {"cap": MAX_COUNTED})
    return {"intent": 0, "unknown": 0} | {row["state"]: row["many"] for row in rows}
