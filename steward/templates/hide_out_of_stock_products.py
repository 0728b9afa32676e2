"""Hide sold-out products: takes products without stock off the sale channels (templates 5.4)."""

from typing import Any

from steward.connectors.base.records import Product
from steward.model.change import Action, Outcome, Proposal
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepResult
from steward.steps.product_tags import has_tag, one_change, plan_tags, store_tags, with_tag
from steward.templates.base import (
    TAGS,
    VISIBLE,
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
from steward.templates.parts.results import COUNT, TEXT, WHOLE, list_of, result_schema
from steward.templates.parts.stock import Wanted, in_event, read_products, total_of, units_of
from steward.templates.parts.stored_products import kept_products, products_of
from steward.templates.parts.visibility import (
    CHANNELS_INPUT,
    beside,
    channels_of,
    is_shown,
    missing_channels,
    plan_visible,
)

READ, PICK, HIDE = "read-stock", "pick-sold-out", "hide-products"
# The platform's word for a product's visibility before it was hidden, by store and product.
VISIBILITY = "visibility"
# Products whose hiding may have stopped between visibility and marker; put right by the next run.
HALF_DONE = "half_done"

_INPUTS = inputs_schema(
    [],
    {
        "threshold": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100000,
            "default": 0,
            "description": "Hide at or under this number",
        },
        "channels": CHANNELS_INPUT,
        "products": shared("products", "Which products; absent: all"),
        "marker": shared("tag", "Tag put on hidden products", default="auto-hidden"),
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("checked", "sold_out", "hidden", "already_hidden")
_RESULT = result_schema(
    {**dict.fromkeys(_COUNTS, COUNT), "products": list_of({"label": TEXT, "stock": WHOLE})}
)


async def read_stock(at: StepContext) -> StepResult:
    """The products wanted with their stock, and the tags the store knows. Raises `channel_missing`."""
    channels = channels_of(at)
    wanted = Wanted(at.inputs.get("products"))
    event = at.event
    read = [product for product in await read_products(at, published_only=False) if wanted.has(product)]
    if event is not None:
        read = [each for each in read if any(in_event(event, unit) for unit in units_of(each))]
    products = [product for product in read if product.sellable]
    left_out = len(read) - len(products)
    return StepResult(
        {
            "products": kept_products(products),
            "tags": await store_tags(at.home),
            "channels": list(channels),
        },
        counts=Counts(read=len(products)),
        title=f"Read the stock of {counted(len(products), 'product')}",
        message=f"{counted(left_out, 'product')} of kinds without stock of their own left out."
        if left_out
        else None,
    )


async def pick_sold_out(at: StepContext) -> StepResult:
    """Which products are sold out, and which of those still have to be hidden or marked."""
    output: Any = at.outputs[READ]
    threshold: Any = at.inputs["threshold"]
    marker = str(at.inputs["marker"])
    channels: list[str] = output["channels"]
    half_done = await at.memory.all(HALF_DONE)
    products = products_of(output["products"])
    hide: list[tuple[Product, int]] = []
    unfit: list[str] = []
    already = 0
    for product in products:
        stock = total_of(product)
        if stock is None or stock > threshold:
            continue
        shown = is_shown(product, channels)
        if not shown and (at.memory_key(product.id) not in half_done or has_tag(at.home, product, marker)):
            # Hidden before, or by hand: neither is marked again (templates 5.4).
            already += 1
        elif _proposal(at, product, stock=stock, read=output) is None:
            unfit.append(product.label)
        else:
            hide.append((product, stock))
    settled = [
        at.memory_key(each.id)
        for each in products
        if is_shown(each, channels) or has_tag(at.home, each, marker)
    ]
    return StepResult(
        {
            "checked": len(products),
            "sold_out": len(hide) + already + len(unfit),
            "already_hidden": already,
            "hide": kept_products(product for product, _ in hide),
            "stock": [stock for _, stock in hide],
            "labels": [product.label for product, _ in hide],
        },
        counts=Counts(matched=len(hide)),
        title=f"Found {counted(len(hide), 'product')} to hide",
        message=f"Left visible, since they cannot be marked: {', '.join(unfit[:10])}." if unfit else None,
        memory=tuple(MemoryWrite(HALF_DONE, key, None) for key in settled if key in half_done),
    )


async def hide_products(at: StepContext) -> StepResult:
    """Proposes visibility and marker as one change each. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[PICK]
    read: Any = at.outputs[READ]
    at.check_limit(len(found["stock"]))
    store = at.home
    proposals: list[Proposal] = []
    memory: list[MemoryWrite] = []
    for product, stock in zip(products_of(found["hide"]), found["stock"], strict=True):
        proposal = _proposal(at, product, stock=stock, read=read)
        if proposal is None:
            continue
        position, key = len(proposals), at.memory_key(product.id)
        unsure = (Outcome.FAILED, Outcome.UNKNOWN)
        if product.visible and not read["channels"]:
            done = (Outcome.APPLIED, *unsure)
            memory.append(MemoryWrite(VISIBILITY, key, product.visibility, position, done))
        memory.append(MemoryWrite(HALF_DONE, key, True, position, unsure))
        memory.append(MemoryWrite(HALF_DONE, key, None, position))
        proposals.append(proposal)
    return StepResult(
        {},
        title=f"Hide {counted(len(proposals), 'product')} of {store.connection.name}",
        proposals=tuple(proposals),
        memory=tuple(memory),
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(PICK)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["hidden"] = ended.applied(HIDE)
    labels: Any = found.get("labels", [])
    stock: Any = found.get("stock", [])
    products: list[JsonValue] = [
        {"label": label, "stock": number}
        for label, number in ended.applied_rows(HIDE, zip(labels, stock, strict=True))
    ]
    sold_out, already = counts["sold_out"], counts["already_hidden"]
    text = sentences(
        f"{counted(sold_out, 'product')} of {counts['checked']} {verb(sold_out, 'is', 'are')} sold out.",
        ended.changes_sentence(HIDE, "product", "hidden", none="Nothing was hidden."),
        f"{already} {verb(already, 'was', 'were')} hidden already." if already else None,
    )
    return run_summary(text, {**counts, "products": products})


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """Channels the store does not have, by the connection's last check (templates 5.4)."""
    errors = dict(vendor_errors(inputs, world))
    missing = missing_channels(inputs, world.store) if world.store is not None else []
    if missing:
        errors["inputs.channels"] = [f"The store has no sales channel named {', '.join(missing)}."]
    return errors


def _proposal(at: StepContext, product: Product, *, stock: int, read: Any) -> Proposal | None:
    """Visibility and marker as one change; None when the store would refuse one of them."""
    known: dict[str, str] = read["tags"]
    tags = with_tag(at.home, product, str(at.inputs["marker"]), known)
    hidden = plan_visible(at.home, product, read["channels"], visible=False)
    tagged = plan_tags(at.home, product, tags, known=known)
    found = [*hidden.proposals, *tagged.proposals]
    if not found or hidden.problems or tagged.problems:
        return None
    return one_change(found, action=Action.UNPUBLISH, message=beside(at, stock))


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="hide-out-of-stock-products",
        template_version=1,
        name="Hide sold-out products",
        description="Takes products without stock off the sale channels.",
        category=Category.STOCK,
        platforms=("shopify", "woocommerce"),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read stock", StepKind.READ),
            StepFacts(PICK, "Find sold-out products", StepKind.DECIDE),
            StepFacts(HIDE, "Hide and mark them", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE, TriggerKind.EVENT),
        topics={"shopify": ("inventory_levels/update",), "woocommerce": ("inventory_levels/update",)},
        default_schedule=Schedule(Cadence.HOURLY),
        changes=(
            ChangeRow(
                step=HIDE,
                object="product",
                action=Action.UNPUBLISH,
                fields=(VISIBLE, TAGS),
                reversible=True,
                shown_beside=("stock", "channels"),
            ),
        ),
        example_result={
            "checked": 300,
            "sold_out": 4,
            "hidden": 2,
            "already_hidden": 2,
            "products": [{"label": "Teapot", "stock": 0}],
        },
    ),
    steps={READ: read_stock, PICK: pick_sold_out, HIDE: hide_products},
    finish=finish,
    check_setup=check_world,
)
