"""The inbox: what the fan-out adds to each person's list."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Json, Tx
from steward.model.ids import OrgId, PersonId, new_id
from steward.model.notice import StoredNotice

_ADD = (
    "INSERT INTO inbox AS i (org_id, person_id, id, group_key, topic, automation_id, run_id, approval_id,"
    " integration_id, route_id, count, automations, facts, first_at, last_at, read_at)"
    " VALUES (:org, :person, :id, :group, :topic, :automation, :run, :approval, :integration, :route, :count,"
    " :automations, :facts, :first, :last, :read_at)"
)
_MERGE = (
    " ON CONFLICT (org_id, person_id, group_key) WHERE read_at IS NULL DO UPDATE SET"
    " count = i.count + excluded.count, last_at = excluded.last_at, facts = excluded.facts,"
    " run_id = excluded.run_id, approval_id = excluded.approval_id,"
    " automations = CASE WHEN i.automations < excluded.automations THEN excluded.automations"
    " ELSE i.automations END"
)


@dataclass(frozen=True, slots=True)
class InboxGroup:
    """Notices of one group for the inbox: the newest stands for all of them.

    `automations` says of how many automations they are.
    """

    key: str
    newest: StoredNotice
    count: int
    automations: int
    first_at: datetime


async def add(tx: Tx, org: OrgId, person: PersonId, group: InboxGroup, *, read: bool) -> None:
    """Adds a group to a person's list: to its unread row, or as a new one; `read` for what is muted."""
    notice = group.newest.notice
    is_one = group.automations == 1
    await tx.execute(
        _ADD if read else _ADD + _MERGE,
        {
            "org": org,
            "person": person,
            "id": new_id(tx.now),
            "group": group.key,
            "topic": notice.topic,
            "automation": notice.automation if is_one else None,
            "run": notice.run if is_one else None,
            "approval": notice.approval if is_one else None,
            "integration": notice.integration,
            "route": notice.route,
            "count": group.count,
            "automations": group.automations,
            "facts": Json(notice.facts),
            "first": group.first_at,
            "last": group.newest.created_at,
            "read_at": tx.now if read else None,
        },
    )
