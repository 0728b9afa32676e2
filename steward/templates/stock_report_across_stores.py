"""Stock across stores: one table of stock by SKU over several stores."""

from collections.abc import Sequence
from decimal import Decimal

from steward.connectors.base.commands import PostCard
from steward.connectors.base.records import Cell, Variant
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.across import StoreVariants, key_name, keyed_variants, spellings
from steward.templates.parts.reports import SheetReport, send_report

READ, JOIN, SEND = "read-stores", "join-stock", "send-report"
_NOT_TRACKED = "not tracked"


class _StockReportInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    low_only: bool
    threshold: int
    match: str


class _StoredStock(JsonRecord, frozen=True):
    """A stock number and the name of its variant; null when stock is not counted."""

    target: str
    stock: int | None


class _StoreStock(StoreVariants[_StoredStock], frozen=True):
    """The stock of each store's variants."""


class _StockRow(JsonRecord, frozen=True):
    """A key with a cell for each store, null for a store without the key."""

    key: str
    name: str
    cells: tuple[int | str | None, ...]
    note: str | None = None


class _JoinedStock(StepOutput, frozen=True):
    """The table, and the rows for the message: the cells at or below the level, in words."""

    labels: tuple[str, ...] = ()
    skus: int = 0
    only_in_one: int = 0
    ambiguous: int = 0
    rows: tuple[_StockRow, ...] = ()
    low: tuple[_StockRow, ...] = ()


async def read_stores(context: StepContext) -> StepResult:
    """Reads the stock of each store's variants by key, drafts included."""
    read = await keyed_variants(context, published_only=False, value_of=_stock_of)
    without = read.without_key
    message = f"{counted(without, 'variant')} without a {key_name(context.inputs['match'])} left out."
    return read.as_result(
        f"Read the stock of {counted(read.count, 'variant')} of {counted(len(read.labels), 'store')}",
        read=read.count + without,
        message=message if without else None,
    )


async def _join_stock(context: StepContext) -> StepResult:
    """Joins the stores into a table with a row for each key."""
    options = _StockReportInputs.from_json(context.inputs)
    read = context.output(READ, _StoreStock)
    names, joined = read.names(), read.by_key()
    similar = spellings(joined)
    rows: list[_StockRow] = []
    low: list[_StockRow] = []
    for key, stores in joined.items():
        low_words = tuple(_low_words(stock, options.threshold) for stock in stores)
        is_low = any(words is not None for words in low_words)
        if is_low:
            low.append(_StockRow(key, names[key], low_words))
        if is_low or not options.low_only:
            rows.append(_StockRow(key, names[key], tuple(map(_cell, stores)), _note(similar.get(key))))
    output = _JoinedStock(
        labels=read.labels,
        skus=len(joined),
        only_in_one=sum(sum(map(bool, stores)) == 1 for stores in joined.values()),
        ambiguous=sum(any(len(stock) > 1 for stock in stores) for stores in joined.values()),
        rows=tuple(rows),
        low=tuple(low),
    )
    return output.as_result(f"Joined {counted(len(joined), key_name(options.match))}", matched=len(low))


async def send(context: StepContext) -> StepResult:
    """Sends the table to the sheet, and low numbers, if any, to the channel."""
    options = _StockReportInputs.from_json(context.inputs)
    joined = context.output(JOIN, _JoinedStock)
    name, threshold = key_name(options.match), options.threshold
    header = (name, "Product", *(f"Stock: {label}" for label in joined.labels), "Note")
    rows = [(row.key, row.name, *map(_sheet_cell, row.cells), row.note) for row in joined.rows]
    if_none = f"None is at or under {threshold}." if options.low_only else "No stock was found."
    card = None
    if joined.low:
        number = len(joined.low)
        card = PostCard(
            title=f"{counted(number, name)} {verb(number, 'is', 'are')} at or under {threshold}",
            facts=tuple((f"{row.key}, {row.name}", _stores_words(joined.labels, row)) for row in joined.low),
        )
    return await send_report(context, SheetReport(header, rows, if_none), card)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    options = _StockReportInputs.from_json(ended.inputs)
    joined = ended.output(JOIN, _JoinedStock)
    stores, low, single, double = len(joined.labels), len(joined.low), joined.only_in_one, joined.ambiguous
    text = sentences(
        f"{counted(joined.skus, key_name(options.match))} in {counted(stores, 'store')},"
        f" {low} at or under {options.threshold}.",
        if_any(single, f"{single} {verb(single, 'is', 'are')} in one store only."),
        if_any(double, f"{double} {verb(double, 'stands', 'stand')} twice in a store."),
        ended.report_sentence(SEND),
    )
    result = {
        "stores": stores,
        "skus": joined.skus,
        "low": low,
        "only_in_one": single,
        "ambiguous": double,
    }
    return base.run_summary(text, result)


