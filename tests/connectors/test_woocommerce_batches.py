"""WooCommerce batch calls: items judged one by one, and a single object written at its own address."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from steward.connectors.base.commands import (
    SetCustomerTags,
    SetOrderStatus,
    SetOrderTags,
    SetStatus,
    SetTags,
    SetVisible,
)
from steward.connectors.base.queries import (
    CUSTOMERS,
    ORDERS,
    PRODUCTS,
    CustomersQuery,
    OrdersQuery,
    ProductsQuery,
)
from steward.connectors.base.writing import WriteState
from steward.model.change import Part
from tests.connectors.fake_connections import Connection, FakePlatformsClient

APPLIED, CONFLICT, UNKNOWN = WriteState.APPLIED, WriteState.CONFLICT, WriteState.UNKNOWN
Asks = Callable[[Connection], Awaitable[Sequence[Any]]]


async def _products(shop: Connection) -> Sequence[Any]:
    return await shop.all(PRODUCTS, ProductsQuery(published_only=True))


async def _orders(shop: Connection) -> Sequence[Any]:
    return [order for order in await shop.all(ORDERS, OrdersQuery()) if order.status == "processing"]


async def _customers(shop: Connection) -> Sequence[Any]:
    return await shop.all(CUSTOMERS, CustomersQuery())


CASES: dict[str, tuple[str, Asks, Callable[[Any], Any]]] = {
    "product.set_visible": ("products", _products, lambda item: SetVisible(item, False)),
    "product.set_status": ("products", _products, lambda element: SetStatus(element, "draft")),
    "product.set_tags": ("products", _products, lambda one: SetTags(one, one.tags[1:], {})),
    "order.set_status": ("orders", _orders, lambda one: SetOrderStatus(one, "on-hold")),
    "order.set_tags": ("orders", _orders, lambda one: SetOrderTags(one, ("late",))),
    "customer.set_tags": ("customers", _customers, lambda one: SetCustomerTags(one, ("vip",))),
}


async def _parts(shop: Connection, name: str, count: int) -> list[Part]:
    _, listed, query = CASES[name]
    planned = shop.plan(name, *map(query, await listed(shop)))
    return [proposal.parts[-1] for proposal in planned.proposals][:count]


@pytest.mark.parametrize("name", CASES)
async def test_many_objects_are_written_in_one_call_with_outcomes_of_their_own(
    shop: Connection, world: FakePlatformsClient, name: str
) -> None:
    """Writes many objects in one call; an item that is gone is a conflict and the others are applied.

    See docs/design/connectors.md#woocommerce.
    """
    resource = CASES[name][0]
    first, gone, last = await _parts(shop, name, 3)
    assert shop.connector.writes[name].group([first, gone, last]) == [(first, gone, last)]
    rows: dict[int, Any] = getattr(world.world.state.shop, resource)
    del rows[int(gone.target)]
    outcomes = await shop.send([first, gone, last])
    assert [outcome.state for outcome in outcomes] == [APPLIED, CONFLICT, APPLIED]
    [entry] = world.written()
    assert (entry["method"], entry["path"]) == ("POST", f"/wp-json/wc/v3/{resource}/batch")
    now = await shop.reader().current([first, last])
    assert all(shop.connector.writes[name].same(current.part.after, current.value) for current in now)


@pytest.mark.parametrize("name", CASES)
async def test_one_object_is_written_at_its_own_address(
    shop: Connection, world: FakePlatformsClient, name: str
) -> None:
    """Writes a single object by PUT at its own address. See docs/design/connectors.md#operations."""
    [part] = await _parts(shop, name, 1)
    assert [outcome.state for outcome in await shop.send([part])] == [APPLIED]
    [entry] = world.written()
    assert (entry["method"], entry["path"]) == ("PUT", f"/wp-json/wc/v3/{CASES[name][0]}/{part.target}")


async def test_an_item_that_broke_in_the_shop_is_unknown(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Treats an item's 5xx inside a 200 response as unknown and its 400 as refused.

    See docs/design/connectors.md#errors.
    """
    parts = await _parts(shop, "product.set_visible", 2)
    update = [
        {"id": int(part.target), "error": {"code": "internal", "message": "Oh", "data": {"status": status}}}
        for part, status in zip(parts, (500, 400), strict=True)
    ]
    fault = {
        "kind": "status",
        "method": "POST",
        "path": "**/batch",
        "status": 200,
        "body": {"update": update},
    }
    world.world.state.faults.make(fault)
    states = [outcome.state for outcome in await shop.send(parts)]
    assert states == [UNKNOWN, WriteState.REFUSED]


def test_cancellations_are_sent_one_by_one(shop: Connection) -> None:
    """Sends each cancellation in a call of its own, right after the order was read again."""
    part = Part("order.cancel", shop.number, "1", {"status": "cancelled"}, {}, {"status": "cancelled"})
    other = Part("order.cancel", shop.number, "2", {"status": "cancelled"}, {}, {"status": "cancelled"})
    assert shop.connector.writes["order.cancel"].group([part, other]) == [(part,), (other,)]
