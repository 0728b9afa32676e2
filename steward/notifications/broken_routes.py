"""Marks a route as broken when its deliveries keep failing, and adds a notice for the owners."""

from datetime import datetime, timedelta
from typing import Final

from steward.database.engine.base import Tx, ms
from steward.database.notifications import notices
from steward.database.notifications import routes as rows
from steward.model.ids import OrgId, RouteId
from steward.model.notice import Notice, Topic, facts_of
from steward.model.notification_route import NotificationRoute
from steward.notifications.channel import DeliveryOutcome, DeliveryResult

_FAILURES_TO_BREAK: Final = 20
_SILENCE_TO_BREAK: Final = timedelta(days=3)
_GONE = "The receiver no longer accepts messages (status 410)."


async def record_delivery(tx: Tx, org: OrgId, route: RouteId, outcome: DeliveryOutcome) -> bool:
    """Records the outcome of a delivery to a route and returns whether it breaks the route.

    A route is broken after a 410, after 20 permanent refusals in a row, or once deliveries have failed for
    three days. A receiver that is away for some hours does not break it, since its messages are retried.
    """
    if outcome.result is DeliveryResult.ACCEPTED:
        await rows.record_accepted(tx, org, route)
        return False
    count = 1 if outcome.result is DeliveryResult.REFUSED else 0
    stored = await rows.record_failure(tx, org, route, count=count)
    reason = None if stored is None else _reason(stored, outcome, tx.now)
    if stored is None or reason is None or not await rows.mark_broken(tx, org, route, reason=reason):
        return False
    notice = Notice(
        topic=Topic.ROUTE_BROKEN,
        dedupe=f"{Topic.ROUTE_BROKEN}|{route}|{ms(tx.now)}",
        facts=facts_of(route=stored.name, channel=str(stored.channel)),
        integration=stored.integration,
        route=route,
    )
    await notices.add(tx, org, notice)
    return True


def _reason(route: NotificationRoute, outcome: DeliveryOutcome, now: datetime) -> str | None:
    """Returns why the route is broken after this delivery, or None if it is not."""
    if outcome.is_gone:
        return _GONE
    if route.failures >= _FAILURES_TO_BREAK:
        return f"{_FAILURES_TO_BREAK} messages in a row were refused. {outcome.error or ''}".strip()
    if now - (route.failing_since or now) >= _SILENCE_TO_BREAK:
        return f"No message was accepted for 3 days. {outcome.error or ''}".strip()
    return None
