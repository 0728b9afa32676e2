"""Reads who was notified of a waiting approval."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from steward.database.engine.base import Tx, from_ms_or_none
from steward.model.ids import ApprovalId, OrgId
from steward.model.notice import Topic


@dataclass(frozen=True, slots=True)
class NotifiedRoute:
    """A route that received a message."""

    name: str
    channel: Literal["teams", "slack", "webhook"]


@dataclass(frozen=True, slots=True)
class ApprovalReceivers:
    """The number of notified people, the routes, and when the first message was accepted."""

    people: int
    routes: Sequence[NotifiedRoute]
    notified_at: datetime | None


async def receivers(tx: Tx, org: OrgId, approval: ApprovalId) -> ApprovalReceivers:
    """Returns the receivers of messages about a waiting approval, except refused or abandoned ones."""
    rows = await tx.all(
        "SELECT m.person_id, m.route_id, m.sent_at, r.name, r.channel FROM notices AS n"
        " JOIN message_notices AS c ON c.org_id = n.org_id AND c.notice_id = n.id"
        " JOIN messages AS m ON m.org_id = c.org_id AND m.id = c.message_id"
        " LEFT JOIN notification_routes AS r ON r.org_id = m.org_id AND r.id = m.route_id"
        " WHERE n.org_id = :org AND n.dedupe = :dedupe"
        " AND m.state IN ('collecting', 'due', 'sending', 'sent') ORDER BY r.name",
        {"org": org, "dedupe": f"{Topic.APPROVAL_WAITING}|{approval}"},
    )
    routes = dict.fromkeys(NotifiedRoute(row["name"], row["channel"]) for row in rows if row["name"])
    sent = [row["sent_at"] for row in rows if row["sent_at"] is not None]
    people = {row["person_id"] for row in rows if row["person_id"]}
    return ApprovalReceivers(len(people), tuple(routes), from_ms_or_none(min(sent, default=None)))


async def reminder_at(tx: Tx, org: OrgId, approval: ApprovalId) -> datetime | None:
    """Returns when people are next reminded that the approval expires; None once it is decided."""
    row = await tx.first(
        "SELECT warn_at FROM approvals WHERE org_id = :org AND id = :approval",
        {"org": org, "approval": approval},
    )
    return None if row is None else from_ms_or_none(row["warn_at"])
