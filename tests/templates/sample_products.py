"""Puts the same products into either fake store and reads what runs changed.

Changes are told in words that both platforms share: labels of objects and fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from steward.connections import connect
from steward.connections.vault import open_secrets
from steward.fake_platforms.woocommerce import blank, orders, stock, terms
from steward.model.automation import Automation
from steward.model.refusals import ValidationFailed
from steward.model.run import Mode, Run
from steward.steps.base import AccountAccess, StoreEvent
from steward.templates.base import Template
from tests.fakes.shopify.goods import stamp
from tests.fakes.shopify.store import ShopifyFake
from tests.runs.shop import Shop
from tests.templates.stage import Stage
from tests.templates.two_platforms import ConnectedService

PLATFORMS = ("woocommerce", "shopify")


@dataclass(frozen=True)
class Item:
    """Describes one variant: SKU, price, compare-at price and stock (None: not tracked)."""

    sku: str = ""
    price: str = "10.00"
    compare_at: str | None = None
    stock: int | None = 5
    cost: str | None = "4.00"


@dataclass(frozen=True)
class ProductSpec:
    """Describes a product with one variant, or with a variant for each size in `sizes`."""

    title: str
    item: Item = field(default_factory=Item)
    sizes: Mapping[str, Item] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    type: str = "Pottery"
    vendor: str = "Kiln"
    hidden: bool = False
    status: str = "live"
    age_days: int = 100


@dataclass
class ProductChanges:
    """Holds a run's changes as (object, {field: (before, after)}), with their messages and outcomes."""

    run: Run
    changes: list[tuple[str, dict[str, tuple[Any, Any]]]]
    messages: list[str | None]
    outcomes: list[str]

    @property
    def result(self) -> Mapping[str, Any]:
        """Returns the result of the run."""
        assert self.run.result is not None, (self.run.code, self.run.message)
        return self.run.result


