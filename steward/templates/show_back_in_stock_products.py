"""Show products back in stock: restores products that the hiding template took off sale."""

from collections.abc import Sequence

from steward.connectors.base.records import Product
from steward.model.change import Action, Proposal
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import StepContext, StepOutput, StepResult
from steward.steps.product_tags import has_tag, one_change, plan_tags, without_tag
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results, stock, visibility
from steward.templates.parts.stored_products import ProductTable
from steward.templates.parts.visibility import VisibilityInputs

READ, PICK, SHOW = "read-marked", "pick-in-stock", "show-products"
# The memory space in which the hiding automations store a product's earlier visibility.
HIDING, VISIBILITY = "hide-out-of-stock-products", "visibility"


class _MarkedProducts(StepOutput, frozen=True):
    """The products that carry the marker, and the ids of the channels."""

    products: ProductTable
    channels: tuple[str, ...]


class _ProductsInStock(StepOutput, frozen=True):
    """The marked products to show, with their stock, their former visibility and their labels."""

    checked: int = 0
    still_out: int = 0
    show: ProductTable = ProductTable()
    stock: tuple[int, ...] = ()
    restore: tuple[str | None, ...] = ()
    labels: tuple[str, ...] = ()


async def _read_marked(context: StepContext) -> StepResult:
    """Reads the products that carry the marker. Raises StepFailed `channel_missing`."""
    channels = visibility.channels_of(context)
    marker = str(context.inputs["marker"])
    marked = [
        product
        for product in await stock.read_products(context, published_only=False, tagged=(marker,))
        if product.sellable
        and has_tag(context.home, product, marker)
        and stock.has_event_unit(context, product)
    ]
    title = f"Read {counted(len(marked), 'marked product')}"
    return _MarkedProducts(ProductTable(marked), channels).as_result(title, read=len(marked))


async def _pick_in_stock(context: StepContext) -> StepResult:
    """Picks the products that have stock again; skips and names those that are no longer for sale."""
    threshold = VisibilityInputs.from_json(context.inputs).threshold
    products = list(context.output(READ, _MarkedProducts).products)
    before = await context.memory.of_template(HIDING, VISIBILITY) if products else {}
    show: list[tuple[Product, int]] = []
    still_out = untracked = 0
    for product in filter(stock.is_live, products):
        number = stock.total_of(product)
        if number is None:
            untracked += 1
        elif number < threshold:
            still_out += 1
        else:
            show.append((product, number))
    output = _ProductsInStock(
        checked=len(products),
        still_out=still_out,
        show=ProductTable(product for product, _ in show),
        stock=tuple(number for _, number in show),
        restore=tuple(_visibility_before(context, product, before) for product, _ in show),
        labels=tuple(product.label for product, _ in show),
    )
    title = f"Found {counted(len(show), 'product')} to show"
    return output.as_result(title, matched=len(show), message=_left_out_message(products, untracked))


def _visibility_before(context: StepContext, product: Product, before: JsonObject) -> str | None:
    """Returns the product's visibility before it was hidden, if stored."""
    visibility_before = before.get(context.memory_key(product.id))
    return visibility_before if isinstance(visibility_before, str) else None


def _left_out_message(products: Sequence[Product], untracked: int) -> str | None:
    """Names products no longer for sale and counts those without a stock number; None if there are none."""
    unfit = ", ".join([product.label for product in products if not stock.is_live(product)][:10])
    message = sentences(
        f"Left alone, since they are archived or drafts: {unfit}." if unfit else None,
        if_any(
            untracked, f"{counted(untracked, 'product')} with a variant that has no stock number left out."
        ),
    )
    return message or None


async def _show_products(context: StepContext) -> StepResult:
    """Proposes one change per product that sets visibility and removes the marker. Raises TooManyChanges."""
    picked, read = context.output(PICK, _ProductsInStock), context.output(READ, _MarkedProducts)
    context.check_limit(len(picked.stock))
    proposals = tuple(
        _proposal(context, product, number, restore, read)
        for product, number, restore in zip(picked.show, picked.stock, picked.restore, strict=True)
    )
    title = f"Show {counted(len(proposals), 'product')} of {context.home.connection.name}"
    return StepResult({}, title=title, proposals=proposals)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    picked = ended.output(PICK, _ProductsInStock)
    shown_products = ended.applied_rows(SHOW, zip(picked.labels, picked.stock, strict=True))
    in_stock, still_out = len(picked.labels), picked.still_out
    marked = counted(picked.checked, "marked product")
    text = sentences(
        f"{in_stock} of {marked} {verb(in_stock, 'has', 'have')} stock again."
        if picked.checked
        else f"No product has the tag {ended.inputs['marker']}.",
        ended.changes_sentence(SHOW, "product", "shown", if_none="Nothing was shown."),
        if_any(still_out, f"{still_out} {verb(still_out, 'is', 'are')} still out of stock."),
    )
    result = {
        "checked": picked.checked,
        "in_stock": in_stock,
        "shown": len(shown_products),
        "still_out": still_out,
        "products": [{"label": label, "stock": number} for label, number in shown_products],
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Rejects channels that the store does not have."""
    return visibility.channel_errors(values, setup.store)


def _proposal(
    context: StepContext, product: Product, number: int, restore: str | None, read: _MarkedProducts
) -> Proposal:
    """Returns visibility and marker as one change; a product that is shown already only loses the marker."""
    tags = without_tag(context.home, product, str(context.inputs["marker"]))
    visible = visibility.plan_visible(context.home, product, read.channels, visible=True, restore=restore)
    untagged = plan_tags(context.home, product, tags, tag_ids={})  # the remaining tags have their ids
    message = visibility.change_message(context, number)
    return one_change([*visible.proposals, *untagged.proposals], action=Action.PUBLISH, message=message)


TEMPLATE = base.define(
    "show-back-in-stock-products",
    "Show products back in stock",
    "Puts back what the hiding template took off sale.",
    category=base.Category.STOCK,
    inputs=inputs.inputs_schema(
        [],
        {
            "threshold": inputs.integer("Show at or above this number", 1, 100000, default=1),
            "channels": visibility.CHANNELS_INPUT,
            "marker": inputs.shared("tag", "Tag on the products to look at", default="auto-hidden"),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("checked", "in_stock", "shown", "still_out"),
        products=results.list_of({"label": results.TEXT, "stock": results.INTEGER}),
    ),
    steps=(
        base.read_step(READ, "Read marked products", _read_marked),
        base.decide_step(PICK, "Find those with stock", _pick_in_stock),
        base.change_step(SHOW, "Show them and take the mark off", _show_products),
    ),
    topics=("inventory_levels/update",),
    schedule=Schedule(Cadence.HOURLY),
    changes=(
        base.ChangeRow(
            SHOW, "product", Action.PUBLISH, (base.VISIBLE, base.TAGS), shown_beside=("stock", "channels")
        ),
    ),
    example={
        "checked": 6,
        "in_stock": 2,
        "shown": 2,
        "still_out": 4,
        "products": [{"label": "Teapot", "stock": 12}],
    },
    finish=finish,
    check_setup=check_setup,
)
