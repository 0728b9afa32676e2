"""Price differences: lists SKUs whose price differs between stores (templates 5.21)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import PostCard
from steward.connectors.base.records import Cell, Variant
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
    verb,
    whole,
)
from steward.templates.parts.across import by_key, key_name, keyed_variants, names_by_key, spellings
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.numbers import amount_of, change_percent, money_text, percent_text
from steward.templates.parts.reports import Report, send_report
from steward.templates.parts.results import AMOUNT, COUNT, TEXT, list_of, result_schema

READ, COMPARE, SEND = "read-stores", "compare-prices", "send-report"
_COUNTS = ("stores", "compared", "different", "other_currency", "ambiguous")

_INPUTS = inputs_schema(
    [],
    {
        "tolerance": {
            "type": "number",
            "minimum": 0,
            "maximum": 95,
            "default": 0,
            "description": "Percent that may differ",
        },
        "match": shared("match", "What products are matched by"),
        "sheet": shared("sheet", "Write the list to this sheet"),
        "teams": shared("teams", "Post the list to this channel"),
    },
    conditions={"anyOf": [{"required": ["sheet"]}, {"required": ["teams"]}]},
)

_ROW = {"key": TEXT, "lowest": AMOUNT, "highest": AMOUNT, "currency": TEXT}
_RESULT = result_schema({**dict.fromkeys(_COUNTS, COUNT), "rows": list_of(_ROW)})


async def read_stores(at: StepContext) -> StepResult:
    """The prices of each store's published variants by their key; those without a price are none."""
    found: Any = await keyed_variants(at, published_only=True, kept=_price_of)
    number = sum(map(len, found["stores"]))
    without = found["without"]
    return StepResult(
        found,
        counts=Counts(read=number + without),
        title=f"Read {counted(number, 'price')} of {counted(len(found['labels']), 'store')}",
        message=f"{counted(without, 'variant')} without a {key_name(at.inputs)} left out."
        if without
        else None,
    )


async def compare_prices(at: StepContext) -> StepResult:
    """Which keys differ within a currency, and which stand twice in a store with two prices."""
    read: Any = at.outputs[READ]
    tolerance = Decimal(str(at.inputs["tolerance"]))
    names = names_by_key(read["stores"])
    found = _Compared()
    joined = by_key(read["stores"])
    other = sorted(spellings(joined))
    for key, stores in joined.items():
        found.add(key, names[key], [_prices(held) for held in stores], tolerance)
    return StepResult(
        {
            "labels": read["labels"],
            "stores": len(read["labels"]),
            "compared": found.compared,
            "different": found.different,
            "other_currency": found.other_currency,
            "ambiguous": len(found.twice),
            "rows": found.rows,
            "twice": found.twice,
        },
        counts=Counts(matched=found.different),
        title=f"Found {counted(found.different, 'different price')}",
        message=f"Not compared with each other, since their capitals differ: {', '.join(other[:10])}."
        if other
        else None,
    )


async def send(at: StepContext) -> StepResult:
    """The list to the sheet and to Teams; without a difference, no message (E17)."""
    found: Any = at.outputs[COMPARE]
    name = key_name(at.inputs)
    labels = [f"Price: {label}" for label in found["labels"]]
    header = (name, "Product", "Currency", "Lowest", "Highest", "Difference", *labels, "Note")
    rows = [
        (key, title, currency, Decimal(low), Decimal(high), percent, *map(_written, prices), None)
        for key, title, currency, low, high, percent, prices in found["rows"]
    ]
    rows += [
        (key, title, None, None, None, None, *map(_written, prices), "two prices in one store, not compared")
        for key, title, prices in found["twice"]
    ]
    card = None
    if found["rows"]:
        has = verb(found["different"], "has", "have")
        card = PostCard(
            title=f"{counted(found['different'], name)} {has} different prices",
            text=(f"{counted(found['ambiguous'], name)} with two prices in one store not compared.",)
            if found["ambiguous"]
            else (),
            facts=tuple(
                (f"{key}, {title}", f"{low} to {high} {currency}{f' ({percent})' if percent else ''}")
                for key, title, currency, low, high, percent, _ in found["rows"]
            ),
        )
    return await send_report(at, Report(header, rows, "No price differs."), card)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(COMPARE)
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    rows: Any = found.get("rows", [])
    text = sentences(
        f"{counts['different']} of {counted(counts['compared'], key_name(ended.inputs))} compared"
        f" {verb(counts['different'], 'differs', 'differ')} in price.",
        f"{counts['ambiguous']} not compared: two prices in one store." if counts["ambiguous"] else None,
        ended.report_sentence(SEND),
    )
    listed: list[JsonValue] = [
        {"key": key, "lowest": low, "highest": high, "currency": currency}
        for key, _, currency, low, high, _, _ in rows
    ]
    return run_summary(text, {**counts, "rows": listed})


