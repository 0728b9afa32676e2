"""Compares each recorded flow file with a plan and findings written by hand from the file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steward.imports.content import content_of
from steward.imports.reading import ImportReading, read_export
from steward.imports.storage import needs_of
from steward.model.plan import DataMode
from steward.steps.workflow.expressions.evaluate import Evaluator
from tests.case_data import case_data
from tests.shared_sandbox import shared_sandbox

CONDITION, LOOP = "Check if condition is met", "For each loop"
TAG_ORDER, TAG_PRODUCT, MAIL = "Add order tags", "Add product tags", "Send internal email"
CODE, HTTP, REDIRECT, REQUEST = (
    "Run code",
    "Send HTTP request",
    "Create redirect URL",
    "Send Admin API request",
)


@dataclass(frozen=True)
class Expected:
    """The expected result of reading a file."""

    trigger: tuple[str, str]
    steps: tuple[tuple[str, str], ...]  # name and kind
    edges: tuple[tuple[str, str, str], ...]
    paths: tuple[str, ...]
    findings: tuple[tuple[str | None, str, str], ...] = ()  # step, level and code, in the order of the report
    needs: tuple[str, ...] = ("store",)


_TAGGING = {
    "trigger": ("Order created", "orders/create"),
    "steps": ((CONDITION, "decide"), (TAG_ORDER, "change")),
    "edges": (("Order created", "out:0", CONDITION), (CONDITION, "true", TAG_ORDER)),
    "paths": ("order.id", "order.totalPrice"),
}
EXPECTED = {
    "high_value_tag": Expected(**_TAGGING),  # type: ignore[arg-type]
    "bad_checksum": Expected(**_TAGGING, findings=((None, "warning", "checksum_mismatch"),)),  # type: ignore[arg-type]
    "foreach_presale": Expected(
        trigger=("Order created", "orders/create"),
        steps=(
            (CONDITION, "decide"),
            (LOOP, "decide"),
            (f"{CONDITION} 2", "decide"),
            (TAG_PRODUCT, "change"),
            (MAIL, "send"),
        ),
        edges=(
            ("Order created", "out:0", CONDITION),
            (CONDITION, "true", LOOP),
            (LOOP, "loop_body", f"{CONDITION} 2"),
            (f"{CONDITION} 2", "true", TAG_PRODUCT),
            (LOOP, "after", MAIL),
        ),
        paths=(
            "order.lineItems",
            "order.lineItems.product.id",
            "order.lineItems.product.tags",
            "order.lineItems.quantity",
            "order.lineItems.title",
            "order.name",
            "shop.email",
        ),
        findings=(
            (CONDITION, "warning", "parameter"),
            (MAIL, "warning", "parameter"),
            (MAIL, "warning", "credential"),
        ),
        needs=("store", "teams"),
    ),
    "run_code_http": Expected(
        trigger=("Order created", "orders/create"),
        steps=((CODE, "decide"), (CONDITION, "decide"), (HTTP, "send")),
        edges=(
            ("Order created", "out:0", CODE),
            (CODE, "out:0", CONDITION),
            (CONDITION, "true", HTTP),
        ),
        paths=("order.id", "order.lineItems.quantity", "order.lineItems.title"),
        findings=(
            (CODE, "warning", "parameter"),
            (HTTP, "warning", "parameter"),
        ),
    ),
    "admin_api_metafield": Expected(
        trigger=("Order canceled", "orders/cancelled"),
        steps=((CONDITION, "decide"), (REQUEST, "change")),
        edges=(("Order canceled", "out:0", CONDITION), (CONDITION, "true", REQUEST)),
        paths=("order.customer.id", "order.customer.loyaltyTier.value"),
    ),
}

# A genuine export that others published; tests/imports/test_published_exports.py reads it.
REDIRECT_OF_ARCHIVED = Expected(
    trigger=("Product status updated", "products/update"),
    steps=((CONDITION, "decide"), (REDIRECT, "change")),
    edges=(("Product status updated", "out:0", CONDITION), (CONDITION, "true", REDIRECT)),
    paths=(
        "product.collections",
        "product.collections.handle",
        "product.handle",
        "product.metafields.tgg.breadcrumb",
        "product.status",
    ),
    findings=(
        # No event has the status before; a metafield must be added as a field to be read.
        (CONDITION, "error", "parameter"),
        (REDIRECT, "error", "parameter"),
        ("Product status updated", "warning", "foreign_trigger"),
        (REDIRECT, "warning", "parameter"),
    ),
)


def _of(reading: ImportReading) -> Expected:
    """Returns the result of reading a file in the form that is compared."""
    plan = reading.plan
    [trigger] = plan.triggers
    return Expected(
        trigger=(trigger.name, trigger.topics[0]),
        steps=tuple((step.name, str(step.kind)) for step in plan.steps),
        edges=tuple((edge.source, edge.port, edge.target) for edge in plan.edges),
        paths=tuple(path for variable in plan.variables for path in variable.paths),
        findings=tuple(
            (finding.step, str(finding.level), finding.code) for finding in reading.report.findings
        ),
        needs=tuple(needs_of(plan)),
    )


async def test_each_recorded_flow_is_read_as_written_by_hand() -> None:
    """Finds an expectation for every recorded file, and compares them."""
    files = {path.stem: path for path in case_data("shopify_flow").glob("*.flow")}
    assert set(files) == set(EXPECTED)
    await check_flows({path: EXPECTED[name] for name, path in files.items()})


async def check_flows(files: Mapping[Path, Expected]) -> None:
    """Reads each file and compares its plan and findings with the expected ones."""
    evaluator = Evaluator(shared_sandbox(), "report", "report")
    for path, expected in files.items():
        content = content_of(path.read_bytes().decode("utf-8"))
        reading = await read_export("store_flow", content, None, evaluator)
        assert (path.stem, _of(reading)) == (path.stem, expected)
        errors = [finding for finding in expected.findings if finding[1] == "error"]
        assert (reading.plan.mode, reading.report.supported) == (DataMode.ENVIRONMENT, not errors)
