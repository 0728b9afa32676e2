"""Provides a store of either platform full of products and orders, and inputs for every template."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from steward.connectors.base.connector import Reader
from steward.fake_platforms.woocommerce import terms
from steward.model.connection import Connection
from steward.model.ids import IntegrationId
from steward.steps.base import AccountAccess
from steward.templates import ALL
from tests.connectors.fake_connections import outside
from tests.connectors.shopify.bench import StoreConnection
from tests.fake_clock import START, FakeClock
from tests.fakes.shopify.goods import stamp
from tests.fakes.shopify.store import ShopifyFake
from tests.templates.orders_of import OrderSpec, in_shopify, in_woocommerce
from tests.templates.stage import SHEET, SHOP, TEAMS, File, Sheet, Stage, StoredMemory, connection

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
    "sync-stock-between-stores": {"source_integration_id": int(OTHER), "buffer": 1, **_ALL},
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
    "tag-products-by-rule": {"tag": "cheap", "when": "price_range", "min_price": "1"},
    "stock-report-across-stores": _TEAMS,
    "sales-summary-across-stores": {**_TEAMS, "currency": "EUR"},
    "price-difference-report": _TEAMS,
    "archive-fulfilled-orders": {"older_than_days": 1},
    "slow-stock-markdown": {"no_sale_days": 1, "percent": 10, "floor": "none", **_ALL},
}


@dataclass
class FullStore:
    """Holds the store, the requests it got, and what stages on it need."""

    platform: str
    clock: FakeClock
    products: int
    store: Connection = field(init=False)
    open_reader: Callable[[], Reader] = field(init=False)
    changes: dict[str, Any] = field(init=False)
    sold: list[tuple[str, str, str, str]] = field(init=False)  # product, variant, SKU and price of each

    def __post_init__(self) -> None:
        self.place = outside(self.clock)
        self.fake = ShopifyFake(now=self.clock.now)
        self.bench = StoreConnection(self.clock, self.fake)
        self.writes = dict(self.place.connectors["spreadsheet"].writes)

    async def fill(self) -> None:
        """Fills the store; every tenth product has the hidden tag.

        Orders in every state are two hours apart.
        """
        title = {"woocommerce": "Product 00001", "shopify": "Pot 1"}[self.platform]
        states = ("pending", "sent", "risky", "paid")
        bought = [
            OrderSpec(START - timedelta(hours=2 * number), ((title, 1, "9.00"),), states[number % 4])
            for number in range(1, ORDERS + 1)
        ]
        await (self._fill_shopify if self.platform == "shopify" else self._fill_woocommerce)(bought)

    async def _fill_woocommerce(self, bought: list[OrderSpec]) -> None:
        self.place.world.load_products(self.products)
        woo, shop = (
            self.place.world.state.shop,
            self.place.connection("woocommerce", facts={"lists_variations": True}),
        )
        in_woocommerce(woo, bought)
        for index, row in enumerate(woo.orders.values()):
            row["customer_id"] = list(woo.customers)[index % 3]
        mark = terms.add(woo, "tags", {"name": "auto-hidden"})
        rows = list(woo.products.values())
        for row in (*rows, *woo.variations.values()):
            woo.mark_created(row, START - timedelta(days=400))
        for row in rows[9::10]:
            row["tags"] = [{column: mark[column] for column in ("id", "name", "slug")}]
        self.sold = [
            (str(row["id"]), number, record["sku"], record["price"])
            for row in rows
            for number, record in [
                (f"{row['id']}/{own_variation}", woo.variations[own_variation])
                for own_variation in row["variations"]
            ]
            or [(str(row["id"]), row)]
        ]
        self.store, self.open_reader = connection("woocommerce", SHOP), shop.reader
        self.changes = dict(shop.connector.writes)

    async def _fill_shopify(self, bought: list[OrderSpec]) -> None:
        self.fake.seed(products=self.products, orders=0, customers=3)
        in_shopify(self.fake, bought)
        for row in (*self.fake.of("Product"), *self.fake.of("ProductVariant")):
            row["createdAt"] = stamp(START - timedelta(days=400))
        for row in self.fake.of("Product")[9::10]:
            row["tags"] = ["auto-hidden"]
        self.sold = [
            (row["product"].rpartition("/")[2], row["id"].rpartition("/")[2], row["sku"], row["price"])
            for row in self.fake.of("ProductVariant")
        ]
        health = await self.bench.check()
        places = {
            name: [[item.id, item.name, item.active] for item in getattr(health, name)]
            for name in ("channels", "locations")
        }
        self.store, self.open_reader = connection("shopify", SHOP, facts=places), self.bench.reader
        self.changes = dict(self.bench.connector.writes)

    def break_read(self, after: int) -> Any:
        """Makes the read after `after` others fail, and returns the fault."""
        fault: dict[str, Any] = {"kind": "status", "status": 507, "skip": after}
        if self.platform == "shopify":
            return self.fake.faults.make({**fault, "method": "POST", "path": "**/graphql.json"})
        return self.place.world.state.faults.make({**fault, "method": "GET", "path": "/wp-json/**"})

    def requests_seen(self) -> list[str]:
        """Returns every read so far, as texts that tell different reads apart."""
        if self.platform == "shopify":
            return [json.dumps(entry.body) for entry in self.fake.ledger.entries(reads=True)]
        entries = self.place.world.state.ledger.entries(service="woocommerce", reads=True)
        return [f"{each_entry.request.path} {each_entry.request.query}" for each_entry in entries]

    def written(self) -> int:
        """Returns how many writes arrived anywhere."""
        return len(self.fake.writes()) + len(self.place.written())

    def stage(self, name: str, **inputs: Any) -> Stage:
        """Returns a stage of that template on the store, with a sheet, a file and a second store."""
        skus = [sku for _, _, sku, _ in self.sold]
        prices = [[sku, f"{Decimal(price) + 1}"] for _, _, sku, price in self.sold]
        rows = [["SKU", "Price"], *prices] if name == "price-update-from-spreadsheet" else []
        feed = "\n".join(["SKU,Stock", *(f"{sku},77" for sku in skus[:5])]).encode()
        reader = self.open_reader()  # a new reader for each run, as the service opens them
        access = AccountAccess(self.store, reader, {})
        new_stage = Stage(
            BY_ID[name],
            {**INPUTS[name], **inputs},
            shop=reader,
            store=self.store,
            changes=self.changes,
            accounts={
                SHOP: access,
                OTHER: access,
                SHEET: AccountAccess(connection("spreadsheet", SHEET), Sheet(rows), self.writes),
                FILE: AccountAccess(connection("cloud_s3", FILE), File(feed, START), {}),  # type: ignore[arg-type]
            },
            reads=() if BY_ID[name].facts.platforms else (SHOP,),
            now=START,
            set_up_at=START,
        )
        sale = {"old": "999.00", "compare_at": None, "run": "r", "sku": None, "label": "Cup"}
        stored = {
            ("sale", f"{SHOP}:{number}"): {"product": product, "new": price, **sale}
            for product, number, _, price in self.sold
        }
        new_stage.memory.others[SALE] = StoredMemory(stored)
        return new_stage

    async def close(self) -> None:
        """Closes the HTTP clients."""
        await self.place.outbound.aclose()
        await self.bench.outbound.aclose()
