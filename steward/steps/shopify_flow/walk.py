"""Runs a flow from its trigger to its end or to an approval, with the walk shared with n8n workflows."""

from collections.abc import Sequence

from steward.model.json import JsonObject
from steward.model.plan import Plan
from steward.steps.shopify_flow.order import FlowExecution, FlowOrder
from steward.steps.shopify_flow.run import FlowContext, execute
from steward.steps.shopify_flow.types import RUN_TYPES
from steward.steps.workflow.execute import ExecutionResult
from steward.steps.workflow.output_after_changes import (
    ChangeResult,
    OutputAfterChanges,
    StepAfterChanges,
    output_after_changes,
)
from steward.steps.workflow.plan_order import Execution
from steward.steps.workflow.walk import Journal, WalkContext, WalkResult, follow


async def walk_flow(
    plan: Plan, entry: str, trigger_values: JsonObject, *, context: WalkContext, journal: Journal
) -> WalkResult:
    """Runs the flow as far as possible now. Raises MemoryBudgetExceeded.

    `trigger_values` are the values that its trigger outputs.
    """
    flow_context = FlowContext(
        steps={step.name: step for step in plan.steps},
        evaluator=context.evaluator,
        run_environment=context.environment,
        types=RUN_TYPES,
        clock=context.clock,
    )

    async def run(execution: Execution) -> ExecutionResult:
        assert isinstance(execution, FlowExecution)
        return await execute(flow_context, execution)

    return await follow(
        FlowOrder(plan, entry=entry, trigger_values=trigger_values), run, journal=journal, context=context
    )


def flow_output_after_changes(
    step: StepAfterChanges, done: Sequence[ChangeResult]
) -> OutputAfterChanges | None:
    """Returns the output of an answered step of a flow; None for a change, whose output is its plan."""
    return output_after_changes(step, done, RUN_TYPES) if step.response_uses else None


def is_flow_type(source_type: str) -> bool:
    """Returns whether this release runs a step type of Shopify Flow."""
    return source_type in RUN_TYPES
