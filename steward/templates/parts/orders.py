"""Reads a template's orders, each once and without test orders, and remembers until when they were read."""

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from steward.connectors.base.queries import ORDER, ORDERS, ById, OrdersQuery
from steward.connectors.base.records import Order
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import MemoryWrite, StepContext
from steward.templates.parts.numbers import money_text

# Memory space: the time up to which the last successful live run read orders.
_READ_UNTIL = "orders_read"
OVERLAP = timedelta(minutes=10)
_BEFORE_SET_UP = timedelta(hours=24)


async def read_orders(context: StepContext, query: OrdersQuery) -> AsyncIterator[Order]:
    """Yields the orders of the query, each once, without test orders. Raises CallError."""
    seen: set[str] = set()
    async for page in context.home.reader.read(ORDERS, query):
        for order in page.items:
            if order.id not in seen and not order.test:
                yield order
            seen.add(order.id)


async def order_of_event(context: StepContext) -> Order | None:
    """Returns the current order of the run's event; None when it no longer exists or is a test order."""
    if context.event is None:
        return None
    try:
        async for page in context.home.reader.read(ORDER, ById(context.event.object_id)):
            for order in page.items:
                return None if order.test else order
    except RemoteNotFound:
        return None
    return None


async def read_changed_orders(context: StepContext) -> dict[str, Order]:
    """Returns the order of the run's event, or the orders changed since the last run, by id."""
    if context.event is not None:
        order = await order_of_event(context)
        return {} if order is None else {order.id: order}
    query = OrdersQuery(modified_after=await changed_since(context))
    return {order.id: order async for order in read_orders(context, query)}


async def read_orders_by_id(context: StepContext, ids: Iterable[str]) -> dict[str, Order]:
    """Returns the orders with these ids that still exist, by id."""
    order_ids = tuple(sorted(ids))
    if not order_ids:
        return {}
    return {order.id: order async for order in read_orders(context, OrdersQuery(ids=order_ids))}


async def read_until(context: StepContext, key: str = "until") -> datetime | None:
    """Returns the time up to which the last successful live run read; `key` separates several such times."""
    until = (await context.memory.all(_READ_UNTIL)).get(key)
    return datetime.fromisoformat(until) if isinstance(until, str) else None


async def changed_since(context: StepContext) -> datetime:
    """Returns the time from which on to read changes.

    It is 10 minutes before the last successful live run read, or 24 hours before the automation was set up.
    """
    until = await read_until(context)
    if until is not None:
        return until - OVERLAP
    return (context.automation_created_at or context.now) - _BEFORE_SET_UP


def remember_read(until: str | None, key: str = "until") -> Iterator[MemoryWrite]:
    """Yields the memory write of the last step for the `until` that the first step returned."""
    if until is not None:
        yield MemoryWrite(_READ_UNTIL, key, until)


def until_of(context: StepContext) -> str | None:
    """Returns the `until` of a read that begins now; None for a run started by an event."""
    return context.now.isoformat() if context.event is None else None


def in_currency(order: Order, context: StepContext) -> bool:
    """Returns whether the order is in the store's currency; other orders are never compared or added up."""
    return context.home.connection.currency in (None, order.currency)


def net_of_refunds(order: Order) -> Decimal:
    """Returns the amount that was paid and not refunded, at least 0."""
    return max(Decimal(order.total) - Decimal(order.refunded), Decimal(0))


def total_text(order: Order) -> str:
    """Returns the order's total as decimal text."""
    return money_text(Decimal(order.total), order.currency)
