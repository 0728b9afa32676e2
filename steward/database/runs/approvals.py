"""Approvals: requested once per round, decided once."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.due_rows import NOT_DEFERRED
from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none
from steward.model.approval import Approval, ApprovalKind, ApprovalStatus, FollowingSteps
from steward.model.ids import ApprovalId, AutomationId, ChangeId, IntegrationId, OrgId, PersonId, RunId
from steward.model.refusals import NotFound

EXPIRED_BATCH = 100
WARN_BATCH = 100
# When people get the first reminder, as a share of the approval's time.
FIRST_WARNING = 0.5
_COLUMNS = (
    "SELECT a.org_id, a.id, a.run_id, a.automation_id, a.round, a.kind, a.version, a.status, a.change_hash,"
    " a.counts, a.warnings, a.follows, a.created_at, a.expires_at, a.decided_at, a.decided_by, a.comment,"
    " a.write_now,"
    " r.automation_name, r.undo_of, au.store_label"
)
_JOINED = (
    "JOIN runs AS r ON r.org_id = a.org_id AND r.id = a.run_id"
    " JOIN automations AS au ON au.org_id = a.org_id AND au.id = a.automation_id"
)
_SELECT = f"{_COLUMNS} FROM approvals AS a {_JOINED}"
_KEYS = "SELECT a.expires_at, a.id FROM approvals AS a WHERE a.org_id = :org"
# As in the indexes. Retention empties the counts of an approval whose run it removes.
_LISTED = " AND a.counts <> '{}'"
_DECIDED = " AND a.status <> 'pending'"
_DECIDED_COLUMNS = _COLUMNS.replace(" r.automation_name,", " a.excluded_changes, r.automation_name,")
_SELECT_DECIDED = f"{_DECIDED_COLUMNS} FROM approvals AS a {_JOINED}"


async def insert(tx: Tx, org: OrgId, approval: Approval, *, integration: IntegrationId | None) -> None:
    """Stores a pending approval."""
    await tx.execute(
        "INSERT INTO approvals (org_id, id, run_id, automation_id, integration_id, round, kind, version,"
        " status, change_hash, counts, warnings, follows, created_at, expires_at, warn_at)"
        " VALUES (:org, :id, :run, :automation, :integration, :round, :kind, :version, :status, :hash,"
        " :counts, :warnings, :follows, :created, :expires, :warn)",
        {
            "org": org,
            "id": approval.id,
            "run": approval.run_id,
            "automation": approval.automation_id,
            "integration": integration,
            "round": approval.round,
            "kind": approval.kind,
            "version": approval.version,
            "status": approval.status,
            "hash": approval.change_hash,
            "counts": Json(approval.counts),
            "warnings": Json(list(approval.warnings)),
            "follows": Json(approval.follows.wire()),
            "created": approval.created_at,
            "expires": approval.expires_at,
            "warn": approval.created_at + (approval.expires_at - approval.created_at) * FIRST_WARNING,
        },
    )


async def get(tx: Tx, org: OrgId, approval: ApprovalId) -> Approval:
    """Returns the approval. Raises NotFound, also for another organization's."""
    row = await tx.first(
        f"{_SELECT} WHERE a.org_id = :org AND a.id = :approval", {"org": org, "approval": approval}
    )
    if row is None:
        raise NotFound
    return _approval(row)


