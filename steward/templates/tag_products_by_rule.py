"""Tag products by rule: adds or removes a tag by price, vendor, age or discount."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Product, Variant
from steward.model.change import Action
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.steps.product_tags import has_tag, plan_tags, store_tags, with_tag, without_tag
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.markdowns import is_discounted
from steward.templates.parts.numbers import amount_of
from steward.templates.parts.stock import ProductFilter, read_products
from steward.templates.parts.stored_products import ProductTable

READ, MATCH, CHANGE = "read-products", "match-products", "change-tags"


class _ProductRuleInputs(JsonRecord, frozen=True):
    """The automation's inputs; each rule uses some of the fields from `days` on."""

    tag: str
    when: str
    remove_when_not: bool
    days: int = 0
    vendors: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    min_price: str | None = None
    max_price: str | None = None

    @property
    def price_range(self) -> tuple[Decimal | None, Decimal | None]:
        """The lowest and the highest price."""
        return amount_of(self.min_price), amount_of(self.max_price)


class _RuleProducts(StepOutput, frozen=True):
    """The products, and the store's tags."""

    products: ProductTable
    tags: dict[str, str]


class _MatchedProducts(StepOutput, frozen=True):
    """The products whose tag changes; `adds` says whether it is added or removed."""

    checked: int = 0
    matched: int = 0
    change: ProductTable = ProductTable()
    adds: tuple[bool, ...] = ()


async def read(context: StepContext) -> StepResult:
    """Reads the products (after an event, only the event's) and the store's tags."""
    everything = await read_products(context, published_only=False)
    products = [product for product in everything if product.sellable]
    skipped = len(everything) - len(products)
    return _RuleProducts(ProductTable(products), await store_tags(context.home)).as_result(
        f"Read {counted(len(products), 'product')}",
        read=len(products),
        message=f"{counted(skipped, 'product')} of kinds this template leaves out." if skipped else None,
    )


async def match(context: StepContext) -> StepResult:
    """Decides which products match, and which of them need another tag."""
    output, options = context.output(READ, _RuleProducts), _ProductRuleInputs.from_json(context.inputs)
    matches = _RULES[options.when].matcher(context, options)
    change: list[tuple[Product, bool]] = []
    unfit: list[str] = []
    checked = matched = 0
    for product in output.products:
        is_match = matches(product)
        checked, matched = checked + 1, matched + is_match
        needs_change = has_tag(context.home, product, options.tag) is not is_match
        if not needs_change or not (is_match or options.remove_when_not):
            continue
        if _plan(context, product, output.tags, adds=is_match).problems:
            unfit.append(product.label)
        else:
            change.append((product, is_match))
    matched_products = _MatchedProducts(
        checked=checked,
        matched=matched,
        change=ProductTable(product for product, _ in change),
        adds=tuple(adds for _, adds in change),
    )
    return matched_products.as_result(
        f"Found {counted(matched, 'product')} that {verb(matched, 'matches', 'match')}",
        matched=len(change),
        message=f"Left alone, since they cannot be tagged: {', '.join(unfit[:10])}." if unfit else None,
    )


