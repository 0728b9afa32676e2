"""Missing product data: lists products that lack an image, a weight and the like (templates 5.15)."""

from collections import Counter
from typing import Any

from steward.connectors.base.commands import PostCard
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.model.refusals import FieldErrors
from steward.model.run import Counts
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import TriggerKind
from steward.steps.base import StepContext, StepFailed, StepResult
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
from steward.templates.parts.gaps import LACKING, WORDS, gap_words, missing_of
from steward.templates.parts.inputs import inputs_schema, shared
from steward.templates.parts.reports import Report, send_report
from steward.templates.parts.results import COUNT, TEXT, list_of, result_schema
from steward.templates.parts.stock import is_on_sale, read_products

READ, FIND, SEND = "read-products", "find-gaps", "send-report"
NONE = "Nothing is missing."

_INPUTS = inputs_schema(
    ["checks"],
    {
        "checks": {
            "type": "array",
            "items": {"enum": list(WORDS)},
            "uniqueItems": True,
            "minItems": 1,
            "maxItems": 15,
            "description": "What to look for",
        },
        "published_only": {"type": "boolean", "default": True, "description": "Only published products"},
        "sheet": shared("sheet", "Write the list to this sheet"),
        "teams": shared("teams", "Post the counts to this channel"),
    },
    conditions={"anyOf": [{"required": ["sheet"]}, {"required": ["teams"]}]},
)

_RESULT = result_schema(
    {
        "checked": COUNT,
        "with_gaps": COUNT,
        "by_check": list_of({"check": TEXT, "products": COUNT}),
        "products": list_of({"label": TEXT, "missing": TEXT}),
    }
)


async def read_them(at: StepContext) -> StepResult:
    """Every product with what it lacks of the data asked for (E9, E10); texts are not kept."""
    published = at.inputs["published_only"] is True
    checks: Any = at.inputs["checks"]
    lacking = LACKING.get(at.home.platform, frozenset()).intersection(checks)
    if lacking:
        words = f"The store's platform has no field for {WORDS[min(lacking)]}. Take it off the list."
        raise StepFailed("field_missing", words)
    rows: list[JsonValue] = []
    left_out = 0
    for product in await read_products(at, published_only=published):
        if not product.sellable:
            left_out += 1
            continue
        variants = [each for each in product.variants if is_on_sale(each) or not published]
        missing = missing_of(product, checks, variants)
        rows.append([product.label, product.url, len(variants), missing])
    return StepResult(
        {"products": rows},
        counts=Counts(read=len(rows)),
        title=f"Read {counted(len(rows), 'product')}",
        message=f"{counted(left_out, 'product')} of kinds without data of their own left out."
        if left_out
        else None,
    )


async def find_gaps(at: StepContext) -> StepResult:
    """The products with gaps, and how many have each."""
    output: Any = at.outputs[READ]
    checks: Any = at.inputs["checks"]
    by_check: Counter[str] = Counter()
    found: list[JsonValue] = []
    for label, url, variants, missing in output["products"]:
        by_check.update(missing.keys())
        if missing:
            words = ", ".join(gap_words(check, lacking, variants) for check, lacking in missing.items())
            found.append([label, words, url])
    return StepResult(
        {
            "checked": len(output["products"]),
            "by_check": [{"check": check, "products": by_check[check]} for check in checks],
            "products": found,
        },
        counts=Counts(matched=len(found)),
        title=f"Found {counted(len(found), 'product')} with something missing",
    )


async def send(at: StepContext) -> StepResult:
    """The list to the sheet, the counts to Teams; that nothing is missing is told as well."""
    found: Any = at.outputs[FIND]
    report = Report(
        ("Product", "Missing", "Link"),
        [(label, words, url) for label, words, url in found["products"]],
        NONE,
    )
    number, store = len(found["products"]), at.home.connection.name
    if number:
        checked = counted(found["checked"], "product")
        card = PostCard(
            title=f"{number} of {checked} of {store} {verb(number, 'lacks', 'lack')} something",
            facts=tuple(
                (_heading(each["check"]), counted(each["products"], "product"))
                for each in found["by_check"]
                if each["products"]
            ),
        )
    else:
        card = PostCard(
            title=f"Nothing is missing from the {counted(found['checked'], 'product')} of {store}"
        )
    return await send_report(at, report, card)


def finish(ended: EndedRun) -> RunSummary:
    """Summary and result (contract 3.2)."""
    found = ended.output_of(FIND)
    products: Any = found.get("products", [])
    checked, gaps = whole(found.get("checked")), len(products)
    text = sentences(
        f"{gaps} of {counted(checked, 'product')} {verb(gaps, 'lacks', 'lack')} something.",
        ended.report_sentence(SEND),
    )
    return run_summary(
        text,
        {
            "checked": checked,
            "with_gaps": gaps,
            "by_check": found.get("by_check", []),
            "products": [{"label": label, "missing": words} for label, words, _ in products],
        },
    )


def check_world(inputs: JsonObject, world: SetupContext) -> FieldErrors:
    """Checks the store's platform has no field for, each by its place in the list."""
    checks: Any = inputs["checks"]
    lacking = LACKING.get(world.store.kind, frozenset()) if world.store is not None else frozenset()
    return {
        f"inputs.checks.{place}": [f"This platform has no field for {WORDS[check]}. Take it off the list."]
        for place, check in enumerate(checks)
        if check in lacking
    }


def _heading(check: str) -> str:
    words = WORDS[check]
    return words[0].upper() + words[1:]


TEMPLATE = Template(
    facts=TemplateFacts(
        template_id="missing-product-data-audit",
        template_version=1,
        name="Missing product data",
        description="Lists products that lack an image, a description, a weight and the like.",
        category=Category.PRODUCTS,
        platforms=("shopify", "woocommerce"),
        connections=(
            ConnectionNeed("spreadsheet", ConnectionUse.WRITE, 0, 1),
            ConnectionNeed("teams", ConnectionUse.WRITE, 0, 1),
        ),
        inputs_schema=_INPUTS,
        result_schema=_RESULT,
        steps=(
            StepFacts(READ, "Read the products", StepKind.READ),
            StepFacts(FIND, "Find what is missing", StepKind.DECIDE),
            StepFacts(SEND, "Send the report", StepKind.SEND),
        ),
        changes_store=False,
        triggers=(TriggerKind.SCHEDULE,),
        topics={},
        default_schedule=Schedule(Cadence.WEEKLY, time_of_day="08:00", day_of_week=1),
        changes=(),
        example_result={
            "checked": 300,
            "with_gaps": 9,
            "by_check": [{"check": "image", "products": 2}],
            "products": [{"label": "Teapot", "missing": "image"}],
        },
    ),
    steps={READ: read_them, FIND: find_gaps, SEND: send},
    finish=finish,
    check_setup=check_world,
)
