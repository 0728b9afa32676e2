"""Reads of a Shopify store: pages, bulk results and searches; and the reading of its deliveries."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steward.connectors.base.commands import SetPrice, SetStock
from steward.connectors.base.deliveries import (
    CHANGED,
    ChangedQuery,
    DesiredSubscriptions,
    EventSecrets,
    IgnoredDelivery,
    RawBody,
    StoredEvent,
    SubscriptionOutcome,
    UnverifiedDelivery,
    VerifiedDelivery,
)
from steward.connectors.base.queries import (
    CUSTOMERS,
    ORDER,
    ORDERS,
    PRODUCT,
    PRODUCTS,
    REFUNDS,
    VARIANT,
    VARIANTS,
    ById,
    CustomersQuery,
    OrdersQuery,
    ProductsQuery,
    RefundsQuery,
)
from steward.connectors.base.records import Payment, Risk
from steward.connectors.shopify import reader
from steward.connectors.shopify.connector import Shopify
from steward.connectors.shopify.deliveries import ShopifyDeliveries
from steward.connectors.shopify.responses import quoted
from steward.model.change import Recovery
from steward.outbound.errors import PlatformUnavailable, RemoteNotFound, UnusableResponse
from steward.security.signatures import BodyVerifier
from steward.telemetry.redact import Secret
from tests.connectors.shopify.bench import NUMBER, ORG, StoreConnection
from tests.fakes.shopify.goods import number

ADDRESS = "https://steward.example/v1/store-events/abc"


async def test_products_carry_all_their_variants_and_channels(bench: StoreConnection) -> None:
    """Reads products in the order of ids with all variants and channels; unknown ids are not found.

    See docs/design/connectors.md#common-records and docs/design/templates.md#e9-variants.
    """
    many = bench.store.add_product(
        "Many", options=tuple(f"Size {position}" for position in range(130)), sku="M"
    )
    for index in range(15):
        bench.store.add_channel(f"Channel {index}")
    many["publications"] = [row["id"] for row in bench.store.of("Publication")]
    pages = await bench.pages(PRODUCTS, ProductsQuery())
    products = [product for page in pages for product in page.items]
    assert [int(item.id) for item in products] == sorted(int(each_product.id) for each_product in products)
    assert len(products) == 11
    assert (len(products[-1].variants), len(products[-1].channels)) == (130, 17)
    assert products[-1].kind == "variable"
    assert products[0].kind == "simple"
    assert products[0].label == "Pot 1 (POT-1)"
    with pytest.raises(RemoteNotFound):
        await bench.all(PRODUCT, ById("7"))
    with pytest.raises(RemoteNotFound):
        await bench.all(PRODUCT, ById("not a number"))


async def test_a_large_store_is_read_by_a_bulk_operation(
    bench: StoreConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads a large store by bulk operations with the same records, and writes nothing else.

    See docs/design/connectors.md#shopify.
    """
    paged = [
        await bench.all_products(),
        await bench.all(VARIANTS, ProductsQuery()),
        await bench.all(ORDERS, OrdersQuery()),
    ]
    for name in ("BULK_THRESHOLD", "BULK_ORDERS_THRESHOLD"):
        monkeypatch.setattr(reader, name, 1)
    bench.clock.sleep = _at_once(bench)  # type: ignore[method-assign]
    bulk = [
        await bench.all_products(),
        await bench.all(VARIANTS, ProductsQuery()),
        await bench.all(ORDERS, OrdersQuery()),
    ]
    assert bench.store.bulk.started == 3
    assert bulk == paged
    assert len(await bench.all(CUSTOMERS, CustomersQuery())) == 3
    assert bench.store.writes() == []
    bench.store.app.scopes = ("read_products", "read_orders")
    with pytest.raises(PlatformUnavailable, match="ACCESS_DENIED"):
        await bench.all(VARIANTS, ProductsQuery())


def _at_once(bench: StoreConnection) -> Any:
    async def sleep(seconds: float) -> None:
        bench.clock.tick(seconds)

    return sleep


async def test_stock_is_read_over_all_places_or_at_the_one_it_is_written_to(bench: StoreConnection) -> None:
    """Sums stock over active locations, or reads it at the one to be written; planning needs a location.

    See docs/design/templates.md#e14-locations and docs/design/connectors.md#common-records.
    """
    second, closed = bench.store.add_location("Shop"), bench.store.add_location("Old", active=False)
    product = bench.store.add_product("Two places", stock=4)
    item = bench.store.rows[bench.store.owned(product["id"])[0]["item"]]
    bench.store.add_level(item, second, 6)
    bench.store.add_level(item, closed, 100)
    query = ProductsQuery(ids=(str(number(product)),))
    [whole] = await bench.all(VARIANTS, query)
    [at_second] = await bench.all(VARIANTS, ProductsQuery(ids=query.ids, location=str(number(second))))
    assert (whole.stock, at_second.stock) == (10, 6)
    assert [problem.code for problem in bench.plan("inventory.set", SetStock(whole, 3)).problems] == [
        "location_needed"
    ]
    assert bench.plan("inventory.set", SetStock(at_second, 3)).problems == ()
    untracked = bench.store.add_product("Untracked", stock=None)
    [free] = await bench.all(
        VARIANTS, ProductsQuery(ids=(str(number(untracked)),), location=str(number(second)))
    )
    assert (free.stock, free.tracked) == (None, False)
    assert [
        each_problem.code for each_problem in bench.plan("inventory.set", SetStock(free, 3)).problems
    ] == ["not_tracked"]
    [by_item] = await bench.all(PRODUCT, ById(f"item:{whole.item_id}"))
    assert by_item.id == str(number(product))


