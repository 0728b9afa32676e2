"""Requests approval of the changes that a walk holds."""

from functools import partial

from steward.database.runs import changes
from steward.database.runs.steps import ValueState
from steward.failpoint import failpoint
from steward.model.change import Outcome
from steward.model.run import RunStatus
from steward.runs import approval_request
from steward.runs.walk.state import Walk


async def request_approval(walk: Walk) -> None:
    """Turns all held changes into one approval; the run waits without a worker."""
    ctx = walk.ctx
    items = await walk.read(
        partial(changes.of_run, org=walk.lease.org, run=walk.run.id, outcomes=(Outcome.PROPOSED,))
    )
    request = approval_request.ApprovalRequest(
        run=walk.run,
        automation=walk.claimed.automation,
        round=walk.round,
        items=items,
        valid_for=ctx.rules.approval,
        leased_ms=walk.leased_ms(),
        summary=walk.totals().summary(RunStatus.WAITING_APPROVAL, None, None),
        follows=approval_request.following_steps(
            walk.plan,
            {value.name for value in walk.journal.values() if value.state is ValueState.HELD},
            needs_approval=walk.needs_approval,
        ),
    )
    failpoint("before_ask")
    await ctx.engine.write(
        ctx.clock.now(),
        partial(approval_request.request_approval, lease=walk.lease, request=request),
        org=walk.lease.org,
    )
    failpoint("after_ask")
    ctx.wake("notice")
    ctx.log.info("run_waits_for_approval", run=walk.run.id, org=walk.lease.org, changes=len(items))
