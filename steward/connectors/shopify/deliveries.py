"""The events of a Shopify store: subscriptions made, mended and removed; deliveries judged (9.2, 9.3)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from steward.connectors.base.deliveries import (
    Derived,
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
from steward.connectors.shopify.answers import data_of, list_of, row_of, sub, text, texts_of, user_errors
from steward.model.json import JsonObject, JsonValue
from steward.outbound.client import ManagementClient
from steward.outbound.documents import Document
from steward.outbound.errors import CallError

_MOST_PAGES = 20


@dataclass(frozen=True, slots=True)
class _Made:
    id: str
    topic: str
    fields: frozenset[str]
    format: str


class ShopifyDeliveries:
    """The events of a store, signed with the app's secret; keeps nothing itself."""

    signing_settings: tuple[str, ...] = ("client_secret", "webhook_secret")
    revocation_topics: tuple[str, ...] = (topics.UNINSTALLED,)

    async def subscribe(
        self, http: ManagementClient, secrets: ConnectionSecrets, desired: DesiredSubscriptions
    ) -> list[Subscription]:
        """One subscription of ours a native topic, found by its address; doubles and unwanted ones go.

        Raises CallError when the list cannot be read.
        """
        ours = await self._ours(http, desired.address)
        made: list[Subscription] = []
        kept: set[str] = set()
        for native in desired.native:
            there = [each for each in ours if each.topic == native]
            known = desired.known_ids.get(native)
            held = next((each for each in there if each.id == known), there[0] if there else None)
            row = await self._one(http, desired, native, held)
            made.append(row)
            if row.remote_id is not None:
                kept.add(row.remote_id)
        for each in ours:
            if each.id not in kept:
                await self._remove(http, each.id)
        return made

    def verify_event(self, headers: Headers, body: RawBody, secrets: EventSecrets) -> Verdict:
        """Signature, the store's own domain, a topic we subscribed (connectors 9.2)."""
        signature = headers.get("x-shopify-hmac-sha256")
        if signature is None or not body.signature.matches(signature):
            return UnverifiedDelivery()
        if headers.get("x-shopify-shop-domain", "").lower() != (secrets.domain or ""):
            return IgnoredDelivery("other_store")
        told = headers.get("x-shopify-topic", "")
        native = topics.native_of(told)
        if native not in secrets.subscribed.values():
            return IgnoredDelivery("unknown_subscription")
        number = headers.get("x-shopify-event-id") or headers.get("x-shopify-webhook-id", "")
        return VerifiedDelivery(native, (told, number or body.sha256))

    def read_event(self, event: StoredEvent) -> Event:
        """The pointer in a stored body. Raises UnusableResponse."""
        return topics.read_event(event)

    def derive(
        self,
        event: Event,
        seen: JsonObject | None,
        *,
        since: datetime | None,
        seen_at: datetime | None = None,
        awaited_topics: Collection[str] = (),
    ) -> Derived:
        """The canonical topics of an event."""
        return topics.derive(event, seen, since=since, seen_at=seen_at, heard=awaited_topics)

    def initial_snapshot(self, event: Event) -> JsonObject | None:
        """What the first fill keeps of an object."""
        return topics.remembered(event)

    async def _ours(self, http: ManagementClient, address: str) -> list[_Made]:
        """Every subscription that leads to `address`. Raises CallError."""
        found: list[_Made] = []
        after: JsonValue = None
        for _ in range(_MOST_PAGES):
            answer = await http.execute(documents.SUBSCRIPTIONS.name, {"after": after})
            connection = sub(data_of(answer), "webhookSubscriptions")
            rows = [row_of(each) for each in list_of(connection, "nodes")]
            found += [
                _Made(
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
        return found

    async def _one(
        self, http: ManagementClient, wanted: DesiredSubscriptions, native: str, held: _Made | None
    ) -> Subscription:
        told, known = topics.ASKED_FOR.get(native), wanted.known_ids.get(native)
        if told is None:
            return Subscription(
                native, None, SubscriptionOutcome.FAILED, reason="The store has no such topic."
            )
        fields: list[JsonValue] = [*told.fields]
        if held is not None and held.fields == set(told.fields) and held.format == "JSON":
            return Subscription(
                native, held.id, SubscriptionOutcome.ACTIVE, repaired=known not in (None, held.id)
            )
        asked: JsonObject = {"uri": wanted.address, "format": "JSON", "includeFields": fields}
        document = mutations.SUBSCRIBE if held is None else mutations.RESUBSCRIBE
        variables: JsonObject = {"topic": native} if held is None else {"id": held.id}
        try:
            number = await self._changed(http, document, {**variables, "subscription": asked})
        except CallError as error:
            return Subscription(native, known, SubscriptionOutcome.FAILED, reason=error.message)
        return Subscription(native, number, SubscriptionOutcome.ACTIVE, repaired=known is not None)

    async def _changed(self, http: ManagementClient, document: Document, variables: JsonObject) -> str:
        payload = sub(data_of(await http.execute(document.name, variables)), document.root_fields[0])
        for error in user_errors(payload):
            raise error.as_error()
        return text(row_of(payload.get("webhookSubscription")), "id")

    async def _remove(self, http: ManagementClient, number: str) -> None:
        """Removes a subscription; one already gone is as good."""
        data_of(await http.execute(mutations.UNSUBSCRIBE.name, {"id": number}))
