"""Approvals that no longer wait: of all automations, and those of one run."""

from datetime import datetime

import msgspec

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import IdText, PageQuery, QueryInt
from steward.api.schema.responses import Count, Cursor, Instant, Name, PositiveInt, UlidStr
from steward.database.engine.base import Tx
from steward.database.runs import approvals
from steward.database.runs import records as runs
from steward.database.runs.approvals import PastApproval
from steward.model.account import Role
from steward.model.ids import ApprovalId, AutomationId, IntegrationId, RunId
from steward.model.instants import read_time, wire_time, wire_time_or_none

# A run asks once per iteration of a loop; only the first approvals are listed.
_ROUNDS_SHOWN = 20


class PastApprovalRecord(msgspec.Struct):
    """An approval that no longer waits; `approved` of its `total` changes were approved."""

    id: UlidStr
    run_id: UlidStr
    automation_id: UlidStr
    automation_name: Name
    store_label: str
    kind: str
    status: str
    total: Count
    approved: Count
    created_at: Instant
    expires_at: Instant
    decided_at: Instant | None
    decided_by: PositiveInt | None
    comment: str | None
    undo_of: UlidStr | None


class PastApprovalsResponse(msgspec.Struct):
    """A page of approvals that no longer wait."""

    approvals: list[PastApprovalRecord]
    next_cursor: Cursor | None


class RunDecisionsResponse(msgspec.Struct):
    """The first approvals of a run that no longer wait."""

    approvals: list[PastApprovalRecord]


class PastApprovalsQuery(PageQuery):
    """Query parameters: which approvals to list."""

    automation_id: IdText | None = None
    integration_id: QueryInt | None = None


def record(decided: PastApproval) -> PastApprovalRecord:
    """Returns the API record of the approval."""
    approval = decided.approval
    total = approval.counts["total"]
    assert isinstance(total, int)
    is_approved = approval.status in ("approved", "partly_approved")
    return PastApprovalRecord(
        id=approval.id,
        run_id=approval.run_id,
        automation_id=approval.automation_id,
        automation_name=approval.automation_name,
        store_label=approval.store_label,
        kind=approval.kind,
        status=approval.status,
        total=total,
        approved=total - decided.left_out if is_approved else 0,
        created_at=wire_time(approval.created_at),
        expires_at=wire_time(approval.expires_at),
        decided_at=wire_time_or_none(approval.decided_at),
        decided_by=approval.decided_by,
        comment=approval.comment,
        undo_of=approval.undo_of,
    )


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/approvals/decided` with the approvals, those decided last first."""
    query: PastApprovalsQuery = call.query
    rows = await approvals.decided(
        tx,
        call.actor.org,
        automation=AutomationId(query.automation_id) if query.automation_id else None,
        integration=IntegrationId(query.integration_id) if query.integration_id is not None else None,
        limit=query.limit + 1,
        after=_after(call),
    )
    page = rows[: query.limit]
    cursor = None
    if len(rows) > query.limit:
        last = page[-1].approval
        cursor = call.next_cursor([wire_time(last.expires_at), last.id])
    return PastApprovalsResponse([record(decided) for decided in page], cursor)


def _after(call: ApiCall) -> tuple[datetime, ApprovalId] | None:
    key = call.page_start()
    if not key:
        return None
    ends = read_time(str(key[0]))
    assert ends is not None
    return ends, ApprovalId(str(key[1]))


async def of_run(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/runs/{runId}/decisions` with who decided on the run's changes, by round."""
    org, run = call.actor.org, RunId(call.ids["run_id"])
    await runs.get(tx, org, run)
    rows = await approvals.decided_of_run(tx, org, run, limit=_ROUNDS_SHOWN)
    return RunDecisionsResponse([record(decided) for decided in rows])


OPERATIONS = (
    Operation(
        name="approvals.list_decided",
        method="GET",
        path="/app/approvals/decided",
        access=Access.APP,
        role=Role.MEMBER,
        query=PastApprovalsQuery,
        function=find,
        response=PastApprovalsResponse,
        summary="List decided approvals",
    ),
    Operation(
        name="runs.list_decisions",
        method="GET",
        path="/app/runs/{run_id}/decisions",
        access=Access.APP,
        role=Role.MEMBER,
        function=of_run,
        response=RunDecisionsResponse,
        summary="List the decisions on a run",
    ),
)
