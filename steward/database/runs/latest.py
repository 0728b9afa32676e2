"""The newest runs of many automations: the strips of a list, and failures without a later success."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import PerEngine, Tx, from_ms
from steward.database.run_indexes import BY_KIND
from steward.database.runs.records import COLUMNS, record
from steward.database.runs.run_lists import RunFilter, find
from steward.model.automation import AutomationState, facets
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId
from steward.model.run import Mode, Run, RunStatus, kinds

_MAX_STRIP = 30
# Limits of automations that are probed for their newest run: of any in use, and of those with the most
# failures.
_MAX_IN_USE = 500
_MAX_PROBES = 1_000
# The number of newest failed or expired runs of each kind whose automations are probed, too.
_MAX_PROBED_RUNS = 200
_FAILED_KINDS = kinds([RunStatus.FAILED, RunStatus.EXPIRED], Mode.LIVE)

# The newest runs of each kind, merged, for each automation. SQLite lists one automation after the other.
_STRIPS = (
    "SELECT a.id AS automation_id, r.id, r.status, r.queued_at FROM automations AS a CROSS JOIN LATERAL"
    " (SELECT n.id, n.status, n.queued_at FROM unnest(CAST(:kinds AS bigint[])) AS k(kind) CROSS JOIN LATERAL"
    " (SELECT o.id, o.status, o.queued_at FROM runs AS o WHERE o.org_id = :org AND o.automation_id = a.id"
    " AND o.kind = k.kind ORDER BY o.queued_at DESC, o.id DESC LIMIT :limit) AS n"
    " ORDER BY n.queued_at DESC, n.id DESC LIMIT :limit) AS r"
    " WHERE a.org_id = :org AND a.id IN (:automations)"
)
# In the order of an index, so that no more rows are read.
_IN_USE = " UNION ALL ".join(
    "SELECT * FROM (SELECT a.id FROM automations AS a WHERE a.org_id = :org"
    f" AND a.facet = {facet} ORDER BY a.created_at, a.id LIMIT {_MAX_IN_USE}) AS f{facet}"
    for facet in facets([AutomationState.ACTIVE, AutomationState.DRAFT])
)
# All automations in use of an organization with up to _MAX_IN_USE of them. Of a larger one, those that have
# failed in a row; a resumed automation has no failures in a row, and neither do runs that expired or were
# interrupted, so also the automations of the newest failed and expired runs.
_PROBES = " UNION ".join(
    [
        f"SELECT u.id AS automation_id FROM ({_IN_USE} LIMIT {_MAX_IN_USE}) AS u",
        "SELECT f.automation_id FROM (SELECT s.automation_id FROM schedules AS s WHERE s.org_id = :org"
        " AND s.consecutive_failures > 0 AND s.last_run_at >= :since"
        " ORDER BY s.consecutive_failures DESC, s.last_run_at DESC LIMIT :probes) AS f",
        *(
            "SELECT e.automation_id FROM (SELECT r.automation_id FROM runs AS r"
            f" WHERE r.org_id = :org AND r.kind = {kind} AND r.queued_at >= :since"
            f" AND {BY_KIND.format(run='r')}"
            f" ORDER BY r.queued_at DESC LIMIT {_MAX_PROBED_RUNS}) AS e"
            for kind in _FAILED_KINDS
        ),
    ]
)
# No fewer than there can be: with a limit, PostgreSQL looks up each automation instead of reading them all.
_ALL_PROBES = _MAX_IN_USE + _MAX_PROBES + len(_FAILED_KINDS) * _MAX_PROBED_RUNS
# The newest run of each kind of an automation `a` that is or supersedes a failure; no index orders all kinds.
_NEWEST = " UNION ALL ".join(
    "SELECT * FROM (SELECT r.id, r.queued_at FROM runs AS r WHERE r.org_id = a.org_id"
    f" AND r.automation_id = a.id AND r.kind = {kind} AND r.queued_at >= :since"
    f" ORDER BY r.queued_at DESC, r.id DESC LIMIT 1) AS k{kind}"
    for kind in kinds(
        [RunStatus.SUCCEEDED, RunStatus.WAITING_APPROVAL, RunStatus.FAILED, RunStatus.EXPIRED], Mode.LIVE
    )
)
# The newest run is joined last on both engines: PostgreSQL would otherwise probe all automations for each
# run.
_FAILING = PerEngine(
    *(
        f"""
