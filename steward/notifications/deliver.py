"""Delivers due messages by their channel, at least once, and stores what became of each."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from steward.database import due_rows
from steward.database.engine.base import Tx
from steward.database.notifications import messages, notices, receivers
from steward.database.notifications.messages import StoredMessage
from steward.failpoint import failpoint
from steward.model.ids import MessageId, NoticeId, OrgId
from steward.model.notice import ChannelName, MessageKind, MessageState, NoticeMessage
from steward.model.refusals import Unavailable
from steward.notifications.channel import DeliveryOutcome, DeliveryResult
from steward.notifications.close import urgency
from steward.notifications.context import NotificationContext
from steward.notifications.due import TRIED_FOR, next_try

BATCH = 100
AT_ONCE = 4
# A channel that could not be reached is tried again with one message after so long.
PROBE_AFTER = timedelta(minutes=1)
# Longer than any delivery: waiting for a connection, and the message itself, may each take a minute.
LEASE = timedelta(minutes=3)
DELAY_STEPS = (0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)


@dataclass(frozen=True, slots=True)
class _Leased:
    """A message leased for one attempt."""

    message: NoticeMessage
    due_at: datetime
    ends_at: datetime


async def deliver_due(ctx: NotificationContext, channel: ChannelName) -> bool:
    """Delivers the channel's due messages; returns True when more are likely to be due.

    While the channel cannot be reached one message a minute tries it, and the others wait untouched.
    """
    probe_at = ctx.down.probe_at.get(channel)
    if probe_at is not None and ctx.clock.now() < probe_at:
        return False
    limit = BATCH if probe_at is None else 1
    due = await ctx.engine.read(ctx.clock.now(), partial(messages.to_deliver, channel=channel, limit=limit))
    room = asyncio.Semaphore(AT_ONCE)

    async def attempt(org: OrgId, message: MessageId) -> None:
        async with room:
            if limit == 1 or channel not in ctx.down.probe_at:
                await _attempt(ctx, channel, org, message)

    outcomes = await asyncio.gather(*(attempt(org, message) for org, message in due), return_exceptions=True)
    for (org, message), outcome in zip(due, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            await _defer(ctx, org, message, outcome)
    was_down, is_down = probe_at is not None, channel in ctx.down.probe_at
    return not is_down and (len(due) == BATCH or (was_down and bool(due)))


async def _defer(ctx: NotificationContext, org: OrgId, message: MessageId, error: BaseException) -> None:
    """Puts a message off that a defect stopped, so that it stops no other."""
    if isinstance(error, Unavailable) or not isinstance(error, Exception):
        raise error
    words = f"{type(error).__name__}: {error}"
    failures = await ctx.engine.write(
        ctx.clock.now(), partial(due_rows.defer, tick="send", key=message, message=words)
    )
    ctx.log.error("row_deferred", error, task="send", org=org, key=message, failures=failures)


async def _attempt(ctx: NotificationContext, channel: ChannelName, org: OrgId, message: MessageId) -> None:
    leased = await ctx.engine.write(
        ctx.clock.now(), partial(_lease, org=org, message=message, ctx=ctx), org=org
    )
    if leased is None:
        return
    failpoint("after_message_lease")
    outcome = await ctx.channels[channel].deliver(leased.message)
    failpoint("after_message_sent")
    _note_channel(ctx, channel, outcome)
    record = partial(_record, leased=leased, outcome=outcome, ctx=ctx)
    state = await ctx.engine.write(ctx.clock.now(), record, org=org)
    _report(ctx, leased, outcome, state)


async def _lease(tx: Tx, *, org: OrgId, message: MessageId, ctx: NotificationContext) -> _Leased | None:
    """Takes a message for one attempt; None when it is over, has to wait, or another worker has it."""
    stored = await messages.lock(tx, org, message)
    if stored is None or stored.closed_at is None:
        return None
    if stored.state not in (MessageState.DUE, MessageState.SENDING):
        return None
    ends_at = stored.expires_at or stored.closed_at + TRIED_FOR
    if tx.now >= ends_at:
        await messages.end(
            tx, org, message, state=MessageState.EXPIRED, error="It could not be delivered in time."
        )
        return None
    address, is_wanted = await _address(tx, stored)
    if not is_wanted:
        await messages.end(tx, org, message, state=MessageState.OBSOLETE)
        return None
    if await _is_over_limit(tx, stored, ctx):
        return None
    if not await messages.lease(tx, org, message, lasts=LEASE):
        return None
    notice_message = await _loaded(tx, stored, address)
    return _Leased(notice_message, stored.due_at, ends_at)


async def _address(tx: Tx, stored: StoredMessage) -> tuple[str | None, bool]:
    """Returns the person's address, and whether the receiver may still be sent to.

    A mail of one's account says itself where it goes: its receiver need not be a member yet.
    """
    person, route = stored.receiver.person, stored.receiver.route
    if stored.receiver.kind is MessageKind.TRANSACTIONAL:
        return None, True
    if person is not None:
        member = await receivers.person(tx, stored.org, person)
        return (None, False) if member is None else (member.email, True)
    is_open = route is not None and await receivers.route_is_open(tx, stored.org, route)
    return None, is_open or stored.receiver.kind is MessageKind.TEST


async def _is_over_limit(tx: Tx, stored: StoredMessage, ctx: NotificationContext) -> bool:
    """Whether the organization has had its mails of this day; the message then waits for the next."""
    is_mail = stored.receiver.channel is ChannelName.EMAIL
    if not is_mail or stored.receiver.kind is MessageKind.TRANSACTIONAL:
        return False
    midnight = tx.now.replace(hour=0, minute=0, second=0, microsecond=0)
    sent = await messages.sent_since(tx, stored.org, ChannelName.EMAIL, midnight)
    if sent < ctx.rules.mail_per_day:
        return False
    words = f"The {ctx.rules.mail_per_day} mails of this day are used up."
    tomorrow = midnight + timedelta(days=1)
    await messages.wait_until(tx, stored.org, stored.id, until=tomorrow, error=words)
    return True


async def _loaded(tx: Tx, stored: StoredMessage, address: str | None) -> NoticeMessage:
    listed = stored.envelope.get("listed")
    ids = (
        [NoticeId(str(notice)) for notice in listed]
        if isinstance(listed, Sequence) and not isinstance(listed, str)
        else await messages.notices_of(tx, stored.org, stored.id)
    )
    told = await notices.get_many(tx, stored.org, ids) if ids else []
    assert stored.closed_at is not None
    return NoticeMessage(
        stored.org,
        stored.id,
        stored.receiver.channel,
        stored.receiver.kind,
        stored.receiver.person,
        stored.receiver.route,
        stored.closed_at,
        stored.attempt + 1,
        stored.count,
        stored.envelope,
        tuple(sorted(told, key=urgency)),
        address,
        stored.sealed,
    )


def _note_channel(ctx: NotificationContext, channel: ChannelName, outcome: DeliveryOutcome) -> None:
    """Notes whether the channel as a whole can be reached."""
    if outcome.is_down:
        if channel not in ctx.down.since:
            ctx.down.since[channel] = ctx.clock.now()
            ctx.log.warning("channel_down", channel=channel, reason=outcome.error)
        ctx.down.probe_at[channel] = ctx.clock.now() + PROBE_AFTER
    elif channel in ctx.down.since:
        del ctx.down.since[channel], ctx.down.probe_at[channel]
        ctx.log.info("channel_up", channel=channel)


async def _record(
    tx: Tx, *, leased: _Leased, outcome: DeliveryOutcome, ctx: NotificationContext
) -> MessageState | None:
    """Stores what became of an attempt and returns the message's state; None when it is no longer ours."""
    message = leased.message
    if outcome.result is DeliveryResult.ACCEPTED:
        state = MessageState.SENT
    elif outcome.result is DeliveryResult.REFUSED:
        state = MessageState.REFUSED
    else:
        state = await _try_later(tx, leased, outcome)
    if state is MessageState.DUE:
        is_ours = True
    else:
        is_ours = await messages.end(
            tx,
            message.org,
            message.id,
            state=state,
            attempt=message.attempt,
            status=outcome.status,
            error=outcome.error,
        )
    if is_ours:
        await _record_receiver(tx, message, outcome, ctx)
    return state if is_ours else None