@pytest.mark.parametrize("sku", ["A'B", 'A"B', "A\\", "A OR sku:X", "a:b", "(", "*", "ä ö"])
async def test_a_sku_is_searched_as_it_is(bench: StoreConnection, sku: str) -> None:
    """Searches a SKU with special characters literally. See docs/design/connectors.md#rules."""
    bench.store.add_product("Odd", sku=sku)
    variants = await bench.all(VARIANTS, ProductsQuery(skus=(sku, "none such")))
    assert [variant.sku for variant in variants] == [sku]
    assert quoted("it's") == "'it\\'s'"


async def test_orders_hold_payments_lines_risk_and_unfulfilled_items(bench: StoreConnection) -> None:
    """Reads payment, lines, risk and open fulfilment of orders.

    See docs/design/connectors.md#common-records and docs/design/templates-catalogue.md#cancel-unpaid-orders.
    """
    variants = bench.store.of("ProductVariant")
    held = bench.store.add_order(variants[:12], payment="AUTHORIZED", risk="HIGH")
    done = bench.store.add_order(variants[:1], payment="PAID", fulfilment="FULFILLED", risk=None)
    orders = {each_order.id: each_order for each_order in await bench.all(ORDERS, OrdersQuery())}
    risky, sent = orders[str(number(held))], orders[str(number(done))]
    assert len(risky.lines) == 12
    assert (risky.payment, risky.risk, risky.risk_reasons) == (
        Payment.AUTHORIZED,
        Risk.HIGH,
        ("The countries differ",),
    )
    assert [fulfilment_order.status for fulfilment_order in risky.fulfilment_orders] == ["open"]
    assert len(risky.authorizations) == 1
    assert (sent.paid, sent.fulfilled, sent.risk) == (True, True, Risk.PENDING)
    assert sent.paid_at is not None
    assert await bench.all(REFUNDS, RefundsQuery(sent.id)) == []
    [order] = await bench.all(ORDER, ById(sent.id))
    assert order == sent
    since = bench.clock.now() - timedelta(hours=30)
    assert {item.id for item in await bench.all(ORDERS, OrdersQuery(created_after=since))} < set(orders)
    assert await bench.all(ORDERS, OrdersQuery(statuses=("cancelled",))) == []
    with pytest.raises(RemoteNotFound):
        await bench.all(VARIANT, ById("1/1"))


@pytest.mark.parametrize(
    ("price", "compare", "code"),
    [
        ("abc", None, "not_a_number"),
        ("-1", None, "not_a_number"),
        ("1.005", None, "too_many_decimals"),
        ("0", None, "price_zero"),
        ("5", "5", "compare_at_not_above"),
        ("1234567890", None, "not_a_number"),
    ],
)
async def test_a_bad_price_is_refused_before_it_is_sent(
    bench: StoreConnection, price: str, compare: str | None, code: str
) -> None:
    """Reports an invalid price as a problem and plans nothing. See docs/design/connectors.md#operations."""
    [variant, *_] = await bench.all(VARIANTS, ProductsQuery())
    planned = bench.plan("variant.set_price", SetPrice(variant, price, compare_at=compare))
    assert [problem.code for problem in planned.problems] == [code]
    assert planned.proposals == ()


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        [],
        {"data": {"productVariants": {"nodes": 7}}},
        {"data": {"productVariants": {"nodes": [{"id": "x"}], "pageInfo": {}}}},
    ],
)
async def test_a_malformed_response_is_broken(bench: StoreConnection, body: Any) -> None:
    """Raises UnusableResponse for a response of another shape. See docs/design/connectors.md#rules."""
    bench.store.fault("status", "Variants", status=200, body=body)
    with pytest.raises(UnusableResponse):
        await bench.all(VARIANTS, ProductsQuery())


async def upkeep(bench: StoreConnection, *natives: str, **known_value: str) -> list[Any]:
    """Maintains the store's subscriptions for these topics."""
    http = bench.outbound.management_client(ORG, NUMBER, bench.connector.endpoint(bench.secrets))
    expected = DesiredSubscriptions(ADDRESS, natives, Secret("unused-secret"), known_value)
    events = bench.connector.events
    assert events is not None
    return await events.subscribe(http, bench.secrets, expected)


