"""Tests a route by delivering one message at once; returns and lists the outcome."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from steward.clock import Clock
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import routes as rows
from steward.model.account import Actor
from steward.model.ids import MessageId, OrgId, RouteId, new_id
from steward.model.notice import MessageKind, NoticeMessage
from steward.model.notification_route import NotificationRoute
from steward.model.refusals import NotFound, RateLimited
from steward.notifications.channel import Channels, DeliveryOutcome, DeliveryResult

_TESTS_PER_HOUR: Final = 10
_TEST_S: Final = 19.0
_HOUR = timedelta(hours=1)
_ACCEPTED = "The test message was accepted."


@dataclass(frozen=True, slots=True)
class RouteTest:
    """The outcome of a test."""

    route: NotificationRoute
    message: MessageId
    outcome: DeliveryOutcome

    @property
    def is_accepted(self) -> bool:
        """Whether the receiver accepted the message."""
        return self.outcome.result is DeliveryResult.ACCEPTED

    @property
    def words(self) -> str:
        """The outcome in words, for the person who tests the route."""
        return _ACCEPTED if self.is_accepted else self.outcome.error or "The test message was not accepted."


async def send_test(
    engine: Engine, clock: Clock, channels: Channels, org: OrgId, route: RouteId
) -> RouteTest:
    """Delivers a test message within 19 seconds, without an open transaction.

    Raises NotFound, and RateLimited after ten tests of the organization in an hour.
    """
    now = clock.now()
    stored = await engine.read(now, partial(_check, org=org, route=route), org=org)
    message_id = MessageId(new_id(now))
    message = NoticeMessage(org, message_id, stored.channel, MessageKind.TEST, None, route, now, 1, 1, {}, ())
    try:
        async with asyncio.timeout(_TEST_S):
            outcome = await channels[stored.channel].deliver(message)
    except TimeoutError:
        words = "The receiver did not answer in time."
        outcome = DeliveryOutcome(DeliveryResult.TRY_AGAIN, error=words)
    return RouteTest(stored, message_id, outcome)


async def record_test(tx: Tx, actor: Actor, test: RouteTest, *, ends_broken: bool) -> None:
    """Adds a test to the list of deliveries; with `ends_broken`, an accepted test repairs a broken route."""
    route = test.route
    if test.is_accepted:
        if ends_broken:
            await rows.mark_working(tx, actor.org, route.id)
        await rows.record_accepted(tx, actor.org, route.id)
    await rows.record_test(
        tx,
        route,
        message=test.message,
        status=test.outcome.status,
        error=test.outcome.error,
        is_accepted=test.is_accepted,
    )


async def _check(tx: Tx, *, org: OrgId, route: RouteId) -> NotificationRoute:
    stored = await rows.get(tx, org, route)
    if stored is None:
        raise NotFound
    if await rows.tests_since(tx, org, tx.now - _HOUR) >= _TESTS_PER_HOUR:
        message = f"{_TESTS_PER_HOUR} test messages were sent within the last hour. Try again later."
        raise RateLimited(message, retry_after=int(_HOUR.total_seconds()))
    return stored
