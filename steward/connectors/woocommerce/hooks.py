"""The webhooks of a WooCommerce shop: subscribing, removing and verifying deliveries.

See `docs/design/events.md#subscriptions` and `docs/design/events.md#receiving-deliveries`.
"""

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from steward.connectors.base.deliveries import (
    DerivedTopics,
    DesiredSubscriptions,
    Event,
    EventSecrets,
    Headers,
    IgnoredDelivery,
    PingDelivery,
    RawBody,
    StoredEvent,
    Subscription,
    SubscriptionOutcome,
    UnverifiedDelivery,
    Verdict,
    VerifiedDelivery,
)
from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.woocommerce import topics
from steward.connectors.woocommerce.responses import Row, error_of, id_of, row_of, rows_of, text_of
from steward.model.json import JsonObject, JsonValue
from steward.outbound.client import ManagementClient
from steward.outbound.errors import CallError, UnusableResponse
from steward.outbound.response import PlatformResponse

PATH = "/wp-json/wc/v3/webhooks"
_PAGE = 100
_MAX_PAGES = 50
_PING = re.compile(rb"webhook_id=[0-9]{1,19}")
_FIELDS = "id,status,topic,delivery_url"


@dataclass(frozen=True, slots=True)
class _Hook:
    id: str
    topic: str
    status: str


class WooCommerceWebhooks:
    """The event source of WooCommerce shops; holds no state."""

    signing_settings: tuple[str, ...] = ()  # deliveries are signed with the connection's own secret
    revocation_topics: tuple[str, ...] = ()  # a shop does not report that a key was revoked

    async def subscribe(
        self, http: ManagementClient, secrets: ConnectionSecrets, request: DesiredSubscriptions
    ) -> list[Subscription]:
        """Ensures one active webhook per requested topic, matched by its address; removes the others.

        The shop accepts duplicates silently, and chooses its own secret when none is sent. Raises CallError
        when the list cannot be read.
        """
        ours = await self._ours(http, request.address)
        by_topic: dict[str, _Hook] = {}
        for hook in ours:
            if hook.id == request.known_ids.get(hook.topic):
                by_topic[hook.topic] = hook
            by_topic.setdefault(hook.topic, hook)
        subscriptions = [
            await self._subscribe_topic(http, request, native, by_topic.get(native))
            for native in request.native
        ]
        using = {row.remote_id for row in subscriptions}
        for hook in ours:
            if hook.id not in using and (hook.topic not in request.native or by_topic[hook.topic] != hook):
                await self._remove(http, hook)
        return subscriptions

    def verify_event(self, headers: Headers, body: RawBody, secrets: EventSecrets) -> Verdict:
        """Recognizes the exact form of a ping, then checks signature, webhook and topic."""
        signature = headers.get("x-wc-webhook-signature")
        form = headers.get("content-type", "").partition(";")[0].strip().lower()
        if signature is None and form == "application/x-www-form-urlencoded":
            is_whole = body.size == len(body.prefix)
            return PingDelivery() if is_whole and _PING.fullmatch(body.prefix) else UnverifiedDelivery()
        if signature is None or not body.signature.matches(signature):
            return UnverifiedDelivery()
        hook = headers.get("x-wc-webhook-id", "")
        native = secrets.subscribed.get(hook)
        if native is None:
            return IgnoredDelivery("unknown_subscription")
        if headers.get("x-wc-webhook-topic") != native:
            return IgnoredDelivery("other_topic")
        return VerifiedDelivery(native, (hook, headers.get("x-wc-webhook-delivery-id", ""), body.sha256))

    def read_event(self, event: StoredEvent) -> Event:
        """Returns the event of a stored delivery. Raises UnusableResponse."""
        return topics.read_event(event)

    def derive(
        self,
        event: Event,
        seen: JsonObject | None,
        *,
        since: datetime | None,
        seen_at: datetime | None = None,
        awaited_topics: Collection[str] = (),
    ) -> DerivedTopics:
        """Returns the canonical topics of an event."""
        return topics.derive(event, seen, since=since)

    def initial_snapshot(self, event: Event) -> JsonObject | None:
        """Returns the state to store for an object at the initial read."""
        return topics.remembered(event)

    async def _ours(self, http: ManagementClient, address: str) -> list[_Hook]:
        """Returns every webhook that delivers to `address`, by ascending id. Raises CallError."""
        hooks: list[_Hook] = []
        for page in range(1, _MAX_PAGES + 1):
            params = {"per_page": str(_PAGE), "page": str(page), "orderby": "id", "order": "asc"}
            response = await http.get(PATH, {**params, "_fields": _FIELDS}, operation="webhooks")
            rows = rows_of(response)
            hooks += [_hook(row) for row in rows if row.get("delivery_url") == address]
            if len(rows) < _PAGE:
                return hooks
        raise UnusableResponse("the shop has more than 5,000 webhooks")

    async def _subscribe_topic(
        self, http: ManagementClient, request: DesiredSubscriptions, native: str, hook: _Hook | None
    ) -> Subscription:
        subscribed_id = request.known_ids.get(native)
        if hook is not None and hook.id == subscribed_id and hook.status == "active":
            return Subscription(native, hook.id, SubscriptionOutcome.ACTIVE)
        secret = request.secret.reveal()
        body: dict[str, JsonValue] = {"status": "active", "secret": secret}
        if hook is None:
            body |= {"name": f"Steward {native}", "topic": native, "delivery_url": request.address}
            method, path = "POST", PATH
        else:
            method, path = "PUT", f"{PATH}/{hook.id}"
        try:
            saved = _hook(row_of(await self._send(http, method, path, body)))
        except CallError as error:
            return Subscription(native, subscribed_id, SubscriptionOutcome.FAILED, reason=error.message)
        if saved.topic != native or saved.status != "active":
            message = "The shop did not save the webhook as requested."
            if saved.status == "disabled":
                message = "The shop has switched the webhook off: it could not reach Steward."
            return Subscription(native, saved.id, SubscriptionOutcome.FAILED, reason=message)
        return Subscription(native, saved.id, SubscriptionOutcome.ACTIVE, repaired=subscribed_id is not None)

    async def _remove(self, http: ManagementClient, hook: _Hook) -> None:
        """Deletes a webhook; does nothing if it no longer exists."""
        response = await http.send(
            "DELETE",
            f"{PATH}/{hook.id}",
            None,
            params={"force": "true"},
            key=str(uuid.uuid4()),
            operation="webhooks",
        )
        if not response.ok and response.status != 404:
            raise error_of(response, write=True)

    async def _send(
        self, http: ManagementClient, method: str, path: str, body: Mapping[str, JsonValue]
    ) -> PlatformResponse:
        response = await http.send(method, path, body, key=str(uuid.uuid4()), operation="webhooks")
        if not response.ok:
            raise error_of(response, write=True)
        return response


def _hook(row: Row) -> _Hook:
    return _Hook(id_of(row), text_of(row, "topic"), text_of(row, "status"))
