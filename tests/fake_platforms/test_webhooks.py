"""Tests webhooks of the fake shop: pings, deliveries, signatures, failures and events on request.

See docs/design/fake-platforms.md#process.
"""

import asyncio
import base64
import hashlib
import hmac
import json
from typing import Any

import httpx
import pytest

from steward.fake_platforms import deliveries
from steward.fake_platforms.application import FakePlatforms
from tests.fake_clock import FakeClock
from tests.fake_platforms.receiver import Receiver

pytestmark = pytest.mark.anyio

ADDRESS = "https://steward.example/v1/store-events/abc"
SECRET = "between us"


async def _listen(shop: httpx.AsyncClient, topic: str, **more: Any) -> int:
    body = {"topic": topic, "secret": SECRET, "delivery_url": ADDRESS, **more}
    response = await shop.post("webhooks", json=body)
    assert response.status_code == 201
    return int(response.json()["id"])


async def _event(outside: httpx.AsyncClient, **event: Any) -> list[dict[str, Any]]:
    response = await outside.post("/sandbox/events", json=event)
    assert response.status_code == 200, response.text
    return list(response.json()["deliveries"])


def _signed(body: bytes) -> str:
    return base64.b64encode(hmac.new(SECRET.encode(), body, hashlib.sha256).digest()).decode()


