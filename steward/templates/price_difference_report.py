"""Price differences: lists SKUs whose price differs between stores."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from steward.connectors.base.commands import PostCard
from steward.connectors.base.records import Cell, Variant
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.across import StoreVariants, key_name, keyed_variants, spellings
from steward.templates.parts.numbers import amount_of, change_percent, money_text, percent_text
from steward.templates.parts.reports import SheetReport, send_report

READ, COMPARE, SEND = "read-stores", "compare-prices", "send-report"


class _StoredPrice(JsonRecord, frozen=True):
    """A variant's price as its store returns it."""

    currency: str
    price: str | None


class _StorePrices(StoreVariants[_StoredPrice], frozen=True):
    """The prices of each store's published variants."""


class _DifferingPrice(JsonRecord, frozen=True):
    """A key whose prices differ within a currency; `prices` are by store."""

    key: str
    title: str
    currency: str
    lowest: str
    highest: str
    percent: str | None
    prices: tuple[str | None, ...]


class _AmbiguousRow(JsonRecord, frozen=True):
    """A key with two prices in one store."""

    key: str
    title: str
    prices: tuple[str | None, ...]


class _ComparedPrices(StepOutput, frozen=True):
    """The result of the comparison."""

    labels: tuple[str, ...] = ()
    compared: int = 0
    different: int = 0
    other_currency: int = 0
    rows: tuple[_DifferingPrice, ...] = ()
    ambiguous: tuple[_AmbiguousRow, ...] = ()


async def read_stores(context: StepContext) -> StepResult:
    """Reads the prices of each store's published variants by key."""
    read = await keyed_variants(context, published_only=True, value_of=_price_of)
    without = read.without_key
    message = f"{counted(without, 'variant')} without a {key_name(context.inputs['match'])} left out."
    return read.as_result(
        f"Read {counted(read.count, 'price')} of {counted(len(read.labels), 'store')}",
        read=read.count + without,
        message=message if without else None,
    )


async def compare_prices(context: StepContext) -> StepResult:
    """Finds the keys whose prices differ within a currency, and those with two prices in one store."""
    read = context.output(READ, _StorePrices)
    tolerance = Decimal(str(context.inputs["tolerance"]))
    names, joined = read.names(), read.by_key()
    compared = different = other_currency = 0
    rows: list[_DifferingPrice] = []
    ambiguous: list[_AmbiguousRow] = []
    for key, variants in joined.items():
        stores = [_prices(prices) for prices in variants]
        if any(len(prices) > 1 for store in stores for prices in store.values()):
            ambiguous.append(_AmbiguousRow(key, names[key], tuple(map(_several_words, stores))))
            continue
        by_currency = _by_currency(stores)
        other_currency += len(by_currency) > 1
        compared += any(len(prices) > 1 for prices in by_currency.values())
        key_rows = list(_differing(key, names[key], by_currency, tolerance, len(stores)))
        different += bool(key_rows)
        rows += key_rows
    output = _ComparedPrices(read.labels, compared, different, other_currency, tuple(rows), tuple(ambiguous))
    similar = ", ".join(sorted(spellings(joined))[:10])
    return output.as_result(
        f"Found {counted(different, 'different price')}",
        matched=different,
        message=f"Not compared with each other, since their capitals differ: {similar}." if similar else None,
    )


async def send(context: StepContext) -> StepResult:
    """Sends the list to the sheet and to the channel; without a difference, sends no message."""
    compared = context.output(COMPARE, _ComparedPrices)
    name = key_name(context.inputs["match"])
    labels = [f"Price: {label}" for label in compared.labels]
    header = (name, "Product", "Currency", "Lowest", "Highest", "Difference", *labels, "Note")
    rows: list[tuple[Cell, ...]] = [
        (
            *(row.key, row.title, row.currency, Decimal(row.lowest), Decimal(row.highest), row.percent),
            *(*map(_cell, row.prices), None),
        )
        for row in compared.rows
    ]
    note = "two prices in one store, not compared"
    rows += [
        (double.key, double.title, None, None, None, None, *map(_cell, double.prices), note)
        for double in compared.ambiguous
    ]
    card = _card(compared, name) if compared.rows else None
    return await send_report(context, SheetReport(header, rows, "No price differs."), card)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    output = ended.output(COMPARE, _ComparedPrices)
    different, ambiguous = output.different, len(output.ambiguous)
    text = sentences(
        f"{different} of {counted(output.compared, key_name(ended.inputs['match']))} compared"
        f" {verb(different, 'differs', 'differ')} in price.",
        if_any(ambiguous, f"{ambiguous} not compared: two prices in one store."),
        ended.report_sentence(SEND),
    )
    result = {
        "stores": len(output.labels),
        "compared": output.compared,
        "different": different,
        "other_currency": output.other_currency,
        "ambiguous": ambiguous,
        "rows": [
            {"key": row.key, "lowest": row.lowest, "highest": row.highest, "currency": row.currency}
            for row in output.rows
        ],
    }
    return base.run_summary(text, result)


