"""Adds up a store's sales and refunds in a period, and ranks its top products.

Only adds up money in the store's currency.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from steward.connectors.base.queries import (
    ORDERS,
    PRODUCTS,
    REFUNDS,
    OrdersQuery,
    ProductsQuery,
    RefundsQuery,
)
from steward.connectors.base.records import Order, Payment, Refund
from steward.steps.base import AccountAccess, JsonRecord, StepContext
from steward.templates.parts import orders

# A read's limits exclude their own instant, and stores store whole seconds.
_EARLIER = timedelta(seconds=1)
# No platform returns fewer refunds with an order than this when it omits some.
_CERTAINLY_ALL = 5


class SoldLine(JsonRecord, frozen=True):
    """A product and its sales; `product_id` is null when the line names none."""

    product_id: str | None
    title: str
    quantity: int
    sales: Decimal


class PlacedOrder(JsonRecord, frozen=True):
    """An order of the period."""

    currency: str
    total: Decimal
    lines: tuple[SoldLine, ...]


class SalesWindow(JsonRecord, frozen=True):
    """A store's orders and refunds in a period; `refunds` are amounts with their currencies."""

    currency: str | None
    orders: tuple[PlacedOrder, ...] = ()
    refunds: tuple[tuple[str, Decimal], ...] = ()


@dataclass(frozen=True, slots=True)
class SalesSums:
    """A store's figures: `sales` and `refunds` in `currency`.

    `other_currencies` counts the orders in other currencies, which are in `orders` and in no sum.
    """

    currency: str
    orders: int
    sales: Decimal
    refunds: Decimal
    other_currencies: Mapping[str, int]
    lines: tuple[SoldLine, ...]


def _counts_as_sale(order: Order) -> bool:
    """Returns whether an order counts as a sale: no test, not cancelled, and no failed payment."""
    return not order.test and order.cancelled_at is None and order.payment is not Payment.VOIDED


async def read_window(
    account: AccountAccess, start: datetime, end: datetime, *, refunds: bool = True
) -> SalesWindow:
    """Reads the orders placed, and the refunds made on any order, from `start` on and before `end`.

    A refund changes its order's time, so one read of changed orders finds both. Raises CallError.
    """
    query = OrdersQuery(created_after=start - _EARLIER, created_before=end)
    if refunds:
        query = OrdersQuery(modified_after=start - _EARLIER)
    orders: dict[str, Order] = {}
    async for page in account.reader.read(ORDERS, query):
        for order in page.items:
            orders.setdefault(order.id, order)
    sales = [order for order in orders.values() if _counts_as_sale(order)]
    placed = [order for order in sales if order.created_at is not None and start <= order.created_at < end]
    refunded = await _refunds_between(account, sales, start, end) if refunds else []
    return SalesWindow(account.connection.currency, tuple(map(_placed, placed)), tuple(refunded))


async def _refunds_between(
    account: AccountAccess, sales: Iterable[Order], start: datetime, end: datetime
) -> list[tuple[str, Decimal]]:
    """Returns the refunds made from `start` on and before `end`, with their currencies."""
    refunded: list[tuple[str, Decimal]] = []
    for order in sales:
        refunded += [
            (order.currency, Decimal(refund.amount))
            for refund in await _refunds_of(account, order)
            if refund.created_at is not None and start <= refund.created_at < end
        ]
    return refunded


def _placed(order: Order) -> PlacedOrder:
    lines = (
        SoldLine(line.product_id, line.title, line.quantity, Decimal(line.total)) for line in order.lines
    )
    return PlacedOrder(order.currency, Decimal(order.total), tuple(lines))


def add_up(window: SalesWindow) -> SalesSums:
    """Returns the sums of a period."""
    orders_by_currency = Counter(order.currency for order in window.orders)
    currency = window.currency or next(iter(orders_by_currency), "")
    del orders_by_currency[currency]
    orders = [order for order in window.orders if order.currency == currency]
    refunds = (amount for code, amount in window.refunds if code == currency)
    return SalesSums(
        currency=currency,
        orders=len(window.orders),
        sales=sum((order.total for order in orders), Decimal(0)),
        refunds=sum(refunds, Decimal(0)),
        other_currencies=orders_by_currency,
        lines=tuple(line for order in orders for line in order.lines),
    )


def top_products(lines: Sequence[SoldLine], titles: Mapping[str, str | None], limit: int) -> list[SoldLine]:
    """Returns the `limit` products with the highest sales, their variants added up.

    `titles` are the products' own titles. A null title means that the product no longer exists, and its
    lines are grouped by their name in the order.
    """
    quantity: dict[tuple[str | None, str], int] = defaultdict(int)
    sales: dict[tuple[str | None, str], Decimal] = defaultdict(Decimal)
    first_titles: dict[str, str] = {}
    for line in lines:
        product = line.product_id
        if product is None or (product in titles and titles[product] is None):
            key: tuple[str | None, str] = (None, line.title)
        else:
            key = (product, titles.get(product) or first_titles.setdefault(product, line.title))
        quantity[key] += line.quantity
        sales[key] += line.sales
    ranked = sorted(sales, key=lambda key: (-sales[key], -quantity[key], key[1], key[0] or ""))
    return [SoldLine(key[0], key[1], quantity[key], sales[key]) for key in ranked[:limit]]


async def titles_of_top_products(
    account: AccountAccess, lines: Sequence[SoldLine], limit: int
) -> dict[str, str | None]:
    """Reads the titles of the products that `top_products` returns, null for products that no longer exist.

    If some no longer exist, also reads those that take their places. Raises CallError.
    """
    titles: dict[str, str | None] = {}
    while True:
        products = {line.product_id for line in top_products(lines, titles, limit)}
        missing = sorted(product for product in products if product is not None and product not in titles)
        if not missing:
            return titles
        titles |= dict.fromkeys(missing)
        async for page in account.reader.read(PRODUCTS, ProductsQuery(ids=tuple(missing))):
            titles |= {product.id: product.title for product in page.items if product.status != "trash"}


async def _refunds_of(account: AccountAccess, order: Order) -> Sequence[Refund]:
    """Returns the refunds of an order with their times, which some platforms only list separately.

    An order with many refunds may contain only some of them; then all are read.
    """
    if len(order.refunds) < _CERTAINLY_ALL and all(refund.created_at is not None for refund in order.refunds):
        return order.refunds
    refunds: dict[str, Refund] = {}
    async for page in account.reader.read(REFUNDS, RefundsQuery(order.id)):
        for refund in page.items:
            refunds.setdefault(refund.id, refund)
    return list(refunds.values())


async def last_sales_since(
    context: StepContext, start: datetime, *, has_markdowns: bool
) -> Mapping[str, datetime]:
    """Returns when each variant was last sold since `start`, or since the last run if that is earlier."""
    until = await orders.read_until(context) if has_markdowns else None
    since = min(start, until) if until is not None else start
    last_sales: dict[str, datetime] = {}
    query = OrdersQuery(created_after=since - timedelta(seconds=1))
    async for order in orders.read_orders(context, query):
        if _counts_as_sale(order) and order.created_at is not None:
            for line in order.lines:
                if line.variant_id is not None:
                    last_sale = last_sales.get(line.variant_id, since)
                    last_sales[line.variant_id] = max(last_sale, order.created_at)
    return last_sales
