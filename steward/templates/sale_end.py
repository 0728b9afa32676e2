"""End a sale: puts back the prices a sale changed (templates 5.14)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from steward.connectors.base.commands import Keep, SetPrice
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.queries import PRODUCTS, ProductsQuery
from steward.connectors.base.records import Product, Variant
from steward.model.change import Action, Outcome
from steward.model.ids import AutomationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepResult
from steward.steps.product_tags import has_tag, plan_tags, without_tag
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
    verb,
    whole,
)
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.numbers import amount_of
from steward.templates.parts.results import COUNT, RESULT_ENTRIES, TEXT, list_of, or_null, result_schema
from steward.templates.parts.stored_products import kept_products, products_of

SALE, READ, COMPARE, RESTORE = "read-sale", "read-variants", "compare-prices", "restore-prices"
# What `sale-start` keeps of each variant it marked down, and which of those were put back by this one.
SALE_START, SOLD, RESTORED = "sale-start", "sale", "restored"

_INPUTS = inputs_schema(
    ["sale_automation_id"],
    {
        "sale_automation_id": {
            "type": "string",
            "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$",
            "description": "The `sale-start` automation whose prices are put back",
        },
        "sale_tag": shared("tag", "Tag taken off", default="sale"),
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("remembered", "restored", "changed_since", "gone")
_RESULT = result_schema(
    {
        **dict.fromkeys(_COUNTS, COUNT),
        "left": list_of({"sku": or_null(TEXT), "label": TEXT, "why": TEXT}),
    }
)


async def read_sale(at: StepContext) -> StepResult:
    """What the sale remembers of this store, by variant."""
    prefix = at.memory_key("")
    sold: Mapping[str, Any] = await at.memory.of(_automation(at.inputs), SOLD)
    found = {key.removeprefix(prefix): value for key, value in sold.items() if key.startswith(prefix)}
    return StepResult(
        {"sold": found},
        counts=Counts(read=len(found)),
        title=f"Read {counted(len(found), 'remembered price')}",
        message=None if found else "The sale remembers no price.",
    )


async def read_variants(at: StepContext) -> StepResult:
    """The products of the remembered variants, as they are now."""
    sold = _sold(at)
    ids = sorted({str(each["product"]) for each in sold.values()}, key=lambda each: (len(each), each))
    products: dict[str, Product] = {}
    if ids:
        async for page in at.home.reader.read(PRODUCTS, ProductsQuery(ids=tuple(ids))):
            products |= {each.id: each for each in page.items}
    count = sum(len(each.variants) for each in products.values())
    return StepResult(
        {"products": kept_products(products.values())},
        counts=Counts(read=count),
        title=f"Read {counted(count, 'variant')}",
    )


async def compare_prices(at: StepContext) -> StepResult:
    """Which prices still are the sale's; those changed by hand since are listed, and their tag is left."""
    read: Any = at.outputs[READ]
    products = {product.id: product for product in products_of(read["products"])}
    variants = {each.id: each for product in products.values() for each in product.variants}
    restored = await at.memory.all(RESTORED)
    back: dict[str, list[Variant]] = {}
    left: list[JsonValue] = []
    kept: set[str] = set()
    untag: set[str] = set()
    gone = 0
    for number, sold in _sold(at).items():
        variant, product = variants.get(number), str(sold["product"])
        if variant is None:
            gone += 1
            left.append(_left(sold, "it no longer exists"))
        elif amount_of(variant.price) == amount_of(sold["new"]):
            problems = _priced(at, [variant]).problems
            if problems:
                kept.add(product)
                left.append(_left(sold, problems[0].message))
            else:
                back.setdefault(product, []).append(variant)
                untag.add(product)
        elif restored.get(at.memory_key(number)) == sold["run"] and _is_old(variant, sold):
            untag.add(product)  # put back by a run before, whose tag may have failed
        else:
            kept.add(product)
            left.append(_left(sold, "price changed since the sale began"))
    tag = str(at.inputs["sale_tag"])
    tagged = [products[each] for each in sorted(untag - kept) if has_tag(at.home, products[each], tag)]
    count = sum(map(len, back.values()))
    return StepResult(
        {
            "remembered": len(_sold(at)),
            "changed_since": len(left) - gone,
            "gone": gone,
            "left": left[:RESULT_ENTRIES],
            "back": kept_products(replace(products[each], variants=tuple(back[each])) for each in back),
            "untag": kept_products(tagged),
            "prices": count,
        },
        counts=Counts(matched=count),
        title=f"Found {counted(count, 'price')} to put back",
        message=f"{counted(len(left), 'variant')} left alone." if left else None,
    )


