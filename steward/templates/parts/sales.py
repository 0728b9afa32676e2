"""What a store sold and gave back within some hours, and its best products (templates E13, E15, E16).

Money is added in the store's currency alone; turning one into another is the template's.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from steward.connectors.base.queries import (
    ORDERS,
    PRODUCTS,
    REFUNDS,
    OrdersQuery,
    ProductsQuery,
    RefundsQuery,
)
from steward.connectors.base.records import Order, Payment, Refund
from steward.model.json import JsonObject, JsonValue
from steward.steps.base import AccountAccess

# The limits of a read leave out their own instant, and shops keep whole seconds.
_EARLIER = timedelta(seconds=1)
# Fewer refunds than this are never cut off where they stand with their order.
_SURELY_ALL = 5


@dataclass(frozen=True, slots=True)
class Sold:
    """A product and what was sold of it; `product_id` null where the line names none."""

    product_id: str | None
    title: str
    quantity: int
    sales: Decimal


@dataclass(frozen=True, slots=True)
class Sums:
    """A store's figures: `sales` and `refunds` in `currency`; `apart` counts orders in other currencies,
    which are in `orders` and in no sum."""

    currency: str
    orders: int
    sales: Decimal
    refunds: Decimal
    apart: Mapping[str, int]
    lines: tuple[Sold, ...]


def counts_as_sale(order: Order) -> bool:
    """Whether an order counts: no test, not cancelled (E15), and its payment did not fail."""
    return not order.test and order.cancelled_at is None and order.payment is not Payment.VOIDED


async def read_window(
    account: AccountAccess, start: datetime, end: datetime, *, refunds: bool = True
) -> JsonObject:
    """The orders placed, and the refunds made on any order, from `start` on and before `end`; as JSON.

    A refund moves its order's time, so one read of what changed since finds both. Raises CallError.
    """
    ask = OrdersQuery(created_after=start - _EARLIER, created_before=end)
    if refunds:
        ask = OrdersQuery(modified_after=start - _EARLIER)
    orders: dict[str, Order] = {}
    async for page in account.reader.read(ORDERS, ask):
        for order in page.items:
            orders.setdefault(order.id, order)
    placed: list[JsonValue] = []
    returned: list[JsonValue] = []
    for order in filter(counts_as_sale, orders.values()):
        if order.created_at is not None and start <= order.created_at < end:
            lines: list[JsonValue] = [
                [line.product_id, line.title, line.quantity, line.total] for line in order.lines
            ]
            placed.append([order.currency, order.total, lines])
        for refund in await _refunds_of(account, order) if refunds else ():
            if refund.created_at is not None and start <= refund.created_at < end:
                returned.append([order.currency, refund.amount])
    return {"currency": account.connection.currency, "orders": placed, "refunds": returned}


def add_up(read: JsonValue) -> Sums:
    """The sums of what `read_window` gave."""
    found: Any = read
    currency = found["currency"] or next((order[0] for order in found["orders"]), "")
    own = [order for order in found["orders"] if order[0] == currency]
    apart: dict[str, int] = defaultdict(int)
    for order in found["orders"]:
        if order[0] != currency:
            apart[order[0]] += 1
    return Sums(
        currency=currency,
        orders=len(found["orders"]),
        sales=sum((Decimal(order[1]) for order in own), Decimal(0)),
        refunds=sum((Decimal(amount) for of, amount in found["refunds"] if of == currency), Decimal(0)),
        apart=dict(apart),
        lines=tuple(
            Sold(product, title, quantity, Decimal(total))
            for order in own
            for product, title, quantity, total in order[2]
        ),
    )


def best(lines: Sequence[Sold], titles: Mapping[str, str | None], most: int) -> list[Sold]:
    """The `most` products that sold for most, their variants added up under them.

    `titles` are the products' own; a product that is null there no longer exists, and its lines count by
    the name they have on the order.
    """
    quantity: dict[tuple[str | None, str], int] = defaultdict(int)
    sales: dict[tuple[str | None, str], Decimal] = defaultdict(Decimal)
    first: dict[str, str] = {}
    for line in lines:
        number = line.product_id
        if number is None or (number in titles and titles[number] is None):
            key: tuple[str | None, str] = (None, line.title)
        else:
            key = (number, titles.get(number) or first.setdefault(number, line.title))
        quantity[key] += line.quantity
        sales[key] += line.sales
    ranked = sorted(sales, key=lambda key: (-sales[key], -quantity[key], key[1], key[0] or ""))
    return [Sold(key[0], key[1], quantity[key], sales[key]) for key in ranked[:most]]


async def titles_of_best(account: AccountAccess, lines: Sequence[Sold], most: int) -> dict[str, str | None]:
    """The titles of those products `best` would name, null for one that no longer exists.

    Only those are read; where some are gone, those that take their places too. Raises CallError.
    """
    titles: dict[str, str | None] = {}
    while True:
        named = {each.product_id for each in best(lines, titles, most)}
        unknown = sorted(number for number in named if number is not None and number not in titles)
        if not unknown:
            return titles
        titles |= dict.fromkeys(unknown)
        async for page in account.reader.read(PRODUCTS, ProductsQuery(ids=tuple(unknown))):
            titles |= {product.id: product.title for product in page.items if product.status != "trash"}


async def _refunds_of(account: AccountAccess, order: Order) -> Sequence[Refund]:
    """The refunds of an order with their times, which some platforms tell only when asked.

    Of many refunds some may stand with the order alone; then all are read.
    """
    if len(order.refunds) < _SURELY_ALL and all(refund.created_at is not None for refund in order.refunds):
        return order.refunds
    found: dict[str, Refund] = {}
    async for page in account.reader.read(REFUNDS, RefundsQuery(order.id)):
        for refund in page.items:
            found.setdefault(refund.id, refund)
    return list(found.values())
