"""Undo runs: which run each one undoes, what that run wrote, and what was already undone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.database.engine.base import Json, Tx, from_ms, ms
from steward.database.runs import changes
from steward.model.change import Change
from steward.model.ids import ChangeId, IntegrationId, OrgId, RunId

PAGE = 500
SHOWN_RUNS = 20
_DONE = (
    "EXISTS (SELECT 1 FROM write_ledger AS e WHERE e.org_id = c.org_id AND e.change_id = c.id"
    " AND e.state = 'done')"
)
# Outcomes of changes that were written, wholly or in part, or may have been.
_WRITTEN = f"(c.outcome IN ('applied', 'unknown') OR (c.outcome = 'failed' AND {_DONE}))"


@dataclass(frozen=True, slots=True)
class StoredUndo:
    """The run that an undo run undoes, and the chosen changes; None: all that can be undone."""

    of_run: RunId
    chosen: tuple[ChangeId, ...] | None


@dataclass(frozen=True, slots=True)
class UndoRuns:
    """The live undo runs of a run, newest first, and the one that has not ended."""

    runs: tuple[RunId, ...]
    open_run: RunId | None


@dataclass(frozen=True, slots=True)
class UndoCounts:
    """The numbers of a run's changes, of those that can be undone, and of those that were undone."""

    changes: int
    undoable: int
    undone: int


async def insert(tx: Tx, org: OrgId, run: RunId, *, of_run: RunId, chosen: Sequence[ChangeId] | None) -> None:
    """Stores which changes a new undo run undoes."""
    await tx.execute(
        "INSERT INTO undos (org_id, run_id, of_run_id, chosen) VALUES (:org, :run, :of, :chosen)",
        {"org": org, "run": run, "of": of_run, "chosen": None if chosen is None else Json(list(chosen))},
    )


async def get(tx: Tx, org: OrgId, run: RunId) -> StoredUndo:
    """Returns which changes an undo run undoes."""
    row = await tx.first(
        "SELECT of_run_id, chosen FROM undos WHERE org_id = :org AND run_id = :run", {"org": org, "run": run}
    )
    assert row is not None
    chosen = (
        None if row["chosen"] is None else tuple(ChangeId(change) for change in json.loads(row["chosen"]))
    )
    return StoredUndo(RunId(row["of_run_id"]), chosen)


async def of_run(tx: Tx, org: OrgId, run: RunId) -> UndoRuns:
    """Returns the undo runs of a run."""
    rows = await tx.all(
        "SELECT r.id, r.status FROM undos AS u JOIN runs AS r ON r.org_id = u.org_id AND r.id = u.run_id"
        " WHERE u.org_id = :org AND u.of_run_id = :run AND r.mode = 'live' ORDER BY r.id DESC",
        {"org": org, "run": run},
    )
    open_runs = [
        RunId(row["id"]) for row in rows if row["status"] in ("queued", "running", "waiting_approval")
    ]
    return UndoRuns(tuple(RunId(row["id"]) for row in rows), open_runs[0] if open_runs else None)


async def counts(tx: Tx, org: OrgId, run: RunId, undo_runs: Sequence[RunId]) -> UndoCounts:
    """Returns the numbers of a run's changes."""
    row = await tx.first(
        f"SELECT count(*) AS changes, count(CASE WHEN c.undoable AND {_WRITTEN} THEN 1 END) AS undoable"
        " FROM changes AS c WHERE c.org_id = :org AND c.run_id = :run",
        {"org": org, "run": run},
    )
    assert row is not None
    undone = 0
    if undo_runs:
        undone_row = await tx.first(
            "SELECT count(DISTINCT undo_of_change) AS undone FROM changes"
            " WHERE org_id = :org AND run_id IN (:runs) AND outcome = 'applied'"
            " AND undo_of_change IS NOT NULL",
            {"org": org, "runs": list(undo_runs)},
        )
        undone = 0 if undone_row is None else undone_row["undone"]
    return UndoCounts(row["changes"], row["undoable"], undone)