async def restore_prices(at: StepContext) -> StepResult:
    """Proposes the old prices, then the tags taken off. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[COMPARE]
    variants = [each for product in products_of(found["back"]) for each in product.variants]
    tag = str(at.inputs["sale_tag"])
    priced = _priced(at, variants).proposals
    untagged = [
        proposal
        for product in products_of(found["untag"])
        for proposal in plan_tags(at.home, product, without_tag(at.home, product, tag), known={}).proposals
    ]
    proposals = (*priced, *untagged)
    at.check_limit(len(proposals))
    sold = _sold(at)
    return StepResult(
        {},
        title=f"Put back {counted(len(priced), 'price')} and untag {counted(len(untagged), 'product')}",
        proposals=proposals,
        memory=tuple(
            MemoryWrite(RESTORED, at.memory_key(each.id), sold[each.id]["run"], position, _MAYBE)
            for position, each in enumerate(variants)
        ),
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(COMPARE)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    number = whole(found.get("prices"))
    prices, tags = slice(number), slice(number, None)
    counts["restored"] = ended.applied(RESTORE, prices)
    left: Any = found.get("left", [])
    since, gone = counts["changed_since"], counts["gone"]
    none = "Nothing had to be put back." if ended.ran(RESTORE) else "No price was put back."
    none = none if counts["remembered"] else "The sale remembers no price."
    text = sentences(
        ended.changes_sentence(RESTORE, "price", "put back", none=none, changes=prices),
        ended.changes_sentence(RESTORE, "product", "untagged", changes=tags),
        f"{counted(since, 'variant')} {verb(since, 'was', 'were')} changed since and left."
        if since
        else None,
        f"{counted(gone, 'variant')} no longer {verb(gone, 'exists', 'exist')}." if gone else None,
    )
    return run_summary(text, {**counts, "left": left})


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """That the automation named is a sale on the same store; an archived one will do."""
    found = world.automations.get(_automation(inputs))
    store = None if world.store is None else world.store.integration_id
    if found is not None and found.template_id == SALE_START and found.integration_id == store:
        return {}
    return {"inputs.sale_automation_id": ["Name an automation of this store that starts a sale."]}


_MAYBE = (Outcome.APPLIED, Outcome.UNKNOWN, Outcome.UNCHANGED)


def _automation(inputs: JsonObject) -> AutomationId:
    return AutomationId(str(inputs["sale_automation_id"]))


def _sold(at: StepContext) -> dict[str, Any]:
    output: Any = at.outputs[SALE]
    sold: dict[str, Any] = output["sold"]
    return sold


def _priced(at: StepContext, variants: Sequence[Variant]) -> PlannedChanges:
    """The prices before the sale; compare-at as it was, also none."""
    store, sold = at.home, _sold(at)
    asks = [SetPrice(each, sold[each.id]["old"], _compare_at(each, sold[each.id])) for each in variants]
    return store.changes["variant.set_price"].plan(asks, integration_id=store.connection.integration_id)


def _compare_at(variant: Variant, sold: Mapping[str, Any]) -> str | Keep | None:
    """What it was. One that was not above the price showed no reduction, and cannot be set: then none."""
    was: str | None = sold["compare_at"]
    before = amount_of(was)
    if before is not None and before == amount_of(variant.compare_at):
        return Keep.KEEP
    return was if before is not None and before > (amount_of(sold["old"]) or 0) else None


def _is_old(variant: Variant, sold: Mapping[str, Any]) -> bool:
    return amount_of(variant.price) == amount_of(sold["old"])


def _left(sold: Mapping[str, Any], why: str) -> JsonObject:
    return {"sku": sold["sku"], "label": sold["label"], "why": why}


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="sale-end",
        template_version=1,
        name="End a sale",
        description="Puts back the prices a sale changed.",
        category=Category.PRICES,
        platforms=("shopify", "woocommerce"),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(SALE, "Read the sale's remembered prices", StepKind.READ),
            StepFacts(READ, "Read the variants", StepKind.READ),
            StepFacts(COMPARE, "Leave out those changed since", StepKind.DECIDE),
            StepFacts(RESTORE, "Put the prices back", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.ONCE, time_of_day="23:55"),
        changes=(
            ChangeRow(
                step=RESTORE,
                object="variant",
                action=Action.UPDATE,
                fields=(PRICE, COMPARE_AT_PRICE),
                reversible=True,
                shown_beside=(),
            ),
            ChangeRow(
                step=RESTORE,
                object="product",
                action=Action.UPDATE,
                fields=(TAGS,),
                reversible=True,
                shown_beside=(),
            ),
        ),
        example_result={
            "remembered": 55,
            "restored": 53,
            "changed_since": 1,
            "gone": 1,
            "left": [
                {"sku": "TEA-1", "label": "Earl Grey 100 g", "why": "price changed since the sale began"}
            ],
        },
    ),
    steps={SALE: read_sale, READ: read_variants, COMPARE: compare_prices, RESTORE: restore_prices},
    finish=finish,
    check_setup=check_world,
    automations_of=lambda inputs: (_automation(inputs),),
)
