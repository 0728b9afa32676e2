"""Sales across stores: posts yesterday's sales of each store and their total."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal

from msgspec import field

from steward.connectors.base.commands import PostCard
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.scheduling.words import day_words
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results, sales
from steward.templates.parts.across import labels_of, naming, stores_of
from steward.templates.parts.ages import day_window
from steward.templates.parts.messages import post_card
from steward.templates.parts.numbers import money_text

READ, ADD, SEND = "read-stores", "add-up", "send-summary"


class _SalesAcrossInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    currency: str
    rates: dict[str, str]


class _StoreSales(StepOutput, frozen=True):
    """The orders and refunds of each store on a day."""

    day: str
    labels: tuple[str, ...]
    stores: tuple[sales.SalesWindow, ...]


class _StoreFigures(JsonRecord, frozen=True):
    """A store's figures in its own currency, as the result lists them."""

    label: str
    orders: int
    sales: str
    refunds: str
    currency: str

    @property
    def words(self) -> str:
        """The figures in words, with refunds only if there are any."""
        message = f"{counted(self.orders, 'order')}, sales {f'{self.sales} {self.currency}'.rstrip()}"
        if self.refunds.strip("0.") == "":
            return message
        return f"{message}, refunds {f'{self.refunds} {self.currency}'.rstrip()}"


class _SummedSales(StepOutput, frozen=True):
    """Each store's figures and their sum; `without_rate` are the stores that are not part of the sum."""

    day: str = ""
    total: str = "0"
    stores: tuple[_StoreFigures, ...] = ()
    without_rate: tuple[str, ...] = ()
    rates: dict[str, str] = field(default_factory=dict)
    other_currencies: tuple[str, ...] = ()


async def read_stores(context: StepContext) -> StepResult:
    """Reads yesterday's orders and refunds of each store; the day is in the automation's time zone."""
    day = context.day - timedelta(days=1)
    accounts = stores_of(context)
    labels = labels_of(accounts)
    stores: list[sales.SalesWindow] = []
    for label, account in zip(labels, accounts, strict=True):
        with naming(label):
            stores.append(await sales.read_window(account, *day_window(day, context.zone)))
    orders = sum(len(store.orders) for store in stores)
    output = _StoreSales(day.isoformat(), tuple(labels), tuple(stores))
    return output.as_result(
        f"Read {counted(orders, 'order')} of {counted(len(labels), 'store')}", read=orders
    )


async def add_them_up(context: StepContext) -> StepResult:
    """Adds up each store in its own currency, and all stores with a rate together."""
    options = _SalesAcrossInputs.from_json(context.inputs)
    read = context.output(READ, _StoreSales)
    rates_by_currency = {**options.rates, options.currency: "1"}
    sums = [(label, sales.add_up(store)) for label, store in zip(read.labels, read.stores, strict=True)]
    rated = _with_rates([store for _, store in sums], rates_by_currency)
    total = sum((store.sales * Decimal(rate) for store, rate in rated), Decimal(0))
    output = _SummedSales(
        day=read.day,
        total=money_text(total, options.currency),
        stores=tuple(_figures(label, store) for label, store in sums),
        without_rate=tuple(label for label, store in sums if store.currency not in rates_by_currency),
        rates={store.currency: rate for store, rate in rated if store.currency != options.currency},
        other_currencies=tuple(_other_words(sums)),
    )
    return output.as_result(f"Added up {counted(len(rated), 'store')}", matched=len(sums))


def _with_rates(
    stores: Sequence[sales.SalesSums], rates_by_currency: Mapping[str, str]
) -> list[tuple[sales.SalesSums, str]]:
    """Returns the stores whose currency has a rate, each with the rate."""
    return [
        (store, rates_by_currency[store.currency]) for store in stores if store.currency in rates_by_currency
    ]


