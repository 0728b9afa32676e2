"""WooCommerce events: recorded deliveries verified, topics derived and webhooks maintained."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from steward.connectors.base.deliveries import (
    DesiredSubscriptions,
    Event,
    EventSecrets,
    IgnoredDelivery,
    PingDelivery,
    RawBody,
    StoredEvent,
    SubscriptionOutcome,
    TopicSpec,
    UnverifiedDelivery,
    VerifiedDelivery,
)
from steward.connectors.woocommerce.hooks import WooCommerceWebhooks
from steward.connectors.woocommerce.topics import TOPICS, derive, event_of, read_event, remembered
from steward.outbound.errors import UnusableResponse
from steward.security.signatures import BodyVerifier
from steward.telemetry.redact import Secret
from tests.case_data import case_data
from tests.connectors.fake_connections import ORG, Connection, FakePlatformsClient

SECRET = b"recorded-test-secret-1"
SINCE = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NOW = datetime(2026, 11, 21, tzinfo=UTC)
ADDRESS = "https://steward.example/v1/store-events/kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"


def deliveries() -> list[dict[str, Any]]:
    """Returns the recorded deliveries with their exact bytes as `raw` and headers in lower case."""
    recorded_rows = []
    content = json.loads((case_data("woocommerce") / "webhook_deliveries.json").read_text("utf-8"))
    for row in content["deliveries"]:
        parts = row["request"].get("body_parts", [row["request"].get("body")])
        text = "".join(p["repeat"] * p["times"] if isinstance(p, dict) else p for p in parts)
        headers = {name.lower(): value for name, value in row["request"]["headers"].items()}
        recorded_rows.append({**row, "raw": text.encode(), "headers": headers})
    return recorded_rows


def raw(body: bytes, *secrets: bytes) -> RawBody:
    """Returns a body as it was streamed, with its signatures computed."""
    signed = BodyVerifier(secrets)
    signed.feed(body)
    return RawBody(body[:262_144], len(body), hashlib.sha256(body).hexdigest(), signed)


def subscribed() -> EventSecrets:
    """Returns the subscriptions of the recording."""
    named = {
        row["headers"].get("x-wc-webhook-id"): row["headers"].get("x-wc-webhook-topic")
        for row in deliveries()
    }
    return EventSecrets("shop.example", {key: value for key, value in named.items() if key})


def test_every_recorded_delivery_is_judged_as_it_was_sent() -> None:
    """Verifies signed deliveries, refuses another secret or byte, and recognises pings.

    See docs/design/connectors.md#listening and docs/design/connectors.md#tests.
    """
    keys = set()
    for row in deliveries():
        verdict = WooCommerceWebhooks().verify_event(
            row["headers"], raw(row["raw"], b"new", SECRET), subscribed()
        )
        if not row["signed"]:
            assert verdict == PingDelivery()
            continue
        assert isinstance(verdict, VerifiedDelivery)
        assert verdict.native == row["headers"]["x-wc-webhook-topic"]
        keys.add(verdict.dedupe_key)
        for other in (raw(row["raw"], b"wrong"), raw(row["raw"]), raw(b" " + row["raw"][1:], SECRET)):
            assert (
                WooCommerceWebhooks().verify_event(row["headers"], other, subscribed())
                == UnverifiedDelivery()
            )
    assert len(keys) == sum(row["signed"] for row in deliveries())  # one delivery id covers many events


def test_foreign_forms_and_deliveries_are_ignored() -> None:
    """Refuses forms that are no ping, and ignores deliveries of unknown subscriptions or other topics.

    See docs/design/connectors.md#listening and docs/design/events.md#receiving-deliveries.
    """
    form = {"content-type": "application/x-www-form-urlencoded"}
    judge = WooCommerceWebhooks().verify_event
    for body in (b"webhook_id=1&a=b", b"webhook_id=", b"webhook_id=x", b"{}", b"webhook_id=1\n"):
        assert judge(form, raw(body, SECRET), subscribed()) == UnverifiedDelivery()
    assert (
        judge({"content-type": "application/json"}, raw(b"webhook_id=1", SECRET), subscribed())
        == UnverifiedDelivery()
    )
    signed = next(row for row in deliveries() if row["signed"])
    other = EventSecrets(None, {"999": "product.updated"})
    assert judge(signed["headers"], raw(signed["raw"], SECRET), other) == IgnoredDelivery(
        "unknown_subscription"
    )
    moved = {**signed["headers"], "x-wc-webhook-topic": "order.updated"}
    assert judge(moved, raw(signed["raw"], SECRET), subscribed()) == IgnoredDelivery("other_topic")


def test_recorded_bodies_point_at_their_objects() -> None:
    """Reads the object of each recorded body; a variation comes as its product's update.

    See docs/design/connectors.md#woocommerce.
    """
    results = {row["seq"]: row for row in deliveries() if row["signed"]}
    read = {
        seq: read_event(StoredEvent(row["headers"]["x-wc-webhook-topic"], row["raw"], NOW))
        for seq, row in results.items()
    }
    assert (read[75].object_type, read[75].object_id, read[75].parent_id) == ("variation", "75/76", "75")
    assert read[75].objects == (("variant", "75/76"), ("inventory", "75/76"))
    assert (read[44].object_type, read[44].object_id, read[44].modified_at) == ("product", "86", None)
    assert (read[33].object_type, read[33].object_id) == ("order", "87")
    assert derive(read[48], None, since=SINCE).dropped == "unknown_object"  # an order's trash, misreported
    assert derive(read[44], {}, since=SINCE).topics == ("products/delete",)
    assert derive(read[75], None, since=NOW).topics == ("products/update",)
    assert "orders/cancelled" in derive(read[33], {"status": "processing"}, since=SINCE).topics
    assert derive(read[40], {"refunds": []}, since=NOW).topics == ("orders/updated", "refunds/create")
    assert read_event(StoredEvent("order.updated", None, NOW)).object_id is None
    for body in (b"[]", b"{}", b'{"id": "9"}', b'{"id": true}', b"<html>"):
        with pytest.raises(UnusableResponse):
            read_event(StoredEvent("order.updated", body, NOW))


def order(native: str = "order.updated", **fields: Any) -> Event:
    """Returns an order's delivery."""
    row = {"id": 7, "status": "processing", "date_paid_gmt": None, "refunds": [],
           "date_created_gmt": "2026-11-20T11:00:00", "date_modified_gmt": "2026-11-20T13:00:00"}  # fmt: skip
    return event_of(native, {**row, **fields})


