"""Tag customers by spend: keeps customers' spend-tier tags up to date."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from steward.connectors.base.commands import SetCustomerTags
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Customer
from steward.model.change import Action
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.steps.tag_lists import has_any_tag, with_tag, without_tags
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences
from steward.templates.parts import inputs, results
from steward.templates.parts.ages import day_window
from steward.templates.parts.customer_spend import read_spend
from steward.templates.parts.numbers import money_text

READ, DECIDE, CHANGE = "read-customers", "decide-tiers", "change-tags"


class _SpendTier(JsonRecord, frozen=True):
    """A tier of the inputs."""

    tag: str
    min_spend: str

    @property
    def minimum(self) -> Decimal:
        """The spend from which on a customer reaches the tier."""
        return Decimal(self.min_spend)


class _SpendInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    tiers: tuple[_SpendTier, ...]
    window_days: int | None = None

    @property
    def highest_first(self) -> list[_SpendTier]:
        """The tiers, the highest first."""
        return sorted(self.tiers, key=lambda tier: -tier.minimum)


class _Spender(JsonRecord, frozen=True):
    """A customer with the amount they spent."""

    id: str
    label: str
    tags: tuple[str, ...]
    url: str | None
    spent: str


class _Spenders(StepOutput, frozen=True):
    """The customers who reach a tier or have a tier's tag."""

    checked: int = 0
    customers: tuple[_Spender, ...] = ()


class _TagChange(JsonRecord, frozen=True):
    """A customer whose tags have to change, with the tier that they reach."""

    customer: _Spender
    tags: tuple[str, ...]
    tier: str | None


class _TierRow(JsonRecord, frozen=True):
    """The number of customers who reach a tier, as the result lists it."""

    tag: str
    customers: int


class _DecidedTiers(StepOutput, frozen=True):
    """The customers whose tags have to change."""

    unchanged: int = 0
    by_tier: tuple[_TierRow, ...] = ()
    change: tuple[_TagChange, ...] = ()


async def _read_customers(context: StepContext) -> StepResult:
    """Reads the customers with the amounts they spent; after an event, the customer whose order was paid.

    With `window_days`, only orders count that were placed today or on that many local days before.
    """
    options = _SpendInputs.from_json(context.inputs)
    days = options.window_days
    start = day_window(context.day - timedelta(days=days), context.zone)[0] if days is not None else None
    tags = [tier.tag for tier in options.tiers]
    lowest = min(tier.minimum for tier in options.tiers)
    checked = 0
    customers: list[_Spender] = []
    async for customer, spent in read_spend(context, start):
        checked += 1
        # A customer who reaches no tier and has no tier's tag needs no change.
        if spent >= lowest or has_any_tag(customer.tags, tags):
            row = _Spender(customer.id, customer.label, tuple(customer.tags), customer.url, str(spent))
            customers.append(row)
    output = _Spenders(checked, tuple(customers))
    return output.as_result(f"Read {counted(checked, 'customer')}", read=checked)


async def _decide_tiers(context: StepContext) -> StepResult:
    """Decides each customer's tier, and whose tags have to change."""
    read = context.output(READ, _Spenders)
    options = _SpendInputs.from_json(context.inputs)
    tiers = options.highest_first
    reached: Counter[str] = Counter()
    differing: list[_TagChange] = []
    for customer in read.customers:
        tier = _tier_reached(Decimal(customer.spent), tiers)
        reached[tier.tag if tier else ""] += 1
        tags = _tags_for(customer.tags, tier, tiers)
        if sorted(tags) != sorted(customer.tags):
            differing.append(_TagChange(customer, tags, tier.tag if tier else None))
    change, unfit = _plannable(context, differing)
    by_tier = tuple(_TierRow(tier.tag, reached[tier.tag]) for tier in options.tiers)
    return _DecidedTiers(read.checked - len(change), by_tier, change).as_result(
        f"Found {counted(len(change), 'customer')} whose tags have to change",
        matched=len(change),
        message=f"Left alone, since they cannot be tagged: {', '.join(unfit[:10])}." if unfit else None,
    )


