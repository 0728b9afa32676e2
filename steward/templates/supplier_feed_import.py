"""Supplier file: sets stock and price from a supplier's file (templates 5.12)."""

import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.model.change import Action
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import MemoryWrite, StepContext, StepFailed, StepResult
from steward.steps.rows import cell_from_json, cell_to_json
from steward.steps.skus import Skus, key_of
from steward.templates.base import (
    PRICE,
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
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.locations import LOCATION_INPUT, location_faults, location_of
from steward.templates.parts.messages import account_of
from steward.templates.parts.results import COUNT, REFUSED_ROW, RESULT_ENTRIES, TEXT, list_of, result_schema
from steward.templates.parts.stored_products import kept_variants, variants_of
from steward.templates.parts.supplier_file import read_file, table_of
from steward.templates.parts.supplier_rows import (
    FeedRow,
    FeedRules,
    Joined,
    Wanted,
    join_feed,
    missing_ones,
    plan_rows,
)

FILE, STORE, COMPARE, CHANGE = "read-file", "read-variants", "compare-rows", "change-variants"
# Variants a live run matched before, and the file and inputs of the last live run that succeeded.
SUPPLIED, DONE = "supplied", "file"
# SKUs of that file the store did not have, by a short hash, with the file's mark.
NOT_FOUND = "not_found"
# How many of them are asked for by name; more are looked for among all variants.
_MAX_NAMED = 500

_INPUTS = inputs_schema(
    ["file", "sku_column"],
    {
        "file": shared("file", "The file in the cloud account"),
        "sku_column": shared("column", "Header of the SKU column", default="SKU"),
        "stock_column": shared("column", "Header of the stock column"),
        "price_column": shared("column", "Header of the price column"),
        "markup": {
            "type": "number",
            "minimum": 0,
            "maximum": 1000,
            "default": 0,
            "description": "Percent added to the file's price",
        },
        "number_format": shared("number_format", "How numbers are read"),
        "missing": {
            "enum": ["keep", "set_zero"],
            "default": "keep",
            "description": "Stock of this supplier's variants that the file no longer names",
        },
        "max_missing_percent": shared("percent", "More missing than this: nothing is done", default=20),
        "max_age_hours": {
            "type": "integer",
            "minimum": 1,
            "maximum": 720,
            "default": 48,
            "description": "An older file is refused",
        },
        "location": {
            **LOCATION_INPUT,
            "description": "Location by name (Shopify); null: the only active one",
        },
        "limit": {"$ref": "#/$defs/limit"},
    },
    conditions={"anyOf": [{"required": ["stock_column"]}, {"required": ["price_column"]}]},
)

_COUNTS = ("rows", "matched", "changed", "unchanged", "not_found", "missing", "refused")
_RESULT = result_schema(
    {"file_date": TEXT, **dict.fromkeys(_COUNTS, COUNT), "refused_rows": list_of(REFUSED_ROW)}
)


async def read(at: StepContext) -> StepResult:
    """The rows of the file. Of one that was imported already, those whose SKUs the store did not have: the
    others were applied, and their stock may have changed since by what was sold."""
    given: Any = at.inputs["file"]
    hours: Any = at.inputs["max_age_hours"]
    account = at.accounts[account_of(given)]
    content = await read_file(account, given["path"], most_age=timedelta(hours=hours), now=at.now)
    file = content.file
    date = f"{file.modified_at:%Y-%m-%dT%H:%M:%S}.000Z"
    mark = _mark(at.inputs, file.etag or date)
    again = (await at.memory.all(DONE)).get("mark") == mark
    left = {key for key, of in (await at.memory.all(NOT_FOUND)).items() if of == mark} if again else set()
    about: dict[str, JsonValue] = {"date": date, "mark": mark, "again": again}
    if again and not left:
        return StepResult(
            {**about, "same": True, "count": 0, "rows": [], "broken": []},
            title="The file is the one of the last run",
        )
    names: list[Any] = [at.inputs.get(each) for each in ("sku_column", "stock_column", "price_column")]
    table = table_of(
        content.body or b"", encoding=given["encoding"], delimiter=given["delimiter"], columns=names
    )
    rows = [row for row in table.rows if not again or _short(key_of(row.cells[0])) in left]
    count = len(rows) if again else table.count
    return StepResult(
        {
            **about,
            "same": False,
            "count": count,
            "rows": [[row.number, *map(cell_to_json, row.cells)] for row in rows],
            "broken": [] if again else list[JsonValue](table.broken),
        },
        counts=Counts(read=count),
        title=f"Read {counted(count, 'row')} of {_name(at)}{', not found before' if again else ''}",
    )


async def read_variants(at: StepContext) -> StepResult:
    """The variants that a SKU of the file could mean, and those the supplier had before (E10)."""
    output: Any = at.outputs[FILE]
    location = location_of(at) if _writes_stock(at.inputs) else None
    supplied = {} if output["again"] else await at.memory.all(SUPPLIED)
    keys, seen = _keys(output), set[str]()
    kept: list[Variant] = []
    named = (
        tuple(dict.fromkeys(key_of(cell_from_json(row[1])) for row in output["rows"]))
        if output["again"]
        else ()
    )
    skus = named if 0 < len(named) <= _MAX_NAMED else None
    if not output["same"]:
        async for page in at.home.reader.read(VARIANTS, ProductsQuery(skus=skus, location=location)):
            for variant in page.items:
                is_wanted = key_of(variant.sku).casefold() in keys or at.memory_key(variant.id) in supplied
                if variant.id not in seen and is_wanted:
                    kept.append(variant)
                seen.add(variant.id)
    return StepResult(
        {"variants": kept_variants(kept)},
        counts=Counts(read=len(seen)),
        title=f"Read {counted(len(seen), 'variant')} of the store",
    )


async def compare_rows(at: StepContext) -> StepResult:
    """Which rows can be used, what the file no longer names, and what of it changes something.

    Raises StepFailed `too_many_missing`.
    """
    file: Any = at.outputs[FILE]
    read_: Any = at.outputs[STORE]
    variants = variants_of(read_["variants"])
    supplied = await at.memory.all(SUPPLIED)
    joined = join_feed(_rows(file), Skus(variants), _rules(at)) if not file["same"] else Joined()
    joined.refused += file["broken"]
    missing = _missing(at, variants, supplied) if not file["again"] else []
    wanted = [*joined.wanted, *_zeroed(at, missing)]
    planned = plan_rows(at.home, wanted, beside=_beside(at))
    for each, problem in planned.problems:
        joined.refuse(each.row, each.variant.sku or None, problem.code, problem.message)
    asked = [each for each, _ in planned.changes]
    ok = [each for each in (*asked, *planned.unchanged) if each.row is not None]
    joined.refused.sort(key=lambda row: (row["row"] is None, row["row"] or 0))
    return StepResult(
        {
            "rows": file["count"] if ok or joined.refused or not file["again"] else 0,
            "matched": len(ok),
            "unchanged": sum(each.row is not None for each in planned.unchanged),
            "not_found": len(joined.not_found),
            "not_found_keys": [_short(key) for key in joined.not_found],
            "missing": len(missing),
            "refused": len(joined.refused),
            "refused_rows": list[JsonValue](joined.refused[:RESULT_ENTRIES]),
            "variants": kept_variants(each.variant for each in asked),
            "asks": [[each.row, each.stock, each.price, each.note] for each in asked],
        },
        counts=Counts(matched=len(asked)),
        title=f"Found {counted(len(asked), 'variant')} to change",
        message=f"{counted(len(joined.refused), 'row')} refused." if joined.refused else None,
        memory=tuple(
            MemoryWrite(SUPPLIED, key, True)
            for each in ok
            if (key := at.memory_key(each.variant.id)) not in supplied
        ),
    )


async def change_variants(at: StepContext) -> StepResult:
    """Proposes stock and prices. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[COMPARE]
    file: Any = at.outputs[FILE]
    variants = variants_of(found["variants"])
    wanted = [
        Wanted(row, variant, stock, price, note)
        for (row, stock, price, note), variant in zip(found["asks"], variants, strict=True)
    ]
    proposals = tuple(made for _, made in plan_rows(at.home, wanted, beside=_beside(at)).changes)
    at.check_limit(len(proposals))
    held = await at.memory.all(NOT_FOUND)
    left = found["not_found_keys"] if not file["same"] else []
    forgotten = [MemoryWrite(NOT_FOUND, key, None) for key in held.keys() - left]
    kept = [MemoryWrite(NOT_FOUND, key, file["mark"]) for key in left if held.get(key) != file["mark"]]
    return StepResult(
        {},
        title=f"Change {counted(len(proposals), 'variant')}",
        proposals=proposals,
        memory=(MemoryWrite(DONE, "mark", file["mark"]), *forgotten, *kept),
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    file, found = ended.output_of(FILE), ended.output_of(COMPARE)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["changed"] = ended.applied(CHANGE)
    rows: Any = found.get("refused_rows", [])
    is_same = file.get("same") is True or (file.get("again") is True and not found.get("rows"))
    gone, missing, refused = (counts[name] for name in ("not_found", "missing", "refused"))
    none = "Nothing differs from the file." if ended.ran(CHANGE) else "No variant was changed."
    none = "The file is the one of the last run." if is_same else none
    no_longer = f"{counted(missing, 'variant')} of the supplier {verb(missing, 'is', 'are')} no longer in it."
    text = sentences(
        ended.changes_sentence(CHANGE, "variant", "changed", none=none),
        f"{counted(gone, 'SKU')} of the file {verb(gone, 'is', 'are')} not in the store." if gone else None,
        no_longer if missing else None,
        f"{counted(refused, 'row')} {verb(refused, 'was', 'were')} refused." if refused else None,
    )
    date = file.get("date")
    about: dict[str, JsonValue] = {"file_date": date if isinstance(date, str) else "", **counts}
    return run_summary(text, {**about, "refused_rows": rows})


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """One location to write at, when stock is written (templates 5.12, E14)."""
    return location_faults(inputs, world.store) if _writes_stock(inputs) else {}


def _writes_stock(inputs: JsonObject) -> bool:
    return "stock_column" in inputs or inputs["missing"] == "set_zero"


def _mark(inputs: JsonObject, file: str) -> str:
    """The file and the inputs it was read with: with other inputs it is read again."""
    asked = json.dumps(inputs, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(f"{file}\n{asked}".encode()).hexdigest()


def _short(key: str) -> str:
    """A SKU as it is remembered: the memory's keys are short, and SKUs may be long."""
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def _rows(file: Any) -> list[FeedRow]:
    return [FeedRow(row[0], *map(cell_from_json, row[1:4])) for row in file["rows"]]


def _keys(file: Any) -> frozenset[str]:
    """Every SKU the file names, that of rows which cannot be used too: those are not missing."""
    named = [cell_from_json(row[1]) for row in file["rows"]] + [row["key"] for row in file["broken"]]
    return frozenset(key_of(each).casefold() for each in named) - {""}


def _rules(at: StepContext) -> FeedRules:
    return FeedRules(
        currency=at.home.connection.currency,
        form=str(at.inputs["number_format"]),
        with_stock="stock_column" in at.inputs,
        with_price="price_column" in at.inputs,
        markup=Decimal(str(at.inputs["markup"])),
    )


def _missing(at: StepContext, variants: Sequence[Variant], supplied: Any) -> list[Variant]:
    """Raises StepFailed `too_many_missing`."""
    found, his = missing_ones(variants, supplied, _keys(at.outputs[FILE]), prefix=at.memory_key(""))
    most = Decimal(str(at.inputs["max_missing_percent"]))
    if Decimal(len(found)) * 100 > most * his:
        words = f"{len(found)} of the supplier's {counted(his, 'variant')} are not in the file,"
        words += f" more than {most.normalize():f} %. Nothing was changed. Check the file first."
        raise StepFailed("too_many_missing", words)
    return found


def _zeroed(at: StepContext, missing: Sequence[Variant]) -> list[Wanted]:
    """What is missing gets a stock of 0 where that is asked for; without a number it is left alone (E8)."""
    if at.inputs["missing"] != "set_zero":
        return []
    counted_ = [each for each in missing if each.tracked and not each.backorders_allowed and each.stock]
    return [Wanted(None, each, 0, None, "No longer in the file.") for each in counted_]


def _beside(at: StepContext) -> str:
    file: Any = at.outputs[FILE]
    return f"{_name(at)} of {file['date'][:16].replace('T', ' ')} UTC"


def _name(at: StepContext) -> str:
    given: Any = at.inputs["file"]
    return str(given["path"]).rpartition("/")[2]


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="supplier-feed-import",
        template_version=1,
        name="Supplier file",
        description="Sets stock and price from a supplier's file.",
        category=Category.STOCK,
        platforms=("shopify", "woocommerce"),
        connections=(ConnectionNeed("cloud_s3", ConnectionUse.READ, 1, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(FILE, "Read the file", StepKind.READ),
            StepFacts(STORE, "Read the variants", StepKind.READ),
            StepFacts(COMPARE, "Check and compare the rows", StepKind.DECIDE),
            StepFacts(CHANGE, "Change stock and prices", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.DAILY, time_of_day="05:00"),
        changes=(
            ChangeRow(
                step=CHANGE,
                object="variant",
                action=Action.UPDATE,
                fields=(STOCK, PRICE),
                reversible=True,
                shown_beside=("file name", "file date", "row number"),
            ),
        ),
        example_result={
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
    ),
    steps={FILE: read, STORE: read_variants, COMPARE: compare_rows, CHANGE: change_variants},
    finish=finish,
    check_setup=check_world,
)
