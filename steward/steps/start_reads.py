"""Prepares the plan of a workflow's run: adds its marks and the steps that read its initial objects."""

from steward.model.plan import DataMode, Plan
from steward.model.run import Run
from steward.steps.n8n.nodes.store_event import with_event_object
from steward.steps.shopify_flow.hydrate import with_reads
from steward.steps.workflow.run_marks import with_run_mark


def plan_of_run(plan_json: Plan, run: Run, mark: str) -> Plan:
    """Returns the plan with steps that read the objects of the run's event, or of a flow's manual run.

    `mark` is the run's text in the markers of removed keys. See docs/design/imports-verdict.md#start and
    docs/design/imports-shopify-flow.md#reading-objects.
    """
    plan = with_run_mark(plan_json, mark)
    entry = plan.entry()
    if entry is None:
        return plan
    if plan.mode is DataMode.ENVIRONMENT:
        return with_reads(plan, entry.name)
    return plan if run.event is None else with_event_object(plan, entry)
