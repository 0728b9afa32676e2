"""Start a sale: marks prices down and stores the old ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from steward.connectors.base.commands import Keep, SetPrice
from steward.connectors.base.connector import ItemProblem, PlannedChanges
from steward.connectors.base.records import Product, Variant
from steward.model.change import Action, Outcome
from steward.model.json import JsonObject
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import MemoryWrite, StepContext, StepOutput, StepResult
from steward.steps.product_tags import has_tag, plan_tags, store_tags, with_tag
from steward.steps.skus import RowRefused
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.markdowns import (
    ROUND_TO,
    SALE,
    MarkdownInputs,
    SalePrice,
    is_discounted,
    marked_down,
)
from steward.templates.parts.numbers import amount_of
from steward.templates.parts.sku_rows import RefusedRow
from steward.templates.parts.stock import ProductFilter, read_products, skipped_message
from steward.templates.parts.stored_products import ProductTable

READ, WORK_OUT, CHANGE = "read-variants", "work-out-prices", "change-prices"
# A change that was approved but not applied, worded as a refused row.
_NOT_APPLIED = {
    Outcome.FAILED: "The store did not take the new price.",
    Outcome.CONFLICT: "It was changed in the meantime and was left unchanged.",
    Outcome.UNKNOWN: "It is unknown whether its price was changed.",
}


class _SaleStartInputs(MarkdownInputs, frozen=True):
    """The automation's inputs."""

    set_compare_at: bool
    sale_tag: str


class _SaleProducts(StepOutput, frozen=True):
    """The chosen products, and the store's tags."""

    products: ProductTable
    tags: dict[str, str]


class _SalePrices(StepOutput, frozen=True):
    """The products to change with only the variants to mark down, and the new price and key of each."""

    checked: int = 0
    already_on_sale: int = 0
    refused: int = 0
    refused_rows: tuple[RefusedRow, ...] = ()
    change: ProductTable = ProductTable()
    prices: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


async def read_variants(context: StepContext) -> StepResult:
    """Reads the chosen products with their variants, and the store's tags."""
    product_filter = ProductFilter(context.inputs["products"])
    chosen = [
        product
        for product in await read_products(context, published_only=False)
        if product_filter.has(product)
    ]
    products = [product for product in chosen if product.sellable]
    count = sum(len(product.variants) for product in products)
    return _SaleProducts(ProductTable(products), await store_tags(context.home)).as_result(
        f"Read {counted(count, 'variant')}",
        read=count,
        message=skipped_message(len(chosen) - len(products), "of kinds without a price of their own"),
    )


async def _work_out_prices(context: StepContext) -> StepResult:
    """Computes the new prices; skips what is on sale, and refuses what has no sensible price."""
    read = context.output(READ, _SaleProducts)
    products = list(read.products)
    sale = _PricedSale()
    sold = await context.memory.all(SALE)
    for product in products:
        due = _unsold(context, product, sold)
        sale.already_on_sale += len(product.variants) - len(due)
        if has_tag(context.home, product, str(context.inputs["sale_tag"])):
            continue
        problems = _tagged(context, product, read.tags).problems
        priced = _price_variants(context, due, problems, sale)
        # A product that the last run marked down but could not tag is tagged by this run.
        if priced or (not problems and _is_half_done(context, product, sold)):
            sale.change.append(replace(product, variants=tuple(priced)))
    refused = sale.refused
    output = _SalePrices(
        checked=sum(len(product.variants) for product in products),
        already_on_sale=sale.already_on_sale,
        refused=len(refused),
        refused_rows=tuple(refused[: results.RESULT_ENTRIES]),
        change=ProductTable(sale.change),
        prices=tuple(sale.prices),
        keys=tuple(_key(variant) for product in sale.change for variant in product.variants),
    )
    return output.as_result(
        f"Worked out {counted(len(sale.prices), 'sale price')}",
        matched=len(sale.prices),
        message=if_any(len(refused), f"{counted(len(refused), 'variant')} refused."),
    )


