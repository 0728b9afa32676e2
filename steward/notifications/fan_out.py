"""Fan-out: hands new notices to inboxes and to the messages of people and routes, all in one transaction."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from steward.database.accounts import organizations
from steward.database.engine.base import Tx
from steward.database.notifications import inbox, messages, notices
from steward.database.notifications.inbox import InboxGroup
from steward.database.notifications.messages import Receiver
from steward.database.notifications.receivers import PersonToTell, RouteToTell
from steward.failpoint import failpoint
from steward.model.ids import NoticeId, OrgId
from steward.model.notice import (
    GROUPS,
    WAITING_TOPICS,
    ChannelName,
    MailChoice,
    MessageKind,
    StoredNotice,
    Topic,
)
from steward.model.refusals import Unavailable
from steward.notifications import receivers
from steward.notifications.context import NotificationContext
from steward.notifications.due import ApprovalSpan, DueRules, due_at
from steward.scheduling.zones import zone

BATCH = 500
# More groups of one topic than these in one pass become one group.
GROUPS_A_TOPIC = 50
# So many events a minute reach a webhook each by itself.
SINGLE_EVENTS = 60
_MINUTE = timedelta(minutes=1)
_KIND = {MailChoice.NOW: MessageKind.NOTICES, MailChoice.DIGEST: MessageKind.DIGEST}


async def fan_out_due(ctx: NotificationContext) -> bool:
    """Fans out new notices, an organization a transaction; returns True when more are likely to wait.

    A notice that fails is tried again after a minute and stops no other; after five failures it is poison.
    """
    keys = await ctx.engine.read(ctx.clock.now(), partial(notices.waiting, limit=BATCH))
    by_org: dict[OrgId, list[NoticeId]] = defaultdict(list)
    for org, notice in keys:
        by_org[org].append(notice)
    for org, ids in by_org.items():
        if not await _attempt(ctx, org, ids):
            for notice in ids:
                await _attempt(ctx, org, [notice])
    return len(keys) == BATCH


async def _attempt(ctx: NotificationContext, org: OrgId, ids: Sequence[NoticeId]) -> bool:
    """Fans out the notices together; returns False when it failed, which defers a single one."""
    act = partial(fan_out, org=org, ids=ids, ctx=ctx)
    # Gathered, because only the worker's loop may catch everything.
    [outcome] = await asyncio.gather(ctx.engine.write(ctx.clock.now(), act, org=org), return_exceptions=True)
    failpoint("after_fan_out")
    if isinstance(outcome, Unavailable) or not isinstance(outcome, list | Exception):
        raise outcome
    if isinstance(outcome, list):
        ctx.wake("message")
        for stored in outcome:
            ctx.metrics.count("steward_notices_total", topic=str(stored.notice.topic))
        return True
    if len(ids) == 1:

        async def defer(tx: Tx) -> int:
            return await notices.defer(tx, org, ids[0], until=tx.now + _MINUTE)

        failures = await ctx.engine.write(ctx.clock.now(), defer, org=org)
        ctx.log.error("notice_deferred", outcome, org=org, notice=ids[0], failures=failures)
    return False


async def fan_out(
    tx: Tx, *, org: OrgId, ids: Sequence[NoticeId], ctx: NotificationContext
) -> list[StoredNotice]:
    """Hands those of the notices that are new to their receivers and returns them."""
    new = await notices.lock_new(tx, org, ids)
    organization = await organizations.get(tx, org)
    if not new or organization is None:
        return []
    audience = await receivers.audience(tx, org, new)
    for person in audience.people:
        told = [stored for stored in new if audience.tells(person, stored)]
        muted = [stored for stored in told if stored.notice.automation in person.preferences.muted]
        heard = [stored for stored in told if stored.notice.automation not in person.preferences.muted]
        await _add_to_inbox(tx, org, person, muted, read=True)
        await _add_to_inbox(tx, org, person, heard, read=False)
        if ChannelName.EMAIL in ctx.channels and person.takes_mail:
            await _mail(tx, org, person, _to_send(heard), zone_name=organization.zone, ctx=ctx)
    for route in audience.routes:
        if route.channel in ctx.channels:
            fitting = [stored for stored in new if receivers.fits(route, stored)]
            await _send_to_route(tx, org, route, _to_send(fitting), ctx=ctx)
    await notices.mark_fanned_out(tx, org, [stored.id for stored in new])
    return new


def _to_send(told: Iterable[StoredNotice]) -> list[StoredNotice]:
    """Leaves out what may have been sent before the database was put back."""
    return [stored for stored in told if not stored.inbox_only]


async def _add_to_inbox(
    tx: Tx, org: OrgId, person: PersonToTell, told: Sequence[StoredNotice], *, read: bool
) -> None:
    for group in inbox_groups(told):
        await inbox.add(tx, org, person.person, group, read=read)


def inbox_groups(told: Iterable[StoredNotice]) -> list[InboxGroup]:
    """Groups notices by topic and automation; by topic alone where there would be too many groups."""
    by_topic: dict[Topic, dict[str, list[StoredNotice]]] = defaultdict(lambda: defaultdict(list))
    for stored in told:
        by_topic[stored.notice.topic][_subject(stored)].append(stored)
    groups: list[InboxGroup] = []
    for topic, subjects in by_topic.items():
        if len(subjects) > GROUPS_A_TOPIC:
            everything = [stored for grouped in subjects.values() for stored in grouped]
            groups.append(_group(str(topic), everything, automations=len(subjects)))
        else:
            groups += [
                _group(f"{topic}|{name}", grouped, automations=1) for name, grouped in subjects.items()
            ]
    return groups


def _subject(stored: StoredNotice) -> str:
    notice = stored.notice
    return str(notice.automation or notice.integration or notice.route or "")


def _group(key: str, grouped: Sequence[StoredNotice], *, automations: int) -> InboxGroup:
    newest = max(grouped, key=lambda stored: (stored.created_at, stored.id))
    first_at = min(stored.created_at for stored in grouped)
    return InboxGroup(key, newest, sum(stored.notice.count for stored in grouped), automations, first_at)


async def _mail(
    tx: Tx,
    org: OrgId,
    person: PersonToTell,
    told: Iterable[StoredNotice],
    *,
    zone_name: str,
    ctx: NotificationContext,
) -> None:
    """Adds notices to the person's open messages: at once, or for the digest."""
    preferences = person.preferences
    by_choice: dict[MailChoice, list[StoredNotice]] = defaultdict(list)
    for stored in told:
        by_choice[preferences.email[GROUPS[stored.notice.topic]]].append(stored)
    for choice, kind in _KIND.items():
        if choice in by_choice:
            receiver = Receiver(ChannelName.EMAIL, kind, person=person.person)
            rules = DueRules(
                ctx.rules.window,
                await messages.last_closed(tx, org, receiver),
                choice,
                preferences.quiet_hours,
                preferences.wake_for_expiry,
                preferences.digest,
                zone(preferences.timezone or zone_name),
            )
            await _collect(tx, org, receiver, by_choice[choice], rules)


