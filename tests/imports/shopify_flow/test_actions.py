"""Runs every action of flows beside the fake store: each is approved and made exactly once."""

import json
from collections import Counter
from typing import Any

import pytest

from steward.model.change import Outcome
from steward.model.run import RunStatus
from steward.steps.shopify_flow.actions import ACTIONS
from steward.steps.shopify_flow.admin_api import MUTATIONS
from steward.steps.shopify_flow.task_types import TaskDefinition
from steward.steps.shopify_flow.types import FLOW_TYPES
from tests.connectors.shopify.every_operation import OPERATIONS
from tests.fakes.shopify.goods import Row
from tests.fakes.shopify.store import ShopifyFake
from tests.imports.shopify_flow.flow_service import FlowShop
from tests.imports.shopify_flow.flows import ADMIN, began, flow, task

REQUEST = ADMIN + "admin_api_operation"


def populated(store: ShopifyFake) -> dict[str, Row]:
    """Returns an object for every change below, so that no two changes touch the same object."""
    variants = store.of("ProductVariant")[:1]
    objects = {f"product{index}": store.add_product(f"Jar {index}", stock=4) for index in range(9)}
    objects |= {f"order{position}": store.add_order(variants, tags=["old"]) for position in range(10)}
    objects |= {f"person{number}": store.add_customer(f"Bo {number}") for number in range(5)}
    objects |= {"draft0": store.add_draft("#D1"), "draft1": store.add_draft("#D2")}
    objects["draft1"]["tags"] = ["old"]
    objects["captured"] = store.add_order(variants, payment="AUTHORIZED")
    for name in ("released", "freed"):
        objects[name] = store.add_order(variants)
        store.rows[objects[name]["fulfillmentOrders"][0]].update(status="ON_HOLD", holds=["other"])
    objects["order5"]["closedAt"] = objects["order5"]["createdAt"]
    objects["redirect"] = store.make("UrlRedirect", path="/jar", target="/old")
    return objects


def actions(objects: dict[str, Row], store: ShopifyFake) -> list[tuple[str, dict[str, Any]]]:
    """Returns the task and fields of every action."""
    ids = {name: row["id"] for name, row in objects.items()}
    [variant] = store.owned(ids["product4"])
    [stocked] = store.owned(ids["product5"])
    online, location = store.of("Publication")[0]["id"], store.of("Location")[0]["id"]
    field = {"namespace": "custom", "key": "care", "value_type": "single_line_text_field", "value": "Wash"}
    other = {"metafield": {"namespace": "custom", "key": "care", "type": "single_line_text_field"}}
    return [
        ("add_order_tags", {"order_id": ids["order0"], "tags": ["new"]}),
        ("remove_order_tags", {"order_id": ids["order1"], "tags": ["OLD", "none"]}),
        ("add_product_tags", {"product_id": ids["product0"], "tags": ["new, newer"]}),
        ("remove_product_tags", {"product_id": ids["product1"], "tags": "gone"}),
        ("add_draft_order_tags", {"draft_order_id": ids["draft0"], "tags": ["new"]}),
        ("remove_draft_order_tags", {"draft_order_id": ids["draft1"], "tags": ["old"]}),
        ("add_customer_tags", {"customer_id": ids["person0"], "tags": ["new"]}),
        ("remove_customer_tags", {"customer_id": ids["person1"], "tags": ["gone"]}),
        ("add_order_metafield", {"order_id": ids["order2"], **field}),
        ("update_product_metafield", {"product_id": ids["product2"], "value": "Dry", **other}),
        ("add_customer_metafield", {"customer_id": ids["person2"], **field}),
        ("add_product_variant_metafield", {"product_variant_id": variant["id"], **field}),
        ("created_redirect_url", {"path": "/jar", "target": "/jars", "overwrite_target": "true"}),
        ("capture_payment", {"order_id": ids["captured"]}),
        ("cancel_order", {"order_id": ids["order3"], "reason": "CUSTOMER", "restock": "true"}),
        ("archive_order", {"order_id": ids["order4"]}),
        ("unarchive_order", {"order_id": ids["order5"]}),
        ("update_order_note", {"order_id": ids["order6"], "note": "Call {{ order.name }}"}),
        ("update_customer_note", {"customer_id": ids["person3"], "note": "Blue"}),
        ("hold_fulfillment_order", {"order_id": ids["order7"], "reason": "OTHER"}),
        (
            "release_fulfillment_order",
            {"fulfillment_order_id": objects["released"]["fulfillmentOrders"][0]},
        ),
        ("update_product_status", {"product_id": ids["product3"], "status": "DRAFT"}),
        ("hide_product", {"product_id": ids["product6"], "publication_id": online}),
        ("publish_product", {"product_id": ids["product7"], "publication_id": online}),
        (
            "set_inventory_quantity",
            {"inventory_item_id": stocked["item"], "location_id": location, "quantity": "9"},
        ),
        (REQUEST.removeprefix(ADMIN), {"api_call": called("tagsAdd", id=ids["order8"], tags=["by request"])}),
    ]


