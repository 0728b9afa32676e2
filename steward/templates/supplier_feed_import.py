"""Supplier file: sets stock and prices from a supplier's file."""

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.model.change import Action
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, MemoryWrite, StepContext, StepFailed, StepOutput, StepResult
from steward.steps.rows import cell_to_json
from steward.steps.skus import Skus, key_of
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.locations import LOCATION_INPUT, location_errors, location_of
from steward.templates.parts.sku_rows import JoinedRows, RefusedRow, join_rows
from steward.templates.parts.stored_products import VariantTable
from steward.templates.parts.supplier_file import read_file, table_of
from steward.templates.parts.supplier_rows import (
    FeedRow,
    FeedRules,
    PlannedRows,
    VariantUpdate,
    missing_variants,
    plan_rows,
)

FILE, STORE, COMPARE, CHANGE = "read-file", "read-variants", "compare-rows", "change-variants"
# Memory spaces: variants that a live run matched; the file and inputs of the last successful live run; the
# SKUs of that file that the store did not have, by a short hash, with the file's digest.
SUPPLIED, IMPORTED, NOT_FOUND = "supplied", "file", "not_found"
# The maximum number of SKUs that are read by name; for more, all variants are read.
_MAX_NAMED = 500


class _FileInput(JsonRecord, frozen=True):
    """The input `file`."""

    integration_id: int
    path: str
    delimiter: str
    encoding: str

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.path.rpartition("/")[2]


class _FeedInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    file: _FileInput
    sku_column: str
    markup: Decimal
    number_format: str
    missing: str
    max_missing_percent: Decimal
    max_age_hours: int
    stock_column: str | None = None
    price_column: str | None = None

    @property
    def writes_stock(self) -> bool:
        """Whether stock is written."""
        return self.stock_column is not None or self.missing == "set_zero"


