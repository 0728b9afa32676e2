"""Stock from another store: sets this store's stock by SKU from another store (templates 5.10)."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from steward.connectors.base.commands import SetStock
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.queries import VARIANTS, ProductsQuery, RecordPage
from steward.connectors.base.records import Variant
from steward.model.change import Action
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import AccountAccess, MemoryWrite, StepContext, StepFailed, StepResult
from steward.templates.base import (
    STOCK,
    Category,
    ChangeRow,
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
    verb,
    whole,
)
from steward.templates.parts.across import naming
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.locations import LOCATION_INPUT, location_faults, location_of
from steward.templates.parts.results import COUNT, REFUSED_ROW, RESULT_ENTRIES, list_of, result_schema
from steward.templates.parts.stock import in_event, read_products, units_of
from steward.templates.parts.stock_pairs import PairRules, SourceRow, match_key, pair
from steward.templates.parts.stored_products import kept_variants, variants_of

SOURCE, TARGET, COMPARE, SET = "read-source", "read-target", "compare-stock", "set-stock"
# How many variants each source had when it was last read whole.
READ_BEFORE = "source"

_INPUTS = inputs_schema(
    ["source_integration_id"],
    {
        "source_integration_id": shared("integration_id", "The store stock is read from"),
        "match": shared("match", "What products are matched by"),
        "buffer": {
            "type": "integer",
            "minimum": 0,
            "maximum": 1000,
            "default": 0,
            "description": "Held back from the source's number",
        },
        "location": {
            **LOCATION_INPUT,
            "description": "Location by name in the target (Shopify); null: its only active one",
        },
        "mode": {
            "enum": ["set", "only_lower"],
            "default": "set",
            "description": "only_lower: never raise the target",
        },
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("source_variants", "matched", "changed", "unchanged", "not_in_source", "refused")
_RESULT = result_schema({**dict.fromkeys(_COUNTS, COUNT), "refused_rows": list_of(REFUSED_ROW)})


async def read_source(at: StepContext) -> StepResult:
    """Keys and numbers of the source; of an event's run only of the variants it is about.

    Raises StepFailed `source_too_small`.
    """
    source, match = _source(at), str(at.inputs["match"])
    wanted = await _in_event(at)
    skus = _skus(wanted, match)
    read: list[Variant] = []
    if skus != () and wanted != []:
        with naming(source.connection.name):
            read = await _each_once(source.reader.read(VARIANTS, ProductsQuery(skus=skus)))
    memory: tuple[MemoryWrite, ...] = ()
    if wanted is None:
        memory = (await _checked_size(at, source, len(read)),)
    rows = [row for row in (SourceRow.of(each, match) for each in read) if row.key]
    return StepResult(
        {
            "read": len(read),
            "rows": [[row.key, row.stock] for row in rows],
            "only": None if wanted is None else [each.id for each in wanted],
            "skus": None if skus is None else list(skus),
        },
        counts=Counts(read=len(read)),
        title=f"Read {counted(len(read), 'variant')} of {source.connection.name}",
        memory=memory,
    )


async def read_target(at: StepContext) -> StepResult:
    """The variants of this store that a key of the source could mean, at the location written to."""
    output: Any = at.outputs[SOURCE]
    match = str(at.inputs["match"])
    named = {"sku": "SKU"}.get(match, match)
    keys = {str(key).casefold() for key, _ in output["rows"]}
    skus: Any = output["skus"]
    ask = ProductsQuery(skus=None if skus is None else tuple(skus), location=location_of(at))
    only = output["only"]
    is_needed = skus is None if only is None else bool(only and skus != [])
    read = await _each_once(at.home.reader.read(VARIANTS, ask)) if is_needed else []
    kept: list[Variant] = []
    without = others = 0
    for variant in read:
        key = match_key(variant, match)
        if key.casefold() in keys:
            kept.append(variant)
        elif not key:
            without += 1
        elif only is None or variant.id in only:
            others += 1
    return StepResult(
        {"variants": kept_variants(kept), "not_in_source": others},
        counts=Counts(read=len(read)),
        title=f"Read {counted(len(read), 'variant')} of {at.home.connection.name}",
        message=f"{counted(without, 'variant')} without a {named} cannot be matched." if without else None,
    )


async def compare_stock(at: StepContext) -> StepResult:
    """Which variants get another number, and which are left alone with the reason."""
    source: Any = at.outputs[SOURCE]
    target: Any = at.outputs[TARGET]
    buffer: Any = at.inputs["buffer"]
    rules = PairRules(str(at.inputs["match"]), buffer, at.inputs["mode"] == "only_lower")
    rows = [SourceRow(key, stock) for key, stock in source["rows"]]
    found = pair(variants_of(target["variants"]), rows, rules, only=source["only"])
    planned = _plan(at, found.asks)
    by_id = {each.variant.id: each.variant for each in found.asks}
    for problem in planned.problems:
        found.refuse(match_key(by_id[problem.item], rules.match), problem.code, problem.message)
    refused = {problem.item for problem in planned.problems}
    asks = [each for each in found.asks if each.variant.id not in {*refused, *planned.unchanged}]
    unchanged = found.unchanged + len(planned.unchanged)
    return StepResult(
        {
            "source_variants": source["read"],
            "matched": unchanged + len(asks),
            "unchanged": unchanged,
            "not_in_source": target["not_in_source"] + found.not_in_source,
            "refused": len(found.refused),
            "refused_rows": list[JsonValue](found.refused[:RESULT_ENTRIES]),
            "variants": kept_variants(each.variant for each in asks),
            "asks": [[each.quantity, each.message] for each in asks],
        },
        counts=Counts(matched=len(asks)),
        title=f"Found {counted(len(asks), 'number')} to set",
        message=f"{counted(len(found.refused), 'variant')} left alone." if found.refused else None,
    )


async def set_stock(at: StepContext) -> StepResult:
    """Proposes the numbers. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[COMPARE]
    asks = [
        SetStock(variant, quantity, message)
        for variant, (quantity, message) in zip(variants_of(found["variants"]), found["asks"], strict=True)
    ]
    proposals = _plan(at, asks).proposals
    at.check_limit(len(proposals))
    return StepResult(
        {},
        title=f"Set the stock of {counted(len(proposals), 'variant')}",
        proposals=proposals,
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(COMPARE)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["changed"] = ended.applied(SET)
    rows: Any = found.get("refused_rows", [])
    absent, refused = counts["not_in_source"], counts["refused"]
    none = "No stock differs from the other store." if ended.ran(SET) else "No stock was set."
    text = sentences(
        ended.changes_sentence(SET, "stock number", "set", none=none),
        f"{counted(absent, 'variant')} {verb(absent, 'is', 'are')} not in the other store."
        if absent
        else None,
        f"{counted(refused, 'variant')} {verb(refused, 'was', 'were')} left alone." if refused else None,
    )
    return run_summary(text, {**counts, "refused_rows": rows})


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """Another store than its own, and one location to write at (templates 5.10)."""
    errors = dict(location_faults(inputs, world.store))
    if world.store is not None and inputs["source_integration_id"] == world.store.integration_id:
        errors["inputs.source_integration_id"] = ["Name another store than the one it runs on."]
    return errors


def _source(at: StepContext) -> AccountAccess:
    number: Any = at.inputs["source_integration_id"]
    return at.accounts[IntegrationId(number)]


async def _in_event(at: StepContext) -> list[Variant] | None:
    """The variants an event's run is about; None on a schedule and by hand."""
    event = at.event
    if event is None:
        return None
    found: list[Variant] = []
    for product in await read_products(at, published_only=False):
        meant = {unit.id for unit in units_of(product) if in_event(event, unit)}
        found += [each for each in product.variants if product.sellable and each.stock_target in meant]
    return found


def _skus(wanted: Sequence[Variant] | None, match: str) -> tuple[str, ...] | None:
    """What both stores are asked for; barcodes cannot be asked for, so everything is read."""
    if wanted is None or match != "sku":
        return None
    return tuple(sorted({each.sku for each in wanted if match_key(each, match)}))


async def _each_once(pages: AsyncIterator[RecordPage[Variant]]) -> list[Variant]:
    """Every variant of every page, those seen twice once (E10)."""
    found: dict[str, Variant] = {}
    async for page in pages:
        for variant in page.items:
            found.setdefault(variant.id, variant)
    return list(found.values())


async def _checked_size(at: StepContext, source: AccountAccess, count: int) -> MemoryWrite:
    """That the source is not empty, nor under half of what the last live run read."""
    key = str(source.connection.integration_id)
    before = whole((await at.memory.all(READ_BEFORE)).get(key))
    if count == 0 or count * 2 < before:
        words = f"{source.connection.name} has {counted(count, 'variant')}"
        words += f", where it had {before} before." if before else "."
        words = f"{words} Nothing was changed. Check that store first."
        raise StepFailed("source_too_small", words)
    return MemoryWrite(READ_BEFORE, key, count)


def _plan(at: StepContext, asks: Sequence[SetStock]) -> PlannedChanges:
    store = at.home
    return store.changes["inventory.set"].plan(asks, integration_id=store.connection.integration_id)


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="sync-stock-between-stores",
        template_version=1,
        name="Stock from another store",
        description="Sets this store's stock by SKU from another store.",
        category=Category.STOCK,
        platforms=("shopify", "woocommerce"),
        connections=(ConnectionNeed("store", ConnectionUse.READ, 1, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(SOURCE, "Read the other store", StepKind.READ),
            StepFacts(TARGET, "Read this store", StepKind.READ),
            StepFacts(COMPARE, "Compare by SKU", StepKind.DECIDE),
            StepFacts(SET, "Set the stock", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE, TriggerKind.EVENT),
        topics={"shopify": ("inventory_levels/update",), "woocommerce": ("inventory_levels/update",)},
        default_schedule=Schedule(Cadence.HOURLY),
        changes=(
            ChangeRow(
                step=SET,
                object="inventory",
                action=Action.UPDATE,
                fields=(STOCK,),
                reversible=True,
                shown_beside=("source stock",),
            ),
        ),
        example_result={
            "source_variants": 800,
            "matched": 640,
            "changed": 22,
            "unchanged": 618,
            "not_in_source": 14,
            "refused": 1,
            "refused_rows": [
                {
                    "row": None,
                    "key": "TEA-1",
                    "code": "sku_ambiguous",
                    "message": "TEA-1 stands on two variants of the source",
                }
            ],
        },
    ),
    steps={SOURCE: read_source, TARGET: read_target, COMPARE: compare_stock, SET: set_stock},
    finish=finish,
    check_setup=check_world,
)
