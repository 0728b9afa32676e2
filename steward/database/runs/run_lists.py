"""Lists of runs; a page costs the same however many runs there are, match, or precede it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import PerEngine, Row, Sql, Tx
from steward.database.run_indexes import BY_AGE, BY_KIND
from steward.database.runs.records import COLUMNS
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId
from steward.model.run import Mode, RunStatus, StartedBy, kinds

_RUNS = f"SELECT {COLUMNS} FROM runs WHERE runs.org_id = :org"
_KEYS = "SELECT runs.queued_at, runs.id FROM runs WHERE runs.org_id = :org"
_ORDER = "ORDER BY runs.queued_at DESC, runs.id DESC LIMIT :limit"
# By the table that has an index for it; a run has few undos.
_UNDO_OF = "runs.id IN (SELECT u.run_id FROM undos AS u WHERE u.org_id = :org AND u.of_run_id = :undo_of)"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The filters of a list of runs."""

    automation: AutomationId | None = None
    store: IntegrationId | None = None  # not combined with an automation: no index has both
    statuses: Sequence[RunStatus] = ()
    mode: Mode | None = None
    started_by: StartedBy | None = None
    since: datetime | None = None
    until: datetime | None = None
    undo_of: RunId | None = None


async def find(
    tx: Tx, org: OrgId, run_filter: RunFilter, *, limit: int, after: tuple[datetime, RunId] | None
) -> list[Row]:
    """Returns a page of rows of `COLUMNS`, newest first, then id descending.

    These are the rows after the key `after`.
    """
    args = _args(org, run_filter) | {
        "after_at": after and after[0],
        "after_id": after and after[1],
        "limit": limit,
    }
    return await tx.all(_statement(run_filter, is_first=after is None), args)


async def among(tx: Tx, org: OrgId, run_filter: RunFilter, runs: Sequence[RunId], *, limit: int) -> list[Row]:
    """Returns rows of `COLUMNS` for those `runs` that match the filter, newest id first."""
    conditions = f" AND {_UNDO_OF}" if run_filter.undo_of is not None else ""
    conditions += _conditions(run_filter) + " AND runs.kind IN (:kinds)"
    chosen = PerEngine(
        "FROM json_each(:runs) AS r CROSS JOIN runs WHERE runs.org_id = :org AND runs.id = r.value"
        f"{conditions}",
        "FROM unnest(CAST(:runs AS text[])) AS r(id) CROSS JOIN LATERAL (SELECT * FROM runs"
        f" WHERE runs.org_id = :org AND runs.id = r.id{conditions} OFFSET 0) AS runs",
    )
    end = "ORDER BY runs.id DESC LIMIT :limit"
    statement = PerEngine(*(f"SELECT {COLUMNS} {text} {end}" for text in chosen))
    return await tx.all(statement, _args(org, run_filter) | {"runs": list(runs), "limit": limit})


async def store_labels(tx: Tx, org: OrgId, runs: Sequence[RunId]) -> dict[RunId, str]:
    """Returns the name of the store that each run was queued for; without a store, its automation's label."""
    if not runs:
        return {}
    rows = await tx.all(
        "SELECT r.id, coalesce(c.name, a.store_label) AS label FROM runs AS r"
        " JOIN automations AS a ON a.org_id = r.org_id AND a.id = r.automation_id"
        " LEFT JOIN connections AS c ON c.org_id = r.org_id AND c.integration_id = r.integration_id"
        " WHERE r.org_id = :org AND r.id IN (:runs)",
        {"org": org, "runs": list(runs)},
    )
    return {RunId(row["id"]): row["label"] for row in rows}


def _args(org: OrgId, run_filter: RunFilter) -> dict[str, object]:
    return {
        "org": org,
        "automation": run_filter.automation,
        "store": run_filter.store,
        "kinds": kinds(run_filter.statuses, run_filter.mode, run_filter.started_by),
        "since": run_filter.since,
        "until": run_filter.until,
        "undo_of": run_filter.undo_of,
    }


def _conditions(run_filter: RunFilter) -> str:
    conditions = "" if run_filter.automation is None else " AND runs.automation_id = :automation"
    conditions += "" if run_filter.store is None else " AND runs.integration_id = :store"
    conditions += "" if run_filter.since is None else " AND runs.queued_at >= :since"
    conditions += "" if run_filter.until is None else " AND runs.queued_at < :until"
    return conditions


def _statement(run_filter: RunFilter, *, is_first: bool) -> Sql:
    conditions = _conditions(run_filter)
    conditions += "" if is_first else " AND (runs.queued_at, runs.id) < (:after_at, :after_id)"
    if run_filter.undo_of is not None:
        return f"{_RUNS} AND {_UNDO_OF} AND runs.kind IN (:kinds){conditions} {_ORDER}"
    is_of_all = run_filter.automation is None and run_filter.store is None
    if is_of_all and not (run_filter.statuses or run_filter.mode or run_filter.started_by):
        return f"{_RUNS} AND {BY_AGE.format(run='runs')}{conditions} {_ORDER}"
    return _by_kind(run_filter, conditions, index=f" AND {BY_KIND.format(run='runs')}" if is_of_all else "")


def _by_kind(run_filter: RunFilter, conditions: str, *, index: str) -> Sql:
    """Returns the statement that reads each kind from an index in the order of the list, and merges them.

    SQLite names the kinds and reads from each what the page needs; PostgreSQL, where planning is expensive,
    has one plan for all.
    """
    requested = kinds(run_filter.statuses, run_filter.mode, run_filter.started_by)
    parts = " UNION ALL ".join(f"{_KEYS} AND runs.kind = {kind}{conditions}" for kind in requested)
    return PerEngine(
        f"SELECT {COLUMNS} FROM ({parts} ORDER BY queued_at DESC, id DESC LIMIT :limit) AS page"
        " CROSS JOIN runs WHERE runs.org_id = :org AND runs.id = page.id"
        " ORDER BY page.queued_at DESC, page.id DESC",
        "SELECT run.* FROM (SELECT newest.queued_at, newest.id"
        " FROM unnest(CAST(:kinds AS bigint[])) AS k(kind)"
        f" CROSS JOIN LATERAL ({_KEYS} AND runs.kind = k.kind{index}{conditions} {_ORDER}) AS newest"
        " ORDER BY newest.queued_at DESC, newest.id DESC LIMIT :limit) AS page"
        f" CROSS JOIN LATERAL ({_RUNS} AND runs.id = page.id OFFSET 0) AS run"
        " ORDER BY page.queued_at DESC, page.id DESC",
    )
