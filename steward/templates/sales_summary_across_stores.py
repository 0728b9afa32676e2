"""Sales across stores: posts yesterday's sales of each store and together (templates 5.20)."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import PostCard
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
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
from steward.templates.parts.across import labels_of, naming, stores_of
from steward.templates.parts.days import window_of
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.messages import post_card
from steward.templates.parts.numbers import money_text
from steward.templates.parts.results import AMOUNT, COUNT, TEXT, list_of, result_schema
from steward.templates.parts.sales import add_up, read_window

READ, ADD, SEND = "read-stores", "add-up", "send-summary"

_INPUTS = inputs_schema(
    ["teams", "currency"],
    {
        "teams": shared("teams", "Where the message goes"),
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
)

_STORE = {"label": TEXT, "orders": COUNT, "sales": AMOUNT, "refunds": AMOUNT, "currency": TEXT}
_RESULT = result_schema(
    {"day": TEXT, "stores": list_of(_STORE), "total": AMOUNT, "currency": TEXT, "apart": COUNT}
)


async def read_stores(at: StepContext) -> StepResult:
    """Yesterday's orders and refunds of each store, the day being the automation's (E16)."""
    day = at.day - timedelta(days=1)
    accounts = stores_of(at)
    labels = labels_of(accounts)
    found: list[JsonValue] = []
    for label, account in zip(labels, accounts, strict=True):
        with naming(label):
            found.append(await read_window(account, *window_of(day, at.zone)))
    orders = sum(add_up(each).orders for each in found)
    return StepResult(
        {"day": day.isoformat(), "labels": labels, "stores": found},
        counts=Counts(read=orders),
        title=f"Read {counted(orders, 'order')} of {counted(len(labels), 'store')}",
    )


async def add_them_up(at: StepContext) -> StepResult:
    """Each store in its own currency, and the sum of those whose worth is known."""
    read: Any = at.outputs[READ]
    wanted = str(at.inputs["currency"])
    rates: Any = at.inputs["rates"]
    total, apart = Decimal(0), []
    stores: list[JsonValue] = []
    used: dict[str, JsonValue] = {}
    odd: list[JsonValue] = []
    for label, found in zip(read["labels"], read["stores"], strict=True):
        sums = add_up(found)
        rate = "1" if sums.currency == wanted else rates.get(sums.currency)
        if rate is None:
            apart.append(label)
        else:
            total += sums.sales * Decimal(rate)
            if sums.currency != wanted:
                used[sums.currency] = rate
        odd += [f"{label}: {number} in {currency}" for currency, number in sorted(sums.apart.items())]
        stores.append(
            {
                "label": label,
                "orders": sums.orders,
                "sales": money_text(sums.sales, sums.currency),
                "refunds": money_text(sums.refunds, sums.currency),
                "currency": sums.currency,
            }
        )
    return StepResult(
        {
            "day": read["day"],
            "stores": stores,
            "total": money_text(total, wanted),
            "apart": apart,
            "rates": used,
            "odd": odd,
        },
        counts=Counts(matched=len(stores)),
        title=f"Added up {counted(len(stores) - len(apart), 'store')}",
    )


async def send_summary(at: StepContext) -> StepResult:
    """One message; a day without orders is told as well."""
    found: Any = at.outputs[ADD]
    facts = [
        (each["label"], f"{counted(each['orders'], 'order')}, sales {_amount(each, 'sales')}")
        if each["refunds"].strip("0.") == ""
        else (
            each["label"],
            f"{counted(each['orders'], 'order')}, sales {_amount(each, 'sales')},"
            f" refunds {_amount(each, 'refunds')}",
        )
        for each in found["stores"]
    ]
    wanted, text = at.inputs["currency"], []
    facts.append(("Together", f"{found['total']} {wanted}"))
    if found["rates"]:
        rates = (f"1 {of} as {rate} {wanted}" for of, rate in sorted(found["rates"].items()))
        text.append(f"Added up with {', '.join(rates)}.")
    if found["apart"]:
        text.append(f"Not in the sum, for want of a rate: {', '.join(found['apart'])}.")
    if found["odd"]:
        words = "Orders in other currencies are counted and not in the sums"
        text.append(f"{words}: {'; '.join(found['odd'])}.")
    card = PostCard(title=f"Sales of {found['day']}", text=tuple(text), facts=tuple(facts))
    return post_card(at, card)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(ADD)
    stores: Any = found.get("stores", [])
    apart: Any = found.get("apart", [])
    result = {
        "day": found.get("day", ""),
        "stores": stores,
        "total": found.get("total", "0"),
        "currency": ended.inputs["currency"],
        "apart": len(apart),
    }
    orders = sum(whole(each["orders"]) for each in stores)
    text = sentences(
        f"{counted(orders, 'order')} of {counted(len(stores), 'store')} on {result['day']}:"
        f" sales {result['total']} {result['currency']} together."
        if found
        else None,
        f"{counted(len(apart), 'store')} without a rate {verb(len(apart), 'is', 'are')} not in the sum."
        if apart
        else None,
        ended.message_sentence(SEND),
    )
    return run_summary(text, result)


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """What the schema cannot say: the currency of the sum is worth itself."""
    rates, currency = inputs["rates"], str(inputs["currency"])
    own = rates.get(currency) if isinstance(rates, dict) else None
    if own is not None and Decimal(str(own)) != 1:
        return {"inputs.rates": [f"One {currency} is one {currency}: leave its rate out, or give 1."]}
    return {}


def _amount(store: Any, name: str) -> str:
    return f"{store[name]} {store['currency']}".rstrip()


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="sales-summary-across-stores",
        template_version=1,
        name="Sales across stores",
        description="Posts yesterday's sales of each store and together.",
        category=Category.REPORTS,
        platforms=(),
        connections=(
            ConnectionNeed("store", ConnectionUse.READ, 2, 10),
            ConnectionNeed("teams", ConnectionUse.WRITE, 1, 1),
        ),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read each store's orders", StepKind.READ),
            StepFacts(ADD, "Add up", StepKind.DECIDE),
            StepFacts(SEND, "Post the summary", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.DAILY, time_of_day="07:45"),
        changes=(),
        example_result={
            "day": "2026-11-19",
            "stores": [
                {"label": "Shop DE", "orders": 14, "sales": "812.40", "refunds": "0", "currency": "EUR"}
            ],
            "total": "812.40",
            "currency": "EUR",
            "apart": 1,
        },
    ),
    steps={READ: read_stores, ADD: add_them_up, SEND: send_summary},
    finish=finish,
    check_setup=check_world,
)