async def send_summary(context: StepContext) -> StepResult:
    """Posts one message, even about a day without orders."""
    summed = context.output(ADD, _SummedSales)
    currency = _SalesAcrossInputs.from_json(context.inputs).currency
    facts = [(store.label, store.words) for store in summed.stores]
    facts.append(("Together", f"{summed.total} {currency}"))
    text: list[str] = []
    if summed.rates:
        rates = (f"1 {code} as {rate} {currency}" for code, rate in sorted(summed.rates.items()))
        text.append(f"Added up with {', '.join(rates)}.")
    if summed.without_rate:
        text.append(f"Not in the sum, because there is no exchange rate: {', '.join(summed.without_rate)}.")
    if summed.other_currencies:
        message = "Orders in other currencies are counted and not in the sums"
        text.append(f"{message}: {'; '.join(summed.other_currencies)}.")
    title = f"Sales of {day_words(date.fromisoformat(summed.day))}"
    return post_card(context, PostCard(title, text=tuple(text), facts=tuple(facts)))


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    summed = ended.output(ADD, _SummedSales)
    currency = _SalesAcrossInputs.from_json(ended.inputs).currency
    unrated = len(summed.without_rate)
    orders = sum(store.orders for store in summed.stores)
    text = sentences(
        f"{counted(orders, 'order')} of {counted(len(summed.stores), 'store')}"
        f" on {day_words(date.fromisoformat(summed.day))}: sales {summed.total} {currency} together."
        if ended.has_ended(ADD)
        else None,
        if_any(
            unrated,
            f"{counted(unrated, 'store')} without a rate {verb(unrated, 'is', 'are')} not in the sum.",
        ),
        ended.message_sentence(SEND),
    )
    result = {
        "day": summed.day,
        "stores": summed.stores,
        "total": summed.total,
        "currency": currency,
        "apart": unrated,
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, _: base.SetupContext) -> FieldErrors:
    """Rejects a rate other than 1 for the currency of the sum."""
    options = _SalesAcrossInputs.from_json(values)
    currency, rate = options.currency, options.rates.get(options.currency)
    if rate is not None and Decimal(rate) != 1:
        return {"inputs.rates": [f"One {currency} is one {currency}: leave its rate out, or give 1."]}
    return {}


def _figures(label: str, sums: sales.SalesSums) -> _StoreFigures:
    total, refunds = (money_text(amount, sums.currency) for amount in (sums.sales, sums.refunds))
    return _StoreFigures(label, sums.orders, total, refunds, sums.currency)


def _other_words(sums: Sequence[tuple[str, sales.SalesSums]]) -> Iterator[str]:
    for label, store in sums:
        for currency, number in sorted(store.other_currencies.items()):
            yield f"{label}: {number} in {currency}"


_STORE = {"label": results.TEXT, "orders": results.COUNT, "sales": results.AMOUNT, "refunds": results.AMOUNT}
TEMPLATE = base.define(
    "sales-summary-across-stores",
    "Sales across stores",
    "Posts yesterday's sales of each store and together.",
    category=base.Category.REPORTS,
    platforms=(),
    connections=(base.STORES_TO_READ, base.TEAMS),
    inputs=inputs.inputs_schema(
        ["teams", "currency"],
        {
            "teams": inputs.shared("teams", "Where the message goes"),
            "currency": {"type": "string", "pattern": "^[A-Z]{3}$", "description": "Currency of the sum"},
            "rates": {
                "type": "object",
                "maxProperties": 20,
                "propertyNames": {"pattern": "^[A-Z]{3}$"},
                "additionalProperties": {
                    "type": "string",
                    "pattern": r"^(?!0+(\.0+)?$)[0-9]{1,6}(\.[0-9]{1,8})?$",
                },
                "default": {},
                "description": "Currency to what one unit is worth in `currency`",
            },
        },
    ),
    result=results.result_schema(
        {
            "day": results.TEXT,
            "stores": results.list_of({**_STORE, "currency": results.TEXT}),
            "total": results.AMOUNT,
            "currency": results.TEXT,
            "apart": results.COUNT,
        }
    ),
    steps=(
        base.read_step(READ, "Read each store's orders", read_stores),
        base.decide_step(ADD, "Add up", add_them_up),
        base.send_step(SEND, "Post the summary", send_summary),
    ),
    schedule=Schedule(Cadence.DAILY, time_of_day="07:45"),
    example={
        "day": "2026-11-19",
        "stores": [{"label": "Shop DE", "orders": 14, "sales": "812.40", "refunds": "0", "currency": "EUR"}],
        "total": "812.40",
        "currency": "EUR",
        "apart": 1,
    },
    finish=finish,
    check_setup=check_setup,
)
