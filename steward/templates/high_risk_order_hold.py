"""Hold risky orders: holds the fulfilment of risky orders and tags them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from steward.connectors.base.commands import HoldFulfilment, PostCard, SetOrderTags
from steward.connectors.base.connector import merge_proposals
from steward.connectors.base.records import FulfilmentOrder, Order, Risk
from steward.model.change import Action, FieldChange, FieldKind, Outcome, Proposal
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, MemoryWrite, StepContext, StepOutput, StepResult
from steward.steps.tag_lists import has_any_tag, with_tag
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, orders, results
from steward.templates.parts.messages import TeamsInput, no_message, post_card
from steward.templates.parts.orders import total_text
from steward.templates.parts.stored_orders import OrderTable

READ, DECIDE, HOLD, SEND = "read-orders", "decide-risk", "hold-orders", "tell-teams"
# Memory space: orders whose risk was not assessed yet when they were read.
PENDING = "not_assessed"
_ASSESSED_WITHIN = timedelta(hours=24)
_LEVELS = {"high": (Risk.HIGH,), "medium_and_high": (Risk.MEDIUM, Risk.HIGH)}
_HOLDABLE = ("open", "scheduled")


class _HoldInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    level: str
    billing_shipping_differ: bool
    tag: str
    min_total: str | None = None
    teams: TeamsInput | None = None


class _OrdersWithRisk(StepOutput, frozen=True):
    """The orders to check, and the ids of pending ones that no longer exist."""

    until: str | None
    orders: OrderTable
    gone: tuple[str, ...]


class _RiskyRow(JsonRecord, frozen=True):
    """A risky order, as the result lists it."""

    number: str
    total: str
    reasons: str


class _RiskyOrders(StepOutput, frozen=True):
    """The risky orders to hold or tag; `holds` says which of them have a part to hold."""

    checked: int = 0
    risky: int = 0
    already_held: int = 0
    not_assessed: int = 0
    change: OrderTable = OrderTable()
    orders: tuple[_RiskyRow, ...] = ()
    holds: tuple[bool, ...] = ()


async def _read_risk(context: StepContext) -> StepResult:
    """Reads the orders changed since the last run, and those whose risk was not assessed then.

    A run started by an event reads its order and also the pending ones: otherwise an automation on events
    would never check an order that is assessed late.
    """
    by_id = await orders.read_changed_orders(context)
    pending = await context.memory.all(PENDING)
    by_id |= await orders.read_orders_by_id(context, pending.keys() - by_id.keys())
    gone = tuple(sorted(pending.keys() - by_id.keys()))
    output = _OrdersWithRisk(orders.until_of(context), OrderTable(by_id.values()), gone)
    return output.as_result(f"Read {counted(len(by_id), 'order')}", read=len(by_id))


async def _decide_risk(context: StepContext) -> StepResult:
    """Decides which orders are risky, and what remains to be done about them."""
    read = context.output(READ, _OrdersWithRisk)
    pending = await context.memory.all(PENDING)
    memory = [MemoryWrite(PENDING, order_id, None) for order_id in read.gone]
    risky: list[tuple[Order, str]] = []
    checked = not_assessed = 0
    for order in read.orders:
        checked += 1
        if reasons := _reasons(order, context):
            risky.append((order, reasons))
        is_pending = not reasons and _is_pending(order)
        is_read_again = is_pending and _is_recent(order, context)
        not_assessed += is_pending and not is_read_again
        if is_read_again != (order.id in pending):
            memory.append(MemoryWrite(PENDING, order.id, order.number if is_read_again else None))
    output = _risky_orders(context, checked, risky, not_assessed)
    title = f"Found {counted(len(risky), 'risky order')}"
    return output.as_result(title, matched=len(risky), memory=memory)


async def _hold_orders(context: StepContext) -> StepResult:
    """Proposes one change per order that holds and tags it. Raises TooManyChanges."""
    decided = context.output(DECIDE, _RiskyOrders)
    context.check_limit(len(decided.orders))
    planned = [
        _proposal(context, order, row.reasons)
        for order, row in zip(decided.change, decided.orders, strict=True)
    ]
    proposals = tuple(proposal for proposal in planned if proposal is not None)
    return StepResult({}, title=f"Hold {counted(len(proposals), 'order')}", proposals=proposals)


async def post_to_teams(context: StepContext) -> StepResult:
    """Posts one message that names the orders held by this run, if there are any and a channel is named."""
    decided = context.output(DECIDE, _RiskyOrders)
    # Orders whose change failed are read again, so the end of the period read is not remembered.
    failed = {Outcome.FAILED, Outcome.UNKNOWN} & set(context.outcomes.get(HOLD, ()))
    until = None if failed else context.output(READ, _OrdersWithRisk).until
    remember = tuple(orders.remember_read(until))
    rows = zip(decided.change, decided.orders, decided.holds, context.applied(HOLD), strict=False)
    held = [(order, row.reasons) for order, row, holds, is_applied in rows if holds and is_applied]
    if not held or "teams" not in context.inputs:
        return no_message(remember=remember)
    url = held[0][0].url if len(held) == 1 else None
    card = PostCard(
        title=f"{counted(len(held), 'risky order')} held at {context.home.connection.name}",
        text=(f"Look at {verb(len(held), 'it before it is', 'them before they are')} sent.",),
        facts=tuple(
            (order.label, f"{total_text(order)} {order.currency}, {reasons}") for order, reasons in held
        ),
        link=("Open the order", url) if url else None,
    )
    return post_card(context, card, remember=remember)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    decided = ended.output(DECIDE, _RiskyOrders)
    changed = ended.applied_rows(HOLD, zip(decided.orders, decided.holds, strict=True))
    held = [row for row, holds in changed if holds]
    risky, unassessed = decided.risky, decided.not_assessed
    text = sentences(
        f"{risky} of {counted(decided.checked, 'order')} {verb(risky, 'is', 'are')} risky.",
        ended.changes_sentence(HOLD, "order", "held or tagged", if_none="No order was held."),
        if_any(unassessed, f"The risk of {counted(unassessed, 'order')} was not assessed within a day."),
        ended.message_sentence(SEND) if "teams" in ended.inputs else None,
    )
    result = {
        "checked": decided.checked,
        "risky": risky,
        "held": len(held),
        "already_held": decided.already_held,
        "not_assessed": unassessed,
        "orders": held,
    }
    return base.run_summary(text, result)


def _risky_orders(
    context: StepContext, checked: int, risky: Sequence[tuple[Order, str]], not_assessed: int
) -> _RiskyOrders:
    change = [row for row in risky if _proposal(context, *row) is not None]
    return _RiskyOrders(
        checked=checked,
        risky=len(risky),
        already_held=sum(_is_held(order) and not _open_parts(order) for order, _ in risky),
        not_assessed=not_assessed,
        change=OrderTable(order for order, _ in change),
        orders=tuple(_RiskyRow(order.number, total_text(order), reasons) for order, reasons in change),
        holds=tuple(bool(_open_parts(order)) for order, _ in change),
    )


def _is_pending(order: Order) -> bool:
    return order.risk is Risk.PENDING and order.cancelled_at is None


def _is_recent(order: Order, context: StepContext) -> bool:
    """Returns whether the platform may still assess the order's risk."""
    return context.now - (order.created_at or context.now) < _ASSESSED_WITHIN


