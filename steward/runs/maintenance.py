"""Periodic tasks beside runs: partitions, free disk space, gauges, closed periods."""

from steward.closed_periods import bounds
from steward.occurrences import closings
from steward.runs import gauges, retention
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
    """Exports the operator's gauges."""
    await gauges.export_gauges(ctx)
    return False


async def follow_closed_periods(ctx: WorkerContext) -> bool:
    """Rewrites when automations run next where closed periods were changed."""
    return await closings.follow_changes(ctx.engine, ctx.clock.now())


async def raise_closing_bounds(ctx: WorkerContext) -> bool:
    """Forgets closings that have passed, so that slots take the fast path again."""
    late_limit = ctx.automation_rules.late_limit
    return await bounds.raise_bounds(ctx.engine, ctx.clock.now(), late_limit=late_limit)
