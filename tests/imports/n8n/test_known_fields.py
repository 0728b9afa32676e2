"""Tests findings on steps that read a field which a store's event or a Shopify read does not have here.

See docs/design/imports-verdict.md#missing-values.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from tests.imports.exports import chain, code, connections_of, node

LACKING = "has only in n8n"


def started(topic: str, *steps: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a workflow that an event of a Shopify store starts."""
    nodes = [node("Told", "shopifyTrigger", 1, {"topic": topic}), *steps]
    return {"name": "Told", "nodes": nodes, "connections": connections_of(nodes), "settings": {}}


def reads(text: str, name: str = "Use") -> dict[str, Any]:
    """Returns a step that sets only the value of one expression."""
    values = {"string": [{"name": "text", "value": f"={{{{ {text} }}}}"}]}
    return node(name, "set", 1, {"keepOnlySet": True, "values": values})


def adds(name: str) -> dict[str, Any]:
    """Returns a step that adds a field to its items."""
    return node("Add", "set", 1, {"values": {"string": [{"name": name, "value": "x"}]}})


def fetched(*steps: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """Returns a workflow that reads orders of a Shopify store."""
    return chain(node("Orders", "shopify", 1, {"operation": "getAll", "options": options}), *steps)


def lacking(export: Mapping[str, Any]) -> list[str]:
    """Returns the error messages about missing fields."""
    findings = read_value(export).findings
    return [
        finding.message for finding in findings if LACKING in finding.message and finding.level == "error"
    ]


@pytest.mark.parametrize(
    ("export", "field"),
    [
        (started("orders/create", reads("$json.contact_email")), "contact_email"),
        (started("orders/create", reads("$json.financial_status")), None),
        (started("orders/create", reads('$json["customer"]["phone"]["a"]')), "customer.phone"),
        (started("orders/create", reads("$json.customer.id")), None),
        (started("orders/create", reads("$json.customer.first_name")), None),
        (started("orders/create", code("Use", "return items.map(o => o.json.customer.last_name)")), None),
        (started("orders/create", reads("$json.shipping_address.first_name")), "shipping_address"),
        (started("orders/delete", reads("$json.financial_status")), "financial_status"),
        (started("orders/delete", reads("$json.id")), None),
        (started("products/create", reads("$json.title")), None),
        (started("products/create", reads("$json.image.src")), "image"),
        (started("customers/update", reads("$json.email")), None),
        (started("customers/update", reads("$json.default_address.city")), "default_address"),
        (started("customers/delete", reads("$json.email")), "email"),
        (started("orders/create", code("Use", "return items.map(o => o.json.landing_site)")), "landing_site"),
        (started("orders/create", code("Use", "return items.map(o => o.json.total_price)")), None),
        (started("orders/create", adds("mine"), reads("$json.mine")), None),
        (started("orders/create", adds("mine"), reads("$json.phone")), "phone"),
        (started("orders/create", reads("$json.id", "Only"), reads("$('Told').first().json.phone")), "phone"),
        (started("orders/create", reads("$json.id", "Only"), reads("$json.phone")), None),
        (fetched(node("Same", "noOp", 1, {}), reads("$('Same').item.json.phone")), "phone"),
        (fetched(reads("$json.line_items[0].title")), None),
        (fetched(reads("$json.line_items[0].price")), "line_items.price"),
        (fetched(reads("$json.line_items.length")), None),
        (fetched(reads("$json.total_price")), None),
        (fetched(reads("$json.subtotal_price")), "subtotal_price"),
        (fetched(reads("$json.total_price"), fields="id,total_price"), None),
        (fetched(reads("$json.email"), fields="id,total_price"), "email"),
    ],
)  # fmt: skip
def test_a_missing_field_is_named(export: Mapping[str, Any], field: str | None) -> None:
    """Names the missing field in one error; a field that does come gives none."""
    missing = lacking(export)
    assert [f"“{field}”" in message for message in missing] == ([True] if field is not None else [])


def test_after_a_merge_fields_may_come_from_another_step() -> None:
    """Reports no error after a merge, because another of its inputs may have the field."""
    export = started("orders/create", node("Both", "merge", 3, {"mode": "append"}), reads("$json.phone"))
    assert lacking(export) == []


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"options": {"status": "closed"}}, "that are “closed”"),
        ({"options": {"status": "any"}}, None),
        ({"options": {"updatedAtMin": "2026-01-01"}}, None),
        ({"options": {"financialStatus": "paid"}}, "“financialStatus”"),
        ({"resource": "product", "options": {"createdAtMin": "2026-01-01"}}, "“createdAtMin”"),
        ({"resource": "product", "options": {"fields": "id, images"}}, "“images”"),
        ({"resource": "product", "options": {"fields": "id, title"}}, None),
    ],
)
def test_an_unsupported_shopify_filter_is_an_error(parameters: dict[str, Any], words: str | None) -> None:
    """Names the filter or field that is not supported in one error; supported ones give none.

    See docs/design/imports-n8n.md#rules.
    """
    export = chain(node("Read", "shopify", 1, {"operation": "getAll", **parameters}))
    errors = [finding.message for finding in read_value(export).findings if finding.level == "error"]
    assert [words in message for message in errors] == ([True] if words is not None else [])


@pytest.mark.parametrize("name", ["imagesUi", "metadataUi", "dimensionsUi"])
def test_unsupported_fields_of_an_update_are_errors(name: str) -> None:
    """Reports images, metadata and dimensions of an update as a `parameter` error.

    See docs/design/imports-n8n.md#node-types.
    """
    request_body = {"operation": "update", "productId": "1", "updateFields": {"status": "draft"}}
    step = node("Update", "wooCommerce", 1, {**request_body, name: {"values": [{"key": "a", "value": "b"}]}})
    assert [finding.code for finding in read_value(chain(step)).findings if finding.level == "error"] == [
        "parameter"
    ]


def test_a_file_cannot_contain_the_internal_event_step() -> None:
    """Refuses the internal type `@store_event` in a file, because only runs may put it into plans.

    See docs/design/imports-n8n.md#safety.
    """
    findings = read_value(chain(node("Odd", "@store_event", 1, {}))).findings
    assert ("error", "node_type") in [(str(finding.level), finding.code) for finding in findings]