async def test_subscriptions_are_made_once_mended_and_removed(bench: StoreConnection) -> None:
    """Creates, repairs and removes subscriptions at our address and leaves others alone.

    See docs/design/events.md#subscriptions.
    """
    new_upkeep = await upkeep(bench, "ORDERS_PAID", "PRODUCTS_UPDATE")
    assert {item.outcome for item in new_upkeep} == {SubscriptionOutcome.ACTIVE}
    known_by_name = {entry.native: entry.remote_id for entry in new_upkeep}
    assert await upkeep(bench, "ORDERS_PAID", "PRODUCTS_UPDATE", **known_by_name) == new_upkeep
    assert len(bench.store.of("WebhookSubscription")) == 2
    del bench.store.rows[known_by_name["ORDERS_PAID"]]
    bench.store.rows[known_by_name["PRODUCTS_UPDATE"]]["includeFields"] = []
    again = await upkeep(bench, "ORDERS_PAID", "PRODUCTS_UPDATE", **known_by_name)
    assert [element.repaired for element in again] == [True, True]
    assert bench.store.rows[known_by_name["PRODUCTS_UPDATE"]]["includeFields"]
    bench.store.make(
        "WebhookSubscription",
        topic="ORDERS_PAID",
        uri="https://elsewhere.example",
        format="JSON",
        includeFields=[],
    )
    assert await upkeep(bench) == []
    assert [row["uri"] for row in bench.store.of("WebhookSubscription")] == ["https://elsewhere.example"]
    assert bench.store.writes() == []


async def test_a_delivery_counts_when_signed_by_the_app_for_this_store_and_topic(
    bench: StoreConnection,
) -> None:
    """Verifies a delivery by its signature, store and topic, and reads the object it is about.

    See docs/design/api/events.md#deduplication and docs/design/connectors.md#listening.
    """
    await upkeep(bench, "INVENTORY_LEVELS_UPDATE", "CUSTOMER_TAGS_ADDED")
    level = bench.store.of("InventoryLevel")[0]
    await bench.store.tell("INVENTORY_LEVELS_UPDATE", level, event_id="e1")
    [request] = bench.store.deliveries
    held = EventSecrets(bench.store.domain, {"1": "INVENTORY_LEVELS_UPDATE"})
    events = ShopifyDeliveries()

    def judged(body: bytes, secret: str = bench.store.app.client_secret, **headers: str) -> Any:
        signed = BodyVerifier([secret.encode()])
        signed.feed(body)
        raw = RawBody(body, len(body), "0" * 64, signed)
        return events.verify_event({**dict(request.headers), **headers}, raw, held)

    good = judged(request.content)
    assert good == VerifiedDelivery("INVENTORY_LEVELS_UPDATE", ("inventory_levels/update", "e1"))
    assert judged(request.content + b" ") == UnverifiedDelivery()
    assert judged(request.content, "another") == UnverifiedDelivery()
    assert isinstance(
        judged(request.content, **{"x-shopify-shop-domain": "other.myshopify.com"}), IgnoredDelivery
    )
    assert isinstance(judged(request.content, **{"x-shopify-topic": "orders/create"}), IgnoredDelivery)
    event = events.read_event(StoredEvent(good.native, request.content, bench.clock.now()))
    assert (event.object_type, event.object_id) == ("inventory", f"item:{number({'id': level['item']})}")
    assert event.objects == (("inventory", f"{event.object_id}@{number({'id': level['location']})}"),)
    assert events.derive(event, None, since=None).topics == ("inventory_levels/update",)
    with pytest.raises(UnusableResponse):
        events.read_event(StoredEvent(good.native, b"[]", bench.clock.now()))
    assert events.read_event(StoredEvent(good.native, None, bench.clock.now())).object_id is None


async def test_undelivered_objects_are_read_and_their_topics_derived(bench: StoreConnection) -> None:
    """Reads objects changed since a time as events and derives topics from what was seen before.

    See docs/design/events.md#catch-up.
    """
    begun = bench.clock.now()
    await bench.clock.advance(60)
    order = bench.store.add_order(bench.store.of("ProductVariant")[:1], payment="PAID")
    [event] = await bench.all(CHANGED, ChangedQuery("order", begun))
    assert (event.native, event.object_id) == ("ORDERS_CREATE", str(number(order)))
    events = ShopifyDeliveries()
    derive = events.derive(event, None, since=begun)
    assert derive.topics == ("orders/create", "orders/updated", "orders/paid")
    assert derive.seen == {"paid": True, "fulfilled": False, "cancelled": False}
    assert events.derive(event, derive.seen, since=begun).topics == ("orders/create", "orders/updated")
    old = datetime(2020, 1, 1, tzinfo=UTC)
    assert "orders/paid" not in events.derive(event, None, since=None).topics
    assert len(await bench.all(CHANGED, ChangedQuery("product", old))) == 10


def test_every_change_says_how_it_is_recovered() -> None:
    """Recovers stock and refunds by idempotency key, and no other operation.

    See docs/design/connectors.md#operations and docs/design/connectors.md#rules.
    """
    changes = Shopify(version="2026-10", url=None, read_s=20.0).writes
    keyed = {name for name, op in changes.items() if op.recovery is Recovery.IDEMPOTENT}
    assert keyed == {"inventory.set", "refund.create"}
