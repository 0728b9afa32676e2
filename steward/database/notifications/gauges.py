"""Numbers of notifications over all organizations, for metrics and doctor; never whose they are."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Both, Tx, from_ms_or_none
from steward.model.notice import ChannelName

_NOTICES = Both(
    "SELECT (SELECT min(created_at) FROM notices WHERE state = 'new') AS oldest_new_at,"
    " (SELECT count(*) FROM notices WHERE state = 'poison') AS poison,"
    " (SELECT count(*) FROM notification_routes WHERE state = 'broken') AS broken_routes",
    "SELECT oldest_new_at, poison, broken_routes FROM queue_notice_gauges()",
)
_DUE = "FROM messages AS m WHERE m.channel = c.value AND m.state IN ('due', 'sending')"
_MESSAGES = Both(
    f"SELECT c.value AS channel, (SELECT count(*) {_DUE}) AS waiting,"
    f" (SELECT min(m.due_at) {_DUE}) AS oldest_due_at,"
    " (SELECT max(m.sent_at) FROM dir_orgs AS o JOIN messages AS m ON m.org_id = o.org_id"
    " AND m.channel = c.value AND m.sent_at IS NOT NULL) AS last_sent_at"
    ' FROM json_each(\'["email","push","teams","slack","webhook"]\') AS c',
    "SELECT channel, waiting, oldest_due_at, last_sent_at FROM queue_message_gauges()",
)


@dataclass(frozen=True, slots=True)
class NoticeGauges:
    """Since when the oldest new notice waits, how many are poison, and how many routes are broken."""

    oldest_new_at: datetime | None
    poison: int
    broken_routes: int


@dataclass(frozen=True, slots=True)
class ChannelGauges:
    """Messages of a channel that are due and not delivered, and when it accepted one last."""

    channel: ChannelName
    waiting: int
    oldest_due_at: datetime | None
    last_sent_at: datetime | None


async def notices(tx: Tx) -> NoticeGauges:
    """Returns the numbers of notices."""
    row = await tx.first(_NOTICES)
    if row is None:
        return NoticeGauges(None, 0, 0)
    return NoticeGauges(from_ms_or_none(row["oldest_new_at"]), row["poison"], row["broken_routes"])


async def channels(tx: Tx) -> list[ChannelGauges]:
    """Returns the numbers of every channel's messages."""
    rows = await tx.all(_MESSAGES)
    return [
        ChannelGauges(
            ChannelName(row["channel"]),
            row["waiting"],
            from_ms_or_none(row["oldest_due_at"]),
            from_ms_or_none(row["last_sent_at"]),
        )
        for row in rows
    ]
