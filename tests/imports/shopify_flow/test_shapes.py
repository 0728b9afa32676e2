"""Runs flows in the shapes of Shopify's own examples: they change exactly what they proposed."""

from collections import Counter
from typing import Any

from steward.model.change import Outcome
from steward.model.run import Run, RunStatus
from tests.fakes.shopify.goods import Row
from tests.imports.shopify_flow.flow_service import FlowShop
from tests.imports.shopify_flow.flows import ADMIN, FLOW, began, code, condition, flow, foreach, task

ORDER_ID = {"value": "{{ order.id }}", "default_value": "order.id"}


async def proposed(flow_shop: FlowShop, run: Run) -> list[tuple[str, str, Any, Any]]:
    """Returns object, field, before and after of each proposed change; nothing is changed yet."""
    assert run.status is RunStatus.WAITING_APPROVAL, (run, await flow_shop.shop.steps(run))
    assert flow_shop.store.applied() == []
    changes = await flow_shop.shop.changes(run)
    return [
        (change.proposal.object.label, field.field, field.before, field.after)
        for change in changes
        for field in change.proposal.fields
    ]


async def approve_and_check(flow_shop: FlowShop, run: Run) -> None:
    """Approves the run and checks that everything was made exactly once."""
    ended = await flow_shop.approved(run)
    assert ended.status is RunStatus.SUCCEEDED, (ended, await flow_shop.shop.steps(run))
    assert {change.outcome for change in await flow_shop.shop.changes(run)} <= {
        Outcome.APPLIED,
        Outcome.UNCHANGED,
    }
    keys = Counter(entry["idempotency_key"] for entry in flow_shop.store.applied())
    assert set(keys.values()) <= {1}


def order_of(flow_shop: FlowShop) -> Row:
    """Returns the only order of the store."""
    [order] = flow_shop.store.of("Order")
    return order


