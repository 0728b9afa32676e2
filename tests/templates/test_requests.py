"""How many requests a run on a whole shop costs: every page of what it decides on once, and no more (E10)."""

import json
import os
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import Any

import pytest

from steward.connectors.base import Reader
from steward.model.connection import Connection
from steward.model.ids import IntegrationId
from steward.model.run import Mode
from steward.sandbox.woocommerce import terms
from steward.steps.base import AccountAccess
from steward.templates import ALL
from tests.connectors.outside import outside
from tests.connectors.shopify.bench import Bench
from tests.fake_clock import START, FakeClock
from tests.fakes.shopify.store import ShopifyFake
from tests.templates.orders_of import Bought, in_shopify, in_woocommerce
from tests.templates.stage import SHEET, SHOP, TEAMS, File, Remembered, Sheet, Stage, connection

# The figures of a shop of 5,000: SHOP_PRODUCTS=5000.
PRODUCTS = int(os.environ.get("SHOP_PRODUCTS", "120"))
ORDERS = 30
PLATFORMS = ("woocommerce", "shopify")
BY_ID = {template.template_id: template for template in ALL}
OTHER, FILE = IntegrationId(15), IntegrationId(16)
SALE = "01KAGQ3W8ZJ4T6V9X2B5C7D8EG"
_TEAMS = {"teams": {"integration_id": int(TEAMS)}}
_SHEET = {"sheet": {"integration_id": int(SHEET)}}
_ALL = {"limit": 5000}
INPUTS: dict[str, dict[str, Any]] = {
    "low-stock-alert": {"threshold": 5, **_TEAMS},
    "price-update-from-spreadsheet": {**_SHEET, "sku_column": "SKU", "price_column": "Price"},
    "tag-orders-by-rule": {"tag": "big", "min_total": "1"},
    "hide-out-of-stock-products": _ALL,
    "show-back-in-stock-products": _ALL,
    "order-export-to-spreadsheet": _SHEET,
    "tag-customers-by-spend": {"tiers": [{"tag": "gold", "min_spend": "1"}]},
    "cancel-unpaid-orders": {"older_than_hours": 1},
    "high-risk-order-hold": {"level": "medium_and_high"},
    "sync-stock-between-stores": {"source_integration_id": int(OTHER), **_ALL},
    "daily-sales-summary": {**_TEAMS, "compare": "week_before"},
    "supplier-feed-import": {
        "file": {"integration_id": int(FILE), "path": "feed.csv"},
        "sku_column": "SKU",
        "stock_column": "Stock",
    },
    "sale-start": {"products": {"all": True}, "percent": 10, **_ALL},
    "sale-end": {"sale_automation_id": SALE, **_ALL},
    "missing-product-data-audit": {"checks": ["image", "weight"], **_TEAMS},
    "duplicate-sku-check": _TEAMS,
    "unfulfilled-order-alert": {"older_than_days": 1, **_TEAMS},
    "tag-products-by-rule": {"tag": "cheap", "when": "on_sale"},
    "stock-report-across-stores": _TEAMS,
    "sales-summary-across-stores": {**_TEAMS, "currency": "EUR"},
    "price-difference-report": _TEAMS,
    "archive-fulfilled-orders": {"older_than_days": 1},
    "slow-stock-markdown": {"no_sale_days": 1, "percent": 10, "floor": "none", **_ALL},
}


