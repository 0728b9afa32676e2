"""Computes how much customers spent: the platform's own total, or the sum of their orders."""

from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from decimal import Decimal

from steward.connectors.base.queries import CUSTOMER, CUSTOMERS, ById, CustomersQuery, OrdersQuery
from steward.connectors.base.records import Customer, Order
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import StepContext
from steward.templates.parts.orders import in_currency, net_of_refunds, order_of_event, read_orders

# A read's lower limit excludes its own instant, and stores store whole seconds.
_EARLIER = timedelta(seconds=1)


async def read_spend(context: StepContext, start: datetime | None) -> AsyncIterator[tuple[Customer, Decimal]]:
    """Yields each customer once with what they spent in the store's currency, at least 0.

    `start`: only orders placed from then on count; null: all orders. Guest orders have no customer. A run
    started by an event yields only the customer of its order. Raises CallError.
    """
    if context.event is not None:
        customer = await _customer_of(context, await order_of_event(context))
        if customer is not None:
            yield customer, await _spend_of(context, customer, start)
        return
    spend = await _spend_by_customer(context, start) if start is not None else None
    async for customer in _customers(context):
        spent = _platform_total(customer, context) if start is None else None
        if spent is None and spend is None:
            # The platform reports no total: the orders are read once, for all customers.
            spend = await _spend_by_customer(context, start)
        yield customer, (spend or {}).get(customer.id, Decimal(0)) if spent is None else spent


async def _spend_of(context: StepContext, customer: Customer, start: datetime | None) -> Decimal:
    total = _platform_total(customer, context) if start is None else None
    if total is not None:
        return total
    return (await _spend_by_customer(context, start, customer.id)).get(customer.id, Decimal(0))


async def _customers(context: StepContext) -> AsyncIterator[Customer]:
    seen: set[str] = set()
    async for page in context.home.reader.read(CUSTOMERS, CustomersQuery()):
        for customer in page.items:
            if customer.id not in seen:
                seen.add(customer.id)
                yield customer


def _platform_total(customer: Customer, context: StepContext) -> Decimal | None:
    """Returns the platform's own total if it has one in the store's currency."""
    if customer.spent is None or customer.currency not in (None, context.home.connection.currency):
        return None
    return max(Decimal(customer.spent), Decimal(0))


async def _spend_by_customer(
    context: StepContext, start: datetime | None, customer_id: str | None = None
) -> dict[str, Decimal]:
    """Returns paid orders minus refunds by customer; reads orders page by page and keeps none in memory."""
    query = OrdersQuery(created_after=None if start is None else start - _EARLIER, customer_id=customer_id)
    sums: dict[str, Decimal] = defaultdict(Decimal)
    async for order in read_orders(context, query):
        if order.customer_id is not None and _counts(order, context, start):
            sums[order.customer_id] += net_of_refunds(order)
    return sums


def _counts(order: Order, context: StepContext, start: datetime | None) -> bool:
    placed = order.created_at
    return (
        order.paid
        and order.cancelled_at is None
        and in_currency(order, context)
        and (start is None or (placed is not None and placed >= start))
    )


async def _customer_of(context: StepContext, order: Order | None) -> Customer | None:
    if order is None or order.customer_id is None:
        return None
    try:
        async for page in context.home.reader.read(CUSTOMER, ById(order.customer_id)):
            for customer in page.items:
                return customer
    except RemoteNotFound:
        return None
    return None
