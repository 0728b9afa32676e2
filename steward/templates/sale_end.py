"""End a sale: restores the prices that a sale changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from steward.connectors.base.commands import Keep, SetPrice
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.queries import PRODUCTS, ProductsQuery
from steward.connectors.base.records import Product, Variant
from steward.model.change import Action, Outcome
from steward.model.ids import AutomationId
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, MemoryWrite, StepContext, StepOutput, StepResult
from steward.steps.product_tags import has_tag, plan_tags, without_tag
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.markdowns import SALE, SALE_START, SalePrice
from steward.templates.parts.numbers import amount_of
from steward.templates.parts.stored_products import ProductTable

READ_SALE, READ, COMPARE, RESTORE = "read-sale", "read-variants", "compare-prices", "restore-prices"
# Memory space: the sale's variants that this automation restored.
_RESTORED = "restored"


class _RememberedSale(StepOutput, frozen=True):
    """The sale's memory of this store, by variant."""

    prices: dict[str, SalePrice]


class _PresentProducts(StepOutput, frozen=True):
    """The products of the remembered variants."""

    products: ProductTable


class _LeftRow(JsonRecord, frozen=True):
    """A variant left unchanged, as the result lists it."""

    sku: str | None
    label: str
    why: str


class _ComparedSale(StepOutput, frozen=True):
    """The products to restore with only the variants to change, and the products to untag."""

    remembered: int = 0
    changed_since: int = 0
    gone: int = 0
    left_rows: tuple[_LeftRow, ...] = ()
    restore: ProductTable = ProductTable()
    untag: ProductTable = ProductTable()
    prices: int = 0


async def _read_sale(context: StepContext) -> StepResult:
    """Reads the sale's memory of this store, by variant."""
    prefix = context.memory_key("")
    remembered = await context.memory.of(_sale_automation(context.inputs), SALE)
    prices = {
        key.removeprefix(prefix): SalePrice.from_json(value)
        for key, value in remembered.items()
        if key.startswith(prefix)
    }
    return _RememberedSale(prices).as_result(
        f"Read {counted(len(prices), 'remembered price')}",
        read=len(prices),
        message=None if prices else "The sale remembers no price.",
    )


async def read_variants(context: StepContext) -> StepResult:
    """Reads the current products of the remembered variants."""
    sale = context.output(READ_SALE, _RememberedSale).prices
    ids = sorted({price.product for price in sale.values()}, key=lambda product: (len(product), product))
    products: dict[str, Product] = {}
    if ids:
        async for page in context.home.reader.read(PRODUCTS, ProductsQuery(ids=tuple(ids))):
            products |= {product.id: product for product in page.items}
    count = sum(len(product.variants) for product in products.values())
    output = _PresentProducts(ProductTable(products.values()))
    return output.as_result(f"Read {counted(count, 'variant')}", read=count)


async def compare_prices(context: StepContext) -> StepResult:
    """Finds the prices that the sale set and that still hold; lists the others, which keep their tag."""
    sale = context.output(READ_SALE, _RememberedSale).prices
    products = {product.id: product for product in context.output(READ, _PresentProducts).products}
    variants = {variant.id: variant for product in products.values() for variant in product.variants}
    comparison = _compared(context, sale, variants, await context.memory.all(_RESTORED))
    tag = str(context.inputs["sale_tag"])
    untag = [products[product_id] for product_id in sorted(comparison.untag - comparison.keep_tag)]
    count = sum(map(len, comparison.restore.values()))
    left_rows = comparison.left_rows
    output = _ComparedSale(
        remembered=len(sale),
        changed_since=len(left_rows) - comparison.gone,
        gone=comparison.gone,
        left_rows=tuple(left_rows[: results.RESULT_ENTRIES]),
        restore=ProductTable(
            replace(products[product_id], variants=tuple(rows))
            for product_id, rows in comparison.restore.items()
        ),
        untag=ProductTable(product for product in untag if has_tag(context.home, product, tag)),
        prices=count,
    )
    return output.as_result(
        f"Found {counted(count, 'price')} to put back",
        matched=count,
        message=f"{counted(len(left_rows), 'variant')} left alone." if left_rows else None,
    )


