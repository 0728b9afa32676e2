"""Fan-out: adds new notices to inboxes and to messages of people and routes, in one transaction."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from steward.database.accounts import organizations
from steward.database.engine.base import Autocommit, Tx
from steward.database.notifications import collecting, inbox, messages, notices
from steward.database.notifications.collecting import CollectedNotices
from steward.database.notifications.inbox import InboxGroup
from steward.database.notifications.messages import Receiver
from steward.database.notifications.receivers import NotifiableMember, NotifiableRoute
from steward.failpoint import failpoint
from steward.model.ids import NoticeId, OrgId, PersonId
from steward.model.notice import (
    GROUPS,
    WAITING_TOPICS,
    ChannelName,
    MailChoice,
    MessageKind,
    StoredNotice,
    Topic,
)
from steward.notifications import receivers
from steward.notifications.context import NotificationContext
from steward.notifications.due import ApprovalSpan, DueRules, due_at
from steward.notifications.receivers import Audience
from steward.notifications.row_transactions import in_one_transaction
from steward.scheduling.zones import zone

BATCH = 500
# With more groups of a topic than this in one pass, they are merged into one.
_GROUPS_A_TOPIC = 50
# How many events a minute go to a webhook individually.
_SINGLE_EVENTS = 60
_MINUTE = timedelta(minutes=1)
_NoticesOfPerson = tuple[NotifiableMember, list[StoredNotice]]
_KIND = {MailChoice.NOW: MessageKind.NOTICES, MailChoice.DIGEST: MessageKind.DIGEST}


async def fan_out_due(ctx: NotificationContext) -> bool:
    """Fans out new notices, in one transaction per organization; returns True if more are likely to wait.

    A notice that fails is retried after a minute, five attempts in all, and stops no other.
    """
    find = Autocommit(partial(notices.waiting, limit=BATCH))
    waiting = await ctx.engine.read(ctx.clock.now(), find)
    by_org: dict[OrgId, list[NoticeId]] = defaultdict(list)
    for org, notice in waiting:
        by_org[org].append(notice)
    fanned_out_count = 0
    for org, ids in by_org.items():
        act = partial(_fan_out_keys, ctx=ctx)
        fanned_out = await in_one_transaction(ctx, org, ids, act, partial(_defer, ctx))
        failpoint("after_fan_out")
        for stored in fanned_out:
            ctx.metrics.count("steward_notices_total", topic=str(stored.notice.topic))
        fanned_out_count += len(fanned_out)
        if fanned_out:
            ctx.wake("message")
    return fanned_out_count > 0 and (len(waiting) == BATCH or fanned_out_count < len(waiting))


async def _defer(ctx: NotificationContext, org: OrgId, notice: NoticeId, error: Exception) -> None:
    """Defers a failed notice by a minute."""

    async def defer(tx: Tx) -> int:
        return await notices.defer(tx, org, notice, until=tx.now + _MINUTE)

    failures = await ctx.engine.write(ctx.clock.now(), defer, org=org)
    ctx.log.error("notice_deferred", error, org=org, notice=notice, failures=failures)


async def _fan_out_keys(
    tx: Tx, *, org: OrgId, keys: Sequence[NoticeId], ctx: NotificationContext
) -> list[StoredNotice]:
    return await fan_out(tx, org=org, ids=keys, ctx=ctx)


async def fan_out(
    tx: Tx, *, org: OrgId, ids: Sequence[NoticeId], ctx: NotificationContext
) -> list[StoredNotice]:
    """Adds the notices that are still new to their receivers' inboxes and messages; returns them.

    If there are very many receivers, it leaves some notices to the next pass, so that the transaction stays
    short.
    """
    new = await notices.lock_new(tx, org, ids)
    organization = await organizations.get(tx, org)
    if not new or organization is None:
        return []
    audience = await receivers.audience(tx, org, new)
    new, notices_of_people = _take_within_limit(audience, new, limit=ctx.rules.fan_out_pairs)
    mails = await _fill_inboxes(tx, org, notices_of_people)
    if ChannelName.EMAIL not in ctx.channels:
        mails = []
    await _mail(tx, org, mails, zone_name=organization.zone, ctx=ctx)
    for route in audience.routes:
        if route.channel in ctx.channels:
            matching = [stored for stored in new if receivers.matches(route, stored)]
            await _send_to_route(tx, org, route, _to_send(matching), ctx=ctx)
    await notices.mark_fanned_out(tx, org, [stored.id for stored in new])
    return new


def _take_within_limit(
    audience: Audience, new: Sequence[StoredNotice], *, limit: int
) -> tuple[list[StoredNotice], list[_NoticesOfPerson]]:
    """Returns the oldest notices with at most `limit` receivers in all, and each person's notices.

    It always includes at least one notice.
    """
    chosen: list[StoredNotice] = []
    by_person: dict[PersonId, list[StoredNotice]] = defaultdict(list)
    pairs = 0
    for stored in new:
        people = audience.receivers_of(stored)
        pairs += len(people)
        if chosen and pairs > limit:
            break
        chosen.append(stored)
        for person in people:
            by_person[person].append(stored)
    return chosen, [(audience.people[person], by_person[person]) for person in sorted(by_person)]


async def _fill_inboxes(
    tx: Tx, org: OrgId, notices_of_people: Sequence[_NoticesOfPerson]
) -> list[_NoticesOfPerson]:
    """Adds notices to inboxes, as read for muted automations; returns what to mail to each person."""
    unread: list[tuple[PersonId, InboxGroup]] = []
    read: list[tuple[PersonId, InboxGroup]] = []
    mails: list[_NoticesOfPerson] = []
    for person, notices_of_person in notices_of_people:
        muted = [stored for stored in notices_of_person if _is_muted(person, stored)]
        not_muted = [stored for stored in notices_of_person if not _is_muted(person, stored)]
        read += [(person.person, group) for group in _inbox_groups(muted)]
        unread += [(person.person, group) for group in _inbox_groups(not_muted)]
        if person.takes_mail:
            mails.append((person, _to_send(not_muted)))
    await inbox.add_many(tx, org, read, read=True)
    await inbox.add_many(tx, org, unread, read=False)
    return mails


def _is_muted(person: NotifiableMember, stored: StoredNotice) -> bool:
    return stored.notice.automation in person.preferences.muted


def _to_send(stored_notices: Iterable[StoredNotice]) -> list[StoredNotice]:
    """Returns the notices without those that may have been sent before a restore from a backup."""
    return [stored for stored in stored_notices if not stored.inbox_only]


def _inbox_groups(stored_notices: Iterable[StoredNotice]) -> list[InboxGroup]:
    """Groups notices by topic and subject, or only by topic if there would be too many groups."""
    by_topic: dict[Topic, dict[str, list[StoredNotice]]] = defaultdict(lambda: defaultdict(list))
    for stored in stored_notices:
        by_topic[stored.notice.topic][_subject(stored)].append(stored)
    groups: list[InboxGroup] = []
    for topic, subjects in by_topic.items():
        if len(subjects) > _GROUPS_A_TOPIC:
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
    mails: Sequence[_NoticesOfPerson],
    *,
    zone_name: str,
    ctx: NotificationContext,
) -> None:
    """Adds notices to people's open messages, immediate or digest as each person prefers."""
    people = [person.person for person, stored_notices in mails if stored_notices]
    last_closed = await collecting.last_closed_of_all(tx, org, people, ChannelName.EMAIL)
    collected: list[CollectedNotices] = []
    for person, stored_notices in mails:
        preferences = person.preferences
        by_choice: dict[MailChoice, list[StoredNotice]] = defaultdict(list)
        for stored in stored_notices:
            by_choice[preferences.email[GROUPS[stored.notice.topic]]].append(stored)
        for choice, kind in _KIND.items():
            if choice in by_choice:
                rules = DueRules(
                    ctx.rules.window,
                    last_closed.get(person.person),
                    choice,
                    preferences.quiet_hours,
                    preferences.wake_for_expiry,
                    preferences.digest,
                    zone(preferences.timezone or zone_name),
                )
                receiver = Receiver(ChannelName.EMAIL, kind, person=person.person)
                collected.append(_collected(tx, receiver, by_choice[choice], rules))
    await collecting.collect_many(tx, org, collected)