def _reasons(order: Order, context: StepContext) -> str:
    """Returns why an order is risky, in words; empty when it is not. The total alone is not a reason."""
    options = _HoldInputs.from_json(context.inputs)
    minimum = options.min_total
    if minimum is not None and (
        not orders.in_currency(order, context) or Decimal(order.total) < Decimal(minimum)
    ):
        return ""
    words: list[str] = []
    if order.risk in _LEVELS[options.level]:
        words += [f"risk {order.risk.value}", *order.risk_reasons]
    if options.billing_shipping_differ and _countries_differ(order):
        words.append(f"billed to {order.billing_country}, sent to {order.country}")
    return "; ".join(words)


def _countries_differ(order: Order) -> bool:
    # Without a shipping address, `country` is the billing country, so the two are equal.
    return None not in (order.country, order.billing_country) and order.country != order.billing_country


def _is_held(order: Order) -> bool:
    return any(part.status == "on_hold" for part in order.fulfilment_orders)


def _open_parts(order: Order) -> list[FulfilmentOrder]:
    """Returns the parts that can still be held; none for an order that is cancelled or sent."""
    if order.cancelled_at is not None or order.fulfilled:
        return []
    return [part for part in order.fulfilment_orders if part.status in _HOLDABLE]


def _proposal(context: StepContext, order: Order, reasons: str) -> Proposal | None:
    """Returns a change that holds all open parts and adds the missing tag; None when nothing remains."""
    tag = str(context.inputs["tag"])
    message = f"Total {total_text(order)} {order.currency}. Reasons: {reasons}."
    holds = [
        HoldFulfilment(order, part, reason="high_risk_of_fraud", notes=reasons[:500])
        for part in _open_parts(order)
    ]
    held = context.home.plan("fulfillment.hold", holds).proposals
    tags = order.tags if has_any_tag(order.tags, [tag]) else with_tag(order.tags, tag)
    tagged = context.home.plan("order.set_tags", [SetOrderTags(order, tags, message=message)]).proposals
    if not held:
        return tagged[0] if tagged else None
    change = merge_proposals([*held, *tagged], action=Action.HOLD, message=message)
    tag_fields = (field for proposal in tagged for field in proposal.fields)
    return replace(change, fields=(_fulfilment(held), *tag_fields))


