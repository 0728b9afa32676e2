"""Mark down slow stock: reduces the prices of variants that have not sold for some days."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from steward.connectors.base.commands import PostCard, SetPrice
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Variant, currency_decimals
from steward.model.change import Action, Outcome
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, MemoryWrite, StepContext, StepOutput, StepResult
from steward.steps.skus import RowRefused
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, sentences, verb
from steward.templates.parts import inputs, orders, results, stock
from steward.templates.parts.ages import day_window
from steward.templates.parts.markdowns import ROUND_TO, MarkdownInputs, marked_down
from steward.templates.parts.messages import TeamsInput, no_message, post_card
from steward.templates.parts.numbers import amount_of, money_text
from steward.templates.parts.sales import last_sales_since
from steward.templates.parts.stored_products import VariantTable

READ, PICK, CHANGE, SEND = "read-sales", "pick-slow", "change-prices", "tell-teams"
# Memory space: the markdowns of each variant.
MARKDOWNS = "markdowns"
# Reading older orders than this needs a wider permission.
ORDER_DAYS, WIDER_PERMISSION = 60, "read_all_orders"


class _SlowStockInputs(MarkdownInputs, frozen=True):
    """The automation's inputs."""

    no_sale_days: int
    min_stock: int
    floor: str
    max_times: int
    teams: TeamsInput | None = None


class _RememberedMarkdown(JsonRecord, frozen=True):
    """The number of a variant's markdowns, the last one, and the price before the first."""

    times: int
    changed_at: datetime
    first: str | None


class _UnsoldVariants(StepOutput, frozen=True):
    """The unsold variants with enough stock, and the last sales of marked-down ones."""

    checked: int
    unsold: VariantTable
    sold: dict[str, datetime]
    until: str | None


class _NewMarkdown(JsonRecord, frozen=True):
    """A markdown to propose; `first` is the price before the variant's first one."""

    price: str
    first: str | None
    times: int
    message: str


class _SlowVariants(StepOutput, frozen=True):
    """The variants to mark down, and the numbers of the others by the reason for leaving them unchanged."""

    checked: int = 0
    slow: int = 0
    at_floor: int = 0
    without_cost: int = 0
    too_new: int = 0
    done_before: int = 0
    variants: VariantTable = VariantTable()
    markdowns: tuple[_NewMarkdown, ...] = ()


class _ProposedPrice(JsonRecord, frozen=True):
    """A proposed price, for the message."""

    label: str
    before: str | None
    after: str | None
    currency: str | None


class _ProposedPrices(StepOutput, frozen=True):
    """The proposed prices, in the order of the changes."""

    prices: tuple[_ProposedPrice, ...]


async def _read_sales(context: StepContext) -> StepResult:
    """Reads when each variant was last sold, and picks the unsold ones with enough stock."""
    markdowns = await context.memory.all(MARKDOWNS)
    start = _start(context)
    last_sales = await last_sales_since(context, start, has_markdowns=bool(markdowns))
    minimum = _SlowStockInputs.from_json(context.inputs).min_stock
    variants = await _chosen_variants(context)
    tracked = _with_stock_number(variants)
    untracked = len(variants) - len(tracked)
    unsold = [
        variant
        for variant, number in tracked
        if number >= minimum and not (variant.id in last_sales and last_sales[variant.id] >= start)
    ]
    output = _UnsoldVariants(
        checked=len(variants),
        unsold=VariantTable(unsold),
        sold={
            key: sold_at
            for variant_id, sold_at in last_sales.items()
            if (key := context.memory_key(variant_id)) in markdowns
        },
        until=orders.until_of(context),
    )
    return output.as_result(
        f"Read the sales of {counted(len(variants), 'variant')}",
        read=len(variants),
        message=f"{counted(untracked, 'variant')} without a stock number left out." if untracked else None,
    )


async def _pick_slow(context: StepContext) -> StepResult:
    """Picks the slow variants with their new prices; counts the others by the reason to leave them."""
    read = context.output(READ, _UnsoldVariants)
    markdowns, forgotten = _markdowns_since_sale(await context.memory.all(MARKDOWNS), read.sold)
    counts = dict.fromkeys(("at_floor", "without_cost", "too_new", "done_before"), 0)
    chosen: list[Variant] = []
    planned: list[_NewMarkdown] = []
    slow = without_price = 0
    for variant in read.unsold:
        markdown = markdowns.get(context.memory_key(variant.id))
        reason = _reason_left_alone(context, variant, markdown)
        slow += reason not in ("too_new", "done_before")
        try:
            price = _new_price(context, variant) if reason is None else None
        except RowRefused:
            without_price += 1
            continue
        if price is None:
            counts[reason or "at_floor"] += 1
            continue
        planned.append(_new_markdown(context, variant, markdown, price))
        chosen.append(variant)
    output = _SlowVariants(
        checked=read.checked, slow=slow, variants=VariantTable(chosen), markdowns=tuple(planned), **counts
    )
    problem = f"{counted(without_price, 'variant')} left without a sensible price." if without_price else None
    return output.as_result(
        f"Found {counted(slow, 'variant')} that {verb(slow, 'does', 'do')} not sell",
        matched=len(chosen),
        message=problem,
        memory=[MemoryWrite(MARKDOWNS, key, None) for key in forgotten],
    )


