"""Cancel unpaid orders: cancels orders that stay unpaid too long."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from steward.connectors.base.commands import CancelOrder
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Fulfilment, Order, Payment
from steward.model.change import Action, FieldKind
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.steps.tag_lists import has_any_tag
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.ages import whole_hours
from steward.templates.parts.orders import read_orders, total_text
from steward.templates.parts.stored_orders import OrderTable

READ, PICK, CANCEL = "read-unpaid", "pick-old", "cancel-orders"
# The payment state that the stores of each platform lack.
_FOREIGN_STATUS = {"shopify": "on_hold", "woocommerce": "authorized"}


class _CancelInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    older_than_hours: int
    statuses: tuple[str, ...]
    except_tags: tuple[str, ...]
    restock: bool
    notify_customer: bool


class _UnpaidOrders(StepOutput, frozen=True):
    """The open orders that are unpaid or paid in part."""

    orders: OrderTable


class _CancelledRow(JsonRecord, frozen=True):
    """An order to cancel, as the result lists it."""

    number: str
    total: str
    hours: int


class _OldUnpaidOrders(StepOutput, frozen=True):
    """The orders unpaid for too long."""

    checked: int = 0
    excepted: int = 0
    partly_paid: int = 0
    cancel: OrderTable = OrderTable()
    orders: tuple[_CancelledRow, ...] = ()


async def _read_unpaid(context: StepContext) -> StepResult:
    """Reads the open orders whose payment counts as unpaid, and those paid in part."""
    options = _CancelInputs.from_json(context.inputs)
    payments = {Payment(status) for status in options.statuses} | {Payment.PARTLY_PAID}
    orders = [
        order
        async for order in read_orders(context, OrdersQuery(open_only=True))
        if order.payment in payments and not order.paid and order.cancelled_at is None
    ]
    title = f"Read {counted(len(orders), 'unpaid order')}"
    return _UnpaidOrders(OrderTable(orders)).as_result(title, read=len(orders))


async def pick_old(context: StepContext) -> StepResult:
    """Picks the orders that have been unpaid for too long, except orders that are never cancelled."""
    options = _CancelInputs.from_json(context.inputs)
    orders = list(context.output(READ, _UnpaidOrders).orders)
    old = _placed_before(orders, context.now - timedelta(hours=options.older_than_hours))
    untouched = [order for order in old if not _is_begun(order)]
    due = [order for order in untouched if not has_any_tag(order.tags, options.except_tags)]
    planned = _plan(context, due)
    plannable = {proposal.object.id for proposal in planned.proposals}
    cancel = [order for order in due if order.id in plannable]
    output = _OldUnpaidOrders(
        checked=len(orders),
        excepted=len(untouched) - len(due),
        partly_paid=len(old) - len(untouched),
        cancel=OrderTable(cancel),
        orders=tuple(
            _CancelledRow(order.number, total_text(order), _hours(context, order)) for order in cancel
        ),
    )
    age = counted(options.older_than_hours, "hour")
    return output.as_result(
        f"Found {counted(len(cancel), 'order')} unpaid for more than {age}",
        matched=len(cancel),
        message=_problems_message(planned),
    )


def _placed_before(orders: Iterable[Order], before: datetime) -> list[Order]:
    return [order for order in orders if order.created_at is not None and order.created_at < before]


def _problems_message(planned: PlannedChanges) -> str | None:
    reasons = [f"{problem.item}: {problem.message}" for problem in planned.problems[:5]]
    return f"Left alone: {'; '.join(reasons)}" if reasons else None


async def _cancel_orders(context: StepContext) -> StepResult:
    """Proposes the cancellations. Raises TooManyChanges."""
    picked = context.output(PICK, _OldUnpaidOrders)
    context.check_limit(len(picked.orders))
    proposals = _plan(context, list(picked.cancel)).proposals
    return StepResult({}, title=f"Cancel {counted(len(proposals), 'order')}", proposals=proposals)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    picked = ended.output(PICK, _OldUnpaidOrders)
    cancelled = ended.applied_rows(CANCEL, picked.orders)
    partly, excepted = picked.partly_paid, picked.excepted
    it_is, its = verb(partly, "it is", "they are"), verb(excepted, "its", "their")
    text = sentences(
        ended.changes_sentence(CANCEL, "order", "cancelled", if_none="No order was cancelled."),
        if_any(
            partly, f"{counted(partly, 'order')} left alone, since {it_is} paid, sent or refunded in part."
        ),
        if_any(excepted, f"{counted(excepted, 'order')} left alone because of {its} tags."),
    )
    result = {
        "checked": picked.checked,
        "cancelled": len(cancelled),
        "excepted": excepted,
        "partly_paid": partly,
        "orders": cancelled,
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Rejects payment states that the store's platform does not have."""
    foreign = _FOREIGN_STATUS.get(setup.store.kind if setup.store is not None else "")
    if foreign in _CancelInputs.from_json(values).statuses:
        return {"inputs.statuses": [f"A store of this kind has no payment state {foreign}."]}
    return {}


