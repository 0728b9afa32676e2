"""Missing product data: lists products that lack an image, a weight and the like."""

from collections import Counter

from steward.connectors.base.commands import PostCard
from steward.model.json import JsonObject
from steward.model.refusals import FieldErrors
from steward.model.schedule import Cadence, Schedule
from steward.steps.base import JsonRecord, StepContext, StepFailed, StepOutput, StepResult
from steward.templates import base
from steward.templates.base import EndedRun, RunSummary, counted, sentences, verb
from steward.templates.parts import inputs, results
from steward.templates.parts.gaps import UNSUPPORTED, WORDS, gap_words, missing_of
from steward.templates.parts.reports import SheetReport, send_report
from steward.templates.parts.stock import is_on_sale, read_products, skipped_message

READ, FIND, SEND = "read-products", "find-gaps", "send-report"


class _AuditInputs(JsonRecord, frozen=True):
    """The automation's inputs."""

    checks: tuple[str, ...]
    published_only: bool


class _AuditedProduct(JsonRecord, frozen=True):
    """A product with the checks it fails, each with how many of its variants fail it."""

    label: str
    url: str | None
    variants: int
    missing: dict[str, int]


class _AuditedProducts(StepOutput, frozen=True):
    """The products with the data that each lacks; their texts are not stored."""

    products: tuple[_AuditedProduct, ...]


class _GapRow(JsonRecord, frozen=True):
    """A product and its gaps in words."""

    label: str
    missing: str
    url: str | None


class _CheckRow(JsonRecord, frozen=True):
    """The number of products that fail a check, as the result lists it."""

    check: str
    products: int


class _Gaps(StepOutput, frozen=True):
    """The products with gaps, and the number of products with each gap."""

    checked: int = 0
    by_check: tuple[_CheckRow, ...] = ()
    products: tuple[_GapRow, ...] = ()


async def _read_audited(context: StepContext) -> StepResult:
    """Reads which of the checked data every product lacks. Raises StepFailed `field_missing`."""
    options = _AuditInputs.from_json(context.inputs)
    unsupported = UNSUPPORTED.get(context.home.platform, frozenset()).intersection(options.checks)
    if unsupported:
        message = f"The store's platform has no field for {WORDS[min(unsupported)]}. Take it off the list."
        raise StepFailed("field_missing", message)
    products = await read_products(context, published_only=options.published_only)
    rows: list[_AuditedProduct] = []
    for product in products:
        if product.sellable:
            variants = [row for row in product.variants if is_on_sale(row) or not options.published_only]
            missing = missing_of(product, options.checks, variants)
            rows.append(_AuditedProduct(product.label, product.url, len(variants), missing))
    return _AuditedProducts(tuple(rows)).as_result(
        f"Read {counted(len(rows), 'product')}",
        read=len(rows),
        message=skipped_message(len(products) - len(rows), "of kinds without data of their own"),
    )


async def _find_gaps(context: StepContext) -> StepResult:
    """Finds the products with gaps."""
    products = context.output(READ, _AuditedProducts).products
    by_check = Counter(check for product in products for check in product.missing)
    gaps = tuple(
        _GapRow(product.label, _gap_words(product), product.url) for product in products if product.missing
    )
    checks = _AuditInputs.from_json(context.inputs).checks
    output = _Gaps(len(products), tuple(_CheckRow(check, by_check[check]) for check in checks), gaps)
    return output.as_result(
        f"Found {counted(len(gaps), 'product')} with something missing", matched=len(gaps)
    )


async def send(context: StepContext) -> StepResult:
    """Sends the list to the sheet and the counts to the channel, even when nothing is missing."""
    output = context.output(FIND, _Gaps)
    rows = [(product.label, product.missing, product.url) for product in output.products]
    report = SheetReport(("Product", "Missing", "Link"), rows, "Nothing is missing.")
    number, store = len(output.products), context.home.connection.name
    checked = counted(output.checked, "product")
    title = f"Nothing is missing from the {checked} of {store}"
    if number:
        title = f"{number} of {checked} of {store} {verb(number, 'lacks', 'lack')} something"
    facts = tuple(
        (_heading(row.check), counted(row.products, "product")) for row in output.by_check if row.products
    )
    return await send_report(context, report, PostCard(title=title, facts=facts))


def finish(ended: EndedRun) -> RunSummary:
    """Reports on the run."""
    output = ended.output(FIND, _Gaps)
    gaps = len(output.products)
    text = sentences(
        f"{gaps} of {counted(output.checked, 'product')} {verb(gaps, 'lacks', 'lack')} something.",
        ended.report_sentence(SEND),
    )
    result = {
        "checked": output.checked,
        "with_gaps": gaps,
        "by_check": output.by_check,
        "products": [{"label": product.label, "missing": product.missing} for product in output.products],
    }
    return base.run_summary(text, result)


def check_setup(values: JsonObject, setup: base.SetupContext) -> FieldErrors:
    """Rejects checks for which the store's platform has no field."""
    platform = setup.store.kind if setup.store is not None else ""
    unsupported = UNSUPPORTED.get(platform, frozenset())
    return {
        f"inputs.checks.{index}": [f"This platform has no field for {WORDS[check]}. Take it off the list."]
        for index, check in enumerate(_AuditInputs.from_json(values).checks)
        if check in unsupported
    }


def _gap_words(product: _AuditedProduct) -> str:
    return ", ".join(
        gap_words(check, failing, product.variants) for check, failing in product.missing.items()
    )


def _heading(check: str) -> str:
    return WORDS[check][0].upper() + WORDS[check][1:]


TEMPLATE = base.define(
    "missing-product-data-audit",
    "Missing product data",
    "Lists products that lack an image, a description, a weight and the like.",
    category=base.Category.PRODUCTS,
    connections=base.REPORT_NEEDS,
    inputs=inputs.inputs_schema(
        ["checks"],
        {
            "checks": inputs.array("What to look for", {"enum": list(WORDS)}, minItems=1, maxItems=15),
            "published_only": inputs.flag("Only published products", default=True),
            "sheet": inputs.shared("sheet", "Write the list to this sheet"),
            "teams": inputs.shared("teams", "Post the counts to this channel"),
        },
        conditions=inputs.SHEET_OR_TEAMS,
    ),
    result=results.counts_schema(
        *("checked", "with_gaps"),
        by_check=results.list_of({"check": results.TEXT, "products": results.COUNT}),
        products=results.list_of({"label": results.TEXT, "missing": results.TEXT}),
    ),
    steps=(
        base.read_step(READ, "Read the products", _read_audited),
        base.decide_step(FIND, "Find what is missing", _find_gaps),
        base.send_step(SEND, "Send the report", send),
    ),
    schedule=Schedule(Cadence.WEEKLY, time_of_day="08:00", day_of_week=1),
    example={
        "checked": 300,
        "with_gaps": 9,
        "by_check": [{"check": "image", "products": 2}],
        "products": [{"label": "Teapot", "missing": "image"}],
    },
    finish=finish,
    check_setup=check_setup,
)
