"""Marks a route broken when its channel takes nothing any more, and tells the owners by other ways."""

from datetime import datetime, timedelta
from typing import Final

from steward.database.engine.base import Tx, ms
from steward.database.notifications import notices
from steward.database.notifications import routes as rows
from steward.model.ids import OrgId, RouteId
from steward.model.notice import Notice, Topic, facts_of
from steward.model.notification_route import NotificationRoute
from steward.notifications.channel import DeliveryOutcome, DeliveryResult

FAILURES_TO_BREAK: Final = 20
SILENCE_TO_BREAK: Final = timedelta(days=3)
_GONE = "The receiver says that it takes nothing any more (status 410)."


async def record_delivery(tx: Tx, org: OrgId, route: RouteId, outcome: DeliveryOutcome) -> None:
    """Notes one delivery of a route, in the transaction that stores what became of it.

    A route breaks after 410, after 20 messages in a row that were refused for good, or when no delivery was
    accepted for three days. A receiver that is only away for some hours breaks nothing: what it is sent is
    tried again.
    """
    if outcome.result is DeliveryResult.ACCEPTED:
        await rows.record_accepted(tx, org, route)
        return
    count = 1 if outcome.result is DeliveryResult.REFUSED else 0
    stored = await rows.record_failure(tx, org, route, count=count)
    reason = None if stored is None else _reason(stored, outcome, tx.now)
    if stored is None or reason is None or not await rows.mark_broken(tx, org, route, reason=reason):
        return
    notice = Notice(
        topic=Topic.ROUTE_BROKEN,
        dedupe=f"{Topic.ROUTE_BROKEN}|{route}|{ms(tx.now)}",
        facts=facts_of(route=stored.name, channel=str(stored.channel)),
        integration=stored.integration,
        route=route,
    )
    await notices.add(tx, org, notice)


def _reason(route: NotificationRoute, outcome: DeliveryOutcome, now: datetime) -> str | None:
    """Returns why the route is broken by this delivery; null when it is not."""
    if outcome.is_gone:
        return _GONE
    if route.failures >= FAILURES_TO_BREAK:
        return f"{FAILURES_TO_BREAK} messages in a row were refused. {outcome.error or ''}".strip()
    if now - (route.failing_since or now) >= SILENCE_TO_BREAK:
        return f"No message was accepted for 3 days. {outcome.error or ''}".strip()
    return None
