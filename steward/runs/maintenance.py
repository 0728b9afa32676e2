"""What a worker does besides runs: months, room on the disk, the operator's figures (engine 16)."""

from steward.runs import gauges, retention
from steward.runs.worker_context import WorkerContext


async def turn_months(ctx: WorkerContext) -> bool:
    """Makes and drops the months of the tables that grow with every run."""
    made, dropped = await retention.turn_months(ctx.engine, ctx.clock.now())
    if made or dropped:
        ctx.log.info("months_turned", made=made, dropped=dropped)
    return False


async def watch_space(ctx: WorkerContext) -> bool:
    """Looks how full the disk is, and while it is full whether there is room again (engine 18)."""
    space = ctx.space
    if space is None:
        return False
    space.measure()
    ctx.metrics.set("steward_database_bytes", space.database_bytes)
    ctx.metrics.set("steward_disk_free_ratio", space.free_share)
    if not space.is_full:
        space.make_reserve()
    elif await space.try_again(ctx.engine, ctx.clock.now()):
        ctx.log.warning("disk_has_room", free=round(space.free_share, 3))
        ctx.wake("ready")
        ctx.wake("due")
    else:
        ctx.log.error("disk_full", free=round(space.free_share, 3))
    ctx.metrics.set("steward_disk_full", float(space.is_full))
    return False


async def tell_figures(ctx: WorkerContext) -> bool:
    """Tells the operator's metrics what waits, what is late and who works."""
    await gauges.tell(ctx)
    return False
