"""Prices from a spreadsheet: sets prices by SKU from a sheet."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from steward.connectors.base.commands import Keep, SetPrice
from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.model.change import Action
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.steps.rows import cell_to_json, named_rows, read_table
from steward.steps.skus import Skus, key_of
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.messages import SheetInput
from steward.templates.parts.sheet_prices import PriceRow, PriceRules
from steward.templates.parts.sku_rows import RefusedRow, join_rows
from steward.templates.parts.stored_products import VariantTable

SHEET, STORE, COMPARE, CHANGE = "read-sheet", "read-variants", "compare-prices", "change-prices"


class _PriceSheetInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    sheet: SheetInput
    sku_column: str
    price_column: str
    compare_at_column: str | None
    number_format: str
    max_change_percent: Decimal


class _PriceRows(StepOutput, frozen=True):
    """The rows of the sheet that are not empty."""

    rows: tuple[PriceRow, ...]


class _MatchableVariants(StepOutput, frozen=True):
    """The variants that a SKU of the sheet may refer to."""

    variants: VariantTable


class _NewPrice(JsonRecord, frozen=True):
    """A price to set; `compare_at` is empty to leave it unchanged, or one value, where null removes it."""

    price: str
    compare_at: tuple[str | None, ...]
    message: str | None

    def command(self, variant: Variant) -> SetPrice:
        """Returns the command for the connector."""
        compare_at = self.compare_at[0] if self.compare_at else Keep.KEEP
        return SetPrice(variant, self.price, compare_at, message=self.message)


class _ComparedRows(StepOutput, frozen=True):
    """The usable rows with a change, and the refused rows."""

    rows: int = 0
    matched: int = 0
    unchanged: int = 0
    not_found: int = 0
    refused: int = 0
    refused_rows: tuple[RefusedRow, ...] = ()
    variants: VariantTable = VariantTable()
    prices: tuple[_NewPrice, ...] = ()

    def commands(self) -> Iterator[SetPrice]:
        """Yields the commands of the changes."""
        for price, variant in zip(self.prices, self.variants, strict=True):
            yield price.command(variant)


async def read_sheet(context: StepContext) -> StepResult:
    """Reads the named columns of the rows that are not empty."""
    options = _PriceSheetInputs.from_json(context.inputs)
    sheet = options.sheet
    table = await read_table(sheet.account(context), sheet.tab, sheet.spreadsheet_id)
    columns = [options.sku_column, options.price_column, options.compare_at_column]
    rows = tuple(PriceRow(row.number, *map(cell_to_json, row.cells)) for row in named_rows(table, columns))
    return _PriceRows(rows).as_result(f"Read {counted(len(rows), 'row')} of the sheet", read=len(rows))


async def read_variants(context: StepContext) -> StepResult:
    """Reads every variant of the store, and keeps those that a SKU of the sheet may refer to."""
    keys = {row.key.casefold() for row in context.output(SHEET, _PriceRows).rows} - {""}
    seen: set[str] = set()
    matchable: list[Variant] = []
    without_sku = 0
    async for page in context.home.reader.read(VARIANTS, ProductsQuery()):
        for variant in page.items:
            if variant.id in seen:
                continue
            seen.add(variant.id)
            key = key_of(variant.sku)
            without_sku += not key
            if key.casefold() in keys:
                matchable.append(variant)
    message = f"{counted(without_sku, 'variant')} without a SKU cannot be matched." if without_sku else None
    output = _MatchableVariants(VariantTable(matchable))
    return output.as_result(
        f"Read {counted(len(seen), 'variant')} of the store", read=len(seen), message=message
    )


async def compare_prices(context: StepContext) -> StepResult:
    """Decides which rows are usable, and which of them have a change."""
    options = _PriceSheetInputs.from_json(context.inputs)
    rows = context.output(SHEET, _PriceRows).rows
    rules = PriceRules(
        currency=context.home.connection.currency,
        number_format=options.number_format,
        with_compare_at=options.compare_at_column is not None,
        max_percent=options.max_change_percent,
    )
    skus = Skus(context.output(STORE, _MatchableVariants).variants)
    joined = join_rows(rows, skus, values_of=rules.values, update_of=rules.update)
    planned = context.home.plan("variant.set_price", [update.command for update in joined.updates])
    by_variant = {update.command.variant.id: update for update in joined.updates}
    for problem in planned.problems:
        update = by_variant[problem.item]
        joined.refuse(update.row, update.command.variant.sku, problem.code, problem.message)
    joined.refused.sort(key=lambda refused: refused.row or 0)
    changing = {proposal.object.id for proposal in planned.proposals}
    changes = [update.command for update in joined.updates if update.command.variant.id in changing]
    refused = len(joined.refused)
    output = _ComparedRows(
        rows=len(rows),
        matched=len(planned.proposals) + len(planned.unchanged),
        unchanged=len(planned.unchanged),
        not_found=len(joined.not_found),
        refused=refused,
        refused_rows=tuple(joined.refused[: results.RESULT_ENTRIES]),
        variants=VariantTable(command.variant for command in changes),
        prices=tuple(map(_new_price, changes)),
    )
    return output.as_result(
        f"Found {counted(len(changes), 'price')} to change",
        matched=len(changes),
        message=f"{counted(refused, 'row')} refused." if refused else None,
    )


async def change_prices(context: StepContext) -> StepResult:
    """Proposes the prices. Raises TooManyChanges."""
    commands: Sequence[SetPrice] = list(context.output(COMPARE, _ComparedRows).commands())
    context.check_limit(len(commands))
    proposals = context.home.plan("variant.set_price", commands).proposals
    return StepResult({}, title=f"Change {counted(len(proposals), 'price')}", proposals=proposals)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    compared = ended.output(COMPARE, _ComparedRows)
    missing, refused = compared.not_found, compared.refused
    is_equal = ended.has_ended(COMPARE) and not compared.prices
    if_none = "No price differs from the sheet." if is_equal else "No price was changed."
    text = sentences(
        ended.changes_sentence(CHANGE, "price", "changed", if_none=if_none),
        if_any(
            missing, f"{counted(missing, 'SKU')} of the sheet {verb(missing, 'is', 'are')} not in the store."
        ),
        if_any(refused, f"{counted(refused, 'row')} of the sheet {verb(refused, 'was', 'were')} refused."),
    )
    result = {
        "rows": compared.rows,
        "matched": compared.matched,
        "changed": ended.applied(CHANGE),
        "unchanged": compared.unchanged,
        "not_found": missing,
        "refused": refused,
        "refused_rows": compared.refused_rows,
    }
    return base.run_summary(text, result)


def _new_price(command: SetPrice) -> _NewPrice:
    compare_at = command.compare_at
    return _NewPrice(command.price, () if isinstance(compare_at, Keep) else (compare_at,), command.message)


TEMPLATE = base.define(
    "price-update-from-spreadsheet",
    "Prices from a spreadsheet",
    "Sets prices by SKU from a sheet.",
    category=base.Category.PRICES,
    connections=(base.SHEET_TO_READ,),
    inputs=inputs.inputs_schema(
        ["sheet", "sku_column", "price_column"],
        {
            "sheet": inputs.shared("sheet", "Spreadsheet (and tab) it uses"),
            "sku_column": inputs.shared("column", "Header of the SKU column", default="SKU"),
            "price_column": inputs.shared("column", "Header of the price column", default="Price"),
            "compare_at_column": {
                "anyOf": [{"$ref": "#/$defs/column"}, {"type": "null"}],
                "default": None,
                "description": "Header of the compare-at column; null: compare-at is left alone",
            },
            "number_format": inputs.shared("number_format", "How numbers typed as text are read"),
            "max_change_percent": inputs.shared(
                "percent", "A row that changes a price by more than this is refused", default=30
            ),
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("rows", "matched", "changed", "unchanged", "not_found", "refused"),
        refused_rows=results.REFUSED_ROWS,
    ),
    steps=(
        base.read_step(SHEET, "Read the sheet", read_sheet),
        base.read_step(STORE, "Read the variants", read_variants),
        base.decide_step(COMPARE, "Compare and check the rows", compare_prices),
        base.change_step(CHANGE, "Change the prices", change_prices),
    ),
    schedule=Schedule(Cadence.DAILY, time_of_day="06:00"),
    changes=(
        base.ChangeRow(
            CHANGE,
            "variant",
            Action.UPDATE,
            (base.PRICE, base.COMPARE_AT_PRICE),
            shown_beside=("change in percent", "row number of the sheet"),
        ),
    ),
    example={
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
    finish=finish,
)
