"""Tag customers by spend: keeps spend-tier tags right (templates 5.7)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from steward.connectors.base.commands import SetCustomerTags
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Customer
from steward.model.change import Action
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepResult
from steward.steps.tag_lists import has_any_tag, with_tag, without_tags
from steward.templates.base import (
    TAGS,
    Category,
    ChangeRow,
    EndedRun,
    RunSummary,
    SetupContext,
    StepFacts,
    Template,
    TemplateFacts,
    counted,
    run_summary,
    sentences,
    whole,
)
from steward.templates.parts.customer_spend import read_spend
from steward.templates.parts.days import window_of
from steward.templates.parts.inputs import inputs_schema
from steward.templates.parts.numbers import money_text
from steward.templates.parts.results import COUNT, TEXT, list_of, result_schema

READ, DECIDE, CHANGE = "read-customers", "decide-tiers", "change-tags"

_INPUTS = inputs_schema(
    ["tiers"],
    {
        "tiers": {
            "type": "array",
            "minItems": 1,
            "maxItems": 10,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tag", "min_spend"],
                "properties": {"tag": {"$ref": "#/$defs/tag"}, "min_spend": {"$ref": "#/$defs/money"}},
            },
            "description": "Tiers; a customer gets the highest one reached",
        },
        "window_days": {
            "anyOf": [{"$ref": "#/$defs/days"}, {"type": "null"}],
            "default": None,
            "description": "Spend of the last so many days; null: of all time",
        },
        "limit": {"$ref": "#/$defs/limit"},
    },
)

_COUNTS = ("checked", "changed", "unchanged")
_RESULT = result_schema(
    {**dict.fromkeys(_COUNTS, COUNT), "by_tier": list_of({"tag": TEXT, "customers": COUNT})}
)


@dataclass(frozen=True, slots=True)
class _Tier:
    tag: str
    least: Decimal


async def read_customers(at: StepContext) -> StepResult:
    """The customers with what they spent; of an event's run the one whose order was paid.

    With `window_days` orders count that were placed on those local days before today, or today (E16).
    """
    days = at.inputs["window_days"]
    start = window_of(at.day - timedelta(days=days), at.zone)[0] if isinstance(days, int) else None
    tiers = _tiers(at.inputs)
    tags = [tier.tag for tier in tiers]
    least = min(tier.least for tier in tiers)
    checked = 0
    rows: list[JsonValue] = []
    async for customer, spent in read_spend(at, start):
        checked += 1
        # Nothing can be wrong with whoever reached no tier and has no tag of one.
        if spent >= least or has_any_tag(customer.tags, tags):
            rows.append([customer.id, customer.label, list(customer.tags), customer.url, str(spent)])
    return StepResult(
        {"checked": checked, "customers": rows},
        counts=Counts(read=checked),
        title=f"Read {counted(checked, 'customer')}",
    )


async def decide_tiers(at: StepContext) -> StepResult:
    """The tier of each, and whose tags have to change."""
    read: Any = at.outputs[READ]
    tiers = _tiers(at.inputs)
    reached: Counter[str] = Counter()
    wanted: list[list[JsonValue]] = []
    for row in read["customers"]:
        tier = next((each for each in tiers if Decimal(row[4]) >= each.least), None)
        reached[tier.tag if tier else ""] += 1
        tags = _tags_for(row[2], tier, tiers)
        if sorted(tags) != sorted(row[2]):
            wanted.append([*row, list(tags), tier.tag if tier else None])
    planned = _plan(at, wanted)
    fits = {proposal.object.id for proposal in planned.proposals}
    unfit = [str(row[1]) for row in wanted if row[0] not in fits]
    change: list[JsonValue] = [row for row in wanted if row[0] in fits]
    given: Any = at.inputs["tiers"]
    return StepResult(
        {
            "unchanged": read["checked"] - len(change),
            "by_tier": [{"tag": each["tag"], "customers": reached[each["tag"]]} for each in given],
            "change": change,
        },
        counts=Counts(matched=len(change)),
        title=f"Found {counted(len(change), 'customer')} whose tags have to change",
        message=f"Left alone, since they cannot be tagged: {', '.join(unfit[:10])}." if unfit else None,
    )


async def change_tags(at: StepContext) -> StepResult:
    """Proposes the tags. Raises TooManyChanges (E11)."""
    found: Any = at.outputs[DECIDE]
    at.check_limit(len(found["change"]))
    planned = _plan(at, found["change"])
    return StepResult(
        {},
        title=f"Change the tags of {counted(len(planned.proposals), 'customer')}",
        proposals=planned.proposals,
    )


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    read, found = ended.output_of(READ), ended.output_of(DECIDE)
    checked = whole(read.get("checked"))
    by_tier: Any = found.get("by_tier", [])
    told = ", ".join(f"{each['customers']} {each['tag']}" for each in by_tier)
    text = sentences(
        ended.changes_sentence(CHANGE, "customer", "changed", none="No customer was changed."),
        f"Of {counted(checked, 'customer')}: {told}." if told else None,
    )
    return run_summary(
        text,
        {
            "checked": checked,
            "changed": ended.applied(CHANGE),
            "unchanged": whole(found.get("unchanged")),
            "by_tier": by_tier,
        },
    )


def check_world(inputs: JsonObject, _: SetupContext) -> FieldErrors:
    """Two tiers alike (templates 5.7): named is the later one."""
    errors: dict[str, list[str]] = {}
    tags: set[str] = set()
    bounds: set[Decimal] = set()
    given: Any = inputs["tiers"]
    for at, tier in enumerate(given):
        tag, least = tier["tag"].casefold(), Decimal(tier["min_spend"])
        if tag in tags:
            errors[f"inputs.tiers.{at}"] = [f"Another tier has the tag {tier['tag']} already."]
        elif least in bounds:
            errors[f"inputs.tiers.{at}"] = [f"Another tier begins at {tier['min_spend']} already."]
        tags.add(tag)
        bounds.add(least)
    return errors


def _tiers(inputs: JsonObject) -> list[_Tier]:
    """The tiers, the highest first."""
    given: Any = inputs["tiers"]
    tiers = [_Tier(each["tag"], Decimal(each["min_spend"])) for each in given]
    return sorted(tiers, key=lambda tier: -tier.least)


def _tags_for(held: Sequence[str], tier: _Tier | None, tiers: Sequence[_Tier]) -> tuple[str, ...]:
    """The whole list wanted: of the tiers' tags only the one reached, every other left alone."""
    off = [each.tag for each in tiers if each is not tier]
    kept = without_tags(held, off)
    return with_tag(kept, tier.tag) if tier is not None else kept


