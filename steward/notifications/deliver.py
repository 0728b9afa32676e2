"""Delivers due messages through their channel, at least once, and stores each outcome."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from steward.database.engine.base import Autocommit, Tx
from steward.database.notifications import messages, notices, receivers
from steward.database.notifications.messages import StoredMessage
from steward.database.notifications.receivers import NotifiableMember
from steward.failpoint import failpoint
from steward.model.ids import MessageId, NoticeId, OrgId, PersonId
from steward.model.notice import (
    GROUPS,
    ChannelName,
    MailChoice,
    MessageKind,
    MessageState,
    NoticeMessage,
    StoredNotice,
    Topic,
)
from steward.notifications.channel import DeliveryOutcome, DeliveryResult
from steward.notifications.context import NotificationContext
from steward.notifications.due import RETRY_FOR, next_attempt
from steward.notifications.row_transactions import defer_row, in_one_transaction, row_error

BATCH = 200
_MAX_CONCURRENT = 4
# Interval at which one message tries a channel that could not be reached.
_PROBE_AFTER = timedelta(minutes=1)
# Connecting and transferring may each take a minute.
_MAX_DELIVERY = timedelta(minutes=2)
# Longer than any delivery. A message is released if its delivery has not begun within a minute.
_LEASE = timedelta(minutes=3)
_DELAY_STEPS = (0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)


@dataclass(frozen=True, slots=True)
class _Leased:
    """A message leased for one attempt."""

    message: NoticeMessage
    due_at: datetime
    ends_at: datetime
    leased_at: datetime


# A leased message with its outcome; None if it was not tried.
_FinishedAttempt = tuple[_Leased, DeliveryOutcome | None]


@dataclass(slots=True)
class _Recorded:
    """A stored attempt; `state` is the message's, or None if the attempt had lost its lease."""

    leased: _Leased
    outcome: DeliveryOutcome
    state: MessageState | None
    breaks_route: bool = False


