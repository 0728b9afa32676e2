"""Builds the context of a workflow's walk: what its steps work with."""

from collections.abc import Mapping
from functools import partial

from steward.model.automation import AutomationState
from steward.model.json import JsonObject
from steward.runs import step_context
from steward.runs.storage import static_data
from steward.runs.walk.state import Walk
from steward.runs.walk.workflow_plan import run_marks_of
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.step_types import RunEnvironment
from steward.steps.workflow.walk import WalkContext


def walk_context(walk: Walk) -> WalkContext:
    """Returns the context of a walk, whose steps share the run's static data."""
    ctx, run, automation = walk.ctx, walk.run, walk.claimed.automation
    walk.static_data = static_data.of_run(ctx.engine, ctx.clock, ctx.vault, run)
    environment = RunEnvironment(
        zone=automation.timezone,
        now=ctx.clock.now(),
        seed=run.id,
        mode=run.mode,
        workflow_id=run.automation_id,
        active=automation.state is AutomationState.ACTIVE,
        context=step_context.step_context(ctx, walk.claimed, walk.opened, {}, {}),
        binding=partial(_binding, walk.bindings),
        files=step_context.run_files(ctx, run),
        static_data=walk.static_data,
        marks=run_marks_of(walk),
        variables=walk.plan.values,
    )
    return WalkContext(
        evaluator=Evaluator(ctx.sandbox_pool, str(run.org), run.id),
        environment=environment,
        types=BY_TYPE,
        sleep=ctx.clock.sleep,
        clock=ctx.clock.now,
    )


def _binding(bindings: JsonObject, name: str) -> JsonObject | None:
    binding = bindings.get(name)
    return binding if isinstance(binding, Mapping) else None
