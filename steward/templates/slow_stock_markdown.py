"""Mark down slow stock: marks down what has not sold for some days (templates 5.24)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Any

from steward.connectors.base.commands import PostCard, SetPrice
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.queries import OrdersQuery
from steward.connectors.base.records import Variant, currency_decimals
from steward.model.change import Action, Outcome
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepResult
from steward.steps.skus import RowRefused
from steward.templates.base import (
    COMPARE_AT_PRICE,
    PRICE,
    Category,
    ChangeRow,
    ConnectionNeed,
    ConnectionUse,
    EndedRun,
    RunSummary,
    SetupContext,
    StepFacts,
    Template,
    TemplateFacts,
    counted,
    run_summary,
    sentences,
    vendor_errors,
    verb,
    whole,
)
from steward.templates.parts.days import window_of
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.markdowns import ROUND_TO, marked_down
from steward.templates.parts.messages import no_message, post_card
from steward.templates.parts.numbers import amount_of, money_text
from steward.templates.parts.orders import read_orders, read_until, remember_read, until_of
from steward.templates.parts.results import COUNT, result_schema
from steward.templates.parts.sales import counts_as_sale
from steward.templates.parts.stock import Wanted, is_on_sale, read_products
from steward.templates.parts.stored_products import kept_variants, variants_of

READ, PICK, CHANGE, SEND = "read-sales", "pick-slow", "change-prices", "tell-teams"
# Of each variant marked down: how often, when last, and its price before the first time.
MARKS = "markdowns"
# Orders older than this are told only with a wider permission.
PLAIN_DAYS, WIDER = 60, "read_all_orders"

_INPUTS = inputs_schema(
    ["no_sale_days", "percent"],
    {
        "no_sale_days": shared("days", "Not sold for so many days", default=90),
        "min_stock": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100000,
            "default": 1,
            "description": "Only with at least this stock",
        },
        "percent": shared("percent", "Markdown"),
        "round_to": ROUND_TO,
        "floor": {"enum": ["cost", "none"], "default": "cost", "description": "Never below cost"},
        "max_times": {
            "type": "integer",
            "minimum": 1,
            "maximum": 5,
            "default": 1,
            "description": "How often one variant may be marked down",
        },
        "products": shared("products", "Which products; absent: all published ones"),
        "teams": shared("teams", "Also tell this channel"),
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("checked", "slow", "changed", "at_floor", "without_cost", "too_new", "done_before")
_RESULT = result_schema(dict.fromkeys(_COUNTS, COUNT))


async def read_sales(at: StepContext) -> StepResult:
    """When each variant was last sold, and the unsold ones with enough stock (E8 to E10, E15, E16)."""
    start, marks = _start(at), await at.memory.all(MARKS)
    until = await read_until(at) if marks else None
    since = min(start, until) if until is not None else start
    last: dict[str, datetime] = {}
    async for order in read_orders(at, OrdersQuery(created_after=since - timedelta(seconds=1))):
        if not counts_as_sale(order) or order.created_at is None:
            continue
        for line in order.lines:
            if line.variant_id is not None:
                last[line.variant_id] = max(last.get(line.variant_id, since), order.created_at)
    wanted = Wanted(at.inputs.get("products"))
    least: Any = at.inputs["min_stock"]
    unsold: list[Variant] = []
    checked = untracked = 0
    for product in await read_products(at, published_only=not wanted.all):
        if not product.sellable or not wanted.has(product):
            continue
        for variant in product.variants:
            if not (wanted.all or is_on_sale(variant)):
                continue
            checked += 1
            if not variant.tracked or variant.backorders_allowed or variant.stock is None:
                untracked += 1
            elif variant.stock >= least and not (variant.id in last and last[variant.id] >= start):
                unsold.append(variant)
    sold = {key: last[number].isoformat() for number in last if (key := at.memory_key(number)) in marks}
    return StepResult(
        {"checked": checked, "unsold": kept_variants(unsold), "sold": sold, "until": until_of(at)},
        counts=Counts(read=checked),
        title=f"Read the sales of {counted(checked, 'variant')}",
        message=f"{counted(untracked, 'variant')} without a stock number left out." if untracked else None,
    )


async def pick_slow(at: StepContext) -> StepResult:
    """Which are slow, and what they would cost; the others are counted by why they stay as they are."""
    read: Any = at.outputs[READ]
    marks: Any = dict(await at.memory.all(MARKS))
    # A sale in between sets the count to 0.
    forgotten = [key for key, sold in read["sold"].items() if _time(sold) > _time(marks[key]["at"])]
    for key in forgotten:
        del marks[key]
    counts = dict.fromkeys(("slow", "at_floor", "without_cost", "too_new", "done_before"), 0)
    chosen: list[Variant] = []
    asks: list[JsonValue] = []
    senseless = 0
    for variant in variants_of(read["unsold"]):
        mark = marks.get(at.memory_key(variant.id))
        why = _left_alone(at, variant, mark)
        counts["slow"] += why not in ("too_new", "done_before")
        if why is not None:
            counts[why] += 1
            continue
        try:
            price = _new_price(at, variant)
        except RowRefused:
            senseless += 1
            continue
        if price is None:
            counts["at_floor"] += 1
            continue
        first, times = _first(variant, mark), mark["times"] if mark is not None else 0
        asks.append([price, first, times + 1, _beside(at, variant, price)])
        chosen.append(variant)
    slow = counts["slow"]
    return StepResult(
        {"checked": read["checked"], **counts, "variants": kept_variants(chosen), "asks": asks},
        counts=Counts(matched=len(chosen)),
        title=f"Found {counted(slow, 'variant')} that {verb(slow, 'does', 'do')} not sell",
        message=f"{counted(senseless, 'variant')} left without a sensible price." if senseless else None,
        memory=tuple(MemoryWrite(MARKS, key, None) for key in forgotten),
    )


async def change_prices(at: StepContext) -> StepResult:
    """Proposes the prices. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[PICK]
    variants = variants_of(found["variants"])
    planned = _plan(at, variants, found["asks"])
    at.check_limit(len(planned.proposals))
    now = at.now.isoformat()
    marks = {
        each.id: {"times": times, "at": now, "first": first}
        for each, (_, first, times, _) in zip(variants, found["asks"], strict=True)
    }
    return StepResult(
        {
            "told": [
                [each.object.label, price.before, price.after, price.currency]
                for each in planned.proposals
                for price in each.fields[:1]
            ]
        },
        title=f"Mark down {counted(len(planned.proposals), 'price')}",
        proposals=planned.proposals,
        memory=tuple(
            MemoryWrite(
                MARKS, at.memory_key(str(each.object.id)), marks[str(each.object.id)], position, _MAYBE
            )
            for position, each in enumerate(planned.proposals)
        ),
    )


