"""Removes expired rows, a limited number at a time; partitions.py drops whole months."""

from collections.abc import Sequence
from datetime import datetime

from steward.database.engine.base import PerEngine, Tx
from steward.database.org_span import OrgSpan
from steward.model.ids import AutomationId, OrgId, RunId, first_id

# PostgreSQL drops whole months (partitions.py); only rows outside of them are removed one by one.
_STEPS = (
    "DELETE FROM steps WHERE org_id = :org AND (run_id, seq) IN"
    " (SELECT run_id, seq FROM steps WHERE org_id = :org AND run_id IN (:runs) LIMIT :most)"
)
_STEPS_REST = (
    "DELETE FROM steps WHERE org_id = :org AND run_id IN (:runs) AND tableoid = 'steps_default'::regclass"
)
_VALUES = (
    "DELETE FROM step_values WHERE org_id = :org AND (run_id, name, iteration) IN"
    " (SELECT run_id, name, iteration FROM step_values"
    " WHERE org_id = :org AND run_id IN (:runs) LIMIT :most)"
)
# Outputs in rows of steps are removed first. A run is found through its rows in step_values, of which at
# least its first value remains until all outputs are gone.
_OUTPUTS = (
    "UPDATE steps SET output = NULL, state = NULL WHERE org_id = :org AND (run_id, seq) IN"
    " (SELECT run_id, seq FROM steps"
    " WHERE org_id = :org AND run_id IN (:runs) AND output IS NOT NULL LIMIT :most)"
)
_VALUES_REST = (
    "DELETE FROM step_values"
    " WHERE org_id = :org AND run_id IN (:runs) AND tableoid = 'step_values_default'::regclass"
)
_CHANGES = (
    "DELETE FROM changes WHERE org_id = :org AND (run_id, id) IN"
    " (SELECT run_id, id FROM changes WHERE org_id = :org AND run_id IN (:runs) LIMIT :most)"
)
_CHANGES_REST = (
    "DELETE FROM changes WHERE org_id = :org AND run_id IN (:runs) AND tableoid = 'changes_default'::regclass"
)
_TERMS = (
    "DELETE FROM search_terms WHERE org_id = :org AND (run_id, term) IN"
    " (SELECT run_id, term FROM search_terms WHERE org_id = :org AND run_id IN (:runs) LIMIT :most)"
)
_WRITES = (
    "DELETE FROM write_ledger WHERE org_id = :org AND write_key IN"
    " (SELECT write_key FROM write_ledger WHERE org_id = :org AND run_id IN (:runs) LIMIT :most)"
)
_BARE = (
    "SELECT r.id FROM runs AS r WHERE r.org_id = :org AND r.id IN (:runs)"
    " AND NOT EXISTS (SELECT 1 FROM write_ledger AS e WHERE e.org_id = :org AND e.run_id = r.id)"
    " AND NOT EXISTS (SELECT 1 FROM search_terms AS t WHERE t.org_id = :org AND t.run_id = r.id)"
)
_BARE_OF_ROWS = (
    _BARE + " AND NOT EXISTS (SELECT 1 FROM steps AS s WHERE s.org_id = :org AND s.run_id = r.id)"
    " AND NOT EXISTS (SELECT 1 FROM step_values AS v WHERE v.org_id = :org AND v.run_id = r.id)"
    " AND NOT EXISTS (SELECT 1 FROM changes AS c WHERE c.org_id = :org AND c.run_id = r.id)"
)


_IN_SPAN = "o.org_id BETWEEN :first_org AND :last_org"


async def runs_past(tx: Tx, before: datetime, max_rows: int, orgs: OrgSpan) -> list[tuple[OrgId, RunId]]:
    """Returns the oldest runs that finished before an instant, of all organizations in the span."""
    rows = await tx.all(
        PerEngine(
            "SELECT o.org_id, r.id FROM dir_orgs AS o CROSS JOIN runs AS r"
            f" WHERE {_IN_SPAN} AND r.org_id = +o.org_id AND r.id < :border AND r.finished_at < :before"
            " ORDER BY o.org_id, r.id LIMIT :most",
            "SELECT org_id, id FROM queue_retain_runs(:border, :before, :most, :first_org, :last_org)",
        ),
        orgs.args(border=first_id(before), before=before, most=max_rows),
    )
    return [(OrgId(row["org_id"]), RunId(row["id"])) for row in rows]


async def remove_runs(tx: Tx, org: OrgId, runs: Sequence[RunId], *, max_rows: int) -> int:
    """Removes finished runs with their data, up to `max_rows` rows per table. Returns the number of runs.

    A run with more rows is removed by a later pass. Its approvals stay, without their detail.
    """
    args: dict[str, object] = {"org": org, "runs": list(runs), "most": max_rows}
    await tx.execute(PerEngine(_STEPS, _STEPS_REST), args)
    await tx.execute(PerEngine(_VALUES, _VALUES_REST), args)
    await tx.execute(PerEngine(_CHANGES, _CHANGES_REST), args)
    await tx.execute(_TERMS, args)
    await tx.execute(_WRITES, args)
    rows = await tx.all(PerEngine(_BARE_OF_ROWS, _BARE), args)
    bare: dict[str, object] = {"org": org, "runs": [row["id"] for row in rows]}
    for table in ("undos", "memory_log"):
        await tx.execute(f"DELETE FROM {table} WHERE org_id = :org AND run_id IN (:runs)", bare)
    await tx.execute("DELETE FROM run_files WHERE org_id = :org AND run_id IN (:runs)", bare)
    await tx.execute(
        "UPDATE approvals SET counts = '{}', warnings = '[]', comment = NULL, excluded_changes = NULL"
        " WHERE org_id = :org AND run_id IN (:runs) AND status <> 'pending'",  # as in their index
        bare,
    )
    await tx.execute(
        "DELETE FROM idempotency_keys WHERE org_id = :org AND kind IN ('run', 'undo') AND key IN"
        " (SELECT idempotency_key FROM runs WHERE org_id = :org AND id IN (:runs))"
        " AND object_id IN (:runs)",
        bare,
    )
    return await tx.execute("DELETE FROM runs WHERE org_id = :org AND id IN (:runs)", bare)


