"""Tests flows on WooCommerce: steps with a counterpart run, and the import names all others."""

from typing import Any

import httpx

from steward.automations.platforms import platforms_of, unsupported_parts
from steward.connectors.base.queries import FLOW_OBJECTS, ORDERS, PRODUCT, ById, FlowObjectsQuery, OrdersQuery
from steward.connectors.woocommerce.flow_objects import unsupported_paths
from steward.model import plan_json
from steward.model.change import Outcome
from steward.model.plan import Plan
from steward.model.run import RunStatus
from tests.imports.shopify_flow.flow_service import FlowShop
from tests.imports.shopify_flow.flows import ADMIN, began, condition, flow, foreach, task
from tests.runs.shop import connect_all
from tests.service import Service

SOLD: dict[str, Any] = flow(
    began(),
    condition(2, "(order.totalPrice > 10)"),
    foreach(3, "order.lineItems"),
    condition(4, "(lineItemsForeachitem.quantity >= 2)"),
    task(5, ADMIN + "add_product_tags", product_id="lineItemsForeachitem.product.id", tags=["In Demand"]),
    task(6, ADMIN + "cancel_order", order_id="order.id", restock="true"),
    links=[(1, "output", 2), (2, "true", 3), (3, "loop_body", 4), (4, "true", 5), (2, "false", 6)],
    name="Tag what sells",
)


async def bought(flow_shop: FlowShop, *lines: tuple[int, int]) -> str:
    """Places an order of these products and quantities, delivers its event and returns its number."""
    service = Service(flow_shop.shop.service.context, flow_shop.shop.clock, lines=[], wake_hints=[])
    world = flow_shop.shop.world
    world.set_webhook_transport(httpx.ASGITransport(app=service.app))
    keys = world.described()["woocommerce"]
    request_body = {
        "line_items": [{"product_id": number, "quantity": quantity} for number, quantity in lines]
    }
    auth = (keys["consumer_key"], keys["consumer_secret"])
    async with httpx.AsyncClient(transport=world.transport(), auth=auth) as client:
        response = await client.post(f"{keys['url']}/wp-json/wc/v3/orders", json=request_body)
    assert response.status_code == 201, response.text
    await world.settle()
    await flow_shop.shop.drain()
    return str(response.json()["id"])


async def test_a_flow_runs_on_a_shop_where_its_steps_have_counterparts(flow_shop: FlowShop) -> None:
    """Reads the order under the flow's names and, once approved, tags the product that the rule matches."""
    shop = flow_shop.shop
    await connect_all(shop)
    service = Service(shop.service.context, shop.clock, lines=[], wake_hints=[])
    shop.world.set_webhook_transport(httpx.ASGITransport(app=service.app))
    automation = await flow_shop.automation(SOLD, "orders/create", on="woocommerce")
    access = shop.service.worker_context.access
    reader = await access.reader(shop.owner.org, shop.connections["woocommerce"])
    simple = [
        row
        for row in shop.world.state.shop.products.values()
        if row["type"] == "simple" and row["regular_price"]
    ][:2]
    first, second = (row["id"] for row in simple)
    order = await bought(flow_shop, (first, 2), (second, 1))
    [run] = await flow_shop.runs(automation)
    [change] = await shop.changes(run)
    assert change.proposal.object.id == str(first)
    assert [part.operation for part in change.proposal.parts] == ["product_tag.create", "product.set_tags"]
    ended = await flow_shop.approved(run)
    assert ended.status is RunStatus.SUCCEEDED, await shop.steps(ended)
    assert [change.outcome for change in await shop.changes(ended)] == [Outcome.APPLIED]
    [product] = [item async for page in reader.read(PRODUCT, ById(str(first))) for item in page.items]
    assert "In Demand" in product.tags
    newest = FlowObjectsQuery("orders", ("orders.id", "orders.lineItems.product.id"), sort="ID desc", limit=1)
    [newest_order] = [item async for page in reader.read(FLOW_OBJECTS, newest) for item in page.items]
    assert (newest_order["id"], [line["product"]["id"] for line in newest_order["lineItems"]]) == (
        order,
        [str(first), str(second)],
    )
    [read] = [item async for page in reader.read(ORDERS, OrdersQuery(ids=(order,))) for item in page.items]
    assert (newest_order["totalPrice"], newest_order["customer"]) == (read.total, None)


async def test_steps_and_fields_without_a_counterpart_are_named(flow_shop: FlowShop) -> None:
    """Names a step, or a field, that has no counterpart, and lists the platforms that a plan can run on."""

    async def plan_of(value: dict[str, Any]) -> Plan:
        return plan_json.from_json((await flow_shop.store_import(value)).record.plan)

    tagging = flow(
        began(),
        condition(2, "(order.risk.assessments any? |a| (a.riskLevel == 'HIGH'))"),
        task(3, ADMIN + "add_order_tags", order_id="order.id", tags=["x"]),
        links=[(1, "output", 2), (2, "true", 3)],
    )
    plan = await plan_of(tagging)
    assert unsupported_parts(plan, "shopify") == []
    assert platforms_of(plan) == ("shopify",)
    findings = [(finding.step, finding.message) for finding in unsupported_parts(plan, "woocommerce")]
    assert [step for step, _ in findings] == ["Add order tags", None]
    assert "order.risk.assessments.riskLevel" in findings[1][1]
    assert set(platforms_of(await plan_of(SOLD))) == {"shopify", "woocommerce"}


def test_a_field_is_reported_only_where_the_shop_has_it() -> None:
    """Supports exactly the paths that WooCommerce has a value for.

    See docs/design/imports-shopify-flow.md#reading-objects and docs/design/connectors.md#common-records.
    """
    paths = (
        *(
            "order.name",
            "order.lineItems",
            "order.lineItems.first.sku",
            "order.customer",
            "order.lineItems.size",
        ),
        *("order.totalPriceSet.shopMoney.amount", "order.customer.id"),
    )
    assert unsupported_paths("order", paths) == []
    missing = (
        "order.tags",
        "order.lineItems.product.tags",
        "order.customer.tags",
        "order.name.x",
        "order.risk",
    )
    assert unsupported_paths("order", missing) == list(missing)
    assert unsupported_paths("shop", ("shop.email",)) == ["shop.email"]
    assert unsupported_paths("product", ("product.variants.price", "product.vendor")) == ["product.vendor"]
