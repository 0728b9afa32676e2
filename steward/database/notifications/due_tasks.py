"""Finds the notification tasks with due rows, in one statement."""

from collections.abc import Iterable

from steward.database.due_rows import NOT_DEFERRED
from steward.database.engine.base import PerEngine, Tx
from steward.model.notice import ChannelName

_DUE_TASKS = PerEngine(
    sqlite="SELECT 'notice' AS hint WHERE EXISTS"
    " (SELECT 1 FROM notices WHERE state = 'new' AND not_before <= {now})"
    " UNION ALL SELECT 'message' WHERE EXISTS"
    " (SELECT 1 FROM messages WHERE state = 'collecting' AND next_try_at <= {now}"
    f"{NOT_DEFERRED.format(task='close_messages', key='messages.id')})"
    " UNION ALL SELECT 'deliver_' || c.value FROM json_each(:channels) AS c WHERE EXISTS"
    " (SELECT 1 FROM messages WHERE channel = c.value AND state IN ('due', 'sending')"
    " AND next_try_at <= {now}"
    f"{NOT_DEFERRED.format(task='send', key='messages.id')})",
    postgresql="SELECT hint FROM queue_notification_hints(:channels, :test_now)",
)


async def hints(tx: Tx, channels: Iterable[ChannelName]) -> list[str]:
    """Returns the hints of the tasks with due rows, of all organizations, without deferred ones.

    They are `notice`, `message` and `deliver_` with the name of a channel.
    """
    args = {"channels": [str(channel) for channel in channels], "test_now": tx.test_now}
    rows = await tx.all(_DUE_TASKS, args)
    return [row["hint"] for row in rows]
