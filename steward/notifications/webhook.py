"""The signed webhook: a small JSON body, Standard Webhooks headers, and outcomes from responses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import msgspec

from steward.clock import Clock
from steward.connections.vault import Vault
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import routes as rows
from steward.model.ids import RouteId
from steward.model.instants import wire_time
from steward.model.json import JsonObject, JsonValue
from steward.model.notice import MessageKind, Notice, NoticeMessage, Topic
from steward.notifications.cards import ROUTES_PAGE, page_of
from steward.notifications.channel import DeliveryOutcome, DeliveryResult
from steward.notifications.routes import OpenedWebhook, open_webhook
from steward.outbound.errors import CallError, CallRefused
from steward.outbound.notice import webhook_endpoint
from steward.outbound.rate_limiter import retry_after
from steward.outbound.response import PlatformResponse
from steward.security.envelope import CannotOpen
from steward.security.webhooks import webhook_headers

LONGEST_RETRY_AFTER = timedelta(hours=1)
TEST_TYPE = "notification.test"
GROUPED_TYPE = "notices.grouped"
_TRIED_AGAIN = frozenset({408, 425, 429})
_GONE = 410


def wire_type(topic: Topic) -> str:
    """Returns a topic in the form of a delivery's `type`: `approval_waiting` becomes `approval.waiting`."""
    return topic.replace("_", ".", 1)


def webhook_body(message: NoticeMessage, web_origin: str) -> bytes:
    """Returns the body of a delivery; equal messages have equal bytes."""
    if message.kind is MessageKind.TEST:
        body = _body(TEST_TYPE, message, _data(message, None, f"{web_origin}{ROUTES_PAGE}"))
    elif len(message.notices) == 1:
        [stored] = message.notices
        notice = stored.notice
        data = _data(message, notice, f"{web_origin}{page_of(message)}")
        body = {**_body(wire_type(notice.topic), message, data), "timestamp": wire_time(stored.created_at)}
    else:
        data = {**_data(message, None, f"{web_origin}{page_of(message)}"), **_summary(message)}
        body = _body(GROUPED_TYPE, message, data)
    return msgspec.json.encode(body)


def _body(name: str, message: NoticeMessage, data: JsonObject) -> dict[str, JsonValue]:
    return {"type": name, "timestamp": wire_time(message.closed_at), "data": data}


def _data(message: NoticeMessage, notice: Notice | None, url: str) -> dict[str, JsonValue]:
    return {
        "organization_id": message.org,
        "count": notice.count if notice else message.count,
        "automation_id": notice.automation if notice else None,
        "run_id": notice.run if notice else None,
        "approval_id": notice.approval if notice else None,
        "integration_id": notice.integration if notice else None,
        "code": notice.facts.get("code") if notice else None,
        "url": url,
    }


def _summary(message: NoticeMessage) -> dict[str, JsonValue]:
    """Returns the summary of a grouped delivery, which was fixed when the message was closed."""
    topics = message.envelope.get("topics")
    by_topic = topics if isinstance(topics, Mapping) else {}
    return {
        "by_type": {wire_type(Topic(topic)): count for topic, count in by_topic.items()},
        "first_at": message.envelope.get("first_at"),
        "last_at": message.envelope.get("last_at"),
    }


@dataclass(frozen=True, slots=True)
class WebhookChannel:
    """Posts messages to the webhooks of organizations."""

    engine: Engine
    clock: Clock
    vault: Vault
    web_origin: str

    async def deliver(self, message: NoticeMessage) -> DeliveryOutcome:
        """Posts one message with a new signature for the time of this attempt."""
        try:
            opened = await self.engine.read(
                self.clock.now(), partial(self._opened, message=message), org=message.org
            )
        except CannotOpen:
            return DeliveryOutcome(
                DeliveryResult.REFUSED, error="The secret of the webhook cannot be opened."
            )
        if opened is None:
            return DeliveryOutcome(DeliveryResult.REFUSED, error="The route was deleted.")
        return await self._post(message, opened.url, opened.secrets)

    async def _opened(self, tx: Tx, *, message: NoticeMessage) -> OpenedWebhook | None:
        route = await rows.get(tx, message.org, message.route or RouteId(""))
        return None if route is None else await open_webhook(tx, self.vault, route)

    async def _post(self, message: NoticeMessage, url: str, secrets: Sequence[str]) -> DeliveryOutcome:
        body = webhook_body(message, self.web_origin)
        headers = webhook_headers(secrets, message.id, self.clock.now(), body)
        try:
            http = self.vault.outbound.notice_client(message.org, None, webhook_endpoint(message.org, url))
            response = await http.post(body, headers, reads_response=False)
        except CallError as error:
            return outcome_of_error(error)
        return self._outcome(response)

    def _outcome(self, response: PlatformResponse) -> DeliveryOutcome:
        status = response.status
        if response.ok:
            return DeliveryOutcome(DeliveryResult.ACCEPTED, status)
        message = f"The receiver answered with status {status}."
        if 400 <= status < 500 and status not in _TRIED_AGAIN:
            return DeliveryOutcome(DeliveryResult.REFUSED, status, message, is_gone=status == _GONE)
        wait = retry_after(response.headers.get("retry-after"), self.clock.now())
        pause = None if wait is None else min(timedelta(seconds=wait), LONGEST_RETRY_AFTER)
        return DeliveryOutcome(DeliveryResult.TRY_AGAIN, status, message, retry_after=pause)


def outcome_of_error(error: CallError) -> DeliveryOutcome:
    """Returns the outcome of a failed call; a forbidden address counts as permanently refused."""
    if isinstance(error, CallRefused):
        return DeliveryOutcome(DeliveryResult.REFUSED, error=error.sentence)
    pause = None if error.wait_s is None else min(timedelta(seconds=error.wait_s), LONGEST_RETRY_AFTER)
    return DeliveryOutcome(DeliveryResult.TRY_AGAIN, error=error.message, retry_after=pause)