async def change_tags(context: StepContext) -> StepResult:
    """Proposes the tags. Raises TooManyChanges."""
    matched, tags = context.output(MATCH, _MatchedProducts), context.output(READ, _RuleProducts).tags
    context.check_limit(len(matched.adds))
    proposals = tuple(
        proposal
        for product, adds in zip(matched.change, matched.adds, strict=True)
        for proposal in _plan(context, product, tags, adds=adds).proposals
    )
    title = f"Change the tags of {counted(len(proposals), 'product')}"
    return StepResult({}, title=title, proposals=proposals)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    output = ended.output(MATCH, _MatchedProducts)
    changed = ended.applied_rows(CHANGE, output.adds)
    matched = output.matched
    text = sentences(
        f"{matched} of {counted(output.checked, 'product')} {verb(matched, 'matches', 'match')}.",
        ended.changes_sentence(CHANGE, "product", "retagged", if_none="No tag was changed."),
    )
    result = {
        "checked": output.checked,
        "matched": matched,
        "tagged": sum(changed),
        "untagged": len(changed) - sum(changed),
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Rejects conditions on data that the platform does not report, and an inverted price range."""
    options = _ProductRuleInputs.from_json(values)
    errors: dict[str, list[str]] = {}
    low, high = options.price_range
    if low is not None and high is not None and low > high:
        errors["inputs.max_price"] = ["This is under the lowest price."]
    lacks = {"vendor": "vendors", "missing_cost": "cost prices"}.get(options.when)
    if lacks is not None and setup.store is not None and setup.store.kind == "woocommerce":
        errors["inputs.when"] = [f"WooCommerce tells no {lacks}. Choose another rule."]
    return errors


def _plan(
    context: StepContext, product: Product, tag_ids: Mapping[str, str], *, adds: bool
) -> PlannedChanges:
    options = _ProductRuleInputs.from_json(context.inputs)
    words = _RULES[options.when].words(options)
    if adds:
        tags = with_tag(context.home, product, options.tag, tag_ids)
        return plan_tags(context.home, product, tags, tag_ids=tag_ids, message=words)
    tags = without_tag(context.home, product, options.tag)
    return plan_tags(context.home, product, tags, tag_ids=tag_ids, message=f"No longer so: {words}")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule: which products match, and its words beside a change. Its fields belong to no other rule.

    A product without variants has no price, no discount and no cost.
    """

    matcher: Callable[[StepContext, _ProductRuleInputs], Callable[[Product], bool]]
    words: Callable[[_ProductRuleInputs], str]
    fields: tuple[str, ...] = ()

    def condition(self, when: str) -> JsonObject:
        """Returns the schema's condition: the rule requires its own fields, which no other rule accepts."""
        needs: list[JsonObject] = [{"required": [name]} for name in self.fields]
        need: JsonObject = needs[0] if len(needs) == 1 else {"anyOf": needs}
        return {"if": {"properties": {"when": {"const": when}}}, "then": need, "else": {"not": need}}


def _created_within(context: StepContext, options: _ProductRuleInputs) -> Callable[[Product], bool]:
    since = context.now - timedelta(days=options.days)
    return lambda product: product.created_at is not None and product.created_at >= since


def _in_range(_: StepContext, options: _ProductRuleInputs) -> Callable[[Product], bool]:
    low, high = options.price_range
    return lambda product: any(_is_within(variant, low, high) for variant in product.variants)


def _is_within(variant: Variant, low: Decimal | None, high: Decimal | None) -> bool:
    price = amount_of(variant.price)
    return price is not None and (low is None or price >= low) and (high is None or price <= high)


def _range_words(options: _ProductRuleInputs) -> str:
    ends = (("from", options.min_price), ("up to", options.max_price))
    return f"Price {' '.join(f'{word} {price}' for word, price in ends if price is not None)}."


_RULES: dict[str, _Rule] = {
    "on_sale": _Rule(
        lambda _, __: lambda product: any(map(is_discounted, product.variants)),
        lambda _: "A variant is reduced.",
    ),
    "new": _Rule(
        _created_within, lambda options: f"Created within {counted(options.days, 'day')}.", ("days",)
    ),
    "vendor": _Rule(
        lambda _, options: ProductFilter({"vendors": options.vendors}).has,
        lambda options: f"Vendor: {', '.join(options.vendors[:10])}.",
        ("vendors",),
    ),
    "type": _Rule(
        lambda _, options: ProductFilter({"types": options.types}).has,
        lambda options: f"Type: {', '.join(options.types[:10])}.",
        ("types",),
    ),
    "price_range": _Rule(_in_range, _range_words, ("min_price", "max_price")),
    "missing_cost": _Rule(
        lambda _, __: lambda product: any(variant.cost is None for variant in product.variants),
        lambda _: "A variant has no cost price.",
    ),
}
TEMPLATE = base.define(
    "tag-products-by-rule",
    "Tag products by rule",
    "Adds or takes off a product tag by price, vendor, age or discount.",
    category=base.Category.PRODUCTS,
    inputs=inputs.inputs_schema(
        ["tag", "when"],
        {
            "tag": inputs.shared("tag", "The tag"),
            "when": {"enum": list(_RULES), "description": "The rule"},
            "days": inputs.shared("days", "new: created within so many days"),
            "vendors": inputs.shared("names", "vendor: one of these", minItems=1),
            "types": inputs.shared("names", "type: one of these", minItems=1),
            "min_price": inputs.shared("money", "price_range: at least"),
            "max_price": inputs.shared("money", "price_range: at most"),
            "remove_when_not": inputs.flag("Take the tag off products that do not match", default=True),
            "limit": inputs.LIMIT,
        },
        conditions={"allOf": [rule.condition(when) for when, rule in _RULES.items() if rule.fields]},
    ),
    result=results.counts_schema("checked", "matched", "tagged", "untagged"),
    steps=(
        base.read_step(READ, "Read the products", read),
        base.decide_step(MATCH, "Find those that match", match),
        base.change_step(CHANGE, "Change the tags", change_tags),
    ),
    topics=("products/create", "products/update"),
    schedule=Schedule(Cadence.DAILY, time_of_day="03:00"),
    changes=(
        base.ChangeRow(
            CHANGE,
            "product",
            Action.UPDATE,
            (base.TAGS,),
            shown_beside=("rule that matched or no longer matches",),
        ),
    ),
    example={"checked": 300, "matched": 12, "tagged": 3, "untagged": 2},
    finish=finish,
    check_setup=check_setup,
)
