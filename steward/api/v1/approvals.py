"""Approvals over HTTP; a token can neither approve nor reject."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import Field

from steward.api.http.operation import ApiCall, Operation, Response
from steward.api.schema.fields import (
    CommaList,
    CommentText,
    IdText,
    PageQuery,
    Positive,
    QueryInt,
    RequestBody,
    Text,
    Unique,
)
from steward.api.schema.json_passthrough import ApprovalCounts, ApprovalWarning, Change, FollowingWire
from steward.api.schema.responses import (
    ApprovalKindStr,
    ApprovalStatusStr,
    Count,
    Cursor,
    Instant,
    Name,
    PositiveInt,
    Sha256,
    UlidStr,
)
from steward.api.v1.automation_records import current as current_automation
from steward.api.v1.run_records import RunRecord
from steward.api.v1.run_records import record as run_record
from steward.api.v1.runs import CHANGES_SHOWN
from steward.database.engine.base import Tx
from steward.database.runs import approvals, changes
from steward.model.account import Scope
from steward.model.approval import Approval, ApprovalStatus
from steward.model.ids import ApprovalId, AutomationId, ChangeId, IntegrationId
from steward.model.instants import read_time, wire_time, wire_time_or_none
from steward.model.limits import MAX_CHANGES
from steward.model.refusals import Forbidden, StaleVersion, WrongState
from steward.runs import approval as deciding
from steward.runs.approval import ApproveCommand, DecidedApproval, RejectCommand

_STALE_AFTER = timedelta(hours=1)


class ApprovalRecord(msgspec.Struct):
    """An approval; `changes` and `changes_total` only on get."""

    id: UlidStr
    run_id: UlidStr
    automation_id: UlidStr
    version: PositiveInt
    automation_name: Name
    store_label: str
    kind: ApprovalKindStr
    status: ApprovalStatusStr
    counts: ApprovalCounts
    warnings: list[ApprovalWarning]
    change_hash: Sha256
    created_at: Instant
    expires_at: Instant
    decided_at: Instant | None
    decided_by: PositiveInt | None
    comment: str | None
    follows: FollowingWire
    undo_of: UlidStr | None
    write_now: bool
    changes: list[Change] | UnsetType = UNSET
    changes_total: Count | UnsetType = UNSET


class ApprovalResponse(msgspec.Struct):
    """An approval."""

    approval: ApprovalRecord


class ApprovalsResponse(msgspec.Struct):
    """A page of approvals."""

    approvals: list[ApprovalRecord]
    next_cursor: Cursor | None


class DecidedResponse(msgspec.Struct):
    """The approval and its run after a decision."""

    approval: ApprovalRecord
    run: RunRecord


class ApprovalsQuery(PageQuery):
    """Query parameters: which approvals to list."""

    status: Annotated[list[ApprovalStatus], CommaList] = Field(
        default_factory=lambda: [ApprovalStatus.PENDING]
    )
    automation_id: IdText | None = None
    integration_id: QueryInt | None = None


class ApproveBody(RequestBody):
    """A decision to approve; changes named in `except` are left out."""

    version: Positive
    except_: Annotated[list[IdText], Field(max_length=MAX_CHANGES), Unique] = Field(
        default=[], alias="except"
    )
    change_hash: Text | None = None
    comment: CommentText | None = None
    write_now: bool = False


class RejectBody(RequestBody):
    """A decision to reject all."""

    version: Positive
    comment: CommentText | None = None


def record(approval: Approval, now: datetime) -> ApprovalRecord:
    """Builds the response; an approval that has waited for over an hour gets a warning."""
    warnings = list(approval.warnings)
    pending = approval.status is ApprovalStatus.PENDING
    if pending and now - approval.created_at > _STALE_AFTER:
        message = "These changes were computed over an hour ago. Objects changed since are left unchanged."
        warnings.append({"code": "stale_over_1h", "message": message})
    return ApprovalRecord(
        id=approval.id,
        run_id=approval.run_id,
        automation_id=approval.automation_id,
        version=approval.version,
        automation_name=approval.automation_name,
        store_label=approval.store_label,
        kind=approval.kind,
        status=approval.status,
        counts=approval.counts,
        warnings=warnings,
        change_hash=approval.change_hash,
        created_at=wire_time(approval.created_at),
        expires_at=wire_time(approval.expires_at),
        decided_at=wire_time_or_none(approval.decided_at),
        decided_by=approval.decided_by,
        comment=approval.comment,
        follows=approval.follows.wire(),
        undo_of=approval.undo_of,
        write_now=approval.write_now,
    )


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/approvals` with the approvals, the first to expire first."""
    query: ApprovalsQuery = call.query
    key = call.page_start()
    after = None
    if key:
        ends = read_time(str(key[0]))
        assert ends is not None
        after = (ends, ApprovalId(str(key[1])))
    rows = await approvals.find(
        tx,
        call.actor.org,
        statuses=query.status,
        automation=AutomationId(query.automation_id) if query.automation_id else None,
        integration=IntegrationId(query.integration_id) if query.integration_id is not None else None,
        limit=query.limit + 1,
        after=after,
    )
    page = rows[: query.limit]
    more = len(rows) > query.limit
    cursor = call.next_cursor([wire_time(page[-1].expires_at), page[-1].id]) if more else None
    return ApprovalsResponse([record(approval, tx.now) for approval in page], cursor)


