"""The periodic tasks of a worker: which there are, how often each runs, and what it passes on.

See docs/design/runs.md#periodic-tasks-and-failing-rows.
"""

from datetime import timedelta
from functools import partial

from steward.connections import health
from steward.connections.health import ConnectionChecks
from steward.database.engine.disk_space import RETRY_SECONDS
from steward.database.operator.status import DELAY_STEPS
from steward.events import catch_up, match, subscription_sync
from steward.model.notice import ChannelName
from steward.notifications import close, deliver, fan_out, poll, status
from steward.notifications.context import NotificationContext
from steward.occurrences import audit
from steward.runs import dispatch
from steward.runs.tasks import gauges, maintenance, timers
from steward.worker import (
    PeriodicTask,
    Worker,
    claim_runs,
    find_full_organizations,
    heartbeat,
    recover_dead_workers,
    release_orphaned_runs,
)

# How often each task runs within the time of one lease.
_HEARTBEATS_PER_LEASE = 3
_RECOVERIES_PER_LEASE = 5


def of_worker(worker: Worker, *, dispatch_every: timedelta = timedelta(seconds=1)) -> list[PeriodicTask]:
    """Returns all tasks that a worker performs besides executing runs.

    See docs/design/runs.md#periodic-tasks-and-failing-rows.
    """
    ctx, events = worker.ctx, worker.ctx.events()
    lease = ctx.worker_rules.lease
    recovery = lease / _RECOVERIES_PER_LEASE
    second, half_minute, minute = timedelta(seconds=1), timedelta(seconds=30), timedelta(minutes=1)
    return [
        PeriodicTask("heartbeat", lease / _HEARTBEATS_PER_LEASE, partial(heartbeat, worker)),
        PeriodicTask("recover", recovery, partial(recover_dead_workers, worker)),
        PeriodicTask("release_orphans", recovery, partial(release_orphaned_runs, worker)),
        PeriodicTask("claim", worker.poll, partial(claim_runs, worker), hint="ready"),
        PeriodicTask("find_full", second, partial(find_full_organizations, worker)),
        PeriodicTask("dispatch", dispatch_every, partial(dispatch_due, worker), hint="due"),
        PeriodicTask("match", second, partial(match.match_due, events), hint="event"),
        PeriodicTask("listen", 10 * second, partial(subscription_sync.sync_due, events), hint="listen"),
        PeriodicTask("catch_up", half_minute, partial(catch_up.catch_up_due, events), hint="catch_up"),
        PeriodicTask("check_connections", half_minute, partial(check_connections, worker)),
        PeriodicTask("closings", 2 * second, partial(timers.follow_closed_periods, ctx), hint="closings"),
        PeriodicTask("closing_bounds", minute, partial(_raise_closing_bounds, worker)),
        PeriodicTask("failed_sign_ins", minute, partial(timers.record_failed_sign_ins, ctx)),
        PeriodicTask("audit_logs", minute, partial(_check_audit_logs, worker)),
        PeriodicTask("audit", audit.PASS_EVERY, partial(_audit_slots, worker)),
        PeriodicTask("stats", 5 * second, partial(_record_delays, worker)),
        PeriodicTask("gauges", 15 * second, partial(export_gauges, worker)),
        PeriodicTask("wake", second, partial(timers.wake_sleeping, ctx)),
        PeriodicTask("expire_approvals", 10 * second, partial(timers.expire_approvals, ctx)),
        PeriodicTask("warn", 15 * second, partial(timers.warn_of_approvals, ctx)),
        PeriodicTask("queue_limit", minute, partial(expire_unstarted, worker)),
        PeriodicTask("settle", half_minute, partial(timers.settle_finished, ctx)),
        PeriodicTask("progress", 2 * second, partial(timers.note_progress, ctx)),
        PeriodicTask("retention", minute, partial(apply_retention, worker)),
        PeriodicTask("space", RETRY_SECONDS * second, partial(watch_space, worker)),
        PeriodicTask("partitions", timedelta(hours=1), partial(rotate_partitions, worker)),
        *_notification_tasks(worker.notifications),
    ]


