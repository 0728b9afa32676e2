"""Start a sale: marks prices down and remembers the old ones (templates 5.13)."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import Keep, SetPrice
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Product, Variant
from steward.model.change import Action, Outcome
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepResult
from steward.steps.product_tags import has_tag, plan_tags, store_tags, with_tag
from steward.steps.skus import RowRefused
from steward.templates.base import (
    COMPARE_AT_PRICE,
    PRICE,
    TAGS,
    Category,
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
    vendor_errors,
    verb,
    whole,
)
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.markdowns import ROUND_TO, is_discounted, marked_down
from steward.templates.parts.numbers import amount_of
from steward.templates.parts.results import COUNT, REFUSED_ROW, RESULT_ENTRIES, list_of, result_schema
from steward.templates.parts.stock import Wanted, read_products
from steward.templates.parts.stored_products import kept_products, products_of

READ, WORK_OUT, CHANGE = "read-variants", "work-out-prices", "change-prices"
# Of each variant marked down its prices before and after, by store and variant; read by `sale-end`.
SALE = "sale"

_INPUTS = inputs_schema(
    ["products", "percent"],
    {
        "products": shared("products", 'Which products; all needs {"all": true}', minProperties=1),
        "percent": shared("percent", "Discount"),
        "round_to": ROUND_TO,
        "set_compare_at": {
            "type": "boolean",
            "default": True,
            "description": "Show the old price as compare-at",
        },
        "sale_tag": shared("tag", "Tag put on the products", default="sale"),
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("checked", "changed", "already_on_sale", "refused")
_RESULT = result_schema({**dict.fromkeys(_COUNTS, COUNT), "refused_rows": list_of(REFUSED_ROW)})

# A change that was approved and not made, in the words of a refused row.
_NOT_MADE = {
    Outcome.FAILED: "The store did not take the new price.",
    Outcome.CONFLICT: "It was changed meanwhile and was left alone.",
    Outcome.UNKNOWN: "Whether its price was changed cannot be told.",
}


async def read_variants(at: StepContext) -> StepResult:
    """The products wanted with their variants, and the tags the store knows (E10)."""
    wanted = Wanted(at.inputs["products"])
    read = [each for each in await read_products(at, published_only=False) if wanted.has(each)]
    products = [each for each in read if each.sellable]
    count = sum(len(each.variants) for each in products)
    left_out = len(read) - len(products)
    return StepResult(
        {"products": kept_products(products), "tags": await store_tags(at.home)},
        counts=Counts(read=count),
        title=f"Read {counted(count, 'variant')}",
        message=f"{counted(left_out, 'product')} of kinds without a price of their own left out."
        if left_out
        else None,
    )


async def work_out_prices(at: StepContext) -> StepResult:
    """The new prices; what is on sale already is left alone, what has no sensible price is refused."""
    output: Any = at.outputs[READ]
    sold = await at.memory.all(SALE)
    changing: list[Product] = []
    prices: list[list[str]] = []
    refused: list[JsonValue] = []
    checked = already = 0
    for product in products_of(output["products"]):
        checked += len(product.variants)
        own = [each for each in product.variants if _is_marked_down(at, sold, each)]
        if has_tag(at.home, product, str(at.inputs["sale_tag"])):
            already += len(product.variants)
            continue
        problems = _tagged(at, product, output["tags"]).problems
        found: list[tuple[Variant, str]] = []
        for variant in product.variants:
            if variant in own or is_discounted(variant):
                already += 1
                continue
            if not amount_of(variant.price):
                continue  # price 0 or none: left alone
            try:
                if problems:
                    raise RowRefused(problems[0].code, problems[0].message)
                found.append((variant, _new_price(at, variant)))
            except RowRefused as refusal:
                refused.append(_row(variant, refusal.code, refusal.message))
        # A product that the run before marked down but could not tag is tagged by this one.
        if found or (own and not problems):
            changing.append(replace(product, variants=tuple(variant for variant, _ in found)))
            prices.append([price for _, price in found])
    count = sum(map(len, prices))
    return StepResult(
        {
            "checked": checked,
            "already_on_sale": already,
            "refused": len(refused),
            "refused_rows": refused[:RESULT_ENTRIES],
            "change": kept_products(changing),
            "prices": prices,
            "named": [[each.sku or None, each.label] for product in changing for each in product.variants],
        },
        counts=Counts(matched=count),
        title=f"Worked out {counted(count, 'sale price')}",
        message=f"{counted(len(refused), 'variant')} refused." if refused else None,
    )


async def change_prices(at: StepContext) -> StepResult:
    """Proposes the prices, then the tag of each product. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[WORK_OUT]
    read: Any = at.outputs[READ]
    products = products_of(found["change"])
    pairs = [
        (variant, price)
        for product, prices in zip(products, found["prices"], strict=True)
        for variant, price in zip(product.variants, prices, strict=True)
    ]
    priced = _priced(at, pairs)
    tagged = [one for product in products for one in _tagged(at, product, read["tags"]).proposals]
    proposals = (*priced.proposals, *tagged)
    at.check_limit(len(proposals))
    return StepResult(
        {},
        title=f"Change {counted(len(priced.proposals), 'price')} and tag {counted(len(tagged), 'product')}",
        proposals=proposals,
        memory=tuple(
            # One that may have been written is remembered too: the sale's end looks before it puts back.
            MemoryWrite(SALE, at.memory_key(variant.id), _kept(at, variant, price), position, _MAYBE)
            for position, (variant, price) in enumerate(pairs)
        ),
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2); what was approved and not made is named."""
    found = ended.output_of(WORK_OUT)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    rows: Any = found.get("refused_rows", [])
    named: Any = found.get("named", [])
    prices, tags = slice(len(named)), slice(len(named), None)
    outcomes = tuple(ended.outcomes.get(CHANGE, ()))[prices]
    left = [
        {"row": None, "key": sku or label, "code": outcome.value, "message": _NOT_MADE[outcome]}
        for (sku, label), outcome in zip(named, outcomes, strict=False)
        if outcome in _NOT_MADE
    ]
    counts["changed"] = ended.applied(CHANGE, prices)
    counts["refused"] += len(left)
    already, refused = counts["already_on_sale"], counts["refused"]
    text = sentences(
        ended.changes_sentence(CHANGE, "price", "changed", none="No price was changed.", changes=prices),
        ended.changes_sentence(CHANGE, "product", "tagged", changes=tags),
        f"{already} {verb(already, 'was', 'were')} on sale already." if already else None,
        f"{counted(refused, 'variant')} {verb(refused, 'was', 'were')} left as {verb(refused, 'it', 'they')}"
        f" {verb(refused, 'was', 'were')}."
        if refused
        else None,
    )
    return run_summary(text, {**counts, "refused_rows": [*rows, *left]})


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """What the store's platform does not have."""
    return vendor_errors(inputs, world)


