"""Tests Shopify Flow files in the web app: read, drawn with their ports, and checked against a store."""

from playwright.async_api import expect

from tests.imports.shopify_flow.flows import ADMIN, FLOW, began, condition, flow, foreach, task, text_of
from tests.web.conftest import Look
from tests.web.test_imports import _drop

SOLD = flow(
    began(),
    condition(2, "(order.totalPrice > 10)"),
    foreach(3, "order.lineItems"),
    task(4, ADMIN + "add_product_tags", product_id="lineItemsForeachitem.product.id", tags=["Sold"]),
    task(5, FLOW + "send_email", address="{{ shop.email }}", subject="{{ order.name }}", message="Look"),
    task(6, ADMIN + "archive_order", order_id="order.id"),
    links=[
        (1, "output", 2),
        (2, "true", 3),
        (2, "false", 6),
        (3, "loop_body", 4),
        (3, "after", 5),
    ],
    name="Tag what was sold",
)


async def test_a_flow_is_drawn_with_its_ports_and_says_what_a_shop_lacks(open_page: Look) -> None:
    """The graph shows each step's ports, and steps without a WooCommerce counterpart are named.

    See docs/design/web.md#imports and docs/design/web.md#plan-graph.
    """
    seen = await open_page("member")
    page = seen.page
    await seen.open("/imports/new")
    await _drop(page, text_of(SOLD), "sold.flow")
    await expect(page.get_by_label("Shopify Flow")).to_be_checked()
    await expect(page.get_by_label("Name")).to_have_value("Tag what was sold")
    await expect(page.locator(".svelte-flow__node")).to_have_count(5)
    edges = page.locator(".svelte-flow__edge-text, .svelte-flow__edge-label")
    for port in ("true", "false", "loop", "done"):
        await expect(edges.filter(has_text=port)).to_have_count(1)
    await page.get_by_role("button", name="Keep this import").click()
    await expect(page.get_by_role("heading", name="Tag what was sold")).to_be_visible()
    await page.get_by_role("button", name="Run as automation").click()
    await expect(page.get_by_text("Archive order: It has no counterpart in WooCommerce")).to_be_visible()
    bound = page.get_by_role("list", name="Steps that need a connection")
    await expect(bound.get_by_text("Send internal email", exact=True)).to_be_visible()
