"""Unfulfilled orders: tells Teams which paid orders have not been sent after some days (templates 5.17)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from steward.connectors.base.commands import PostCard
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Fulfilment, Order, Payment
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult
from steward.steps.tag_lists import has_any_tag
from steward.templates.base import (
    Category,
    ConnectionNeed,
    ConnectionUse,
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
from steward.templates.parts.ages import days_before, whole_days
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.messages import no_message, post_card
from steward.templates.parts.orders import read_orders, total_text
from steward.templates.parts.results import AMOUNT, COUNT, TEXT, list_of, result_schema
from steward.templates.parts.stored_orders import kept_orders, orders_of

READ, PICK, SEND = "read-orders", "pick-old", "send-alert"

_INPUTS = inputs_schema(
    ["older_than_days", "teams"],
    {
        "older_than_days": {
            "type": "integer",
            "minimum": 1,
            "maximum": 60,
            "default": 3,
            "description": "Paid longer ago than this",
        },
        "except_tags": shared("tags", "Orders with one of these are left out"),
        "teams": shared("teams", "Where the message goes"),
    },
)

_RESULT = result_schema(
    {
        **dict.fromkeys(("checked", "waiting"), COUNT),
        "orders": list_of({"number": TEXT, "days": COUNT, "total": AMOUNT}),
    }
)


async def read_open(at: StepContext) -> StepResult:
    """The open orders that are paid and have something left to be sent."""
    orders = [order async for order in read_orders(at, OrdersQuery(open_only=True)) if _waits(order)]
    return StepResult(
        {"orders": kept_orders(orders)},
        counts=Counts(read=len(orders)),
        title=f"Read {counted(len(orders), 'open order')}",
    )


async def pick_old(at: StepContext) -> StepResult:
    """Which of them have waited too long, the oldest first; those on hold last."""
    read: Any = at.outputs[READ]
    days: Any = at.inputs["older_than_days"]
    excepting: Any = at.inputs["except_tags"]
    orders = orders_of(read["orders"])
    before = days_before(at.now, days, at.zone)
    old: list[tuple[datetime, Order]] = []
    for order in orders:
        since = order.paid_at or order.created_at
        if since is not None and since < before and not has_any_tag(order.tags, excepting):
            old.append((since, order))
    old.sort(key=lambda each: (_is_held(each[1]), each[0], each[1].number))
    return StepResult(
        {
            "checked": len(orders),
            "waiting": [
                {
                    "number": order.number,
                    "name": order.customer_name,
                    "days": whole_days(since, at.now, at.zone),
                    "total": total_text(order),
                    "currency": order.currency,
                    "partly": order.fulfilment is Fulfilment.PARTIAL,
                    "held": _is_held(order),
                    "url": order.url,
                }
                for since, order in old
            ],
        },
        counts=Counts(matched=len(old)),
        title=f"Found {counted(len(old), 'order')} waiting for more than {counted(days, 'day')}",
    )


async def send_alert(at: StepContext) -> StepResult:
    """One message, when an order waits (E17)."""
    found: Any = at.outputs[PICK]
    return post_card(at, _card(at, found["waiting"])) if found["waiting"] else no_message()


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(PICK)
    waiting: Any = found.get("waiting", [])
    checked, days = whole(found.get("checked")), whole(ended.inputs["older_than_days"])
    orders: list[JsonValue] = [
        {"number": each["number"], "days": each["days"], "total": each["total"]} for each in waiting
    ]
    count = len(orders)
    text = sentences(
        f"{count} of {counted(checked, 'open paid order')} {verb(count, 'waits', 'wait')} for more than "
        f"{counted(days, 'day')}.",
        ended.message_sentence(SEND),
    )
    return run_summary(text, {"checked": checked, "waiting": count, "orders": orders})


def _waits(order: Order) -> bool:
    """Whether an order is paid, not wholly sent, and of more than virtual items."""
    return (
        order.paid
        and order.cancelled_at is None
        and order.payment is not Payment.REFUNDED
        and order.fulfilment is not Fulfilment.FULFILLED
        and any(line.ships and line.open_quantity != 0 for line in order.lines)
    )


def _is_held(order: Order) -> bool:
    return order.fulfilment is Fulfilment.ON_HOLD


def _card(at: StepContext, waiting: Sequence[Any]) -> PostCard:
    held = sum(each["held"] for each in waiting)
    days: Any = at.inputs["older_than_days"]
    title = f"{counted(len(waiting), 'paid order')} not sent at {at.home.connection.name}"
    lines = [f"Paid more than {counted(days, 'day')} ago, the oldest first."]
    if held:
        lines.append(f"Listed last: {counted(held, 'order')} on hold.")
    link = waiting[0]["url"] if len(waiting) == 1 else None
    return PostCard(
        title=title,
        text=tuple(lines),
        facts=tuple((_name(each), _state(each)) for each in waiting),
        link=("Open the order", link) if link else None,
    )


def _name(each: Any) -> str:
    return f"{each['number']}, {each['name']}" if each["name"] else str(each["number"])


def _state(each: Any) -> str:
    words = f"{counted(each['days'], 'day')}, {each['total']} {each['currency']}"
    if each["held"]:
        return f"{words}, on hold"
    return f"{words}, sent in part" if each["partly"] else words


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="unfulfilled-order-alert",
        template_version=1,
        name="Unfulfilled orders",
        description="Tells Teams which paid orders have not been sent after some days.",
        category=Category.ORDERS,
        platforms=("shopify", "woocommerce"),
        connections=(ConnectionNeed("teams", ConnectionUse.WRITE, 1, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read open orders", StepKind.READ),
            StepFacts(PICK, "Find those waiting too long", StepKind.DECIDE),
            StepFacts(SEND, "Post the list", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.WEEKDAYS, time_of_day="09:00"),
        changes=(),
        example_result={
            "checked": 44,
            "waiting": 2,
            "orders": [{"number": "#1001", "days": 5, "total": "20.00"}],
        },
    ),
    steps={READ: read_open, PICK: pick_old, SEND: send_alert},
    finish=finish,
)
