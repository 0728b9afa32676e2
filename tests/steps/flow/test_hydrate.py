"""Tests where a flow's plan has steps that read objects, and what these and fetching steps read.

See docs/design/imports-shopify-flow.md#reading-objects.
"""

from steward.model.plan import Patched, Plan, PlanEdge, PlanStep, StepKind, StepSource, Variable
from steward.steps.shopify_flow.hydrate import READ_TASK, variables_of, with_reads


def step(name: str, kind: StepKind = StepKind.DECIDE, alias: str | None = None) -> PlanStep:
    """Returns a step of a flow."""
    return PlanStep(name, name, kind, "x", {"own": 1}, StepSource("x", 1.0, alias=alias))


PATCHED = (Patched("Order", "gift", "custom", "gift"),)
PLAN = Plan(
    steps=(
        step("Read the draft order"),
        step("Get", alias="getOrderData"),
        step("Wait", StepKind.WAIT),
        step("End"),
    ),
    edges=(
        PlanEdge("Began", "out:0", "Read the draft order"),
        PlanEdge("Began", "out:0", "Get"),
        PlanEdge("Get", "out:0", "Wait"),
        PlanEdge("Wait", "out:0", "End"),
    ),
    variables=(
        Variable("draftOrder", ("draftOrder.gift",), "q", PATCHED),
        Variable("getOrderData", ("getOrderData.id",), "q"),
        Variable("shop", ("shop.name",), "q"),
    ),
)


def test_objects_are_read_after_the_trigger_and_after_each_wait() -> None:
    """Adds a reading step after the trigger and one after each wait, with names of their own.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    plan = with_reads(PLAN, "Began")
    reads = {
        step.name: step
        for step in plan.steps
        if step.origin is not None and step.origin.source_type == READ_TASK
    }
    first, second = "Read the draft order 2", "Read the draft order again"
    assert list(reads) == [first, second]
    assert sorted((edge.source, edge.target) for edge in plan.edges) == [
        ("Began", first),
        ("Get", "Wait"),
        (first, "Get"),
        (first, "Read the draft order"),
        (second, "End"),
        ("Wait", second),
    ]
    read = [(variable.root, variable.paths, variable.patched) for variable in variables_of(reads[second])]
    assert read == [("draftOrder", ("draftOrder.gift",), PATCHED), ("shop", ("shop.name",), ())]
    variables = variables_of(plan.step("Get"))
    assert [(variable.root, variable.paths) for variable in variables] == [
        ("getOrderData", ("getOrderData.id",))
    ]
    assert plan.step("Get").config["own"] == 1


def test_a_flow_that_reads_no_objects_stays_unchanged() -> None:
    """Leaves a flow unchanged that reads no objects.

    See docs/design/imports-shopify-flow.md#reading-objects.
    """
    plan = Plan(PLAN.steps, PLAN.edges)
    assert with_reads(plan, "Began") == plan
