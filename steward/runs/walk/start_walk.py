"""Builds the walk of a claimed run from its plan and its stored rows."""

from functools import partial

import msgspec

from steward.automations.rules import Templates
from steward.database.engine.base import Tx
from steward.database.runs import approvals, steps
from steward.database.runs.steps import execution_key
from steward.model.automation import AutomationKind
from steward.model.plan import Plan
from steward.model.run import Counts
from steward.run_queue import summaries
from steward.run_queue.undo_plan import UNDO
from steward.runs import claimed_run, open_connections
from steward.runs.claimed_run import ClaimedRun
from steward.runs.run_context import RunContext, UnknownPlan
from steward.runs.walk import workflow_plan
from steward.runs.walk.state import Walk
from steward.templates.base import Template


async def start_walk(ctx: RunContext, claimed: ClaimedRun, opened: open_connections.OpenConnections) -> Walk:
    """Returns the walk of a claimed run. Raises UnknownPlan."""
    is_workflow = claimed.automation.kind is AutomationKind.WORKFLOW and claimed.run.undo_of is None
    template = None if is_workflow else _template_of(ctx.automation_rules.templates, claimed)
    walk = Walk(
        ctx=ctx,
        claimed=claimed,
        template=template,
        plan=Plan((), ()) if template is None else template.plan,
        opened=opened,
        seq=claimed.state.last_seq,
        round=1,
        journal={execution_key(value.name, value.iteration): value for value in claimed.journal},
        counted=Counts(),
        started=ctx.clock.monotonic(),
        output_bytes=sum(value.stored_bytes for value in claimed.journal),
    )
    if template is None:
        walk.plan, walk.bindings = await workflow_plan.plan_of(walk)
        if unknown := workflow_plan.unknown_types(walk.plan):
            raise UnknownPlan(f"step types {', '.join(sorted(unknown))}")
        walk.sends_wait_for_approval = claimed_run.sends_wait_for_approval(claimed)
    if claimed.state.last_seq or len(claimed.journal) > 1:
        await walk.read(partial(_resume, walk=walk))
    return walk


async def _resume(tx: Tx, *, walk: Walk) -> None:
    """Restores what a continued run reads from its rows: totals, outcomes and the approval round."""
    org, run = walk.lease.org, walk.run.id
    record = await summaries.of_run(tx, org, run, without_template=True)
    walk.counted, walk.outcomes = record.counted, dict(record.outcomes)
    for iteration, wire in await steps.rows_of(tx, org, run):
        row = msgspec.json.decode(wire)
        walk.step_messages[execution_key(row["name"], iteration)] = (row["code"], row["message"])
    if walk.run.approval_id is not None:
        approval = await approvals.get(tx, org, walk.run.approval_id)
        walk.round = approval.round + 1


def _template_of(templates: Templates, claimed: ClaimedRun) -> Template:
    """Returns the template that the run walks; an undo walks a built-in plan.

    Raises UnknownPlan.
    """
    if claimed.run.undo_of is not None:
        return UNDO
    template = templates.get(claimed.run.template_id)
    if template is None:
        raise UnknownPlan(f"template {claimed.run.template_id}")
    return template