def called(name: str, /, **arguments: Any) -> dict[str, str]:
    """Returns a request to the Admin API as files spell it."""
    return {"name": name, "blob": json.dumps(arguments, indent=2)}


async def run_of(flow_shop: FlowShop, steps: list[tuple[str, dict[str, Any]]]) -> Any:
    """Runs a flow whose steps all follow its trigger directly."""
    tasks = [task(index, ADMIN + name, **fields) for index, (name, fields) in enumerate(steps, start=2)]
    value = flow(began(), *tasks, links=[(1, "output", record["step_id"]) for record in tasks])
    automation = await flow_shop.automation(value, "orders/create")
    first = flow_shop.store.of("Order")[0]
    return await flow_shop.deliver(automation, "ORDERS_CREATE", first)


async def test_all_actions_share_one_approval_and_are_made_once(flow_shop: FlowShop) -> None:
    """Shows all actions in one approval, makes nothing before it, and makes each exactly once after it.

    See docs/design/imports-shopify-flow.md#tasks and docs/design/security.md#promises.
    """
    objects = populated(flow_shop.store)
    objects["product7"]["publications"] = []
    objects["product1"]["tags"] = objects["person1"]["tags"] = ["Gone", "kept"]
    steps = actions(objects, flow_shop.store)
    registered = {name.removeprefix(ADMIN) for kind in ACTIONS for name in kind.tasks}
    same = {
        "add_product_metafield",
        "update_order_metafield",
        "update_customer_metafield",
        "unpublish_product",
    }
    same |= {"update_product_variant_metafield", "create_redirect_url", "release_fulfillment_order_hold"}
    same |= {"update_inventory_quantity"}
    assert registered == {name for name, _ in steps[:-1]} | same
    run = await run_of(flow_shop, steps)
    assert run.status is RunStatus.WAITING_APPROVAL, await flow_shop.shop.steps(run)
    assert flow_shop.store.writes() == []
    changes = await flow_shop.shop.changes(run)
    assert len(changes) == len(steps)
    done = {change.proposal.parts[0].operation for change in changes}
    unused = {"variant.set_price", "refund.create", "redirect.create"}
    combined = (".set_fields", ".set_tags")
    assert done == {name for name in OPERATIONS if name not in unused and not name.endswith(combined)}
    ended = await flow_shop.approved(run)
    actual = {change.name: (change.outcome, change.message) for change in await flow_shop.shop.changes(run)}
    assert {outcome for outcome, _ in actual.values()} == {Outcome.APPLIED}, actual
    assert ended.status is RunStatus.SUCCEEDED, ended
    keys = Counter(entry["idempotency_key"] for entry in flow_shop.store.applied())
    touched = Counter(
        (item["id"], *item["fields"]) for entry in flow_shop.store.applied() for item in entry["objects"]
    )
    assert set(keys.values()) == {1}
    # Each of a product's two tags is a separate change.
    assert {item for item, times in touched.items() if times > 1} == {(objects["product0"]["id"], "tags")}
    assert (objects["product0"]["tags"], objects["product1"]["tags"]) == (["new", "newer"], ["kept"])
    assert [objects[name]["tags"] for name in ("order0", "order1", "draft1")] == [["old", "new"], [], []]
    assert objects["redirect"]["target"] == "/jars"
    assert objects["captured"]["displayFinancialStatus"] == "PAID"
    assert objects["order3"]["cancelledAt"] is not None
    assert objects["order5"]["closedAt"] is None
    assert objects["product3"]["status"] == "DRAFT"
    assert objects["product7"]["publications"] != []


