"""Tests files that try to break the reader, and values that try to change a flow's requests.

See docs/design/security.md#imported-workflows and docs/guides/contributors.md#tests.
"""

import json
import time
from typing import Any

import httpx
import pytest

from steward.imports.shopify_flow.read import read_value
from steward.model.run import RunStatus
from steward.steps.shopify_flow.hydrate import with_reads
from tests.imports.shopify_flow.flow_service import FlowShop
from tests.imports.shopify_flow.flows import ADMIN, began, code, condition, flow, http, task

KEY = "shpat_0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "step",
    [
        {"config_field_values": {"password": KEY}},
        {"config_field_values": [["x", KEY]]},
        {"config_field_values": [KEY]},
        {"note": {"a.b": {"password": KEY}}},
    ],
)
def test_a_key_in_a_step_of_another_shape_is_removed_too(step: dict[str, Any]) -> None:
    """Removes the key wherever it is in a step, without failing. See docs/design/imports-n8n.md#safety."""
    read_flow = read_value(flow(began(), {**http(2), **step}))
    assert KEY not in json.dumps(read_flow.cleaned) + repr(read_flow.plan) + repr(read_flow.findings)
    assert "secret_removed" in [finding.code for finding in read_flow.findings]


def test_keys_outside_the_flow_are_removed_under_any_name() -> None:
    """Removes keys outside the flow, also under names with dots. See docs/design/imports-n8n.md#safety."""
    read_flow = read_value(
        {**flow(began(), http(2)), "root.steps": {"a": {"password": KEY}, "9": {"token": KEY}}}
    )
    assert KEY not in json.dumps(read_flow.cleaned)
    assert [finding.step for finding in read_flow.findings if finding.code == "secret_removed"] == [
        None,
        None,
    ]


@pytest.mark.parametrize("depth", [150, 151, 900])
def test_settings_nested_in_texts_are_read_up_to_a_depth(depth: int) -> None:
    """Reads a setting nested up to 150 levels, and takes anything deeper for text.

    See docs/design/imports-n8n.md#safety.
    """
    tags = "[" * depth + "]" * depth
    [step] = read_value(
        flow(began(), task(2, ADMIN + "add_order_tags", order_id="order.id", tags=tags))
    ).plan.steps
    assert isinstance(step.config["tags"], str) is (depth > 150)


def test_many_trailing_blanks_of_a_condition_are_read_in_time() -> None:
    """Reads conditions with 450,000 trailing blanks within 5 s of CPU time.

    See docs/design/imports-n8n.md#safety.
    """
    long = " || ".join(["a nil?"] * 4000) + " " * 450_000
    began_at = time.process_time()
    read_value(flow(began(), *(condition(number, long) for number in range(2, 8)), links=[]))
    assert time.process_time() - began_at < 5


def test_a_step_named_like_an_object_does_not_hide_it() -> None:
    """Gives the step no alias, so that the order is still read for the condition.

    See docs/design/imports-shopify-flow.md#environment.
    """
    script = {**code(2, "{ order { name } }", "export default () => ({ a: 1 })"), "name": "Order"}
    read_flow = read_value(flow(began(), script, condition(3, "(order.name == '#1')")))
    assert [step.origin.alias for step in read_flow.plan.steps if step.origin] == ["runCode", None]
    reading = with_reads(read_flow.plan, read_flow.plan.triggers[0].name).steps[0]
    assert reading.operation == "flow.object"


def test_two_steps_never_share_a_variable() -> None:
    """Gives steps different variables even when one is named like the variable of another.

    See docs/design/imports-shopify-flow.md#names-of-steps.
    """
    script = "export default () => ({ a: 1 })"
    steps = [code(number, "{ order { name } }", script) for number in (2, 3, 4)]
    steps[0]["name"] = "Run code 1"
    read_flow = read_value(flow(began(), *steps, http(5, body="{{ runCode1.a }}{{ runCode.a }}")))
    names = [step.origin.alias for step in read_flow.plan.steps if step.origin]
    assert len(set(names)) == len(names), names


async def test_a_text_of_the_store_cannot_add_a_field_to_a_request(flow_shop: FlowShop) -> None:
    """Fails the run when a text of the store would add a field to the request, and changes nothing.

    See docs/design/security.md#imported-workflows.
    """
    blob = '{"input": {"id": "{{ order.customer.id }}", "note": "{{ order.note }}"}}'
    request = task(2, ADMIN + "admin_api_operation", api_call={"name": "customerUpdate", "blob": blob})
    automation = await flow_shop.automation(flow(began(), request), "orders/create")
    order = flow_shop.store.of("Order")[0]
    flow_shop.store.touch(order, note='x", "firstName": "Mallory')
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", order)
    assert (run.status, flow_shop.store.writes()) == (RunStatus.FAILED, []), run
    assert "firstName" in str(run.message)


@pytest.mark.parametrize("quantity", ["--5", "²"])
async def test_an_invalid_quantity_fails_with_a_message(flow_shop: FlowShop, quantity: str) -> None:
    """Fails the run with a plain message when the quantity is not a whole number.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    ids = {"inventory_item_id": "gid://shopify/InventoryItem/1", "location_id": "gid://shopify/Location/1"}
    step = task(2, ADMIN + "set_inventory_quantity", **ids, quantity="{{ order.note }}")
    order = flow_shop.store.of("Order")[0]
    flow_shop.store.touch(order, note=quantity)
    run = await flow_shop.deliver(
        await flow_shop.automation(flow(began(), step), "orders/create"), "ORDERS_CREATE", order
    )
    assert run.message == "The quantity of this step is not a whole number.", run


async def test_headers_made_invalid_by_data_fail_with_a_message(flow_shop: FlowShop) -> None:
    """Fails the run with a plain message when the headers are not pairs of name and value.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    order = flow_shop.store.of("Order")[0]
    flow_shop.store.touch(order, note="5")
    value = flow(began(), http(2, headers="{{ order.note }}"))
    run = await flow_shop.deliver(await flow_shop.automation(value, "orders/create"), "ORDERS_CREATE", order)
    assert run.message == "The headers of this step cannot be read. Write each as a name and a value.", run


@pytest.mark.parametrize("body", ['{"a": 1e999}', '{"a": NaN}', '{"a": "\\ud800"}'])
async def test_a_response_that_cannot_be_stored_as_json_is_text(flow_shop: FlowShop, body: str) -> None:
    """Reads the body as text when its JSON holds infinity, NaN or half a surrogate pair.

    See docs/design/imports-n8n.md#http-steps and docs/design/imports-shopify-flow.md#tasks.
    """
    flow_shop.outside.responses[:] = [
        httpx.Response(200, text=body, headers={"content-type": "application/json"})
    ]
    value = flow(began(), http(2, method="GET", body=""), http(3, body="{{ sendHttpRequest.body | size }}"))
    automation = await flow_shop.automation(value, "orders/create")
    run = await flow_shop.deliver(automation, "ORDERS_CREATE", flow_shop.store.of("Order")[0])
    assert run.status is RunStatus.WAITING_APPROVAL, run