def _fulfilment(held: Sequence[Proposal]) -> FieldChange:
    """Returns one field for all parts of an order to hold."""
    before = sorted({str(field.before) for proposal in held for field in proposal.fields})
    return FieldChange("fulfilment", "Fulfilment", ", ".join(before), "on_hold", FieldKind.TEXT)


TEMPLATE = base.define(
    "high-risk-order-hold",
    "Hold risky orders",
    "Holds the fulfilment of risky orders and tags them.",
    category=base.Category.ORDERS,
    platforms=("shopify",),
    connections=(base.OPTIONAL_TEAMS,),
    inputs=inputs.inputs_schema(
        [],
        {
            "level": inputs.choice("Risk level that counts", "high", "medium_and_high", default="high"),
            "min_total": inputs.shared("money", "Only orders of at least this total"),
            "billing_shipping_differ": inputs.flag("Count an order as risky when the two countries differ"),
            "tag": inputs.shared("tag", "Tag put on held orders", default="fraud-review"),
            "teams": inputs.shared("teams", "Also tell this channel"),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("checked", "risky", "held", "already_held", "not_assessed"),
        orders=results.list_of({"number": results.TEXT, "total": results.AMOUNT, "reasons": results.TEXT}),
    ),
    steps=(
        base.read_step(READ, "Read orders and their risk", _read_risk),
        base.decide_step(DECIDE, "Find the risky ones", _decide_risk),
        base.change_step(HOLD, "Hold and tag them", _hold_orders),
        base.send_step(SEND, "Post to Teams", post_to_teams),
    ),
    topics=("orders/create",),
    schedule=Schedule(Cadence.HOURLY),
    changes=(
        base.ChangeRow(
            HOLD,
            "order",
            Action.HOLD,
            (base.ChangeField("fulfilment", "Fulfilment", FieldKind.TEXT), base.TAGS),
            shown_beside=("total", "risk reasons"),
        ),
    ),
    example={
        "checked": 25,
        "risky": 1,
        "held": 1,
        "already_held": 0,
        "not_assessed": 2,
        "orders": [{"number": "#1044", "total": "640.00", "reasons": "risk high"}],
    },
    finish=finish,
)
