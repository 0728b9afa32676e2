"""Routes of notices: their rows, the results of deliveries, and their messages."""

import json
from collections.abc import Collection
from datetime import datetime, timedelta

from steward.database.engine.base import Json, Row, Tx, from_ms, from_ms_or_none
from steward.database.notifications import messages
from steward.model.ids import AutomationId, IntegrationId, MessageId, OrgId, PersonId, RouteId, first_id
from steward.model.notice import ChannelName, MessageKind, MessageState, Topic
from steward.model.notification_route import (
    NotificationRoute,
    RouteDelivery,
    RouteFilter,
    RouteState,
    SealedWebhook,
)

_DELIVERIES_FOR = timedelta(days=30)
_COLUMNS = (
    "org_id, id, name, channel, integration_id, target, url, secret, old_secret, old_secret_until, key_no,"
    " topics, automation_ids, integration_ids, state, reason, failures, failing_since, last_accepted_at,"
    " created_at, created_by"
)


async def every(tx: Tx, org: OrgId) -> list[NotificationRoute]:
    """Returns the organization's routes, oldest first."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM notification_routes WHERE org_id = :org ORDER BY id", {"org": org}
    )
    return [_route(row) for row in rows]


async def sealed_under_others(tx: Tx, org: OrgId, number: int) -> list[RouteId]:
    """Returns the webhooks whose address and secrets are sealed under a data key other than `number`."""
    rows = await tx.all(
        "SELECT id FROM notification_routes WHERE org_id = :org AND key_no <> :number ORDER BY id",
        {"org": org, "number": number},
    )
    return [RouteId(row["id"]) for row in rows]


async def get(tx: Tx, org: OrgId, route: RouteId) -> NotificationRoute | None:
    """Returns a route, or null."""
    row = await tx.first(
        f"SELECT {_COLUMNS} FROM notification_routes WHERE org_id = :org AND id = :route",
        {"org": org, "route": route},
    )
    return None if row is None else _route(row)


async def lock(tx: Tx, org: OrgId, route: RouteId) -> NotificationRoute | None:
    """Locks a route and returns it; None if it does not exist."""
    row = await tx.first(
        f"SELECT {_COLUMNS} FROM notification_routes WHERE org_id = :org AND id = :route {{for_update}}",
        {"org": org, "route": route},
    )
    return None if row is None else _route(row)


async def insert(tx: Tx, org: OrgId, route: NotificationRoute) -> None:
    """Stores a new route."""
    await tx.execute(
        "INSERT INTO notification_routes (org_id, id, name, channel, integration_id, target, url, secret,"
        " old_secret, old_secret_until, key_no, topics, automation_ids, integration_ids, state, created_at,"
        " created_by) VALUES (:org, :id, :name, :channel, :integration, :target, :url, :secret, :old_secret,"
        " :old_until, :key_no, :topics, :automations, :integrations, 'ok', :now, :person)",
        {**_content(org, route), "channel": route.channel, "person": route.created_by},
    )


async def update(tx: Tx, org: OrgId, route: NotificationRoute) -> None:
    """Stores the fields of a route that people can change, and its sealed webhook."""
    await tx.execute(
        "UPDATE notification_routes SET name = :name, integration_id = :integration, target = :target,"
        " url = :url, secret = :secret, old_secret = :old_secret, old_secret_until = :old_until,"
        " key_no = :key_no, topics = :topics, automation_ids = :automations, integration_ids = :integrations"
        " WHERE org_id = :org AND id = :id",
        _content(org, route),
    )


async def delete(tx: Tx, org: OrgId, route: RouteId) -> int:
    """Deletes a route and makes its unfinished messages obsolete. Returns the number of routes deleted."""
    await messages.end_of_route(tx, org, route, state=MessageState.OBSOLETE, error=None)
    return await tx.execute(
        "DELETE FROM notification_routes WHERE org_id = :org AND id = :route", {"org": org, "route": route}
    )


async def record_accepted(tx: Tx, org: OrgId, route: RouteId) -> None:
    """Records an accepted delivery, which resets the failures; erases a former secret that has expired."""
    await tx.execute(
        "UPDATE notification_routes SET failures = 0, failing_since = NULL, last_accepted_at = :now,"
        " old_secret = CASE WHEN old_secret_until > :now THEN old_secret END,"
        " old_secret_until = CASE WHEN old_secret_until > :now THEN old_secret_until END"
        " WHERE org_id = :org AND id = :route",
        {"org": org, "route": route},
    )


async def record_failure(tx: Tx, org: OrgId, route: RouteId, *, count: int) -> NotificationRoute | None:
    """Records a delivery that was not accepted; returns None when the route was deleted or is broken."""
    row = await tx.first(
        "UPDATE notification_routes SET failures = failures + :count,"
        " failing_since = COALESCE(failing_since, :now)"
        f" WHERE org_id = :org AND id = :route AND state = 'ok' RETURNING {_COLUMNS}",
        {"org": org, "route": route, "count": count},
    )
    return None if row is None else _route(row)


async def mark_broken(tx: Tx, org: OrgId, route: RouteId, *, reason: str) -> bool:
    """Marks a route broken and expires its waiting messages; returns False when it was broken already."""
    marked = await tx.execute(
        "UPDATE notification_routes SET state = 'broken', reason = :reason, broken_at = :now"
        " WHERE org_id = :org AND id = :route AND state = 'ok'",
        {"org": org, "route": route, "reason": reason[:300]},
    )
    if marked:
        error = f"The route is broken: {reason}"[:300]
        await messages.end_of_route(tx, org, route, state=MessageState.EXPIRED, error=error)
    return marked == 1


async def mark_working(tx: Tx, org: OrgId, route: RouteId) -> None:
    """Ends the broken state of a route."""
    await tx.execute(
        "UPDATE notification_routes SET state = 'ok', reason = NULL, broken_at = NULL, failures = 0,"
        " failing_since = NULL WHERE org_id = :org AND id = :route",
        {"org": org, "route": route},
    )


async def record_test(
    tx: Tx,
    route: NotificationRoute,
    *,
    message: MessageId,
    status: int | None,
    error: str | None,
    is_accepted: bool,
) -> None:
    """Adds a test to the route's deliveries."""
    await tx.execute(
        "INSERT INTO messages (org_id, id, route_id, channel, kind, state, created_at, due_at, closed_at,"
        " attempt, count, last_status, error, sent_at) VALUES (:org, :id, :route, :channel, :kind, :state,"
        " :now, :now, :now, 1, 1, :status, :error, :sent_at)",
        {
            "org": route.org,
            "id": message,
            "route": route.id,
            "channel": route.channel,
            "kind": MessageKind.TEST,
            "state": MessageState.SENT if is_accepted else MessageState.REFUSED,
            "status": status,
            "error": None if error is None else error[:300],
            "sent_at": tx.now if is_accepted else None,
        },
    )