async def change_tags(context: StepContext) -> StepResult:
    """Proposes the tags. Raises TooManyChanges."""
    change = context.output(DECIDE, _DecidedTiers).change
    context.check_limit(len(change))
    proposals = _plan(context, change).proposals
    title = f"Change the tags of {counted(len(proposals), 'customer')}"
    return StepResult({}, title=title, proposals=proposals)


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    checked, decided = ended.output(READ, _Spenders).checked, ended.output(DECIDE, _DecidedTiers)
    tiers = ", ".join(f"{row.customers} {row.tag}" for row in decided.by_tier)
    text = sentences(
        ended.changes_sentence(CHANGE, "customer", "changed", if_none="No customer was changed."),
        if_any(len(tiers), f"Of {counted(checked, 'customer')}: {tiers}."),
    )
    result = {
        "checked": checked,
        "changed": ended.applied(CHANGE),
        "unchanged": decided.unchanged,
        "by_tier": decided.by_tier,
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, _: base.SetupContext) -> FieldErrors:
    """Rejects the later of two tiers with the same tag or minimum."""
    errors: dict[str, list[str]] = {}
    tags: set[str] = set()
    minimums: set[Decimal] = set()
    for index, tier in enumerate(_SpendInputs.from_json(values).tiers):
        if tier.tag.casefold() in tags:
            errors[f"inputs.tiers.{index}"] = [f"Another tier has the tag {tier.tag} already."]
        elif tier.minimum in minimums:
            errors[f"inputs.tiers.{index}"] = [f"Another tier begins at {tier.min_spend} already."]
        tags.add(tier.tag.casefold())
        minimums.add(tier.minimum)
    return errors


def _tier_reached(spent: Decimal, highest_first: Sequence[_SpendTier]) -> _SpendTier | None:
    return next((tier for tier in highest_first if spent >= tier.minimum), None)


def _plannable(
    context: StepContext, differing: Sequence[_TagChange]
) -> tuple[tuple[_TagChange, ...], list[str]]:
    """Returns the changes that the store would accept, and the labels of the other customers."""
    plannable = {proposal.object.id for proposal in _plan(context, differing).proposals}
    change = tuple(row for row in differing if row.customer.id in plannable)
    return change, [row.customer.label for row in differing if row.customer.id not in plannable]


def _tags_for(tags: Sequence[str], tier: _SpendTier | None, tiers: Sequence[_SpendTier]) -> tuple[str, ...]:
    """Returns the customer's tags with only the reached tier's tag; tags that belong to no tier stay."""
    without_tiers = without_tags(tags, [other_tier.tag for other_tier in tiers if other_tier is not tier])
    return with_tag(without_tiers, tier.tag) if tier is not None else without_tiers


def _plan(context: StepContext, change: Sequence[_TagChange]) -> PlannedChanges:
    tier_tags = [tier.tag for tier in _SpendInputs.from_json(context.inputs).highest_first]
    commands = [
        SetCustomerTags(_customer(row.customer), row.tags, message=_message(context, row, tier_tags))
        for row in change
    ]
    return context.home.plan("customer.set_tags", commands)


def _customer(row: _Spender) -> Customer:
    return Customer(
        id=row.id,
        email="",
        name=row.label,
        tags=row.tags,
        orders_count=None,
        spent=row.spent,
        modified_at=None,
        url=row.url,
    )


def _message(context: StepContext, row: _TagChange, tier_tags: Sequence[str]) -> str:
    currency = context.home.connection.currency
    spend = f"{money_text(Decimal(row.customer.spent), currency)} {currency or ''}".rstrip()
    before = ", ".join(tag for tag in row.customer.tags if has_any_tag([tag], tier_tags)) or "none"
    return f"Spend {spend}. Tier before: {before}; after: {row.tier or 'none'}."


TEMPLATE = base.define(
    "tag-customers-by-spend",
    "Tag customers by spend",
    "Keeps spend-tier tags right.",
    category=base.Category.CUSTOMERS,
    inputs=inputs.inputs_schema(
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
            "limit": inputs.LIMIT,
        },
    ),
    result=results.counts_schema(
        *("checked", "changed", "unchanged"),
        by_tier=results.list_of({"tag": results.TEXT, "customers": results.COUNT}),
    ),
    steps=(
        base.read_step(READ, "Read customers and spend", _read_customers),
        base.decide_step(DECIDE, "Work out the tier", _decide_tiers),
        base.change_step(CHANGE, "Change the tags", change_tags),
    ),
    topics=("orders/paid",),
    schedule=Schedule(Cadence.DAILY, time_of_day="02:00"),
    changes=(
        base.ChangeRow(
            CHANGE, "customer", Action.UPDATE, (base.TAGS,), shown_beside=("spend", "tier before and after")
        ),
    ),
    example={
        "checked": 900,
        "changed": 7,
        "unchanged": 893,
        "by_tier": [{"tag": "gold", "customers": 41}],
    },
    finish=finish,
    check_setup=check_setup,
)
