"""Stock from another store: copies stock by SKU from another store to this one."""

from collections.abc import Sequence

from steward.connectors.base.commands import SetStock
from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.model.change import Action
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import (
    AccountAccess,
    JsonRecord,
    MemoryWrite,
    StepContext,
    StepFailed,
    StepOutput,
    StepResult,
)
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results, stock
from steward.templates.parts.across import naming
from steward.templates.parts.locations import LOCATION_INPUT, location_errors, location_of
from steward.templates.parts.sku_rows import RefusedRow
from steward.templates.parts.stock_pairs import PairRules, SourceRow, match_key, pair
from steward.templates.parts.stored_products import VariantTable

SOURCE, TARGET, COMPARE, SET = "read-source", "read-target", "compare-stock", "set-stock"
# Memory space: the number of variants of each source when it was last read completely.
_SOURCE_SIZE = "source"


class _SyncInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    source_integration_id: int
    match: str
    buffer: int
    mode: str


class _SourceStock(StepOutput, frozen=True):
    """The source's stock by key.

    After an event, `only` are the target's variants of the event, and `skus` the SKUs to read in both
    stores.
    """

    read: int
    rows: tuple[SourceRow, ...]
    only: frozenset[str] | None
    skus: tuple[str, ...] | None

    @property
    def needs_target(self) -> bool:
        """Whether any of the target's variants have to be read."""
        if self.only is None:
            return self.skus is None
        return bool(self.only) and self.skus != ()


class _TargetVariants(StepOutput, frozen=True):
    """The target's variants that a key of the source may refer to."""

    variants: VariantTable
    not_in_source: int


class _StockToSet(JsonRecord, frozen=True, array_like=True):
    """A stock number to set."""

    quantity: int
    message: str | None


class _ComparedStock(StepOutput, frozen=True):
    """The variants that get another number, and those left unchanged."""

    source_variants: int = 0
    matched: int = 0
    unchanged: int = 0
    not_in_source: int = 0
    refused: int = 0
    refused_rows: tuple[RefusedRow, ...] = ()
    variants: VariantTable = VariantTable()
    stock: tuple[_StockToSet, ...] = ()


async def _read_source(context: StepContext) -> StepResult:
    """Reads keys and numbers of the source; after an event, only of the event's variants.

    Raises StepFailed `source_too_small`.
    """
    options = _SyncInputs.from_json(context.inputs)
    source = context.accounts[IntegrationId(options.source_integration_id)]
    event_variants = await _event_variants(context)
    skus = _skus(event_variants, options.match)
    read: list[Variant] = []
    if skus != () and event_variants != []:
        with naming(source.connection.name):
            read = await stock.read_each_once(source.reader.read(VARIANTS, ProductsQuery(skus=skus)))
    memory = [await _checked_size(context, source, len(read))] if event_variants is None else []
    rows = [SourceRow.of(variant, options.match) for variant in read]
    output = _SourceStock(
        read=len(read),
        rows=tuple(row for row in rows if row.key),
        only=None if event_variants is None else frozenset(variant.id for variant in event_variants),
        skus=skus,
    )
    title = f"Read {counted(len(read), 'variant')} of {source.connection.name}"
    return output.as_result(title, read=len(read), memory=memory)


async def _read_target(context: StepContext) -> StepResult:
    """Reads this store's variants that a key of the source may refer to, at the location to write."""
    source = context.output(SOURCE, _SourceStock)
    match = str(context.inputs["match"])
    query = ProductsQuery(skus=source.skus, location=location_of(context))
    read: list[Variant] = []
    if source.needs_target:
        read = await stock.read_each_once(context.home.reader.read(VARIANTS, query))
    source_keys = {row.key.casefold() for row in source.rows}
    matchable: list[Variant] = []
    without_key = not_in_source = 0
    for variant in read:
        key = match_key(variant, match)
        if key.casefold() in source_keys:
            matchable.append(variant)
        elif not key:
            without_key += 1
        elif source.only is None or variant.id in source.only:
            not_in_source += 1
    name = {"sku": "SKU"}.get(match, match)
    message = f"{counted(without_key, 'variant')} without a {name} cannot be matched."
    return _TargetVariants(VariantTable(matchable), not_in_source).as_result(
        f"Read {counted(len(read), 'variant')} of {context.home.connection.name}",
        read=len(read),
        message=message if without_key else None,
    )


async def _compare_stock(context: StepContext) -> StepResult:
    """Decides which variants get another number, and which are left unchanged."""
    options = _SyncInputs.from_json(context.inputs)
    source, target = context.output(SOURCE, _SourceStock), context.output(TARGET, _TargetVariants)
    rules = PairRules(options.match, options.buffer, options.mode == "only_lower")
    paired = pair(target.variants, source.rows, rules, only=source.only)
    planned = context.home.plan("inventory.set", paired.commands)
    by_id = {command.variant.id: command.variant for command in paired.commands}
    for problem in planned.problems:
        key = match_key(by_id[problem.item], options.match)
        paired.refuse(key, problem.code, problem.message)
    skipped = {*(problem.item for problem in planned.problems), *planned.unchanged}
    commands = [command for command in paired.commands if command.variant.id not in skipped]
    unchanged, refused = paired.unchanged + len(planned.unchanged), len(paired.refused)
    output = _ComparedStock(
        source_variants=source.read,
        matched=unchanged + len(commands),
        unchanged=unchanged,
        not_in_source=target.not_in_source + paired.not_in_source,
        refused=refused,
        refused_rows=tuple(paired.refused[: results.RESULT_ENTRIES]),
        variants=VariantTable(command.variant for command in commands),
        stock=tuple(_StockToSet(command.quantity, command.message) for command in commands),
    )
    return output.as_result(
        f"Found {counted(len(commands), 'number')} to set",
        matched=len(commands),
        message=f"{counted(refused, 'variant')} left alone." if refused else None,
    )