class _FeedFile(StepOutput, frozen=True):
    """The file's rows. `is_repeated`: it was imported before; only SKUs not found then are read again."""

    date: str = ""
    digest: str = ""
    is_repeated: bool = False
    count: int = 0
    rows: tuple[FeedRow, ...] = ()
    broken: tuple[RefusedRow, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether nothing of a repeated file remains to be imported."""
        return self.is_repeated and not self.rows

    @property
    def keys(self) -> frozenset[str]:
        """Every SKU in the file, including unusable rows, which do not count as missing."""
        named = [row.key for row in self.rows] + [key_of(row.key) for row in self.broken]
        return frozenset(key.casefold() for key in named) - {""}


class _FeedVariants(StepOutput, frozen=True):
    """The variants that a SKU of the file may refer to, and the supplier's earlier variants."""

    variants: VariantTable


class _UpdateValues(JsonRecord, frozen=True):
    """The values of an update; its variant is in a table."""

    row: int | None
    stock: int | None
    price: str | None
    note: str


class _ComparedFeed(StepOutput, frozen=True):
    """The usable rows with a change, the refused ones, and hashes of the SKUs that were not found."""

    rows: int = 0
    matched: int = 0
    unchanged: int = 0
    missing: int = 0
    refused: int = 0
    refused_rows: tuple[RefusedRow, ...] = ()
    not_found: tuple[str, ...] = ()
    variants: VariantTable = VariantTable()
    updates: tuple[_UpdateValues, ...] = ()

    def variant_updates(self) -> Iterator[VariantUpdate]:
        """Yields the updates with their variants."""
        for values, variant in zip(self.updates, self.variants, strict=True):
            yield VariantUpdate(values.row, variant, values.stock, values.price, values.note)


async def read(context: StepContext) -> StepResult:
    """Reads the rows of the file; of a repeated one, only those whose SKUs the store did not have.

    The other rows were applied, and sales may have changed their stock since.
    """
    options = _FeedInputs.from_json(context.inputs)
    account = context.accounts[IntegrationId(options.file.integration_id)]
    max_age = timedelta(hours=options.max_age_hours)
    content = await read_file(account, options.file.path, max_age=max_age, now=context.now)
    date = f"{content.file.modified_at:%Y-%m-%dT%H:%M:%S}.000Z"
    digest = _digest(context.inputs, content.file.etag or date)
    if (await context.memory.all(IMPORTED)).get("mark") == digest:
        return await _read_again(context, content.body or b"", date, digest)
    table = table_of(
        content.body or b"",
        encoding=options.file.encoding,
        delimiter=options.file.delimiter,
        columns=_columns(options),
    )
    rows = tuple(FeedRow(row.number, *map(cell_to_json, row.cells)) for row in table.rows)
    output = _FeedFile(date, digest, count=table.count, rows=rows, broken=tuple(table.broken))
    return output.as_result(f"Read {counted(table.count, 'row')} of {options.file.name}", read=table.count)


async def _read_again(context: StepContext, body: bytes, date: str, digest: str) -> StepResult:
    """Reads the rows of a repeated file whose SKUs the store did not have."""
    not_found = await context.memory.all(NOT_FOUND)
    hashes = {key for key, file_digest in not_found.items() if file_digest == digest}
    if not hashes:
        output = _FeedFile(date, digest, is_repeated=True)
        return output.as_result("The file is the one of the last run")
    options = _FeedInputs.from_json(context.inputs)
    table = table_of(
        body, encoding=options.file.encoding, delimiter=options.file.delimiter, columns=_columns(options)
    )
    rows = tuple(
        FeedRow(row.number, *map(cell_to_json, row.cells))
        for row in table.rows
        if _short_hash(key_of(row.cells[0])) in hashes
    )
    output = _FeedFile(date, digest, is_repeated=True, count=len(rows), rows=rows)
    title = f"Read {counted(len(rows), 'row')} of {options.file.name}, not found before"
    return output.as_result(title, read=len(rows))


async def read_variants(context: StepContext) -> StepResult:
    """Reads the variants that a SKU of the file may refer to, and the supplier's earlier variants."""
    file = context.output(FILE, _FeedFile)
    writes_stock = _FeedInputs.from_json(context.inputs).writes_stock
    location = location_of(context) if writes_stock else None
    supplied = {} if file.is_repeated else await context.memory.all(SUPPLIED)
    query = ProductsQuery(skus=_skus_to_read(file), location=location)
    seen: dict[str, Variant] = {}
    if not file.is_done:
        async for page in context.home.reader.read(VARIANTS, query):
            for variant in page.items:
                seen.setdefault(variant.id, variant)
    keys = file.keys
    relevant = [
        variant
        for variant in seen.values()
        if key_of(variant.sku).casefold() in keys or context.memory_key(variant.id) in supplied
    ]
    title = f"Read {counted(len(seen), 'variant')} of the store"
    return _FeedVariants(VariantTable(relevant)).as_result(title, read=len(seen))


def _skus_to_read(file: _FeedFile) -> tuple[str, ...] | None:
    """Returns the SKUs of a repeated file if they are few enough to name; None to read all variants."""
    skus = tuple(dict.fromkeys(row.key for row in file.rows)) if file.is_repeated else ()
    return skus if 0 < len(skus) <= _MAX_NAMED else None


async def _compare_rows(context: StepContext) -> StepResult:
    """Decides which rows are usable, which variants the file no longer names, and which have a change.

    Raises StepFailed `too_many_missing`.
    """
    file = context.output(FILE, _FeedFile)
    variants = list(context.output(STORE, _FeedVariants).variants)
    supplied = await context.memory.all(SUPPLIED)
    rules = _rules(context)
    joined: JoinedRows[VariantUpdate] = join_rows(
        file.rows, Skus(variants), values_of=rules.values, update_of=rules.update
    )
    joined.refused += file.broken
    missing = _missing(context, variants, supplied, file)
    updates = [*joined.updates, *_zeroed(context, missing)]
    planned = plan_rows(context.home, updates, source=_source(context))
    for update, problem in planned.problems:
        joined.refuse(update.row, update.variant.sku or None, problem.code, problem.message)
    joined.refused.sort(key=lambda refused: (refused.row is None, refused.row or 0))
    output = _compared(file, joined, planned, len(missing))
    keys = [context.memory_key(update.variant.id) for update in planned.matched]
    return output.as_result(
        f"Found {counted(len(planned.changes), 'variant')} to change",
        matched=len(planned.changes),
        message=if_any(output.refused, f"{counted(output.refused, 'row')} refused."),
        memory=[MemoryWrite(SUPPLIED, key, True) for key in keys if key not in supplied],
    )


def _compared(
    file: _FeedFile, joined: JoinedRows[VariantUpdate], planned: PlannedRows, missing: int
) -> _ComparedFeed:
    changing, matched, refused = planned.changing, planned.matched, len(joined.refused)
    return _ComparedFeed(
        rows=file.count if matched or refused or not file.is_repeated else 0,
        matched=len(matched),
        unchanged=sum(update.row is not None for update in planned.unchanged),
        missing=missing,
        refused=refused,
        refused_rows=tuple(joined.refused[: results.RESULT_ENTRIES]),
        not_found=tuple(map(_short_hash, joined.not_found)),
        variants=VariantTable(update.variant for update in changing),
        updates=tuple(
            _UpdateValues(update.row, update.stock, update.price, update.note) for update in changing
        ),
    )


async def _change_variants(context: StepContext) -> StepResult:
    """Proposes stock and prices. Raises TooManyChanges."""
    compared, file = context.output(COMPARE, _ComparedFeed), context.output(FILE, _FeedFile)
    planned = plan_rows(context.home, list(compared.variant_updates()), source=_source(context))
    proposals = tuple(proposal for _, proposal in planned.changes)
    context.check_limit(len(proposals))
    remembered = await context.memory.all(NOT_FOUND)
    not_found = set(compared.not_found)
    writes = [MemoryWrite(NOT_FOUND, key, None) for key in remembered.keys() - not_found]
    writes += [
        MemoryWrite(NOT_FOUND, key, file.digest)
        for key in compared.not_found
        if remembered.get(key) != file.digest
    ]
    return StepResult(
        {},
        title=f"Change {counted(len(proposals), 'variant')}",
        proposals=proposals,
        memory=(MemoryWrite(IMPORTED, "mark", file.digest), *writes),
    )


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    file, compared = ended.output(FILE, _FeedFile), ended.output(COMPARE, _ComparedFeed)
    not_found, missing, refused = len(compared.not_found), compared.missing, compared.refused
    text = sentences(
        ended.changes_sentence(CHANGE, "variant", "changed", if_none=_no_changes_sentence(ended)),
        if_any(
            not_found,
            f"{counted(not_found, 'SKU')} of the file {verb(not_found, 'is', 'are')} not in the store.",
        ),
        if_any(
            missing,
            f"{counted(missing, 'variant')} of the supplier {verb(missing, 'is', 'are')} no longer in it.",
        ),
        if_any(refused, f"{counted(refused, 'row')} {verb(refused, 'was', 'were')} refused."),
    )
    result = {
        "file_date": file.date,
        "rows": compared.rows,
        "matched": compared.matched,
        "changed": ended.applied(CHANGE),
        "unchanged": compared.unchanged,
        "not_found": not_found,
        "missing": missing,
        "refused": refused,
        "refused_rows": compared.refused_rows,
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Checks the location at which stock is written, if it is written."""
    return location_errors(values, setup.store) if _FeedInputs.from_json(values).writes_stock else {}


def _no_changes_sentence(ended: EndedRun) -> str:
    if ended.output(FILE, _FeedFile).is_repeated and not ended.output(COMPARE, _ComparedFeed).rows:
        return "The file is the one of the last run."
    return "Nothing differs from the file." if ended.has_ended(CHANGE) else "No variant was changed."


def _columns(options: _FeedInputs) -> list[str | None]:
    return [options.sku_column, options.stock_column, options.price_column]


def _digest(values: JsonObject, file: str) -> str:
    """Returns a digest of the file and the inputs; with other inputs, the file is read again."""
    options = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(f"{file}\n{options}".encode()).hexdigest()


def _short_hash(key: str) -> str:
    """Returns the short hash that represents a SKU in memory, whose keys are short."""
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def _rules(context: StepContext) -> FeedRules:
    options = _FeedInputs.from_json(context.inputs)
    return FeedRules(
        currency=context.home.connection.currency,
        number_format=options.number_format,
        with_stock=options.stock_column is not None,
        with_price=options.price_column is not None,
        markup=options.markup,
    )


def _missing(
    context: StepContext, variants: list[Variant], supplied: JsonObject, file: _FeedFile
) -> list[Variant]:
    """Returns the supplier's variants that the file no longer names; none for a repeated file.

    Raises StepFailed `too_many_missing`.
    """
    if file.is_repeated:
        return []
    missing, total = missing_variants(variants, supplied, file.keys, prefix=context.memory_key(""))
    max_percent = _FeedInputs.from_json(context.inputs).max_missing_percent
    if Decimal(len(missing)) * 100 > max_percent * total:
        message = f"{len(missing)} of the supplier's {counted(total, 'variant')} are not in the file,"
        message += f" more than {max_percent.normalize():f} %. Nothing was changed. Check the file first."
        raise StepFailed("too_many_missing", message)
    return missing


def _zeroed(context: StepContext, missing: list[Variant]) -> list[VariantUpdate]:
    """Returns updates to stock 0 for missing variants with a stock number, if the inputs request it."""
    if _FeedInputs.from_json(context.inputs).missing != "set_zero":
        return []
    return [
        VariantUpdate(None, variant, 0, None, "No longer in the file.")
        for variant in missing
        if variant.tracked and not variant.backorders_allowed and variant.stock
    ]


def _source(context: StepContext) -> str:
    """Returns the file's name and date, for the message of a change."""
    date = context.output(FILE, _FeedFile).date[:16].replace("T", " ")
    return f"{_FeedInputs.from_json(context.inputs).file.name} of {date} UTC"


TEMPLATE = base.define(
    "supplier-feed-import",
    "Supplier file",
    "Sets stock and price from a supplier's file.",
    category=base.Category.STOCK,
    connections=(base.ConnectionNeed("cloud_s3", base.ConnectionUse.READ, 1, 1),),
    inputs=inputs.inputs_schema(
        ["file", "sku_column"],
        {
            "file": inputs.shared("file", "The file in the cloud account"),
            "sku_column": inputs.shared("column", "Header of the SKU column", default="SKU"),
            "stock_column": inputs.shared("column", "Header of the stock column"),
            "price_column": inputs.shared("column", "Header of the price column"),
            "markup": {
                "type": "number",
                "minimum": 0,
                "maximum": 1000,
                "default": 0,
                "description": "Percent added to the file's price",
            },
            "number_format": inputs.shared("number_format", "How numbers are read"),
            "missing": inputs.choice(
                "Stock of this supplier's variants that the file no longer names",
                *("keep", "set_zero"),
                default="keep",
            ),
            "max_missing_percent": inputs.shared(
                "percent", "More missing than this: nothing is done", default=20
            ),
            "max_age_hours": inputs.integer("An older file is refused", 1, 720, default=48),
            "location": {
                **LOCATION_INPUT,
                "description": "Location by name (Shopify); null: the only active one",
            },
            "limit": inputs.LIMIT,
        },
        conditions={"anyOf": [{"required": ["stock_column"]}, {"required": ["price_column"]}]},
    ),
    result=results.result_schema(
        {
            "file_date": results.TEXT,
            **dict.fromkeys(
                ("rows", "matched", "changed", "unchanged", "not_found", "missing", "refused"), results.COUNT
            ),
            "refused_rows": results.REFUSED_ROWS,
        }
    ),
    steps=(
        base.read_step(FILE, "Read the file", read),
        base.read_step(STORE, "Read the variants", read_variants),
        base.decide_step(COMPARE, "Check and compare the rows", _compare_rows),
        base.change_step(CHANGE, "Change stock and prices", _change_variants),
    ),
    schedule=Schedule(Cadence.DAILY, time_of_day="05:00"),
    changes=(
        base.ChangeRow(
            CHANGE,
            "variant",
            Action.UPDATE,
            (base.STOCK, base.PRICE),
            shown_beside=("file name", "file date", "row number"),
        ),
    ),
    example={
        "file_date": "2026-11-20T03:10:00.000Z",
        "rows": 1200,
        "matched": 1188,
        "changed": 64,
        "unchanged": 1124,
        "not_found": 12,
        "missing": 3,
        "refused": 0,
        "refused_rows": [],
    },
    finish=finish,
    check_setup=check_setup,
)
