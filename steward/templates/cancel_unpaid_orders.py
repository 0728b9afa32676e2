"""Cancel unpaid orders: cancels orders that stay unpaid too long (templates 5.8)."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import CancelOrder
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Fulfilment, Order, Payment
from steward.model.change import Action, FieldKind
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult
from steward.steps.tag_lists import has_any_tag
from steward.templates.base import (
    Category,
    ChangeField,
    ChangeRow,
    EndedRun,
    RunSummary,
    SetupContext,
    StepFacts,
    Template,
    TemplateFacts,
    counted,
    run_summary,
    sentences,
    verb,
    whole,
)
from steward.templates.parts.ages import whole_hours
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.orders import read_orders, total_text
from steward.templates.parts.results import AMOUNT, COUNT, TEXT, list_of, result_schema
from steward.templates.parts.stored_orders import kept_orders, orders_of

READ, PICK, CANCEL = "read-unpaid", "pick-old", "cancel-orders"
# What only one platform has, by the store's kind (templates 5.8, `statuses`).
_FOREIGN = {"shopify": "on_hold", "woocommerce": "authorized"}

_INPUTS = inputs_schema(
    ["older_than_hours"],
    {
        "older_than_hours": {
            "type": "integer",
            "minimum": 1,
            "maximum": 2160,
            "default": 48,
            "description": "Unpaid for more than this",
        },
        "statuses": {
            "type": "array",
            "items": {"enum": ["pending", "on_hold", "authorized"]},
            "uniqueItems": True,
            "minItems": 1,
            "default": ["pending"],
            "description": "Payment states that count as unpaid (on_hold: WooCommerce; authorized: Shopify)",
        },
        "except_tags": shared("tags", "Orders with one of these are left alone"),
        "restock": {"type": "boolean", "default": True, "description": "Put the items back in stock"},
        "notify_customer": {
            "type": "boolean",
            "default": False,
            "description": "Let the store send its cancellation e-mail",
        },
        "limit": {"$ref": "#/$defs/limit", "default": 100},
    },
)

_COUNTS = ("checked", "cancelled", "excepted", "partly_paid")
_RESULT = result_schema(
    {
        **dict.fromkeys(_COUNTS, COUNT),
        "orders": list_of({"number": TEXT, "total": AMOUNT, "hours": COUNT}),
    }
)


async def read_unpaid(at: StepContext) -> StepResult:
    """The open orders whose payment counts as unpaid, and those paid in part."""
    statuses: Any = at.inputs["statuses"]
    wanted = {Payment(each) for each in statuses} | {Payment.PARTLY_PAID}
    orders = [
        order
        async for order in read_orders(at, OrdersQuery(open_only=True))
        if order.payment in wanted and not order.paid and order.cancelled_at is None
    ]
    return StepResult(
        {"orders": kept_orders(orders)},
        counts=Counts(read=len(orders)),
        title=f"Read {counted(len(orders), 'unpaid order')}",
    )


async def pick_old(at: StepContext) -> StepResult:
    """Which of them are unpaid for too long, and which of those are never cancelled."""
    read: Any = at.outputs[READ]
    orders = orders_of(read["orders"])
    hours: Any = at.inputs["older_than_hours"]
    excepting: Any = at.inputs["except_tags"]
    old = [
        order
        for order in orders
        if order.created_at is not None and order.created_at < at.now - timedelta(hours=hours)
    ]
    begun = [order for order in old if _has_begun(order)]
    left = [order for order in old if not _has_begun(order)]
    excepted = [order for order in left if has_any_tag(order.tags, excepting)]
    asked = [order for order in left if not has_any_tag(order.tags, excepting)]
    planned = _plan(at, asked)
    fits = {proposal.object.id for proposal in planned.proposals}
    cancel = [order for order in asked if order.id in fits]
    why = [f"{problem.item}: {problem.message}" for problem in planned.problems]
    return StepResult(
        {
            "checked": len(orders),
            "excepted": len(excepted),
            "partly_paid": len(begun),
            "cancel": kept_orders(cancel),
            "orders": [
                {"number": order.number, "total": total_text(order), "hours": _hours(at, order)}
                for order in cancel
            ],
        },
        counts=Counts(matched=len(cancel)),
        title=f"Found {counted(len(cancel), 'order')} unpaid for more than {counted(hours, 'hour')}",
        message=f"Left alone: {'; '.join(why[:5])}" if why else None,
    )


async def cancel_orders(at: StepContext) -> StepResult:
    """Proposes the cancellations. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[PICK]
    at.check_limit(len(found["orders"]))
    planned = _plan(at, orders_of(found["cancel"]))
    return StepResult(
        {},
        title=f"Cancel {counted(len(planned.proposals), 'order')}",
        proposals=planned.proposals,
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(PICK)
    rows: Any = found.get("orders", [])
    done: list[JsonValue] = ended.applied_rows(CANCEL, rows)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["cancelled"] = len(done)
    partly, excepted = counts["partly_paid"], counts["excepted"]
    text = sentences(
        ended.changes_sentence(CANCEL, "order", "cancelled", none="No order was cancelled."),
        f"{counted(partly, 'order')} left alone, since {verb(partly, 'it is', 'they are')} paid, sent or "
        "refunded in part."
        if partly
        else None,
        f"{counted(excepted, 'order')} left alone because of {verb(excepted, 'its', 'their')} tags."
        if excepted
        else None,
    )
    return run_summary(text, {**counts, "orders": done})


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """Payment states the store's platform does not have."""
    kind = world.store.kind if world.store is not None else ""
    statuses: Any = inputs["statuses"]
    foreign = _FOREIGN.get(kind)
    if foreign in statuses:
        return {"inputs.statuses": [f"A store of this kind has no payment state {foreign}."]}
    return {}


def _has_begun(order: Order) -> bool:
    """Whether money or goods have moved: such an order is never cancelled (templates 5.8)."""
    return (
        order.payment is Payment.PARTLY_PAID
        or order.fulfilment in (Fulfilment.FULFILLED, Fulfilment.PARTIAL)
        or Decimal(order.refunded) > 0
        or bool(order.refunds)
    )


def _plan(at: StepContext, orders: Sequence[Order]) -> PlannedChanges:
    store = at.home
    restock, notify = at.inputs["restock"] is True, at.inputs["notify_customer"] is True
    asks = [
        CancelOrder(order, restock=restock, notify=notify, message=_beside(at, order)) for order in orders
    ]
    return store.changes["order.cancel"].plan(asks, integration_id=store.connection.integration_id)


def _beside(at: StepContext, order: Order) -> str:
    hours = counted(_hours(at, order), "hour")
    words = f"Total {total_text(order)} {order.currency}, unpaid for {hours}."
    if at.home.platform == "woocommerce":
        words += " The shop itself decides whether it puts the items back in stock and sends e-mails."
    gone = [line.title for line in order.lines if line.variant_id is None]
    if gone and at.inputs["restock"]:
        words += f" Not put back in stock, since no longer in the store: {', '.join(gone[:10])}."
    return words


def _hours(at: StepContext, order: Order) -> int:
    return 0 if order.created_at is None else whole_hours(order.created_at, at.now)


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="cancel-unpaid-orders",
        template_version=1,
        name="Cancel unpaid orders",
        description="Cancels orders that stay unpaid too long.",
        category=Category.ORDERS,
        platforms=("shopify", "woocommerce"),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read unpaid orders", StepKind.READ),
            StepFacts(PICK, "Find those unpaid too long", StepKind.DECIDE),
            StepFacts(CANCEL, "Cancel them", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.HOURLY),
        changes=(
            ChangeRow(
                step=CANCEL,
                object="order",
                action=Action.CANCEL,
                fields=(
                    ChangeField("status", "Status", FieldKind.TEXT),
                    ChangeField("restocked", "Restocked lines", FieldKind.LIST),
                ),
                reversible=False,
                shown_beside=("total", "age in hours"),
            ),
        ),
        example_result={
            "checked": 18,
            "cancelled": 2,
            "excepted": 1,
            "partly_paid": 1,
            "orders": [{"number": "#990", "total": "54.00", "hours": 80}],
        },
    ),
    steps={READ: read_unpaid, PICK: pick_old, CANCEL: cancel_orders},
    finish=finish,
    check_setup=check_world,
)