def walk(*events: Event, seen: Mapping[str, Any] | None = None) -> list[tuple[str, ...]]:
    """Returns the derived topics of each event in turn."""
    derived_topics = []
    for event in events:
        derived = derive(event, seen, since=SINCE)
        seen = derived.seen if derived.seen is not None else seen
        derived_topics.append(tuple(name for name in derived.topics if TOPICS[name].derived))
    return derived_topics


def test_states_of_orders_are_derived_once() -> None:
    """Derives paid, fulfilled and cancelled once each, and nothing from older deliveries.

    See docs/design/connectors.md#topics.
    """
    paid = {"date_paid_gmt": "2026-11-20T12:30:00"}
    new = {"date_created_gmt": "2026-11-20T12:00:00"}
    assert walk(order(), order(**paid), order(**paid)) == [(), ("orders/paid",), ()]
    assert walk(order(**paid)) == [()]  # the first delivery of an old order is no transition
    assert walk(order(**paid, **new)) == [("orders/paid",)]
    done = {**paid, **new, "status": "completed"}
    assert walk(order("order.created", **done), order(**done)) == [("orders/paid",), ("orders/fulfilled",)]
    both = walk(order(status="pending"), order(status="completed", **paid), order(status="cancelled", **paid))
    assert both == [(), ("orders/paid", "orders/fulfilled"), ("orders/cancelled",)]
    older = order(status="cancelled", date_modified_gmt="2026-11-20T12:59:59")
    assert walk(order(), older, order()) == [(), (), ()]
    assert "orders/updated" in derive(older, remembered(order()), since=SINCE).topics


def test_only_refunds_that_are_newer_than_all_seen_count() -> None:
    """Derives a refund only from ids above all seen, of which the newest 50 are kept.

    See docs/design/connectors.md#topics.
    """
    many = [{"id": number} for number in range(100, 160)]
    first = [{"id": 50}]
    assert walk(order(refunds=first), order(refunds=[*first, {"id": 60}]), order(refunds=[{"id": 60}])) == [
        (), ("refunds/create",), (),
    ]  # fmt: skip
    memory = remembered(order(refunds=many))
    assert memory is not None
    assert len(memory["refunds"]) == 50  # type: ignore[arg-type]
    assert walk(order(refunds=many), seen=memory) == [()]
    assert len(json.dumps(memory)) < 2048


def product(**fields: Any) -> Event:
    """Returns a product's delivery."""
    row = {"id": 9, "type": "simple", "manage_stock": True, "stock_quantity": 3, "stock_status": "instock",
           "date_created_gmt": "2026-11-20T11:00:00", "date_modified_gmt": "2026-11-20T13:00:00"}  # fmt: skip
    return event_of("product.updated", {**row, **fields})


