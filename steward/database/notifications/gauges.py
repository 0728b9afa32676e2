"""Counts notifications of all organizations for metrics and doctor, without naming any."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import PerEngine, Tx, from_ms_or_none
from steward.model.notice import ChannelName

MAX_COUNTED = 100_000  # as in database/operator/gauges.py
_NOTICES = PerEngine(
    "SELECT (SELECT min(created_at) FROM (SELECT created_at FROM notices WHERE state = 'new'"
    " ORDER BY not_before, id LIMIT :cap)) AS oldest_new_at,"
    " (SELECT count(*) FROM (SELECT 1 FROM notices WHERE state = 'poison' LIMIT :cap)) AS poison,"
    " (SELECT count(*) FROM (SELECT 1 FROM notification_routes WHERE state = 'broken' LIMIT :cap))"
    " AS broken_routes",
    "SELECT oldest_new_at, poison, broken_routes FROM queue_notice_gauges(:cap)",
)
_WAITING = PerEngine(
    "SELECT c.value AS channel, (SELECT count(*) FROM (SELECT 1 FROM messages AS m"
    " WHERE m.channel = c.value AND m.state IN ('due', 'sending')"
    " ORDER BY m.next_try_at, m.id LIMIT :cap)) AS waiting"
    ' FROM json_each(\'["email","push","teams","slack","webhook"]\') AS c',
    "SELECT channel, waiting FROM queue_messages_waiting(:cap)",
)
_MAIL = PerEngine(
    "SELECT (SELECT min(due_at) FROM (SELECT due_at FROM messages WHERE channel = 'email'"
    " AND state IN ('due', 'sending') ORDER BY next_try_at, id LIMIT :cap)) AS oldest_due_at,"
    " (SELECT sent_at FROM messages WHERE channel = 'email' AND sent_at IS NOT NULL"
    " ORDER BY sent_at DESC LIMIT 1) AS last_sent_at",
    "SELECT oldest_due_at, last_sent_at FROM queue_mail_times(:cap)",
)


@dataclass(frozen=True, slots=True)
class NoticeGauges:
    """Since when the oldest new notice has waited, and the numbers of poison notices and broken routes."""

    oldest_new_at: datetime | None
    poison: int
    broken_routes: int


@dataclass(frozen=True, slots=True)
class MailTimes:
    """Since when the oldest mail has been due and undelivered, and when the server last accepted one."""

    oldest_due_at: datetime | None
    last_sent_at: datetime | None


async def notices(tx: Tx) -> NoticeGauges:
    """Returns the counts of notices and routes, each up to MAX_COUNTED."""
    row = await tx.first(_NOTICES, {"cap": MAX_COUNTED})
    if row is None:
        return NoticeGauges(None, 0, 0)
    return NoticeGauges(from_ms_or_none(row["oldest_new_at"]), row["poison"], row["broken_routes"])


async def waiting(tx: Tx) -> dict[ChannelName, int]:
    """Counts the due and undelivered messages of each channel, each up to MAX_COUNTED."""
    rows = await tx.all(_WAITING, {"cap": MAX_COUNTED})
    return {ChannelName(row["channel"]): row["waiting"] for row in rows}


async def mail(tx: Tx) -> MailTimes:
    """Returns since when mail has waited, of the next MAX_COUNTED mails, and when one was last accepted."""
    row = await tx.first(_MAIL, {"cap": MAX_COUNTED})
    if row is None:
        return MailTimes(None, None)
    return MailTimes(from_ms_or_none(row["oldest_due_at"]), from_ms_or_none(row["last_sent_at"]))
