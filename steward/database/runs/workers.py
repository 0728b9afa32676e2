"""Rows of workers, to which leases belong."""

from dataclasses import dataclass

from steward.database.engine.base import PerEngine, Tx
from steward.model.ids import OrgId, RunId, WorkerId


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker process."""

    id: WorkerId
    name: str


async def register(tx: Tx, name: str, *, version: str, slots: int, lease_ms: int) -> WorkerId:
    """Adds a live worker and returns its id."""
    row = await tx.first(
        "INSERT INTO workers (name, version, state, lease_until, started_at, slots)"
        " VALUES (:name, :version, 'alive', {now} + :lease, {now}, :slots) RETURNING worker_id",
        {"name": name, "version": version, "slots": slots, "lease": lease_ms},
    )
    assert row is not None
    return WorkerId(row["worker_id"])


async def heartbeat(tx: Tx, worker: WorkerId, lease_ms: int) -> bool:
    """Extends the lease; returns False when the worker was declared dead."""
    touched = await tx.execute(
        "UPDATE workers SET lease_until = {now} + :lease"
        " WHERE worker_id = :worker AND state IN ('alive', 'stopping')",
        {"worker": worker, "lease": lease_ms},
    )
    return touched == 1


async def mark_stopping(tx: Tx, worker: WorkerId) -> None:
    """Marks a worker that claims no more runs."""
    await tx.execute(
        "UPDATE workers SET state = 'stopping' WHERE worker_id = :worker AND state = 'alive'",
        {"worker": worker},
    )


async def remove(tx: Tx, worker: WorkerId) -> None:
    """Deletes the row of a worker that holds no runs."""
    await tx.execute("DELETE FROM workers WHERE worker_id = :worker", {"worker": worker})


async def remove_dead(tx: Tx) -> int:
    """Deletes rows of workers dead for a day, whose runs were requeued when they were declared dead."""
    return await tx.execute("DELETE FROM workers WHERE state = 'dead' AND lease_until < {now} - 86400000")


async def others(tx: Tx, own_id: WorkerId | None) -> list[WorkerRow]:
    """Returns all other workers that are not known to be dead."""
    rows = await tx.all(
        "SELECT worker_id, name FROM workers"
        " WHERE worker_id <> :own AND state IN ('alive', 'stopping') ORDER BY worker_id",
        {"own": own_id or 0},
    )
    return [WorkerRow(WorkerId(row["worker_id"]), row["name"]) for row in rows]


async def live_names(tx: Tx) -> list[str]:
    """Returns the names of the workers that hold their lease."""
    rows = await tx.all(
        "SELECT name FROM workers WHERE state IN ('alive', 'stopping') AND lease_until >= {now} ORDER BY name"
    )
    return [row["name"] for row in rows]


async def is_other_release_alive(tx: Tx, release: str) -> bool:
    """Returns whether a worker of a release other than `release` holds its lease."""
    row = await tx.first(
        "SELECT 1 AS alive FROM workers"
        " WHERE state IN ('alive', 'stopping') AND lease_until >= {now} AND version <> :release LIMIT 1",
        {"release": release},
    )
    return row is not None


async def expired(tx: Tx, own_id: WorkerId, limit: int = 10) -> list[WorkerId]:
    """Returns other workers whose lease has expired."""
    rows = await tx.all(
        "SELECT worker_id FROM workers"
        " WHERE worker_id <> :own AND state IN ('alive', 'stopping') AND lease_until < {now}"
        " ORDER BY worker_id LIMIT :most",
        {"own": own_id, "most": limit},
    )
    return [WorkerId(row["worker_id"]) for row in rows]


async def expire_now(tx: Tx, worker: WorkerId) -> None:
    """Ends the lease of a worker whose process is known to have ended."""
    await tx.execute(
        "UPDATE workers SET lease_until = {now} - 1"
        " WHERE worker_id = :worker AND state IN ('alive', 'stopping')",
        {"worker": worker},
    )


async def declare_dead(tx: Tx, worker: WorkerId) -> bool:
    """Declares a worker dead if its lease is still expired.

    Returns False when another process did so first or the worker came back.
    """
    touched = await tx.execute(
        "UPDATE workers SET state = 'dead'"
        " WHERE worker_id = :worker AND state IN ('alive', 'stopping') AND lease_until < {now}",
        {"worker": worker},
    )
    return touched == 1


@dataclass(frozen=True, slots=True)
class LeasedRunRef:
    """A leased run; the epoch distinguishes this lease from a later one."""

    org: OrgId
    id: RunId
    epoch: int


async def runs_of(tx: Tx, worker: WorkerId, limit: int = 1000) -> list[LeasedRunRef]:
    """Returns the runs that a worker has leased, of all organizations."""
    rows = await tx.all(
        PerEngine(
            "SELECT org_id, id, epoch FROM runs WHERE queue = 'leased' AND worker_id = :worker"
            " ORDER BY org_id, id LIMIT :most",
            "SELECT org_id, id, epoch FROM queue_leased_by(:worker, :most)",
        ),
        {"worker": worker, "most": limit},
    )
    return [LeasedRunRef(OrgId(row["org_id"]), RunId(row["id"]), row["epoch"]) for row in rows]
