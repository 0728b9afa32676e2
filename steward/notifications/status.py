"""The state of notifications: gauges, and since when mail has been failing."""

from datetime import datetime, timedelta
from typing import Final

from steward.database.engine.base import Tx
from steward.database.notifications import gauges
from steward.model.notice import ChannelName
from steward.notifications.context import NotificationContext

# Mail counts as down if some waits and none was accepted for this long.
MAIL_SILENCE: Final = timedelta(minutes=15)


async def export_gauges(ctx: NotificationContext) -> bool:
    """Sets the gauges of waiting messages and broken routes."""

    async def read(tx: Tx) -> tuple[gauges.NoticeGauges, dict[ChannelName, int]]:
        return await gauges.notices(tx), await gauges.waiting(tx)

    notices, channels = await ctx.engine.read(ctx.clock.now(), read)
    ctx.metrics.set("steward_routes_broken", notices.broken_routes)
    for channel, waiting in channels.items():
        ctx.metrics.set("steward_messages_waiting", waiting, channel=str(channel))
    return False


async def mail_down_since(tx: Tx) -> datetime | None:
    """Returns since when mail has waited without any being accepted, else None."""
    mail = await gauges.mail(tx)
    if mail.oldest_due_at is None:
        return None
    since = max(mail.oldest_due_at, mail.last_sent_at or mail.oldest_due_at)
    return since if tx.now - since >= MAIL_SILENCE else None