async def tests_since(tx: Tx, org: OrgId, since: datetime) -> int:
    """Counts the tests that the organization sent since an instant."""
    row = await tx.first(
        "SELECT count(*) AS n FROM messages WHERE org_id = :org AND id >= :border AND kind = 'test'",
        {"org": org, "border": first_id(since)},
    )
    return 0 if row is None else int(row["n"])


async def deliveries(
    tx: Tx, route: NotificationRoute, *, before: tuple[datetime, MessageId] | None, limit: int
) -> list[RouteDelivery]:
    """Returns the route's closed messages of 30 days, newest first, those after the key `before`."""
    rows = await tx.all(
        "SELECT m.id, m.kind, m.count, m.state, m.attempt, m.last_status, m.error, m.closed_at,"
        " (SELECT min(n.topic) FROM message_notices AS l JOIN notices AS n"
        "   ON n.org_id = l.org_id AND n.id = l.notice_id WHERE l.org_id = m.org_id AND l.message_id = m.id)"
        " AS first_topic,"
        " (SELECT max(n.topic) FROM message_notices AS l JOIN notices AS n"
        "   ON n.org_id = l.org_id AND n.id = l.notice_id WHERE l.org_id = m.org_id AND l.message_id = m.id)"
        " AS last_topic"
        " FROM messages AS m WHERE m.org_id = :org AND m.person_id = 0 AND m.route_id = :route"
        " AND m.channel = :channel AND m.closed_at >= :since AND m.closed_at <= :before_at"
        " AND (m.closed_at < :before_at OR m.id < :before_id)"
        " ORDER BY m.closed_at DESC, m.id DESC LIMIT :most",
        {
            "org": route.org,
            "route": route.id,
            "channel": route.channel,
            "since": tx.now - _DELIVERIES_FOR,
            "before_at": tx.now if before is None else before[0],
            "before_id": "~" if before is None else before[1],
            "most": limit,
        },
    )
    return [_delivery(row) for row in rows]