async def settles_until(tx: Tx, org: OrgId, run: RunId, *, quiet: timedelta) -> datetime | None:
    """Returns until when a write of the run may still take effect; None when no write can."""
    row = await tx.first(
        "SELECT max(call_deadline_at) AS deadline FROM write_ledger"
        " WHERE org_id = :org AND run_id = :run AND state IN ('intent', 'unknown')",
        {"org": org, "run": run},
    )
    if row is None or row["deadline"] is None:
        return None
    until = from_ms(row["deadline"]) + quiet
    return until if ms(until) > ms(tx.now) else None


async def count_not_undoable(tx: Tx, org: OrgId, run: RunId) -> int:
    """Counts the changes of a run that were made and cannot be undone."""
    row = await tx.first(
        "SELECT count(*) AS n FROM changes AS c"
        f" WHERE c.org_id = :org AND c.run_id = :run AND NOT c.undoable AND {_WRITTEN}",
        {"org": org, "run": run},
    )
    return 0 if row is None else int(row["n"])


async def undoable_ids(tx: Tx, org: OrgId, run: RunId) -> set[ChangeId]:
    """Returns the ids of the run's changes that can be undone."""
    rows = await tx.all(
        "SELECT c.id FROM changes AS c"
        f" WHERE c.org_id = :org AND c.run_id = :run AND c.undoable AND {_WRITTEN}",
        {"org": org, "run": run},
    )
    return {ChangeId(row["id"]) for row in rows}


async def partly_made(tx: Tx, org: OrgId, run: RunId) -> list[ChangeId]:
    """Returns the ids of the run's failed changes of which a part was written, in their order."""
    rows = await tx.all(
        "SELECT c.id FROM changes AS c"
        f" WHERE c.org_id = :org AND c.run_id = :run AND c.outcome = 'failed' AND {_DONE}"
        " ORDER BY c.seq, c.position",
        {"org": org, "run": run},
    )
    return [ChangeId(row["id"]) for row in rows]


async def integrations(
    tx: Tx, org: OrgId, run: RunId, chosen: Sequence[ChangeId] | None
) -> list[IntegrationId]:
    """Returns the connections of the changes that an undo of the run undoes."""
    named = "" if chosen is None else " AND c.id IN (:chosen)"
    rows = await tx.all(
        "SELECT DISTINCT c.integration_id FROM changes AS c"
        f" WHERE c.org_id = :org AND c.run_id = :run AND c.undoable AND {_WRITTEN}"
        f" AND c.integration_id IS NOT NULL{named} ORDER BY c.integration_id",
        {"org": org, "run": run, **({} if chosen is None else {"chosen": list(chosen)})},
    )
    return [IntegrationId(row["integration_id"]) for row in rows]


async def written_changes(
    tx: Tx, org: OrgId, run: RunId, *, after: tuple[int, int] = (0, -1)
) -> list[Change]:
    """Returns the next changes of a run that can be undone, in order; at most `PAGE` after `after`.

    Includes changes that later turned out not to have been written, since a plan may have counted on them.
    """
    rows = await tx.all(
        f"SELECT {', '.join(f'c.{name}' for name in changes.COLUMN_NAMES)} FROM changes AS c"
        " WHERE c.org_id = :org AND c.run_id = :run AND c.undoable"
        " AND (c.seq > :seq OR (c.seq = :seq AND c.position > :position))"
        " ORDER BY c.seq, c.position LIMIT :limit",
        {"org": org, "run": run, "seq": after[0], "position": after[1], "limit": PAGE},
    )
    return [changes.change_of_row(row) for row in rows]


async def written_parts(tx: Tx, org: OrgId, run: RunId) -> dict[ChangeId, list[int]]:
    """Returns the numbers of each change's parts that were or may have been written."""
    rows = await tx.all(
        "SELECT change_id, part FROM write_ledger"
        " WHERE org_id = :org AND run_id = :run AND state IN ('done', 'unknown', 'intent')"
        " ORDER BY change_id, part",
        {"org": org, "run": run},
    )
    parts: dict[ChangeId, list[int]] = {}
    for row in rows:
        parts.setdefault(ChangeId(row["change_id"]), []).append(row["part"])
    return parts
