"""Tag products by rule: puts on or takes off a tag by price, vendor, age or discount (templates 5.18)."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from steward.connectors.base.records import Product, Variant
from steward.model.change import Action
from steward.model.json import JsonObject
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult, StoreAccess
from steward.steps.product_tags import has_tag, plan_tags, store_tags, with_tag, without_tag
from steward.templates.base import (
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
from steward.templates.parts.markdowns import is_discounted
from steward.templates.parts.numbers import amount_of
from steward.templates.parts.results import COUNT, result_schema
from steward.templates.parts.stock import Wanted, read_products
from steward.templates.parts.stored_products import kept_products, products_of

READ, MATCH, CHANGE = "read-products", "match-products", "change-tags"

# The fields that belong to a rule, and only to it.
_OF_RULE: dict[str, tuple[str, ...]] = {
    "new": ("days",),
    "vendor": ("vendors",),
    "type": ("types",),
    "price_range": ("min_price", "max_price"),
}


def _condition(when: str) -> JsonObject:
    """A rule needs its own field, and no other rule takes it."""
    needs: list[JsonObject] = [{"required": [name]} for name in _OF_RULE[when]]
    one: JsonObject = needs[0] if len(needs) == 1 else {"anyOf": needs}
    return {"if": {"properties": {"when": {"const": when}}}, "then": one, "else": {"not": one}}


_INPUTS = inputs_schema(
    ["tag", "when"],
    {
        "tag": shared("tag", "The tag"),
        "when": {
            "enum": ["on_sale", "new", "vendor", "type", "price_range", "missing_cost"],
            "description": "The rule",
        },
        "days": shared("days", "new: created within so many days"),
        "vendors": shared("names", "vendor: one of these", minItems=1),
        "types": shared("names", "type: one of these", minItems=1),
        "min_price": shared("money", "price_range: at least"),
        "max_price": shared("money", "price_range: at most"),
        "remove_when_not": {
            "type": "boolean",
            "default": True,
            "description": "Take the tag off products that do not match",
        },
        "limit": {"$ref": "#/$defs/limit"},
    },
    conditions={"allOf": [_condition(when) for when in _OF_RULE]},
)

_COUNTS = ("checked", "matched", "tagged", "untagged")
_RESULT = result_schema(dict.fromkeys(_COUNTS, COUNT))


async def read(at: StepContext) -> StepResult:
    """The products, of an event's run only its own, and the tags the store knows."""
    found = await read_products(at, published_only=False)
    products = [each for each in found if each.sellable]
    left_out = len(found) - len(products)
    return StepResult(
        {"products": kept_products(products), "tags": await store_tags(at.home)},
        counts=Counts(read=len(products)),
        title=f"Read {counted(len(products), 'product')}",
        message=f"{counted(left_out, 'product')} of kinds this template leaves out." if left_out else None,
    )


async def match(at: StepContext) -> StepResult:
    """Which products match, and of those the tags that differ."""
    output: Any = at.outputs[READ]
    products = products_of(output["products"])
    tag, takes_off = str(at.inputs["tag"]), at.inputs["remove_when_not"] is True
    matches = _rule(at)
    change: list[Product] = []
    adds: list[bool] = []
    unfit: list[str] = []
    matched = 0
    for product in products:
        is_match = matches(product)
        matched += is_match
        if has_tag(at.home, product, tag) is is_match or not (is_match or takes_off):
            continue
        if plan_tags(
            at.home, product, _tags(at.home, product, tag, adds=is_match, read=output), known={}
        ).problems:
            unfit.append(product.label)
            continue
        change.append(product)
        adds.append(is_match)
    return StepResult(
        {"checked": len(products), "matched": matched, "change": kept_products(change), "adds": adds},
        counts=Counts(matched=len(change)),
        title=f"Found {counted(matched, 'product')} that {verb(matched, 'matches', 'match')}",
        message=f"Left alone, since they cannot be tagged: {', '.join(unfit[:10])}." if unfit else None,
    )