async def test_a_large_order_is_tagged_once_approved_and_a_small_one_left_alone(
    on_both_engines: FlowShop,
) -> None:
    """Tags a large order once after approval.

    A tagged order, and one below the limit, give no change.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    value = flow(
        began(),
        condition(2, "(order.totalPrice > 500)"),
        task(3, ADMIN + "add_order_tags", order_id=ORDER_ID, tags=["High-Value", "of {{ order.name }}"]),
        links=[(1, "output", 2), (2, "true", 3)],
    )
    automation, order = await on_both_engines.automation(value, "orders/create"), order_of(on_both_engines)
    tags = sorted(["High-Value", f"of {order['name']}"])
    run = await on_both_engines.deliver(automation, "ORDERS_CREATE", order)
    assert await proposed(on_both_engines, run) == [(f"{order['name']}, Ada Lovelace", "tags", [], tags)]
    await approve_and_check(on_both_engines, run)
    assert sorted(order["tags"]) == tags
    await on_both_engines.shop.clock.advance(700)  # events soon after a change count as its echo
    on_both_engines.store.touch(order, email="other@shop.example")
    second_run = await on_both_engines.deliver(automation, "ORDERS_CREATE", order)
    assert (second_run.status, await on_both_engines.shop.changes(second_run)) == (RunStatus.SUCCEEDED, [])
    on_both_engines.store.touch(order, totalPriceSet=on_both_engines.store.money("499.99"), tags=[])
    small = await on_both_engines.deliver(automation, "ORDERS_CREATE", order)
    assert (small.status, order["tags"]) == (RunStatus.SUCCEEDED, [])


async def test_a_risky_order_is_put_on_hold(flow_shop: FlowShop) -> None:
    """Puts an order with high risk on hold, and leaves an order without risk unchanged."""
    value = flow(
        began("order_risk_analyzed"),
        condition(2, "(order.risk.assessments any? |a| (a.riskLevel == 'high'))"),
        task(
            3,
            ADMIN + "hold_fulfillment_order",
            order_id="order.id",
            reason="HIGH_RISK_OF_FRAUD",
            reason_notes="Look at {{ order.name }}",
        ),
        links=[(1, "output", 2), (2, "true", 3)],
    )
    automation, order = await flow_shop.automation(value, "orders/updated"), order_of(flow_shop)
    calm = await flow_shop.deliver(automation, "ORDERS_UPDATED", order)
    assert (calm.status, await flow_shop.shop.changes(calm)) == (RunStatus.SUCCEEDED, [])
    order["risk"] = {"assessments": [{"riskLevel": "HIGH", "facts": []}]}
    run = await flow_shop.deliver(automation, "ORDERS_UPDATED", order)
    label = f"{order['name']}, Ada Lovelace"
    assert await proposed(flow_shop, run) == [(label, "fulfilment", "open", "on_hold")]
    [beside] = [change.proposal.message for change in await flow_shop.shop.changes(run)]
    assert beside == f"Reason: high_risk_of_fraud. Look at {order['name']}"
    await approve_and_check(flow_shop, run)
    sending = flow_shop.store.rows[order["fulfillmentOrders"][0]]
    assert (sending["status"], sending["holds"]) == ("ON_HOLD", ["steward"])
    [sent] = [entry["body"]["variables"]["hold"] for entry in flow_shop.store.applied()]
    assert (sent["reason"], sent["reasonNotes"]) == ("HIGH_RISK_OF_FRAUD", f"Look at {order['name']}")


async def test_changes_of_all_scheduled_elements_share_one_approval(flow_shop: FlowShop) -> None:
    """Shows the changes of every matching element, and of the steps after the loop, in one approval.

    See docs/design/runs.md#execution.
    """
    for index in range(12):
        flow_shop.store.add_product(
            f"Draft {index:02}", status="DRAFT", vendor="Oven" if index % 2 else "Kiln"
        )
    recurrence = ["DTSTART;TZID=Europe/Berlin:20260101T060000\nRRULE:FREQ=DAILY;INTERVAL=1"]
    value = flow(
        began(FLOW + "scheduled_time", recurrence=recurrence),
        task(2, FLOW + "fetch::products", query="status:draft", sort="TITLE desc", maximum="10"),
        foreach(3, "getProductData"),
        condition(4, "(getProductDataForeachitem.vendor == 'oven')"),
        task(
            5,
            ADMIN + "add_product_tags",
            product_id={
                "value": "{{ getProductDataForeachitem.id }}",
                "default_value": "getProductDataForeachitem.id",
            },
            tags=["by {{ getProductDataForeachitem.vendor }}"],
        ),
        task(6, FLOW + "count", listpath="getProductData"),
        condition(7, "(count == 10)"),
        task(8, ADMIN + "created_redirect_url", path="/drafts", target="/{{ count }}"),
        links=[
            *((1, "output", 2), (2, "output", 3), (3, "loop_body", 4), (4, "true", 5)),
            *((3, "after", 6), (6, "output", 7), (7, "true", 8)),
        ],
    )
    run = await flow_shop.shop.run_and_drain(await flow_shop.automation(value))
    expected = [(f"Draft {location:02}", "tags", [], ["by Oven"]) for location in (11, 9, 7, 5, 3)]
    assert await proposed(flow_shop, run) == [*expected, ("/drafts", "target", None, "/10")]
    await approve_and_check(flow_shop, run)
    tagged = [row["title"] for row in flow_shop.store.of("Product") if row["tags"] == ["by Oven"]]
    assert tagged == [f"Draft {position:02}" for position in (3, 5, 7, 9, 11)]
    assert [row["target"] for row in flow_shop.store.of("UrlRedirect")] == ["/10"]


async def test_every_element_may_put_a_tag_of_its_own_on_one_order(flow_shop: FlowShop) -> None:
    """Adds the tags of several elements and branches to one order without a conflict.

    See docs/design/runs.md#execution.
    """
    value = flow(
        began(),
        foreach(2, "order.lineItems"),
        task(
            3,
            ADMIN + "add_order_tags",
            order_id="order.id",
            tags=["has {{ lineItemsForeachitem.title }}", "x"],
        ),
        task(4, ADMIN + "remove_order_tags", order_id="order.id", tags=["Open"]),
        task(5, ADMIN + "add_order_tags", order_id="order.id", tags=["{% if order.test %}Test{% endif %}"]),
        links=[(1, "output", 2), (2, "loop_body", 3), (1, "output", 4), (1, "output", 5)],
    )
    automation, order = await flow_shop.automation(value, "orders/create"), order_of(flow_shop)
    order["tags"] = ["open", "own"]
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", order)
    requests = sorted((before, after) for _, _, before, after in await proposed(flow_shop, run))
    assert requests == [([], [f"has {name}", "x"]) for name in ("Lid", "Mug", "Pot")] + [(["open"], [])]
    await approve_and_check(flow_shop, run)
    assert sorted(order["tags"]) == ["has Lid", "has Mug", "has Pot", "own", "x"]


async def test_later_steps_use_the_output_of_code(flow_shop: FlowShop) -> None:
    """Uses the output of code in a later condition, note and metafield."""
    script = (
        "export default function main(input) {\n"
        "  const pots = input.order.lineItems.filter((one) => one.product.tags.includes('fragile'));\n"
        "  return { fragile: pots.reduce((sum, one) => sum + one.quantity, 0), names: pots.length };\n}"
    )
    value = flow(
        began("order_paid"),
        code(
            2,
            "query { order { lineItems { quantity product { tags } } } }",
            script,
            "type Output { fragile: Int! names: Int! }",
        ),
        condition(3, "(runCode.fragile >= 4)"),
        task(
            4,
            ADMIN + "update_order_note",
            order_id="order.id",
            note="{{ runCode.fragile }} fragile: soft box",
        ),
        task(
            5,
            ADMIN + "add_order_metafield",
            order_id="order.id",
            namespace="custom",
            key="fragile",
            value_type="number_integer",
            value="\n{{ runCode.fragile | plus: runCode.names }}\n",
        ),
        links=[(1, "output", 2), (2, "output", 3), (3, "true", 4), (2, "output", 5)],
    )
    for name in ("Mug", "Lid"):
        [product] = [row for row in flow_shop.store.of("Product") if row["title"] == name]
        product["tags"] = ["fragile"]
    automation, order = await flow_shop.automation(value, "orders/paid"), order_of(flow_shop)
    run = await flow_shop.deliver(automation, "ORDERS_PAID", order)
    label = f"{order['name']}, Ada Lovelace"
    assert sorted(await proposed(flow_shop, run)) == [
        (label, "custom.fragile", None, "6"),
        (label, "note", "", "4 fragile: soft box"),
    ]
    await approve_and_check(flow_shop, run)
    assert order["note"] == "4 fragile: soft box"
    assert [row["value"] for row in flow_shop.store.of("Metafield")] == ["6"]


async def test_both_branches_of_conditions_are_followed(flow_shop: FlowShop) -> None:
    """Cancels, captures or tags an order as two conditions decide."""
    value = flow(
        began("order_risk_analyzed"),
        condition(2, "(order.risk.assessments all? |a| (a.riskLevel != 'HIGH'))"),
        condition(3, "(order.capturable == true)"),
        task(4, ADMIN + "capture_payment", order_id="order.id"),
        task(5, ADMIN + "add_order_tags", order_id="order.id", tags=["Payment-Hold"]),
        task(6, ADMIN + "cancel_order", order_id="order.id", reason="FRAUD", restock="false"),
        links=[(1, "output", 2), (2, "true", 3), (2, "false", 6), (3, "true", 4), (3, "false", 5)],
    )
    automation = await flow_shop.automation(value, "orders/updated")
    variants = flow_shop.store.of("ProductVariant")[:1]
    expected = {
        ("HIGH", "PENDING"): ("order.cancel", ("PENDING", [], True)),
        ("LOW", "AUTHORIZED"): ("order.capture", ("PAID", [], False)),
        ("LOW", "PENDING"): ("order.change_tags", ("PENDING", ["Payment-Hold"], False)),
    }
    for (risk, payment), (operation, actual) in expected.items():
        order = flow_shop.store.add_order(variants, payment=payment, risk=risk)
        write_count = len(flow_shop.store.applied())
        run = await flow_shop.deliver(automation, "ORDERS_UPDATED", order)
        assert len(flow_shop.store.applied()) == write_count
        changes = await flow_shop.shop.changes(run)
        assert [part.operation for change in changes for part in change.proposal.parts] == [operation]
        await approve_and_check(flow_shop, run)
        order_state = (order["displayFinancialStatus"], order["tags"], order["cancelledAt"] is not None)
        assert (len(flow_shop.store.applied()), order_state) == (write_count + 1, actual)


async def test_a_test_run_shows_all_changes_and_makes_none(flow_shop: FlowShop) -> None:
    """Shows every change as refused in a test run and changes nothing.

    See docs/design/runs.md#test-runs and docs/design/security.md#promises.
    """
    value = flow(
        began(),
        foreach(2, "order.lineItems"),
        task(3, ADMIN + "add_product_tags", product_id="lineItemsForeachitem.product.id", tags=["sold"]),
        task(4, ADMIN + "archive_order", order_id="order.id"),
        links=[(1, "output", 2), (2, "loop_body", 3), (2, "after", 4)],
    )
    run = await flow_shop.finished_test_run(await flow_shop.automation(value, "orders/create"))
    assert run.status is RunStatus.SUCCEEDED, run
    changes = await flow_shop.shop.changes(run)
    assert [(change.proposal.object.label, change.outcome) for change in changes][:3] == [
        (f"{name} ({name.upper()})", Outcome.REFUSED_TEST) for name in ("Mug", "Pot", "Lid")
    ]
    assert len(changes) == 4
    assert flow_shop.store.writes() == []
