"""Closes collected messages: fixes the content of each, or drops it if no notice is left."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from steward.database.accounts import organizations
from steward.database.engine.base import Autocommit, Tx
from steward.database.notifications import closing, messages, receivers
from steward.database.notifications.closing import ClosedMessage, Subject
from steward.database.notifications.messages import StoredMessage
from steward.database.notifications.receivers import NotifiableMember
from steward.model.account import Organization
from steward.model.ids import MessageId, NoticeId, OrgId, PersonId, RouteId
from steward.model.instants import wire_time
from steward.model.json import JsonObject
from steward.model.notice import GROUPS, MailChoice, MessageState, Topic
from steward.notifications.context import NotificationContext
from steward.notifications.row_transactions import defer_row, in_one_transaction


async def close_due(ctx: NotificationContext) -> bool:
    """Closes the collected messages that are due, in one transaction per organization.

    Returns True when more are likely to be due.
    """
    due = await ctx.engine.read(ctx.clock.now(), Autocommit(messages.to_close))
    by_org: dict[OrgId, list[MessageId]] = defaultdict(list)
    for org, message in due:
        by_org[org].append(message)
    for org, ids in by_org.items():
        await in_one_transaction(ctx, org, ids, close, partial(defer_row, ctx, "close_messages"))
        for channel in ctx.channels:
            ctx.wake(f"deliver_{channel}")
    return len(due) == messages.DUE_BATCH


async def close(tx: Tx, *, org: OrgId, keys: Sequence[MessageId]) -> list[MessageId]:
    """Closes those of the messages that are due and returns their ids.

    Notices that no longer apply are left out; a message without any becomes obsolete.
    """
    stored = await messages.lock_many(tx, org, keys)
    due = [
        message for message in stored if message.state is MessageState.COLLECTING and message.due_at <= tx.now
    ]
    organization = await organizations.get(tx, org)
    if not due or organization is None:
        return []
    open_receivers = await _open_receivers(tx, org, due)
    subjects = await _current_subjects(tx, org, due, open_receivers)
    listed = await closing.listed(tx, org, list(subjects))
    closed = [
        ClosedMessage(
            message.id,
            sum(subject.count for subject in subjects[message.id]),
            _envelope(
                organization, open_receivers.zone_of(message), subjects[message.id], listed[message.id]
            ),
        )
        for message in due
        if message.id in subjects
    ]
    await closing.close_many(tx, org, closed)
    empty = [message.id for message in due if message.id not in subjects]
    await messages.make_obsolete(tx, org, empty)
    return [message.id for message in due]


class _OpenReceivers:
    """The people and routes that messages may still be sent to."""

    def __init__(self, members: Mapping[PersonId, NotifiableMember], routes: Collection[RouteId]) -> None:
        self._members = members
        self._routes = routes

    def includes(self, message: StoredMessage) -> bool:
        """Returns whether the message may still be sent to its receiver."""
        if message.receiver.person is None:
            return message.receiver.route in self._routes
        member = self.member(message)
        return member is not None and member.takes_mail

    def member(self, message: StoredMessage) -> NotifiableMember | None:
        """Returns the person that the message is for, or None for a route."""
        person = message.receiver.person
        return None if person is None else self._members.get(person)

    def zone_of(self, message: StoredMessage) -> str | None:
        """Returns the time zone chosen by the message's receiver, if any."""
        member = self.member(message)
        return None if member is None else member.preferences.timezone

    def wants(self, message: StoredMessage, subject: Subject) -> bool:
        """Returns whether the receiver still wants mail about the topic and automation of `subject`."""
        member = self.member(message)
        if member is None:
            return True
        preferences = member.preferences
        is_off = preferences.email[GROUPS[subject.topic]] is MailChoice.OFF
        return not is_off and subject.automation not in preferences.muted


async def _open_receivers(tx: Tx, org: OrgId, due: Sequence[StoredMessage]) -> _OpenReceivers:
    people = {message.receiver.person for message in due} - {None}
    routes = {message.receiver.route for message in due} - {None}
    return _OpenReceivers(
        await receivers.members(tx, org, [person for person in people if person is not None]),
        await receivers.open_routes(tx, org, [route for route in routes if route is not None]),
    )


async def _current_subjects(
    tx: Tx, org: OrgId, due: Sequence[StoredMessage], open_receivers: _OpenReceivers
) -> dict[MessageId, list[Subject]]:
    """Removes notices that no longer apply or are unwanted; returns the remaining subjects by message.

    The result lacks messages without subjects or with unreachable receivers.
    """
    by_id = {message.id: message for message in due if open_receivers.includes(message)}
    subjects = await closing.subjects(tx, org, list(by_id))
    topics = {subject.topic for message_subjects in subjects.values() for subject in message_subjects}
    removed = await closing.remove_outdated(tx, org, list(by_id), topics)
    for message, message_subjects in subjects.items():
        for subject in message_subjects:
            if not open_receivers.wants(by_id[message], subject):
                removed += await closing.remove_subject(tx, org, message, subject)
    return await closing.subjects(tx, org, list(by_id)) if removed else subjects


def _envelope(
    organization: Organization, zone: str | None, subjects: Sequence[Subject], listed: Sequence[NoticeId]
) -> JsonObject:
    """Returns the fixed content of a message: names, counts, and the notices that it lists."""
    topics: Counter[Topic] = Counter()
    for subject in subjects:
        topics[subject.topic] += subject.count
    return {
        "organization": organization.name,
        "zone": zone or organization.zone,
        "topics": {str(topic): count for topic, count in sorted(topics.items())},
        "listed": [*listed],
        "first_at": wire_time(min(subject.first_at for subject in subjects)),
        "last_at": wire_time(max(subject.last_at for subject in subjects)),
    }
