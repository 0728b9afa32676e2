"""Puts the same orders into both fake stores, for expectations that hold on both."""

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
class OrderSpec:
    """Describes an order: time, state, lines of (product, quantity, sum), and refunds of (amount, time)."""

    at: datetime
    lines: tuple[tuple[str, int, str], ...]
    state: str = "paid"
    refunds: tuple[tuple[str, datetime], ...] = ()

    @property
    def total(self) -> str:
        """Returns the sum of the lines."""
        return str(sum((Decimal(total) for _, _, total in self.lines), Decimal("0.00")))

    @property
    def modified(self) -> datetime:
        """Returns when the order last changed; a refund is a change."""
        return max(self.at, *(when for _, when in self.refunds)) if self.refunds else self.at


def in_woocommerce(shop: WooShop, bought: Sequence[OrderSpec]) -> None:
    """Replaces the orders of the WooCommerce shop by these, adding products that it lacks."""
    shop.orders.clear()
    shop.refunds.clear()
    shelf = {row["name"]: number for number, row in shop.products.items()}
    for order in bought:
        row: dict[str, Any] = blank.order()
        row |= {"id": shop.next_id("post"), "status": STATES[order.state][0], "currency": "EUR"}
        row["number"] = str(row["id"])
        for title, quantity, total in order.lines:
            if title not in shelf:
                product = blank.product()
                product |= {"id": shop.next_id("post"), "name": title}
                shop.products[product["id"]] = product
                shelf[title] = product["id"]
            line = orders.line(shop, {"product_id": shelf[title], "quantity": quantity})
            row["line_items"].append({**line, "total": total, "subtotal": total})
        orders.derive(shop, row)
        shop.mark_created(row, order.at)
        shop.mark_modified(row, order.modified)
        if STATES[order.state][1] == "PAID":
            row["date_paid"], row["date_paid_gmt"] = shop.stamp(order.at)
        for amount, when in order.refunds:
            local, gmt = shop.stamp(when)
            new_order = {
                "id": shop.next_id("post"),
                "order_id": row["id"],
                "amount": amount,
                "reason": "",
            }
            shop.refunds[new_order["id"]] = {
                **new_order,
                "date_created": local,
                "date_created_gmt": gmt,
            }
            row["refunds"].append({"id": new_order["id"], "reason": "", "total": f"-{amount}"})
        shop.orders[row["id"]] = row


def in_shopify(store: ShopifyFake, bought: Sequence[OrderSpec]) -> None:
    """Adds these orders to the Shopify store, with the products that it lacks."""
    shelf = {row["title"]: row for row in store.of("Product")}
    for bought_order in bought:
        variants = []
        for title, _, _ in bought_order.lines:
            if title not in shelf:
                shelf[title] = store.add_product(title)
            variants.append(store.owned(shelf[title]["id"])[0])
        payment = STATES[bought_order.state][1]
        order = store.add_order(
            variants,
            payment=payment,
            fulfilment="FULFILLED" if bought_order.state == "sent" else "UNFULFILLED",
            risk="HIGH" if bought_order.state == "risky" else "LOW",
            totalPriceSet=store.money(bought_order.total),
        )
        for line, (_, quantity, total) in zip(order["lineItems"], bought_order.lines, strict=True):
            line |= {"quantity": quantity, "discountedTotalSet": store.money(total)}
        order["createdAt"] = order["processedAt"] = stamp(bought_order.at)
        for item in (*order["fulfillments"], *order["transactions"]):
            item |= {key: stamp(bought_order.at) for key in ("createdAt", "processedAt") if key in item}
        order["updatedAt"] = stamp(bought_order.modified)
        order["cancelledAt"] = stamp(bought_order.at) if bought_order.state == "cancelled" else None
        order["refunds"] = [
            store.make("Refund", createdAt=stamp(when), totalRefundedSet=store.money(amount))
            for amount, when in bought_order.refunds
        ]
