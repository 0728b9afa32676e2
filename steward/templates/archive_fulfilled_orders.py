"""Archive finished orders: closes orders fulfilled and paid some days ago (templates 5.23)."""

from datetime import UTC, datetime
from typing import Any

from steward.connectors.base.commands import CloseOrder
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Fulfilment, Order, Payment
from steward.model.change import Action, FieldKind
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.scheduling.zones import zone
from steward.steps.base import StepContext, StepResult
from steward.steps.tag_lists import has_any_tag
from steward.templates.base import (
    Category,
    ChangeField,
    ChangeRow,
    EndedRun,
    RunSummary,
    StepFacts,
    Template,
    TemplateFacts,
    counted,
    run_summary,
    sentences,
    verb,
    whole,
)
from steward.templates.parts.ages import days_before
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.orders import read_orders
from steward.templates.parts.results import COUNT, result_schema
from steward.templates.parts.stored_orders import kept_orders, orders_of

READ, PICK, ARCHIVE = "read-orders", "pick-old", "archive-orders"

_INPUTS = inputs_schema(
    [],
    {
        "older_than_days": {
            "type": "integer",
            "minimum": 1,
            "maximum": 730,
            "default": 30,
            "description": "Finished longer ago than this",
        },
        "except_tags": shared("tags", "Orders with one of these stay open"),
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("checked", "archived", "excepted", "not_finished")
_RESULT = result_schema(dict.fromkeys(_COUNTS, COUNT))


async def read_finished(at: StepContext) -> StepResult:
    """The open orders; kept are those that are finished."""
    finished: list[Order] = []
    checked = 0
    async for order in read_orders(at, OrdersQuery(open_only=True)):
        if order.cancelled_at is None and order.closed_at is None:
            checked += 1
            finished += [order] if _is_finished(order) else []
    return StepResult(
        {"checked": checked, "not_finished": checked - len(finished), "orders": kept_orders(finished)},
        counts=Counts(read=checked),
        title=f"Read {counted(checked, 'open order')}",
    )


async def pick_old(at: StepContext) -> StepResult:
    """Which of the finished ones are old enough."""
    read: Any = at.outputs[READ]
    days: Any = at.inputs["older_than_days"]
    excepting: Any = at.inputs["except_tags"]
    before = days_before(at.now, days, at.zone)
    old = [order for order in orders_of(read["orders"]) if _finished_at(order, at) < before]
    archive = [order for order in old if not has_any_tag(order.tags, excepting)]
    return StepResult(
        {"excepted": len(old) - len(archive), "archive": kept_orders(archive)},
        counts=Counts(matched=len(archive)),
        title=f"Found {counted(len(archive), 'order')} finished more than {counted(days, 'day')} ago",
    )


async def archive_orders(at: StepContext) -> StepResult:
    """Proposes to close them. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[PICK]
    orders = orders_of(found["archive"])
    at.check_limit(len(orders))
    store = at.home
    asks = [CloseOrder(order, message=f"Finished on {_day(order, at)}.") for order in orders]
    planned = store.changes["order.close"].plan(asks, integration_id=store.connection.integration_id)
    return StepResult(
        {}, title=f"Archive {counted(len(planned.proposals), 'order')}", proposals=planned.proposals
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = {**ended.output_of(READ), **ended.output_of(PICK)}
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["archived"] = ended.applied(ARCHIVE)
    unfinished, excepted = counts["not_finished"], counts["excepted"]
    text = sentences(
        ended.changes_sentence(ARCHIVE, "order", "archived", none="No order was archived."),
        f"{counted(unfinished, 'order')} {verb(unfinished, 'is', 'are')} not finished."
        if unfinished
        else None,
        f"{counted(excepted, 'order')} left open because of {verb(excepted, 'its', 'their')} tags."
        if excepted
        else None,
    )
    return run_summary(text, dict(counts))


def _is_finished(order: Order) -> bool:
    """Paid or fully refunded, every line sent or removed; no return open and no part on hold."""
    settled = order.paid or order.payment is Payment.REFUNDED
    sent = order.fulfilment is Fulfilment.FULFILLED or all(line.open_quantity == 0 for line in order.lines)
    held = order.fulfilment is Fulfilment.ON_HOLD or any(
        each.status == "on_hold" for each in order.fulfilment_orders
    )
    return settled and sent and not held and not order.returning


def _finished_at(order: Order, at: StepContext) -> datetime:
    """The later of payment and sending; a refund of everything settles an order as a payment does."""
    times = [order.paid_at, order.fulfilled_at]
    if order.payment is Payment.REFUNDED:
        times += [refund.created_at for refund in order.refunds]
    known = [time for time in times if time is not None]
    # An order that tells neither was finished by the time it was last changed.
    return max(known) if known else order.modified_at or at.now


def _day(order: Order, at: StepContext) -> str:
    return _finished_at(order, at).astimezone(zone(at.zone) or UTC).date().isoformat()


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="archive-fulfilled-orders",
        template_version=1,
        name="Archive finished orders",
        description="Closes orders fulfilled and paid some days ago.",
        category=Category.ORDERS,
        platforms=("shopify",),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read finished orders", StepKind.READ),
            StepFacts(PICK, "Find those old enough", StepKind.DECIDE),
            StepFacts(ARCHIVE, "Archive them", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.WEEKLY, time_of_day="03:00", day_of_week=7),
        changes=(
            ChangeRow(
                step=ARCHIVE,
                object="order",
                action=Action.ARCHIVE,
                fields=(ChangeField("status", "Status", FieldKind.TEXT),),
                reversible=True,
                shown_beside=("finished on",),
            ),
        ),
        example_result={"checked": 320, "archived": 290, "excepted": 4, "not_finished": 26},
    ),
    steps={READ: read_finished, PICK: pick_old, ARCHIVE: archive_orders},
    finish=finish,
)