async def tell_teams(at: StepContext) -> StepResult:
    """One message that names the prices that were applied, when a channel is named (E17)."""
    read: Any = at.outputs[READ]
    found: Any = at.outputs[CHANGE]
    remember = tuple(remember_read(read))
    told = [row for row, done in zip(found["told"], at.applied(CHANGE), strict=False) if done]
    if not told or "teams" not in at.inputs:
        return replace(no_message(), memory=remember)
    card = PostCard(
        title=f"{counted(len(told), 'variant')} marked down at {at.home.connection.name}",
        text=(f"Not sold for {at.inputs['no_sale_days']} days or more:",),
        facts=tuple(
            (label, f"{before} to {after} {currency or ''}".rstrip())
            for label, before, after, currency in told
        ),
    )
    return post_card(at, card, remember=remember)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(PICK)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["changed"] = ended.applied(CHANGE)
    slow, days = counts["slow"], ended.inputs["no_sale_days"]
    rest = [(counts["done_before"], "marked down before"), (counts["without_cost"], "without a known cost")]
    rest.append((counts["at_floor"], "at cost already"))
    named = ", ".join(f"{number} {words}" for number, words in rest if number)
    text = sentences(
        f"{counted(slow, 'variant')} {verb(slow, 'was', 'were')} not sold for {days} days.",
        ended.changes_sentence(CHANGE, "price", "marked down", none="No price was changed."),
        f"Left alone: {named}." if named else None,
        ended.message_sentence(SEND) if "teams" in ended.inputs else None,
    )
    return run_summary(text, counts)


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """What the platform lacks, and sales that the store's permission does not reach back to."""
    errors = dict(vendor_errors(inputs, world))
    days: Any = inputs["no_sale_days"]
    store = world.store
    if store is not None and store.kind == "shopify" and days > PLAIN_DAYS:
        rights: Any = store.facts.get("rights", [])
        if WIDER not in rights:
            words = f"The app may read orders of {PLAIN_DAYS} days. Give it {WIDER}, or name fewer days."
            errors["inputs.no_sale_days"] = [words]
    return errors


