"""Low stock alert: reports variants at or below a level to a channel for messages."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import field

from steward.connectors.base.commands import PostCard
from steward.connectors.base.records import Product
from steward.model.json import JsonObject
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, MemoryWrite, StepContext, StepOutput, StepResult
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results, stock
from steward.templates.parts.messages import no_message, post_card
from steward.templates.parts.stock import StockUnit

READ, PICK, SEND = "read-stock", "pick-low", "send-alert"
# Memory space: the stock numbers of the last message, each with `low` or `untracked`. The name is stored with
# automations, so it stays.
_REPORTED = "told"


class _LowStockInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    threshold: int
    include_untracked: bool
    only_new: bool


class _ReadUnits(StepOutput, frozen=True):
    """The stock numbers of the chosen products."""

    units: tuple[StockUnit, ...]


class _LowStock(StepOutput, frozen=True):
    """The stock numbers at or below the level; `report` are those for the message."""

    checked: int = 0
    low: int = 0
    new: int = 0
    untracked: int = 0
    reported_before: int = 0
    report: tuple[StockUnit, ...] = ()
    remember: dict[str, str] = field(default_factory=dict)


async def read_stock(context: StepContext) -> StepResult:
    """Reads every stock number of the chosen products; after an event, only the event's."""
    product_filter = stock.ProductFilter(context.inputs.get("products"))
    products = await stock.read_products(context, published_only=not product_filter.all)
    sellable = [product for product in products if product.sellable]
    units = [
        unit
        for product in sellable
        if product_filter.has(product)
        for unit in _units(product, unpublished=product_filter.all)
        if context.event is None or stock.in_event(context.event, unit)
    ]
    return _ReadUnits(tuple(units)).as_result(
        f"Read the stock of {counted(len(units), 'variant')}",
        read=len(units),
        message=stock.skipped_message(len(products) - len(sellable)),
    )


async def _pick_low(context: StepContext) -> StepResult:
    """Picks the variants at or below the level, and which of them are new since the last message."""
    options = _LowStockInputs.from_json(context.inputs)
    units = context.output(READ, _ReadUnits).units
    reported = await context.memory.all(_REPORTED)
    low = _low_units(units, options.threshold)
    untracked = [unit for unit in units if unit.stock is None]
    listed = _listed(low, untracked, options)
    new = _unreported(context, listed, reported)
    report_ids = new if options.only_new else listed.keys()
    report = tuple(unit for unit in [*low, *untracked] if unit.id in report_ids)
    output = _LowStock(
        checked=len(units),
        low=len(low),
        new=sum(unit.id in new for unit in low),
        untracked=len(untracked),
        reported_before=len(listed) - len(report),
        report=report,
        remember={context.memory_key(unit_id): listed[unit_id] for unit_id in sorted(new)},
    )
    return output.as_result(
        f"Found {counted(len(low), 'variant')} at or under {options.threshold}",
        matched=len(low),
        memory=_recovered(context, units, listed, reported),
    )


async def send_alert(context: StepContext) -> StepResult:
    """Posts one message if there is anything to report."""
    picked = context.output(PICK, _LowStock)
    if not picked.report:
        return no_message()
    # Written only once the message is sent: if it was lost, the variants are new again.
    remember = [MemoryWrite(_REPORTED, key, kind, position=0) for key, kind in picked.remember.items()]
    return post_card(context, _card(context, picked), remember=remember)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    options, picked = _LowStockInputs.from_json(ended.inputs), ended.output(PICK, _LowStock)
    low, untracked = picked.low, picked.untracked
    left_out = "" if options.include_untracked else " left out"
    text = sentences(
        f"{counted(low, 'variant')} {verb(low, 'is', 'are')} at or under {options.threshold},"
        f" {picked.new} of them new.",
        if_any(untracked, f"{counted(untracked, 'variant')} without a stock number{left_out}."),
        ended.message_sentence(SEND),
    )
    result = {
        "checked": picked.checked,
        "low": low,
        "new": picked.new,
        "untracked": untracked,
        "variants": [{"sku": unit.sku, "label": unit.label, "stock": unit.stock} for unit in picked.report],
    }
    return base.run_summary(text, result)