_MAYBE = (Outcome.APPLIED, Outcome.UNKNOWN)


def _new_price(at: StepContext, variant: Variant) -> str:
    """Raises RowRefused."""
    percent = Decimal(str(at.inputs["percent"]))
    price = marked_down(variant, percent, ending=str(at.inputs["round_to"]))
    problems = _priced(at, [(variant, price)]).problems
    if problems:
        raise RowRefused(problems[0].code, problems[0].message)
    return price


def _priced(at: StepContext, pairs: Sequence[tuple[Variant, str]]) -> PlannedChanges:
    store, percent = at.home, Decimal(str(at.inputs["percent"]))
    asks = [
        SetPrice(
            variant,
            price,
            variant.price if at.inputs["set_compare_at"] else Keep.KEEP,
            message=f"{percent.normalize():f} % off.",
        )
        for variant, price in pairs
    ]
    return store.changes["variant.set_price"].plan(asks, integration_id=store.connection.integration_id)


def _tagged(at: StepContext, product: Product, known: dict[str, str]) -> PlannedChanges:
    return plan_tags(
        at.home, product, with_tag(at.home, product, str(at.inputs["sale_tag"]), known), known=known
    )


def _is_marked_down(at: StepContext, sold: Any, variant: Variant) -> bool:
    """Whether it still has the price this automation gave it."""
    before = sold.get(at.memory_key(variant.id))
    return before is not None and amount_of(before["new"]) == amount_of(variant.price)


def _kept(at: StepContext, variant: Variant, price: str) -> JsonObject:
    return {
        "product": variant.product_id,
        "old": variant.price,
        "compare_at": variant.compare_at,
        "new": price,
        "run": at.run_id,
        "sku": variant.sku[:200] or None,
        "label": variant.label[:300],
    }


def _row(variant: Variant, code: str, message: str) -> JsonObject:
    return {"row": None, "key": variant.sku or variant.label, "code": code, "message": message}


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="sale-start",
        template_version=1,
        name="Start a sale",
        description="Marks prices down and remembers the old ones.",
        category=Category.PRICES,
        platforms=("shopify", "woocommerce"),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read the variants", StepKind.READ),
            StepFacts(WORK_OUT, "Work out the sale prices", StepKind.DECIDE),
            StepFacts(CHANGE, "Change prices and tags", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.ONCE, time_of_day="00:05"),
        changes=(
            ChangeRow(
                step=CHANGE,
                object="variant",
                action=Action.UPDATE,
                fields=(PRICE, COMPARE_AT_PRICE),
                reversible=True,
                shown_beside=("percent",),
            ),
            ChangeRow(
                step=CHANGE,
                object="product",
                action=Action.UPDATE,
                fields=(TAGS,),
                reversible=True,
                shown_beside=(),
            ),
        ),
        example_result={
            "checked": 60,
            "changed": 55,
            "already_on_sale": 4,
            "refused": 1,
            "refused_rows": [
                {
                    "row": None,
                    "key": "GIFT-1",
                    "code": "no_sensible_price",
                    "message": "0.00 cannot be marked down",
                }
            ],
        },
    ),
    steps={READ: read_variants, WORK_OUT: work_out_prices, CHANGE: change_prices},
    finish=finish,
    check_setup=check_world,
)