@dataclass(slots=True)
class _Pass:
    """A pass over a channel's due messages, with the outcomes not stored yet."""

    ctx: NotificationContext
    channel: ChannelName
    is_probe: bool
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT))
    storing: dict[OrgId, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    finished: dict[OrgId, list[_FinishedAttempt]] = field(default_factory=lambda: defaultdict(list))

    @property
    def must_release(self) -> bool:
        """Whether the channel proved to be down, so that leased messages have to be released undelivered."""
        return not self.is_probe and self.channel in self.ctx.down.probe_at


async def deliver_due(ctx: NotificationContext, channel: ChannelName) -> bool:
    """Delivers the channel's due messages; returns True if more are likely to be due.

    While the channel cannot be reached, one message a minute tries it and the others wait unchanged.
    """
    probe_at = ctx.down.probe_at.get(channel)
    if probe_at is not None and ctx.clock.now() < probe_at:
        return False
    limit = BATCH if probe_at is None else 1
    find = Autocommit(partial(messages.to_deliver, channel=channel, limit=limit))
    due = await ctx.engine.read(ctx.clock.now(), find)
    by_org: dict[OrgId, list[MessageId]] = defaultdict(list)
    for org, message in due:
        by_org[org].append(message)
    current = _Pass(ctx, channel, is_probe=limit == 1)
    outcomes = await asyncio.gather(
        *(_deliver_all(current, org, ids) for org, ids in by_org.items()), return_exceptions=True
    )
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    was_down, is_down = probe_at is not None, channel in ctx.down.probe_at
    return not is_down and (len(due) == BATCH or (was_down and bool(due)))


async def _deliver_all(current: _Pass, org: OrgId, ids: Sequence[MessageId]) -> None:
    """Leases messages of an organization in one transaction and delivers them, a few at a time."""
    ctx = current.ctx
    defer = partial(defer_row, ctx, "send")
    leased = await in_one_transaction(ctx, org, ids, partial(_lease, ctx=ctx), defer)
    if leased:
        failpoint("after_message_lease")
    outcomes = await asyncio.gather(*(_attempt(current, item) for item in leased), return_exceptions=True)
    for item, outcome in zip(leased, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            await defer(org, item.message.id, row_error(outcome))


async def _attempt(current: _Pass, leased: _Leased) -> None:
    """Delivers one message and stores its outcome in a batch with others."""
    ctx, org = current.ctx, leased.message.org
    outcome = None
    async with current.slots:
        if not current.must_release and ctx.clock.now() - leased.leased_at < _LEASE - _MAX_DELIVERY:
            outcome = await ctx.channels[current.channel].deliver(leased.message)
            failpoint("after_message_sent")
            _note_channel(ctx, current.channel, outcome)
    current.finished[org].append((leased, outcome))
    async with current.storing[org]:
        if finished := current.finished.pop(org, []):
            act = partial(_record, ctx=ctx)
            stored = await in_one_transaction(ctx, org, finished, act, partial(_defer_outcome, ctx))
            for recorded in stored:
                _report(ctx, recorded)


async def _defer_outcome(
    ctx: NotificationContext, org: OrgId, finished: _FinishedAttempt, error: Exception
) -> None:
    """Defers a message whose outcome cannot be stored; it will be delivered again."""
    await defer_row(ctx, "send", org, finished[0].message.id, error)


async def _lease(tx: Tx, *, org: OrgId, keys: Sequence[MessageId], ctx: NotificationContext) -> list[_Leased]:
    """Leases those of the messages that may be sent now, each for one attempt.

    Expired messages end, and those whose receiver is gone become obsolete.
    """
    in_time = await _lock_due(tx, org, keys)
    reachable, addresses = await _reachable(tx, org, in_time)
    obsolete = [message.id for message in in_time if message.id not in reachable]
    await messages.make_obsolete(tx, org, obsolete)
    chosen = [message for message in in_time if message.id in reachable]
    chosen = await _within_limit(tx, org, chosen, ctx)
    await messages.lease(tx, org, [message.id for message in chosen], lasts=_LEASE)
    loaded = await _notice_messages(tx, org, chosen, addresses)
    return [
        _Leased(loaded[message.id], message.due_at, _ends_at(message), ctx.clock.now()) for message in chosen
    ]


async def _lock_due(tx: Tx, org: OrgId, keys: Sequence[MessageId]) -> list[StoredMessage]:
    """Locks the messages, ends expired ones and returns the due ones."""
    in_time: list[StoredMessage] = []
    for message in await messages.lock_many(tx, org, keys):
        is_open = message.state in (MessageState.DUE, MessageState.SENDING)
        if not is_open or message.next_try_at is None or message.next_try_at > tx.now:
            continue
        if tx.now < _ends_at(message):
            in_time.append(message)
        else:
            error = "It could not be delivered in time."
            await messages.end(tx, org, message.id, state=MessageState.EXPIRED, error=error)
    return in_time


def _ends_at(message: StoredMessage) -> datetime:
    """Returns the instant until which delivery of a closed message is tried."""
    return message.expires_at or (message.closed_at or message.due_at) + RETRY_FOR


async def _reachable(
    tx: Tx, org: OrgId, due: Sequence[StoredMessage]
) -> tuple[set[MessageId], dict[PersonId, str]]:
    """Returns which messages may still be sent, and the e-mail addresses of people.

    A mail about an account contains its own address, so its receiver need not be a member yet.
    """
    people = {message.receiver.person for message in due} - {None}
    routes = {message.receiver.route for message in due} - {None}
    members = await receivers.members(tx, org, [person for person in people if person is not None])
    open_routes = await receivers.open_routes(tx, org, [route for route in routes if route is not None])

    def may_be_sent(message: StoredMessage) -> bool:
        receiver = message.receiver
        if receiver.kind is MessageKind.TRANSACTIONAL:
            return True
        if receiver.person is not None:
            return receiver.person in members and _is_wanted(members[receiver.person], message)
        return receiver.kind is MessageKind.TEST or receiver.route in open_routes

    reachable = {message.id for message in due if may_be_sent(message)}
    return reachable, {person: member.email for person, member in members.items()}


def _is_wanted(member: NotifiableMember, message: StoredMessage) -> bool:
    """Returns False if the person has switched off mail about all topics of the message.

    This may have happened after the message was closed, while it waited for a retry.
    """
    topics = message.envelope.get("topics")
    if not isinstance(topics, dict) or not topics:
        return True
    choices = member.preferences.email
    return any(choices[GROUPS[Topic(topic)]] is not MailChoice.OFF for topic in topics)


async def _within_limit(
    tx: Tx, org: OrgId, due: Sequence[StoredMessage], ctx: NotificationContext
) -> list[StoredMessage]:
    """Returns the messages within the organization's daily mail limit; defers the others to the next day."""
    limited = [
        message
        for message in due
        if message.receiver.channel is ChannelName.EMAIL
        and message.receiver.kind is not MessageKind.TRANSACTIONAL
    ]
    if not limited:
        return list(due)
    midnight = tx.now.replace(hour=0, minute=0, second=0, microsecond=0)
    sent = await messages.sent_since(tx, org, ChannelName.EMAIL, midnight)
    waiting = {message.id for message in limited[max(0, ctx.rules.mail_per_day - sent) :]}
    error = f"The {ctx.rules.mail_per_day} mails of this day are used up."
    tomorrow = midnight + timedelta(days=1)
    for message in waiting:
        await messages.wait_until(tx, org, message, until=tomorrow, error=error)
    return [message for message in due if message.id not in waiting]


async def _notice_messages(
    tx: Tx, org: OrgId, chosen: Sequence[StoredMessage], addresses: Mapping[PersonId, str]
) -> dict[MessageId, NoticeMessage]:
    """Returns the messages in the form that a channel receives."""
    by_message = await _notice_ids(tx, org, chosen)
    all_ids = {notice for ids in by_message.values() for notice in ids}
    notices_by_id = {stored.id: stored for stored in await notices.get_many(tx, org, sorted(all_ids))}
    return {
        message.id: _notice_message(
            org,
            message,
            [notices_by_id[notice] for notice in by_message[message.id] if notice in notices_by_id],
            addresses,
        )
        for message in chosen
    }


async def _notice_ids(
    tx: Tx, org: OrgId, chosen: Sequence[StoredMessage]
) -> dict[MessageId, Sequence[NoticeId]]:
    """Returns the notices of each message: those listed in its envelope, else all."""
    listed = {message.id: _listed(message) for message in chosen}
    unlisted = [message for message, ids in listed.items() if ids is None]
    single = await messages.notices_of(tx, org, unlisted)
    return {message: single.get(message, []) if ids is None else ids for message, ids in listed.items()}


def _notice_message(
    org: OrgId,
    message: StoredMessage,
    message_notices: Sequence[StoredNotice],
    addresses: Mapping[PersonId, str],
) -> NoticeMessage:
    """Returns a message as its channel receives it."""
    receiver = message.receiver
    return NoticeMessage(
        org,
        message.id,
        receiver.channel,
        receiver.kind,
        receiver.person,
        receiver.route,
        message.closed_at or message.due_at,
        message.attempt + 1,
        message.count,
        message.envelope,
        tuple(message_notices),
        None if receiver.person is None else addresses.get(receiver.person),
        message.sealed,
    )


def _listed(message: StoredMessage) -> list[NoticeId] | None:
    listed = message.envelope.get("listed")
    return [NoticeId(str(notice)) for notice in listed] if isinstance(listed, list) else None


def _note_channel(ctx: NotificationContext, channel: ChannelName, outcome: DeliveryOutcome) -> None:
    """Records and logs whether the channel as a whole is reachable."""
    if outcome.is_down:
        if channel not in ctx.down.since:
            ctx.down.since[channel] = ctx.clock.now()
            ctx.log.warning("channel_down", channel=channel, reason=outcome.error)
        ctx.down.probe_at[channel] = ctx.clock.now() + _PROBE_AFTER
    elif channel in ctx.down.since:
        del ctx.down.since[channel], ctx.down.probe_at[channel]
        ctx.log.info("channel_up", channel=channel)


async def _record(
    tx: Tx, *, org: OrgId, keys: Sequence[_FinishedAttempt], ctx: NotificationContext
) -> list[_Recorded]:
    """Stores the outcomes of attempts and releases messages that were not tried."""
    accepted: list[tuple[MessageId, int, int | None]] = []
    for leased, outcome in keys:
        if outcome is not None and outcome.result is DeliveryResult.ACCEPTED:
            accepted.append((leased.message.id, leased.message.attempt, outcome.status))
    sent = await messages.end_sent(tx, org, accepted)
    recorded: list[_Recorded] = []
    for leased, outcome in keys:
        message = leased.message
        if outcome is None:
            await messages.release(tx, org, message.id, attempt=message.attempt)
            continue
        if outcome.result is DeliveryResult.ACCEPTED:
            state = MessageState.SENT if message.id in sent else None
        else:
            state = await _record_failure(tx, leased, outcome)
        recorded.append(_Recorded(leased, outcome, state))
    await _record_receivers(tx, org, [entry for entry in recorded if entry.state is not None], ctx)
    return recorded


async def _record_failure(tx: Tx, leased: _Leased, outcome: DeliveryOutcome) -> MessageState | None:
    """Stores a failed attempt and returns the message's state, or None if the attempt had lost its lease."""
    message = leased.message
    is_final = outcome.result is DeliveryResult.REFUSED
    state = MessageState.REFUSED if is_final else await _schedule_retry(tx, leased, outcome)
    if state is MessageState.DUE:
        return state
    has_ended = await messages.end(
        tx,
        message.org,
        message.id,
        state=state,
        attempt=message.attempt,
        status=outcome.status,
        error=outcome.error,
    )
    return state if has_ended else None


async def _schedule_retry(tx: Tx, leased: _Leased, outcome: DeliveryOutcome) -> MessageState:
    """Schedules the next attempt and returns DUE; returns EXPIRED when no attempt is left."""
    message = leased.message
    if outcome.is_down:
        next_at: datetime | None = tx.now + _PROBE_AFTER
    else:
        next_at = next_attempt(
            tx.now,
            message.id,
            attempt=message.attempt,
            ends_at=leased.ends_at,
            retry_after=outcome.retry_after,
        )
    if next_at is None:
        return MessageState.EXPIRED
    await messages.schedule_retry(
        tx,
        message.org,
        message.id,
        attempt=message.attempt,
        until=next_at,
        status=outcome.status,
        error=outcome.error,
        counts=not outcome.is_down,
    )
    return MessageState.DUE


async def _record_receivers(
    tx: Tx,
    org: OrgId,
    recorded: Sequence[_Recorded],
    ctx: NotificationContext,
) -> None:
    """Updates people and routes with the outcomes of deliveries to them."""
    reached: list[PersonId] = []
    for entry in recorded:
        message, outcome = entry.leased.message, entry.outcome
        if message.person is not None and message.kind is not MessageKind.TRANSACTIONAL:
            if outcome.result is DeliveryResult.ACCEPTED:
                reached.append(message.person)
            elif outcome.result is DeliveryResult.REFUSED:
                await receivers.count_refusal(tx, org, message.person)
        if message.route is not None and ctx.record_route and message.kind is not MessageKind.TEST:
            entry.breaks_route = await ctx.record_route(tx, org, message.route, outcome)
    await receivers.forget_refusals(tx, org, reached)


def _report(ctx: NotificationContext, recorded: _Recorded) -> None:
    """Counts and logs an attempt, without address, subject or text."""
    message, outcome = recorded.leased.message, recorded.outcome
    ctx.metrics.count("steward_messages_total", channel=str(message.channel), outcome=str(outcome.result))
    fields = {
        "org": message.org,
        "message": message.id,
        "channel": message.channel,
        "kind": message.kind,
        "attempt": message.attempt,
        "status": outcome.status,
        "state": recorded.state,
    }
    if recorded.breaks_route:
        ctx.log.warning("route_broken", org=message.org, route=message.route, channel=message.channel)
    if outcome.result is DeliveryResult.ACCEPTED:
        delay = (ctx.clock.now() - recorded.leased.due_at).total_seconds()
        channel = str(message.channel)
        ctx.metrics.observe(
            "steward_message_delay_seconds", max(0.0, delay), bounds=_DELAY_STEPS, channel=channel
        )
        ctx.log.info("message_sent", **fields)
    elif outcome.result is DeliveryResult.REFUSED:
        ctx.log.warning("message_refused", reason=outcome.error, **fields)
    else:
        ctx.log.info("message_deferred", reason=outcome.error, **fields)
