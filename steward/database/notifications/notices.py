"""Notices: written in the transaction of their fact, read by the fan-out."""

import json
from collections.abc import Sequence
from datetime import datetime

from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms
from steward.model.ids import (
    ApprovalId,
    AutomationId,
    IntegrationId,
    NoticeId,
    OrgId,
    PersonId,
    RouteId,
    RunId,
    new_id,
)
from steward.model.notice import Notice, StoredNotice, Topic

FAILURES_TO_POISON = 5

_INSERT = (
    "INSERT INTO notices (org_id, id, topic, dedupe, automation_id, run_id, approval_id, integration_id,"
    " route_id, person_id, count, facts, created_at, state, not_before)"
    " VALUES (:org, :id, :topic, :dedupe, :automation, :run, :approval, :integration, :route, :person,"
    " :count, :facts, :now, 'new', :now) ON CONFLICT (org_id, dedupe) DO NOTHING"
)
_SELECT = (
    "SELECT org_id, id, topic, dedupe, automation_id, run_id, approval_id, integration_id, route_id,"
    " person_id, count, facts, created_at, inbox_only FROM notices"
)


async def add(tx: Tx, org: OrgId, notice: Notice) -> bool:
    """Stores a notice in the transaction of its fact; returns False when the fact has one already."""
    stored = await tx.execute(
        _INSERT,
        {
            "org": org,
            "id": new_id(tx.now),
            "topic": notice.topic,
            "dedupe": notice.dedupe,
            "automation": notice.automation,
            "run": notice.run,
            "approval": notice.approval,
            "integration": notice.integration,
            "route": notice.route,
            "person": notice.person,
            "count": notice.count,
            "facts": Json(notice.facts),
        },
    )
    return stored == 1


async def waiting(tx: Tx, limit: int) -> list[tuple[OrgId, NoticeId]]:
    """Returns new notices of all organizations, oldest first, without deferred ones."""
    rows = await tx.all(
        PerEngine(
            "SELECT org_id, id FROM notices WHERE state = 'new' AND not_before <= {now}"
            " ORDER BY not_before, id LIMIT :most",
            "SELECT org_id, id FROM queue_notices(:most, :test_now)",
        ),
        {"most": limit, "test_now": tx.test_now},
    )
    return [(OrgId(row["org_id"]), NoticeId(row["id"])) for row in rows]


async def lock_new(tx: Tx, org: OrgId, notices: Sequence[NoticeId]) -> list[StoredNotice]:
    """Locks the notices that are still new and returns them, oldest first; skips locked ones."""
    rows = await tx.all(
        f"{_SELECT} WHERE org_id = :org AND id IN (:notices) AND state = 'new' ORDER BY id {{skip_locked}}",
        {"org": org, "notices": list(notices)},
    )
    return [stored_notice(row) for row in rows]


async def get_many(tx: Tx, org: OrgId, notices: Sequence[NoticeId]) -> list[StoredNotice]:
    """Returns notices by their ids, oldest first."""
    rows = await tx.all(
        f"{_SELECT} WHERE org_id = :org AND id IN (:notices) ORDER BY id",
        {"org": org, "notices": list(notices)},
    )
    return [stored_notice(row) for row in rows]


async def mark_fanned_out(tx: Tx, org: OrgId, notices: Sequence[NoticeId]) -> None:
    """Marks notices as handed to their receivers."""
    await tx.execute(
        "UPDATE notices SET state = 'fanned_out' WHERE org_id = :org AND id IN (:notices)",
        {"org": org, "notices": list(notices)},
    )


async def defer(tx: Tx, org: OrgId, notice: NoticeId, *, until: datetime) -> int:
    """Counts a failed fan-out of a notice and defers it; the fifth failure makes it poison.

    Returns the failures so far; 0 when it is no longer new.
    """
    row = await tx.first(
        "UPDATE notices SET failures = failures + 1, not_before = :until,"
        " state = CASE WHEN failures + 1 >= :most THEN 'poison' ELSE state END"
        " WHERE org_id = :org AND id = :notice AND state = 'new' RETURNING failures",
        {"org": org, "notice": notice, "until": until, "most": FAILURES_TO_POISON},
    )
    return 0 if row is None else int(row["failures"])


def stored_notice(row: Row) -> StoredNotice:
    """Returns the notice in a row."""
    return StoredNotice(
        OrgId(row["org_id"]),
        NoticeId(row["id"]),
        Notice(
            topic=Topic(row["topic"]),
            dedupe=row["dedupe"],
            facts=json.loads(row["facts"]),
            automation=AutomationId(row["automation_id"]) if row["automation_id"] else None,
            run=RunId(row["run_id"]) if row["run_id"] else None,
            approval=ApprovalId(row["approval_id"]) if row["approval_id"] else None,
            integration=IntegrationId(row["integration_id"]) if row["integration_id"] is not None else None,
            route=RouteId(row["route_id"]) if row["route_id"] else None,
            person=PersonId(row["person_id"]) if row["person_id"] is not None else None,
            count=row["count"],
        ),
        from_ms(row["created_at"]),
        bool(row["inbox_only"]),
    )
