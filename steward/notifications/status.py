"""The state of notifications: gauges, and since when no mail goes out."""

from datetime import datetime, timedelta
from typing import Final

from steward.database.engine.base import Tx
from steward.database.notifications import gauges
from steward.model.notice import ChannelName
from steward.notifications.context import NotificationContext

# Mail counts as down when some waits and none was accepted for this long.
MAIL_SILENCE: Final = timedelta(minutes=15)


async def export_gauges(ctx: NotificationContext) -> bool:
    """Sets the gauges of waiting messages and broken routes."""

    async def read(tx: Tx) -> tuple[gauges.NoticeGauges, list[gauges.ChannelGauges]]:
        return await gauges.notices(tx), await gauges.channels(tx)

    notices, channels = await ctx.engine.read(ctx.clock.now(), read)
    ctx.metrics.set("steward_routes_broken", notices.broken_routes)
    for of_channel in channels:
        ctx.metrics.set("steward_messages_waiting", of_channel.waiting, channel=str(of_channel.channel))
    return False


async def mail_down_since(tx: Tx) -> datetime | None:
    """Returns since when mail waits without being accepted; None while mail goes out."""
    for of_channel in await gauges.channels(tx):
        if of_channel.channel is ChannelName.EMAIL and of_channel.oldest_due_at is not None:
            since = max(of_channel.oldest_due_at, of_channel.last_sent_at or of_channel.oldest_due_at)
            return since if tx.now - since >= MAIL_SILENCE else None
    return None
