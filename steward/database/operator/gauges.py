"""Numbers of the work in hand over all organisations, for the operator's metrics; never whose it is."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Both, Tx, from_ms_or_none

_FIGURES = Both(
    "SELECT 'ready' AS queue, count(*) AS many, min(queued_at) AS oldest_at FROM runs WHERE queue = 'ready'"
    " UNION ALL SELECT 'leased', count(*), min(queued_at) FROM runs WHERE queue = 'leased'"
    " UNION ALL SELECT 'sleeping', count(*), min(queued_at) FROM runs WHERE queue = 'sleeping'"
    " UNION ALL SELECT 'parked', count(*), min(queued_at) FROM runs WHERE queue = 'parked'"
    " UNION ALL SELECT 'blocked', count(*), min(queued_at) FROM runs"
    " WHERE status = 'queued' AND queue = 'blocked'",
    "SELECT queue, many, oldest_at FROM queue_gauges()",
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many runs stand in one state of the queue, and since when the oldest."""

    queue: str
    many: int
    oldest_at: datetime | None


async def queues(tx: Tx) -> list[Waiting]:
    """Every state of the queue but the finished runs."""
    rows = await tx.all(_FIGURES)
    return [Waiting(row["queue"], row["many"], from_ms_or_none(row["oldest_at"])) for row in rows]


async def closed(tx: Tx) -> tuple[int, int]:
    """How many runs a closed period holds, and in how many organizations changes are stopped."""
    row = await tx.first(
        Both(
            "SELECT (SELECT count(*) FROM runs WHERE queue = 'sleeping' AND held_name IS NOT NULL) AS held,"
            " (SELECT count(DISTINCT org_id) FROM closed_periods"
            " WHERE kind = 'freeze' AND valid_until IS NULL) AS frozen",
            "SELECT held, frozen FROM queue_closed_gauges()",
        )
    )
    return (0, 0) if row is None else (row["held"], row["frozen"])


async def open_effects(tx: Tx) -> dict[str, int]:
    """Writes that are under way, and those whose outcome is not known."""
    rows = await tx.all(
        Both(
            "SELECT state, count(*) AS many FROM write_ledger WHERE state IN ('intent', 'unknown') GROUP"
            " BY state",
            "SELECT state, many FROM queue_open_writes()",
        )
    )
    return {"intent": 0, "unknown": 0} | {row["state"]: row["many"] for row in rows}
