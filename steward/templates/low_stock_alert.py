"""Low stock alert: tells a Teams channel which variants are at or under a level (templates 5.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

from steward.connectors.base.commands import PostCard
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepResult
from steward.templates.base import (
    Category,
    ConnectionNeed,
    ConnectionUse,
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
from steward.templates.parts.messages import no_message, post_card
from steward.templates.parts.results import COUNT, TEXT, WHOLE, list_of, or_null, result_schema
from steward.templates.parts.stock import Unit, Wanted, in_event, is_on_sale, read_products, units_of

READ, PICK, SEND = "read-stock", "pick-low", "send-alert"
# What was told last, by store and stock number: `low` or `untracked` (rule `only_new`).
TOLD = "told"

_INPUTS = inputs_schema(
    ["threshold", "teams"],
    {
        "threshold": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100000,
            "default": 5,
            "description": "Alert at or under this number",
        },
        "products": shared("products", "Which products; absent: all published ones"),
        "include_untracked": {
            "type": "boolean",
            "default": False,
            "description": "List variants whose stock is not tracked as well",
        },
        "only_new": {
            "type": "boolean",
            "default": True,
            "description": "Only variants that were above the level at the run before",
        },
        "teams": shared("teams", "Where the message goes"),
    },
)

_RESULT = result_schema(
    {
        **dict.fromkeys(("checked", "low", "new", "untracked"), COUNT),
        "variants": list_of({"sku": or_null(TEXT), "label": TEXT, "stock": or_null(WHOLE)}),
    }
)


async def read_stock(at: StepContext) -> StepResult:
    """Every number of stock of the products wanted; of an event's run only the one it names."""
    wanted = Wanted(at.inputs.get("products"))
    products = await read_products(at, published_only=not wanted.all)
    units: list[Unit] = []
    left_out = 0
    for product in products:
        if not product.sellable:
            left_out += 1
        elif wanted.has(product):
            variants = product.variants if wanted.all else [v for v in product.variants if is_on_sale(v)]
            units.extend(units_of(product, variants))
    if at.event is not None:
        units = [unit for unit in units if in_event(at.event, unit)]
    return StepResult(
        {"units": [[unit.id, unit.label, unit.sku, unit.stock, unit.url] for unit in units]},
        counts=Counts(read=len(units)),
        title=f"Read the stock of {counted(len(units), 'variant')}",
        message=_left_out(left_out),
    )


async def pick_low(at: StepContext) -> StepResult:
    """The variants at or under the level, and which of them were above it at the run before."""
    output: Any = at.outputs[READ]
    units = [Unit(*row) for row in output["units"]]
    threshold: Any = at.inputs["threshold"]
    told = await at.memory.all(TOLD)
    low = [unit for unit in units if unit.stock is not None and unit.stock <= threshold]
    untracked = [unit for unit in units if unit.stock is None]
    listed = {unit.id: "low" for unit in low}
    if at.inputs["include_untracked"]:
        listed |= {unit.id: "untracked" for unit in untracked}
    new = {number for number, kind in listed.items() if told.get(at.memory_key(number)) != kind}
    tell = [unit for unit in [*low, *untracked] if unit.id in (new if at.inputs["only_new"] else listed)]
    return StepResult(
        {
            "checked": len(units),
            "low": len(low),
            "new": sum(unit.id in new for unit in low),
            "untracked": len(untracked),
            "told_before": len(listed) - len(tell),
            "tell": [[unit.label, unit.sku, unit.stock, unit.url] for unit in tell],
            "remember": {at.memory_key(number): listed[number] for number in sorted(new)},
        },
        counts=Counts(matched=len(low)),
        title=f"Found {counted(len(low), 'variant')} at or under {threshold}",
        memory=tuple(MemoryWrite(TOLD, key, None) for key in _back_up(at, units, listed, told)),
    )


