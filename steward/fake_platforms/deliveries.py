"""Sends the fake shop's webhooks: signed deliveries and unsigned pings, never repeated."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections import deque
from typing import Any

import httpx

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import customers, orders, products
from steward.fake_platforms.woocommerce.shop import FakeShop, ShopEvent
from steward.fake_platforms.woocommerce.webhooks import PING

TIMEOUT_SECONDS = 5.0
_FAILURES_ALLOWED = 5
_AGENT = "WooCommerce/11.0.1 Hookshot (WordPress/7.1)"
_TEXT_FIELDS = ("description", "customer_note", "note", "first_name", "name")


def php_json(value: Any) -> bytes:
    """Encodes JSON as PHP does: slashes and everything but ASCII are escaped."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("/", "\\/").encode()


def signature(secret: str, body: bytes) -> str:
    """Returns base64 of HMAC-SHA256 over the exact bytes."""
    return base64.b64encode(hmac.new(secret.encode(), body, hashlib.sha256).digest()).decode()


def padded(resource: Row, more: int) -> Row:
    """Returns the object with `more` additional bytes in one of its text fields."""
    if more <= 0:
        return resource
    name = next((field for field in _TEXT_FIELDS if isinstance(resource.get(field), str)), None)
    if name is None:
        overhead = len(',"note":""') - (0 if resource else 1)
        return {**resource, "note": "x" * max(more - overhead, 0)}
    return {**resource, name: resource[name] + "x" * more}


def delivery_body(shop: FakeShop, topic: str, object_id: int) -> Row | None:
    """Returns the body of a delivery; null when the object does not exist.

    It is the current object, or only its id after a deletion.
    """
    resource, _, event = topic.partition(".")
    if event == "deleted":
        return {"id": object_id}
    if resource == "order" and object_id in shop.orders:
        return orders.show(shop, shop.orders[object_id])
    if resource == "customer" and object_id in shop.customers:
        return customers.show(shop, shop.customers[object_id])
    if resource == "product" and (object_id in shop.products or object_id in shop.variations):
        return products.get(shop, object_id)
    return None


def _is_good(status: int | None) -> bool:
    return status is not None and 200 <= status < 303


class WebhookSender:
    """Sends deliveries one after the other, in order."""

    def __init__(self, shop: FakeShop, transport: httpx.AsyncBaseTransport | None) -> None:
        self._shop = shop
        self._transport = transport
        self._waiting: deque[ShopEvent] = deque()
        self._working: asyncio.Task[None] | None = None
        self.deliveries: list[Row] = []

    def enqueue(self, events: tuple[ShopEvent, ...]) -> None:
        """Queues the events of a write and sends them in the background, in order."""
        topics = {hook["topic"] for hook in self._shop.webhooks.values() if hook["status"] == "active"}
        self._waiting.extend(
            event for event in events if event.topic in topics and event not in self._waiting
        )
        if self._waiting and (self._working is None or self._working.done()):
            self._working = asyncio.get_running_loop().create_task(self._work())

    def set_transport(self, transport: httpx.AsyncBaseTransport | None) -> None:
        """Sets how deliveries are sent from now on; null is the network."""
        self._transport = transport

    async def settle(self) -> None:
        """Waits until delivery of all queued events was attempted; for tests."""
        while self._working is not None and not self._working.done():
            await self._working

    async def stop(self) -> None:
        """Drops the queued events."""
        self._waiting.clear()
        if self._working is not None and not self._working.done():
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            body = delivery_body(self._shop, event.topic, event.object_id)
            if body is not None:
                second = int(self._shop.now().timestamp())
                for hook in self._active(event.topic):
                    # All deliveries of one webhook in one second share an id, as recorded.
                    delivery_id = hashlib.md5(f"{self._shop.url} {hook['id']} {second}".encode()).hexdigest()
                    self.deliveries.append(await self.send(hook, php_json(body), delivery_id))

    def _active(self, topic: str) -> list[Row]:
        hooks = self._shop.webhooks.values()
        return [hook for hook in hooks if hook["status"] == "active" and hook["topic"] == topic]

    async def send_pings(self, events: tuple[ShopEvent, ...]) -> None:
        """Sends the pings that a write caused; the real shop does so before it answers."""
        for event in events:
            if event.topic == PING and event.object_id in self._shop.webhooks:
                await self._ping(self._shop.webhooks[event.object_id])

    async def _ping(self, hook: Row) -> None:
        headers = {"content-type": "application/x-www-form-urlencoded", "user-agent": _AGENT}
        status = await self._post(hook["delivery_url"], f"webhook_id={hook['id']}".encode(), headers)
        if _is_good(status) and hook["date_modified_gmt"] is None:
            self._shop.mark_modified(hook)

    async def _post(self, url: str, body: bytes, headers: dict[str, str]) -> int | None:
        default_transport = (
            httpx.AsyncHTTPTransport(verify=False, trust_env=False) if self._transport is None else None
        )
        client = httpx.AsyncClient(
            transport=self._transport or default_transport, timeout=TIMEOUT_SECONDS, trust_env=False
        )
        try:
            # The shop's limit applies to the whole delivery, not to the time between bytes.
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return (await client.post(url, content=body, headers=headers)).status_code
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError):
            return None
        finally:
            if default_transport is not None:
                await client.aclose()

    async def send(self, hook: Row, body: bytes, delivery_id: str, *, bad_signature: bool = False) -> Row:
        """Sends one delivery once; the sixth failure in a row disables the webhook."""
        secret = self._shop.webhook_secrets.get(hook["id"], "")
        signed = signature(secret + "-wrong" if bad_signature else secret, body)
        headers = {
            "content-type": "application/json",
            "user-agent": _AGENT,
            "x-wc-webhook-source": f"{self._shop.url}/",
            "x-wc-webhook-topic": hook["topic"],
            "x-wc-webhook-resource": hook["resource"],
            "x-wc-webhook-event": hook["event"],
            "x-wc-webhook-signature": signed,
            "x-wc-webhook-id": str(hook["id"]),
            "x-wc-webhook-delivery-id": delivery_id,
        }
        began = time.monotonic()
        status = await self._post(hook["delivery_url"], body, headers)
        spent = round((time.monotonic() - began) * 1000)
        await self._count(hook, failed=not _is_good(status))
        return {
            "webhook_id": hook["id"],
            "delivery_id": delivery_id,
            "url": hook["delivery_url"],
            "status": status,
            "ms": spent,
            "bytes": len(body),
            "body_sha256": hashlib.sha256(body).hexdigest(),
        }

    async def _count(self, hook: Row, *, failed: bool) -> None:
        failures = self._shop.webhook_failures
        if not failed:
            failures[hook["id"]] = 0
            return
        failures[hook["id"]] = failures.get(hook["id"], 0) + 1
        if failures[hook["id"]] > _FAILURES_ALLOWED:
            hook["status"] = "disabled"
            self._shop.mark_modified(hook)
        else:
            # A failed delivery is followed by a ping, which does not count (recorded).
            await self._ping(hook)

    async def send_event(
        self, topic: str, bodies: list[tuple[Row, str]], *, bad_signature: bool
    ) -> list[Row]:
        """Sends each body with its id to every active webhook of the topic, and waits for all."""
        done: list[Row] = []
        for resource, delivery_id in bodies:
            raw = php_json(resource)
            for hook in self._active(topic):
                done.append(await self.send(hook, raw, delivery_id, bad_signature=bad_signature))
        self.deliveries.extend(done)
        return done