async def _try_later(tx: Tx, leased: _Leased, outcome: DeliveryOutcome) -> MessageState:
    """Lets the message wait for its next attempt; returns EXPIRED when there is none."""
    message = leased.message
    if outcome.is_down:
        again: datetime | None = tx.now + PROBE_AFTER
    else:
        again = next_try(
            tx.now,
            message.id,
            attempt=message.attempt,
            ends_at=leased.ends_at,
            retry_after=outcome.retry_after,
        )
    if again is None:
        return MessageState.EXPIRED
    await messages.try_later(
        tx,
        message.org,
        message.id,
        attempt=message.attempt,
        until=again,
        status=outcome.status,
        error=outcome.error,
        keeps_try=outcome.is_down,
    )
    return MessageState.DUE


async def _record_receiver(
    tx: Tx, message: NoticeMessage, outcome: DeliveryOutcome, ctx: NotificationContext
) -> None:
    """Notes with the person or the route how the delivery went."""
    if message.person is not None and message.kind is not MessageKind.TRANSACTIONAL:
        if outcome.result is DeliveryResult.ACCEPTED:
            await receivers.forget_refusals(tx, message.org, message.person)
        elif outcome.result is DeliveryResult.REFUSED:
            await receivers.count_refusal(tx, message.org, message.person)
    if message.route is not None and ctx.record_route is not None and message.kind is not MessageKind.TEST:
        await ctx.record_route(tx, message.org, message.route, outcome)


def _report(
    ctx: NotificationContext, leased: _Leased, outcome: DeliveryOutcome, state: MessageState | None
) -> None:
    """Counts and logs an attempt; never an address, a subject or a text."""
    message = leased.message
    ctx.metrics.count("steward_messages_total", channel=str(message.channel), outcome=str(outcome.result))
    fields = {
        "org": message.org,
        "message": message.id,
        "channel": message.channel,
        "kind": message.kind,
        "attempt": message.attempt,
        "status": outcome.status,
        "state": state,
    }
    if outcome.result is DeliveryResult.ACCEPTED:
        delay = (ctx.clock.now() - leased.due_at).total_seconds()
        ctx.metrics.observe("steward_message_delay_seconds", max(0.0, delay), bounds=DELAY_STEPS)
        ctx.log.info("message_sent", **fields)
    elif outcome.result is DeliveryResult.REFUSED:
        ctx.log.warning("message_refused", reason=outcome.error, **fields)
    else:
        ctx.log.info("message_deferred", reason=outcome.error, **fields)
