"""Tag orders by rule: adds a tag to orders that match every given rule (templates 5.3)."""

import hashlib
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import SetOrderTags
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Order
from steward.model.change import Action
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepResult
from steward.steps.skus import key_of
from steward.steps.tag_lists import has_any_tag, with_tag, without_tags
from steward.templates.base import (
    TAGS,
    Category,
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
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.numbers import money_text
from steward.templates.parts.orders import (
    changed_since,
    in_currency,
    order_of_event,
    read_orders,
    remember_read,
    until_of,
)
from steward.templates.parts.results import COUNT, TEXT, list_of, result_schema
from steward.templates.parts.stored_orders import kept_orders, orders_of

READ, MATCH, CHANGE = "read-orders", "match-orders", "change-tags"
# Orders this automation tagged, each with the tag as it was written.
TAGGED = "tagged"
# The rules of the last live run: with others, orders tagged before are judged anew.
RULES = "rules"
_OFF = "no longer matches"

_RULES = ("min_total", "countries", "discount_code", "skus")
_INPUTS = inputs_schema(
    ["tag"],
    {
        "tag": shared("tag", "The tag"),
        "min_total": shared("money", "Total at least this, in the store's currency"),
        "countries": {
            "type": "array",
            "items": {"type": "string", "pattern": "^[A-Z]{2}$"},
            "uniqueItems": True,
            "maxItems": 50,
            "description": "Shipping country is one of these",
        },
        "discount_code": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "description": "This discount code was used",
        },
        "skus": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 255},
            "uniqueItems": True,
            "minItems": 1,
            "maxItems": 200,
            "description": "Holds at least one of these SKUs",
        },
        "remove_when_not": {
            "type": "boolean",
            "default": False,
            "description": "Take the tag off orders that no longer match",
        },
        "limit": {"$ref": "#/$defs/limit"},
    },
    conditions={"anyOf": [{"required": [name]} for name in _RULES]},
)

_COUNTS = ("checked", "matched", "tagged", "untagged")
_ORDER = {"number": TEXT, "added": {"type": "boolean"}, "rule": TEXT}
_RESULT = result_schema({**dict.fromkeys(_COUNTS, COUNT), "orders": list_of(_ORDER)})


async def _tagged_before(at: StepContext) -> frozenset[str]:
    """The orders this automation gave the present tag; none when it takes none off."""
    if not at.inputs["remove_when_not"]:
        return frozenset()
    kept = await at.memory.all(TAGGED)
    tag = str(at.inputs["tag"]).casefold()
    return frozenset(number for number, given in kept.items() if str(given).casefold() == tag)


async def read_orders_changed(at: StepContext) -> StepResult:
    """The orders created or updated since the run before; of an event's run its own.

    Cancelled ones do not count (E15). With other rules than before, those tagged before are read too.
    """
    found: dict[str, Order] = {}
    if at.event is not None:
        order = await order_of_event(at)
        found = {} if order is None else {order.id: order}
    else:
        async for order in read_orders(at, OrdersQuery(modified_after=await changed_since(at))):
            found[order.id] = order
        before = await _tagged_before(at)
        if before and (await at.memory.all(RULES)).get("digest") != _digest(at):
            missing = tuple(sorted(before - found.keys()))
            async for order in read_orders(at, OrdersQuery(ids=missing)):
                found[order.id] = order
    orders = [order for order in found.values() if order.cancelled_at is None]
    return StepResult(
        {"until": until_of(at), "orders": kept_orders(orders)},
        counts=Counts(read=len(orders)),
        title=f"Read {counted(len(orders), 'order')}",
    )


async def match_orders(at: StepContext) -> StepResult:
    """Which orders match every rule, and which of those tagged before no longer do."""
    output: Any = at.outputs[READ]
    orders = orders_of(output["orders"])
    tag = str(at.inputs["tag"])
    before = await _tagged_before(at)
    change: list[Order] = []
    rules: list[str] = []
    matched = 0
    for order in orders:
        rule = _matching(order, at)
        matched += rule is not None
        tagged = has_any_tag(order.tags, [tag])
        if (rule is not None and not tagged) or (rule is None and tagged and order.id in before):
            change.append(order)
            rules.append(rule or _OFF)
    planned = _plan(at, change, rules, tag)
    fits = {proposal.object.id for proposal in planned.proposals}
    chosen = [(order, rule) for order, rule in zip(change, rules, strict=True) if order.id in fits]
    unfit = [order.number for order in change if order.id not in fits]
    forget = [order.id for order in orders if order.id in before and not has_any_tag(order.tags, [tag])]
    return StepResult(
        {
            "checked": len(orders),
            "matched": matched,
            "change": kept_orders(order for order, _ in chosen),
            "rules": [rule for _, rule in chosen],
            "numbers": [order.number for order, _ in chosen],
        },
        counts=Counts(matched=matched),
        title=f"Found {counted(matched, 'order')} that {verb(matched, 'matches', 'match')}",
        message=f"Left alone, since they cannot be tagged: {', '.join(unfit[:10])}." if unfit else None,
        memory=tuple(MemoryWrite(TAGGED, number, None) for number in forget),
    )


