"""Tests late and lost deliveries beside catch-up: each topic of an object starts one run."""

import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

import httpx
import pytest

from steward.fake_platforms.application import FakePlatforms
from tests.events.world import ListeningService, open_listener
from tests.fake_clock import FakeClock
from tests.fakes.shopify.goods import number
from tests.fakes.shopify.network import beside
from tests.fakes.shopify.store import ShopifyFake
from tests.populated_service import open_populated_service

SEED = int(os.environ.get("TOLD_FROM", "1"))
TOPICS = ("orders/create", "orders/updated", "orders/paid", "orders/fulfilled")


@dataclass(frozen=True)
class OrderState:
    """The present state of an order."""

    modified: str
    paid: bool
    fulfilled: bool


class ChangingStore(Protocol):
    """A store whose orders change; its deliveries wait in `sent` to be brought late or never."""

    sent: list[httpx.Request]

    async def create(self, *, paid: bool) -> str:
        """Creates an order and returns its id."""
        ...

    async def change(self, order: str, what: str) -> None:
        """Pays, fulfils or changes an order."""
        ...

    def now(self, order: str) -> "OrderState":
        """Returns the order's present state."""
        ...


@dataclass
class WooCommerceShop:
    """The fake WooCommerce shop with its webhooks held back."""

    listener: ListeningService
    sent: list[httpx.Request] = field(default_factory=list)
    rows: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def keep(request: httpx.Request) -> httpx.Response:
            if b"webhook_id=" not in request.content:
                self.sent.append(request)
            return httpx.Response(200)

        self.listener.shop.world.set_webhook_transport(httpx.MockTransport(keep))

    async def create(self, *, paid: bool) -> str:
        row = await self.listener.woo("POST", "/orders", {"set_paid": paid, "line_items": []})
        self.rows[str(row["id"])] = row
        return str(row["id"])

    async def change(self, order: str, what: str) -> None:
        body = {
            "pay": {"set_paid": True},
            "fulfil": {"status": "completed"},
            "note": {"customer_note": f"note {self.listener.shop.clock.monotonic()} {len(self.sent)}"},
        }[what]
        self.rows[order] = await self.listener.woo("PUT", f"/orders/{order}", body)

    def now(self, order: str) -> OrderState:
        row = self.rows[order]
        modified = f"{row['date_modified_gmt']}+00:00"
        return OrderState(modified, row["date_paid_gmt"] is not None, row["status"] == "completed")


@dataclass
class ShopifyStore:
    """The fake Shopify store with its deliveries held back."""

    fake: ShopifyFake
    random: Random
    sent: list[httpx.Request] = field(default_factory=list)
    rows: dict[str, Any] = field(default_factory=dict)

    async def create(self, *, paid: bool) -> str:
        variants = self.fake.of("ProductVariant")[:1]
        row = self.fake.add_order(variants, payment="PAID" if paid else "PENDING")
        self.rows[str(number(row))] = row
        updated = ("ORDERS_UPDATED",) if self.random.random() < 0.5 else ()
        await self._tell(row, "ORDERS_CREATE", *(("ORDERS_PAID",) if paid else ()), *updated)
        return str(number(row))

    async def change(self, order: str, what: str) -> None:
        fields, topics = {
            "pay": ({"displayFinancialStatus": "PAID"}, ["ORDERS_PAID"]),
            "fulfil": ({"displayFulfillmentStatus": "FULFILLED"}, ["ORDERS_FULFILLED"]),
            "note": ({"note": "another"}, []),
        }[what]
        self.fake.touch(self.rows[order], **fields)
        await self._tell(self.rows[order], *topics, "ORDERS_UPDATED")

    def now(self, order: str) -> OrderState:
        row = self.rows[order]
        paid, sent = row["displayFinancialStatus"], row["displayFulfillmentStatus"]
        return OrderState(row["updatedAt"].replace("Z", "+00:00"), paid == "PAID", sent == "FULFILLED")

    async def _tell(self, row: Any, *topics: str) -> None:
        for topic in topics:
            before = len(self.fake.deliveries)
            await self.fake.tell(topic, row)
            self.sent += self.fake.deliveries[before:]


