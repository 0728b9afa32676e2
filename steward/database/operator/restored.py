"""A restored database: its server's history, the progress of its preparation, the rows to change."""

import json
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Json, PerEngine, Tx, from_ms, ms
from steward.model.ids import OrgId, RunId

# A worker may have claimed a run again after the copy was made; its epochs stay below this.
_EPOCHS_SINCE = 1_000_000
# The server's identifier and timeline. A point-in-time recovery begins a new timeline, and so does a
# fail-over; a dump that is loaded elsewhere is on another server. SQLite has neither: `steward restore`
# prepares it.
_CURRENT_HISTORY = PerEngine(
    sqlite="CAST(NULL AS text)",
    postgresql="(SELECT c.system_identifier FROM pg_control_system() AS c) || '/'"
    " || ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint",
)
_BEGIN_ROW = (
    "INSERT INTO service_stats (singleton, minutes, written_at) VALUES (1, '[]', {now})"
    " ON CONFLICT (singleton) DO NOTHING"
)


def with_history(text: str) -> PerEngine:
    """Replaces `{history}` by the expression of the server's current history."""
    return PerEngine(*(text.replace("{history}", expression) for expression in _CURRENT_HISTORY))


_READ_STATE = with_history(
    "SELECT s.server_history, s.restoring, {history} AS present"
    " FROM (SELECT 1 AS one) AS o LEFT JOIN service_stats AS s ON s.singleton = o.one"
)
_STORE_HISTORY = with_history(
    "UPDATE service_stats SET server_history = {history}, restoring = NULL WHERE singleton = 1"
)


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """The progress of preparing a restored database: the current organization and its last checked run.

    `run` is None once the organization is done. `runs` counts the runs that check their open writes first.
    """

    taken_at: datetime
    org: OrgId
    run: RunId | None
    runs: int

    def is_done(self, org: OrgId) -> bool:
        """Returns whether an organization was prepared; organizations are prepared in order of their ids."""
        return org < self.org or (org == self.org and self.run is None)


@dataclass(frozen=True, slots=True)
class ServerState:
    """The server history that was served last and the current one; None if unknown."""

    served_history: str | None
    current_history: str | None
    preparation: RestoreProgress | None


async def server_state(tx: Tx) -> ServerState:
    """Returns the last served history, the current one, and a preparation that has not ended."""
    row = await tx.first(_READ_STATE)
    assert row is not None
    return ServerState(row["server_history"], row["present"], _preparation(row["restoring"]))


async def begin(tx: Tx, taken_at: datetime) -> RestoreProgress:
    """Begins to prepare a database restored to `taken_at`, or returns the progress made before."""
    await tx.execute(_BEGIN_ROW)
    row = await tx.first("SELECT restoring FROM service_stats WHERE singleton = 1 {for_update}")
    assert row is not None
    begun = _preparation(row["restoring"])
    if begun is not None and begun.taken_at == taken_at:
        return begun
    fresh = RestoreProgress(taken_at, OrgId(0), None, 0)
    await tx.execute(
        "UPDATE service_stats SET restoring = :fresh WHERE singleton = 1", {"fresh": _stored(fresh)}
    )
    return fresh


async def advance(tx: Tx, before: RestoreProgress, after: RestoreProgress) -> bool:
    """Stores the progress of the preparation; returns False if another process has advanced it."""
    moved = await tx.execute(
        "UPDATE service_stats SET restoring = :after WHERE singleton = 1 AND restoring = :before",
        {"before": _stored(before), "after": _stored(after)},
    )
    return moved == 1


async def store_history(tx: Tx) -> None:
    """Stores the server's current history as the served one, and ends a preparation."""
    await tx.execute(_BEGIN_ROW)
    await tx.execute(_STORE_HISTORY)


def _stored(preparation: RestoreProgress) -> Json:
    at = ms(preparation.taken_at)
    return Json({"taken_at": at, "org": preparation.org, "run": preparation.run, "runs": preparation.runs})


def _preparation(stored: str | None) -> RestoreProgress | None:
    if stored is None:
        return None
    fields = json.loads(stored)
    run = None if fields["run"] is None else RunId(fields["run"])
    return RestoreProgress(from_ms(fields["taken_at"]), OrgId(fields["org"]), run, fields["runs"])


async def end_workers(tx: Tx) -> None:
    """Ends every lease, so that the first start recovers the runs of the copy's workers."""
    await tx.execute("UPDATE workers SET lease_until = 0 WHERE state IN ('alive', 'stopping')")


async def raise_epochs(tx: Tx, org: OrgId) -> int:
    """Fences every earlier lease of the organization's open runs. Returns the number of runs."""
    return await tx.execute(
        "UPDATE runs SET epoch = epoch + :since WHERE org_id = :org AND queue <> 'done'",
        {"org": org, "since": _EPOCHS_SINCE},
    )


async def unfinished_runs(tx: Tx, org: OrgId, *, after: RunId | None, limit: int) -> list[tuple[RunId, int]]:
    """Returns the organization's live runs that have started and not ended, with their epochs, by id."""
    rows = await tx.all(
        "SELECT id, epoch FROM runs"
        " WHERE org_id = :org AND mode = 'live' AND queue <> 'done' AND started_at IS NOT NULL"
        " AND id > :after ORDER BY id LIMIT :most",
        {"org": org, "after": after or "", "most": limit},
    )
    return [(RunId(row["id"]), row["epoch"]) for row in rows]


async def require_lookup(tx: Tx, org: OrgId, run: RunId) -> None:
    """Makes the next worker of the run check its open writes first, as after the loss of a worker."""
    await tx.execute(
        "UPDATE runs SET attempt = CASE WHEN attempt < 2 THEN 2 ELSE attempt END"
        " WHERE org_id = :org AND id = :run",
        {"org": org, "run": run},
    )