def requests(objects: dict[str, Row], store: ShopifyFake) -> dict[str, dict[str, Any]]:
    """Returns the arguments of every supported mutation."""
    ids = {name: row["id"] for name, row in objects.items()}
    [variant] = store.owned(ids["product4"])
    [stocked] = store.owned(ids["product5"])
    online, location = store.of("Publication")[0]["id"], store.of("Location")[0]["id"]
    held_order, freed = (objects[name]["fulfillmentOrders"][0] for name in ("order7", "freed"))
    quantity = {"inventoryItemId": stocked["item"], "locationId": location, "quantity": 9}
    field = {"ownerId": variant["id"], "namespace": "custom", "key": "care", "type": "t", "value": "Wash"}
    return {
        "tagsAdd": {"id": ids["person0"], "tags": ["new"]},
        "tagsRemove": {"id": ids["draft1"], "tags": "old"},
        "orderUpdate": {"input": {"id": ids["order0"], "note": "Seen", "tags": [], "poNumber": "7"}},
        "customerUpdate": {"input": {"id": ids["person1"], "firstName": "Eve", "note": "x", "tags": ["a"]}},
        "productUpdate": {
            "product": {"id": ids["product0"], "vendor": "Oven", "status": "DRAFT", "tags": ["a"]}
        },
        "productChangeStatus": {"productId": ids["product1"], "status": "ARCHIVED"},
        "orderCancel": {"orderId": ids["order3"], "reason": "OTHER", "restock": False},
        "orderClose": {"input": {"id": ids["order4"]}},
        "orderOpen": {"input": {"id": ids["order5"]}},
        "fulfillmentOrderHold": {
            "id": held_order,
            "fulfillmentHold": {"reason": "OTHER", "reasonNotes": "x"},
        },
        "fulfillmentOrderReleaseHold": {"id": freed},
        "metafieldsSet": {"metafields": [field]},
        "urlRedirectCreate": {"urlRedirect": {"path": "/new", "target": "/jars"}},
        "inventorySetQuantities": {
            "input": {"name": "available", "reason": "other", "quantities": [quantity]}
        },
        "productVariantsBulkUpdate": {
            "productId": ids["product4"],
            "variants": [{"id": variant["id"], "price": "7.50", "compareAtPrice": "9.00"}],
        },
        "publishablePublish": {"id": ids["product7"], "input": {"publicationId": online}},
        "publishableUnpublish": {"id": ids["product6"], "input": [{"publicationId": online}]},
    }


