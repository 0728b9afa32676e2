"""Unfulfilled orders: reports paid orders that have not been sent after some days."""

from collections.abc import Sequence
from datetime import datetime

from steward.connectors.base.commands import PostCard
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Fulfilment, Order, Payment
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.steps.tag_lists import has_any_tag
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.ages import days_before, whole_days
from steward.templates.parts.messages import no_message, post_card
from steward.templates.parts.orders import read_orders, total_text
from steward.templates.parts.stored_orders import OrderTable

READ, PICK, SEND = "read-orders", "pick-old", "send-alert"


class _UnfulfilledInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    older_than_days: int
    except_tags: tuple[str, ...]


class _OpenPaidOrders(StepOutput, frozen=True):
    """The open orders that are paid and have something left to send."""

    orders: OrderTable


class _WaitingOrder(JsonRecord, frozen=True):
    """An order that has waited too long."""

    number: str
    customer: str
    days: int
    total: str
    currency: str
    partly_sent: bool
    on_hold: bool
    url: str | None

    @property
    def name(self) -> str:
        """The order's number with its customer."""
        return f"{self.number}, {self.customer}" if self.customer else self.number

    @property
    def state(self) -> str:
        """How long the order has waited, its total, and its state."""
        message = f"{counted(self.days, 'day')}, {self.total} {self.currency}"
        if self.on_hold:
            return f"{message}, on hold"
        return f"{message}, sent in part" if self.partly_sent else message


class _WaitingOrders(StepOutput, frozen=True):
    """The orders that have waited too long, oldest first, with those on hold last."""

    checked: int = 0
    waiting: tuple[_WaitingOrder, ...] = ()


async def _read_open(context: StepContext) -> StepResult:
    """Reads the open orders that are paid and have something left to send."""
    orders = [order async for order in read_orders(context, OrdersQuery(open_only=True)) if _is_unsent(order)]
    title = f"Read {counted(len(orders), 'open order')}"
    return _OpenPaidOrders(OrderTable(orders)).as_result(title, read=len(orders))


async def pick_old(context: StepContext) -> StepResult:
    """Picks the orders that have waited too long."""
    options = _UnfulfilledInputs.from_json(context.inputs)
    orders = list(context.output(READ, _OpenPaidOrders).orders)
    before = days_before(context.now, options.older_than_days, context.zone)
    old: list[tuple[datetime, Order]] = []
    for order in orders:
        since = order.paid_at or order.created_at
        if since is not None and since < before and not has_any_tag(order.tags, options.except_tags):
            old.append((since, order))
    old.sort(key=lambda row: (_is_on_hold(row[1]), row[0], row[1].number))
    waiting = tuple(_waiting(context, since, order) for since, order in old)
    title = (
        f"Found {counted(len(old), 'order')} waiting for more than {counted(options.older_than_days, 'day')}"
    )
    return _WaitingOrders(len(orders), waiting).as_result(title, matched=len(old))


async def send_alert(context: StepContext) -> StepResult:
    """Posts one message if an order waits too long."""
    waiting = context.output(PICK, _WaitingOrders).waiting
    return post_card(context, _card(context, waiting)) if waiting else no_message()


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    picked = ended.output(PICK, _WaitingOrders)
    count, waits = len(picked.waiting), verb(len(picked.waiting), "waits", "wait")
    days = counted(_UnfulfilledInputs.from_json(ended.inputs).older_than_days, "day")
    text = sentences(
        f"{count} of {counted(picked.checked, 'open paid order')} {waits} for more than {days}.",
        ended.message_sentence(SEND),
    )
    orders = [{"number": order.number, "days": order.days, "total": order.total} for order in picked.waiting]
    return base.run_summary(text, {"checked": picked.checked, "waiting": count, "orders": orders})


def _is_unsent(order: Order) -> bool:
    """Returns whether an order is paid, not cancelled or refunded, and has items left to ship."""
    return (
        order.paid
        and order.cancelled_at is None
        and order.payment is not Payment.REFUNDED
        and order.fulfilment is not Fulfilment.FULFILLED
        and any(line.ships and line.open_quantity != 0 for line in order.lines)
    )


def _is_on_hold(order: Order) -> bool:
    return order.fulfilment is Fulfilment.ON_HOLD


def _waiting(context: StepContext, since: datetime, order: Order) -> _WaitingOrder:
    return _WaitingOrder(
        number=order.number,
        customer=order.customer_name,
        days=whole_days(since, context.now, context.zone),
        total=total_text(order),
        currency=order.currency,
        partly_sent=order.fulfilment is Fulfilment.PARTIAL,
        on_hold=_is_on_hold(order),
        url=order.url,
    )


def _card(context: StepContext, waiting: Sequence[_WaitingOrder]) -> PostCard:
    days = _UnfulfilledInputs.from_json(context.inputs).older_than_days
    on_hold = sum(order.on_hold for order in waiting)
    lines = [f"Paid more than {counted(days, 'day')} ago, the oldest first."]
    if on_hold:
        lines.append(f"Listed last: {counted(on_hold, 'order')} on hold.")
    url = waiting[0].url if len(waiting) == 1 else None
    return PostCard(
        title=f"{counted(len(waiting), 'paid order')} not sent at {context.home.connection.name}",
        text=tuple(lines),
        facts=tuple((order.name, order.state) for order in waiting),
        link=("Open the order", url) if url else None,
    )


TEMPLATE = base.define(
    "unfulfilled-order-alert",
    "Unfulfilled orders",
    "Tells Teams which paid orders have not been sent after some days.",
    category=base.Category.ORDERS,
    connections=(base.TEAMS,),
    inputs=inputs.inputs_schema(
        ["older_than_days", "teams"],
        {
            "older_than_days": inputs.integer("Paid longer ago than this", 1, 60, default=3),
            "except_tags": inputs.shared("tags", "Orders with one of these are left out"),
            "teams": inputs.shared("teams", "Where the message goes"),
        },
    ),
    result=results.counts_schema(
        *("checked", "waiting"),
        orders=results.list_of({"number": results.TEXT, "days": results.COUNT, "total": results.AMOUNT}),
    ),
    steps=(
        base.read_step(READ, "Read open orders", _read_open),
        base.decide_step(PICK, "Find those waiting too long", pick_old),
        base.send_step(SEND, "Post the list", send_alert),
    ),
    schedule=Schedule(Cadence.WEEKDAYS, time_of_day="09:00"),
    example={
        "checked": 44,
        "waiting": 2,
        "orders": [{"number": "#1001", "days": 5, "total": "20.00"}],
    },
    finish=finish,
)
