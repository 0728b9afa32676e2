"""Periodic tasks on rows whose time has come, each row by itself."""

from datetime import timedelta
from functools import partial

from steward.accounts import failed_sign_ins
from steward.closed_periods import bounds
from steward.database import due_rows
from steward.database.closed_periods import records as closed_periods
from steward.database.engine.base import Autocommit, Tx
from steward.database.runs import approvals, fairness, transitions, write_ledger
from steward.database.runs import records as runs
from steward.model.ids import ApprovalId, OrgId, RunId
from steward.model.run import RunStatus
from steward.occurrences import closings
from steward.run_queue import ending
from steward.runs import approval
from steward.runs.run_context import TaskContext, WriteContext
from steward.runs.tasks.rows import in_transaction, process_rows
from steward.runs.writes import reconcile

_SHOW_AFTER = timedelta(seconds=1)
_CLOSING_ORGS = 20


async def wake_sleeping(ctx: TaskContext) -> bool:
    """Makes sleeping runs ready whose time has come; returns True when there were some."""
    rows = await ctx.engine.read(ctx.clock.now(), Autocommit(transitions.to_wake))

    async def wake(tx: Tx, *, org: OrgId, key: RunId) -> None:
        await transitions.wake(tx, org, key, vt=await fairness.stamp(tx, org))

    woken = await process_rows(ctx, "wake", rows, in_transaction(ctx, wake))
    if woken:
        ctx.wake("ready")
    return woken > 0


async def expire_approvals(ctx: TaskContext) -> bool:
    """Ends expired approvals with their runs; returns True when more are likely to wait."""
    rows = await ctx.engine.read(ctx.clock.now(), approvals.expired)

    async def expire(tx: Tx, *, org: OrgId, key: ApprovalId) -> None:
        await approval.expire(tx, org=org, approval=key)

    ended = await process_rows(ctx, "expire_approvals", rows, in_transaction(ctx, expire))
    ctx.wake("ready")
    if ended:
        ctx.wake("notice")
    return ended == approvals.EXPIRED_BATCH


async def warn_of_approvals(ctx: TaskContext) -> bool:
    """Sends notices of approvals that are about to expire; returns True when more are likely to wait."""
    rows = await ctx.engine.read(ctx.clock.now(), approvals.to_warn)

    async def warn(tx: Tx, *, org: OrgId, key: ApprovalId) -> None:
        await approval.warn(tx, org=org, approval=key)

    done = await process_rows(ctx, "warn", rows, in_transaction(ctx, warn))
    if done:
        ctx.wake("notice")
    return done == approvals.WARN_BATCH


async def expire_unstarted(ctx: TaskContext, limit: timedelta) -> bool:
    """Expires runs no worker started within the queue limit."""
    unstarted = partial(transitions.unstarted, limit=limit)
    rows = await ctx.engine.read(ctx.clock.now(), unstarted)

    async def expire(tx: Tx, *, org: OrgId, key: RunId) -> None:
        automation = await runs.automation_of(tx, org, key)
        await ending.end(
            tx, org, key, automation=automation, from_status=RunStatus.QUEUED, ending=ending.NOT_STARTED
        )

    if await process_rows(ctx, "queue_limit", rows, in_transaction(ctx, expire)):
        ctx.wake("notice")
    return False


async def follow_closed_periods(ctx: TaskContext) -> bool:
    """Rewrites a batch of next runs where closed periods were changed; returns True when there is more."""
    orgs = await ctx.engine.read(ctx.clock.now(), partial(closed_periods.orgs_with_work, limit=_CLOSING_ORGS))
    unfinished = set()

    async def follow(org: OrgId, key: str) -> None:
        if await ctx.engine.write(ctx.clock.now(), partial(closings.follow_changes, org=org), org=org):
            unfinished.add(key)

    await process_rows(ctx, closed_periods.CLOSINGS, [(org, str(org)) for org in orgs], follow)
    return bool(unfinished) or len(orgs) == _CLOSING_ORGS


async def raise_closing_bounds(ctx: TaskContext, late_limit: timedelta) -> bool:
    """Raises the bounds of all organizations whose closings have passed."""
    task = "closing_bounds"
    late = await ctx.engine.read(ctx.clock.now(), partial(due_rows.deferred_keys, task=task))

    async def raise_bound(tx: Tx, *, org: OrgId, key: str) -> None:
        await bounds.raise_bound(tx, org=org, late_limit=late_limit)

    after = OrgId(0)
    while orgs := await ctx.engine.read(
        ctx.clock.now(), partial(bounds.passed, late_limit=late_limit, after=after)
    ):
        rows = [(org, str(org)) for org in orgs if str(org) not in late]
        await process_rows(ctx, task, rows, in_transaction(ctx, raise_bound))
        after = orgs[-1]
    return False


async def settle_finished(ctx: WriteContext) -> bool:
    """Continues to read back unknown writes of finished runs."""
    rows = await ctx.engine.read(ctx.clock.now(), write_ledger.to_settle)
    await process_rows(ctx, "settle", rows, partial(reconcile.settle_finished, ctx))
    return False


async def note_progress(ctx: WriteContext) -> bool:
    """Stores what long steps are doing, at most every 2 s per run."""
    now = ctx.clock.now()
    for run, doing in list(ctx.progress.items()):
        if now - doing.started_at < _SHOW_AFTER:
            continue
        lease = doing.lease
        step = doing.wire()
        note = partial(runs.set_current_step, org=lease.org, run=run, epoch=lease.epoch, step=step)
        await ctx.engine.write(now, note, org=lease.org)
    return False


async def record_failed_sign_ins(ctx: TaskContext) -> bool:
    """Writes failed sign-ins to the audit log; returns True when more are likely to wait."""
    return await failed_sign_ins.record_ended(ctx.engine, ctx.clock.now())
