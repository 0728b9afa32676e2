"""Tests objects of a Shopify store as n8n's steps read them and as its events hand them on.

See docs/design/imports-verdict.md#start.
"""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from steward.automations.checks import RequestedTrigger
from steward.model.run import Run, RunStatus
from steward.model.trigger import TriggerKind
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, connections_of, node
from tests.imports.shopify_flow.flow_service import FlowShop, open_flow_shop

on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def see(displayed: str) -> dict[str, Any]:
    """Returns a step that fails with the expression `displayed` of each item that Told passed on."""
    return code("See", f"throw new Error(JSON.stringify($('Told').all().map(({{json: o}}) => {displayed})))")


@pytest.fixture
async def flow_shop(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[FlowShop]:
    """Provides a store with four products and an order."""
    opened = await open_flow_shop(database_url, clock, tmp_path)
    yield opened
    await opened.shop.service.close()


async def seen_by(flow_shop: FlowShop, run: Run) -> Any:
    """Returns the items in the message of the step See."""
    [message] = [row["message"] for row in await flow_shop.shop.steps(run) if row["name"] == "See"]
    return json.JSONDecoder().raw_decode(message, message.index("["))[0]


async def read(flow_shop: FlowShop, displayed: str, **parameters: Any) -> Any:
    """Runs a step that reads Shopify and returns what it passes on."""
    export = chain(node("Told", "shopify", 1, {"operation": "getAll", **parameters}), see(displayed))
    integration = flow_shop.shop.connections["shopify"].integration_id
    run = await flow_shop.shop.run_and_drain(
        await automated(flow_shop.shop, export, integration_id=integration)
    )
    return await seen_by(flow_shop, run)


async def run_of_event(
    flow_shop: FlowShop, topic: str, native: str, row: Mapping[str, Any], displayed: str
) -> Any:
    """Delivers an event and returns what the steps behind the trigger get."""
    nodes = [node("Told", "shopifyTrigger", 1, {"topic": topic}), node("Pass", "noOp", 1, {}), see(displayed)]
    export = {"name": topic, "nodes": nodes, "connections": connections_of(nodes), "settings": {}}
    automation = await automated(
        flow_shop.shop,
        export,
        integration_id=flow_shop.shop.connections["shopify"].integration_id,
        trigger=RequestedTrigger(TriggerKind.EVENT, (topic,)),
    )
    await flow_shop.resumed(automation)
    run = await flow_shop.deliver(automation, native, row)
    assert run.status is RunStatus.FAILED, run
    return await seen_by(flow_shop, run)


def add_orders(flow_shop: FlowShop) -> list[str]:
    """Adds an older, a cancelled and an archived order, and returns the names of all orders."""
    store, [first] = flow_shop.store, flow_shop.store.of("Order")
    lines = [row for row in store.of("ProductVariant")][:1]
    fields: tuple[dict[str, Any], ...] = (
        {"createdAt": "2026-01-01T00:00:00Z", "displayFinancialStatus": "PARTIALLY_REFUNDED"},
        {"cancelledAt": "2026-01-02T00:00:00Z"},
        {"closedAt": "2026-01-02T00:00:00Z"},
    )
    return [first["name"], *(store.add_order(lines, **more)["name"] for more in fields)]


@on_one_engine
async def test_only_open_orders_are_listed_newest_first(flow_shop: FlowShop) -> None:
    """Lists open orders newest first, as the REST API does; the status `any` lists all.

    See docs/design/imports-n8n.md#node-types.
    """
    newest, oldest, *_ = add_orders(flow_shop)
    displayed = "[o.name, o.financial_status, o.fulfillment_status]"
    assert await read(flow_shop, displayed) == [[newest, "paid", None], [oldest, "partially_refunded", None]]
    buyer = "[o.name, o.customer.first_name, o.customer.last_name]"
    assert await read(flow_shop, buyer, limit=1) == [[newest, "Ada", "Lovelace"]]
    assert len(await read(flow_shop, "o.name", options={"status": "any"})) == 4


@on_one_engine
async def test_products_are_listed_by_title_with_the_chosen_fields(flow_shop: FlowShop) -> None:
    """Lists products by title with the fields that the step names.

    See docs/design/imports-n8n.md#node-types.
    """
    request_body = {"resource": "product", "limit": 2, "options": {"fields": "title, status"}}
    assert await read(flow_shop, "o", **request_body) == [
        {"title": "Cup", "status": "active"},
        {"title": "Lid", "status": "active"},
    ]


@on_one_engine
async def test_an_event_passes_its_object_on(flow_shop: FlowShop) -> None:
    """Reads the object of an event, since a delivery has only its ids and times."""
    [order] = flow_shop.store.of("Order")
    displayed = "[o.name, o.financial_status, o.email, o.line_items.map(line => line.title)]"
    goods = ["Mug", "Pot", "Lid"]
    [item] = await run_of_event(flow_shop, "orders/create", "ORDERS_CREATE", order, displayed)
    assert item == [order["name"], "paid", order["email"], goods]
    product = next(row for row in flow_shop.store.of("Product") if row["title"] == "Mug")
    displayed = "[o.title, o.variants[0].price]"
    [item] = await run_of_event(flow_shop, "products/update", "PRODUCTS_UPDATE", product, displayed)
    assert item == ["Mug", "12.50"]
    customer = flow_shop.store.add_customer("Ann Lee", spent="40.00", orders=2)
    displayed = "[o.email, o.first_name, o.last_name, o.orders_count, o.total_spent]"
    [item] = await run_of_event(flow_shop, "customers/update", "CUSTOMERS_UPDATE", customer, displayed)
    assert item == [customer["email"], "Ann", "Lee", 2, "40.00"]


@on_one_engine
async def test_an_event_of_a_deleted_object_passes_its_body_on(flow_shop: FlowShop) -> None:
    """Passes on the delivered id of a deleted object, which cannot be read."""
    [order] = flow_shop.store.of("Order")
    assert await run_of_event(flow_shop, "orders/delete", "ORDERS_DELETE", order, "Object.keys(o)") == [
        ["id"]
    ]
