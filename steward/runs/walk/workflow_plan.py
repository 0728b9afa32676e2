"""Reads the plan of a workflow's run, in the version that the run started with."""

from functools import partial

from steward.database.automations import plans
from steward.model import plan_json
from steward.model.json import JsonObject
from steward.model.plan import DataMode, Plan
from steward.runs.walk.state import Walk
from steward.steps.base import StepFailed
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.shopify_flow.walk import is_flow_type
from steward.steps.start_reads import plan_of_run
from steward.steps.workflow.run_marks import run_marks


def run_marks_of(walk_: Walk) -> tuple[str, ...]:
    """Returns the texts that markers of removed keys have in this run, the present one first."""
    return run_marks([master.key for master in walk_.ctx.vault.masters], walk_.run.id)


async def plan_of(walk_: Walk) -> tuple[Plan, JsonObject]:
    """Returns the plan of the run's own version and its bindings."""
    run = walk_.run
    stored_plan = await walk_.read(
        partial(plans.get, org=run.org, automation=run.automation_id, version=run.plan_version or 1)
    )
    if stored_plan is None:
        raise StepFailed("step_failed", "The steps of this automation no longer exist. Import it again.")
    return plan_of_run(
        plan_json.from_json(stored_plan.plan), run, run_marks_of(walk_)[0]
    ), stored_plan.bindings


def unknown_types(plan: Plan) -> set[str]:
    """Returns the types of the plan's steps that run and that this release does not know."""
    is_known = is_flow_type if plan.mode is DataMode.ENVIRONMENT else BY_TYPE.__contains__
    unknown = {
        step.origin.source_type
        for step in plan.steps
        if step.origin is not None
        and (step.origin.supported and step.origin.reachable and not step.origin.disabled)
        and not is_known(step.origin.source_type)
    }
    return unknown.union(*(unknown_types(inner) for inner in plan.inner.values()))