async def send_again(
    tx: Tx, org: OrgId, route: RouteId, message: MessageId, *, expires_at: datetime
) -> MessageState | None:
    """Makes a finished message due again under its id.

    Returns its earlier state; None when the route has no such message. An unfinished message, or a test,
    stays unchanged.
    """
    row = await tx.first(
        "SELECT state, kind FROM messages WHERE org_id = :org AND id = :id AND route_id = :route"
        " AND person_id = 0 {for_update}",
        {"org": org, "id": message, "route": route},
    )
    if row is None:
        return None
    await tx.execute(
        "UPDATE messages SET state = 'due', due_at = :now, next_try_at = :now, expires_at = :expires_at,"
        " sent_at = NULL, error = NULL"
        " WHERE org_id = :org AND id = :id AND kind <> 'test' AND state IN ('sent', 'refused', 'expired')",
        {"org": org, "id": message, "expires_at": expires_at},
    )
    return MessageState(row["state"]) if row["kind"] != MessageKind.TEST else MessageState.OBSOLETE


def _content(org: OrgId, route: NotificationRoute) -> dict[str, object]:
    webhook, chosen = route.webhook, route.filter
    return {
        "org": org,
        "id": route.id,
        "name": route.name,
        "integration": route.integration,
        "target": route.target,
        "url": webhook.url if webhook else None,
        "secret": webhook.secret if webhook else None,
        "old_secret": webhook.old_secret if webhook else None,
        "old_until": webhook.old_secret_until if webhook else None,
        "key_no": webhook.key_no if webhook else None,
        "topics": Json(sorted(chosen.topics)),
        "automations": _ids(chosen.automations),
        "integrations": _ids(chosen.integrations),
    }


def _ids(ids: Collection[AutomationId] | Collection[IntegrationId] | None) -> Json | None:
    return None if ids is None else Json([*sorted(ids)])


def _route(row: Row) -> NotificationRoute:
    automations, integrations = row["automation_ids"], row["integration_ids"]
    return NotificationRoute(
        org=OrgId(row["org_id"]),
        id=RouteId(row["id"]),
        name=row["name"],
        channel=ChannelName(row["channel"]),
        filter=RouteFilter(
            topics=frozenset(Topic(topic) for topic in json.loads(row["topics"])),
            automations=None if automations is None else frozenset(json.loads(automations)),
            integrations=None if integrations is None else frozenset(json.loads(integrations)),
        ),
        integration=None if row["integration_id"] is None else IntegrationId(row["integration_id"]),
        target=row["target"],
        webhook=_webhook(row),
        state=RouteState(row["state"]),
        reason=row["reason"],
        failures=row["failures"],
        failing_since=from_ms_or_none(row["failing_since"]),
        last_accepted_at=from_ms_or_none(row["last_accepted_at"]),
        created_at=from_ms(row["created_at"]),
        created_by=None if row["created_by"] is None else PersonId(row["created_by"]),
    )


def _webhook(row: Row) -> SealedWebhook | None:
    if row["url"] is None:
        return None
    old = row["old_secret"]
    return SealedWebhook(
        row["key_no"],
        bytes(row["url"]),
        bytes(row["secret"]),
        None if old is None else bytes(old),
        from_ms_or_none(row["old_secret_until"]),
    )


def _delivery(row: Row) -> RouteDelivery:
    is_single = row["first_topic"] is not None and row["first_topic"] == row["last_topic"]
    return RouteDelivery(
        MessageId(row["id"]),
        Topic(row["first_topic"]) if is_single else None,
        row["kind"] == MessageKind.TEST,
        row["count"],
        MessageState(row["state"]),
        row["attempt"],
        row["last_status"],
        row["error"],
        from_ms(row["closed_at"]),
    )
