"""Hold risky orders: holds the fulfilment of risky orders and tags them (templates 5.9)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import HoldFulfilment, PostCard, SetOrderTags
from steward.connectors.base.connector import merge_proposals
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Order, Risk
from steward.model.change import Action, FieldChange, FieldKind, Outcome, Proposal
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepResult
from steward.steps.tag_lists import has_any_tag, with_tag
from steward.templates.base import (
    TAGS,
    Category,
    ChangeField,
    ChangeRow,
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
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.messages import no_message, post_card
from steward.templates.parts.orders import (
    changed_since,
    in_currency,
    order_of_event,
    read_orders,
    remember_read,
    total_text,
    until_of,
)
from steward.templates.parts.results import AMOUNT, COUNT, TEXT, list_of, result_schema
from steward.templates.parts.stored_orders import kept_orders, orders_of

READ, DECIDE, HOLD, SEND = "read-orders", "decide-risk", "hold-orders", "tell-teams"
# Orders whose risk was not assessed yet when they were looked at.
PENDING = "not_assessed"
ASSESSED_WITHIN = timedelta(hours=24)
_LEVELS = {"high": (Risk.HIGH,), "medium_and_high": (Risk.MEDIUM, Risk.HIGH)}
_CAN_BE_HELD = ("open", "scheduled")

_INPUTS = inputs_schema(
    [],
    {
        "level": {
            "enum": ["high", "medium_and_high"],
            "default": "high",
            "description": "Risk level that counts",
        },
        "min_total": shared("money", "Only orders of at least this total"),
        "billing_shipping_differ": {
            "type": "boolean",
            "default": False,
            "description": "Count an order as risky when the two countries differ",
        },
        "tag": shared("tag", "Tag put on held orders", default="fraud-review"),
        "teams": shared("teams", "Also tell this channel"),
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("checked", "risky", "held", "already_held", "not_assessed")
_RESULT = result_schema(
    {
        **dict.fromkeys(_COUNTS, COUNT),
        "orders": list_of({"number": TEXT, "total": AMOUNT, "reasons": TEXT}),
    }
)


async def read_risk(at: StepContext) -> StepResult:
    """The orders changed since the run before, and those whose risk was not assessed then.

    Of an event's run the order of its event and those that still wait for their assessment: without the
    latter an automation on events would never come back to an order that was assessed too late.
    """
    found: dict[str, Order] = {}
    if at.event is not None:
        order = await order_of_event(at)
        found = {} if order is None else {order.id: order}
    else:
        async for order in read_orders(at, OrdersQuery(modified_after=await changed_since(at))):
            found[order.id] = order
    waiting = await at.memory.all(PENDING)
    missing = tuple(sorted(waiting.keys() - found.keys()))
    if missing:
        async for order in read_orders(at, OrdersQuery(ids=missing)):
            found[order.id] = order
    orders = list(found.values())
    return StepResult(
        {
            "until": until_of(at),
            "orders": kept_orders(orders),
            "gone": sorted(waiting.keys() - found.keys()),
        },
        counts=Counts(read=len(orders)),
        title=f"Read {counted(len(orders), 'order')}",
    )


async def decide_risk(at: StepContext) -> StepResult:
    """Which are risky, and what is left to do about those."""
    read: Any = at.outputs[READ]
    orders = orders_of(read["orders"])
    waiting = await at.memory.all(PENDING)
    memory = [MemoryWrite(PENDING, number, None) for number in read["gone"]]
    change: list[Order] = []
    reasons: list[str] = []
    already = risky = not_assessed = 0
    for order in orders:
        why = _reasons(order, at)
        is_pending = not why and order.risk is Risk.PENDING and order.cancelled_at is None
        looks_again = is_pending and _age(order, at) < ASSESSED_WITHIN
        if looks_again and order.id not in waiting:
            memory.append(MemoryWrite(PENDING, order.id, order.number))
        elif not looks_again and order.id in waiting:
            memory.append(MemoryWrite(PENDING, order.id, None))
        not_assessed += is_pending and not looks_again
        if not why:
            continue
        risky += 1
        already += _is_held(order) and not _open_parts(order)
        if _proposal(at, order, why) is not None:
            change.append(order)
            reasons.append(why)
    return StepResult(
        {
            "checked": len(orders),
            "risky": risky,
            "already_held": already,
            "not_assessed": not_assessed,
            "change": kept_orders(change),
            "orders": [
                {"number": order.number, "total": total_text(order), "reasons": why}
                for order, why in zip(change, reasons, strict=True)
            ],
            "holds": [bool(_open_parts(order)) for order in change],
        },
        counts=Counts(matched=risky),
        title=f"Found {counted(risky, 'risky order')}",
        memory=tuple(memory),
    )


async def hold_orders(at: StepContext) -> StepResult:
    """Proposes hold and tag as one change of each order. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[DECIDE]
    at.check_limit(len(found["orders"]))
    proposals = [
        proposal
        for order, row in zip(orders_of(found["change"]), found["orders"], strict=True)
        if (proposal := _proposal(at, order, row["reasons"])) is not None
    ]
    return StepResult({}, title=f"Hold {counted(len(proposals), 'order')}", proposals=tuple(proposals))