@dataclass
class Counted:
    """A store of either platform, full of products and orders, and what it was asked."""

    platform: str
    clock: FakeClock
    store: Connection = field(init=False)
    reader: Reader = field(init=False)
    changes: dict[str, Any] = field(init=False)
    ids: list[tuple[str, str]] = field(init=False)  # product and variant of all there is

    def __post_init__(self) -> None:
        self.place = outside(self.clock)
        self.fake = ShopifyFake(now=self.clock.now)
        self.bench = Bench(self.clock, self.fake)

    async def fill(self) -> None:
        """Every tenth product has the mark of what was hidden."""
        title = {"woocommerce": "Product 00001", "shopify": "Pot 1"}[self.platform]
        bought = [Bought(START - timedelta(hours=2 * n), ((title, 1, "9.00"),)) for n in range(1, ORDERS + 1)]
        if self.platform == "shopify":
            await self._fill_shopify(bought)
            return
        self.place.world.load_products(PRODUCTS)
        woo, shop = self.place.world.state.shop, self.place.connection("woocommerce")
        in_woocommerce(woo, bought)
        mark = terms.add(woo, "tags", {"name": "auto-hidden"})
        rows = list(woo.products.values())
        for row in rows[9::10]:
            row["tags"] = [{column: mark[column] for column in ("id", "name", "slug")}]
        self.ids = [
            (str(row["id"]), one)
            for row in rows
            for one in [f"{row['id']}/{each}" for each in row["variations"]] or [str(row["id"])]
        ]
        self.store, self.reader = connection("woocommerce", SHOP), shop.reader()
        self.changes = dict(shop.connector.changes)

    async def _fill_shopify(self, bought: list[Bought]) -> None:
        self.fake.seed(products=PRODUCTS, orders=0, customers=3)
        in_shopify(self.fake, bought)
        for row in self.fake.of("Product")[9::10]:
            row["tags"] = ["auto-hidden"]
        number = "{0[product]} {0[id]}"
        pairs = [number.format(row).split() for row in self.fake.of("ProductVariant")]
        self.ids = [(one.rpartition("/")[2], two.rpartition("/")[2]) for one, two in pairs]
        health = await self.bench.check()
        places = {
            name: [[each.id, each.name, each.active] for each in getattr(health, name)]
            for name in ("channels", "locations")
        }
        self.store, self.reader = connection("shopify", SHOP, facts=places), self.bench.reader()
        self.changes = dict(self.bench.connector.changes)

    def asked(self) -> list[str]:
        """Every read so far, by all that tells one from another."""
        if self.platform == "shopify":
            return [json.dumps(each.body) for each in self.fake.ledger.entries(reads=True)]
        entries = self.place.world.state.ledger.entries(service="woocommerce", reads=True)
        return [f"{each.asked.path} {each.asked.query}" for each in entries]

    def written(self) -> int:
        """How many writes arrived anywhere."""
        return len(self.fake.writes()) + len(self.place.written())

    def stage(self, name: str) -> Stage:
        """An automation of that template on the store; what it reads beside it is small and at hand."""
        feed = b"SKU,Stock\nP-00001,3\nPOT-1,3\n"
        sheet = AccountAccess(
            connection("spreadsheet", SHEET), Sheet(_ROWS.get(name, [])), dict(self._sheets().changes)
        )
        own = AccountAccess(self.store, self.reader, {})
        made = Stage(
            BY_ID[name],
            INPUTS[name],
            shop=self.reader,
            store=self.store,
            changes=self.changes,
            accounts={SHOP: own, OTHER: own, SHEET: sheet, FILE: _file(feed)},
            reads=() if BY_ID[name].facts.platforms else (SHOP,),
            now=START,
            set_up_at=START,
        )
        sold = {"old": "9.00", "new": "0.01", "compare_at": None, "run": "r", "sku": None, "label": "Cup"}
        kept = {("sale", f"{SHOP}:{one}"): {"product": product, **sold} for product, one in self.ids}
        made.memory.others[SALE] = Remembered(kept)
        return made

    def _sheets(self) -> Any:
        return self.place.connection("spreadsheet").connector

    async def close(self) -> None:
        """The clients end."""
        await self.place.outbound.aclose()
        await self.bench.outbound.aclose()


_ROWS: dict[str, list[list[Any]]] = {"price-update-from-spreadsheet": [["SKU", "Price"]]}


def _file(body: bytes) -> AccountAccess:
    return AccountAccess(connection("cloud_s3", FILE), File(body, START), {})  # type: ignore[arg-type]


