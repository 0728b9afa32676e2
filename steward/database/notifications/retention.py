"""Removes expired notices, messages and inbox entries, a limited number at a time."""

from collections.abc import Sequence
from datetime import datetime

from steward.database.engine.base import PerEngine, Tx
from steward.database.org_span import OrgSpan
from steward.model.ids import OrgId, PersonId, first_id


async def notices_past(tx: Tx, before: datetime, max_rows: int, orgs: OrgSpan) -> list[tuple[OrgId, str]]:
    """Returns the oldest notices made before an instant, of all organizations in the span."""
    rows = await tx.all(
        PerEngine(
            "SELECT o.org_id, n.id FROM dir_orgs AS o CROSS JOIN notices AS n"
            " WHERE o.org_id BETWEEN :first_org AND :last_org AND n.org_id = +o.org_id AND n.id < :border"
            " ORDER BY o.org_id, n.id LIMIT :most",
            "SELECT org_id, id FROM queue_retain_notices(:border, :most, :first_org, :last_org)",
        ),
        orgs.args(border=first_id(before), most=max_rows),
    )
    return [(OrgId(row["org_id"]), row["id"]) for row in rows]


async def remove_notices(tx: Tx, org: OrgId, keys: Sequence[str]) -> int:
    """Removes notices. Returns their number."""
    return await tx.execute(
        "DELETE FROM notices WHERE org_id = :org AND id IN (:keys)", {"org": org, "keys": list(keys)}
    )


async def messages_past(tx: Tx, before: datetime, max_rows: int, orgs: OrgSpan) -> list[tuple[OrgId, str]]:
    """Returns the oldest ended messages made before an instant, of all organizations in the span."""
    rows = await tx.all(
        PerEngine(
            "SELECT o.org_id, m.id FROM dir_orgs AS o CROSS JOIN messages AS m"
            " WHERE o.org_id BETWEEN :first_org AND :last_org AND m.org_id = +o.org_id AND m.id < :border"
            " AND m.next_try_at IS NULL"
            " ORDER BY o.org_id, m.id LIMIT :most",
            "SELECT org_id, id FROM queue_retain_messages(:border, :most, :first_org, :last_org)",
        ),
        orgs.args(border=first_id(before), most=max_rows),
    )
    return [(OrgId(row["org_id"]), row["id"]) for row in rows]


async def remove_messages(tx: Tx, org: OrgId, keys: Sequence[str]) -> int:
    """Removes ended messages with their lists of notices. Returns their number."""
    return await tx.execute(
        "DELETE FROM messages WHERE org_id = :org AND id IN (:keys) AND next_try_at IS NULL",
        {"org": org, "keys": list(keys)},
    )


async def inbox_past(tx: Tx, before: datetime, max_rows: int) -> list[tuple[OrgId, PersonId, str]]:
    """Returns inbox entries to which nothing was added since an instant, of all organizations."""
    rows = await tx.all(
        PerEngine(
            "SELECT i.org_id, i.person_id, i.id FROM inbox AS i WHERE i.last_at < :before"
            " ORDER BY i.last_at LIMIT :most",
            "SELECT org_id, person_id, id FROM queue_retain_inbox(:before, :most)",
        ),
        {"before": before, "most": max_rows},
    )
    return [(OrgId(row["org_id"]), PersonId(row["person_id"]), row["id"]) for row in rows]


async def remove_entry(tx: Tx, org: OrgId, person: PersonId, entry: str) -> int:
    """Removes an entry of a person's inbox."""
    return await tx.execute(
        "DELETE FROM inbox WHERE org_id = :org AND person_id = :person AND id = :entry",
        {"org": org, "person": person, "entry": entry},
    )
