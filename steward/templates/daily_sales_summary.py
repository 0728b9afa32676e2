"""Daily sales summary: posts yesterday's figures and top products to a channel for messages."""

from collections.abc import Mapping
from datetime import date, timedelta

from msgspec import field

from steward.connectors.base.commands import PostCard
from steward.model.schedule import Cadence, Schedule
from steward.scheduling.words import day_words
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, sentences
from steward.templates.parts import inputs, results, sales
from steward.templates.parts.ages import day_window
from steward.templates.parts.messages import post_card
from steward.templates.parts.numbers import change_percent, money_text, percent_text

READ, ADD, SEND = "read-orders", "add-up", "send-summary"
_DAYS_BEFORE = {"day_before": 1, "week_before": 7}
_HEADINGS = {"day_before": "The day before", "week_before": "The same day a week before"}


class _DailySalesInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    compare: str
    top: int
    currency_note: bool


class _SalesDay(StepOutput, frozen=True):
    """The orders of a day, the titles of its top products, and the orders of the day to compare with."""

    day: str
    sold: sales.SalesWindow
    titles: dict[str, str | None]
    compared: sales.SalesWindow | None


class _TopProduct(JsonRecord, frozen=True):
    """A top product, as the result lists it."""

    label: str
    quantity: int
    sales: str


class _DayFigures(StepOutput, frozen=True):
    """The figures of a day; `change` is in percent of the day to compare with."""

    day: str = ""
    orders: int = 0
    sales: str = "0"
    refunds: str = "0"
    currency: str = ""
    compared_sales: str | None = None
    top: tuple[_TopProduct, ...] = ()
    change: str | None = None
    other_currencies: dict[str, int] = field(default_factory=dict)


async def read_orders(context: StepContext) -> StepResult:
    """Reads yesterday's orders and refunds, and the orders of the day to compare with."""
    options = _DailySalesInputs.from_json(context.inputs)
    store, day = context.home, context.day - timedelta(days=1)
    sold = await sales.read_window(store, *day_window(day, context.zone))
    sums = sales.add_up(sold)
    titles = await sales.titles_of_top_products(store, sums.lines, options.top)
    compared = None
    if options.compare in _DAYS_BEFORE:
        compared_day = day - timedelta(days=_DAYS_BEFORE[options.compare])
        window = day_window(compared_day, context.zone)
        compared = await sales.read_window(store, *window, refunds=False)
    output = _SalesDay(day.isoformat(), sold, titles, compared)
    return output.as_result(f"Read {counted(sums.orders, 'order')} of {day_words(day)}", read=sums.orders)


async def add_them_up(context: StepContext) -> StepResult:
    """Adds up the day's figures and ranks its top products."""
    read = context.output(READ, _SalesDay)
    sums = sales.add_up(read.sold)
    currency = sums.currency
    before = None if read.compared is None else sales.add_up(read.compared).sales
    products = sales.top_products(sums.lines, read.titles, _DailySalesInputs.from_json(context.inputs).top)
    output = _DayFigures(
        day=read.day,
        orders=sums.orders,
        sales=money_text(sums.sales, currency),
        refunds=money_text(sums.refunds, currency),
        currency=currency,
        compared_sales=None if before is None else money_text(before, currency),
        change=percent_text(change_percent(before, sums.sales)) if before else None,
        other_currencies=dict(sums.other_currencies),
        top=tuple(
            _TopProduct(product.title, product.quantity, money_text(product.sales, currency))
            for product in products
        ),
    )
    return output.as_result(f"Added up {counted(sums.orders, 'order')}", matched=sums.orders)


async def send_summary(context: StepContext) -> StepResult:
    """Posts one message, even about a day without orders."""
    options = _DailySalesInputs.from_json(context.inputs)
    figures = context.output(ADD, _DayFigures)
    unit = f" {figures.currency}" if options.currency_note else ""
    facts = [
        ("Orders", str(figures.orders)),
        ("Sales", f"{figures.sales}{unit}"),
        ("Refunds", f"{figures.refunds}{unit}"),
    ]
    if figures.compared_sales is not None:
        change = f" ({figures.change})" if figures.change else ""
        facts.append((_HEADINGS[options.compare], f"{figures.compared_sales}{unit}{change}"))
    facts += [
        (f"{rank}. {product.label}", f"{product.quantity} sold for {product.sales}{unit}")
        for rank, product in enumerate(figures.top, start=1)
    ]
    note = (_currency_note(context, figures.other_currencies),) if options.currency_note else ()
    title = f"Sales of {day_words(date.fromisoformat(figures.day))} at {context.home.connection.name}"
    return post_card(context, PostCard(title=title, text=note, facts=tuple(facts)))


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    figures = ended.output(ADD, _DayFigures)
    currency = figures.currency
    text = sentences(
        f"{counted(figures.orders, 'order')} on {day_words(date.fromisoformat(figures.day))}:"
        f" sales {figures.sales} {currency}, refunds {figures.refunds} {currency}."
        if ended.has_ended(ADD)
        else None,
        ended.message_sentence(SEND),
    )
    fields = ("day", "orders", "sales", "refunds", "currency", "compared_sales", "top")
    return base.run_summary(text, {name: getattr(figures, name) for name in fields})


def _currency_note(context: StepContext, other_currencies: Mapping[str, int]) -> str:
    """Returns a note on orders in other currencies."""
    if other_currencies:
        counts = ", ".join(f"{number} in {currency}" for currency, number in sorted(other_currencies.items()))
        return f"Orders in other currencies are counted and not in the sums: {counts}."
    if context.home.platform == "shopify":
        return "Orders placed in another currency count with their amount in the store's currency."
    return "No order was in another currency."


TEMPLATE = base.define(
    "daily-sales-summary",
    "Daily sales summary",
    "Posts yesterday's orders, sales, refunds and top products to Teams.",
    category=base.Category.REPORTS,
    connections=(base.TEAMS,),
    inputs=inputs.inputs_schema(
        ["teams"],
        {
            "teams": inputs.shared("teams", "Where the message goes"),
            "compare": inputs.choice(
                "What to compare with", "day_before", "week_before", "none", default="day_before"
            ),
            "top": inputs.integer("How many top products", 0, 20, default=5),
            "currency_note": inputs.flag(
                "Name the currency and say how other currencies were counted", default=True
            ),
        },
    ),
    result=results.result_schema(
        {
            "day": results.TEXT,
            "orders": results.COUNT,
            "sales": results.AMOUNT,
            "refunds": results.AMOUNT,
            "currency": results.TEXT,
            "compared_sales": results.or_null(results.TEXT),
            "top": results.list_of(
                {"label": results.TEXT, "quantity": results.COUNT, "sales": results.AMOUNT}
            ),
        }
    ),
    steps=(
        base.read_step(READ, "Read the orders", read_orders),
        base.decide_step(ADD, "Add up", add_them_up),
        base.send_step(SEND, "Post the summary", send_summary),
    ),
    schedule=Schedule(Cadence.DAILY, time_of_day="07:30"),
    example={
        "day": "2026-11-19",
        "orders": 14,
        "sales": "812.40",
        "refunds": "20.00",
        "currency": "EUR",
        "compared_sales": "640.00",
        "top": [{"label": "Earl Grey", "quantity": 9, "sales": "71.10"}],
    },
    finish=finish,
)