SELECT {COLUMNS}, p.store_label, p.integration_id, p.failures, c.name AS connection,
    CASE WHEN c.state = 'connected' AND c.check_at <= :now THEN 1 ELSE 0 END AS checking
FROM (
    SELECT a.org_id, a.store_label, a.integration_id, s.consecutive_failures AS failures,
        (SELECT n.id FROM ({_NEWEST}) AS n ORDER BY n.queued_at DESC, n.id DESC LIMIT 1) AS run_id
    FROM ({_PROBES}) AS probed
    CROSS JOIN automations AS a
    CROSS JOIN schedules AS s
    WHERE a.org_id = :org AND a.id = probed.automation_id AND a.state IN ('active', 'draft')
        AND s.org_id = :org AND s.automation_id = probed.automation_id
    ORDER BY a.id LIMIT {_ALL_PROBES}
) AS p
CROSS JOIN {newest_run} AS runs
LEFT JOIN connections AS c ON c.org_id = p.org_id AND c.integration_id = p.integration_id
WHERE runs.org_id = p.org_id AND runs.id = p.run_id AND runs.status IN ('failed', 'expired')
ORDER BY runs.queued_at DESC LIMIT :limit
"""
        for newest_run in (
            "runs",
            "LATERAL (SELECT * FROM runs AS q WHERE q.org_id = p.org_id AND q.id = p.run_id OFFSET 0)",
        )
    )
)


@dataclass(frozen=True, slots=True)
class StripRun:
    """A run of a strip."""

    id: RunId
    status: RunStatus
    queued_at: datetime


@dataclass(frozen=True, slots=True)
class UnmendedFailure:
    """The newest run of an automation, which failed, with the automation's store and connection."""

    run: Run
    failures: int
    store_label: str
    integration: IntegrationId | None
    connection: str | None
    is_checking: bool


async def strips(
    tx: Tx, org: OrgId, automations: Collection[AutomationId]
) -> dict[AutomationId, list[StripRun]]:
    """Returns the last live runs of each automation, at most _MAX_STRIP, oldest first."""
    runs: dict[AutomationId, list[StripRun]] = {automation: [] for automation in automations}
    if tx.dialect == "sqlite":
        filters = [RunFilter(automation=automation, mode=Mode.LIVE) for automation in automations]
        lists = [await find(tx, org, run_filter, limit=_MAX_STRIP, after=None) for run_filter in filters]
        rows = [row for rows_of_one in lists for row in rows_of_one]
    else:
        args = {"org": org, "automations": list(automations), "limit": _MAX_STRIP}
        rows = await tx.all(_STRIPS, {**args, "kinds": kinds(mode=Mode.LIVE)})
    for row in sorted(rows, key=lambda row: (row["queued_at"], row["id"])):
        run = StripRun(RunId(row["id"]), RunStatus(row["status"]), from_ms(row["queued_at"]))
        runs[AutomationId(row["automation_id"])].append(run)
    return runs


async def unmended(tx: Tx, org: OrgId, *, since: datetime, limit: int) -> list[UnmendedFailure]:
    """Returns the failures that no newer run has superseded, newest first.

    A newer run supersedes a failure if it succeeds or waits for an approval. Leaves out automations that
    are paused or archived, and runs queued before `since`.
    """
    args = {"org": org, "since": since, "now": tx.now, "limit": limit, "probes": _MAX_PROBES}
    return [
        UnmendedFailure(
            record(row),
            row["failures"],
            row["store_label"],
            None if row["integration_id"] is None else IntegrationId(row["integration_id"]),
            row["connection"],
            bool(row["checking"]),
        )
        for row in await tx.all(_FAILING, args)
    ]
