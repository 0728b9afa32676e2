"""Reads the orders a template looks at.

Eeach once, those that count, since the run before (E10, E13, E15).
"""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from steward.connectors.base.queries import ORDER, ORDERS, ById, OrdersQuery
from steward.connectors.base.records import Order
from steward.model.json import JsonObject
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import MemoryWrite, StepContext
from steward.templates.parts.numbers import money_text

# Until when orders were read by the last live run that succeeded.
READ_UNTIL = "orders_read"
OVERLAP = timedelta(minutes=10)
BEFORE_SET_UP = timedelta(hours=24)


async def read_orders(at: StepContext, ask: OrdersQuery) -> AsyncIterator[Order]:
    """The orders asked for, each once (E10), test orders left out (E15). Raises CallError."""
    seen: set[str] = set()
    async for page in at.home.reader.read(ORDERS, ask):
        for order in page.items:
            if order.id not in seen and not order.test:
                yield order
            seen.add(order.id)


async def order_of_event(at: StepContext) -> Order | None:
    """The order of the run's event as it is now; None when it is gone, or does not count (E15)."""
    if at.event is None:
        return None
    try:
        async for page in at.home.reader.read(ORDER, ById(at.event.object_id)):
            for order in page.items:
                return None if order.test else order
    except RemoteNotFound:
        return None
    return None


async def read_until(at: StepContext, key: str = "") -> datetime | None:
    """Until when the last live run that succeeded had read; `key` tells several such times apart."""
    kept = (await at.memory.all(READ_UNTIL)).get(key or "until")
    return datetime.fromisoformat(kept) if isinstance(kept, str) else None


async def changed_since(at: StepContext) -> datetime:
    """Since when orders are looked at (templates 5.3): the run before, else 24 h before set-up."""
    until = await read_until(at)
    return until - OVERLAP if until is not None else (at.automation_created_at or at.now) - BEFORE_SET_UP


def remember_read(read: JsonObject, key: str = "") -> Iterator[MemoryWrite]:
    """To be remembered by the last step: the `until` of what the first one read, none of an event's run."""
    until = read.get("until")
    if isinstance(until, str):
        yield MemoryWrite(READ_UNTIL, key or "until", until)


def until_of(at: StepContext) -> str | None:
    """The `until` of a read that begins now; an event's run reads no stretch of time."""
    return at.now.isoformat() if at.event is None else None


def in_currency(order: Order, at: StepContext) -> bool:
    """Whether the order's sums are in the store's currency; others are never compared or added (E13)."""
    return at.home.connection.currency in (None, order.currency)


def net_of_refunds(order: Order) -> Decimal:
    """What was paid and not given back, at least 0."""
    return max(Decimal(order.total) - Decimal(order.refunded), Decimal(0))


def total_text(order: Order) -> str:
    """The order's total as decimal text."""
    return money_text(Decimal(order.total), order.currency)
