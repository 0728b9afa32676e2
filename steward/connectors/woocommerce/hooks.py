"""Webhooks of a WooCommerce shop: made, mended and removed; deliveries judged (connectors 9.2, 9.3)."""

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from steward.connectors.base.deliveries import (
    Derived,
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
from steward.connectors.woocommerce.answers import Row, error_of, id_of, row_of, rows_of, text_of
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
    """The events of a shop; keeps nothing itself."""

    signing_settings: tuple[str, ...] = ()  # with a secret of the connection's own
    revocation_topics: tuple[str, ...] = ()  # a shop does not tell that a key was taken away

    async def subscribe(
        self, http: ManagementClient, secrets: ConnectionSecrets, desired: DesiredSubscriptions
    ) -> list[Subscription]:
        """One active hook of ours a native topic, found by its address; doubles and unwanted ones go.

        The shop takes doubles without a word, and chooses a secret of its own when none is sent. Raises
        CallError when the list cannot be read.
        """
        ours = await self._ours(http, desired.address)
        kept: dict[str, _Hook] = {}
        for hook in ours:
            known = desired.known_ids.get(hook.topic)
            held = kept.get(hook.topic)
            if held is None or (hook.id == known and held.id != known):
                kept[hook.topic] = hook
        made = [await self._one(http, desired, native, kept.get(native)) for native in desired.native]
        using = {row.remote_id for row in made}
        for hook in ours:
            if hook.id not in using and (hook.topic not in desired.native or kept[hook.topic] != hook):
                await self._remove(http, hook)
        return made

    def verify_event(self, headers: Headers, body: RawBody, secrets: EventSecrets) -> Verdict:
        """The ping's exact form first, then signature, hook and topic (connectors 9.2)."""
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
        return topics.derive(event, seen, since=since)

    def initial_snapshot(self, event: Event) -> JsonObject | None:
        """What the first fill keeps of an object."""
        return topics.remembered(event)

    async def _ours(self, http: ManagementClient, address: str) -> list[_Hook]:
        """Every hook that leads to `address`, by rising id. Raises CallError."""
        found: list[_Hook] = []
        for page in range(1, _MAX_PAGES + 1):
            params = {"per_page": str(_PAGE), "page": str(page), "orderby": "id", "order": "asc"}
            answer = await http.get(PATH, {**params, "_fields": _FIELDS}, operation="webhooks")
            rows = rows_of(answer)
            found += [_hook(row) for row in rows if row.get("delivery_url") == address]
            if len(rows) < _PAGE:
                return found
        raise UnusableResponse("the shop has more than 5,000 webhooks")

    async def _one(
        self, http: ManagementClient, wanted: DesiredSubscriptions, native: str, hook: _Hook | None
    ) -> Subscription:
        known = wanted.known_ids.get(native)
        if hook is not None and hook.id == known and hook.status == "active":
            return Subscription(native, hook.id, SubscriptionOutcome.ACTIVE)
        secret = wanted.secret.reveal()
        body: dict[str, JsonValue] = {"status": "active", "secret": secret}
        if hook is None:
            body |= {"name": f"Steward {native}", "topic": native, "delivery_url": wanted.address}
            method, path = "POST", PATH
        else:
            method, path = "PUT", f"{PATH}/{hook.id}"
        try:
            made = _hook(row_of(await self._send(http, method, path, body)))
        except CallError as error:
            return Subscription(native, known, SubscriptionOutcome.FAILED, reason=error.message)
        if made.topic != native or made.status != "active":
            words = "The shop did not keep the webhook as it was asked to."
            if made.status == "disabled":
                words = "The shop has switched the webhook off: it could not reach Steward."
            return Subscription(native, made.id, SubscriptionOutcome.FAILED, reason=words)
        return Subscription(native, made.id, SubscriptionOutcome.ACTIVE, repaired=known is not None)

    async def _remove(self, http: ManagementClient, hook: _Hook) -> None:
        """Removes a hook for good; one already gone is as good."""
        answer = await http.send(
            "DELETE",
            f"{PATH}/{hook.id}",
            None,
            params={"force": "true"},
            key=str(uuid.uuid4()),
            operation="webhooks",
        )
        if not answer.ok and answer.status != 404:
            raise error_of(answer, write=True)

    async def _send(
        self, http: ManagementClient, method: str, path: str, body: Mapping[str, JsonValue]
    ) -> PlatformResponse:
        answer = await http.send(method, path, body, key=str(uuid.uuid4()), operation="webhooks")
        if not answer.ok:
            raise error_of(answer, write=True)
        return answer


def _hook(row: Row) -> _Hook:
    return _Hook(id_of(row), text_of(row, "topic"), text_of(row, "status"))
