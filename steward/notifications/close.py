"""Closes collected messages: fixes for good what each says, or finds that there is nothing left to say."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from steward.database.accounts import organizations
from steward.database.engine.base import Tx
from steward.database.notifications import messages, notices, receivers, validity
from steward.database.notifications.messages import StoredMessage
from steward.model.ids import MessageId, NoticeId, OrgId
from steward.model.instants import wire_time
from steward.model.json import JsonObject
from steward.model.notice import (
    GROUPS,
    LISTED,
    WAITING_TOPICS,
    MailChoice,
    MessageState,
    NoticeGroup,
    StoredNotice,
    Topic,
)
from steward.notifications.context import NotificationContext

_URGENCY = (NoticeGroup.APPROVALS, NoticeGroup.CONNECTIONS, NoticeGroup.AUTOMATIONS, NoticeGroup.RUNS)


async def close_due(ctx: NotificationContext) -> bool:
    """Closes the collected messages that are due; returns True when more are likely to be."""
    due = await ctx.engine.read(ctx.clock.now(), messages.to_close)
    for org, message in due:
        await ctx.engine.write(ctx.clock.now(), partial(close, org=org, message=message), org=org)
    if due:
        for channel in ctx.channels:
            ctx.wake(f"deliver_{channel}")
    return len(due) == messages.DUE_BATCH


async def close(tx: Tx, *, org: OrgId, message: MessageId) -> None:
    """Closes one message, without the notices that no longer hold; one without any becomes obsolete."""
    stored = await messages.lock(tx, org, message)
    if stored is None or stored.state is not MessageState.COLLECTING or stored.due_at > tx.now:
        return
    ids = await messages.notices_of(tx, org, message)
    collected = await notices.get_many(tx, org, ids)
    holding = await _holding(tx, stored, collected)
    organization = await organizations.get(tx, org)
    if not holding or organization is None:
        await messages.end(tx, org, message, state=MessageState.OBSOLETE)
        return
    kept = {notice.id for notice in holding}
    await messages.close(
        tx,
        org,
        message,
        left_out=[notice for notice in ids if notice not in kept],
        count=sum(notice.notice.count for notice in holding),
        envelope=_envelope(organization.name, await _zone_of(tx, stored) or organization.zone, holding),
    )


async def _holding(tx: Tx, stored: StoredMessage, collected: Sequence[StoredNotice]) -> list[StoredNotice]:
    """Returns the notices that still hold and that the receiver still wants."""
    person, route = stored.receiver.person, stored.receiver.route
    wanted = list(collected)
    if person is not None:
        member = await receivers.person(tx, stored.org, person)
        if member is None or not member.takes_mail:
            return []
        off = {group for group, choice in member.preferences.email.items() if choice is MailChoice.OFF}
        wanted = [
            notice
            for notice in collected
            if GROUPS[notice.notice.topic] not in off
            and notice.notice.automation not in member.preferences.muted
        ]
    elif route is not None and not await receivers.route_is_open(tx, stored.org, route):
        return []
    gone: set[NoticeId] = await validity.void(tx, stored.org, wanted)
    return [notice for notice in wanted if notice.id not in gone]


async def _zone_of(tx: Tx, stored: StoredMessage) -> str | None:
    person = stored.receiver.person
    member = None if person is None else await receivers.person(tx, stored.org, person)
    return None if member is None else member.preferences.timezone


def _envelope(organization: str, zone: str, holding: Sequence[StoredNotice]) -> JsonObject:
    """Returns what fixes the message: names, numbers, and the notices that it lists."""
    topics: Counter[Topic] = Counter()
    for notice in holding:
        topics[notice.notice.topic] += notice.notice.count
    return {
        "organization": organization,
        "zone": zone,
        "topics": {str(topic): count for topic, count in sorted(topics.items())},
        "listed": [notice.id for notice in sorted(holding, key=urgency)[:LISTED]],
        "first_at": wire_time(min(notice.created_at for notice in holding)),
        "last_at": wire_time(max(notice.created_at for notice in holding)),
    }


def urgency(stored: StoredNotice) -> tuple[int, str, float]:
    """Returns a key that sorts notices: waiting approvals by their end, then other groups, newest first."""
    notice = stored.notice
    expires_at = str(notice.facts.get("expires_at", "~")) if notice.topic in WAITING_TOPICS else "~"
    return _URGENCY.index(GROUPS[notice.topic]), expires_at, -_seconds(stored.created_at)


def _seconds(instant: datetime) -> float:
    return instant.timestamp()
