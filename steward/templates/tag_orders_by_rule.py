"""Tag orders by rule: adds a tag to orders that match every rule of the inputs."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Decimal

from steward.connectors.base.commands import SetOrderTags
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Order
from steward.model.change import Action
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, MemoryWrite, StepContext, StepOutput, StepResult
from steward.steps.skus import key_of
from steward.steps.tag_lists import has_any_tag, with_tag, without_tags
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, orders, results
from steward.templates.parts.numbers import money_text
from steward.templates.parts.stored_orders import OrderTable

READ, MATCH, CHANGE = "read-orders", "match-orders", "change-tags"
# Memory space: the orders that this automation tagged, with the tag as written.
_TAGGED = "tagged"
# Memory space: the rules of the last live run; when they change, the tagged orders are checked again.
RULES = "rules"
_NO_MATCH = "no longer matches"
_RULES = ("min_total", "countries", "discount_code", "skus")


class _OrderRuleInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    tag: str
    remove_when_not: bool
    min_total: str | None = None
    countries: tuple[str, ...] | None = None
    discount_code: str | None = None
    skus: tuple[str, ...] | None = None


class ChangedOrders(StepOutput, frozen=True):
    """The orders to check."""

    until: str | None
    orders: OrderTable


class _MatchedOrders(StepOutput, frozen=True):
    """The orders whose tag changes, each with the rule in words."""

    checked: int = 0
    matched: int = 0
    change: OrderTable = OrderTable()
    rules: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


async def _tagged_ids(context: StepContext) -> frozenset[str]:
    """Returns the orders that this automation gave the current tag; none when it removes no tags."""
    options = _OrderRuleInputs.from_json(context.inputs)
    if not options.remove_when_not:
        return frozenset()
    tagged = await context.memory.all(_TAGGED)
    tag = options.tag.casefold()
    return frozenset(order_id for order_id, value in tagged.items() if str(value).casefold() == tag)


async def _read_orders_changed(context: StepContext) -> StepResult:
    """Reads the orders changed since the last run, or the event's order, without cancelled ones.

    When the rules have changed, the orders tagged before are read as well.
    """
    by_id = await orders.read_changed_orders(context)
    if context.event is None:
        tagged = await _tagged_ids(context)
        if tagged and (await context.memory.all(RULES)).get("digest") != _digest(context):
            by_id |= await orders.read_orders_by_id(context, tagged - by_id.keys())
    live = [order for order in by_id.values() if order.cancelled_at is None]
    output = ChangedOrders(orders.until_of(context), OrderTable(live))
    return output.as_result(f"Read {counted(len(live), 'order')}", read=len(live))


async def _match_orders(context: StepContext) -> StepResult:
    """Decides which orders match every rule, and which tagged ones no longer do."""
    read = list(context.output(READ, ChangedOrders).orders)
    tag = str(context.inputs["tag"])
    tagged_before = await _tagged_ids(context)
    matches = {order.id: _matching(order, context) for order in read}
    matched = sum(rule is not None for rule in matches.values())
    change = list(_changes(read, matches, tag, tagged_before))
    chosen, unfit = _plannable(context, change, tag)
    output = _MatchedOrders(
        checked=len(read),
        matched=matched,
        change=OrderTable(order for order, _ in chosen),
        rules=tuple(rule for _, rule in chosen),
        numbers=tuple(order.number for order, _ in chosen),
    )
    return output.as_result(
        f"Found {counted(matched, 'order')} that {verb(matched, 'matches', 'match')}",
        matched=matched,
        message=f"Left alone, since they cannot be tagged: {', '.join(unfit[:10])}." if unfit else None,
        memory=_untagged_since(read, tag, tagged_before),
    )


async def change_tags(context: StepContext) -> StepResult:
    """Proposes the tags. Raises TooManyChanges."""
    matched = context.output(MATCH, _MatchedOrders)
    context.check_limit(len(matched.rules))
    tag = str(context.inputs["tag"])
    change = list(zip(matched.change, matched.rules, strict=True))
    planned = _plan(context, change, tag)
    memory = [
        MemoryWrite(_TAGGED, order.id, None if rule == _NO_MATCH else tag, position)
        for position, (order, rule) in enumerate(change)
    ]
    memory += orders.remember_read(context.output(READ, ChangedOrders).until)
    if context.event is None:
        memory.append(MemoryWrite(RULES, "digest", _digest(context)))
    title = f"Change the tags of {counted(len(planned.proposals), 'order')}"
    return StepResult({}, title=title, proposals=planned.proposals, memory=tuple(memory))


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    output = ended.output(MATCH, _MatchedOrders)
    rows = ended.applied_rows(CHANGE, zip(output.numbers, output.rules, strict=True))
    untagged = sum(rule == _NO_MATCH for _, rule in rows)
    matched = output.matched
    text = sentences(
        f"{matched} of {counted(output.checked, 'order')} {verb(matched, 'matches', 'match')}.",
        ended.changes_sentence(CHANGE, "tag", "changed", if_none="No tag was changed."),
        if_any(untagged, f"{counted(untagged, 'tag')} taken off."),
    )
    result = {
        "checked": output.checked,
        "matched": matched,
        "tagged": len(rows) - untagged,
        "untagged": untagged,
        "orders": [{"number": number, "added": rule != _NO_MATCH, "rule": rule} for number, rule in rows],
    }
    return base.run_summary(text, result)


def _changes(
    read: Sequence[Order], matches: Mapping[str, str | None], tag: str, tagged_before: Set[str]
) -> Iterator[tuple[Order, str]]:
    """Yields the orders whose tags have to change, each with the rule it matches or `_NO_MATCH`."""
    for order in read:
        rule, is_tagged = matches[order.id], has_any_tag(order.tags, [tag])
        if rule is not None and not is_tagged:
            yield order, rule
        elif rule is None and is_tagged and order.id in tagged_before:
            yield order, _NO_MATCH


def _untagged_since(read: Sequence[Order], tag: str, tagged_before: Set[str]) -> Iterator[MemoryWrite]:
    """Yields writes that forget tagged orders whose tag somebody removed."""
    for order in read:
        if order.id in tagged_before and not has_any_tag(order.tags, [tag]):
            yield MemoryWrite(_TAGGED, order.id, None)


def _plannable(
    context: StepContext, change: Sequence[tuple[Order, str]], tag: str
) -> tuple[list[tuple[Order, str]], list[str]]:
    """Returns the changes that the store would accept, and the numbers of the other orders."""
    plannable = {proposal.object.id for proposal in _plan(context, change, tag).proposals}
    chosen = [(order, rule) for order, rule in change if order.id in plannable]
    return chosen, [order.number for order, _ in change if order.id not in plannable]


def _matching(order: Order, context: StepContext) -> str | None:
    """Returns the rules in words with the values that match them; None when one of them does not match."""
    words = list(_rule_words(order, context))
    matching = [rule for rule in words if rule is not None]
    return "; ".join(matching) if len(matching) == len(words) else None


def _rule_words(order: Order, context: StepContext) -> Iterator[str | None]:
    """Yields each rule of the inputs in words, None for one that does not match."""
    options = _OrderRuleInputs.from_json(context.inputs)
    if options.min_total is not None:
        yield _total_words(order, context, options.min_total)
    if options.countries is not None:
        yield f"country is {order.country}" if order.country in options.countries else None
    if options.discount_code is not None:
        yield _discount_words(order, options.discount_code)
    if options.skus is not None:
        yield _sku_words(order, options.skus)


def _total_words(order: Order, context: StepContext, minimum: str) -> str | None:
    if not orders.in_currency(order, context) or Decimal(order.total) < Decimal(minimum):
        return None
    total, bound = (money_text(Decimal(amount), order.currency) for amount in (order.total, minimum))
    return f"total {total} is at least {bound}"


def _discount_words(order: Order, discount_code: str) -> str | None:
    folded = discount_code.strip().casefold()
    used = next((code for code in order.discount_codes if code.strip().casefold() == folded), None)
    return None if used is None else f"discount code {used} was used"


def _sku_words(order: Order, skus: Sequence[str]) -> str | None:
    keys = {key_of(sku) for sku in skus} - {""}
    sku = next((line.sku for line in order.lines if key_of(line.sku) in keys), None)
    return None if sku is None else f"holds {sku.strip()}"


def _plan(context: StepContext, change: Sequence[tuple[Order, str]], tag: str) -> PlannedChanges:
    commands = [
        SetOrderTags(
            order,
            without_tags(order.tags, [tag]) if rule == _NO_MATCH else with_tag(order.tags, tag),
            message=f"Order {order.number}: {rule}.",
        )
        for order, rule in change
    ]
    return context.home.plan("order.set_tags", commands)


def _digest(context: StepContext) -> str:
    rules = [context.inputs["tag"], *(context.inputs.get(name) for name in _RULES)]
    return hashlib.sha256(json.dumps(rules).encode("utf-8")).hexdigest()


TEMPLATE = base.define(
    "tag-orders-by-rule",
    "Tag orders by rule",
    "Adds a tag to orders that match every given rule.",
    category=base.Category.ORDERS,
    inputs=inputs.inputs_schema(
        ["tag"],
        {
            "tag": inputs.shared("tag", "The tag"),
            "min_total": inputs.shared("money", "Total at least this, in the store's currency"),
            "countries": inputs.array(
                "Shipping country is one of these", {"type": "string", "pattern": "^[A-Z]{2}$"}, maxItems=50
            ),
            "discount_code": {
                "type": "string",
                "minLength": 1,
                "maxLength": 255,
                "description": "This discount code was used",
            },
            "skus": inputs.array(
                "Holds at least one of these SKUs",
                {"type": "string", "minLength": 1, "maxLength": 255},
                minItems=1,
                maxItems=200,
            ),
            "remove_when_not": inputs.flag("Take the tag off orders that no longer match"),
            "limit": inputs.LIMIT,
        },
        conditions={"anyOf": [{"required": [name]} for name in _RULES]},
    ),
    result=results.counts_schema(
        *("checked", "matched", "tagged", "untagged"),
        orders=results.list_of({"number": results.TEXT, "added": {"type": "boolean"}, "rule": results.TEXT}),
    ),
    steps=(
        base.read_step(READ, "Read the orders", _read_orders_changed),
        base.decide_step(MATCH, "Find the orders that match", _match_orders),
        base.change_step(CHANGE, "Change the tags", change_tags),
    ),
    topics=("orders/create", "orders/updated"),
    schedule=Schedule(Cadence.HOURLY),
    changes=(
        base.ChangeRow(
            CHANGE, "order", Action.UPDATE, (base.TAGS,), shown_beside=("order number", "rule that matched")
        ),
    ),
    example={
        "checked": 40,
        "matched": 3,
        "tagged": 3,
        "untagged": 0,
        "orders": [{"number": "#1042", "added": True, "rule": "total 312.00 is at least 250.00"}],
    },
    finish=finish,
)
