"""The people and routes that were notified of an approval, for its page."""

from typing import Literal

import msgspec

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.database.engine.base import Tx
from steward.database.notifications import approval_notices
from steward.database.runs import approvals
from steward.model.account import Role
from steward.model.ids import ApprovalId
from steward.model.instants import wire_time_or_none


class NotifiedRouteRecord(msgspec.Struct):
    """A channel that was notified."""

    name: str
    channel: Literal["teams", "slack", "webhook"]


class ApprovalNoticesResponse(msgspec.Struct):
    """The receivers of messages about the approval, besides the bell of everybody who may decide."""

    people: int
    routes: list[NotifiedRouteRecord]
    told_at: str | None
    reminder_at: str | None


async def get(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/approvals/{approvalId}/notices`."""
    org, approval = call.actor.org, ApprovalId(call.ids["approval_id"])
    await approvals.get(tx, org, approval)
    receivers = await approval_notices.receivers(tx, org, approval)
    return ApprovalNoticesResponse(
        people=receivers.people,
        routes=[NotifiedRouteRecord(route.name, route.channel) for route in receivers.routes],
        told_at=wire_time_or_none(receivers.notified_at),
        reminder_at=wire_time_or_none(await approval_notices.reminder_at(tx, org, approval)),
    )


OPERATIONS = (
    Operation(
        name="approvals.list_notices",
        method="GET",
        path="/app/approvals/{approval_id}/notices",
        access=Access.APP,
        role=Role.MEMBER,
        function=get,
        response=ApprovalNoticesResponse,
        summary="Get who was notified of an approval",
    ),
)
