"""Periodic tasks beside runs: partitions, free disk space, gauges, closed periods."""

from datetime import datetime

from steward.closed_periods import bounds
from steward.database.automations import schedules
from steward.database.engine.base import Tx
from steward.database.operator import gauges, health
from steward.occurrences import closings
from steward.runs import retention
from steward.runs.worker_context import WorkerContext


async def rotate_partitions(ctx: WorkerContext) -> bool:
    """Creates and drops monthly partitions of the tables that grow with every run."""
    created, dropped = await retention.rotate_partitions(ctx.engine, ctx.clock.now())
    if created or dropped:
        ctx.log.info("partitions_rotated", created=created, dropped=dropped)
    return False


async def watch_space(ctx: WorkerContext) -> bool:
    """Measures the disk, and while it is full tests whether there is room again."""
    space = ctx.space
    if space is None:
        return False
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


async def export_gauges(ctx: WorkerContext) -> bool:
    """Sets the gauges of what waits, what is late and which workers live.

    See docs/guides/operators.md#metrics.
    """
    metrics = ctx.metrics

    async def look(
        tx: Tx,
    ) -> tuple[datetime, list[gauges.Waiting], dict[str, int], datetime | None, health.Leases]:
        return (
            tx.now,
            await gauges.queues(tx),
            await gauges.open_effects(tx),
            await schedules.next_due(tx),
            await health.leases(tx),
        )

    now, queues, effects, due, leases = await ctx.engine.read(ctx.clock.now(), look)
    for waiting in queues:
        metrics.set("steward_queue_runs", waiting.many, state=waiting.queue)
        metrics.set("steward_queue_oldest_seconds", _age(now, waiting.oldest_at), state=waiting.queue)
    for state, many in effects.items():
        metrics.set("steward_effects_open", many, state=state)
    metrics.set("steward_schedule_behind_seconds", _age(now, due))
    metrics.set("steward_workers", leases.alive, lease="held")
    metrics.set("steward_workers", leases.expired, lease="expired")
    lease_left = ctx.lease_confirmation.until - ctx.clock.monotonic()
    metrics.set("steward_lease_left_seconds", round(max(lease_left, 0.0), 3))
    return False


async def follow_closed_periods(ctx: WorkerContext) -> bool:
    """Rewrites when automations run next where closed periods were changed."""
    return await closings.follow_changes(ctx.engine, ctx.clock.now())


async def raise_closing_bounds(ctx: WorkerContext) -> bool:
    """Forgets closings that have passed, so that slots take the fast path again."""
    late_limit = ctx.automation_rules.late_limit
    return await bounds.raise_bounds(ctx.engine, ctx.clock.now(), late_limit=late_limit)


def _age(now: datetime, since: datetime | None) -> float:
    """Returns the seconds since an instant; 0 for None and for an instant still to come."""
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)
