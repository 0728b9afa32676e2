"""Tests the fields of store objects that imported steps change, each by an operation of the connector."""

from pathlib import Path
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.change import Outcome
from steward.model.run import RunStatus
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, node
from tests.imports.shopify_flow.flow_service import open_flow_shop
from tests.runs.shop import Shop

on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def update(store: str, resource: str, number: str, **fields: Any) -> dict[str, Any]:
    """Returns a step that updates one object."""
    request_body = {
        "resource": resource,
        "operation": "update",
        f"{resource}Id": number,
        "updateFields": fields,
    }
    return node("Update", store, 1, request_body)


async def approved(shop: Shop, store: str, step: dict[str, Any]) -> None:
    """Runs the step and approves everything that it proposes."""
    integration = shop.connections[store].integration_id
    run = await shop.waiting(await automated(shop, chain(step), integration_id=integration))
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}


@on_one_engine
async def test_prices_visibility_and_tags_of_a_woocommerce_product(shop: Shop) -> None:
    """Changes prices and visibility of a WooCommerce product; a price that is not named stays.

    See docs/design/imports-n8n.md#node-types and docs/design/connectors.md#operations.
    """
    goods = shop.world.state.shop.products
    product = next(
        record for record in goods.values() if record["type"] == "simple" and record["status"] == "publish"
    )
    number = str(product["id"])
    await approved(shop, "woocommerce", update("wooCommerce", "product", number, regularPrice="40"))
    await approved(shop, "woocommerce", update("wooCommerce", "product", number, salePrice="30.50"))
    assert (goods[product["id"]]["regular_price"], goods[product["id"]]["sale_price"]) == ("40", "30.50")
    await approved(shop, "woocommerce", update("wooCommerce", "product", number, regularPrice="44"))
    assert (goods[product["id"]]["regular_price"], goods[product["id"]]["sale_price"]) == ("44", "30.50")
    step = update("wooCommerce", "product", number, salePrice="", catalogVisibility="hidden")
    await approved(shop, "woocommerce", step)
    now = goods[product["id"]]
    assert (now["regular_price"], now["sale_price"], now["catalog_visibility"]) == ("44", "", "hidden")


@on_one_engine
async def test_plain_fields_of_a_shopify_product_are_one_change(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Writes title, vendor, type and tags of a Shopify product in one update.

    See docs/design/imports-n8n.md#node-types.
    """
    flow_shop = await open_flow_shop(database_url, clock, tmp_path)
    shop = flow_shop.shop
    rows = flow_shop.store.rows
    product = next(row for name, row in rows.items() if "/Product/" in name)
    number = product["id"].rpartition("/")[2]
    fields = {"title": "Big mug", "vendor": "Hers", "product_type": "Mugs", "tags": "a, b"}
    await approved(shop, "shopify", update("shopify", "product", number, **fields))
    now = rows[product["id"]]
    assert (now["title"], now["vendor"], now["productType"]) == ("Big mug", "Hers", "Mugs")
    assert sorted(now["tags"]) == ["a", "b"]
    await shop.service.close()


@pytest.mark.parametrize(
    "step",
    [
        update("shopify", "product", "1", body_html="<p>New</p>"),
        update("wooCommerce", "product", "1", name="New"),
        update("wooCommerce", "customer", "1", firstName="New"),
    ],
)
def test_a_field_without_an_operation_is_refused_by_name(step: dict[str, Any]) -> None:
    """Reports a field that no operation of the connector can write as a `parameter` error.

    See docs/design/imports-n8n.md#node-types and docs/design/connectors.md#operations.
    """
    findings = read_value(chain(step)).findings
    assert ("error", "parameter") in [(str(finding.level), finding.code) for finding in findings]


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        (
            {"resource": "customer", "filters": {"email": "a@b.example", "orderBy": "name"}},
            {"email": "a@b.example", "orderby": "name"},
        ),
        (
            {"resource": "product", "options": {"sku": "={{ 'A1' }}"}},
            {"sku": "A1"},
        ),
    ],
)
@on_one_engine
async def test_objects_are_read_by_the_filters_of_the_step(
    shop: Shop, parameters: dict[str, Any], query: dict[str, str]
) -> None:
    """Sends customer filters and product options as query parameters of the REST API."""
    before = shop.world.state.ledger.last_seq
    step = node("Store", "wooCommerce", 1, {"operation": "getAll", "limit": 1, **parameters})
    integration = shop.connections["woocommerce"].integration_id
    run = await shop.run_and_drain(await automated(shop, chain(step), integration_id=integration))
    assert run.status is RunStatus.SUCCEEDED, run
    paths = f"/wc/v3/{parameters['resource']}s"
    entries = [
        dict(entry.request.query)
        for entry in shop.world.state.ledger.entries(before, reads=True)
        if entry.request.path.endswith(paths)
    ]
    assert entries, "nothing was read"
    assert query.items() <= entries[-1].items()


@pytest.mark.parametrize("filters", [{"filters": {"sku": "A1"}}, {"options": {"colour": "red"}}])
def test_an_unknown_filter_is_an_error(filters: dict[str, Any]) -> None:
    """Reports an unknown filter or option as a `parameter` error. See docs/design/imports-n8n.md#rules."""
    step = node("Store", "wooCommerce", 1, {"resource": "customer", "operation": "getAll", **filters})
    assert ("error", "parameter") in [
        (str(finding.level), finding.code) for finding in read_value(chain(step)).findings
    ]