def _stock_of(variant: Variant) -> _StoredStock:
    counts = variant.tracked and not variant.backorders_allowed
    return _StoredStock(variant.stock_target, variant.stock if counts else None)


def _numbers(stock: Sequence[_StoredStock]) -> list[int | None]:
    """Returns the stock numbers of a key in one store; counts a number that several variants share once."""
    return list({number.target: number.stock for number in stock}.values())


def _sum(stock: Sequence[_StoredStock]) -> int | None:
    """Returns the stock, as the sum of several numbers with negative ones as 0; None without a number."""
    numbers = [number for number in _numbers(stock) if number is not None]
    if len(_numbers(stock)) == 1 or not numbers:
        return numbers[0] if numbers else None
    return sum(max(number, 0) for number in numbers)


def _low_words(stock: Sequence[_StoredStock], threshold: int) -> str | None:
    number = _sum(stock)
    return _words(stock) if number is not None and number <= threshold else None


def _words(stock: Sequence[_StoredStock]) -> str:
    """Returns a store's stock in words, with the number of variants when it is a sum."""
    number = _sum(stock)
    words = _NOT_TRACKED if number is None else str(number)
    if len(stock) < 2:
        return words
    untracked = sum(single is None for single in _numbers(stock)) if number is not None else 0
    return f"{words} ({len(stock)} variants{f', {untracked} {_NOT_TRACKED}' if untracked else ''})"


def _note(spellings_of_key: Sequence[str] | None) -> str | None:
    return f"also written {', '.join(spellings_of_key)}" if spellings_of_key is not None else None


def _cell(stock: Sequence[_StoredStock]) -> int | str | None:
    """Returns a number, words for a sum or no number, or null for a store without the key."""
    if not stock:
        return None
    number = _sum(stock)
    return number if number is not None and len(stock) == 1 else _words(stock)


def _sheet_cell(cell: int | str | None) -> Cell:
    return Decimal(cell) if isinstance(cell, int) else cell


def _stores_words(labels: Sequence[str], row: _StockRow) -> str:
    cells = zip(labels, row.cells, strict=True)
    return ", ".join(f"{label}: {stock}" for label, stock in cells if stock is not None)


TEMPLATE = base.define(
    "stock-report-across-stores",
    "Stock across stores",
    "One table of stock by SKU over several stores.",
    category=base.Category.REPORTS,
    platforms=(),
    connections=(base.STORES_TO_READ, *base.REPORT_NEEDS),
    inputs=inputs.inputs_schema(
        [],
        {
            "low_only": inputs.flag("Only SKUs at or under the level in some store"),
            "threshold": inputs.integer("The level", 0, 100000, default=5),
            "match": inputs.shared("match", "What products are matched by"),
            "sheet": inputs.shared("sheet", "Write the table to this sheet"),
            "teams": inputs.shared("teams", "Post the low ones to this channel"),
        },
        conditions=inputs.SHEET_OR_TEAMS,
    ),
    result=results.counts_schema("stores", "skus", "low", "only_in_one", "ambiguous"),
    steps=(
        base.read_step(READ, "Read each store", read_stores),
        base.decide_step(JOIN, "Join by SKU", _join_stock),
        base.send_step(SEND, "Send the table", send),
    ),
    schedule=Schedule(Cadence.DAILY, time_of_day="07:00"),
    example={"stores": 3, "skus": 900, "low": 12, "only_in_one": 40, "ambiguous": 2},
    finish=finish,
)