def _collected(
    tx: Tx, receiver: Receiver, stored_notices: Sequence[StoredNotice], rules: DueRules
) -> CollectedNotices:
    due = due_at(tx.now, rules, _approvals_of(stored_notices))
    return CollectedNotices(receiver, [stored.id for stored in stored_notices], due)


def _approvals_of(stored_notices: Iterable[StoredNotice]) -> list[ApprovalSpan]:
    """Returns the spans of the approvals in notices of a pending decision."""
    return [
        ApprovalSpan(
            stored.created_at,
            datetime.fromisoformat(str(stored.notice.facts["asked_at"])),
            datetime.fromisoformat(str(stored.notice.facts["expires_at"])),
        )
        for stored in stored_notices
        if stored.notice.topic in WAITING_TOPICS
    ]


async def _send_to_route(
    tx: Tx, org: OrgId, route: NotifiableRoute, matching: Sequence[StoredNotice], *, ctx: NotificationContext
) -> None:
    """Adds notices to the route's open message; a webhook gets the first few of a minute individually."""
    receiver = Receiver(route.channel, MessageKind.NOTICES, route=route.route)
    if not matching:
        return
    collected = list(matching)
    if route.channel is ChannelName.WEBHOOK:
        used = await messages.closed_since(tx, org, receiver, tx.now - _MINUTE)
        singles = collected[: max(0, _SINGLE_EVENTS - used)]
        for stored in singles:
            await messages.add_closed(
                tx, org, receiver, notices=[stored.id], count=stored.notice.count, envelope={}
            )
        collected = collected[len(singles) :]
        if not collected:
            return
    rules = DueRules(ctx.rules.window, await messages.last_closed(tx, org, receiver))
    await collecting.collect_many(tx, org, [_collected(tx, receiver, collected, rules)])
