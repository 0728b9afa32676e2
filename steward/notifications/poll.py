"""Wakes the notification tasks that have due rows."""

from functools import partial

from steward.database.engine.base import Autocommit
from steward.database.notifications import due_tasks
from steward.notifications.context import NotificationContext


async def wake_due(ctx: NotificationContext) -> bool:
    """Wakes this process's tasks with due rows, which one statement finds for all of them."""
    find = Autocommit(partial(due_tasks.hints, channels=tuple(ctx.channels)))
    for hint in await ctx.engine.read(ctx.clock.now(), find):
        ctx.wake(hint)
    return False
