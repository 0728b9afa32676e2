"""How many requests a report on a whole shop costs: pages, and one list for each variable product (E10)."""

import os
from math import ceil
from typing import Any

import pytest

from steward.connectors.base import Reader
from steward.model.ids import IntegrationId
from steward.model.run import Mode
from steward.steps.base import AccountAccess
from steward.templates import ALL
from tests.connectors.outside import outside
from tests.connectors.shopify.bench import Bench
from tests.fake_clock import FakeClock
from tests.fakes.shopify.store import ShopifyFake
from tests.templates.stage import SHEET, SHOP, TEAMS, Sheet, Stage, connection

# The figures of a shop of 5,000: SHOP_PRODUCTS=5000.
PRODUCTS = int(os.environ.get("SHOP_PRODUCTS", "200"))
BY_ID = {template.template_id: template for template in ALL}
_TEAMS = {"teams": {"integration_id": int(TEAMS)}}
INPUTS: dict[str, dict[str, Any]] = {
    "low-stock-alert": {"threshold": 5, **_TEAMS},
    "missing-product-data-audit": {"checks": ["image", "weight"], **_TEAMS},
    "duplicate-sku-check": _TEAMS,
    "stock-report-across-stores": _TEAMS,
    "price-difference-report": _TEAMS,
    "hide-out-of-stock-products": {"limit": 5000},
    "tag-products-by-rule": {"tag": "cheap", "when": "on_sale"},
    "sale-start": {"products": {"all": True}, "percent": 10, "limit": 5000},
    "slow-stock-markdown": {"no_sale_days": 1, "percent": 10, "floor": "none", "limit": 5000},
    "sync-stock-between-stores": {"source_integration_id": int(SHEET), "limit": 5000},
    "price-update-from-spreadsheet": {
        "sheet": {"integration_id": int(SHEET)},
        "sku_column": "SKU",
        "price_column": "Price",
    },
}


# Beside the products: one page of the shop's tags, or of its orders.
BESIDE = dict.fromkeys(
    ("hide-out-of-stock-products", "tag-products-by-rule", "sale-start", "slow-stock-markdown"), 1
)


@pytest.mark.parametrize("name", sorted(INPUTS))
async def test_a_woocommerce_shop_is_read_once_in_full_pages(name: str, clock: FakeClock) -> None:
    """Connectors 7.2: 100 products a page, and the variations of every tenth, whatever the template."""
    place = outside(clock)
    place.world.load_products(PRODUCTS)
    shop = place.connection("woocommerce")
    home = connection("woocommerce", SHOP)
    stage = Stage(
        BY_ID[name],
        INPUTS[name],
        shop=shop.reader(),
        sheet=Sheet([["SKU", "Price"]]),
        store=home,
        changes=shop.connector.changes,
        accounts={SHOP: AccountAccess(home, shop.reader(), {}), **_another(name, shop.reader())},
        reads=() if BY_ID[name].facts.platforms else (SHOP,),
    )
    before = place.world.state.ledger.reads_total
    ran = await stage.run(mode=Mode.TEST)
    assert (ran.failed, place.written()) == (None, [])
    assert ran.counts.read >= PRODUCTS
    stores = 2 if name == "sync-stock-between-stores" else 1
    once = ceil(PRODUCTS / 100) + PRODUCTS // 10
    assert place.world.state.ledger.reads_total - before == stores * once + BESIDE.get(name, 0)
    await place.outbound.aclose()


def _another(name: str, reader: Reader) -> dict[IntegrationId, AccountAccess]:
    """The store that stock is read from: a shop alike, under the number the input names."""
    if name != "sync-stock-between-stores":
        return {}
    return {SHEET: AccountAccess(connection("woocommerce", SHEET), reader, {})}


# Of 28 products a page, each with one more request for the variants of the page; or 100 variants a page.
BY_PRODUCTS, BY_VARIANTS = 2 * ceil(PRODUCTS / 28), ceil(PRODUCTS * 1.4 / 100)


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        ("low-stock-alert", BY_PRODUCTS),
        ("missing-product-data-audit", BY_PRODUCTS),
        ("duplicate-sku-check", BY_VARIANTS),
        ("tag-products-by-rule", BY_PRODUCTS),
        ("sale-start", BY_PRODUCTS),
        ("slow-stock-markdown", BY_PRODUCTS + 1),  # its orders, a page
        ("price-update-from-spreadsheet", BY_VARIANTS),
    ],
)
async def test_a_shopify_store_is_read_once_in_full_pages(name: str, requests: int, clock: FakeClock) -> None:
    """Connectors 7.1: page sizes under the cost of a query; every fifth product has three variants."""
    store = ShopifyFake(now=clock.now)
    store.seed(products=PRODUCTS, orders=0, customers=0)
    bench = Bench(clock, store)
    stage = Stage(
        BY_ID[name],
        INPUTS[name],
        shop=bench.reader(),
        sheet=Sheet([["SKU", "Price"]]),
        store=connection("shopify", SHOP),
        changes=bench.connector.changes,
    )
    before = len(store.documents)
    ran = await stage.run(mode=Mode.TEST)
    assert (ran.failed, store.writes()) == (None, [])
    # One more asks how many there are: above 5,000 a bulk operation reads them.
    assert len(store.documents) - before == requests + 1
    await bench.outbound.aclose()
