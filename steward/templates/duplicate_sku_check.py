"""Duplicate SKUs: lists SKUs or barcodes used more than once (templates 5.16)."""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import PostCard
from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.model.json import JsonValue
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult
from steward.steps.skus import key_of
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
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.reports import Report, send_report
from steward.templates.parts.results import COUNT, TEXT, list_of, result_schema
from steward.templates.parts.stock import is_on_sale

READ, FIND, SEND = "read-variants", "find-duplicates", "send-report"
NONE = "No duplicates."
FIELDS = {"sku": "SKU", "barcode": "Barcode"}
# Variants named in one cell, and beside one value in a message.
NAMED, TOLD = 50, 3

_INPUTS = inputs_schema(
    [],
    {
        "fields": {
            "type": "array",
            "items": {"enum": list(FIELDS)},
            "uniqueItems": True,
            "minItems": 1,
            "default": ["sku"],
            "description": "What to check",
        },
        "ignore_case": {"type": "boolean", "default": True, "description": "abc and ABC count as one"},
        "across_drafts": {
            "type": "boolean",
            "default": False,
            "description": "Drafts and archived products as well",
        },
        "sheet": shared("sheet", "Write the list to this sheet"),
        "teams": shared("teams", "Post the list to this channel"),
    },
    conditions={"anyOf": [{"required": ["sheet"]}, {"required": ["teams"]}]},
)

_RESULT = result_schema(
    {
        "checked": COUNT,
        "duplicates": COUNT,
        "without_value": COUNT,
        "groups": list_of({"field": TEXT, "value": TEXT, "count": COUNT}),
    }
)


async def read_variants(at: StepContext) -> StepResult:
    """Every variant with the values asked for as the store has them (E9, E10)."""
    drafts = at.inputs["across_drafts"] is True
    fields: Any = at.inputs["fields"]
    found: dict[str, Variant] = {}
    async for page in at.home.reader.read(VARIANTS, ProductsQuery(published_only=not drafts)):
        for variant in page.items:
            if drafts or is_on_sale(variant):
                found.setdefault(variant.id, variant)
    rows: list[JsonValue] = [
        [_name(variant), [getattr(variant, field) for field in fields]] for variant in found.values()
    ]
    return StepResult(
        {"variants": rows},
        counts=Counts(read=len(rows)),
        title=f"Read {counted(len(rows), 'variant')}",
    )


async def find_duplicates(at: StepContext) -> StepResult:
    """The values more than one variant has; empty ones are counted and are no duplicates."""
    output: Any = at.outputs[READ]
    fields: Any = at.inputs["fields"]
    groups: list[JsonValue] = []
    without = 0
    for place, field in enumerate(fields):
        held: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, values in output["variants"]:
            key = key_of(values[place])
            without += not key
            if key:
                held[key.casefold() if at.inputs["ignore_case"] else key].append((values[place], name))
        groups += [_group(field, each) for each in held.values() if len(each) > 1]
    return StepResult(
        {"checked": len(output["variants"]), "without_value": without, "groups": groups},
        counts=Counts(matched=len(groups)),
        title=f"Found {counted(len(groups), 'duplicate')}",
    )


async def send(at: StepContext) -> StepResult:
    """The list to the sheet and to Teams; that there are none is told as well."""
    found: Any = at.outputs[FIND]
    groups, store = found["groups"], at.home.connection.name
    report = Report(
        ("Field", "Value", "Times", "Used by", "Note"),
        [
            (
                FIELDS[each["field"]],
                each["value"],
                Decimal(each["count"]),
                _named(each["names"]),
                each["note"],
            )
            for each in groups
        ],
        NONE,
    )
    if groups:
        card = PostCard(
            title=f"{counted(len(groups), 'value')} used more than once at {store}",
            facts=tuple(
                (
                    f"{FIELDS[each['field']]} {each['value']}",
                    f"{each['count']} times{_bracketed(each['note'])}, by {_first(each)}",
                )
                for each in groups
            ),
        )
    else:
        names = " or ".join(FIELDS[field] for field in _fields(at))
        card = PostCard(title=f"No {names} is used more than once at {store}")
    return await send_report(at, report, card)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(FIND)
    groups: Any = found.get("groups", [])
    checked, without = whole(found.get("checked")), whole(found.get("without_value"))
    text = sentences(
        f"{counted(len(groups), 'value')} of {counted(checked, 'variant')}"
        f" {verb(len(groups), 'is', 'are')} used more than once.",
        f"{counted(without, 'empty value')} not looked at." if without else None,
        ended.report_sentence(SEND),
    )
    return run_summary(
        text,
        {
            "checked": checked,
            "duplicates": len(groups),
            "without_value": without,
            "groups": [{name: each[name] for name in ("field", "value", "count")} for each in groups],
        },
    )


def _fields(at: StepContext) -> list[str]:
    fields: Any = at.inputs["fields"]
    return list(fields)


def _group(field: str, held: Sequence[tuple[str, str]]) -> JsonValue:
    """A value by the form it has first, and in what its forms differ."""
    keys = {key_of(value) for value, _ in held}
    differs = [
        words
        for words, is_so in (
            ("blanks before or after", any(value != key_of(value) for value, _ in held)),
            ("capitals", len(keys) > 1),
        )
        if is_so
    ]
    return {
        "field": field,
        "value": key_of(held[0][0]),
        "count": len(held),
        "names": [name for _, name in held[:NAMED]],
        "note": f"differing in {' and in '.join(differs)}" if differs else None,
    }


def _named(names: Sequence[str]) -> str:
    return "; ".join(names)


def _first(group: Any) -> str:
    """The first few that have the value, and how many more do."""
    names = group["names"][:TOLD]
    more = group["count"] - len(names)
    return f"{_named(names)}{f' and {more} more' if more else ''}"


def _bracketed(note: str | None) -> str:
    return f" ({note})" if note else ""


def _name(variant: Variant) -> str:
    """Product and variant, without the SKU that is told beside it."""
    return f"{variant.product_title}, {variant.title}" if variant.title else variant.product_title


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="duplicate-sku-check",
        template_version=1,
        name="Duplicate SKUs",
        description="Lists SKUs or barcodes used more than once.",
        category=Category.PRODUCTS,
        platforms=("shopify", "woocommerce"),
        connections=(
            ConnectionNeed("spreadsheet", ConnectionUse.WRITE, 0, 1),
            ConnectionNeed("teams", ConnectionUse.WRITE, 0, 1),
        ),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read the variants", StepKind.READ),
            StepFacts(FIND, "Find duplicates", StepKind.DECIDE),
            StepFacts(SEND, "Send the report", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.WEEKLY, time_of_day="08:15", day_of_week=1),
        changes=(),
        example_result={
            "checked": 812,
            "duplicates": 1,
            "without_value": 30,
            "groups": [{"field": "sku", "value": "TEA-1", "count": 2}],
        },
    ),
    steps={READ: read_variants, FIND: find_duplicates, SEND: send},
    finish=finish,
)