async def _restore_prices(context: StepContext) -> StepResult:
    """Proposes the old prices, then the removal of the tags. Raises TooManyChanges."""
    compared = context.output(COMPARE, _ComparedSale)
    sale = context.output(READ_SALE, _RememberedSale).prices
    variants = [variant for product in compared.restore for variant in product.variants]
    tag = str(context.inputs["sale_tag"])
    priced = _priced(context, variants, sale).proposals
    untagged = [
        proposal
        for product in compared.untag
        for proposal in plan_tags(
            context.home, product, without_tag(context.home, product, tag), tag_ids={}
        ).proposals
    ]
    context.check_limit(len(priced) + len(untagged))
    written = (Outcome.APPLIED, Outcome.UNKNOWN, Outcome.UNCHANGED)
    return StepResult(
        {},
        title=f"Put back {counted(len(priced), 'price')} and untag {counted(len(untagged), 'product')}",
        proposals=(*priced, *untagged),
        memory=tuple(
            MemoryWrite(_RESTORED, context.memory_key(variant.id), sale[variant.id].run, position, written)
            for position, variant in enumerate(variants)
        ),
    )


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    compared = ended.output(COMPARE, _ComparedSale)
    prices, tags = slice(compared.prices), slice(compared.prices, None)
    since, gone = compared.changed_since, compared.gone
    if_none = "Nothing had to be put back." if ended.has_ended(RESTORE) else "No price was put back."
    if_none = if_none if compared.remembered else "The sale remembers no price."
    text = sentences(
        ended.changes_sentence(RESTORE, "price", "put back", if_none=if_none, changes=prices),
        ended.changes_sentence(RESTORE, "product", "untagged", changes=tags),
        if_any(since, f"{counted(since, 'variant')} {verb(since, 'was', 'were')} changed since and left."),
        if_any(gone, f"{counted(gone, 'variant')} no longer {verb(gone, 'exists', 'exist')}."),
    )
    result = {
        "remembered": compared.remembered,
        "restored": ended.applied(RESTORE, prices),
        "changed_since": since,
        "gone": gone,
        "left": compared.left_rows,
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Accepts only an automation that starts a sale on the same store, archived or not."""
    automation = setup.automations.get(_sale_automation(values))
    store = None if setup.store is None else setup.store.integration_id
    if automation is not None and automation.template_id == SALE_START and automation.integration_id == store:
        return {}
    return {"inputs.sale_automation_id": ["Name an automation of this store that starts a sale."]}


@dataclass(slots=True)
class _Comparison:
    """The decisions on the sale's variants; `untag` and `keep_tag` are ids of products."""

    restore: dict[str, list[Variant]] = field(default_factory=dict)
    left_rows: list[_LeftRow] = field(default_factory=list)
    untag: set[str] = field(default_factory=set)
    keep_tag: set[str] = field(default_factory=set)
    gone: int = 0

    def add(self, variant: Variant, price: SalePrice, problem: str | None) -> None:
        """Adds a variant that still has the sale's price; `problem` says why it cannot be restored."""
        if problem is None:
            self.restore.setdefault(price.product, []).append(variant)
            self.untag.add(price.product)
        else:
            self.keep_tag.add(price.product)
            self.leave(price, problem)

    def leave(self, price: SalePrice, why: str) -> None:
        """Adds a variant that is left unchanged."""
        self.left_rows.append(_LeftRow(price.sku, price.label, why))


def _compared(
    context: StepContext,
    sale: Mapping[str, SalePrice],
    variants: Mapping[str, Variant],
    restored: JsonObject,
) -> _Comparison:
    comparison = _Comparison()
    for variant_id, price in sale.items():
        variant = variants.get(variant_id)
        is_restored = restored.get(context.memory_key(variant_id)) == price.run
        if variant is None:
            comparison.gone += 1
            comparison.leave(price, "it no longer exists")
        elif amount_of(variant.price) == amount_of(price.new):
            problems = _priced(context, [variant], sale).problems
            comparison.add(variant, price, problems[0].message if problems else None)
        elif is_restored and amount_of(variant.price) == amount_of(price.old):
            comparison.untag.add(price.product)  # restored by an earlier run, whose untagging may have failed
        else:
            comparison.keep_tag.add(price.product)
            comparison.leave(price, "price changed since the sale began")
    return comparison


def _sale_automation(values: JsonObject) -> AutomationId:
    return AutomationId(str(values["sale_automation_id"]))


def _priced(
    context: StepContext, variants: Sequence[Variant], sale: Mapping[str, SalePrice]
) -> PlannedChanges:
    """Plans the prices before the sale, with the former compare-at price, even if there was none."""
    commands = [
        SetPrice(variant, sale[variant.id].old, _compare_at(variant, sale[variant.id]))
        for variant in variants
    ]
    return context.home.plan("variant.set_price", commands)


def _compare_at(variant: Variant, price: SalePrice) -> str | Keep | None:
    """Returns the former compare-at price; none if it was not above the price and cannot be set."""
    former = amount_of(price.compare_at)
    if former is not None and former == amount_of(variant.compare_at):
        return Keep.KEEP
    return price.compare_at if former is not None and former > (amount_of(price.old) or 0) else None


TEMPLATE = base.define(
    "sale-end",
    "End a sale",
    "Puts back the prices a sale changed.",
    category=base.Category.PRICES,
    inputs=inputs.inputs_schema(
        ["sale_automation_id"],
        {
            "sale_automation_id": {
                "type": "string",
                "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$",
                "description": "The `sale-start` automation whose prices are put back",
            },
            "sale_tag": inputs.shared("tag", "Tag taken off", default="sale"),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("remembered", "restored", "changed_since", "gone"),
        left=results.list_of(
            {"sku": results.or_null(results.TEXT), "label": results.TEXT, "why": results.TEXT}
        ),
    ),
    steps=(
        base.read_step(READ_SALE, "Read the sale's remembered prices", _read_sale),
        base.read_step(READ, "Read the variants", read_variants),
        base.decide_step(COMPARE, "Leave out those changed since", compare_prices),
        base.change_step(RESTORE, "Put the prices back", _restore_prices),
    ),
    schedule=Schedule(Cadence.ONCE, time_of_day="23:55"),
    changes=(
        base.ChangeRow(RESTORE, "variant", Action.UPDATE, (base.PRICE, base.COMPARE_AT_PRICE)),
        base.ChangeRow(RESTORE, "product", Action.UPDATE, (base.TAGS,)),
    ),
    example={
        "remembered": 55,
        "restored": 53,
        "changed_since": 1,
        "gone": 1,
        "left": [{"sku": "TEA-1", "label": "Earl Grey 100 g", "why": "price changed since the sale began"}],
    },
    finish=finish,
    check_setup=check_setup,
    automations_of=lambda values: (_sale_automation(values),),
)
