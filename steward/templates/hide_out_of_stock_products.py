"""Hide sold-out products: takes products without stock off the sale channels."""

from collections.abc import Iterator, Sequence

from steward.connectors.base.records import Product
from steward.model.change import Action, Outcome, Proposal
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import MemoryWrite, StepContext, StepOutput, StepResult
from steward.steps.product_tags import has_tag, one_change, plan_tags, store_tags, with_tag
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results, stock, visibility
from steward.templates.parts.stored_products import ProductTable
from steward.templates.parts.visibility import VisibilityInputs, is_shown

READ, PICK, HIDE = "read-stock", "pick-sold-out", "hide-products"
# Memory space: the platform's visibility value of a product before it was hidden; also read by the template
# that shows products again.
_VISIBILITY = "visibility"
# Memory space: products that may be hidden but not marked yet; the next run finishes them.
_HALF_DONE = "half_done"


class _ProductStock(StepOutput, frozen=True):
    """The chosen products, the store's tags, and the ids of the channels."""

    products: ProductTable
    tags: dict[str, str]
    channels: tuple[str, ...]


class _SoldOutProducts(StepOutput, frozen=True):
    """The sold-out products; `hide` are those still to be hidden or marked, with stock and labels."""

    checked: int = 0
    sold_out: int = 0
    already_hidden: int = 0
    hide: ProductTable = ProductTable()
    stock: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()


async def read_stock(context: StepContext) -> StepResult:
    """Reads the chosen products with their stock. Raises StepFailed `channel_missing`."""
    channels = visibility.channels_of(context)
    product_filter = stock.ProductFilter(context.inputs.get("products"))
    chosen = [
        product
        for product in await stock.read_products(context, published_only=False)
        if product_filter.has(product) and stock.has_event_unit(context, product)
    ]
    products = [product for product in chosen if product.sellable]
    return _ProductStock(ProductTable(products), await store_tags(context.home), channels).as_result(
        f"Read the stock of {counted(len(products), 'product')}",
        read=len(products),
        message=stock.skipped_message(len(chosen) - len(products)),
    )


async def _pick_sold_out(context: StepContext) -> StepResult:
    """Picks the sold-out products that still have to be hidden or marked."""
    read, threshold = (
        context.output(READ, _ProductStock),
        VisibilityInputs.from_json(context.inputs).threshold,
    )
    half_done = await context.memory.all(_HALF_DONE)
    products = list(read.products)
    hide: list[tuple[Product, int]] = []
    unfit: list[str] = []
    already_hidden = 0
    for product in products:
        number = stock.total_of(product)
        if number is None or number > threshold:
            continue
        if _is_hidden_already(context, product, read, half_done):
            already_hidden += 1
        elif _proposal(context, product, number, read) is None:
            unfit.append(product.label)
        else:
            hide.append((product, number))
    output = _SoldOutProducts(
        checked=len(products),
        sold_out=len(hide) + already_hidden + len(unfit),
        already_hidden=already_hidden,
        hide=ProductTable(product for product, _ in hide),
        stock=tuple(number for _, number in hide),
        labels=tuple(product.label for product, _ in hide),
    )
    return output.as_result(
        f"Found {counted(len(hide), 'product')} to hide",
        matched=len(hide),
        message=f"Left visible, since they cannot be marked: {', '.join(unfit[:10])}." if unfit else None,
        memory=_settled(context, products, read, half_done),
    )


