"""What customers spent: the platform's own total, or the sum of their orders (templates 5.7, E13, E15)."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from steward.connectors.base.queries import CUSTOMER, CUSTOMERS, ById, CustomersQuery, OrdersQuery
from steward.connectors.base.records import Customer, Order
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import StepContext
from steward.templates.parts.orders import in_currency, net_of_refunds, order_of_event, read_orders

# The limit of a read leaves out its own instant, and shops keep whole seconds.
_EARLIER = timedelta(seconds=1)


async def read_spend(at: StepContext, start: datetime | None) -> AsyncIterator[tuple[Customer, Decimal]]:
    """Each customer once (E10) with what they spent in the store's currency, at least 0.

    `start`: only on orders placed from then on; null: of all time. Guest orders have no customer. An
    event's run gives the customer of its order alone. Raises CallError.
    """
    if at.event is not None:
        order = await order_of_event(at)
        customer = await _customer(at, order)
        if customer is not None:
            own = _told(customer, at) if start is None else None
            sums = {} if own is not None else await _sums(at, start, customer.id)
            yield customer, sums.get(customer.id, Decimal(0)) if own is None else own
        return
    sums_of_all: Mapping[str, Decimal] | None = await _sums(at, start) if start is not None else None
    seen: set[str] = set()
    async for page in at.home.reader.read(CUSTOMERS, CustomersQuery()):
        for customer in page.items:
            if customer.id in seen:
                continue
            seen.add(customer.id)
            own = _told(customer, at) if start is None else None
            if own is None and sums_of_all is None:
                # The platform tells no total: the orders are read once, for all customers.
                sums_of_all = await _sums(at, start)
            found = sums_of_all or {}
            yield customer, found.get(customer.id, Decimal(0)) if own is None else own


def _told(customer: Customer, at: StepContext) -> Decimal | None:
    """The platform's own total, where it gives one in the store's currency."""
    if customer.spent is None or customer.currency not in (None, at.home.connection.currency):
        return None
    return max(Decimal(customer.spent), Decimal(0))


async def _sums(at: StepContext, start: datetime | None, customer: str | None = None) -> dict[str, Decimal]:
    """Paid orders less refunds by customer; orders are read page by page and not kept."""
    ask = OrdersQuery(created_after=None if start is None else start - _EARLIER, customer_id=customer)
    sums: dict[str, Decimal] = defaultdict(Decimal)
    async for order in read_orders(at, ask):
        if order.customer_id is not None and _counts(order, at, start):
            sums[order.customer_id] += net_of_refunds(order)
    return sums


def _counts(order: Order, at: StepContext, start: datetime | None) -> bool:
    placed = order.created_at
    return (
        order.paid
        and order.cancelled_at is None
        and in_currency(order, at)
        and (start is None or (placed is not None and placed >= start))
    )


async def _customer(at: StepContext, order: Order | None) -> Customer | None:
    if order is None or order.customer_id is None:
        return None
    try:
        async for page in at.home.reader.read(CUSTOMER, ById(order.customer_id)):
            for customer in page.items:
                return customer
    except RemoteNotFound:
        return None
    return None