def _card(compared: _ComparedPrices, name: str) -> PostCard:
    ambiguous = len(compared.ambiguous)
    has = verb(compared.different, "has", "have")
    return PostCard(
        title=f"{counted(compared.different, name)} {has} different prices",
        text=(f"{counted(ambiguous, name)} with two prices in one store not compared.",) if ambiguous else (),
        facts=tuple((f"{row.key}, {row.title}", _range_words(row)) for row in compared.rows),
    )


def _range_words(row: _DifferingPrice) -> str:
    return f"{row.lowest} to {row.highest} {row.currency}{f' ({row.percent})' if row.percent else ''}"


def _price_of(variant: Variant) -> _StoredPrice:
    return _StoredPrice(variant.currency or "", variant.price)


def _prices(stored: Sequence[_StoredPrice]) -> dict[str, set[Decimal]]:
    """Returns the prices of one store by currency, without missing and invalid amounts."""
    prices: dict[str, set[Decimal]] = defaultdict(set)
    for price in stored:
        amount = amount_of(price.price)
        if amount is not None:
            prices[price.currency].add(amount)
    return dict(prices)


def _several_words(store: Mapping[str, set[Decimal]]) -> str | None:
    amounts = (money_text(price, currency) for currency, prices in store.items() for price in sorted(prices))
    return ", ".join(amounts) or None


def _by_currency(stores: Sequence[Mapping[str, set[Decimal]]]) -> dict[str, dict[int, Decimal]]:
    """Returns each store's one price, by currency and the store's index."""
    by_currency: dict[str, dict[int, Decimal]] = defaultdict(dict)
    for index, store in enumerate(stores):
        for currency, prices in store.items():
            by_currency[currency][index] = next(iter(prices))
    return by_currency


def _differing(
    key: str, title: str, by_currency: Mapping[str, Mapping[int, Decimal]], tolerance: Decimal, stores: int
) -> Iterator[_DifferingPrice]:
    """Yields a row for each currency in which the prices differ by more percent than `tolerance`."""
    for currency, prices in sorted(by_currency.items()):
        low, high = min(prices.values()), max(prices.values())
        # From a lowest price of 0, any difference counts.
        if low == high or (low != 0 and change_percent(low, high) <= tolerance):
            continue
        percent = percent_text(change_percent(low, high)) if low else None
        texts = {index: money_text(price, currency) for index, price in prices.items()}
        yield _DifferingPrice(
            *(key, title, currency, money_text(low, currency), money_text(high, currency), percent),
            tuple(texts.get(index) for index in range(stores)),
        )


def _cell(price: str | None) -> Cell:
    """Returns a price as a number, which can be sorted and added up; several prices as text."""
    number = amount_of(price)
    return price if number is None else number


TEMPLATE = base.define(
    "price-difference-report",
    "Price differences",
    "Lists SKUs whose price differs between stores.",
    category=base.Category.REPORTS,
    platforms=(),
    connections=(base.STORES_TO_READ, *base.REPORT_NEEDS),
    inputs=inputs.inputs_schema(
        [],
        {
            "tolerance": {
                "type": "number",
                "minimum": 0,
                "maximum": 95,
                "default": 0,
                "description": "Percent that may differ",
            },
            "match": inputs.shared("match", "What products are matched by"),
            "sheet": inputs.shared("sheet", "Write the list to this sheet"),
            "teams": inputs.shared("teams", "Post the list to this channel"),
        },
        conditions=inputs.SHEET_OR_TEAMS,
    ),
    result=results.counts_schema(
        *("stores", "compared", "different", "other_currency", "ambiguous"),
        rows=results.list_of(
            {
                "key": results.TEXT,
                "lowest": results.AMOUNT,
                "highest": results.AMOUNT,
                "currency": results.TEXT,
            }
        ),
    ),
    steps=(
        base.read_step(READ, "Read each store's prices", read_stores),
        base.decide_step(COMPARE, "Compare by SKU", compare_prices),
        base.send_step(SEND, "Send the list", send),
    ),
    schedule=Schedule(Cadence.WEEKLY, time_of_day="07:00", day_of_week=1),
    example={
        "stores": 2,
        "compared": 500,
        "different": 1,
        "other_currency": 0,
        "ambiguous": 0,
        "rows": [{"key": "TEA-1", "lowest": "7.90", "highest": "8.40", "currency": "EUR"}],
    },
    finish=finish,
)