async def _hide_products(context: StepContext) -> StepResult:
    """Proposes one change per product that sets visibility and marker. Raises TooManyChanges."""
    picked, read = context.output(PICK, _SoldOutProducts), context.output(READ, _ProductStock)
    context.check_limit(len(picked.stock))
    proposals: list[Proposal] = []
    memory: list[MemoryWrite] = []
    for product, number in zip(picked.hide, picked.stock, strict=True):
        proposal = _proposal(context, product, number, read)
        if proposal is not None:
            memory += _memory(context, product, len(proposals), has_channels=bool(read.channels))
            proposals.append(proposal)
    title = f"Hide {counted(len(proposals), 'product')} of {context.home.connection.name}"
    return StepResult({}, title=title, proposals=tuple(proposals), memory=tuple(memory))


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    picked = ended.output(PICK, _SoldOutProducts)
    hidden = ended.applied_rows(HIDE, zip(picked.labels, picked.stock, strict=True))
    sold_out, already = picked.sold_out, picked.already_hidden
    text = sentences(
        f"{counted(sold_out, 'product')} of {picked.checked} {verb(sold_out, 'is', 'are')} sold out.",
        ended.changes_sentence(HIDE, "product", "hidden", if_none="Nothing was hidden."),
        if_any(already, f"{already} {verb(already, 'was', 'were')} hidden already."),
    )
    result = {
        "checked": picked.checked,
        "sold_out": sold_out,
        "hidden": len(hidden),
        "already_hidden": already,
        "products": [{"label": label, "stock": number} for label, number in hidden],
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Rejects vendors and channels that the store does not have."""
    return {**base.vendor_errors(values, setup), **visibility.channel_errors(values, setup.store)}


def _is_hidden_already(
    context: StepContext, product: Product, read: _ProductStock, half_done: JsonObject
) -> bool:
    """Returns whether the product was hidden before, or by hand: in both cases it is not marked again."""
    is_half_done = context.memory_key(product.id) in half_done
    return not is_shown(product, read.channels) and (_is_marked(context, product) or not is_half_done)


def _is_marked(context: StepContext, product: Product) -> bool:
    return has_tag(context.home, product, str(context.inputs["marker"]))


def _settled(
    context: StepContext, products: Sequence[Product], read: _ProductStock, half_done: JsonObject
) -> list[MemoryWrite]:
    """Returns writes that remove half-done products from memory which are shown or marked by now."""
    settled = {
        context.memory_key(product.id)
        for product in products
        if is_shown(product, read.channels) or _is_marked(context, product)
    }
    return [MemoryWrite(_HALF_DONE, key, None) for key in half_done if key in settled]


def _memory(
    context: StepContext, product: Product, position: int, *, has_channels: bool
) -> Iterator[MemoryWrite]:
    """Yields the memory writes for a hidden product, depending on the outcome of its change."""
    key = context.memory_key(product.id)
    unsure = (Outcome.FAILED, Outcome.UNKNOWN)
    if product.visible and not has_channels:
        yield MemoryWrite(_VISIBILITY, key, product.visibility, position, (Outcome.APPLIED, *unsure))
    yield MemoryWrite(_HALF_DONE, key, True, position, unsure)
    yield MemoryWrite(_HALF_DONE, key, None, position)


def _proposal(context: StepContext, product: Product, number: int, read: _ProductStock) -> Proposal | None:
    """Returns visibility and marker as one change; None when there is none or the store would refuse it."""
    tags = with_tag(context.home, product, str(context.inputs["marker"]), read.tags)
    hidden = visibility.plan_visible(context.home, product, read.channels, visible=False)
    tagged = plan_tags(context.home, product, tags, tag_ids=read.tags)
    proposals = [*hidden.proposals, *tagged.proposals]
    if not proposals or hidden.problems or tagged.problems:
        return None
    message = visibility.change_message(context, number)
    return one_change(proposals, action=Action.UNPUBLISH, message=message)


TEMPLATE = base.define(
    "hide-out-of-stock-products",
    "Hide sold-out products",
    "Takes products without stock off the sale channels.",
    category=base.Category.STOCK,
    inputs=inputs.inputs_schema(
        [],
        {
            "threshold": inputs.integer("Hide at or under this number", 0, 100000, default=0),
            "channels": visibility.CHANNELS_INPUT,
            "products": inputs.shared("products", "Which products; absent: all"),
            "marker": inputs.shared("tag", "Tag put on hidden products", default="auto-hidden"),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("checked", "sold_out", "hidden", "already_hidden"),
        products=results.list_of({"label": results.TEXT, "stock": results.INTEGER}),
    ),
    steps=(
        base.read_step(READ, "Read stock", read_stock),
        base.decide_step(PICK, "Find sold-out products", _pick_sold_out),
        base.change_step(HIDE, "Hide and mark them", _hide_products),
    ),
    topics=("inventory_levels/update",),
    schedule=Schedule(Cadence.HOURLY),
    changes=(
        base.ChangeRow(
            HIDE,
            "product",
            Action.UNPUBLISH,
            (base.VISIBLE, base.TAGS),
            shown_beside=("stock", "channels"),
        ),
    ),
    example={
        "checked": 300,
        "sold_out": 4,
        "hidden": 2,
        "already_hidden": 2,
        "products": [{"label": "Teapot", "stock": 0}],
    },
    finish=finish,
    check_setup=check_setup,
)
