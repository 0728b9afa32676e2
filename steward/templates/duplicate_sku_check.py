"""Duplicate SKUs: lists SKUs or barcodes used more than once."""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from steward.connectors.base.commands import PostCard
from steward.connectors.base.queries import VARIANTS, ProductsQuery
from steward.connectors.base.records import Variant
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepOutput, StepResult
from steward.steps.skus import key_of
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, if_any, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.reports import SheetReport, send_report
from steward.templates.parts.stock import is_on_sale

READ, FIND, SEND = "read-variants", "find-duplicates", "send-report"
_FIELDS = {"sku": "SKU", "barcode": "Barcode"}
# The number of variants named in a cell of the sheet, and beside a value in the message.
NAMES_IN_CELL, NAMES_IN_MESSAGE = 50, 3


class _DuplicateInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    fields: tuple[str, ...]
    ignore_case: bool
    across_drafts: bool


class _NamedValues(JsonRecord, frozen=True):
    """A variant's name without its SKU, and its values of the checked fields as the store stores them."""

    name: str
    values: tuple[str, ...]


class _VariantValues(StepOutput, frozen=True):
    """The values of every variant."""

    variants: tuple[_NamedValues, ...]


class _DuplicateGroup(JsonRecord, frozen=True):
    """A value that several variants have, in its first spelling; `note` describes other spellings."""

    field: str
    value: str
    count: int
    names: tuple[str, ...]
    note: str | None

    @property
    def fact(self) -> tuple[str, str]:
        """The value, and how often and by which variants it is used."""
        names = self.names[:NAMES_IN_MESSAGE]
        more = self.count - len(names)
        note = f" ({self.note})" if self.note else ""
        users = f"{'; '.join(names)}{f' and {more} more' if more else ''}"
        return f"{_FIELDS[self.field]} {self.value}", f"{self.count} times{note}, by {users}"


class _Duplicates(StepOutput, frozen=True):
    """The values that are used more than once."""

    checked: int = 0
    without_value: int = 0
    groups: tuple[_DuplicateGroup, ...] = ()


async def read_variants(context: StepContext) -> StepResult:
    """Reads the checked fields of every variant."""
    options = _DuplicateInputs.from_json(context.inputs)
    variants: dict[str, Variant] = {}
    query = ProductsQuery(published_only=not options.across_drafts)
    async for page in context.home.reader.read(VARIANTS, query):
        for variant in page.items:
            if options.across_drafts or is_on_sale(variant):
                variants.setdefault(variant.id, variant)
    rows = tuple(
        _NamedValues(_name(variant), tuple(getattr(variant, field) for field in options.fields))
        for variant in variants.values()
    )
    return _VariantValues(rows).as_result(f"Read {counted(len(rows), 'variant')}", read=len(rows))


async def _find_duplicates(context: StepContext) -> StepResult:
    """Finds the values that more than one variant has; counts empty values, which are not duplicates."""
    options = _DuplicateInputs.from_json(context.inputs)
    variants = context.output(READ, _VariantValues).variants
    groups: list[_DuplicateGroup] = []
    without = 0
    for index, field in enumerate(options.fields):
        users: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for variant in variants:
            value = variant.values[index]
            key = key_of(value)
            without += not key
            if key:
                users[key.casefold() if options.ignore_case else key].append((value, variant.name))
        groups += [_group(field, pairs) for pairs in users.values() if len(pairs) > 1]
    output = _Duplicates(len(variants), without, tuple(groups))
    return output.as_result(f"Found {counted(len(groups), 'duplicate')}", matched=len(groups))


async def send(context: StepContext) -> StepResult:
    """Sends the list to the sheet and to the channel, even if it is empty."""
    groups, store = context.output(FIND, _Duplicates).groups, context.home.connection.name
    rows = [
        (_FIELDS[group.field], group.value, Decimal(group.count), "; ".join(group.names), group.note)
        for group in groups
    ]
    report = SheetReport(("Field", "Value", "Times", "Used by", "Note"), rows, "No duplicates.")
    if groups:
        title = f"{counted(len(groups), 'value')} used more than once at {store}"
    else:
        fields = _DuplicateInputs.from_json(context.inputs).fields
        title = f"No {' or '.join(_FIELDS[field] for field in fields)} is used more than once at {store}"
    return await send_report(context, report, PostCard(title, facts=tuple(group.fact for group in groups)))


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    output = ended.output(FIND, _Duplicates)
    groups, without = len(output.groups), output.without_value
    text = sentences(
        f"{counted(groups, 'value')} of {counted(output.checked, 'variant')}"
        f" {verb(groups, 'is', 'are')} used more than once.",
        if_any(without, f"{counted(without, 'empty value')} not checked."),
        ended.report_sentence(SEND),
    )
    result = {
        "checked": output.checked,
        "duplicates": groups,
        "without_value": without,
        "groups": [
            {"field": group.field, "value": group.value, "count": group.count} for group in output.groups
        ],
    }
    return base.run_summary(text, result)


def _group(field: str, users: Sequence[tuple[str, str]]) -> _DuplicateGroup:
    keys = {key_of(value) for value, _ in users}
    has_blanks = any(value != key_of(value) for value, _ in users)
    differences = (["spaces before or after"] if has_blanks else []) + (["capitals"] if len(keys) > 1 else [])
    return _DuplicateGroup(
        field=field,
        value=key_of(users[0][0]),
        count=len(users),
        names=tuple(name for _, name in users[:NAMES_IN_CELL]),
        note=f"differing in {' and in '.join(differences)}" if differences else None,
    )


def _name(variant: Variant) -> str:
    return f"{variant.product_title}, {variant.title}" if variant.title else variant.product_title


TEMPLATE = base.define(
    "duplicate-sku-check",
    "Duplicate SKUs",
    "Lists SKUs or barcodes used more than once.",
    category=base.Category.PRODUCTS,
    connections=base.REPORT_NEEDS,
    inputs=inputs.inputs_schema(
        [],
        {
            "fields": inputs.array("What to check", {"enum": list(_FIELDS)}, minItems=1, default=["sku"]),
            "ignore_case": inputs.flag("abc and ABC count as one", default=True),
            "across_drafts": inputs.flag("Drafts and archived products as well"),
            "sheet": inputs.shared("sheet", "Write the list to this sheet"),
            "teams": inputs.shared("teams", "Post the list to this channel"),
        },
        conditions=inputs.SHEET_OR_TEAMS,
    ),
    result=results.counts_schema(
        *("checked", "duplicates", "without_value"),
        groups=results.list_of({"field": results.TEXT, "value": results.TEXT, "count": results.COUNT}),
    ),
    steps=(
        base.read_step(READ, "Read the variants", read_variants),
        base.decide_step(FIND, "Find duplicates", _find_duplicates),
        base.send_step(SEND, "Send the report", send),
    ),
    schedule=Schedule(Cadence.WEEKLY, time_of_day="08:15", day_of_week=1),
    example={
        "checked": 812,
        "duplicates": 1,
        "without_value": 30,
        "groups": [{"field": "sku", "value": "TEA-1", "count": 2}],
    },
    finish=finish,
)