async def tell_teams(at: StepContext) -> StepResult:
    """One message that names what is held now, when something is and a channel is named (E17)."""
    read: Any = at.outputs[READ]
    found: Any = at.outputs[DECIDE]
    # What failed is looked at again: then the stretch of time that was read is not done with.
    failed = {Outcome.FAILED, Outcome.UNKNOWN} & set(at.outcomes.get(HOLD, ()))
    remember = () if failed else tuple(remember_read(read))
    rows = zip(orders_of(found["change"]), found["orders"], found["holds"], at.applied(HOLD), strict=False)
    held = [(order, row["reasons"]) for order, row, holds, done in rows if holds and done]
    if not held or "teams" not in at.inputs:
        return replace(no_message(), memory=remember)
    link = held[0][0].url if len(held) == 1 else None
    card = PostCard(
        title=f"{counted(len(held), 'risky order')} held at {at.home.connection.name}",
        text=(f"Look at {verb(len(held), 'it before it is', 'them before they are')} sent.",),
        facts=tuple(
            (order.label, f"{total_text(order)} {order.currency}, {reasons}") for order, reasons in held
        ),
        link=("Open the order", link) if link else None,
    )
    return post_card(at, card, remember=remember)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(DECIDE)
    rows: Any = found.get("orders", [])
    holds: Any = found.get("holds", [])
    held: list[JsonValue] = [
        row for row, is_hold in ended.applied_rows(HOLD, zip(rows, holds, strict=True)) if is_hold
    ]
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["held"] = len(held)
    checked, risky, late = counts["checked"], counts["risky"], counts["not_assessed"]
    text = sentences(
        f"{risky} of {counted(checked, 'order')} {verb(risky, 'is', 'are')} risky.",
        ended.changes_sentence(HOLD, "order", "held or tagged", none="No order was held."),
        f"The risk of {counted(late, 'order')} was not assessed within a day." if late else None,
        ended.message_sentence(SEND) if "teams" in ended.inputs else None,
    )
    return run_summary(text, {**counts, "orders": held})


def _reasons(order: Order, at: StepContext) -> str:
    """Why an order is risky, in words; empty when it is not. Its total alone makes none so."""
    least = at.inputs.get("min_total")
    if isinstance(least, str) and (not in_currency(order, at) or Decimal(order.total) < Decimal(least)):
        return ""
    words: list[str] = []
    if order.risk in _LEVELS[str(at.inputs["level"])]:
        words += [f"risk {order.risk.value}", *order.risk_reasons]
    if at.inputs["billing_shipping_differ"] and _countries_differ(order):
        words.append(f"billed to {order.billing_country}, sent to {order.country}")
    return "; ".join(words)


def _countries_differ(order: Order) -> bool:
    # Without a shipping address `country` is the billing one, so the two are alike.
    return None not in (order.country, order.billing_country) and order.country != order.billing_country


def _age(order: Order, at: StepContext) -> timedelta:
    placed: datetime = order.created_at or at.now
    return at.now - placed


def _is_held(order: Order) -> bool:
    return any(each.status == "on_hold" for each in order.fulfilment_orders)


def _open_parts(order: Order) -> list[Any]:
    """What can still be held; nothing of an order that is cancelled or sent."""
    if order.cancelled_at is not None or order.fulfilled:
        return []
    return [each for each in order.fulfilment_orders if each.status in _CAN_BE_HELD]


def _proposal(at: StepContext, order: Order, why: str) -> Proposal | None:
    """All open parts held, and the tag where it is missing; None when nothing is left to do."""
    store = at.home
    number = store.connection.integration_id
    tag = str(at.inputs["tag"])
    message = f"Total {total_text(order)} {order.currency}. Reasons: {why}."
    asks = [
        HoldFulfilment(order, part, reason="high_risk_of_fraud", notes=why[:500])
        for part in _open_parts(order)
    ]
    held = store.changes["fulfillment.hold"].plan(asks, integration_id=number).proposals
    tags = order.tags if has_any_tag(order.tags, [tag]) else with_tag(order.tags, tag)
    ask = SetOrderTags(order, tags, message=message)
    tagged = store.changes["order.set_tags"].plan([ask], integration_id=number).proposals
    if not held:
        return tagged[0] if tagged else None
    whole_change = merge_proposals([*held, *tagged], action=Action.HOLD, message=message)
    return replace(whole_change, fields=(_fulfilment(held), *(each for one in tagged for each in one.fields)))


def _fulfilment(held: Sequence[Proposal]) -> FieldChange:
    """One field for all parts of an order that are held."""
    before = sorted({str(field.before) for one in held for field in one.fields})
    return FieldChange("fulfilment", "Fulfilment", ", ".join(before), "on_hold", FieldKind.TEXT)


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="high-risk-order-hold",
        template_version=1,
        name="Hold risky orders",
        description="Holds the fulfilment of risky orders and tags them.",
        category=Category.ORDERS,
        platforms=("shopify",),
        connections=(ConnectionNeed("teams", ConnectionUse.WRITE, 0, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read orders and their risk", StepKind.READ),
            StepFacts(DECIDE, "Find the risky ones", StepKind.DECIDE),
            StepFacts(HOLD, "Hold and tag them", StepKind.CHANGE),
            StepFacts(SEND, "Tell Teams", StepKind.SEND),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE, TriggerKind.EVENT),
        topics={"shopify": ("orders/create",)},
        default_schedule=Schedule(Cadence.HOURLY),
        changes=(
            ChangeRow(
                step=HOLD,
                object="order",
                action=Action.HOLD,
                fields=(ChangeField("fulfilment", "Fulfilment", FieldKind.TEXT), TAGS),
                reversible=True,
                shown_beside=("total", "risk reasons"),
            ),
        ),
        example_result={
            "checked": 25,
            "risky": 1,
            "held": 1,
            "already_held": 0,
            "not_assessed": 2,
            "orders": [{"number": "#1044", "total": "640.00", "reasons": "risk high"}],
        },
    ),
    steps={READ: read_risk, DECIDE: decide_risk, HOLD: hold_orders, SEND: tell_teams},
    finish=finish,
)