async def test_making_a_webhook_sends_an_unsigned_ping_first(
    shop: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Sends an unsigned ping before it answers the request that makes the webhook, as recorded.

    See docs/design/fake-platforms.md#services.
    """
    number = await _listen(shop, "product.updated")
    assert [request.content for request in receiver.arrived] == [f"webhook_id={number}".encode()]
    assert receiver.arrived[0].headers["content-type"] == "application/x-www-form-urlencoded"
    assert not any(name.startswith("x-wc-") for name in receiver.arrived[0].headers)


async def test_a_new_address_and_enabling_send_a_ping_and_a_new_name_does_not(
    shop: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Pings after a new address and after enabling, but not after a new name or a pause.

    See docs/design/connectors.md#woocommerce.
    """
    number = await _listen(shop, "product.updated")
    changes = [{"name": "x"}, {"delivery_url": ADDRESS + "d"}, {"status": "paused"}, {"status": "active"}]
    counts = []
    for change in changes:
        await shop.put(f"webhooks/{number}", json=change)
        counts.append(len(receiver.pings))
    assert counts == [1, 2, 2, 3]


async def test_the_secret_is_never_given_back(shop: httpx.AsyncClient) -> None:
    """Leaves the secret out of the response, as recorded."""
    number = await _listen(shop, "product.updated")
    assert SECRET not in (await shop.get(f"webhooks/{number}")).text


async def test_a_delivery_is_signed_over_its_exact_bytes(
    shop: httpx.AsyncClient, platforms: FakePlatforms, receiver: Receiver
) -> None:
    """Signs the exact bytes and names topic, resource, event, webhook and source in headers.

    See docs/design/fake-platforms.md#services.
    """
    number = await _listen(shop, "product.updated")
    product = (await shop.get("products")).json()[0]
    await shop.put(f"products/{product['id']}", json={"regular_price": "8.00"})
    await platforms.settle()
    (sent,) = receiver.deliveries
    assert sent.headers["x-wc-webhook-signature"] == _signed(sent.content)
    assert sent.headers["x-wc-webhook-topic"] == "product.updated"
    assert sent.headers["x-wc-webhook-resource"] == "product"
    assert sent.headers["x-wc-webhook-event"] == "updated"
    assert sent.headers["x-wc-webhook-id"] == str(number)
    assert sent.headers["x-wc-webhook-source"] == "https://shop.example/"
    assert json.loads(sent.content)["regular_price"] == "8.00"


async def test_deliveries_of_one_second_share_an_id_and_those_of_another_do_not(
    shop: httpx.AsyncClient, platforms: FakePlatforms, receiver: Receiver, clock: FakeClock
) -> None:
    """Gives deliveries of one webhook in one second the same delivery id.

    See docs/design/fake-platforms.md#services.
    """
    await _listen(shop, "product.updated")
    first, second = [row["id"] for row in (await shop.get("products")).json()][:2]
    for number, wait in ((first, 0), (second, 0), (first, 1)):
        await clock.advance(wait)
        await shop.put(f"products/{number}", json={"regular_price": "8.00"})
        await platforms.settle()
    ids = [request.headers["x-wc-webhook-delivery-id"] for request in receiver.deliveries]
    assert ids[0] == ids[1] != ids[2]


async def test_an_order_that_takes_stock_also_sends_a_product_event(
    shop: httpx.AsyncClient, platforms: FakePlatforms, receiver: Receiver
) -> None:
    """Delivers order.created and order.updated with the same body, and product.updated for the stock.

    See docs/design/fake-platforms.md#services and docs/design/connectors.md#woocommerce.
    """
    for topic in ("order.created", "order.updated", "product.updated"):
        await _listen(shop, topic)
    product = (await shop.get("products", params={"stock_status": "instock", "type": "simple"})).json()[0]
    line = {"product_id": product["id"], "quantity": 1}
    await shop.post("orders", json={"status": "processing", "line_items": [line]})
    await platforms.settle()
    assert receiver.topics() == ["order.created", "order.updated", "product.updated"]
    assert receiver.deliveries[0].content == receiver.deliveries[1].content


async def test_trashing_sends_the_id_alone_and_deleting_sends_nothing(
    shop: httpx.AsyncClient, platforms: FakePlatforms, receiver: Receiver
) -> None:
    """Delivers the id alone when an object is trashed.

    Deleting an order permanently also sends product.deleted, where orders are posts.
    See docs/design/connectors.md#woocommerce.
    """
    for topic in ("product.deleted", "order.deleted"):
        await _listen(shop, topic)
    product = (await shop.get("products")).json()[0]["id"]
    order = (await shop.get("orders")).json()[0]["id"]
    for path in (f"products/{product}", f"orders/{order}"):
        await shop.delete(path)
        await shop.delete(path, params={"force": "true"})
    await platforms.settle()
    delivered = [
        (request.headers["x-wc-webhook-topic"], json.loads(request.content))
        for request in receiver.deliveries
    ]
    expected = [("product.deleted", product), ("order.deleted", order), ("product.deleted", order)]
    assert delivered == [(topic, {"id": number}) for topic, number in expected]


async def test_a_changed_variation_is_reported_as_a_product_update(
    shop: httpx.AsyncClient, platforms: FakePlatforms, receiver: Receiver
) -> None:
    """Delivers the variation with its parent's number as product.updated.

    See docs/design/connectors.md#woocommerce.
    """
    await _listen(shop, "product.updated")
    parent = (await shop.get("products", params={"type": "variable"})).json()[0]
    variation_id = parent["variations"][0]
    await shop.put(f"products/{parent['id']}/variations/{variation_id}", json={"regular_price": "9.00"})
    await platforms.settle()
    body = json.loads(receiver.deliveries[0].content)
    assert (body["id"], body["type"], body["parent_id"]) == (variation_id, "variation", parent["id"])


async def test_the_sixth_failure_in_a_row_disables_and_a_success_resets_the_count(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Disables a webhook after the sixth failure in a row; a success in between starts the count again.

    See docs/design/fake-platforms.md#services.
    """
    number = await _listen(shop, "product.updated")

    async def fail(times: int) -> str:
        receiver.status = 500
        await _event(outside, topic="product.updated", resource={"id": 1}, repeat=times)
        receiver.status = 200
        return str((await shop.get(f"webhooks/{number}")).json()["status"])

    assert await fail(5) == "active"
    await _event(outside, topic="product.updated", resource={"id": 1})
    assert await fail(5) == "active"
    assert await fail(1) == "disabled"
    assert await _event(outside, topic="product.updated", resource={"id": 1}) == []
    await shop.put(f"webhooks/{number}", json={"status": "active"})
    assert await fail(1) == "disabled"


async def test_a_failed_delivery_is_not_repeated_but_followed_by_a_ping(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Sends a ping after a failed delivery, and does not repeat the delivery.

    See docs/design/fake-platforms.md#services.
    """
    await _listen(shop, "product.updated")
    receiver.status = 500
    (delivery,) = await _event(outside, topic="product.updated", resource={"id": 1})
    assert delivery["status"] == 500
    assert (len(receiver.deliveries), len(receiver.pings)) == (1, 2)


async def test_an_unreachable_receiver_is_a_delivery_without_a_status(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Records a delivery without a status when the receiver cannot be reached.

    See docs/design/fake-platforms.md#control.
    """
    await _listen(shop, "product.updated")

    def refuse(request: httpx.Request) -> None:
        raise httpx.ConnectError("refused", request=request)

    receiver.act = refuse
    (delivery,) = await _event(outside, topic="product.updated", resource={"id": 1})
    assert delivery["status"] is None


class _SilentServer(httpx.AsyncBaseTransport):
    """Takes every request and never answers."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("waited for ever")


async def test_a_receiver_that_does_not_respond_in_time_has_failed(
    shop: httpx.AsyncClient,
    outside: httpx.AsyncClient,
    platforms: FakePlatforms,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records a delivery without a status after the timeout of 5 s, which is shortened here.

    See docs/design/fake-platforms.md#services.
    """
    assert deliveries.TIMEOUT_SECONDS == 5.0
    await _listen(shop, "product.updated")
    monkeypatch.setattr(deliveries, "TIMEOUT_SECONDS", 0.01)
    platforms.set_webhook_transport(_SilentServer())
    (delivery,) = await _event(outside, topic="product.updated", resource={"id": 1})
    assert delivery["status"] is None


async def test_an_event_repeats_with_ids_of_its_own_or_all_with_one(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Gives repeated events different delivery ids, or all the same with `same_delivery_id`.

    See docs/design/fake-platforms.md#control.
    """
    await _listen(shop, "order.created")
    order = (await shop.get("orders")).json()[0]["id"]
    apart = await _event(outside, topic="order.created", resource_id=order, repeat=3)
    alike = await _event(outside, topic="order.created", resource_id=order, repeat=3, same_delivery_id=True)
    assert len({delivery["delivery_id"] for delivery in apart}) == 3
    assert len({delivery["delivery_id"] for delivery in alike}) == 1
    assert {delivery["delivery_id"] for delivery in apart}.isdisjoint(
        delivery["delivery_id"] for delivery in alike
    )
    assert all(json.loads(delivery.content)["id"] == order for delivery in receiver.deliveries)


async def test_an_event_can_be_padded_or_wrongly_signed(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Adds exactly `pad_bytes` bytes to the body, or signs it wrongly with `bad_signature`.

    See docs/design/fake-platforms.md#control.
    """
    await _listen(shop, "order.created")
    order = (await shop.get("orders")).json()[0]["id"]
    (plain,) = await _event(outside, topic="order.created", resource_id=order)
    (longer,) = await _event(outside, topic="order.created", resource_id=order, pad_bytes=70_000)
    assert longer["bytes"] == plain["bytes"] + 70_000
    assert longer["body_sha256"] == hashlib.sha256(receiver.deliveries[1].content).hexdigest()
    await _event(outside, topic="order.created", resource_id=order, bad_signature=True)
    bad = receiver.deliveries[2]
    assert bad.headers["x-wc-webhook-signature"] != _signed(bad.content)


async def test_order_created_without_an_object_makes_a_new_order_and_leaves_the_stock(
    shop: httpx.AsyncClient, outside: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Creates a new order without taking stock when the event names no object.

    See docs/design/fake-platforms.md#control.
    """
    await _listen(shop, "order.created")
    before = (await outside.get("/sandbox/state")).json()
    await _event(outside, topic="order.created")
    after = (await outside.get("/sandbox/state")).json()
    number = json.loads(receiver.deliveries[0].content)["id"]
    assert {row["id"] for row in after["orders"]} - {row["id"] for row in before["orders"]} == {number}
    assert after["products"] == before["products"]


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({}, 400),
        ({"topic": "order.painted"}, 400),
        ({"topic": "product.updated"}, 400),
        ({"topic": "product.updated", "resource_id": 999_999}, 404),
        ({"topic": "order.created", "repeat": -1}, 400),
        ({"topic": "order.created", "surprise": 1}, 400),
    ],
)
async def test_a_bad_event_is_refused_in_words(
    outside: httpx.AsyncClient, event: dict[str, Any], status: int
) -> None:
    """Answers 400 or 404 with a message. See docs/design/fake-platforms.md#control."""
    response = await outside.post("/sandbox/events", json=event)
    assert response.status_code == status
    assert list(response.json()) == ["error"]
