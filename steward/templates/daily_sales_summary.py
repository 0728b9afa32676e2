"""Daily sales summary: posts yesterday's figures and top products to Teams (templates 5.11)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from steward.connectors.base.commands import PostCard
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult
from steward.templates.base import (
    Category,
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
    whole,
)
from steward.templates.parts.days import window_of
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.messages import post_card
from steward.templates.parts.numbers import change_percent, money_text, percent_text
from steward.templates.parts.results import AMOUNT, COUNT, TEXT, list_of, or_null, result_schema
from steward.templates.parts.sales import add_up, best, read_window, titles_of_best

READ, ADD, SEND = "read-orders", "add-up", "send-summary"
_DAYS_BEFORE = {"day_before": 1, "week_before": 7}
_WORDS = {"day_before": "the day before", "week_before": "the same day a week before"}

_INPUTS = inputs_schema(
    ["teams"],
    {
        "teams": shared("teams", "Where the message goes"),
        "compare": {
            "enum": ["day_before", "week_before", "none"],
            "default": "day_before",
            "description": "What to compare with",
        },
        "top": {
            "type": "integer",
            "minimum": 0,
            "maximum": 20,
            "default": 5,
            "description": "How many top products",
        },
        "currency_note": {
            "type": "boolean",
            "default": True,
            "description": "Name the currency and say how other currencies were counted",
        },
    },
)

_RESULT = result_schema(
    {
        "day": TEXT,
        "orders": COUNT,
        "sales": AMOUNT,
        "refunds": AMOUNT,
        "currency": TEXT,
        "compared_sales": or_null(TEXT),
        "top": list_of({"label": TEXT, "quantity": COUNT, "sales": AMOUNT}),
    }
)


async def read_orders(at: StepContext) -> StepResult:
    """Yesterday's orders and refunds, and the orders of the day compared with (E16)."""
    store, day = at.home, at.day - timedelta(days=1)
    top: Any = at.inputs["top"]
    found = await read_window(store, *window_of(day, at.zone))
    titles = await titles_of_best(store, add_up(found).lines, top)
    compared: JsonValue = None
    back = _DAYS_BEFORE.get(str(at.inputs["compare"]))
    if back is not None:
        other = window_of(day - timedelta(days=back), at.zone)
        compared = await read_window(store, *other, refunds=False)
    orders = add_up(found).orders
    return StepResult(
        {"day": day.isoformat(), "sold": found, "titles": titles, "compared": compared},
        counts=Counts(read=orders),
        title=f"Read {counted(orders, 'order')} of {day.isoformat()}",
    )


async def add_them_up(at: StepContext) -> StepResult:
    """The day's figures, and its best products."""
    read: Any = at.outputs[READ]
    top: Any = at.inputs["top"]
    sums = add_up(read["sold"])
    money = sums.currency
    before = None if read["compared"] is None else add_up(read["compared"]).sales
    products = best(sums.lines, read["titles"], top)
    return StepResult(
        {
            "day": read["day"],
            "orders": sums.orders,
            "sales": money_text(sums.sales, money),
            "refunds": money_text(sums.refunds, money),
            "currency": money,
            "compared_sales": None if before is None else money_text(before, money),
            "change": percent_text(change_percent(before, sums.sales)) if before else None,
            "apart": sums.apart,
            "top": [
                {"label": each.title, "quantity": each.quantity, "sales": money_text(each.sales, money)}
                for each in products
            ],
        },
        counts=Counts(matched=sums.orders),
        title=f"Added up {counted(sums.orders, 'order')}",
    )


async def send_summary(at: StepContext) -> StepResult:
    """One message; a day without orders is told as well."""
    found: Any = at.outputs[ADD]
    unit = f" {found['currency']}" if at.inputs["currency_note"] else ""
    facts = [
        ("Orders", str(found["orders"])),
        ("Sales", f"{found['sales']}{unit}"),
        ("Refunds", f"{found['refunds']}{unit}"),
    ]
    if found["compared_sales"] is not None:
        change = f" ({found['change']})" if found["change"] else ""
        compared = _WORDS[str(at.inputs["compare"])].capitalize()
        facts.append((compared, f"{found['compared_sales']}{unit}{change}"))
    facts += [
        (f"{place}. {each['label']}", f"{each['quantity']} sold for {each['sales']}{unit}")
        for place, each in enumerate(found["top"], start=1)
    ]
    note = _note(at, found["apart"]) if at.inputs["currency_note"] else None
    title = f"Sales of {found['day']} at {at.home.connection.name}"
    return post_card(at, PostCard(title=title, text=(note,) if note else (), facts=tuple(facts)))


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(ADD)
    orders, money = whole(found.get("orders")), found.get("currency", "")
    result = {
        "day": found.get("day", ""),
        "orders": orders,
        "sales": found.get("sales", "0"),
        "refunds": found.get("refunds", "0"),
        "currency": money,
        "compared_sales": found.get("compared_sales"),
        "top": found.get("top", []),
    }
    text = sentences(
        f"{counted(orders, 'order')} on {result['day']}: sales {result['sales']} {money},"
        f" refunds {result['refunds']} {money}."
        if found
        else None,
        ended.message_sentence(SEND),
    )
    return run_summary(text, result)


def _note(at: StepContext, apart: Mapping[str, int]) -> str:
    """How other currencies were counted (E13)."""
    if apart:
        named = ", ".join(f"{number} in {currency}" for currency, number in sorted(apart.items()))
        return f"Orders in other currencies are counted and not in the sums: {named}."
    if at.home.platform == "shopify":
        return "Orders placed in another currency count with their amount in the store's currency."
    return "No order was in another currency."


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="daily-sales-summary",
        template_version=1,
        name="Daily sales summary",
        description="Posts yesterday's orders, sales, refunds and top products to Teams.",
        category=Category.REPORTS,
        platforms=("shopify", "woocommerce"),
        connections=(ConnectionNeed("teams", ConnectionUse.WRITE, 1, 1),),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read the orders", StepKind.READ),
            StepFacts(ADD, "Add up", StepKind.DECIDE),
            StepFacts(SEND, "Post the summary", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.DAILY, time_of_day="07:30"),
        changes=(),
        example_result={
            "day": "2026-11-19",
            "orders": 14,
            "sales": "812.40",
            "refunds": "20.00",
            "currency": "EUR",
            "compared_sales": "640.00",
            "top": [{"label": "Earl Grey", "quantity": 9, "sales": "71.10"}],
        },
    ),
    steps={READ: read_orders, ADD: add_them_up, SEND: send_summary},
    finish=finish,
)