async def change_tags(at: StepContext) -> StepResult:
    """Proposes the tags. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[MATCH]
    read_: Any = at.outputs[READ]
    at.check_limit(len(found["adds"]))
    tag = str(at.inputs["tag"])
    proposals = [
        proposal
        for product, adds in zip(products_of(found["change"]), found["adds"], strict=True)
        for proposal in plan_tags(
            at.home,
            product,
            _tags(at.home, product, tag, adds=adds, read=read_),
            known=read_["tags"],
            message=_words(at.inputs) if adds else f"No longer so: {_words(at.inputs)}",
        ).proposals
    ]
    return StepResult(
        {}, title=f"Change the tags of {counted(len(proposals), 'product')}", proposals=tuple(proposals)
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(MATCH)
    adds: Any = found.get("adds", [])
    done = ended.applied_rows(CHANGE, adds)
    checked, matched = whole(found.get("checked")), whole(found.get("matched"))
    text = sentences(
        f"{matched} of {counted(checked, 'product')} {verb(matched, 'matches', 'match')}.",
        ended.changes_sentence(CHANGE, "product", "tagged anew", none="No tag was changed."),
    )
    counts = {"checked": checked, "matched": matched, "tagged": sum(done), "untagged": len(done) - sum(done)}
    return run_summary(text, counts)


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """What the platform does not tell, and a range the wrong way round (templates 5.18)."""
    errors: dict[str, list[str]] = {}
    low, high = (amount_of(_text(inputs.get(name))) for name in ("min_price", "max_price"))
    if low is not None and high is not None and low > high:
        errors["inputs.max_price"] = ["This is under the lowest price."]
    lacks = {"vendor": "vendors", "missing_cost": "cost prices"}.get(str(inputs["when"]))
    if lacks is not None and world.store is not None and world.store.kind == "woocommerce":
        errors["inputs.when"] = [f"WooCommerce tells no {lacks}. Choose another rule."]
    return errors


def _tags(store: StoreAccess, product: Product, tag: str, *, adds: bool, read: Any) -> Sequence[str]:
    return with_tag(store, product, tag, read["tags"]) if adds else without_tag(store, product, tag)


def _rule(at: StepContext) -> Callable[[Product], bool]:
    """Whether a product matches; one without variants has no price, no discount and no cost."""
    inputs = at.inputs
    match inputs["when"]:
        case "on_sale":
            return lambda product: any(map(is_discounted, product.variants))
        case "new":
            days: Any = inputs["days"]
            since = at.now - timedelta(days=days)
            return lambda product: product.created_at is not None and product.created_at >= since
        case "vendor":
            return Wanted({"vendors": inputs["vendors"]}).has
        case "type":
            return Wanted({"types": inputs["types"]}).has
        case "price_range":
            low, high = (amount_of(_text(inputs.get(name))) for name in ("min_price", "max_price"))
            return lambda product: any(_within(each, low, high) for each in product.variants)
        case _:
            return lambda product: any(each.cost is None for each in product.variants)


def _within(variant: Variant, low: Decimal | None, high: Decimal | None) -> bool:
    price = amount_of(variant.price)
    return price is not None and (low is None or price >= low) and (high is None or price <= high)


def _words(inputs: JsonObject) -> str:
    """The rule as people say it, beside each change."""
    given: Any = inputs
    match given["when"]:
        case "on_sale":
            return "A variant is reduced."
        case "new":
            return f"Created within {counted(given['days'], 'day')}."
        case "vendor":
            return f"Vendor: {', '.join(given['vendors'][:10])}."
        case "type":
            return f"Type: {', '.join(given['types'][:10])}."
        case "price_range":
            ends = [f"{word} {given[name]}" for word, name in _ENDS if name in given]
            return f"Price {' '.join(ends)}."
        case _:
            return "A variant has no cost price."


_ENDS = (("from", "min_price"), ("up to", "max_price"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="tag-products-by-rule",
        template_version=1,
        name="Tag products by rule",
        description="Adds or takes off a product tag by price, vendor, age or discount.",
        category=Category.PRODUCTS,
        platforms=("shopify", "woocommerce"),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read the products", StepKind.READ),
            StepFacts(MATCH, "Find those that match", StepKind.DECIDE),
            StepFacts(CHANGE, "Change the tags", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE, TriggerKind.EVENT),
        topics={
            "shopify": ("products/create", "products/update"),
            "woocommerce": ("products/create", "products/update"),
        },
        default_schedule=Schedule(Cadence.DAILY, time_of_day="03:00"),
        changes=(
            ChangeRow(
                step=CHANGE,
                object="product",
                action=Action.UPDATE,
                fields=(TAGS,),
                reversible=True,
                shown_beside=("rule that matched or no longer matches",),
            ),
        ),
        example_result={"checked": 300, "matched": 12, "tagged": 3, "untagged": 2},
    ),
    steps={READ: read, MATCH: match, CHANGE: change_tags},
    finish=finish,
    check_setup=check_world,
)
