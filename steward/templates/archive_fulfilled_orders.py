"""Archive finished orders: closes orders that were fulfilled and paid some days ago."""

from datetime import datetime

from steward.connectors.base.commands import CloseOrder
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Fulfilment, Order, Payment
from steward.model.change import Action
from steward.model.schedule import Cadence, Schedule
from steward.scheduling.words import day_words
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.steps.tag_lists import has_any_tag
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.ages import days_before, local_day
from steward.templates.parts.orders import read_orders
from steward.templates.parts.stored_orders import OrderTable

READ, PICK, ARCHIVE = "read-orders", "pick-old", "archive-orders"


class _ArchiveInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    older_than_days: int
    except_tags: tuple[str, ...]


class _FinishedOrders(StepOutput, frozen=True):
    """The number of open orders, and the finished ones among them."""

    checked: int = 0
    not_finished: int = 0
    orders: OrderTable = OrderTable()


class _OldOrders(StepOutput, frozen=True):
    """The finished orders that are old enough."""

    excepted: int = 0
    archive: OrderTable = OrderTable()


async def _read_finished(context: StepContext) -> StepResult:
    """Reads the open orders and keeps those that are finished."""
    finished: list[Order] = []
    checked = 0
    async for order in read_orders(context, OrdersQuery(open_only=True)):
        if order.cancelled_at is None and order.closed_at is None:
            checked += 1
            finished += [order] if _is_finished(order) else []
    output = _FinishedOrders(checked, checked - len(finished), OrderTable(finished))
    return output.as_result(f"Read {counted(checked, 'open order')}", read=checked)


async def pick_old(context: StepContext) -> StepResult:
    """Picks the finished orders that are old enough."""
    options = _ArchiveInputs.from_json(context.inputs)
    before = days_before(context.now, options.older_than_days, context.zone)
    finished = context.output(READ, _FinishedOrders).orders
    old = [order for order in finished if _finished_at(order, context) < before]
    archive = [order for order in old if not has_any_tag(order.tags, options.except_tags)]
    days = counted(options.older_than_days, "day")
    title = f"Found {counted(len(archive), 'order')} finished more than {days} ago"
    return _OldOrders(len(old) - len(archive), OrderTable(archive)).as_result(title, matched=len(archive))


async def _archive_orders(context: StepContext) -> StepResult:
    """Proposes to close the old orders. Raises TooManyChanges."""
    orders = list(context.output(PICK, _OldOrders).archive)
    context.check_limit(len(orders))
    days = [day_words(local_day(_finished_at(order, context), context.zone)) for order in orders]
    commands = [
        CloseOrder(order, message=f"Finished on {day}.") for order, day in zip(orders, days, strict=True)
    ]
    proposals = context.home.plan("order.close", commands).proposals
    return StepResult({}, title=f"Archive {counted(len(proposals), 'order')}", proposals=proposals)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    read, excepted = ended.output(READ, _FinishedOrders), ended.output(PICK, _OldOrders).excepted
    unfinished, its = read.not_finished, verb(excepted, "its", "their")
    text = sentences(
        ended.changes_sentence(ARCHIVE, "order", "archived", if_none="No order was archived."),
        if_any(unfinished, f"{counted(unfinished, 'order')} {verb(unfinished, 'is', 'are')} not finished."),
        if_any(excepted, f"{counted(excepted, 'order')} left open because of {its} tags."),
    )
    result = {
        "checked": read.checked,
        "archived": ended.applied(ARCHIVE),
        "excepted": excepted,
        "not_finished": unfinished,
    }
    return base.run_summary(text, result)


def _is_finished(order: Order) -> bool:
    """Returns whether an order is paid or refunded and sent in full, without open returns or holds."""
    settled = order.paid or order.payment is Payment.REFUNDED
    sent = order.fulfilment is Fulfilment.FULFILLED or all(line.open_quantity == 0 for line in order.lines)
    held = order.fulfilment is Fulfilment.ON_HOLD or any(
        part.status == "on_hold" for part in order.fulfilment_orders
    )
    return settled and sent and not held and not order.returning


def _finished_at(order: Order, context: StepContext) -> datetime:
    """Returns the later of payment and sending; a full refund counts as a payment."""
    times = [order.paid_at, order.fulfilled_at]
    if order.payment is Payment.REFUNDED:
        times += [refund.created_at for refund in order.refunds]
    recorded = [time for time in times if time is not None]
    # An order that records neither was finished by the time of its last change.
    return max(recorded) if recorded else order.modified_at or context.now


TEMPLATE = base.define(
    "archive-fulfilled-orders",
    "Archive finished orders",
    "Closes orders fulfilled and paid some days ago.",
    category=base.Category.ORDERS,
    platforms=("shopify",),
    inputs=inputs.inputs_schema(
        [],
        {
            "older_than_days": inputs.integer("Finished longer ago than this", 1, 730, default=30),
            "except_tags": inputs.shared("tags", "Orders with one of these stay open"),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema("checked", "archived", "excepted", "not_finished"),
    steps=(
        base.read_step(READ, "Read finished orders", _read_finished),
        base.decide_step(PICK, "Find those old enough", pick_old),
        base.change_step(ARCHIVE, "Archive them", _archive_orders),
    ),
    schedule=Schedule(Cadence.WEEKLY, time_of_day="03:00", day_of_week=7),
    changes=(
        base.ChangeRow(ARCHIVE, "order", Action.ARCHIVE, (base.STATUS,), shown_beside=("finished on",)),
    ),
    example={"checked": 320, "archived": 290, "excepted": 4, "not_finished": 26},
    finish=finish,
)