def _notification_tasks(ctx: NotificationContext | None) -> list[PeriodicTask]:
    """Returns the notification tasks; each channel has its own, so that a slow one delays no other.

    One statement a second finds the tasks with due rows and wakes them.
    """
    if ctx is None:
        return []
    second, half_minute = timedelta(seconds=1), timedelta(seconds=30)

    def deliver_by(channel: ChannelName) -> PeriodicTask:
        run = partial(deliver.deliver_due, ctx, channel)
        return PeriodicTask(f"deliver_{channel}", half_minute, run, hint=f"deliver_{channel}")

    return [
        PeriodicTask("poll_notifications", second, partial(poll.wake_due, ctx)),
        PeriodicTask("fan_out", half_minute, partial(fan_out.fan_out_due, ctx), hint="notice"),
        PeriodicTask("close_messages", half_minute, partial(close.close_due, ctx), hint="message"),
        PeriodicTask("notice_gauges", 15 * second, partial(status.export_gauges, ctx)),
        *(deliver_by(channel) for channel in ctx.channels),
    ]


async def _raise_closing_bounds(worker: Worker) -> bool:
    """Raises the bounds of passed closings, so that slots take the fast path again."""
    return await timers.raise_closing_bounds(worker.ctx, worker.ctx.automation_rules.late_limit)


async def _check_audit_logs(worker: Worker) -> bool:
    """Checks the chains of audit entries that are due."""
    return await maintenance.check_audit_logs(worker.ctx, worker.ctx.worker_rules.audit_anchor)


async def export_gauges(worker: Worker) -> bool:
    """Sets the gauges of queue, slots and leases."""
    ctx = worker.ctx
    return await gauges.export_gauges(
        ctx,
        ctx.lease_confirmation.until,
        expects_standbys=ctx.worker_rules.expects_standbys,
        holds=worker.row_holds,
    )


async def watch_space(worker: Worker) -> bool:
    """Measures the free space of an SQLite database's disk."""
    ctx = worker.ctx
    if ctx.space is None:
        return False
    return await maintenance.watch_space(ctx, ctx.space)


async def rotate_partitions(worker: Worker) -> bool:
    """Creates and drops monthly partitions."""
    return await maintenance.rotate_partitions(worker.ctx)


async def check_connections(worker: Worker) -> bool:
    """Checks the connections that are due."""
    ctx = worker.ctx
    return await health.check_due(ConnectionChecks(ctx.engine, ctx.clock, ctx.vault, ctx.log))


async def dispatch_due(worker: Worker) -> bool:
    """Starts or skips due slots."""
    ctx = worker.ctx
    if not ctx.accepts_work:
        return False
    again: bool = await dispatch.dispatch_due(
        ctx.engine,
        ctx.clock.now(),
        rules=ctx.automation_rules,
        log=ctx.log,
        delays=worker.delays,
    )
    worker.hints.wake("ready")
    return again


async def _audit_slots(worker: Worker) -> bool:
    """Audits that every slot has its record: each automation hourly, and all after the start."""
    ctx = worker.ctx
    return await audit.audit_slots(
        ctx.engine,
        ctx.clock.now(),
        started=worker.started_at,
        late_limit=ctx.automation_rules.late_limit,
        log=ctx.log,
        metrics=ctx.metrics,
        quiet_periods=(
            audit.QUIET_PERIODS if worker.notifications is None else worker.notifications.rules.quiet_periods
        ),
    )


async def _record_delays(worker: Worker) -> bool:
    """Records how late slots were dispatched, for metrics and the status page."""
    delays, worker.delays = worker.delays, []
    for delay in delays:
        worker.ctx.metrics.observe(
            "steward_dispatch_delay_seconds", delay.total_seconds(), bounds=DELAY_STEPS
        )
    record = partial(dispatch.record_delays, delays=delays)
    await worker.ctx.engine.write(worker.ctx.clock.now(), record)
    return False


async def expire_unstarted(worker: Worker) -> bool:
    """Expires runs that no worker started within the queue limit."""
    return await timers.expire_unstarted(worker.ctx, worker.ctx.worker_rules.queue_limit)


async def apply_retention(worker: Worker) -> bool:
    """Deletes expired rows of the next organizations."""
    again, worker.retention_cursor = await maintenance.apply_retention(
        worker.ctx, worker.ctx.retention, after=worker.retention_cursor
    )
    return again