async def pending_of(tx: Tx, org: OrgId, runs: Collection[RunId], *, limit: int) -> list[Approval]:
    """Returns the pending approvals of these runs, the first to expire first."""
    rows = await tx.all(
        f"{_SELECT} WHERE a.org_id = :org AND a.run_id IN (:runs) AND a.status = 'pending'"
        " ORDER BY a.expires_at, a.id LIMIT :limit",
        {"org": org, "runs": list(runs), "limit": limit},
    )
    return [_approval(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a person or the service."""

    status: ApprovalStatus
    by: PersonId | None = None
    session_hash: str | None = None
    comment: str | None = None
    excepted: Sequence[ChangeId] = ()
    write_now: bool = False


async def decide(tx: Tx, org: OrgId, approval: ApprovalId, *, version: int, decision: Decision) -> bool:
    """Decides a pending approval; returns False when it was decided or changed before."""
    touched = await tx.execute(
        "UPDATE approvals SET status = :status, version = version + 1, decided_at = :now, decided_by = :by,"
        " warn_at = NULL, session_hash = :session, comment = :comment, excluded_changes = :excluded_changes,"
        " write_now = :write_now"
        " WHERE org_id = :org AND id = :approval AND status = 'pending' AND version = :version",
        {
            "org": org,
            "approval": approval,
            "version": version,
            "status": decision.status,
            "by": decision.by,
            "session": decision.session_hash,
            "comment": decision.comment,
            "excluded_changes": Json(list(decision.excepted)) if decision.excepted else None,
            "write_now": decision.write_now,
        },
    )
    return touched == 1


async def find(
    tx: Tx,
    org: OrgId,
    *,
    statuses: Collection[ApprovalStatus],
    automation: AutomationId | None,
    integration: IntegrationId | None,
    limit: int,
    after: tuple[datetime, ApprovalId] | None,
) -> list[Approval]:
    """Returns a page of approvals by their end, earliest first, then id, those after the key `after`."""
    text = _merged(_COLUMNS, statuses, automation, integration, is_first=after is None)
    args = _list_args(org, automation, integration, limit=limit, after=after)
    return [_approval(row) for row in await tx.all(text, args)]


def _merged(
    columns: str,
    statuses: Collection[ApprovalStatus],
    automation: AutomationId | None,
    integration: IntegrationId | None,
    *,
    is_first: bool,
    latest_first: bool = False,
) -> PerEngine:
    """Returns a list's statement, which reads each status from an index in list order and merges them."""
    direction, sign = (" DESC", "<") if latest_first else ("", ">")
    conditions = _LISTED
    conditions += "" if automation is None else " AND a.automation_id = :automation"
    conditions += "" if integration is None else " AND a.integration_id = :integration"
    conditions += "" if is_first else f" AND (a.expires_at, a.id) {sign} (:after_at, :after_id)"
    parts = [
        f"{_KEYS} AND a.status = '{status}'{'' if status is ApprovalStatus.PENDING else _DECIDED}{conditions}"
        for status in sorted(set(statuses))
    ]
    last = f"ORDER BY expires_at{direction}, id{direction} LIMIT :limit"
    apart = " UNION ALL ".join(f"({part} {last})" for part in parts)
    page = PerEngine(f"{' UNION ALL '.join(parts)} {last}", f"SELECT * FROM ({apart}) AS listed {last}")
    of_page = (
        f"WHERE a.org_id = :org AND a.id = page.id ORDER BY page.expires_at{direction}, page.id{direction}"
    )
    return PerEngine(
        *(f"{columns} FROM ({keys}) AS page CROSS JOIN approvals AS a {_JOINED} {of_page}" for keys in page)
    )


def _list_args(
    org: OrgId,
    automation: AutomationId | None,
    integration: IntegrationId | None,
    *,
    limit: int,
    after: tuple[datetime, ApprovalId] | None,
) -> dict[str, object]:
    return {
        "org": org,
        "automation": automation,
        "integration": integration,
        "after_at": after and after[0],
        "after_id": after and after[1],
        "limit": limit,
    }


@dataclass(frozen=True, slots=True)
class PastApproval:
    """An approval that no longer waits, and the number of its excluded changes."""

    approval: Approval
    left_out: int


async def decided(
    tx: Tx,
    org: OrgId,
    *,
    automation: AutomationId | None = None,
    integration: IntegrationId | None = None,
    limit: int,
    after: tuple[datetime, ApprovalId] | None,
) -> list[PastApproval]:
    """Returns approvals that no longer wait, by their end, latest first, then id."""
    statuses = [status for status in ApprovalStatus if status is not ApprovalStatus.PENDING]
    text = _merged(
        _DECIDED_COLUMNS, statuses, automation, integration, is_first=after is None, latest_first=True
    )
    rows = await tx.all(text, _list_args(org, automation, integration, limit=limit, after=after))
    return [_decided(row) for row in rows]


async def decided_of_run(tx: Tx, org: OrgId, run: RunId, *, limit: int) -> list[PastApproval]:
    """Returns the first `limit` approvals of a run that no longer wait, by round."""
    rows = await tx.all(
        f"{_SELECT_DECIDED} WHERE a.org_id = :org AND a.run_id = :run AND a.status <> 'pending'"
        " ORDER BY a.round LIMIT :limit",
        {"org": org, "run": run, "limit": limit},
    )
    return [_decided(row) for row in rows]


def _decided(row: Row) -> PastApproval:
    excluded = row["excluded_changes"]
    return PastApproval(_approval(row), len(json.loads(excluded)) if excluded else 0)


async def writes_now(tx: Tx, org: OrgId, run: RunId) -> bool:
    """Returns whether a person approved that the run writes while changes are stopped."""
    row = await tx.first(
        "SELECT 1 AS allowed FROM approvals WHERE org_id = :org AND run_id = :run AND write_now LIMIT 1",
        {"org": org, "run": run},
    )
    return row is not None


async def expired(tx: Tx, limit: int = EXPIRED_BATCH) -> list[tuple[OrgId, ApprovalId]]:
    """Returns pending approvals past their end, of all organizations, without deferred ones.

    A run waits for approval exactly as long as its approval is pending, and both expire together.
    """
    rows = await tx.all(
        PerEngine(
            "SELECT org_id, approval_id AS id FROM runs WHERE queue = 'parked' AND expires_at <= {now}"
            f"{NOT_DEFERRED.format(task='expire_approvals', key='runs.approval_id')}"
            " ORDER BY expires_at, approval_id LIMIT :most",
            "SELECT org_id, id FROM queue_expired_approvals(:most)",
        ),
        {"most": limit},
    )
    return [(OrgId(row["org_id"]), ApprovalId(row["id"])) for row in rows]


async def to_warn(tx: Tx) -> list[tuple[OrgId, ApprovalId]]:
    """Returns the approvals of all organizations that are due for a reminder, without deferred ones."""
    rows = await tx.all(
        PerEngine(
            "SELECT org_id, id FROM approvals WHERE warn_at <= {now}"
            f"{NOT_DEFERRED.format(task='warn', key='approvals.id')} ORDER BY warn_at, id LIMIT :most",
            "SELECT org_id, id FROM queue_warn(:most)",
        ),
        {"most": WARN_BATCH},
    )
    return [(OrgId(row["org_id"]), ApprovalId(row["id"])) for row in rows]


async def record_warning(
    tx: Tx, org: OrgId, approval: ApprovalId, *, step: int, next_at: datetime | None
) -> bool:
    """Records reminder number `step`; returns False when it must not be sent.

    It is not sent when the approval was decided or has expired, or when another process sends it.
    """
    touched = await tx.execute(
        "UPDATE approvals SET warn_at = :next, warned = :step"
        " WHERE org_id = :org AND id = :approval AND status = 'pending' AND warn_at <= {now}"
        " AND warned < :step AND expires_at > {now}",
        {"org": org, "approval": approval, "step": step, "next": next_at},
    )
    if not touched:  # it ends soon: the task that expires it sends the next notice
        await tx.execute(
            "UPDATE approvals SET warn_at = NULL"
            " WHERE org_id = :org AND id = :approval AND warn_at <= {now} AND expires_at <= {now}",
            {"org": org, "approval": approval},
        )
    return touched == 1


def _approval(row: Row) -> Approval:
    return Approval(
        org=OrgId(row["org_id"]),
        id=ApprovalId(row["id"]),
        run_id=RunId(row["run_id"]),
        automation_id=AutomationId(row["automation_id"]),
        automation_name=row["automation_name"],
        store_label=row["store_label"],
        round=row["round"],
        kind=ApprovalKind(row["kind"]),
        version=row["version"],
        status=ApprovalStatus(row["status"]),
        change_hash=row["change_hash"],
        counts=json.loads(row["counts"]),
        warnings=tuple(json.loads(row["warnings"])),
        created_at=from_ms(row["created_at"]),
        expires_at=from_ms(row["expires_at"]),
        decided_at=from_ms_or_none(row["decided_at"]),
        decided_by=PersonId(row["decided_by"]) if row["decided_by"] is not None else None,
        comment=row["comment"],
        follows=FollowingSteps(**json.loads(row["follows"])),
        undo_of=RunId(row["undo_of"]) if row["undo_of"] else None,
        write_now=bool(row["write_now"]),
    )
