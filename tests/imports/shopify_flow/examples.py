"""Provides flows in the shapes of Shopify's own examples, with texts of our own, as JSON of files."""

from typing import Any

from tests.imports.shopify_flow.flows import (
    ADMIN,
    FLOW,
    began,
    code,
    compared,
    condition,
    flow,
    foreach,
    http,
    joined,
    listed,
    patched,
    task,
)

ORDER_ID = {"value": "{{ order.id }}", "default_value": "order.id"}
UNTAGGED = listed("NONE", "li.product.tags", "t", compared("t", "==", "x"))
DAILY = ["DTSTART;TZID=Europe/Berlin:20260101T060000\nRRULE:FREQ=DAILY;INTERVAL=1"]

HIGH_VALUE: dict[str, Any] = flow(
    began(),
    condition(2, "(order.totalPriceSet.shopMoney.amount >= 1000)"),
    task(3, ADMIN + "add_order_tags", order_id=ORDER_ID, tags=["Large", "{{ order.name }}"]),
    task(4, ADMIN + "remove_order_tags", order_id="order.id", tags=["Large"]),
    links=[(1, "output", 2), (2, "true", 3), (2, "false", 4)],
    name="Tag large orders",
)
PRESALE: dict[str, Any] = flow(
    began(),
    condition(
        2,
        joined(
            "AND",
            listed("ANY", "order.lineItems", "li", UNTAGGED),
            joined("OR", compared("order.note", "empty_or_nil?"), compared("order.test", "==", True)),
        ),
    ),
    foreach(3, "order.lineItems"),
    condition(4, "(lineItemsForeachitem.quantity > 1 && lineItemsForeachitem.sku start_with? 'P-')"),
    task(
        5,
        ADMIN + "add_product_tags",
        product_id={
            "value": "{{ lineItemsForeachitem.product.id }}",
            "default_value": "lineItemsForeachitem.product.id",
        },
        tags=["Sold"],
    ),
    task(
        6,
        FLOW + "send_email",
        address="{{ shop.email }}",
        subject="Order {{ order.name }}",
        message="{% for li in order.lineItems %}{{ li.title | upcase }}: {{ li.quantity }}\n{% endfor %}",
    ),
    links=[(1, "output", 2), (2, "true", 3), (3, "loop_body", 4), (4, "true", 5), (3, "after", 6)],
    name="Tag what was sold",
)  # fmt: skip
SCHEDULED: dict[str, Any] = flow(
    began(FLOW + "scheduled_time", recurrence=DAILY),
    task(2, FLOW + "fetch::products", query="status:draft", sort="UPDATED_AT desc", maximum="25"),
    foreach(3, "getProductData"),
    task(
        4,
        ADMIN + "add_product_tags",
        product_id="getProductDataForeachitem.id",
        tags=["{{ getProductDataForeachitem.vendor }}"],
    ),
    task(5, FLOW + "count", listpath="getProductData"),
    condition(6, joined("AND", compared("count", ">", "0", "Int"))),
    links=[(1, "output", 2), (2, "output", 3), (3, "loop_body", 4), (3, "after", 5), (5, "output", 6)],
    name="Tag drafts",
)
CODED: dict[str, Any] = flow(
    began("order_paid"),
    code(
        2,
        "query { order { lineItems { title quantity } } shop { name } }",
        "export default function main(input) {\n  return { n: input.order.lineItems.length };\n}",
        "type Output {\n  n: Int!\n}",
    ),
    condition(3, joined("AND", compared("runCode.n", ">", "2", "Int"))),
    http(
        4, headers=[["X-Order", "{{ order.name }}"]], body='{"n": {{ runCode.n }}}', on_server_error="retry"
    ),
    task(5, FLOW + "wait", "WAIT", duration="P1D"),
    task(6, FLOW + "sum", listpath="order.lineItems.quantity"),
    http(7, body="{{ sum }}{{ order.customer.tier.value }}"),
    patched_fields=[patched("Customer", "tier", "custom", "tier")],
    links=[
        (1, "output", 2),
        (2, "output", 3),
        (3, "true", 4),
        (3, "false", 5),
        (5, "output", 6),
        (6, "output", 7),
    ],
    name="Tell of long orders",
)
MUTATION: dict[str, Any] = flow(
    began("order_cancelled"),
    condition("two", "(order.customer.id not_empty_and_not_nil?)"),
    task(
        "three",
        ADMIN + "admin_api_operation",
        api_call={
            "name": "customerUpdate",
            "blob": '{"input": {"id": "{{ order.customer.id }}", "note": "{{ order.cancelReason }}"}}',
        },
    ),
    links=[(1, "output", "two"), ("two", "true", "three")],
    name="Note why",
)

EXAMPLES = (HIGH_VALUE, PRESALE, SCHEDULED, CODED, MUTATION)
