"""Retention of store events, their bodies and the recent changes of automations."""

from collections.abc import Collection
from datetime import datetime

from steward.database.engine.base import PerEngine, Tx
from steward.database.org_span import OrgSpan
from steward.model.ids import OrgId, first_id


async def events_past(tx: Tx, before: datetime, max_rows: int, orgs: OrgSpan) -> list[tuple[OrgId, str]]:
    """Returns the oldest events that arrived before an instant, of all organizations in the span."""
    rows = await tx.all(
        PerEngine(
            "SELECT o.org_id, e.id FROM dir_orgs AS o CROSS JOIN events AS e"
            " WHERE o.org_id BETWEEN :first_org AND :last_org AND e.org_id = +o.org_id AND e.id < :border"
            " ORDER BY o.org_id, e.id LIMIT :most",
            "SELECT org_id, id FROM queue_retain_events(:border, :most, :first_org, :last_org)",
        ),
        orgs.args(border=first_id(before), most=max_rows),
    )
    return [(OrgId(row["org_id"]), row["id"]) for row in rows]


async def bodies_past(tx: Tx, before: datetime, max_rows: int, orgs: OrgSpan) -> list[tuple[OrgId, str]]:
    """Returns such events that still have bodies; none on PostgreSQL, which drops bodies by month."""
    rows = await tx.all(
        PerEngine(
            "SELECT o.org_id, b.event_id AS id FROM dir_orgs AS o CROSS JOIN event_bodies AS b"
            " WHERE o.org_id BETWEEN :first_org AND :last_org AND b.org_id = +o.org_id"
            " AND b.event_id < :border LIMIT :most",
            "SELECT org_id, id FROM queue_retain_events(:border, 0, :first_org, :last_org)",
        ),
        orgs.args(border=first_id(before), most=max_rows),
    )
    return [(OrgId(row["org_id"]), row["id"]) for row in rows]


async def remove(tx: Tx, org: OrgId, events: Collection[str]) -> int:
    """Removes events and their bodies. Returns the number of events removed."""
    await remove_bodies(tx, org, events)
    return await tx.execute(
        "DELETE FROM events WHERE org_id = :org AND id IN (:events)", {"org": org, "events": list(events)}
    )


async def remove_bodies(tx: Tx, org: OrgId, events: Collection[str]) -> int:
    """Removes the bodies of events. Returns their number."""
    return await tx.execute(
        "DELETE FROM event_bodies WHERE org_id = :org AND event_id IN (:events)",
        {"org": org, "events": list(events)},
    )


async def with_own_changes(tx: Tx, before: datetime) -> list[OrgId]:
    """Returns the organizations with own changes made before an instant."""
    rows = await tx.all(
        PerEngine(
            "SELECT DISTINCT c.org_id FROM own_changes AS c WHERE c.applied_at < :before",
            "SELECT org_id FROM queue_retain_own_changes(:before)",
        ),
        {"before": before},
    )
    return [OrgId(row["org_id"]) for row in rows]


async def remove_own_changes(tx: Tx, org: OrgId, before: datetime) -> int:
    """Removes the own changes made before an instant. Returns their number."""
    return await tx.execute(
        "DELETE FROM own_changes WHERE org_id = :org AND applied_at < :before",
        {"org": org, "before": before},
    )


async def with_poison(tx: Tx) -> int:
    """Counts the events of all organizations that permanently failed to match."""
    row = await tx.first(
        PerEngine(
            "SELECT count(*) AS n FROM dir_orgs AS o CROSS JOIN events AS e"
            " WHERE e.org_id = o.org_id AND e.state = 'poison'",
            "SELECT queue_poisoned_events() AS n",
        )
    )
    return int(row["n"]) if row else 0
