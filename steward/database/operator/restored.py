"""What a restored copy is told before it is served: no worker of it lives, and which runs were going on."""

from steward.database.engine.base import Tx
from steward.model.ids import OrgId, RunId


async def end_workers(tx: Tx) -> None:
    """Ends every lease: what the workers of the copy had in hand is taken over at the first start."""
    await tx.execute("UPDATE workers SET lease_until = 0 WHERE state IN ('alive', 'stopping')")


async def going_on(tx: Tx, org: OrgId) -> list[tuple[RunId, int]]:
    """The organisation's live runs that had begun and not ended, each with its epoch."""
    rows = await tx.all(
        "SELECT id, epoch FROM runs"
        " WHERE org_id = :org AND mode = 'live' AND queue <> 'done' AND started_at IS NOT NULL ORDER BY id",
        {"org": org},
    )
    return [(RunId(row["id"]), row["epoch"]) for row in rows]


async def look_first(tx: Tx, org: OrgId, run: RunId) -> None:
    """Lets anyone who takes the run see to its open writes first, as after a worker's death."""
    await tx.execute(
        "UPDATE runs SET attempt = CASE WHEN attempt < 2 THEN 2 ELSE attempt END"
        " WHERE org_id = :org AND id = :run",
        {"org": org, "run": run},
    )
