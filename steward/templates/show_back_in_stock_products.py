"""Show products back in stock: puts back what the hiding template took off sale (templates 5.5)."""

from typing import Any

from steward.connectors.base.records import Product
from steward.model.change import Action, Proposal
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult
from steward.steps.product_tags import has_tag, one_change, plan_tags, without_tag
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
    verb,
    whole,
)
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.results import COUNT, TEXT, WHOLE, list_of, result_schema
from steward.templates.parts.stock import in_event, is_live, read_products, total_of, units_of
from steward.templates.parts.stored_products import kept_products, products_of
from steward.templates.parts.visibility import (
    CHANNELS_INPUT,
    beside,
    channels_of,
    missing_channels,
    plan_visible,
)

READ, PICK, SHOW = "read-marked", "pick-in-stock", "show-products"
# Where the hiding automations keep what a product's visibility was (templates 5.4).
HIDING, VISIBILITY = "hide-out-of-stock-products", "visibility"

_INPUTS = inputs_schema(
    [],
    {
        "threshold": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100000,
            "default": 1,
            "description": "Show at or above this number",
        },
        "channels": CHANNELS_INPUT,
        "marker": shared("tag", "Tag on the products to look at", default="auto-hidden"),
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("checked", "in_stock", "shown", "still_out")
_RESULT = result_schema(
    {**dict.fromkeys(_COUNTS, COUNT), "products": list_of({"label": TEXT, "stock": WHOLE})}
)


async def read_marked(at: StepContext) -> StepResult:
    """The products that carry the mark. Raises `channel_missing`."""
    channels = channels_of(at)
    marker, event = str(at.inputs["marker"]), at.event
    read = await read_products(at, published_only=False, tagged=(marker,))
    marked = [each for each in read if each.sellable and has_tag(at.home, each, marker)]
    if event is not None:
        marked = [each for each in marked if any(in_event(event, unit) for unit in units_of(each))]
    return StepResult(
        {
            "products": kept_products(marked),
            "channels": list(channels),
        },
        counts=Counts(read=len(marked)),
        title=f"Read {counted(len(marked), 'marked product')}",
    )


async def pick_in_stock(at: StepContext) -> StepResult:
    """Which of them have stock again; what is no longer for sale is left alone and named."""
    output: Any = at.outputs[READ]
    threshold: Any = at.inputs["threshold"]
    products = products_of(output["products"])
    before = await at.memory.of_template(HIDING, VISIBILITY) if products else {}
    show: list[tuple[Product, int, JsonValue]] = []
    unfit: list[str] = []
    still_out = untracked = 0
    for product in products:
        stock = total_of(product)
        if not is_live(product):
            unfit.append(product.label)
        elif stock is None:
            untracked += 1
        elif stock < threshold:
            still_out += 1
        else:
            restore = before.get(at.memory_key(product.id))
            show.append((product, stock, restore if isinstance(restore, str) else None))
    return StepResult(
        {
            "checked": len(products),
            "in_stock": len(show),
            "still_out": still_out,
            "show": kept_products(product for product, _, _ in show),
            "stock": [stock for _, stock, _ in show],
            "restore": [restore for _, _, restore in show],
            "labels": [product.label for product, _, _ in show],
        },
        counts=Counts(matched=len(show)),
        title=f"Found {counted(len(show), 'product')} to show",
        message=sentences(
            f"Left alone, since they are archived or drafts: {', '.join(unfit[:10])}." if unfit else None,
            f"{counted(untracked, 'product')} with a variant that has no stock number left out."
            if untracked
            else None,
        )
        or None,
    )


async def show_products(at: StepContext) -> StepResult:
    """Proposes visibility and the mark taken off as one change each. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[PICK]
    read: Any = at.outputs[READ]
    at.check_limit(len(found["stock"]))
    rows = zip(products_of(found["show"]), found["stock"], found["restore"], strict=True)
    proposals = tuple(
        _proposal(at, product, stock=stock, restore=restore, read=read) for product, stock, restore in rows
    )
    return StepResult(
        {},
        title=f"Show {counted(len(proposals), 'product')} of {at.home.connection.name}",
        proposals=proposals,
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(PICK)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["shown"] = ended.applied(SHOW)
    labels: Any = found.get("labels", [])
    stock: Any = found.get("stock", [])
    products: list[JsonValue] = [
        {"label": label, "stock": number}
        for label, number in ended.applied_rows(SHOW, zip(labels, stock, strict=True))
    ]
    have, out = counts["in_stock"], counts["still_out"]
    text = sentences(
        f"{have} of {counted(counts['checked'], 'marked product')} {verb(have, 'has', 'have')} stock again."
        if counts["checked"]
        else f"No product has the tag {ended.inputs['marker']}.",
        ended.changes_sentence(SHOW, "product", "shown", none="Nothing was shown."),
        f"{out} {verb(out, 'is', 'are')} still out of stock." if out else None,
    )
    return run_summary(text, {**counts, "products": products})


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """Channels the store does not have, by the connection's last check (templates 5.4)."""
    missing = missing_channels(inputs, world.store) if world.store is not None else []
    if not missing:
        return {}
    return {"inputs.channels": [f"The store has no sales channel named {', '.join(missing)}."]}


def _proposal(at: StepContext, product: Product, *, stock: int, restore: str | None, read: Any) -> Proposal:
    """Visible again and the mark off; of one that people show already only the mark comes off."""
    tags = without_tag(at.home, product, str(at.inputs["marker"]))
    shown = plan_visible(at.home, product, read["channels"], visible=True, restore=restore)
    untagged = plan_tags(at.home, product, tags, known={})  # those that stay are named with their ids
    found = [*shown.proposals, *untagged.proposals]
    return one_change(found, action=Action.PUBLISH, message=beside(at, stock))


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="show-back-in-stock-products",
        template_version=1,
        name="Show products back in stock",
        description="Puts back what the hiding template took off sale.",
        category=Category.STOCK,
        platforms=("shopify", "woocommerce"),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read marked products", StepKind.READ),
            StepFacts(PICK, "Find those with stock", StepKind.DECIDE),
            StepFacts(SHOW, "Show them and take the mark off", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE, TriggerKind.EVENT),
        topics={"shopify": ("inventory_levels/update",), "woocommerce": ("inventory_levels/update",)},
        default_schedule=Schedule(Cadence.HOURLY),
        changes=(
            ChangeRow(
                step=SHOW,
                object="product",
                action=Action.PUBLISH,
                fields=(VISIBLE, TAGS),
                reversible=True,
                shown_beside=("stock", "channels"),
            ),
        ),
        example_result={
            "checked": 6,
            "in_stock": 2,
            "shown": 2,
            "still_out": 4,
            "products": [{"label": "Teapot", "stock": 12}],
        },
    ),
    steps={READ: read_marked, PICK: pick_in_stock, SHOW: show_products},
    finish=finish,
    check_setup=check_world,
)
