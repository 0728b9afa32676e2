"""Works on a leased run until it ends, waits or is lost (docs/design/runs.md#execution)."""

from functools import partial

from steward.database.engine.disk_space import DiskFull
from steward.database.runs.transitions import Lease
from steward.failpoint import failpoint
from steward.model.refusals import NotConnected, Unavailable
from steward.model.run import RunStatus
from steward.runs import claim, finish, open_connections, start_claimed
from steward.runs.claimed_run import ClaimedRun
from steward.runs.finish import RunEnd
from steward.runs.lease import LeaseLost, WorkerStopping
from steward.runs.run_context import RunContext, UnknownPlan
from steward.runs.walk.crash import fail_crashed_run
from steward.runs.walk.early_end import end_at_start
from steward.runs.walk.end import stopped_by
from steward.runs.walk.sleep import put_to_sleep
from steward.runs.walk.start_walk import start_walk
from steward.runs.walk.stop import stop_run, was_stopping
from steward.runs.walk.walk_plan import walk_to_pause
from steward.runs.writes import reconcile

_STOPPING_WORDS = (
    "The service was interrupted while it stopped this run. What was not changed by then was left as it was:"
    " run it again."
)


async def work(ctx: RunContext, lease: Lease) -> bool:
    """Executes one leased run until it ends, waits for an approval, or sleeps.

    Returns False when the run was abandoned because the database's disk is full or failing.
    """
    ctx.begin_trace(lease)
    try:
        claimed = await start_claimed.start_claimed(ctx.engine, ctx.clock.now(), lease, ctx.automation_rules)
        failpoint("after_start")
        if claimed is not None:
            if lease.is_first_start:
                waited = ctx.clock.now() - claimed.run.queued_at
                ctx.metrics.observe("steward_run_start_seconds", waited.total_seconds())
            await _continue_run(ctx, claimed)
    except LeaseLost:
        ctx.metrics.count("steward_runs_fenced_total")
        ctx.log.info("run_lost", run=lease.run, org=lease.org, epoch=lease.epoch)
    except WorkerStopping:
        ctx.log.info("run_released", run=lease.run, org=lease.org)
    except Unavailable as error:
        return _abandon(ctx, lease, error)
    except MemoryError as error:  # abandoned too: another process may have the memory
        ctx.log.error("run_abandoned", error, run=lease.run, org=lease.org, reason="out of memory")
    except Exception as error:  # a defect must fail its own run, not end the worker
        ctx.log.error("run_crashed", error, run=lease.run, org=lease.org)
        try:
            await fail_crashed_run(ctx, lease)
        except Unavailable as unavailable:
            return _abandon(ctx, lease, unavailable)
        await ctx.add_trace(lease)
    else:
        await ctx.add_trace(lease)
    return True


def _abandon(ctx: RunContext, lease: Lease, error: Unavailable) -> bool:
    """Logs that the run is abandoned, see `worker.release_orphaned_runs`; returns what `work` returns."""
    ctx.log.warning("run_abandoned", run=lease.run, org=lease.org, reason=error.message)
    return not isinstance(error, DiskFull)


async def _continue_run(ctx: RunContext, claimed: ClaimedRun) -> None:
    """Starts or continues a claimed run, after its open writes are settled."""
    lease = claimed.lease
    until = None if lease.is_first_start else await reconcile.settle_run(ctx, lease)
    if until is not None:
        await put_to_sleep(ctx, claimed, until, leased_ms=0, settles=True)
        return
    end = end_at_start(claimed)
    opened = open_connections.NO_CONNECTIONS
    if end is None:
        try:
            opened = await open_connections.open_connections(ctx, claimed)
        except NotConnected as refusal:
            end = partial(stopped_by, RunEnd(RunStatus.FAILED, "step_failed", refusal.message))
    try:
        walk = await start_walk(ctx, claimed, opened)
    except UnknownPlan as unknown:
        if not await ctx.engine.write(
            ctx.clock.now(), partial(claim.leave_to_other_release, lease=lease), org=lease.org
        ):
            raise
        ctx.log.info("run_left_to_other_release", run=lease.run, org=lease.org, reason=str(unknown))
        return
    if end is None and was_stopping(walk):
        end = partial(stopped_by, RunEnd(RunStatus.FAILED, finish.INTERRUPTED, _STOPPING_WORDS))
    await (walk_to_pause(walk) if end is None else stop_run(walk, end))