async def values_past(tx: Tx, before: datetime, max_rows: int, orgs: OrgSpan) -> list[tuple[OrgId, RunId]]:
    """Returns runs that finished before an instant and still have step values; empty on PostgreSQL.

    PostgreSQL drops the values by month.
    """
    rows = await tx.all(
        PerEngine(
            "SELECT DISTINCT o.org_id, v.run_id FROM dir_orgs AS o CROSS JOIN step_values AS v"
            " CROSS JOIN runs AS r"
            f" WHERE {_IN_SPAN} AND v.org_id = +o.org_id AND v.run_id < :border AND r.org_id = v.org_id"
            " AND r.id = v.run_id AND r.finished_at < :before LIMIT :most",
            "SELECT org_id, id AS run_id FROM queue_retain_runs(:border, :before, 0, :first_org, :last_org)",
        ),
        orgs.args(border=first_id(before), before=before, most=max_rows),
    )
    return [(OrgId(row["org_id"]), RunId(row["run_id"])) for row in rows]


async def remove_values(tx: Tx, org: OrgId, runs: Sequence[RunId], *, max_rows: int) -> int:
    """Removes up to `max_rows` step values. Returns their number."""
    chosen = {"org": org, "runs": list(runs)}
    removed = 0 if tx.dialect == "postgresql" else await tx.execute(_OUTPUTS, {**chosen, "most": max_rows})
    if removed < max_rows:
        removed += await tx.execute(_VALUES, {**chosen, "most": max_rows - removed})
    return removed


async def slots_past(
    tx: Tx, before: datetime, max_rows: int, orgs: OrgSpan
) -> list[tuple[OrgId, AutomationId, int]]:
    """Returns decided slots before an instant, each with its automation and its time in milliseconds."""
    rows = await tx.all(
        PerEngine(
            "SELECT o.org_id, s.automation_id, s.slot_at FROM dir_orgs AS o CROSS JOIN occurrences AS s"
            f" WHERE {_IN_SPAN} AND s.org_id = +o.org_id AND s.run_at < :before AND s.slot_at < :before"
            " AND s.state <> 'pending' LIMIT :most",
            "SELECT org_id, automation_id, slot_at"
            " FROM queue_retain_slots(:before, :most, :first_org, :last_org)",
        ),
        orgs.args(before=before, most=max_rows),
    )
    return [(OrgId(row["org_id"]), AutomationId(row["automation_id"]), row["slot_at"]) for row in rows]


async def remove_slot(tx: Tx, org: OrgId, automation: AutomationId, slot_at: int) -> int:
    """Removes one decided slot."""
    return await tx.execute(
        "DELETE FROM occurrences WHERE org_id = :org AND automation_id = :automation AND slot_at = :slot"
        " AND state <> 'pending'",
        {"org": org, "automation": automation, "slot": slot_at},
    )


async def remove_sessions(tx: Tx, *, idle_since: datetime, made_since: datetime, max_rows: int) -> int:
    """Removes ended sessions. Returns their number."""
    return await tx.execute(
        "DELETE FROM sessions WHERE session_hash IN (SELECT session_hash FROM sessions"
        " WHERE seen_at <= :idle OR created_at <= :made LIMIT :most)",
        {"idle": idle_since, "made": made_since, "most": max_rows},
    )


async def remove_invitations(tx: Tx, before: datetime, max_rows: int) -> int:
    """Removes invitations that ended before an instant. Returns their number."""
    return await tx.execute(
        "DELETE FROM invitations WHERE token_hash IN (SELECT token_hash FROM invitations"
        " WHERE expires_at < :before LIMIT :most)",
        {"before": before, "most": max_rows},
    )


async def remove_deferrals(tx: Tx, before: datetime, max_rows: int) -> int:
    """Removes failures of rows that have not failed since an instant. Returns their number."""
    return await tx.execute(
        "DELETE FROM deferred_rows WHERE (task, key) IN (SELECT task, key FROM deferred_rows"
        " WHERE last_failed_at < :before AND not_before < :before LIMIT :most)",
        {"before": before, "most": max_rows},
    )


async def remove_windows(tx: Tx, max_rows: int) -> int:
    """Removes counts of calls of past minutes; SQLite counts in memory."""
    if tx.dialect == "sqlite":
        return 0
    return await tx.execute(
        "DELETE FROM rate_windows WHERE (kind, org_id, key, minute) IN"
        " (SELECT kind, org_id, key, minute FROM rate_windows WHERE minute < {now} / 60000 LIMIT :most)",
        {"most": max_rows},
    )