async def set_stock(context: StepContext) -> StepResult:
    """Proposes the numbers. Raises TooManyChanges."""
    compared = context.output(COMPARE, _ComparedStock)
    commands = [
        SetStock(variant, number.quantity, number.message)
        for variant, number in zip(compared.variants, compared.stock, strict=True)
    ]
    proposals = context.home.plan("inventory.set", commands).proposals
    context.check_limit(len(proposals))
    title = f"Set the stock of {counted(len(proposals), 'variant')}"
    return StepResult({}, title=title, proposals=proposals)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    compared = ended.output(COMPARE, _ComparedStock)
    absent, refused = compared.not_in_source, compared.refused
    if_none = "No stock differs from the other store." if ended.has_ended(SET) else "No stock was set."
    text = sentences(
        ended.changes_sentence(SET, "stock number", "set", if_none=if_none),
        if_any(absent, f"{counted(absent, 'variant')} {verb(absent, 'is', 'are')} not in the other store."),
        if_any(refused, f"{counted(refused, 'variant')} {verb(refused, 'was', 'were')} left alone."),
    )
    result = {
        "source_variants": compared.source_variants,
        "matched": compared.matched,
        "changed": ended.applied(SET),
        "unchanged": compared.unchanged,
        "not_in_source": absent,
        "refused": refused,
        "refused_rows": compared.refused_rows,
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Requires a source other than the automation's own store, and one location to write."""
    errors = dict(location_errors(values, setup.store))
    if setup.store is not None and values["source_integration_id"] == setup.store.integration_id:
        errors["inputs.source_integration_id"] = ["Name another store than the one it runs on."]
    return errors


async def _event_variants(context: StepContext) -> list[Variant] | None:
    """Returns the variants of the run's event; None for a run without an event."""
    event = context.event
    if event is None:
        return None
    variants: list[Variant] = []
    for product in await stock.read_products(context, published_only=False):
        targets = {unit.id for unit in stock.units_of(product) if stock.in_event(event, unit)}
        if product.sellable:
            variants += [variant for variant in product.variants if variant.stock_target in targets]
    return variants


def _skus(event_variants: Sequence[Variant] | None, match: str) -> tuple[str, ...] | None:
    """Returns the SKUs to read in both stores; None to read everything, as barcodes cannot be searched."""
    if event_variants is None or match != "sku":
        return None
    return tuple(sorted({variant.sku for variant in event_variants if match_key(variant, match)}))


async def _checked_size(context: StepContext, source: AccountAccess, count: int) -> MemoryWrite:
    """Checks that the source is neither empty nor less than half the size that the last live run read."""
    key = str(source.connection.integration_id)
    remembered = (await context.memory.all(_SOURCE_SIZE)).get(key)
    before = remembered if isinstance(remembered, int) else 0
    if count == 0 or count * 2 < before:
        message = f"{source.connection.name} has {counted(count, 'variant')}"
        message += f", where it had {before} before." if before else "."
        raise StepFailed("source_too_small", f"{message} Nothing was changed. Check that store first.")
    return MemoryWrite(_SOURCE_SIZE, key, count)


TEMPLATE = base.define(
    "sync-stock-between-stores",
    "Stock from another store",
    "Sets this store's stock by SKU from another store.",
    category=base.Category.STOCK,
    connections=(base.ConnectionNeed("store", base.ConnectionUse.READ, 1, 1),),
    inputs=inputs.inputs_schema(
        ["source_integration_id"],
        {
            "source_integration_id": inputs.shared("integration_id", "The store stock is read from"),
            "match": inputs.shared("match", "What products are matched by"),
            "buffer": inputs.integer("Held back from the source's number", 0, 1000, default=0),
            "location": {
                **LOCATION_INPUT,
                "description": "Location by name in the target (Shopify); null: its only active one",
            },
            "mode": inputs.choice("only_lower: never raise the target", "set", "only_lower", default="set"),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("source_variants", "matched", "changed", "unchanged", "not_in_source", "refused"),
        refused_rows=results.REFUSED_ROWS,
    ),
    steps=(
        base.read_step(SOURCE, "Read the other store", _read_source),
        base.read_step(TARGET, "Read this store", _read_target),
        base.decide_step(COMPARE, "Compare by SKU", _compare_stock),
        base.change_step(SET, "Set the stock", set_stock),
    ),
    topics=("inventory_levels/update",),
    schedule=Schedule(Cadence.HOURLY),
    changes=(base.ChangeRow(SET, "inventory", Action.UPDATE, (base.STOCK,), shown_beside=("source stock",)),),
    example={
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
    finish=finish,
    check_setup=check_setup,
)