def test_stock_that_changes_or_runs_out_is_reported() -> None:
    """Derives stock changes and running in or out of stock for products that manage their stock.

    See docs/design/connectors.md#topics.
    """
    moved, out = "inventory_levels/update", {"stock_quantity": 0, "stock_status": "outofstock"}
    assert walk(product(), product(stock_quantity=2), product(stock_quantity=2)) == [
        (), ("inventory_levels/update",), (),
    ]  # fmt: skip
    assert walk(product(), product(**out), product()) == [
        (), (moved, "variants/out_of_stock"), (moved, "variants/in_stock"),
    ]  # fmt: skip
    assert walk(product(manage_stock=False), product(manage_stock=False, stock_quantity=8)) == [(), ()]
    shared_stock = {"type": "variation", "parent_id": 4, "manage_stock": "parent"}
    assert walk(product(**shared_stock), product(**shared_stock, stock_quantity=1)) == [(), ()]
    assert walk(product(type="variable"), product(type="variable", **out)) == [
        (),
        ("inventory_levels/update",),
    ]
    new = {"date_created_gmt": "2026-11-20T12:00:00"}
    assert walk(product(**new)) == [("inventory_levels/update",)]
    assert walk(product(**new, **out)) == [("inventory_levels/update", "variants/out_of_stock")]


def test_every_topic_declares_how_it_is_delivered() -> None:
    """Describes each topic with its native topics, and snapshots for derived ones alone.

    See docs/design/connectors.md#tests.
    """
    for name, spec in TOPICS.items():
        assert isinstance(spec, TopicSpec)
        assert spec.native
        assert spec.derived == bool(spec.snapshot_types)
        assert len(name) <= 80


async def keep(shop: Connection, *native: str, known_topics: Mapping[str, str] | None = None) -> list[Any]:
    """Maintains the shop's webhooks for these native topics."""
    http = shop.outside.outbound.management_client(ORG, shop.number, shop.connector.endpoint(shop.secrets))
    expected = DesiredSubscriptions(ADDRESS, native, Secret("s" * 43), known_topics or {})
    events = shop.connector.events
    assert events is not None
    return await events.subscribe(http, shop.secrets, expected)


async def test_webhooks_are_made_mended_and_removed(shop: Connection, world: FakePlatformsClient) -> None:
    """Creates, repairs and removes webhooks, and sends nothing when all are right.

    See docs/design/events.md#subscriptions.
    """
    held = world.world.state.shop
    imported = await keep(shop, "order.updated", "product.updated")
    known_by_name = {row.native: row.remote_id for row in imported}
    assert [(row.native, row.outcome, row.repaired) for row in imported] == [
        ("order.updated", SubscriptionOutcome.ACTIVE, False),
        ("product.updated", SubscriptionOutcome.ACTIVE, False),
    ]  # fmt: skip
    assert {held.webhook_secrets[int(number)] for number in known_by_name.values()} == {"s" * 43}
    writes = len(world.written())
    assert {
        row.native: row.remote_id for row in await keep(shop, *known_by_name, known_topics=known_by_name)
    } == known_by_name
    assert len(world.written()) == writes  # nothing needed repair
    held.webhooks[int(known_by_name["order.updated"])]["status"] = "disabled"
    del held.webhooks[int(known_by_name["product.updated"])]
    repaired = await keep(shop, *known_by_name, known_topics=known_by_name)
    assert [row.repaired for row in repaired] == [True, True]
    assert repaired[0].remote_id == known_by_name["order.updated"]
    assert {hook["status"] for hook in held.webhooks.values()} == {"active"}
    await keep(shop, "order.updated")  # an unknown hook gets our secret, the other one is removed
    assert [hook["topic"] for hook in held.webhooks.values()] == ["order.updated"]
    assert await keep(shop) == []
    assert held.webhooks == {}
    keys = [entry["idempotency_key"] for entry in world.written()]
    assert all(keys)
    assert len(set(keys)) == len(keys)


async def test_duplicate_hooks_are_removed_and_foreign_ones_stay(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Removes duplicate webhooks at our address and leaves those of others.

    See docs/design/events.md#subscriptions.
    """
    described = world.world.described()["woocommerce"]
    pair = (described["consumer_key"], described["consumer_secret"])
    async with httpx.AsyncClient(transport=world.world.transport(), auth=pair) as client:
        for address in (ADDRESS, ADDRESS, "https://other.example/hook"):
            await client.post(
                f"{described['url']}/wp-json/wc/v3/webhooks",
                json={"topic": "order.updated", "delivery_url": address},
            )
    [row] = await keep(shop, "order.updated")
    addresses = [hook["delivery_url"] for hook in world.world.state.shop.webhooks.values()]
    assert sorted(addresses) == ["https://other.example/hook", ADDRESS]
    assert row.outcome is SubscriptionOutcome.ACTIVE


async def test_a_key_that_only_reads_makes_no_webhooks(world: FakePlatformsClient) -> None:
    """Reports a failed subscription with a reason when the key may only read.

    See docs/design/events.md#subscriptions.
    """
    described = world.world.described()["woocommerce"]
    settings = {
        "consumer_key": described["read_only_key"],
        "consumer_secret": described["read_only_secret"],
    }
    [row] = await keep(world.connection("woocommerce", settings), "order.updated")
    assert (row.outcome, row.remote_id) == (SubscriptionOutcome.FAILED, None)
    assert row.reason
