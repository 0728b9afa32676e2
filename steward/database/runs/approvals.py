"""Approvals: requested once per round, decided once."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.due_rows import NOT_DEFERRED
from steward.database.engine.base import Both, Json, Row, Tx, from_ms, from_ms_or_none
from steward.model.approval import Approval, ApprovalKind, ApprovalStatus, FollowingSteps
from steward.model.ids import ApprovalId, AutomationId, ChangeId, IntegrationId, OrgId, PersonId, RunId
from steward.model.refusals import NotFound

EXPIRED_BATCH = 100
WARN_BATCH = 100
# When people are first told again, as a share of an approval's time.
FIRST_WARNING = 0.5
_SELECT = (
    "SELECT a.org_id, a.id, a.run_id, a.automation_id, a.round, a.kind, a.version, a.status, a.change_hash,"
    " a.counts, a.warnings, a.follows, a.created_at, a.expires_at, a.decided_at, a.decided_by, a.comment,"
    " r.automation_name, r.undo_of, au.store_label"
    " FROM approvals AS a"
    " JOIN runs AS r ON r.org_id = a.org_id AND r.id = a.run_id"
    " JOIN automations AS au ON au.org_id = a.org_id AND au.id = a.automation_id"
)


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


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person or the service decided."""

    status: ApprovalStatus
    by: PersonId | None = None
    session_hash: str | None = None
    comment: str | None = None
    excepted: Sequence[ChangeId] = ()


async def decide(tx: Tx, org: OrgId, approval: ApprovalId, *, version: int, decision: Decision) -> bool:
    """Decides a pending approval; returns False when it was decided or changed before."""
    touched = await tx.execute(
        "UPDATE approvals SET status = :status, version = version + 1, decided_at = :now, decided_by = :by,"
        " warn_at = NULL, session_hash = :session, comment = :comment, excluded_changes = :excluded_changes"
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
    """Returns approvals by their end, earliest first, then id; those after the key of the page before."""
    where = ["a.org_id = :org", "a.status IN (:statuses)"]
    args: dict[str, object] = {"org": org, "statuses": list(statuses), "limit": limit}
    if automation is not None:
        where.append("a.automation_id = :automation")
        args["automation"] = automation
    if integration is not None:
        where.append("a.integration_id = :integration")
        args["integration"] = integration
    if after is not None:
        where.append("(a.expires_at > :at OR (a.expires_at = :at AND a.id > :id))")
        args |= {"at": after[0], "id": after[1]}
    rows = await tx.all(
        f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY a.expires_at, a.id LIMIT :limit", args
    )
    return [_approval(row) for row in rows]


async def expired(tx: Tx, limit: int = EXPIRED_BATCH) -> list[tuple[OrgId, ApprovalId]]:
    """Returns pending approvals past their end, of every organization, without deferred ones.

    A run waits for approval exactly as long as its approval is pending, and both expire together.
    """
    rows = await tx.all(
        Both(
            "SELECT org_id, approval_id AS id FROM runs WHERE queue = 'parked' AND expires_at <= {now}"
            f"{NOT_DEFERRED.format(tick='expire_approvals', key='runs.approval_id')}"
            " ORDER BY expires_at, approval_id LIMIT :most",
            "SELECT org_id, id FROM queue_expired_approvals(:most)",
        ),
        {"most": limit},
    )
    return [(OrgId(row["org_id"]), ApprovalId(row["id"])) for row in rows]


async def to_warn(tx: Tx) -> list[tuple[OrgId, ApprovalId]]:
    """Returns approvals to tell people of again, of every organization, without deferred ones."""
    rows = await tx.all(
        Both(
            "SELECT org_id, id FROM approvals WHERE warn_at <= {now}"
            f"{NOT_DEFERRED.format(tick='warn', key='approvals.id')} ORDER BY warn_at, id LIMIT :most",
            "SELECT org_id, id FROM queue_warn(:most)",
        ),
        {"most": WARN_BATCH},
    )
    return [(OrgId(row["org_id"]), ApprovalId(row["id"])) for row in rows]


async def warned(tx: Tx, org: OrgId, approval: ApprovalId, *, step: int, next_at: datetime | None) -> bool:
    """Notes that people are told for the `step`-th time; returns False when they need not be.

    They need not when it was decided, has expired, or somebody else tells them.
    """
    touched = await tx.execute(
        "UPDATE approvals SET warn_at = :next, warned = :step"
        " WHERE org_id = :org AND id = :approval AND status = 'pending' AND warn_at <= {now}"
        " AND warned < :step AND expires_at > {now}",
        {"org": org, "approval": approval, "step": step, "next": next_at},
    )
    if not touched:  # its end is near: the task that expires it says the rest
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
    )