async def change_prices(context: StepContext) -> StepResult:
    """Proposes the prices, then the tag of each product. Raises TooManyChanges."""
    worked_out, read = context.output(WORK_OUT, _SalePrices), context.output(READ, _SaleProducts)
    products = list(worked_out.change)
    variants = [variant for product in products for variant in product.variants]
    pairs = list(zip(variants, worked_out.prices, strict=True))
    priced = _priced(context, pairs).proposals
    tagged = [change for product in products for change in _tagged(context, product, read.tags).proposals]
    context.check_limit(len(priced) + len(tagged))
    return StepResult(
        {},
        title=f"Change {counted(len(priced), 'price')} and tag {counted(len(tagged), 'product')}",
        proposals=(*priced, *tagged),
        memory=tuple(
            # A price that may have been written is stored too: the end of the sale checks it first.
            MemoryWrite(
                SALE,
                context.memory_key(variant.id),
                SalePrice.of(variant, price, context.run_id).to_json(),
                position,
                (Outcome.APPLIED, Outcome.UNKNOWN),
            )
            for position, (variant, price) in enumerate(pairs)
        ),
    )


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run, and names changes that were approved but not applied."""
    output = ended.output(WORK_OUT, _SalePrices)
    prices, tags = slice(len(output.keys)), slice(len(output.keys), None)
    outcomes = tuple(ended.outcomes.get(CHANGE, ()))[prices]
    failed = [
        RefusedRow(None, key, outcome.value, _NOT_APPLIED[outcome])
        for key, outcome in zip(output.keys, outcomes, strict=False)
        if outcome in _NOT_APPLIED
    ]
    already, refused = output.already_on_sale, output.refused + len(failed)
    was, it = verb(refused, "was", "were"), verb(refused, "it", "they")
    text = sentences(
        ended.changes_sentence(CHANGE, "price", "changed", if_none="No price was changed.", changes=prices),
        ended.changes_sentence(CHANGE, "product", "tagged", changes=tags),
        if_any(already, f"{already} {verb(already, 'was', 'were')} on sale already."),
        if_any(refused, f"{counted(refused, 'variant')} {was} left as {it} {was}."),
    )
    result = {
        "checked": output.checked,
        "changed": ended.applied(CHANGE, prices),
        "already_on_sale": already,
        "refused": refused,
        "refused_rows": [*output.refused_rows, *failed],
    }
    return base.run_summary(text, result)


@dataclass(slots=True)
class _PricedSale:
    """The products to change, the new prices of their variants in the same order, and refused variants."""

    change: list[Product] = field(default_factory=list)
    prices: list[str] = field(default_factory=list)
    refused: list[RefusedRow] = field(default_factory=list)
    already_on_sale: int = 0


def _price_variants(
    context: StepContext, due: Sequence[Variant], problems: Sequence[ItemProblem], sale: _PricedSale
) -> list[Variant]:
    """Returns the variants that get a sale price; adds the prices and the refused variants to `sale`."""
    priced: list[Variant] = []
    for variant in due:
        if not amount_of(variant.price):
            continue  # price 0 or none: left unchanged
        try:
            if problems:
                raise RowRefused(problems[0].code, problems[0].message)
            sale.prices.append(_new_price(context, variant))
            priced.append(variant)
        except RowRefused as refusal:
            sale.refused.append(RefusedRow(None, _key(variant), refusal.code, refusal.message))
    return priced


def _is_half_done(context: StepContext, product: Product, sold: JsonObject) -> bool:
    return any(_is_marked_down(context, sold, variant) for variant in product.variants)


def _unsold(context: StepContext, product: Product, sold: JsonObject) -> list[Variant]:
    """Returns the variants that are not on sale yet; none for a product with the sale's tag."""
    if has_tag(context.home, product, str(context.inputs["sale_tag"])):
        return []
    return [
        variant
        for variant in product.variants
        if not is_discounted(variant) and not _is_marked_down(context, sold, variant)
    ]


def _new_price(context: StepContext, variant: Variant) -> str:
    """Returns the variant's sale price. Raises RowRefused."""
    price = marked_down(variant, _SaleStartInputs.from_json(context.inputs))
    problems = _priced(context, [(variant, price)]).problems
    if problems:
        raise RowRefused(problems[0].code, problems[0].message)
    return price


def _priced(context: StepContext, pairs: Sequence[tuple[Variant, str]]) -> PlannedChanges:
    options = _SaleStartInputs.from_json(context.inputs)
    message = f"{options.percent.normalize():f} % off."
    commands = [
        SetPrice(variant, price, variant.price if options.set_compare_at else Keep.KEEP, message=message)
        for variant, price in pairs
    ]
    return context.home.plan("variant.set_price", commands)


def _tagged(context: StepContext, product: Product, tag_ids: Mapping[str, str]) -> PlannedChanges:
    tags = with_tag(context.home, product, str(context.inputs["sale_tag"]), tag_ids)
    return plan_tags(context.home, product, tags, tag_ids=tag_ids)


def _is_marked_down(context: StepContext, sold: JsonObject, variant: Variant) -> bool:
    """Returns whether the variant still has the price that this automation set."""
    remembered = sold.get(context.memory_key(variant.id))
    if remembered is None:
        return False
    return amount_of(SalePrice.from_json(remembered).new) == amount_of(variant.price)


def _key(variant: Variant) -> str:
    return variant.sku or variant.label


TEMPLATE = base.define(
    "sale-start",
    "Start a sale",
    "Marks prices down and remembers the old ones.",
    category=base.Category.PRICES,
    inputs=inputs.inputs_schema(
        ["products", "percent"],
        {
            "products": inputs.shared("products", 'Which products; all needs {"all": true}', minProperties=1),
            "percent": inputs.shared("percent", "Discount"),
            "round_to": ROUND_TO,
            "set_compare_at": inputs.flag("Show the old price as compare-at", default=True),
            "sale_tag": inputs.shared("tag", "Tag put on the products", default="sale"),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("checked", "changed", "already_on_sale", "refused"), refused_rows=results.REFUSED_ROWS
    ),
    steps=(
        base.read_step(READ, "Read the variants", read_variants),
        base.decide_step(WORK_OUT, "Work out the sale prices", _work_out_prices),
        base.change_step(CHANGE, "Change prices and tags", change_prices),
    ),
    schedule=Schedule(Cadence.ONCE, time_of_day="00:05"),
    changes=(
        base.ChangeRow(
            CHANGE,
            "variant",
            Action.UPDATE,
            (base.PRICE, base.COMPARE_AT_PRICE),
            shown_beside=("percent",),
        ),
        base.ChangeRow(CHANGE, "product", Action.UPDATE, (base.TAGS,)),
    ),
    example={
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
    finish=finish,
    check_setup=base.vendor_errors,
)