@dataclass
class OrderHistory:
    """What happened to the orders, and the topics expected for each."""

    store: ChangingStore
    random: Random
    orders: dict[str, OrderState] = field(default_factory=dict)
    updated: set[str] = field(default_factory=set)
    modified: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def goes_on(self) -> None:
        """Creates, pays, fulfils or changes an order."""
        if len(self.orders) < 3 or self.random.random() < 0.2:
            order = await self.store.create(paid=self.random.random() < 0.4)
        else:
            order = self.random.choice(sorted(self.orders))
            was = self.orders[order]
            possible = ["note"] + ["pay"] * (not was.paid) + ["fulfil"] * (was.paid and not was.fulfilled)
            await self.store.change(order, self.random.choice(possible))
            self.updated.add(order)
        self.orders[order] = self.store.now(order)
        self.modified[order, self.orders[order].modified] += 1

    def expected(self, topic: str) -> set[str]:
        """Returns the orders for which a topic must be reported."""
        return {
            "orders/create": set(self.orders),
            "orders/updated": self.updated,
            "orders/paid": {order for order, now in self.orders.items() if now.paid},
            "orders/fulfilled": {order for order, now in self.orders.items() if now.fulfilled},
        }[topic]


async def bring(listener: ListeningService, store: ChangingStore, request: httpx.Request) -> None:
    """Delivers one of the store's deliveries."""
    store.sent.remove(request)
    headers = {name: value for name, value in request.headers.items() if name.startswith(("x-", "content-t"))}
    response = await listener.post(str(request.url), request.content, **headers)
    assert response.status == 200, response.body


async def starts(listener: ListeningService, automation: dict[str, Any]) -> Counter[tuple[str, str]]:
    """Returns how many runs each modification of an object started."""
    rows = await listener.rows(
        "SELECT e.pointer FROM runs AS r JOIN events AS e ON e.org_id = r.org_id AND e.id = r.event_id"
        " WHERE r.org_id = :org AND r.automation_id = :automation",
        automation=automation["id"],
    )
    pointers = [json.loads(row["pointer"]) for row in rows]
    return Counter((pointer["object_id"], pointer["occurred_at"]) for pointer in pointers)


@pytest.fixture
async def fake(clock: FakeClock) -> ShopifyFake:
    """Provides a Shopify store with products."""
    fake_store = ShopifyFake(now=clock.now)
    fake_store.seed(products=1, orders=0, customers=0)
    return fake_store


@pytest.fixture
async def listener(
    database_url: str, clock: FakeClock, tmp_path: Path, fake: ShopifyFake
) -> AsyncIterator[ListeningService]:
    """Provides the service beside both stores."""

    def around(world: FakePlatforms) -> None:
        default = world.transport
        world.transport = lambda: beside(default(), fake)  # type: ignore[method-assign]

    opened = await open_populated_service(database_url, clock, tmp_path, around=around)
    await opened.shop.connect("shopify", fake.settings())
    yield await open_listener(opened)
    await opened.close()


@pytest.mark.parametrize("platform", ["woocommerce", "shopify"])
async def test_deliveries_and_catch_up_report_each_topic_of_a_change_once(
    listener: ListeningService, fake: ShopifyFake, platform: str
) -> None:
    """Each object and topic starts a run, and no modification of it starts two."""
    random, on = Random(SEED), {"integration_id": listener.populated.number(platform)}
    automations = {topic: await listener.automation(topic, **on) for topic in TOPICS}
    listener.shop.clock.tick(60)
    store: ChangingStore = (
        WooCommerceShop(listener) if platform == "woocommerce" else ShopifyStore(fake, random)
    )
    history = OrderHistory(store, random)
    for _ in range(40):
        act = random.random()
        if act < 0.45:
            await history.goes_on()
            listener.shop.clock.tick(random.choice([0, 1, 1, 2, 20, 60]))
        elif act < 0.8 and store.sent:
            await bring(listener, store, random.choice(store.sent[:3]))
        elif act < 0.88 and store.sent:
            store.sent.remove(random.choice(store.sent))
        else:
            await listener.later(minutes=random.choice([1, 15]))
    for _ in range(2):
        await listener.later(minutes=15)
    for request in list(store.sent):  # late: catch-up has read everything
        await bring(listener, store, request)
        await listener.shop.drain()
    for topic, automation in automations.items():
        started = await starts(listener, automation)
        actual = {order for order, _ in started}
        assert history.expected(topic) <= actual <= set(history.orders), topic
        assert not {item: n for item, n in started.items() if n > history.modified[item]}, (topic, started)
        if topic != "orders/updated":
            assert sum(started.values()) == len(history.expected(topic)), (topic, started)
