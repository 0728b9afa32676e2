"""The events of a Shopify store: synchronizes subscriptions and verifies deliveries."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from steward.connectors.base.deliveries import (
    DerivedTopics,
    DesiredSubscriptions,
    Event,
    EventSecrets,
    Headers,
    IgnoredDelivery,
    RawBody,
    StoredEvent,
    Subscription,
    SubscriptionOutcome,
    UnverifiedDelivery,
    Verdict,
    VerifiedDelivery,
)
from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.shopify import documents, mutations, topics
from steward.connectors.shopify.responses import data_of, list_of, row_of, sub, text, texts_of, user_errors
from steward.model.json import JsonObject, JsonValue
from steward.outbound.client import ManagementClient
from steward.outbound.documents import Document
from steward.outbound.errors import CallError

_MAX_PAGES = 20


@dataclass(frozen=True, slots=True)
class _RemoteSubscription:
    id: str
    topic: str
    fields: frozenset[str]
    format: str


class ShopifyDeliveries:
    """The events of a store, signed with the app's secret; keeps no state."""

    signing_settings: tuple[str, ...] = ("client_secret", "webhook_secret")
    revocation_topics: tuple[str, ...] = (topics.UNINSTALLED,)

    async def subscribe(
        self, http: ManagementClient, secrets: ConnectionSecrets, desired: DesiredSubscriptions
    ) -> list[Subscription]:
        """Ensures one subscription per native topic, matched by its address; removes duplicates and others.

        Raises CallError when the list cannot be read.
        """
        ours = await self._ours(http, desired.address)
        results: list[Subscription] = []
        active_ids: set[str] = set()
        for native in desired.native:
            matches = [subscription for subscription in ours if subscription.topic == native]
            known_id = desired.known_ids.get(native)
            existing = next(
                (candidate for candidate in matches if candidate.id == known_id),
                matches[0] if matches else None,
            )
            row = await self._ensure(http, desired, native, existing)
            results.append(row)
            if row.remote_id is not None:
                active_ids.add(row.remote_id)
        for subscription in ours:
            if subscription.id not in active_ids:
                await self._remove(http, subscription.id)
        return results

    def verify_event(self, headers: Headers, body: RawBody, secrets: EventSecrets) -> Verdict:
        """Verifies the signature, the store's own domain, and that we subscribed to the topic."""
        signature = headers.get("x-shopify-hmac-sha256")
        if signature is None or not body.signature.matches(signature):
            return UnverifiedDelivery()
        if headers.get("x-shopify-shop-domain", "").lower() != (secrets.domain or ""):
            return IgnoredDelivery("other_store")
        topic_header = headers.get("x-shopify-topic", "")
        native = topics.native_of(topic_header)
        if native not in secrets.subscribed.values():
            return IgnoredDelivery("unknown_subscription")
        number = headers.get("x-shopify-event-id") or headers.get("x-shopify-webhook-id", "")
        return VerifiedDelivery(native, (topic_header, number or body.sha256))

    def read_event(self, event: StoredEvent) -> Event:
        """Returns the event of a stored body. Raises UnusableResponse."""
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
        return topics.derive(event, seen, since=since, seen_at=seen_at, awaited_topics=awaited_topics)

    def initial_snapshot(self, event: Event) -> JsonObject | None:
        """Returns the state stored for an object before listening starts."""
        return topics.remembered(event)

    async def _ours(self, http: ManagementClient, address: str) -> list[_RemoteSubscription]:
        """Returns every subscription that delivers to `address`. Raises CallError."""
        subscriptions: list[_RemoteSubscription] = []
        after: JsonValue = None
        for _ in range(_MAX_PAGES):
            response = await http.execute(documents.SUBSCRIPTIONS.name, {"after": after})
            connection = sub(data_of(response), "webhookSubscriptions")
            rows = [row_of(node) for node in list_of(connection, "nodes")]
            subscriptions += [
                _RemoteSubscription(
                    text(row, "id"),
                    text(row, "topic"),
                    frozenset(texts_of(row, "includeFields")),
                    text(row, "format"),
                )
                for row in rows
                if row.get("uri") == address
            ]
            page = sub(connection, "pageInfo")
            after = text(page, "endCursor")
            if page.get("hasNextPage") is not True:
                break
        return subscriptions

    async def _ensure(
        self,
        http: ManagementClient,
        desired: DesiredSubscriptions,
        native: str,
        existing: _RemoteSubscription | None,
    ) -> Subscription:
        source, known_id = topics.SUBSCRIBABLE_TOPICS.get(native), desired.known_ids.get(native)
        if source is None:
            return Subscription(
                native, None, SubscriptionOutcome.FAILED, reason="The store has no such topic."
            )
        fields: list[JsonValue] = [*source.fields]
        if existing is not None and existing.fields == set(source.fields) and existing.format == "JSON":
            return Subscription(
                native, existing.id, SubscriptionOutcome.ACTIVE, repaired=known_id not in (None, existing.id)
            )
        subscription: JsonObject = {"uri": desired.address, "format": "JSON", "includeFields": fields}
        document = mutations.SUBSCRIBE if existing is None else mutations.RESUBSCRIBE
        variables: JsonObject = {"topic": native} if existing is None else {"id": existing.id}
        try:
            number = await self._changed(http, document, {**variables, "subscription": subscription})
        except CallError as error:
            return Subscription(native, known_id, SubscriptionOutcome.FAILED, reason=error.message)
        return Subscription(native, number, SubscriptionOutcome.ACTIVE, repaired=known_id is not None)

    async def _changed(self, http: ManagementClient, document: Document, variables: JsonObject) -> str:
        payload = sub(data_of(await http.execute(document.name, variables)), document.root_fields[0])
        for error in user_errors(payload):
            raise error.as_error()
        return text(row_of(payload.get("webhookSubscription")), "id")

    async def _remove(self, http: ManagementClient, number: str) -> None:
        """Removes a subscription; does nothing if it no longer exists."""
        data_of(await http.execute(mutations.UNSUBSCRIBE.name, {"id": number}))
