"""Periodic tasks: rows of runs that are due, each by itself; retention, partitions, disk space, gauges."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from steward.accounts import audit_check, failed_sign_ins
from steward.closed_periods import bounds
from steward.database import due_rows
from steward.database.accounts import audit_heads
from steward.database.automations import schedules
from steward.database.closed_periods import records as closed_periods
from steward.database.engine.base import LONG_SECONDS, Autocommit, Tx
from steward.database.engine.disk_space import DiskSpace
from steward.database.engine.wrapper import LongLimitEngine
from steward.database.operator import gauges, health
from steward.database.org_span import EVERY_ORG, ORGANIZATIONS, next_orgs
from steward.database.runs import approvals, fairness, transitions, write_ledger
from steward.database.runs import records as runs
from steward.model.ids import ApprovalId, OrgId, RunId
from steward.model.refusals import Unavailable
from steward.model.run import RunStatus
from steward.occurrences import closings
from steward.run_queue import ending
from steward.runs import approval, reconcile, retention
from steward.runs.retention import RetentionRules
from steward.runs.run_context import TaskContext, WriteContext
from steward.telemetry.metrics import Metrics

_SHOW_AFTER = timedelta(seconds=1)
_CHECKED_LOGS = 20
_CLOSING_ORGS = 20


async def wake_sleeping(ctx: TaskContext) -> bool:
    """Makes sleeping runs ready whose time has come; returns True when there were some."""
    rows = await ctx.engine.read(ctx.clock.now(), Autocommit(transitions.to_wake))

    async def wake(tx: Tx, *, org: OrgId, key: RunId) -> None:
        await transitions.wake(tx, org, key, vt=await fairness.stamp(tx, org))

    woken = await _process_rows(ctx, "wake", rows, _in_tx(ctx, wake))
    if woken:
        ctx.wake("ready")
    return woken > 0


async def expire_approvals(ctx: TaskContext) -> bool:
    """Ends expired approvals with their runs; returns True when more are likely to wait."""
    rows = await ctx.engine.read(ctx.clock.now(), approvals.expired)

    async def expire(tx: Tx, *, org: OrgId, key: ApprovalId) -> None:
        await approval.expire(tx, org=org, approval=key)

    ended = await _process_rows(ctx, "expire_approvals", rows, _in_tx(ctx, expire))
    ctx.wake("ready")
    if ended:
        ctx.wake("notice")
    return ended == approvals.EXPIRED_BATCH


async def warn_of_approvals(ctx: TaskContext) -> bool:
    """Sends notices of approvals that are about to expire; returns True when more are likely to wait."""
    rows = await ctx.engine.read(ctx.clock.now(), approvals.to_warn)

    async def warn(tx: Tx, *, org: OrgId, key: ApprovalId) -> None:
        await approval.warn(tx, org=org, approval=key)

    done = await _process_rows(ctx, "warn", rows, _in_tx(ctx, warn))
    if done:
        ctx.wake("notice")
    return done == approvals.WARN_BATCH


async def expire_unstarted(ctx: TaskContext, limit: timedelta) -> bool:
    """Expires runs no worker started within the queue limit."""
    unstarted = partial(transitions.unstarted, limit=limit)
    rows = await ctx.engine.read(ctx.clock.now(), unstarted)

    async def expire(tx: Tx, *, org: OrgId, key: RunId) -> None:
        automation = await runs.automation_of(tx, org, key)
        await ending.end(tx, org, key, automation=automation, since=RunStatus.QUEUED, how=ending.NOT_STARTED)

    if await _process_rows(ctx, "queue_limit", rows, _in_tx(ctx, expire)):
        ctx.wake("notice")
    return False


async def follow_closed_periods(ctx: TaskContext) -> bool:
    """Rewrites a batch of next runs where closed periods were changed; returns True when there is more."""
    orgs = await ctx.engine.read(ctx.clock.now(), partial(closed_periods.orgs_with_work, limit=_CLOSING_ORGS))
    unfinished = set()

    async def follow(org: OrgId, key: str) -> None:
        if await ctx.engine.write(ctx.clock.now(), partial(closings.follow_changes, org=org), org=org):
            unfinished.add(key)

    await _process_rows(ctx, closed_periods.CLOSINGS, [(org, str(org)) for org in orgs], follow)
    return bool(unfinished) or len(orgs) == _CLOSING_ORGS


async def raise_closing_bounds(ctx: TaskContext, late_limit: timedelta) -> bool:
    """Raises the bounds of all organizations whose closings have passed."""
    task = "closing_bounds"
    late = await ctx.engine.read(ctx.clock.now(), partial(due_rows.deferred_keys, tick=task))

    async def raise_bound(tx: Tx, *, org: OrgId, key: str) -> None:
        await bounds.raise_bound(tx, org=org, late_limit=late_limit)

    after = OrgId(0)
    while orgs := await ctx.engine.read(
        ctx.clock.now(), partial(bounds.passed, late_limit=late_limit, after=after)
    ):
        rows = [(org, str(org)) for org in orgs if str(org) not in late]
        await _process_rows(ctx, task, rows, _in_tx(ctx, raise_bound))
        after = orgs[-1]
    return False


async def settle_finished(ctx: WriteContext) -> bool:
    """Continues to read back unknown writes of finished runs."""
    rows = await ctx.engine.read(ctx.clock.now(), write_ledger.to_settle)
    await _process_rows(ctx, "settle", rows, partial(reconcile.settle_finished, ctx))
    return False


def _in_tx(ctx: TaskContext, act: Callable[..., Awaitable[None]]) -> Callable[[OrgId, Any], Awaitable[None]]:
    """Returns `act` as a transaction of its own per row."""

    async def run_one(org: OrgId, key: Any) -> None:
        await ctx.engine.write(ctx.clock.now(), partial(act, org=org, key=key), org=org)

    return run_one


async def _process_rows(
    ctx: TaskContext,
    task: str,
    rows: Sequence[tuple[OrgId, Any]],
    act: Callable[[OrgId, Any], Awaitable[None]],
) -> int:
    """Acts on every row and returns how many there were; a row that raises is deferred and stops no other."""
    done = 0
    for org, key in rows:
        try:
            await act(org, key)
            done += 1
        except Unavailable:
            raise  # a lost or slow database, which no row is at fault for; the next pass tries again
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            defer = partial(due_rows.defer, tick=task, key=key, message=message)
            failures = await ctx.engine.write(ctx.clock.now(), defer)
            if failures:
                ctx.metrics.count("steward_rows_deferred_total", task=task)
            ctx.log.error("row_deferred", error, task=task, org=org, key=key, failures=failures)
    return done


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


async def apply_retention(
    ctx: TaskContext, rules: RetentionRules, *, after: int = 0, max_orgs: int = ORGANIZATIONS
) -> tuple[bool, int]:
    """Deletes expired rows of the next `max_orgs` organizations behind the number `after`.

    Returns whether a table had as many as are deleted at once, and the `after` of the next pass.
    """
    full: set[str] = set()
    now = ctx.clock.now()
    orgs = await ctx.engine.read(now, partial(next_orgs, after=after, limit=max_orgs))
    if orgs is None:  # none is left: from the first one again
        orgs = await ctx.engine.read(now, partial(next_orgs, after=0, limit=max_orgs)) or EVERY_ORG
    rules = replace(rules, orgs=orgs)
    engine = LongLimitEngine(ctx.engine, LONG_SECONDS)

    async def sweep(org: OrgId, table: str) -> None:
        removed = await retention.SWEEPS[table](engine, ctx.clock.now(), rules)
        if removed:
            ctx.metrics.count("steward_rows_removed_total", removed, table=table)
        if removed >= retention.FULL.get(table, retention.ROWS):
            full.add(table)

    late = await ctx.engine.read(ctx.clock.now(), partial(due_rows.deferred_keys, tick="retention"))
    due = [(OrgId(0), table) for table in retention.SWEEPS if table not in late]
    await _process_rows(ctx, "retention", due, sweep)
    await retention.shrink(ctx.engine, ctx.clock.now(), rules)
    return bool(full), after if full else orgs.last


async def rotate_partitions(ctx: TaskContext) -> bool:
    """Creates and drops monthly partitions of the tables that grow with every run."""
    engine = LongLimitEngine(ctx.engine, LONG_SECONDS)
    created, dropped = await retention.rotate_partitions(engine, ctx.clock.now())
    if created or dropped:
        ctx.log.info("partitions_rotated", created=created, dropped=dropped)
    return False


async def watch_space(ctx: TaskContext, space: DiskSpace) -> bool:
    """Measures the disk, and while it is full tests whether there is room again."""
    space.measure()
    ctx.metrics.set("steward_database_bytes", space.database_bytes)
    ctx.metrics.set("steward_disk_free_ratio", space.free_share)
    if not space.is_full:
        space.make_reserve()
    elif await space.try_again(ctx.engine, ctx.clock.now()):
        ctx.log.warning("disk_recovered", free=round(space.free_share, 3))
        ctx.wake("ready")
        ctx.wake("due")
    else:
        ctx.log.error("disk_full", free=round(space.free_share, 3))
    ctx.metrics.set("steward_disk_full", float(space.is_full))
    return False


async def export_gauges(
    ctx: TaskContext, lease_until: float, *, expects_standbys: bool, holds: health.RowHolds
) -> bool:
    """Sets the gauges of what waits, what is late, which workers live and which standbys follow.

    `lease_until` is the end of this process's lease by its monotonic clock; `holds` lasts from call to call.
    See docs/guides/operators.md#metrics.
    """
    metrics = ctx.metrics

    async def load(
        tx: Tx,
    ) -> tuple[
        datetime, list[gauges.WaitingRuns], dict[str, int], tuple[int, int], datetime | None, health.Leases
    ]:
        followers = await health.followers(tx)
        await _export_open_transactions(tx, ctx, holds.update(followers, tx.now))
        await _export_standbys(tx, ctx, followers, are_expected=expects_standbys)
        await _export_tables(tx, metrics)
        return (
            tx.now,
            await gauges.queues(tx),
            await gauges.open_effects(tx),
            await gauges.closed(tx),
            await schedules.next_due(tx),
            await health.leases(tx),
        )

    now, queues, effects, (held, frozen), due, leases = await ctx.engine.read(ctx.clock.now(), load)
    for waiting in queues:
        metrics.set("steward_queue_runs", waiting.many, state=waiting.queue)
        metrics.set("steward_queue_oldest_seconds", _age(now, waiting.oldest_at), state=waiting.queue)
    for state, many in effects.items():
        metrics.set("steward_effects_open", many, state=state)
    metrics.set("steward_runs_held", held)
    metrics.set("steward_frozen_organizations", frozen)
    metrics.set("steward_schedule_behind_seconds", _age(now, due))
    metrics.set("steward_workers", leases.alive, lease="held")
    metrics.set("steward_workers", leases.expired, lease="expired")
    lease_left = lease_until - ctx.clock.monotonic()
    metrics.set("steward_lease_left_seconds", round(max(lease_left, 0.0), 3))
    return False


async def _export_open_transactions(
    tx: Tx, ctx: TaskContext, of_followers: Sequence[health.OpenTransaction]
) -> None:
    """Sets the age of the oldest transaction of each kind; only of prepared ones where others are not seen.

    Logs the oldest when it has been open for a minute.
    """
    transactions = [*await health.open_transactions(tx), *of_followers]
    sees_sessions = await health.sees_sessions(tx)
    for kind in ("session", "prepared", "slot", "standby"):
        if kind != "prepared" and not sees_sessions:
            ctx.metrics.remove("steward_oldest_transaction_seconds", kind=kind)
            continue
        of_kind = (transaction for transaction in transactions if transaction.kind == kind)
        oldest = min(of_kind, key=lambda transaction: transaction.since, default=None)
        age = round(_age(tx.now, None if oldest is None else oldest.since), 1)
        before = ctx.metrics.last("steward_oldest_transaction_seconds", kind=kind) or 0
        ctx.metrics.set("steward_oldest_transaction_seconds", age, kind=kind)
        if oldest is not None and before <= health.LONG_READER.total_seconds() < age:
            ctx.log.warning(
                "long_reader",
                kind=kind,
                server_process=oldest.process,
                role=oldest.role,
                application=oldest.application,
                seconds=age,
            )


async def _export_standbys(
    tx: Tx, ctx: TaskContext, followers: Sequence[health.Follower], *, are_expected: bool
) -> None:
    """Sets how many standbys follow and how far their clocks are off; logs when no synchronous one is left.

    A single server that waits for none has no series of their number.
    """
    metrics = ctx.metrics
    for state, is_synchronous in (("synchronous", True), ("asynchronous", False)):
        skews = [
            follower.clock_skew.total_seconds()
            for follower in followers
            if follower.clock_skew is not None and follower.is_synchronous is is_synchronous
        ]
        if skews:
            metrics.set("steward_standby_clock_skew_seconds", max(skews), state=state)
        else:
            metrics.remove("steward_standby_clock_skew_seconds", state=state)
    standbys = await health.standbys(tx)
    if standbys is None or not (are_expected or standbys.is_waiting):
        for state in ("synchronous", "asynchronous"):
            metrics.remove("steward_standbys", state=state)
        return
    if not standbys.synchronous and metrics.last("steward_standbys", state="synchronous") != 0:
        ctx.log.warning("standby_missing", asynchronous=standbys.asynchronous)
    metrics.set("steward_standbys", standbys.synchronous, state="synchronous")
    metrics.set("steward_standbys", standbys.asynchronous, state="asynchronous")


async def _export_tables(tx: Tx, metrics: Metrics) -> None:
    """Sets what the PostgreSQL server has to clean up; SQLite has no such series."""
    for table, many in (await health.dead_rows(tx)).items():
        metrics.set("steward_dead_rows", many, table=table)
    for table, many in (await health.rest_rows(tx)).items():
        metrics.set("steward_rest_rows", many, table=table)
    transaction_age = await health.transaction_age(tx)
    if transaction_age is not None:
        metrics.set("steward_transaction_age", transaction_age)


def _age(now: datetime, since: datetime | None) -> float:
    """Returns the seconds since an instant; 0 for None and for an instant still to come."""
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)


async def record_failed_sign_ins(ctx: TaskContext) -> bool:
    """Writes failed sign-ins to the audit log; returns True when more are likely to wait."""
    return await failed_sign_ins.record_ended(ctx.engine, ctx.clock.now())


async def check_audit_logs(ctx: TaskContext, anchor_every: timedelta) -> bool:
    """Checks the chains of audit entries that are due; returns True when more are.

    See docs/design/audit.md#checks.
    """
    now = ctx.clock.now()
    orgs = await ctx.engine.read(now, partial(audit_heads.due, limit=_CHECKED_LOGS))
    check = partial(audit_check.check_next, anchor_every=anchor_every)
    engine = LongLimitEngine(ctx.engine, LONG_SECONDS)
    for org in orgs:
        step = await engine.write(now, partial(check, org=org), org=org)
        if step.fault is not None:
            ctx.metrics.count("steward_audit_broken_total")
            ctx.log.error("audit_broken", org=org, seq=step.fault.seq, how=step.fault.how)
        if step.anchor is not None:
            ctx.log.info("audit_head", org=org, seq=step.anchor.seq, hash=step.anchor.hash)
    return len(orgs) == _CHECKED_LOGS