@dataclass(slots=True)
class _Compared:
    """What the comparison came to, key by key."""

    compared: int = 0
    different: int = 0
    other_currency: int = 0
    rows: list[JsonValue] = field(default_factory=list)
    twice: list[JsonValue] = field(default_factory=list)

    def add(
        self, key: str, title: str, stores: Sequence[Mapping[str, set[Decimal]]], tolerance: Decimal
    ) -> None:
        """One key with each store's prices by currency."""
        if any(len(prices) > 1 for store in stores for prices in store.values()):
            words: list[JsonValue] = [
                ", ".join(money_text(each, of) for of, prices in store.items() for each in sorted(prices))
                or None
                for store in stores
            ]
            self.twice.append([key, title, words])
            return
        by_currency: dict[str, dict[int, Decimal]] = defaultdict(dict)
        for place, store in enumerate(stores):
            for currency, prices in store.items():
                by_currency[currency][place] = next(iter(prices))
        self.other_currency += len(by_currency) > 1
        pairs = {currency: held for currency, held in by_currency.items() if len(held) > 1}
        self.compared += bool(pairs)
        differing = {
            currency: held
            for currency, held in sorted(pairs.items())
            if _differs(min(held.values()), max(held.values()), tolerance)
        }
        self.different += bool(differing)
        for currency, held in differing.items():
            low, high = min(held.values()), max(held.values())
            shown: list[JsonValue] = [
                money_text(held[place], currency) if place in held else None for place in range(len(stores))
            ]
            percent = percent_text(change_percent(low, high)) if low else None
            self.rows.append(
                [key, title, currency, money_text(low, currency), money_text(high, currency), percent, shown]
            )


def _differs(low: Decimal, high: Decimal, tolerance: Decimal) -> bool:
    """By more percent of the lowest than may be; from a lowest of 0 any difference counts."""
    return low != high and (low == 0 or change_percent(low, high) > tolerance)


def _price_of(variant: Variant) -> JsonValue:
    return [variant.currency or "", variant.price]


def _written(price: str | None) -> Cell:
    """A price as a number, which can be sorted and added; several as text."""
    number = amount_of(price)
    return price if number is None else number


def _prices(held: Sequence[Any]) -> dict[str, set[Decimal]]:
    """The prices of one store by currency; an absent one, and what is no amount, is none."""
    found: dict[str, set[Decimal]] = defaultdict(set)
    for currency, price in held:
        number = amount_of(price)
        if number is not None:
            found[currency].add(number)
    return dict(found)


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="price-difference-report",
        template_version=1,
        name="Price differences",
        description="Lists SKUs whose price differs between stores.",
        category=Category.REPORTS,
        platforms=(),
        connections=(
            ConnectionNeed("store", ConnectionUse.READ, 2, 10),
            ConnectionNeed("spreadsheet", ConnectionUse.WRITE, 0, 1),
            ConnectionNeed("teams", ConnectionUse.WRITE, 0, 1),
        ),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read each store's prices", StepKind.READ),
            StepFacts(COMPARE, "Compare by SKU", StepKind.DECIDE),
            StepFacts(SEND, "Send the list", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.WEEKLY, time_of_day="07:00", day_of_week=1),
        changes=(),
        example_result={
            "stores": 2,
            "compared": 500,
            "different": 1,
            "other_currency": 0,
            "ambiguous": 0,
            "rows": [{"key": "TEA-1", "lowest": "7.90", "highest": "8.40", "currency": "EUR"}],
        },
    ),
    steps={READ: read_stores, COMPARE: compare_prices, SEND: send},
    finish=finish,
)