_MAYBE = (Outcome.APPLIED, Outcome.UNKNOWN)


def _start(at: StepContext) -> datetime:
    """Since when nothing of it was sold: local midnight so many days before the run's day (E16)."""
    days: Any = at.inputs["no_sale_days"]
    return window_of(at.day - timedelta(days=days), at.zone)[0]


def _time(kept: str) -> datetime:
    return datetime.fromisoformat(kept)


def _left_alone(at: StepContext, variant: Variant, mark: Any) -> str | None:
    """The count it goes into when nothing is done about it."""
    start = _start(at)
    if variant.created_at is not None and variant.created_at > start:
        return "too_new"
    if mark is not None and (mark["times"] >= at.inputs["max_times"] or _time(mark["at"]) > start):
        return "done_before"
    if at.inputs["floor"] == "cost" and amount_of(variant.cost) is None:
        return "without_cost"
    return None


def _new_price(at: StepContext, variant: Variant) -> str | None:
    """The price marked down, never under the cost; None when that leaves none below the present one.

    Raises RowRefused.
    """
    percent = Decimal(str(at.inputs["percent"]))
    price = marked_down(variant, percent, ending=str(at.inputs["round_to"]))
    cost, old = amount_of(variant.cost), amount_of(variant.price)
    if at.inputs["floor"] != "cost" or cost is None or old is None or Decimal(price) >= cost:
        return price
    unit = Decimal(1).scaleb(-currency_decimals(variant.currency))
    floor = cost.quantize(unit, ROUND_CEILING)
    return money_text(floor, variant.currency) if floor < old else None


def _first(variant: Variant, mark: Any) -> str | None:
    """The price before the first markdown; one that was raised above that since begins anew."""
    was, price = amount_of(mark["first"]) if mark is not None else None, amount_of(variant.price)
    return mark["first"] if was is not None and price is not None and was > price else variant.price


def _beside(at: StepContext, variant: Variant, price: str) -> str:
    days, cost, new = at.inputs["no_sale_days"], amount_of(variant.cost), Decimal(price)
    words = f"Not sold for {days} days or more. Stock {variant.stock}."
    if cost is None:
        return f"{words} Cost not known."
    margin = ((new - cost) / new * 100).quantize(Decimal("0.1"))
    return f"{words} Cost {money_text(cost, variant.currency)}. Margin after {margin} %."


def _plan(at: StepContext, variants: Sequence[Variant], asks: Sequence[Any]) -> PlannedChanges:
    store = at.home
    made = [
        SetPrice(variant, price, first, message=words)
        for variant, (price, first, _, words) in zip(variants, asks, strict=True)
    ]
    return store.changes["variant.set_price"].plan(made, integration_id=store.connection.integration_id)


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="slow-stock-markdown",
        template_version=1,
        name="Mark down slow stock",
        description="Marks down what has not sold for some days.",
        category=Category.PRICES,
        platforms=("shopify", "woocommerce"),
        connections=(ConnectionNeed("teams", ConnectionUse.WRITE, 0, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read sales, stock and cost", StepKind.READ),
            StepFacts(PICK, "Find what does not sell", StepKind.DECIDE),
            StepFacts(CHANGE, "Mark the prices down", StepKind.CHANGE),
            StepFacts(SEND, "Tell Teams", StepKind.SEND),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.MONTHLY, time_of_day="06:00", day_of_month=1),
        changes=(
            ChangeRow(
                step=CHANGE,
                object="variant",
                action=Action.UPDATE,
                fields=(PRICE, COMPARE_AT_PRICE),
                reversible=True,
                shown_beside=("days unsold", "stock", "cost", "margin after"),
            ),
        ),
        example_result={
            "checked": 812,
            "slow": 40,
            "changed": 31,
            "at_floor": 2,
            "without_cost": 7,
            "too_new": 20,
            "done_before": 3,
        },
    ),
    steps={READ: read_sales, PICK: pick_slow, CHANGE: change_prices, SEND: tell_teams},
    finish=finish,
    check_setup=check_world,
)
