"""Prices from a spreadsheet: sets prices by SKU from a sheet (templates 5.2)."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import Keep, SetPrice
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.model.change import Action
from steward.model.ids import IntegrationId
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult, StoreAccess
from steward.steps.rows import cell_to_json, named_rows, read_table
from steward.steps.skus import Skus, key_of
from steward.templates.base import (
    COMPARE_AT_PRICE,
    PRICE,
    Category,
    ChangeRow,
    ConnectionNeed,
    ConnectionUse,
    EndedRun,
    RunSummary,
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
from steward.templates.parts.results import COUNT, REFUSED_ROW, RESULT_ENTRIES, list_of, result_schema
from steward.templates.parts.sheet_prices import PriceRow, PriceRules, Refused, Wanted, join_rows
from steward.templates.parts.stored_products import kept_variants, variants_of

SHEET, STORE, COMPARE, CHANGE = "read-sheet", "read-variants", "compare-prices", "change-prices"

_INPUTS = inputs_schema(
    ["sheet", "sku_column", "price_column"],
    {
        "sheet": shared("sheet", "Spreadsheet (and tab) it uses"),
        "sku_column": shared("column", "Header of the SKU column", default="SKU"),
        "price_column": shared("column", "Header of the price column", default="Price"),
        "compare_at_column": {
            "anyOf": [{"$ref": "#/$defs/column"}, {"type": "null"}],
            "default": None,
            "description": "Header of the compare-at column; null: compare-at is left alone",
        },
        "number_format": shared("number_format", "How numbers typed as text are read"),
        "max_change_percent": shared(
            "percent", "A row that changes a price by more than this is refused", default=30
        ),
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("rows", "matched", "changed", "unchanged", "not_found", "refused")
_RESULT = result_schema({**dict.fromkeys(_COUNTS, COUNT), "refused_rows": list_of(REFUSED_ROW)})


async def read_sheet(at: StepContext) -> StepResult:
    """The rows that hold something, and of them the named columns (E4)."""
    sheet: Any = at.inputs["sheet"]
    account = at.accounts[IntegrationId(sheet["integration_id"])]
    names: list[Any] = [at.inputs[each] for each in ("sku_column", "price_column", "compare_at_column")]
    table = await read_table(account, sheet["tab"], sheet.get("spreadsheet_id"))
    rows = named_rows(table, names)
    return StepResult(
        {"tab": table.tab, "rows": [[row.number, *map(cell_to_json, row.cells)] for row in rows]},
        counts=Counts(read=len(rows)),
        title=f"Read {counted(len(rows), 'row')} of the sheet",
    )


async def read_variants(at: StepContext) -> StepResult:
    """Every variant of the store; kept are those a SKU of the sheet could mean (E10)."""
    store = at.home
    wanted = {key_of(row.sku).casefold() for row in _rows(at)} - {""}
    seen: set[str] = set()
    kept: list[Variant] = []
    without = 0
    async for page in store.reader.read(VARIANTS, ProductsQuery()):
        for variant in page.items:
            if variant.id in seen:
                continue
            seen.add(variant.id)
            key = key_of(variant.sku)
            without += not key
            if key.casefold() in wanted:
                kept.append(variant)
    return StepResult(
        {"read": len(seen), "without_sku": without, "variants": kept_variants(kept)},
        counts=Counts(read=len(seen)),
        title=f"Read {counted(len(seen), 'variant')} of the store",
        message=f"{counted(without, 'variant')} without a SKU cannot be matched." if without else None,
    )


async def compare_prices(at: StepContext) -> StepResult:
    """Which rows can be used, and which of those change something."""
    store = at.home
    rows = _rows(at)
    read: Any = at.outputs[STORE]
    most: Any = at.inputs["max_change_percent"]
    rules = PriceRules(
        currency=store.connection.currency,
        form=str(at.inputs["number_format"]),
        with_compare_at=at.inputs["compare_at_column"] is not None,
        most_percent=Decimal(str(most)),
    )
    wanted, refused, not_found = join_rows(rows, Skus(variants_of(read["variants"])), rules)
    planned = _plan(store, [each.ask() for each in wanted])
    by_variant = {each.variant.id: each for each in wanted}
    for problem in planned.problems:
        row = by_variant[problem.item]
        refused.append(Refused(row.row, row.variant.sku, problem.code, problem.message))
    changing = {proposal.object.id for proposal in planned.proposals}
    asked = [each for each in wanted if each.variant.id in changing]
    matched = len(planned.proposals) + len(planned.unchanged)
    refused.sort(key=lambda each: each.row)
    return StepResult(
        {
            "rows": len(rows),
            "matched": matched,
            "unchanged": len(planned.unchanged),
            "not_found": not_found,
            "refused": len(refused),
            "refused_rows": [each.to_wire() for each in refused[:RESULT_ENTRIES]],
            "asks": [_kept(each) for each in asked],
            "variants": kept_variants(each.variant for each in asked),
        },
        counts=Counts(matched=len(asked)),
        title=f"Found {counted(len(asked), 'price')} to change",
        message=f"{counted(len(refused), 'row')} refused." if refused else None,
    )


async def change_prices(at: StepContext) -> StepResult:
    """Proposes the prices. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[COMPARE]
    at.check_limit(len(found["asks"]))
    planned = _plan(at.home, _asks(found["asks"], variants_of(found["variants"])))
    return StepResult(
        {},
        title=f"Change {counted(len(planned.proposals), 'price')}",
        proposals=planned.proposals,
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(COMPARE)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["changed"] = ended.applied(CHANGE)
    rows: Any = found.get("refused_rows", [])
    none = "No price differs from the sheet." if found.get("asks") == [] else "No price was changed."
    gone = counts["not_found"]
    text = sentences(
        ended.changes_sentence(CHANGE, "price", "changed", none=none),
        f"{counted(gone, 'SKU')} of the sheet {verb(gone, 'is', 'are')} not in the store." if gone else None,
        f"{counted(counts['refused'], 'row')} of the sheet {verb(counts['refused'], 'was', 'were')} refused."
        if counts["refused"]
        else None,
    )
    return run_summary(text, {**counts, "refused_rows": rows})


def _rows(at: StepContext) -> list[PriceRow]:
    output: Any = at.outputs[SHEET]
    return [PriceRow.of(row) for row in output["rows"]]


def _plan(store: StoreAccess, asks: Sequence[SetPrice]) -> PlannedChanges:
    return store.changes["variant.set_price"].plan(asks, integration_id=store.connection.integration_id)


def _kept(wanted: Wanted) -> JsonValue:
    # A list, since null removes the compare-at price and an absent one leaves it alone.
    compare: list[JsonValue] = [] if isinstance(wanted.compare_at, Keep) else [wanted.compare_at]
    return [wanted.price, compare, wanted.message]


def _asks(kept: Sequence[Any], variants: Sequence[Variant]) -> list[SetPrice]:
    return [
        SetPrice(variant, price, compare[0] if compare else Keep.KEEP, message=message)
        for (price, compare, message), variant in zip(kept, variants, strict=True)
    ]


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="price-update-from-spreadsheet",
        template_version=1,
        name="Prices from a spreadsheet",
        description="Sets prices by SKU from a sheet.",
        category=Category.PRICES,
        platforms=("shopify", "woocommerce"),
        connections=(ConnectionNeed("spreadsheet", ConnectionUse.READ, 1, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(SHEET, "Read the sheet", StepKind.READ),
            StepFacts(STORE, "Read the variants", StepKind.READ),
            StepFacts(COMPARE, "Compare and check the rows", StepKind.DECIDE),
            StepFacts(CHANGE, "Change the prices", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.DAILY, time_of_day="06:00"),
        changes=(
            ChangeRow(
                step=CHANGE,
                object="variant",
                action=Action.UPDATE,
                fields=(PRICE, COMPARE_AT_PRICE),
                reversible=True,
                shown_beside=("change in percent", "row number of the sheet"),
            ),
        ),
        example_result={
            "rows": 215,
            "matched": 212,
            "changed": 12,
            "unchanged": 200,
            "not_found": 2,
            "refused": 1,
            "refused_rows": [
                {
                    "row": 17,
                    "key": "TEA-9",
                    "code": "number_ambiguous",
                    "message": "1,234 can be read in two ways",
                }
            ],
        },
    ),
    steps={SHEET: read_sheet, STORE: read_variants, COMPARE: compare_prices, CHANGE: change_prices},
    finish=finish,
)