def _is_begun(order: Order) -> bool:
    """Returns whether money or goods have moved, so that the order is never cancelled."""
    return (
        order.payment is Payment.PARTLY_PAID
        or order.fulfilment in (Fulfilment.FULFILLED, Fulfilment.PARTIAL)
        or Decimal(order.refunded) > 0
        or bool(order.refunds)
    )


def _plan(context: StepContext, orders: Sequence[Order]) -> PlannedChanges:
    options = _CancelInputs.from_json(context.inputs)
    commands = [
        CancelOrder(
            order,
            restock=options.restock,
            notify=options.notify_customer,
            message=_message(context, order, restock=options.restock),
        )
        for order in orders
    ]
    return context.home.plan("order.cancel", commands)


def _message(context: StepContext, order: Order, *, restock: bool) -> str:
    hours = counted(_hours(context, order), "hour")
    message = f"Total {total_text(order)} {order.currency}, unpaid for {hours}."
    if context.home.platform == "woocommerce":
        message += " The shop itself decides whether it puts the items back in stock and sends e-mails."
    removed = [line.title for line in order.lines if line.variant_id is None]
    if removed and restock:
        message += f" Not put back in stock, since no longer in the store: {', '.join(removed[:10])}."
    return message


def _hours(context: StepContext, order: Order) -> int:
    return 0 if order.created_at is None else whole_hours(order.created_at, context.now)


TEMPLATE = base.define(
    "cancel-unpaid-orders",
    "Cancel unpaid orders",
    "Cancels orders that stay unpaid too long.",
    category=base.Category.ORDERS,
    inputs=inputs.inputs_schema(
        ["older_than_hours"],
        {
            "older_than_hours": inputs.integer("Unpaid for more than this", 1, 2160, default=48),
            "statuses": inputs.array(
                "Payment states that count as unpaid (on_hold: WooCommerce; authorized: Shopify)",
                {"enum": ["pending", "on_hold", "authorized"]},
                minItems=1,
                default=["pending"],
            ),
            "except_tags": inputs.shared("tags", "Orders with one of these are left alone"),
            "restock": inputs.flag("Put the items back in stock", default=True),
            "notify_customer": inputs.flag("Let the store send its cancellation e-mail"),
            "limit": {**inputs.LIMIT, "default": 100},
        },
    ),
    result=results.counts_schema(
        *("checked", "cancelled", "excepted", "partly_paid"),
        orders=results.list_of({"number": results.TEXT, "total": results.AMOUNT, "hours": results.COUNT}),
    ),
    steps=(
        base.read_step(READ, "Read unpaid orders", _read_unpaid),
        base.decide_step(PICK, "Find those unpaid too long", pick_old),
        base.change_step(CANCEL, "Cancel them", _cancel_orders),
    ),
    schedule=Schedule(Cadence.HOURLY),
    changes=(
        base.ChangeRow(
            CANCEL,
            "order",
            Action.CANCEL,
            (base.STATUS, base.ChangeField("restocked", "Restocked lines", FieldKind.LIST)),
            shown_beside=("total", "age in hours"),
        ),
    ),
    example={
        "checked": 18,
        "cancelled": 2,
        "excepted": 1,
        "partly_paid": 1,
        "orders": [{"number": "#990", "total": "54.00", "hours": 80}],
    },
    finish=finish,
    check_setup=check_setup,
)