async def change_tags(at: StepContext) -> StepResult:
    """Proposes the tags. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[MATCH]
    read: Any = at.outputs[READ]
    at.check_limit(len(found["rules"]))
    tag = str(at.inputs["tag"])
    orders = orders_of(found["change"])
    planned = _plan(at, orders, found["rules"], tag)
    memory = [
        MemoryWrite(TAGGED, order.id, None if rule == _OFF else tag, position)
        for position, (order, rule) in enumerate(zip(orders, found["rules"], strict=True))
    ]
    memory += remember_read(read)
    if at.event is None:
        memory.append(MemoryWrite(RULES, "digest", _digest(at)))
    return StepResult(
        {},
        title=f"Change the tags of {counted(len(planned.proposals), 'order')}",
        proposals=planned.proposals,
        memory=tuple(memory),
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(MATCH)
    rules: Any = found.get("rules", [])
    numbers: Any = found.get("numbers", [])
    done = ended.applied_rows(CHANGE, zip(numbers, rules, strict=True))
    off = sum(rule == _OFF for _, rule in done)
    orders: list[JsonValue] = [
        {"number": number, "added": rule != _OFF, "rule": rule} for number, rule in done
    ]
    checked, matched = whole(found.get("checked")), whole(found.get("matched"))
    text = sentences(
        f"{matched} of {counted(checked, 'order')} {verb(matched, 'matches', 'match')}.",
        ended.changes_sentence(CHANGE, "tag", "changed", none="No tag was changed."),
        f"{counted(off, 'tag')} taken off." if off else None,
    )
    return run_summary(
        text,
        {
            "checked": checked,
            "matched": matched,
            "tagged": len(done) - off,
            "untagged": off,
            "orders": orders,
        },
    )


def _matching(order: Order, at: StepContext) -> str | None:
    """The rules in words with what fits them; None when one of them does not match."""
    words: list[str | None] = []
    inputs: Any = at.inputs
    if "min_total" in inputs:
        words.append(_total(order, at, inputs["min_total"]))
    if "countries" in inputs:
        fits = order.country in inputs["countries"]
        words.append(f"country is {order.country}" if fits else None)
    if "discount_code" in inputs:
        wanted = inputs["discount_code"].strip().casefold()
        used = next((code for code in order.discount_codes if code.strip().casefold() == wanted), None)
        words.append(None if used is None else f"discount code {used} was used")
    if "skus" in inputs:
        skus = {key_of(sku) for sku in inputs["skus"]} - {""}
        held = next((line.sku for line in order.lines if key_of(line.sku) in skus), None)
        words.append(None if held is None else f"holds {held.strip()}")
    told = [each for each in words if each is not None]
    return "; ".join(told) if len(told) == len(words) else None


def _total(order: Order, at: StepContext, least: str) -> str | None:
    if not in_currency(order, at) or Decimal(order.total) < Decimal(least):
        return None
    total, bound = (money_text(Decimal(each), order.currency) for each in (order.total, least))
    return f"total {total} is at least {bound}"


def _plan(at: StepContext, orders: Sequence[Order], rules: Sequence[str], tag: str) -> PlannedChanges:
    asks = [
        SetOrderTags(
            order,
            without_tags(order.tags, [tag]) if rule == _OFF else with_tag(order.tags, tag),
            message=f"Order {order.number}: {rule}.",
        )
        for order, rule in zip(orders, rules, strict=True)
    ]
    store = at.home
    return store.changes["order.set_tags"].plan(asks, integration_id=store.connection.integration_id)


def _digest(at: StepContext) -> str:
    rules = [at.inputs["tag"], *(at.inputs.get(name) for name in _RULES)]
    return hashlib.sha256(json.dumps(rules).encode("utf-8")).hexdigest()


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="tag-orders-by-rule",
        template_version=1,
        name="Tag orders by rule",
        description="Adds a tag to orders that match every given rule.",
        category=Category.ORDERS,
        platforms=("shopify", "woocommerce"),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read the orders", StepKind.READ),
            StepFacts(MATCH, "Find the orders that match", StepKind.DECIDE),
            StepFacts(CHANGE, "Change the tags", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE, TriggerKind.EVENT),
        topics=dict.fromkeys(("shopify", "woocommerce"), ("orders/create", "orders/updated")),
        default_schedule=Schedule(Cadence.HOURLY),
        changes=(
            ChangeRow(
                step=CHANGE,
                object="order",
                action=Action.UPDATE,
                fields=(TAGS,),
                reversible=True,
                shown_beside=("order number", "rule that matched"),
            ),
        ),
        example_result={
            "checked": 40,
            "matched": 3,
            "tagged": 3,
            "untagged": 0,
            "orders": [{"number": "#1042", "added": True, "rule": "total 312.00 is at least 250.00"}],
        },
    ),
    steps={READ: read_orders_changed, MATCH: match_orders, CHANGE: change_tags},
    finish=finish,
)