# A list of 100 products, and one of the variations of every tenth.
_WOO = ceil(PRODUCTS / 100) + PRODUCTS // 10
# The products that have the mark: every tenth, all with variations.
_WOO_MARKED = ceil(PRODUCTS / 10 / 100) + PRODUCTS // 10
# Of 28 products a page, each with one more request for the variants of the page; or 100 variants a page.
# Every fifth has three. One more asks how many there are: above 5,000 a bulk operation reads them.
_PRODUCTS, _MARKED = 2 * ceil(PRODUCTS / 28), 2 * ceil(PRODUCTS / 10 / 28)
_VARIANTS = ceil(PRODUCTS * 1.4 / 100)
# Eight orders a page: all of them, and those of a day.
_ORDERS, _DAY = ceil(ORDERS / 8), 2
# Requests to a WooCommerce shop and to a Shopify store. Where products are tagged, one lists the shop's tags.
EXPECTED: dict[str, tuple[int | None, int | None]] = {
    "low-stock-alert": (_WOO, 1 + _PRODUCTS),
    "price-update-from-spreadsheet": (_WOO, 1 + _VARIANTS),
    "tag-orders-by-rule": (1, _DAY),
    "hide-out-of-stock-products": (1 + _WOO, 1 + _PRODUCTS),
    "show-back-in-stock-products": (1 + _WOO_MARKED, _MARKED),
    "order-export-to-spreadsheet": (1, 1 + _ORDERS),
    "tag-customers-by-spend": (1 + 1, 1 + 1),  # customers, and orders where no sums are told; their number
    "cancel-unpaid-orders": (1, _ORDERS),
    "high-risk-order-hold": (None, _DAY),
    "sync-stock-between-stores": (2 * _WOO, 1 + 2 * _VARIANTS),  # the other store, and this one
    "daily-sales-summary": (1 + 1 + 1, _DAY + 2 + 1),  # the day, its best product, the day compared with
    "supplier-feed-import": (_WOO, _VARIANTS),
    "sale-start": (1 + _WOO, 1 + _PRODUCTS),
    "sale-end": (_WOO, _PRODUCTS),
    "missing-product-data-audit": (_WOO, 1 + _PRODUCTS),
    "duplicate-sku-check": (_WOO, 1 + _VARIANTS),
    "unfulfilled-order-alert": (1, _ORDERS),
    "tag-products-by-rule": (1 + _WOO, 1 + _PRODUCTS),
    "stock-report-across-stores": (_WOO, 1 + _VARIANTS),
    "sales-summary-across-stores": (1, _DAY),
    "price-difference-report": (_WOO, 1 + _VARIANTS),
    "archive-fulfilled-orders": (None, _ORDERS),
    "slow-stock-markdown": (1 + _WOO, _DAY + 1 + _PRODUCTS),
}


def test_every_template_that_reads_a_store_is_counted() -> None:
    """On every platform it runs on; those that run on nothing read stores of both."""
    assert EXPECTED.keys() == INPUTS.keys() == BY_ID.keys() - {"spreadsheet-to-teams-digest"}
    for name, counts in EXPECTED.items():
        named = BY_ID[name].facts.platforms or PLATFORMS
        assert [one for one, count in zip(PLATFORMS, counts, strict=True) if count] == sorted(named)[::-1]


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_store_is_read_once_in_full_pages(platform: str, clock: FakeClock) -> None:
    """Connectors 7.1, 7.2; E10: whatever the template, and no request is made twice."""
    counted = Counted(platform, clock)
    await counted.fill()
    wanted = {name: counts[PLATFORMS.index(platform)] for name, counts in EXPECTED.items()}
    found: dict[str, int | None] = dict.fromkeys(EXPECTED)
    for name in [name for name, count in wanted.items() if count is not None]:
        before = len(counted.asked())
        await clock.advance(60)  # no run waits for what another has asked
        ran = await counted.stage(name).run(mode=Mode.TEST)
        asked = counted.asked()[before:]
        assert (name, ran.failed, counted.written()) == (name, None, 0)
        assert name == "sync-stock-between-stores" or len(set(asked)) == len(asked), name
        found[name] = len(asked)
    assert found == wanted
    await counted.close()