def _units(product: Product, *, unpublished: bool) -> Sequence[StockUnit]:
    variants = [variant for variant in product.variants if unpublished or stock.is_on_sale(variant)]
    return stock.units_of(product, variants)


def _card(context: StepContext, picked: _LowStock) -> PostCard:
    threshold = _LowStockInputs.from_json(context.inputs).threshold
    low = sum(unit.stock is not None for unit in picked.report)
    untracked = len(picked.report) - low
    store = context.home.connection.name
    title = f"{counted(untracked, 'variant')} without a stock number at {store}"
    words: list[str] = []
    if low:
        title = f"{counted(low, 'variant')} low in stock at {store}"
        words.append(f"At or under {threshold}.")
    if low and untracked:
        words.append(f"Listed last: {counted(untracked, 'variant')} whose stock is not tracked.")
    if before := picked.reported_before:
        words.append(f"{before} more {verb(before, 'was', 'were')} reported before.")
    url = picked.report[0].url if len(picked.report) == 1 else None
    return PostCard(
        title=title,
        text=(" ".join(words),) if words else (),
        facts=tuple((unit.label, _stock_words(unit.stock)) for unit in picked.report),
        link=("Open the product", url) if url else None,
    )


def _stock_words(number: int | None) -> str:
    return "not tracked" if number is None else f"{number} left"


def _low_units(units: Sequence[StockUnit], threshold: int) -> list[StockUnit]:
    return [unit for unit in units if unit.stock is not None and unit.stock <= threshold]


def _listed(
    low: Sequence[StockUnit], untracked: Sequence[StockUnit], options: _LowStockInputs
) -> dict[str, str]:
    """Returns the ids that the inputs ask to report, each with the reason to remember."""
    listed = {unit.id: "low" for unit in low}
    if options.include_untracked:
        listed |= {unit.id: "untracked" for unit in untracked}
    return listed


def _unreported(context: StepContext, listed: Mapping[str, str], reported: JsonObject) -> set[str]:
    """Returns the listed ids that were not reported before, or for another reason."""
    return {unit_id for unit_id, kind in listed.items() if reported.get(context.memory_key(unit_id)) != kind}


def _recovered(
    context: StepContext, units: Sequence[StockUnit], listed: Mapping[str, str], reported: JsonObject
) -> Iterator[MemoryWrite]:
    """Yields writes that forget reported ids which are no longer listed; after an event, only read ones."""
    read = {context.memory_key(unit.id) for unit in units}
    listed_keys = {context.memory_key(unit_id) for unit_id in listed}
    for key in sorted(reported.keys() - listed_keys):
        if context.event is None or key in read:
            yield MemoryWrite(_REPORTED, key, None)


TEMPLATE = base.define(
    "low-stock-alert",
    "Low stock alert",
    "Tells a Teams channel which variants are at or under a level.",
    category=base.Category.STOCK,
    connections=(base.TEAMS,),
    inputs=inputs.inputs_schema(
        ["threshold", "teams"],
        {
            "threshold": inputs.integer("Alert at or under this number", 0, 100000, default=5),
            "products": inputs.shared("products", "Which products; absent: all published ones"),
            "include_untracked": inputs.flag("List variants whose stock is not tracked as well"),
            "only_new": inputs.flag(
                "Only variants that were above the level at the run before", default=True
            ),
            "teams": inputs.shared("teams", "Where the message goes"),
        },
    ),
    result=results.counts_schema(
        *("checked", "low", "new", "untracked"),
        variants=results.list_of(
            {
                "sku": results.or_null(results.TEXT),
                "label": results.TEXT,
                "stock": results.or_null(results.INTEGER),
            }
        ),
    ),
    steps=(
        base.read_step(READ, "Read stock", read_stock),
        base.decide_step(PICK, "Find variants at or under the level", _pick_low),
        base.send_step(SEND, "Post the list to Teams", send_alert),
    ),
    topics=("inventory_levels/update",),
    schedule=Schedule(Cadence.DAILY, time_of_day="08:00"),
    example={
        "checked": 412,
        "low": 3,
        "new": 1,
        "untracked": 20,
        "variants": [{"sku": "TEA-1", "label": "Earl Grey 100 g", "stock": 2}],
    },
    finish=finish,
    check_setup=base.vendor_errors,
)