@dataclass
class PlatformStore:
    """Holds one of the two stores beside the service, with short ways to change and read it."""

    platform: str
    both: ConnectedService

    @property
    def shop(self) -> Shop:
        """Returns the shop of the service."""
        return self.both.shop

    @property
    def fake(self) -> ShopifyFake:
        """Returns the fake Shopify store."""
        return self.both.store

    @property
    def number(self) -> int:
        """Returns the store's integration id."""
        return self.both.number(self.platform)

    def stock(self, *goods: ProductSpec) -> None:
        """Replaces the store's products by these."""
        if self.platform == "woocommerce":
            fill_woocommerce(self.shop, goods)
        else:
            fill_shopify(self.fake, goods)

    async def set_up(self, template: str, inputs: Mapping[str, Any]) -> Automation:
        """Creates an automation on the store that is started by hand."""
        return await self.both.set_up(template, inputs, on=self.platform)

    async def refused(self, template: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the errors that creating the automation gives, or an empty dict."""
        try:
            await self.set_up(template, inputs)
        except ValidationFailed as faults:
            return dict(faults.errors)
        return {}

    async def run(self, automation: Automation, mode: Mode = Mode.LIVE) -> ProductChanges:
        """Runs the automation by hand, approves everything, and returns what it changed."""
        run = await self.both.run(automation, mode)
        changes = [
            change for change in await self.shop.changes(run) if change.proposal.object.type != "message"
        ]
        actual = [
            (
                each_change.proposal.object.label,
                {field.label: (field.before, field.after) for field in each_change.proposal.fields},
            )
            for each_change in changes
        ]
        return ProductChanges(
            run,
            actual,
            [item.proposal.message for item in changes],
            [entry.outcome.value for entry in changes],
        )

    async def stage(self, template: Template, inputs: Mapping[str, Any]) -> Stage:
        """Returns a stage over the readers that a run would have, for runs that an event starts."""
        access = self.shop.service.worker_context.access
        opened = {
            connection.integration_id: AccountAccess(
                connection, await access.reader(connection.org, connection), access.changes(connection.kind)
            )
            for connection in self.shop.connections.values()
        }
        own_access = opened.pop(self.shop.connections[self.platform].integration_id)
        return Stage(
            template,
            dict(inputs),
            shop=own_access.reader,
            store=own_access.connection,
            changes=own_access.changes,
            accounts=opened,
        )

    async def look_again(self) -> None:
        """Checks the connection again, as the service does from time to time."""
        before, vault = self.shop.connections[self.platform], self.shop.service.context.vault
        secrets = await self.shop.read(partial(open_secrets, vault=vault, connection=before))
        health = await connect.check_again(vault, before, secrets)
        keep = partial(connect.record_check, org=before.org, integration=before.integration_id, health=health)
        self.shop.connections[self.platform] = (await self.shop.write(keep)).connection

    def stock_event(self, title: str, sku: str) -> StoreEvent:
        """Returns the event that the store sends when the stock of a variant changes."""
        topic, row = "inventory_levels/update", self.row(title)
        if self.platform == "shopify":
            [item] = [record["item"] for record in self.fake.owned(row["id"]) if (record["sku"] or "") == sku]
            return StoreEvent(topic, "inventory", f"item:{item.rpartition('/')[2]}")
        rows = self.shop.world.state.shop.variations
        own_variations = [variation for variation in row["variations"] if rows[variation]["sku"] == sku]
        if own_variations:
            return StoreEvent(topic, "variation", str(own_variations[0]), str(row["id"]))
        return StoreEvent(topic, "product", str(row["id"]))

    def writes(self) -> int:
        """Returns how many writes the store has seen since it was connected."""
        return len(self.shop.writes() if self.platform == "woocommerce" else self.fake.writes())

    def tags(self, title: str) -> list[str]:
        """Returns the product's tags, sorted."""
        row = self.row(title)
        if self.platform == "shopify":
            return sorted(row["tags"])
        return sorted(tag["name"] for tag in row["tags"])

    def is_visible(self, title: str) -> bool:
        """Returns whether customers see the product; on Shopify, in the online store."""
        row = self.row(title)
        if self.platform == "shopify":
            online = next(
                record["id"] for record in self.fake.of("Publication") if record["name"] == "Online Store"
            )
            return online in row["publications"]
        return bool(row["catalog_visibility"] != "hidden")

    def variants(self, title: str) -> dict[str, tuple[str, str | None, int | None]]:
        """Returns price, compare-at price and stock of each variant by SKU."""
        row = self.row(title)
        if self.platform == "shopify":
            return {record["sku"] or "": self._shopify(record) for record in self.fake.owned(row["id"])}
        shop = self.shop.world.state.shop
        rows = [shop.variations[variation] for variation in row["variations"]] or [row]
        return {
            each_row["sku"]: (
                each_row["sale_price"] or each_row["regular_price"],
                each_row["regular_price"] if each_row["sale_price"] else None,
                each_row["stock_quantity"],
            )
            for each_row in rows
        }

    def set_price(self, title: str, price: str) -> None:
        """Sets the price of every variant of a product, and removes its compare-at price."""
        row = self.row(title)
        if self.platform == "shopify":
            for record in self.fake.owned(row["id"]):
                record.update(price=price, compareAtPrice=None)
            return
        shop = self.shop.world.state.shop
        for record in [shop.variations[variation] for variation in row["variations"]] or [row]:
            stock.set_prices(record, {"regular_price": price, "sale_price": ""})
            stock.derive(shop, record)

    def set_stock(self, title: str, count: int) -> None:
        """Sets the stock of every variant of a product."""
        row = self.row(title)
        if self.platform == "shopify":
            for record in self.fake.owned(row["id"]):
                for level in self.fake.owned(record["item"]):
                    level["available"] = count
            return
        shop = self.shop.world.state.shop
        for record in [shop.variations[variation] for variation in row["variations"]] or [row]:
            stock.set_stock(record, {"stock_quantity": count})

    def sell(self, sku: str, *, days: float, counts: bool = True) -> None:
        """Adds an order of the variant this many days ago; without `counts` the order is cancelled."""
        moment = self.shop.clock.now() - timedelta(days=days)
        if self.platform == "shopify":
            rows = [record for record in self.fake.of("ProductVariant") if record["sku"] == sku]
            actual = {"createdAt": stamp(moment), "updatedAt": stamp(moment)}
            gone = {} if counts else {"cancelledAt": stamp(moment)}
            self.fake.add_order(rows, payment="PAID", fulfilment="FULFILLED", **actual, **gone)
            return
        shop = self.shop.world.state.shop
        row = blank.order()
        row |= {"id": shop.next_id("post"), "status": "completed" if counts else "cancelled"}
        row["number"] = str(row["id"])
        shop.mark_created(row, moment)
        for product in shop.products.values():
            body = {"product_id": product["id"], "quantity": 1}
            own_variations = [
                variation for variation in product["variations"] if shop.variations[variation]["sku"] == sku
            ]
            if product["sku"] == sku or own_variations:
                row["line_items"].append(
                    orders.line(shop, body | ({"variation_id": own_variations[0]} if own_variations else {}))
                )
        orders.derive(shop, row)
        shop.orders[row["id"]] = row

    def remove(self, title: str) -> None:
        """Deletes a product."""
        row = self.row(title)
        if self.platform == "shopify":
            for record in self.fake.owned(row["id"]):
                del self.fake.rows[record["id"]]
            del self.fake.rows[row["id"]]
        else:
            del self.shop.world.state.shop.products[row["id"]]

    def row(self, title: str) -> dict[str, Any]:
        if self.platform == "shopify":
            return next(record for record in self.fake.of("Product") if record["title"] == title)
        rows = self.shop.world.state.shop.products.values()
        return next(each_row for each_row in rows if each_row["name"] == title)

    def _shopify(self, row: dict[str, Any]) -> tuple[str, str | None, int | None]:
        item = self.fake.rows[row["item"]]
        levels = self.fake.owned(row["item"])
        count = sum(level["available"] for level in levels) if item["tracked"] else None
        return row["price"], row["compareAtPrice"], count


def fill_woocommerce(shop: Shop, goods: Sequence[ProductSpec]) -> None:
    """Replaces the products of the fake WooCommerce shop by these."""
    woo = shop.world.state.shop
    woo.products.clear()
    woo.variations.clear()
    for product in goods:
        row = blank.product()
        row |= {
            "id": woo.next_id("post"),
            "name": product.title,
            "slug": product.title.lower(),
            "sku": product.item.sku,
        }
        row["status"] = {"live": "publish", "draft": "draft"}[product.status]
        row["catalog_visibility"] = "hidden" if product.hidden else "visible"
        for kind, names in (("tags", product.tags), ("categories", (product.type,))):
            row[kind] = [_term(woo, kind, name) for name in names]
        woo.mark_created(row, woo.now() - timedelta(days=product.age_days))
        woo.products[row["id"]] = row
        if product.sizes:
            row["type"], row["sku"] = "variable", ""
            size_of = {
                "id": 0,
                "name": "Size",
                "slug": "Size",
                "position": 0,
                "visible": True,
                "variation": True,
            }
            row["attributes"] = [{**size_of, "options": list(product.sizes)}]
            for size, item in product.sizes.items():
                own_variation = blank.variation()
                own_variation |= {
                    "id": woo.next_id("post"),
                    "parent_id": row["id"],
                    "name": size,
                    "sku": item.sku,
                }
                own_variation["attributes"] = [{"id": 0, "name": "Size", "slug": "size", "option": size}]
                woo.mark_created(own_variation, woo.now() - timedelta(days=product.age_days))
                _of_item(woo, own_variation, item)
                woo.variations[own_variation["id"]] = own_variation
                row["variations"].append(own_variation["id"])
        else:
            _of_item(woo, row, product.item)
        stock.derive(woo, row)


def _of_item(woo: Any, row: dict[str, Any], item: Item) -> None:
    sale = {"sale_price": item.price} if item.compare_at else {}
    stock.set_prices(row, {"regular_price": item.compare_at or item.price, **sale})
    if item.stock is not None:
        stock.set_stock(row, {"manage_stock": True, "stock_quantity": item.stock})
    stock.derive(woo, row)


def _term(woo: Any, kind: str, name: str) -> dict[str, Any]:
    term = [item for item in woo.terms[kind].values() if item["name"] == name]
    term_id = term[0] if term else terms.add(woo, kind, {"name": name})
    return {column: term_id[column] for column in ("id", "name", "slug")}


def fill_shopify(fake: ShopifyFake, goods: Sequence[ProductSpec]) -> None:
    """Replaces the products of the fake Shopify store by these, all at its first location."""
    for kind in ("InventoryLevel", "InventoryItem", "ProductVariant", "Product"):
        for row in fake.of(kind):
            del fake.rows[row["id"]]
    for goods_of_shop in goods:
        new_stamp = stamp(fake.now() - timedelta(days=goods_of_shop.age_days))
        product = fake.add_product(
            goods_of_shop.title,
            options=tuple(goods_of_shop.sizes),
            tags=list(goods_of_shop.tags),
            productType=goods_of_shop.type,
            vendor=goods_of_shop.vendor,
            status={"live": "ACTIVE", "draft": "DRAFT"}[goods_of_shop.status],
            channels=[] if goods_of_shop.hidden else None,
            createdAt=new_stamp,
            stock=0,
        )
        for row, item in zip(
            fake.owned(product["id"]), goods_of_shop.sizes.values() or [goods_of_shop.item], strict=True
        ):
            row.update(
                price=item.price, compareAtPrice=item.compare_at, sku=item.sku or None, createdAt=new_stamp
            )
            held = fake.rows[row["item"]]
            cost = None if item.cost is None else {"amount": item.cost, "currencyCode": fake.currency}
            held.update(tracked=item.stock is not None, unitCost=cost)
            for level in fake.owned(held["id"]):
                level["available"] = item.stock or 0
