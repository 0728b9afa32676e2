"""Stock across stores: one table of stock by SKU over several stores (templates 5.19)."""

from collections.abc import Sequence
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
from steward.templates.parts.reports import Report, send_report
from steward.templates.parts.results import COUNT, result_schema

READ, JOIN, SEND = "read-stores", "join-stock", "send-report"
NOT_TRACKED = "not tracked"
_COUNTS = ("stores", "skus", "low", "only_in_one", "ambiguous")

_INPUTS = inputs_schema(
    [],
    {
        "low_only": {
            "type": "boolean",
            "default": False,
            "description": "Only SKUs at or under the level in some store",
        },
        "threshold": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100000,
            "default": 5,
            "description": "The level",
        },
        "match": shared("match", "What products are matched by"),
        "sheet": shared("sheet", "Write the table to this sheet"),
        "teams": shared("teams", "Post the low ones to this channel"),
    },
    conditions={"anyOf": [{"required": ["sheet"]}, {"required": ["teams"]}]},
)

_RESULT = result_schema(dict.fromkeys(_COUNTS, COUNT))


async def read_stores(at: StepContext) -> StepResult:
    """The stock of each store's variants by their key; drafts hold stock too."""
    found: Any = await keyed_variants(at, published_only=False, kept=_stock_of)
    number = sum(map(len, found["stores"]))
    without = found["without"]
    return StepResult(
        found,
        counts=Counts(read=number + without),
        title=f"Read the stock of {counted(number, 'variant')} of {counted(len(found['labels']), 'store')}",
        message=f"{counted(without, 'variant')} without a {key_name(at.inputs)} left out."
        if without
        else None,
    )


async def join_stock(at: StepContext) -> StepResult:
    """The table: a row for each key, a cell for each store, and what is odd about it."""
    read: Any = at.outputs[READ]
    threshold: Any = at.inputs["threshold"]
    names = names_by_key(read["stores"])
    joined = by_key(read["stores"])
    other = spellings(joined)
    rows: list[JsonValue] = []
    low: list[JsonValue] = []
    ambiguous = only_in_one = 0
    for key, stores in joined.items():
        is_low = [number is not None and number <= threshold for number in map(_sum, stores)]
        ambiguous += any(len(held) > 1 for held in stores)
        only_in_one += sum(bool(held) for held in stores) == 1
        cells: list[JsonValue] = [_cell(held) for held in stores]
        note = f"also written {', '.join(other[key])}" if key in other else None
        if any(is_low):
            low.append(
                [
                    key,
                    names[key],
                    [_told(held) if low_ else None for held, low_ in zip(stores, is_low, strict=True)],
                ]
            )
        if any(is_low) or not at.inputs["low_only"]:
            rows.append([key, names[key], cells, note])
    return StepResult(
        {
            "labels": read["labels"],
            "stores": len(read["labels"]),
            "skus": len(joined),
            "only_in_one": only_in_one,
            "ambiguous": ambiguous,
            "rows": rows,
            "low": low,
        },
        counts=Counts(matched=len(low)),
        title=f"Joined {counted(len(joined), key_name(at.inputs))}",
    )


async def send(at: StepContext) -> StepResult:
    """The table to the sheet, the low ones to Teams; without any, no message (E17)."""
    found: Any = at.outputs[JOIN]
    labels, threshold = found["labels"], at.inputs["threshold"]
    header = (key_name(at.inputs), "Product", *(f"Stock: {label}" for label in labels), "Note")
    rows = [(key, name, *map(_written, cells), note) for key, name, cells, note in found["rows"]]
    none = f"None is at or under {threshold}." if at.inputs["low_only"] else "No stock was found."
    card = None
    if found["low"]:
        number = counted(len(found["low"]), header[0])
        card = PostCard(
            title=f"{number} {verb(len(found['low']), 'is', 'are')} at or under {threshold}",
            facts=tuple(
                (
                    f"{key}, {name}",
                    ", ".join(
                        f"{label}: {stock}"
                        for label, stock in zip(labels, stocks, strict=True)
                        if stock is not None
                    ),
                )
                for key, name, stocks in found["low"]
            ),
        )
    return await send_report(at, Report(header, rows, none), card)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(JOIN)
    low: Any = found.get("low", [])
    counts = {name: whole(found.get(name)) for name in _COUNTS}
    counts["low"] = len(low)
    text = sentences(
        f"{counted(counts['skus'], key_name(ended.inputs))} in {counted(counts['stores'], 'store')},"
        f" {counts['low']} at or under {ended.inputs['threshold']}.",
        f"{counts['only_in_one']} {verb(counts['only_in_one'], 'is', 'are')} in one store only."
        if counts["only_in_one"]
        else None,
        f"{counts['ambiguous']} {verb(counts['ambiguous'], 'stands', 'stand')} twice in a store."
        if counts["ambiguous"]
        else None,
        ended.report_sentence(SEND),
    )
    return run_summary(text, counts)


def _stock_of(variant: Variant) -> JsonValue:
    """The number of stock and what it is a number of; none where it is not counted (E8)."""
    counts = variant.tracked and not variant.backorders_allowed
    return [variant.stock_target, variant.stock if counts else None]


def _numbers(held: Sequence[Any]) -> list[int | None]:
    """The numbers under a key in one store; one that several variants share counts once (E9)."""
    return list({target: stock for target, stock in held}.values())


def _sum(held: Sequence[Any]) -> int | None:
    """The stock: as it is, or added up with a negative one as 0 (E7); None when there is no number."""
    numbers = [number for number in _numbers(held) if number is not None]
    if len(_numbers(held)) == 1 or not numbers:
        return numbers[0] if numbers else None
    return sum(max(number, 0) for number in numbers)


def _told(held: Sequence[Any]) -> str:
    """A store's stock in words; marked when it is a sum."""
    number = _sum(held)
    words = NOT_TRACKED if number is None else str(number)
    if len(held) < 2:
        return words
    untracked = sum(each is None for each in _numbers(held)) if number is not None else 0
    return f"{words} ({len(held)} variants{f', {untracked} {NOT_TRACKED}' if untracked else ''})"


def _cell(held: Sequence[Any]) -> JsonValue:
    """A cell to be: a number, words where it is none or marked, null where the store has no such key."""
    if not held:
        return None
    number = _sum(held)
    return number if number is not None and len(held) == 1 else _told(held)


def _written(cell: JsonValue) -> Cell:
    return Decimal(cell) if isinstance(cell, int) else cell if isinstance(cell, str) else None


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="stock-report-across-stores",
        template_version=1,
        name="Stock across stores",
        description="One table of stock by SKU over several stores.",
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
            StepFacts(READ, "Read each store", StepKind.READ),
            StepFacts(JOIN, "Join by SKU", StepKind.DECIDE),
            StepFacts(SEND, "Send the table", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.DAILY, time_of_day="07:00"),
        changes=(),
        example_result={"stores": 3, "skus": 900, "low": 12, "only_in_one": 40, "ambiguous": 2},
    ),
    steps={READ: read_stores, JOIN: join_stock, SEND: send},
    finish=finish,
)
