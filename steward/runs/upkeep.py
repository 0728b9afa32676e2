"""What a worker does besides runs: months, room on the disk, the operator's figures (engine 16)."""

from steward.runs import figures, retention
from steward.runs.tools import Tools


async def turn_months(tools: Tools) -> bool:
    """Makes and drops the months of the tables that grow with every run."""
    made, dropped = await retention.turn_months(tools.engine, tools.clock.now())
    if made or dropped:
        tools.log.info("months_turned", made=made, dropped=dropped)
    return False


async def watch_space(tools: Tools) -> bool:
    """Looks how full the disk is, and while it is full whether there is room again (engine 18)."""
    space = tools.space
    if space is None:
        return False
    space.measure()
    tools.metrics.set("steward_database_bytes", space.database_bytes)
    tools.metrics.set("steward_disk_free_ratio", space.free_share)
    if not space.is_full:
        space.make_reserve()
    elif await space.try_again(tools.engine, tools.clock.now()):
        tools.log.warning("disk_has_room", free=round(space.free_share, 3))
        tools.wake("ready")
        tools.wake("due")
    else:
        tools.log.error("disk_full", free=round(space.free_share, 3))
    tools.metrics.set("steward_disk_full", float(space.is_full))
    return False


async def tell_figures(tools: Tools) -> bool:
    """Tells the operator's metrics what waits, what is late and who works."""
    await figures.tell(tools)
    return False