async def send_alert(at: StepContext) -> StepResult:
    """One message, when there is something to tell (E17)."""
    output: Any = at.outputs[PICK]
    tell: list[Any] = output["tell"]
    if not tell:
        return no_message()
    remember: Mapping[str, str] = output["remember"]
    # Only a message that went out has told them: after a lost one they are new again.
    told = tuple(MemoryWrite(TOLD, key, kind, position=0) for key, kind in remember.items())
    return post_card(at, _card(at, tell, before=output["told_before"]), remember=told)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(PICK)
    tell: Any = found.get("tell", [])
    low, new, untracked = (whole(found.get(name)) for name in ("low", "new", "untracked"))
    threshold = ended.inputs["threshold"]
    left_out = "" if ended.inputs["include_untracked"] else " left out"
    text = sentences(
        f"{counted(low, 'variant')} {verb(low, 'is', 'are')} at or under {threshold}, {new} of them new.",
        f"{counted(untracked, 'variant')} without a stock number{left_out}." if untracked else None,
        ended.message_sentence(SEND),
    )
    return run_summary(
        text,
        {
            "checked": whole(found.get("checked")),
            "low": low,
            "new": new,
            "untracked": untracked,
            "variants": [{"sku": sku, "label": label, "stock": stock} for label, sku, stock, _ in tell],
        },
    )


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """What the store's platform does not have."""
    return vendor_errors(inputs, world)


def _card(at: StepContext, tell: Sequence[Any], *, before: int) -> PostCard:
    low = [row for row in tell if row[2] is not None]
    untracked = [row for row in tell if row[2] is None]
    store = at.store.connection.name if at.store is not None else ""
    if low:
        title = f"{counted(len(low), 'variant')} low in stock at {store}"
    else:
        title = f"{counted(len(untracked), 'variant')} without a stock number at {store}"
    words = [f"At or under {at.inputs['threshold']}."] if low else []
    if low and untracked:
        words.append(f"Listed last: {counted(len(untracked), 'variant')} whose stock is not tracked.")
    if before:
        words.append(f"{before} more {verb(before, 'was', 'were')} told before.")
    link = tell[0][3] if len(tell) == 1 else None
    return PostCard(
        title=title,
        text=(" ".join(words),) if words else (),
        facts=tuple((label, _left(stock)) for label, _, stock, _ in tell),
        link=("Open the product", link) if link else None,
    )


def _left(stock: int | None) -> str:
    return "not tracked" if stock is None else f"{stock} left"


def _back_up(
    at: StepContext, units: Sequence[Unit], listed: Mapping[str, str], told: Mapping[str, JsonValue]
) -> list[str]:
    """What is forgotten: told before and not listed now; an event's run judges only what it read."""
    read = {at.memory_key(unit.id) for unit in units}
    now = {at.memory_key(number) for number in listed}
    return sorted(key for key in told if key not in now and (at.event is None or key in read))


def _left_out(count: int) -> str | None:
    return f"{counted(count, 'product')} of kinds without stock of their own left out." if count else None


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="low-stock-alert",
        template_version=1,
        name="Low stock alert",
        description="Tells a Teams channel which variants are at or under a level.",
        category=Category.STOCK,
        platforms=("shopify", "woocommerce"),
        connections=(ConnectionNeed("teams", ConnectionUse.WRITE, 1, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read stock", StepKind.READ),
            StepFacts(PICK, "Find variants at or under the level", StepKind.DECIDE),
            StepFacts(SEND, "Post the list to Teams", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE, TriggerKind.EVENT),
        topics={"shopify": ("inventory_levels/update",), "woocommerce": ("inventory_levels/update",)},
        default_schedule=Schedule(Cadence.DAILY, time_of_day="08:00"),
        changes=(),
        example_result={
            "checked": 412,
            "low": 3,
            "new": 1,
            "untracked": 20,
            "variants": [{"sku": "TEA-1", "label": "Earl Grey 100 g", "stock": 2}],
        },
    ),
    steps={READ: read_stock, PICK: pick_low, SEND: send_alert},
    finish=finish,
    check_setup=check_world,
)