async def _collect(
    tx: Tx, org: OrgId, receiver: Receiver, told: Sequence[StoredNotice], rules: DueRules
) -> None:
    due = due_at(tx.now, rules, approvals_of(told))
    await messages.collect(tx, org, receiver, [stored.id for stored in told], due_at=due)


def approvals_of(told: Iterable[StoredNotice]) -> list[ApprovalSpan]:
    """Returns the spans of the approvals among notices that still wait for a decision."""
    return [
        ApprovalSpan(
            stored.created_at,
            datetime.fromisoformat(str(stored.notice.facts["asked_at"])),
            datetime.fromisoformat(str(stored.notice.facts["expires_at"])),
        )
        for stored in told
        if stored.notice.topic in WAITING_TOPICS
    ]


async def _send_to_route(
    tx: Tx, org: OrgId, route: RouteToTell, fitting: Sequence[StoredNotice], *, ctx: NotificationContext
) -> None:
    """Adds notices to the route's open message; a webhook gets events one by one while they are few."""
    receiver = Receiver(route.channel, MessageKind.NOTICES, route=route.route)
    if not fitting:
        return
    collected = list(fitting)
    if route.channel is ChannelName.WEBHOOK:
        used = await messages.closed_since(tx, org, receiver, tx.now - _MINUTE)
        singles = collected[: max(0, SINGLE_EVENTS - used)]
        for stored in singles:
            await messages.add_closed(
                tx, org, receiver, notices=[stored.id], count=stored.notice.count, envelope={}
            )
        collected = collected[len(singles) :]
        if not collected:
            return
    last_closed = await messages.last_closed(tx, org, receiver)
    await _collect(tx, org, receiver, collected, DueRules(ctx.rules.window, last_closed))