def _plan(at: StepContext, rows: Sequence[Any]) -> PlannedChanges:
    store = at.home
    tags = [tier.tag for tier in _tiers(at.inputs)]
    asks = [
        SetCustomerTags(
            Customer(
                id=number, email="", name=label, tags=tuple(held), orders_count=None, spent=spent,
                modified_at=None, url=url,
            ),
            tuple(wanted),
            message=_beside(at, held, tags, spent=spent, tier=tier),
        )
        for number, label, held, url, spent, wanted, tier in rows
    ]  # fmt: skip
    return store.changes["customer.set_tags"].plan(asks, integration_id=store.connection.integration_id)


def _beside(
    at: StepContext, held: Sequence[str], tags: Sequence[str], *, spent: str, tier: str | None
) -> str:
    currency = at.home.connection.currency
    spend = f"{money_text(Decimal(spent), currency)} {currency or ''}".rstrip()
    before = ", ".join(tag for tag in held if has_any_tag([tag], tags)) or "none"
    return f"Spend {spend}. Tier before: {before}; after: {tier or 'none'}."


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="tag-customers-by-spend",
        template_version=1,
        name="Tag customers by spend",
        description="Keeps spend-tier tags right.",
        category=Category.CUSTOMERS,
        platforms=("shopify", "woocommerce"),
        connections=(),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read customers and spend", StepKind.READ),
            StepFacts(DECIDE, "Work out the tier", StepKind.DECIDE),
            StepFacts(CHANGE, "Change the tags", StepKind.CHANGE),
        ),
        changes_store=True,
        triggers=(TriggerKind.SCHEDULE, TriggerKind.EVENT),
        topics=dict.fromkeys(("shopify", "woocommerce"), ("orders/paid",)),
        default_schedule=Schedule(Cadence.DAILY, time_of_day="02:00"),
        changes=(
            ChangeRow(
                step=CHANGE,
                object="customer",
                action=Action.UPDATE,
                fields=(TAGS,),
                reversible=True,
                shown_beside=("spend", "tier before and after"),
            ),
        ),
        example_result={
            "checked": 900,
            "changed": 7,
            "unchanged": 893,
            "by_tier": [{"tag": "gold", "customers": 41}],
        },
    ),
    steps={READ: read_customers, DECIDE: decide_tiers, CHANGE: change_tags},
    finish=finish,
    check_setup=check_world,
)