async def change_prices(context: StepContext) -> StepResult:
    """Proposes the prices. Raises TooManyChanges."""
    picked = context.output(PICK, _SlowVariants)
    variants = list(picked.variants)
    proposals = _plan(context, variants, picked.markdowns).proposals
    context.check_limit(len(proposals))
    remembered = {
        variant.id: _RememberedMarkdown(markdown.times, context.now, markdown.first).to_json()
        for variant, markdown in zip(variants, picked.markdowns, strict=True)
    }
    prices = (
        _ProposedPrice(proposal.object.label, _text(field.before), _text(field.after), field.currency)
        for proposal in proposals
        for field in proposal.fields[:1]
    )
    ids = [str(proposal.object.id) for proposal in proposals]
    written = (Outcome.APPLIED, Outcome.UNKNOWN)
    return _ProposedPrices(tuple(prices)).as_result(
        f"Mark down {counted(len(proposals), 'price')}",
        proposals=proposals,
        memory=[
            MemoryWrite(MARKDOWNS, context.memory_key(variant_id), remembered[variant_id], position, written)
            for position, variant_id in enumerate(ids)
        ],
    )


async def post_to_teams(context: StepContext) -> StepResult:
    """Posts one message that names the applied prices, if a channel is named."""
    remember = tuple(orders.remember_read(context.output(READ, _UnsoldVariants).until))
    proposed = context.output(CHANGE, _ProposedPrices).prices
    rows = zip(proposed, context.applied(CHANGE), strict=False)
    applied = [price for price, is_applied in rows if is_applied]
    if not applied or "teams" not in context.inputs:
        return no_message(remember=remember)
    days = _SlowStockInputs.from_json(context.inputs).no_sale_days
    card = PostCard(
        title=f"{counted(len(applied), 'variant')} marked down at {context.home.connection.name}",
        text=(f"Not sold for {days} days or more:",),
        facts=tuple(
            (price.label, f"{price.before} to {price.after} {price.currency or ''}".rstrip())
            for price in applied
        ),
    )
    return post_card(context, card, remember=remember)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    picked = ended.output(PICK, _SlowVariants)
    slow, days = picked.slow, _SlowStockInputs.from_json(ended.inputs).no_sale_days
    reasons = (
        (picked.done_before, "marked down before"),
        (picked.without_cost, "without a known cost"),
        (picked.at_floor, "at cost already"),
    )
    left_alone = ", ".join(f"{number} {words}" for number, words in reasons if number)
    text = sentences(
        f"{counted(slow, 'variant')} {verb(slow, 'was', 'were')} not sold for {days} days.",
        ended.changes_sentence(CHANGE, "price", "marked down", if_none="No price was changed."),
        f"Left alone: {left_alone}." if left_alone else None,
        ended.message_sentence(SEND) if "teams" in ended.inputs else None,
    )
    result = {
        "checked": picked.checked,
        "slow": slow,
        "changed": ended.applied(CHANGE),
        "at_floor": picked.at_floor,
        "without_cost": picked.without_cost,
        "too_new": picked.too_new,
        "done_before": picked.done_before,
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Rejects vendors that the platform lacks, and more days of sales than the store's permission covers."""
    errors = dict(base.vendor_errors(values, setup))
    days = _SlowStockInputs.from_json(values).no_sale_days
    store = setup.store
    if store is not None and store.kind == "shopify" and days > ORDER_DAYS:
        rights = store.facts.get("rights", [])
        if not isinstance(rights, Sequence) or WIDER_PERMISSION not in rights:
            message = f"The app may read orders of {ORDER_DAYS} days."
            errors["inputs.no_sale_days"] = [f"{message} Give it {WIDER_PERMISSION}, or name fewer days."]
    return errors


def _start(context: StepContext) -> datetime:
    """Returns the local midnight `no_sale_days` before the run's day; unsold variants had no sale since."""
    days = _SlowStockInputs.from_json(context.inputs).no_sale_days
    return day_window(context.day - timedelta(days=days), context.zone)[0]


def _with_stock_number(variants: Iterable[Variant]) -> list[tuple[Variant, int]]:
    return [
        (variant, variant.stock)
        for variant in variants
        if variant.tracked and not variant.backorders_allowed and variant.stock is not None
    ]


def _markdowns_since_sale(
    remembered: JsonObject, sold: Mapping[str, datetime]
) -> tuple[dict[str, _RememberedMarkdown], list[str]]:
    """Returns the markdowns since the last sale, which resets the count, and the keys of the others."""
    markdowns = {key: _RememberedMarkdown.from_json(value) for key, value in remembered.items()}
    forgotten = [key for key, sold_at in sold.items() if sold_at > markdowns[key].changed_at]
    for key in forgotten:
        del markdowns[key]
    return markdowns, forgotten


def _new_markdown(
    context: StepContext, variant: Variant, markdown: _RememberedMarkdown | None, price: str
) -> _NewMarkdown:
    times = markdown.times if markdown is not None else 0
    message = _message(context, variant, price)
    return _NewMarkdown(price, _first_price(variant, markdown), times + 1, message)


async def _chosen_variants(context: StepContext) -> list[Variant]:
    product_filter = stock.ProductFilter(context.inputs.get("products"))
    return [
        variant
        for product in await stock.read_products(context, published_only=not product_filter.all)
        if product.sellable and product_filter.has(product)
        for variant in product.variants
        if product_filter.all or stock.is_on_sale(variant)
    ]


def _reason_left_alone(
    context: StepContext, variant: Variant, markdown: _RememberedMarkdown | None
) -> str | None:
    """Returns the counter of a variant that is left unchanged; None for a variant to mark down."""
    options, start = _SlowStockInputs.from_json(context.inputs), _start(context)
    if variant.created_at is not None and variant.created_at > start:
        return "too_new"
    if markdown is not None and (markdown.times >= options.max_times or markdown.changed_at > start):
        return "done_before"
    if options.floor == "cost" and amount_of(variant.cost) is None:
        return "without_cost"
    return None


def _new_price(context: StepContext, variant: Variant) -> str | None:
    """Returns the marked-down price, never below the cost; None when it is not below the current price.

    Raises RowRefused.
    """
    options = _SlowStockInputs.from_json(context.inputs)
    price = marked_down(variant, options)
    cost, present = amount_of(variant.cost), amount_of(variant.price)
    if options.floor != "cost" or cost is None or present is None or Decimal(price) >= cost:
        return price
    unit = Decimal(1).scaleb(-currency_decimals(variant.currency))
    floor = cost.quantize(unit, ROUND_CEILING)
    return money_text(floor, variant.currency) if floor < present else None


def _first_price(variant: Variant, markdown: _RememberedMarkdown | None) -> str | None:
    """Returns the price before the first markdown; a higher current price starts over."""
    first = markdown.first if markdown is not None else None
    former, present = amount_of(first), amount_of(variant.price)
    return first if former is not None and present is not None and former > present else variant.price


def _message(context: StepContext, variant: Variant, price: str) -> str:
    days = _SlowStockInputs.from_json(context.inputs).no_sale_days
    cost, new = amount_of(variant.cost), Decimal(price)
    message = f"Not sold for {days} days or more. Stock {variant.stock}."
    if cost is None:
        return f"{message} Cost not known."
    margin = ((new - cost) / new * 100).quantize(Decimal("0.1"))
    return f"{message} Cost {money_text(cost, variant.currency)}. Margin after {margin} %."


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _plan(
    context: StepContext, variants: Sequence[Variant], markdowns: Sequence[_NewMarkdown]
) -> PlannedChanges:
    commands = [
        SetPrice(variant, markdown.price, markdown.first, message=markdown.message)
        for variant, markdown in zip(variants, markdowns, strict=True)
    ]
    return context.home.plan("variant.set_price", commands)


TEMPLATE = base.define(
    "slow-stock-markdown",
    "Mark down slow stock",
    "Marks down what has not sold for some days.",
    category=base.Category.PRICES,
    connections=(base.OPTIONAL_TEAMS,),
    inputs=inputs.inputs_schema(
        ["no_sale_days", "percent"],
        {
            "no_sale_days": inputs.shared("days", "Not sold for so many days", default=90),
            "min_stock": inputs.integer("Only with at least this stock", 1, 100000, default=1),
            "percent": inputs.shared("percent", "Markdown"),
            "round_to": ROUND_TO,
            "floor": inputs.choice("Never below cost", "cost", "none", default="cost"),
            "max_times": inputs.integer("How often one variant may be marked down", 1, 5, default=1),
            "products": inputs.shared("products", "Which products; absent: all published ones"),
            "teams": inputs.shared("teams", "Also tell this channel"),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("checked", "slow", "changed", "at_floor", "without_cost", "too_new", "done_before")
    ),
    steps=(
        base.read_step(READ, "Read sales, stock and cost", _read_sales),
        base.decide_step(PICK, "Find what does not sell", _pick_slow),
        base.change_step(CHANGE, "Mark the prices down", change_prices),
        base.send_step(SEND, "Post to Teams", post_to_teams),
    ),
    schedule=Schedule(Cadence.MONTHLY, time_of_day="06:00", day_of_month=1),
    changes=(
        base.ChangeRow(
            CHANGE,
            "variant",
            Action.UPDATE,
            (base.PRICE, base.COMPARE_AT_PRICE),
            shown_beside=("days unsold", "stock", "cost", "margin after"),
        ),
    ),
    example={
        "checked": 812,
        "slow": 40,
        "changed": 31,
        "at_floor": 2,
        "without_cost": 7,
        "too_new": 20,
        "done_before": 3,
    },
    finish=finish,
    check_setup=check_setup,
)
