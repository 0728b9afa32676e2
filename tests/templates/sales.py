"""Puts the same orders and customers into either fake store and reads them in shared words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from steward.fake_platforms.woocommerce import blank, orders
from steward.model.automation import Automation
from steward.model.change import Change
from steward.model.run import Mode, Run
from tests.fakes.shopify.goods import number as number_of
from tests.fakes.shopify.goods import stamp
from tests.templates.sample_products import PlatformStore

HOUR = timedelta(hours=1)
_STATES = {"pending": "pending", "on_hold": "on-hold", "failed": "failed", "refunded": "refunded"}
_PAYMENTS = {
    "pending": "PENDING",
    "authorized": "AUTHORIZED",
    "partly_paid": "PARTIALLY_PAID",
    "paid": "PAID",
    "partly_refunded": "PARTIALLY_REFUNDED",
    "refunded": "REFUNDED",
}


@dataclass(frozen=True)
class LineSpec:
    """Describes an order line: SKU, title, quantity and sum; without `ships` there is nothing to send."""

    sku: str = "TEA-1"
    title: str = "Earl Grey"
    quantity: int = 1
    total: str = "20.00"
    ships: bool = True
    exists: bool = True


@dataclass(frozen=True)
class Sale:
    """Describes an order placed `hours` ago; payment and shipping are at the same time unless given."""

    number: str
    lines: tuple[LineSpec, ...] = (LineSpec(),)
    hours: float = 1
    payment: str = "pending"
    sent: str = "unfulfilled"
    paid_hours: float | None = None
    sent_hours: float | None = None
    buyer: str = ""
    country: str = "DE"
    billing: str = "DE"
    code: str = ""
    tags: tuple[str, ...] = ()
    cancelled: bool = False
    refunded: str = ""
    currency: str = "EUR"
    shopify: Mapping[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> str:
        """Returns the sum of the lines."""
        return f"{sum(float(line.total) for line in self.lines):.2f}"


@dataclass
class SaleChanges:
    """Holds the changes of a run by order number or customer name, with messages and outcomes."""

    run: Run
    kept: list[Change]
    names: dict[str, str]

    @property
    def result(self) -> Mapping[str, Any]:
        """Returns the result of the run."""
        assert self.run.result is not None, (self.run.code, self.run.message)
        return self.run.result

    @property
    def changes(self) -> dict[str, dict[str, tuple[Any, Any]]]:
        """Returns the fields that each change changed, as {label: (before, after)}."""
        return {
            self._name(change): {field.label: (field.before, field.after) for field in change.proposal.fields}
            for change in self.kept
        }

    @property
    def beside(self) -> dict[str, str | None]:
        """Returns the message of each change."""
        return {self._name(change): change.proposal.message for change in self.kept}

    @property
    def outcomes(self) -> dict[str, str]:
        """Returns the outcome of each change."""
        return {self._name(change): change.outcome.value for change in self.kept}

    def _name(self, change: Change) -> str:
        return self.names.get(change.proposal.object.id or "", change.proposal.object.label)


@dataclass
class Market:
    """Holds a store of either platform with the orders and customers that tests put there."""

    store: PlatformStore
    ids: dict[str, int] = field(default_factory=dict)

    @property
    def is_shopify(self) -> bool:
        """Returns whether the store is a Shopify store."""
        return self.store.platform == "shopify"

    @property
    def now(self) -> datetime:
        """Returns the time of the clock."""
        return self.store.shop.clock.now()

    def clear(self) -> None:
        """Removes all orders and customers."""
        self.ids.clear()
        woo = self.store.shop.world.state.shop
        woo.orders.clear()
        woo.customers.clear()
        for kind in ("Order", "Customer", "FulfillmentOrder"):
            for row in self.store.fake.of(kind):
                del self.store.fake.rows[row["id"]]

    def people(self, *names: str, tags: tuple[str, ...] = ()) -> None:
        """Adds customers with these names and tags."""
        for name in names:
            if self.is_shopify:
                row = self.store.fake.add_customer(name)
                row["tags"] = list(tags)
                self.ids[name] = number_of(row)
                continue
            woo = self.store.shop.world.state.shop
            row = blank.customer()
            row |= {"id": woo.next_id("user"), "first_name": name, "email": f"{name.lower()}@shop.example"}
            row["meta_data"] = _tags_meta(tags)
            woo.mark_created(row, self.now)
            woo.customers[row["id"]] = row
            self.ids[name] = row["id"]

    def place(self, *sales: Sale) -> None:
        """Adds orders to the store."""
        for sale in sales:
            self.ids[sale.number] = self._on_shopify(sale) if self.is_shopify else self._on_woo(sale)

    def row(self, name: str) -> dict[str, Any]:
        """Returns an order or customer as the store holds it."""
        number = self.ids[name]
        if self.is_shopify:
            rows = self.store.fake.rows
            return rows.get(f"gid://shopify/Order/{number}") or rows[f"gid://shopify/Customer/{number}"]
        woo = self.store.shop.world.state.shop
        results: dict[str, Any] = woo.orders[number] if number in woo.orders else woo.customers[number]
        return results

    def tags(self, name: str) -> list[str]:
        """Returns the tags of an order or customer."""
        row = self.row(name)
        if self.is_shopify:
            return sorted(row["tags"])
        stored_row = next(
            (each_row["value"] for each_row in row["meta_data"] if each_row["key"] == "steward_tags"), ""
        )
        return sorted(item.strip() for item in stored_row.split(",") if item.strip())

    def is_cancelled(self, name: str) -> bool:
        """Returns whether an order is cancelled."""
        row = self.row(name)
        return row["cancelledAt"] is not None if self.is_shopify else bool(row["status"] == "cancelled")

    def edit(self, name: str, tags: tuple[str, ...] | None = None, total: str | None = None) -> None:
        """Changes the tags or total of an order now."""
        row = self.row(name)
        if self.is_shopify:
            row |= {} if tags is None else {"tags": list(tags)}
            row |= {} if total is None else {"totalPriceSet": self.store.fake.money(total)}
            row["updatedAt"] = stamp(self.now)
            return
        row["meta_data"] = row["meta_data"] if tags is None else _tags_meta(tags)
        row["total"] = total or row["total"]
        self.store.shop.world.state.shop.mark_modified(row, self.now)

    def pay(self, name: str) -> None:
        """Marks an order as paid now."""
        row = self.row(name)
        if self.is_shopify:
            row |= {"displayFinancialStatus": "PAID", "updatedAt": stamp(self.now)}
            return
        row["status"] = "processing"
        row["date_paid"], row["date_paid_gmt"] = self.store.shop.world.state.shop.stamp(self.now)
        self.store.shop.world.state.shop.mark_modified(row, self.now)

    async def set_up(self, template: str, **inputs: Any) -> Automation:
        """Creates an automation on the store that is started by hand."""
        return await self.store.set_up(template, inputs)

    async def run(self, automation: Automation, mode: Mode = Mode.LIVE) -> SaleChanges:
        """Runs the automation, approves everything, and returns what it changed."""
        return await self.came(await self.store.both.run(automation, mode))

    async def came(self, run: Run) -> SaleChanges:
        """Returns what a run changed so far, without its sends."""
        changes = [
            change for change in await self.store.shop.changes(run) if change.proposal.action.value != "send"
        ]
        return SaleChanges(run, changes, {str(number): name for name, number in self.ids.items()})

    def _on_woo(self, sale: Sale) -> int:
        woo, moment = self.store.shop.world.state.shop, self.now - sale.hours * HOUR
        row = blank.order()
        row |= {"id": woo.next_id("post"), "number": sale.number, "currency": sale.currency}
        row["customer_id"] = self.ids.get(sale.buyer, 0)
        row["billing"] |= {"country": sale.billing, "first_name": sale.buyer, "email": "buyer@shop.example"}
        row["shipping"] |= {"country": sale.country}
        row["meta_data"] = _tags_meta(sale.tags)
        row["line_items"] = [
            {
                "id": woo.next_id("line"), "name": line.title, "product_id": 1 if line.exists else 0,
                "variation_id": 0, "quantity": line.quantity, "sku": line.sku, "total": line.total,
                "subtotal": line.total, "total_tax": "0.00", "price": 1, "meta_data": [],
            }
            for line in sale.lines
        ]  # fmt: skip
        row["coupon_lines"] = [{"code": sale.code}] if sale.code else []
        if sale.refunded:
            row["refunds"] = [{"id": woo.next_id("post"), "reason": "", "total": f"-{sale.refunded}"}]
        woo.mark_created(row, moment)
        paid = sale.payment in ("paid", "partly_refunded", "refunded")
        if paid:
            row["date_paid"], row["date_paid_gmt"] = woo.stamp(self._when(sale.paid_hours, sale))
        if sale.sent == "fulfilled":
            row["date_completed"], row["date_completed_gmt"] = woo.stamp(self._when(sale.sent_hours, sale))
        state = "completed" if sale.sent == "fulfilled" else _STATES.get(sale.payment, "processing")
        row["status"] = "cancelled" if sale.cancelled else state
        orders.derive(woo, row)
        row["needs_processing"] = any(line.ships for line in sale.lines)
        woo.orders[row["id"]] = row
        return int(row["id"])

    def _on_shopify(self, sale: Sale) -> int:
        fake, timestamp = self.store.fake, stamp(self.now - sale.hours * HOUR)
        person = fake.rows.get(f"gid://shopify/Customer/{self.ids.get(sale.buyer, 0)}")
        row = fake.add_order(
            [],
            customer=person,
            payment=_PAYMENTS[sale.payment],
            fulfilment=sale.sent.upper(),
            name=sale.number,
            createdAt=timestamp,
            updatedAt=timestamp,
            processedAt=timestamp,
            tags=list(sale.tags),
            currencyCode=sale.currency,
            totalPriceSet=fake.money(sale.total),
            discountCodes=[sale.code] if sale.code else [],
            shippingAddress={"name": sale.buyer, "countryCodeV2": sale.country} if sale.country else None,
            billingAddress={"name": sale.buyer, "countryCodeV2": sale.billing} if sale.billing else None,
        )
        row["lineItems"] = [self._line(line, sale) for line in sale.lines]
        paid = stamp(self._when(sale.paid_hours, sale))
        for transaction in row["transactions"]:
            transaction |= {"processedAt": paid, "amountSet": fake.money(sale.total)}
        if sale.sent == "fulfilled":
            row["fulfillments"] = [
                {"createdAt": stamp(self._when(sale.sent_hours, sale)), "status": "SUCCESS"}
            ]
        if sale.refunded:
            refund = fake.make("Refund", totalRefundedSet=fake.money(sale.refunded))
            row["refunds"] = [{**refund, "createdAt": timestamp}]
        row["cancelledAt"] = timestamp if sale.cancelled else None
        row.update(sale.shopify)
        return number_of(row)

    def _line(self, line: LineSpec, sale: Sale) -> dict[str, Any]:
        fake = self.store.fake
        variant = self._variant(line) if line.exists else None
        return fake.make(
            "LineItem",
            title=line.title,
            variantTitle=None,
            sku=line.sku,
            quantity=line.quantity,
            currentQuantity=line.quantity,
            unfulfilledQuantity=0 if sale.sent == "fulfilled" else line.quantity,
            requiresShipping=line.ships,
            discountedTotalSet=fake.money(line.total),
            product=variant and variant["product"],
            variant=variant and variant["id"],
        )

    def _variant(self, line: LineSpec) -> dict[str, Any]:
        variants = [row for row in self.store.fake.of("ProductVariant") if row["sku"] == line.sku]
        if variants:
            return variants[0]
        product = self.store.fake.add_product(line.title, sku=line.sku)
        return self.store.fake.owned(product["id"])[0]

    def _when(self, hours: float | None, sale: Sale) -> datetime:
        return self.now - (sale.hours if hours is None else hours) * HOUR


def _tags_meta(tags: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"id": 1, "key": "steward_tags", "value": ",".join(tags)}] if tags else []
