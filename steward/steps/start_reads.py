"""The steps that read what a run of a workflow begins with, beside those of its plan."""

from steward.model.plan import DataMode, Plan, PlanTrigger
from steward.model.run import Run
from steward.steps.n8n.nodes.store_event import with_event_object
from steward.steps.shopify_flow.hydrate import with_reads


def with_reads_of(plan: Plan, entry: PlanTrigger, run: Run) -> Plan:
    """Returns the plan with the steps that read the objects of the run's event, or of a flow's run by hand.

    See docs/design/imports-verdict.md#start and docs/design/imports-shopify-flow.md#reading-objects.
    """
    if plan.mode is DataMode.ENVIRONMENT:
        return with_reads(plan, entry.name)
    return plan if run.event is None else with_event_object(plan, entry)