async def get(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/approvals/{approvalId}` with the approval and its first 50 changes."""
    approval = await approvals.get(tx, call.actor.org, ApprovalId(call.ids["approval_id"]))
    response = record(approval, tx.now)
    first_changes = await changes.public_changes(
        tx, call.actor.org, approval.run_id, round_=approval.round, limit=CHANGES_SHOWN
    )
    response.changes = [msgspec.Raw(change.wire.encode("utf-8")) for change in first_changes]
    total = approval.counts["total"]
    response.changes_total = total if isinstance(total, int) else len(first_changes)
    return ApprovalResponse(response)


async def approve(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/approvals/{approvalId}/approve`.

    Approves exactly these changes, without those in `except`.
    """
    body: ApproveBody = call.body
    command = ApproveCommand(
        approval=ApprovalId(call.ids["approval_id"]),
        version=body.version,
        except_=[ChangeId(change) for change in body.except_],
        change_hash=body.change_hash,
        comment=body.comment or None,
        write_now=body.write_now,
    )
    rules = call.context.rules
    decided = await deciding.approve(tx, call.actor, command, not_starter=rules.approver_not_starter)
    return _decided(decided, tx.now)


async def reject(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /v1/automations/approvals/{approvalId}/reject`. Ends the run without a change."""
    body: RejectBody = call.body
    command = RejectCommand(ApprovalId(call.ids["approval_id"]), body.version, body.comment or None)
    rules = call.context.rules
    decided = await deciding.reject(tx, call.actor, command, not_starter=rules.approver_not_starter)
    return _decided(decided, tx.now)


def _decided(decided: DecidedApproval, now: datetime) -> DecidedResponse:
    return DecidedResponse(record(decided.approval, now), run_record(decided.run))


def current(call: ApiCall, data: Mapping[str, object]) -> Mapping[str, object]:
    """Returns the current records, for a StaleVersion refusal: `{occurrence: null, automation, approval}`."""
    approval = data.get("approval")
    assert isinstance(approval, Approval)
    return {**current_automation(call, data), "approval": record(approval, call.context.clock.now())}


OPERATIONS = (
    Operation(
        name="approvals.list",
        method="GET",
        path="/v1/automations/approvals",
        scope=Scope.READ,
        function=find,
        query=ApprovalsQuery,
        response=ApprovalsResponse,
        summary="List approvals",
    ),
    Operation(
        name="approvals.get",
        method="GET",
        path="/v1/automations/approvals/{approval_id}",
        scope=Scope.READ,
        function=get,
        response=ApprovalResponse,
        summary="Get approval",
    ),
    Operation(
        name="approvals.approve",
        method="POST",
        path="/v1/automations/approvals/{approval_id}/approve",
        scope=Scope.APPROVE,
        function=approve,
        body=ApproveBody,
        response=DecidedResponse,
        summary="Approve",
        refusals=(StaleVersion, WrongState, Forbidden),
        writes=True,
        wakes=("ready",),
        current=current,
    ),
    Operation(
        name="approvals.reject",
        method="POST",
        path="/v1/automations/approvals/{approval_id}/reject",
        scope=Scope.APPROVE,
        function=reject,
        body=RejectBody,
        response=DecidedResponse,
        summary="Reject",
        refusals=(StaleVersion, WrongState, Forbidden),
        writes=True,
        wakes=("ready",),
        current=current,
    ),
)
