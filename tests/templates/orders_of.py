"""The same orders in both pretend stores, written once as data, for expectations that hold on both."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from steward.fake_platforms.woocommerce import blank, orders
from steward.fake_platforms.woocommerce.shop import FakeShop as WooShop
from tests.fakes.shopify.goods import stamp
from tests.fakes.shopify.store import ShopifyFake

STATES = {
    "paid": ("processing", "PAID"),
    "pending": ("pending", "PENDING"),
    "failed": ("failed", "VOIDED"),
    "cancelled": ("cancelled", "VOIDED"),
    "sent": ("completed", "PAID"),
    "risky": ("processing", "PAID"),
}


@dataclass(frozen=True)
class Bought:
    """One order: when, how far it came, which products at which sum, and (amount, when) given back."""

    at: datetime
    lines: tuple[tuple[str, int, str], ...]
    state: str = "paid"
    refunds: tuple[tuple[str, datetime], ...] = ()

    @property
    def total(self) -> str:
        """The sum of its lines."""
        return str(sum((Decimal(total) for _, _, total in self.lines), Decimal("0.00")))

    @property
    def modified(self) -> datetime:
        """When it last changed: a refund is a change."""
        return max(self.at, *(when for _, when in self.refunds)) if self.refunds else self.at


def in_woocommerce(shop: WooShop, bought: Sequence[Bought]) -> None:
    """These orders and no others; a product not there yet is put on the shelf."""
    shop.orders.clear()
    shop.refunds.clear()
    shelf = {row["name"]: number for number, row in shop.products.items()}
    for one in bought:
        row: dict[str, Any] = blank.order()
        row |= {"id": shop.next_id("post"), "status": STATES[one.state][0], "currency": "EUR"}
        row["number"] = str(row["id"])
        for title, quantity, total in one.lines:
            if title not in shelf:
                made = blank.product()
                made |= {"id": shop.next_id("post"), "name": title}
                shop.products[made["id"]] = made
                shelf[title] = made["id"]
            line = orders.line(shop, {"product_id": shelf[title], "quantity": quantity})
            row["line_items"].append({**line, "total": total, "subtotal": total})
        orders.derive(shop, row)
        shop.mark_created(row, one.at)
        shop.mark_modified(row, one.modified)
        if STATES[one.state][1] == "PAID":
            row["date_paid"], row["date_paid_gmt"] = shop.stamp(one.at)
        for amount, when in one.refunds:
            local, gmt = shop.stamp(when)
            given = {"id": shop.next_id("post"), "order_id": row["id"], "amount": amount, "reason": ""}
            shop.refunds[given["id"]] = {**given, "date_created": local, "date_created_gmt": gmt}
            row["refunds"].append({"id": given["id"], "reason": "", "total": f"-{amount}"})
        shop.orders[row["id"]] = row


def in_shopify(store: ShopifyFake, bought: Sequence[Bought]) -> None:
    """These orders, beside whatever the store has; a product not there yet is put on the shelf."""
    shelf = {row["title"]: row for row in store.of("Product")}
    for one in bought:
        variants = []
        for title, _, _ in one.lines:
            if title not in shelf:
                shelf[title] = store.add_product(title)
            variants.append(store.owned(shelf[title]["id"])[0])
        payment = STATES[one.state][1]
        order = store.add_order(
            variants,
            payment=payment,
            fulfilment="FULFILLED" if one.state == "sent" else "UNFULFILLED",
            risk="HIGH" if one.state == "risky" else "LOW",
            totalPriceSet=store.money(one.total),
        )
        for line, (_, quantity, total) in zip(order["lineItems"], one.lines, strict=True):
            line |= {"quantity": quantity, "discountedTotalSet": store.money(total)}
        order["createdAt"] = order["processedAt"] = stamp(one.at)
        for each in (*order["fulfillments"], *order["transactions"]):
            each |= {key: stamp(one.at) for key in ("createdAt", "processedAt") if key in each}
        order["updatedAt"] = stamp(one.modified)
        order["cancelledAt"] = stamp(one.at) if one.state == "cancelled" else None
        order["refunds"] = [
            store.make("Refund", createdAt=stamp(when), totalRefundedSet=store.money(amount))
            for amount, when in one.refunds
        ]