async def test_requests_become_only_supported_changes(flow_shop: FlowShop) -> None:
    """Turns every supported mutation into changes to approve; the request itself is never sent.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    objects = populated(flow_shop.store)
    objects["product7"]["publications"] = []
    asked_requests = requests(objects, flow_shop.store)
    assert set(asked_requests) == set(MUTATIONS)
    steps = [
        (REQUEST.removeprefix(ADMIN), {"api_call": called(name, **record)})
        for name, record in asked_requests.items()
    ]
    run = await run_of(flow_shop, steps)
    assert run.status is RunStatus.WAITING_APPROVAL, await flow_shop.shop.steps(run)
    assert flow_shop.store.writes() == []
    changes = await flow_shop.shop.changes(run)
    assert len(changes) == len(steps) + 6  # one change for each thing that a mutation changes
    ended = await flow_shop.approved(run)
    actual = {change.name: (change.outcome, change.message) for change in await flow_shop.shop.changes(run)}
    assert {outcome for outcome, _ in actual.values()} == {Outcome.APPLIED}, actual
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert (
        objects["order0"]["note"],
        objects["order0"]["poNumber"],
        objects["order0"]["tags"],
    ) == ("Seen", "7", [])
    assert (objects["person1"]["firstName"], objects["person1"]["lastName"]) == ("Eve", "1")
    assert (objects["product0"]["vendor"], objects["product0"]["title"]) == ("Oven", "Jar 0")


BLOBS: tuple[tuple[str, Any], ...] = (
    ("productDelete", {"input": {"id": "gid://shopify/Product/1"}}),
    ("refundCreate", {"input": {"orderId": "gid://shopify/Order/1"}}),
    ("bulkOperationRunQuery", {"query": "{ shop { name } }"}),
    ("mutation { productDelete }", {}),
    ("", {}),
    ("customerUpdate", {"input": {"id": "1", "password": "x"}}),
    ("customerUpdate", {"input": {"id": "1", "note": {"deep": 1}}}),
    ("customerUpdate", {"input": {"note": "no id"}}),
    ("orderCancel", {"orderId": "1", "reason": "OTHER"}),
    ("metafieldsSet", {"metafields": [{"ownerId": "1"}] * 26}),
    ("metafieldsSet", {"metafields": [{"ownerId": "1", "compareDigest": None}]}),
    ("tagsAdd", {"id": "1", "tags": [["a"]]}),
)


def test_request_arguments_that_are_not_json_are_errors_at_import() -> None:
    """Reports arguments that are not JSON, too deep, or name a field twice as a `parameter` error.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    kind = FLOW_TYPES[REQUEST]
    for blob in ("[" * 5_000, "x", '{"id": "1", "tags": "a", "id": "2"}', None, 7):
        task = TaskDefinition("Request", REQUEST, {"api_call": {"name": "tagsAdd", "blob": blob}})
        assert [(problem.level, problem.code) for problem in kind.check(task)] == [("error", "parameter")], (
            blob
        )


@pytest.mark.parametrize(("name", "arguments"), BLOBS)
def test_an_unsupported_mutation_is_an_error_at_import(name: str, arguments: Any) -> None:
    """Reports a mutation or argument that is not supported as a `parameter` error.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    kind = FLOW_TYPES[REQUEST]
    task = TaskDefinition("Request", REQUEST, {"api_call": called(name, **arguments)})
    problems = [(problem.level, problem.code) for problem in kind.check(task)]
    assert set(problems) == {("error", "parameter")}, problems


async def test_a_request_rendered_by_liquid_is_checked_again(flow_shop: FlowShop) -> None:
    """Fails the run when a text of the store would become another field of the request.

    See docs/design/security.md#imported-workflows.
    """
    blob = '{"input": {"id": "{{ order.customer.id }}", "note": "{{ order.note }}"}}'
    value = flow(began(), task(2, REQUEST, api_call={"name": "customerUpdate", "blob": blob}))
    automation = await flow_shop.automation(value, "orders/create")
    order = flow_shop.store.of("Order")[0]
    for note in ('x", "taxExempt": "true', 'x", "note": "y'):
        flow_shop.shop.clock.tick(60)
        flow_shop.store.touch(order, note=note)
        run = await flow_shop.deliver(automation, "ORDERS_CREATE", order)
        assert run.status is RunStatus.FAILED, (note, run)
    flow_shop.shop.clock.tick(60)
    flow_shop.store.touch(order, note="Fine")
    ended = await flow_shop.approved(await flow_shop.deliver(automation, "ORDERS_CREATE", order))
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert [row["note"] for row in flow_shop.store.of("Customer")] == ["Fine"]
    assert len(flow_shop.store.applied()) == 1


@pytest.mark.parametrize(
    ("value", "levels"), [("false", []), ("", []), ("all", ["error"]), ("ORIGINAL_PAYMENT", ["error"])]
)
@pytest.mark.parametrize("name", ["refund", "restock"])
def test_a_switch_that_is_neither_on_nor_off_is_an_error(name: str, value: str, levels: list[str]) -> None:
    """Reports a switch that is neither true nor false as an error. See docs/design/imports-n8n.md#rules."""
    task = TaskDefinition("Cancel", ADMIN + "cancel_order", {"order_id": "1", name: value})
    assert [problem.level for problem in FLOW_TYPES[ADMIN + "cancel_order"].check(task)] == levels
