"""A person's inbox as the app reads it: pages, the unread count, and marking as read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Row, Tx, from_ms, ms
from steward.model.ids import OrgId, PersonId
from steward.model.json import JsonObject

# The highest number that the bell shows; counting further would cost more with every unread row.
MAX_UNREAD = 1000

_COLUMNS = (
    "id, topic, automation_id, run_id, approval_id, integration_id, route_id, count, automations, facts,"
    " first_at, last_at, read_at"
)


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A row of an inbox: `count` notices of one topic, from this number of `automations`."""

    id: str
    topic: str
    automation_id: str | None
    run_id: str | None
    approval_id: str | None
    integration_id: int | None
    route_id: str | None
    count: int
    automations: int
    facts: JsonObject
    first_at: datetime
    last_at: datetime
    is_read: bool


async def find(
    tx: Tx, org: OrgId, person: PersonId, *, unread: bool, after: tuple[int, str] | None, limit: int
) -> list[InboxRow]:
    """Returns a page of rows by their last notice, newest first, those after the key `after`."""
    args: dict[str, object] = {"org": org, "person": person, "limit": limit}
    where = " AND read_at IS NULL" if unread else ""
    if after is not None:
        where += " AND (last_at, id) < (:last_at, :last_id)"
        args |= {"last_at": after[0], "last_id": after[1]}
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM inbox WHERE org_id = :org AND person_id = :person{where}"
        " ORDER BY last_at DESC, id DESC LIMIT :limit",
        args,
    )
    return [_line(row) for row in rows]


async def count_unread(tx: Tx, org: OrgId, person: PersonId) -> int:
    """Counts the unread rows, up to MAX_UNREAD."""
    row = await tx.first(
        "SELECT count(*) AS unread FROM (SELECT 1 FROM inbox WHERE org_id = :org AND person_id = :person"
        " AND read_at IS NULL LIMIT :most) AS counted",
        {"org": org, "person": person, "most": MAX_UNREAD},
    )
    return int(row["unread"]) if row else 0


async def mark_read(tx: Tx, org: OrgId, person: PersonId, ids: Sequence[str]) -> None:
    """Marks these rows as read; ignores ids of other people's rows."""
    await tx.execute(
        "UPDATE inbox SET read_at = :now WHERE org_id = :org AND person_id = :person AND id IN (:ids)"
        " AND read_at IS NULL",
        {"org": org, "person": person, "ids": list(ids)},
    )


async def mark_read_until(tx: Tx, org: OrgId, person: PersonId, until: datetime) -> None:
    """Marks as read every row whose last notice is not newer than `until`."""
    await tx.execute(
        "UPDATE inbox SET read_at = :now WHERE org_id = :org AND person_id = :person AND read_at IS NULL"
        " AND last_at <= :until",
        {"org": org, "person": person, "until": ms(until)},
    )


async def mark_automations_read(tx: Tx, org: OrgId, person: PersonId, automations: Sequence[str]) -> None:
    """Marks as read the person's notices of automations that they have muted."""
    await tx.execute(
        "UPDATE inbox SET read_at = :now WHERE org_id = :org AND person_id = :person AND read_at IS NULL"
        " AND automation_id IN (:automations)",
        {"org": org, "person": person, "automations": list(automations)},
    )


def _line(row: Row) -> InboxRow:
    return InboxRow(
        id=row["id"],
        topic=row["topic"],
        automation_id=row["automation_id"],
        run_id=row["run_id"],
        approval_id=row["approval_id"],
        integration_id=row["integration_id"],
        route_id=row["route_id"],
        count=row["count"],
        automations=row["automations"],
        facts=json.loads(row["facts"]),
        first_at=from_ms(row["first_at"]),
        last_at=from_ms(row["last_at"]),
        is_read=row["read_at"] is not None,
    )
