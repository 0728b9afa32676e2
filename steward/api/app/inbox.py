"""The notices of the person signed in: the list under the bell."""

from typing import Annotated

import msgspec
from pydantic import Field

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import IdText, PageQuery, QueryFlag, RequestBody, Timestamp, Unique
from steward.database.engine.base import Tx, ms
from steward.database.notifications import inbox_pages
from steward.database.notifications.inbox_pages import InboxRow
from steward.model.account import Role
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.notice import Topic
from steward.model.refusals import ValidationFailed
from steward.notifications import own_mail, texts
from steward.notifications.texts import NoticeIds

_MAX_IDS = 200


class InboxQuery(PageQuery):
    """A page of the inbox, or of what is unread in it."""

    unread: QueryFlag = False


class ReadBody(RequestBody):
    """The notices to mark as read: those named, or all up to a time."""

    ids: Annotated[list[IdText], Field(max_length=_MAX_IDS), Unique] | None = None
    until: Timestamp | None = None


class InboxEntry(msgspec.Struct):
    """A line of the inbox: facts of one topic and automation, grouped."""

    id: str
    topic: str
    text: str
    automation_id: str | None
    run_id: str | None
    approval_id: str | None
    integration_id: int | None
    count: int
    first_at: str
    last_at: str
    read: bool
    url: str


class InboxResponse(msgspec.Struct):
    """A page of the inbox, newest first, and how many lines are unread, counted to 1,000.

    `mail_down_since` is returned to owners only: since when mail waits and none is accepted.
    """

    notices: list[InboxEntry]
    unread: int
    mail_down_since: str | None
    next_cursor: str | None


class UnreadResponse(msgspec.Struct):
    """The number of unread lines after the request."""

    unread: int


async def find(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/inbox`."""
    query: InboxQuery = call.query
    actor = call.actor
    key = call.page_start()
    lines = await inbox_pages.find(
        tx,
        actor.org,
        actor.person,
        unread=query.unread,
        after=None if key is None else (int(str(key[0])), str(key[1])),
        limit=query.limit + 1,
    )
    page = lines[: query.limit]
    more = None
    if len(lines) > len(page):
        more = call.next_cursor([ms(page[-1].last_at), page[-1].id])
    unread = await inbox_pages.count_unread(tx, actor.org, actor.person)
    origin = call.context.rules.web_origin
    down_since = await own_mail.down_since(tx, actor.org) if actor.role is Role.OWNER else None
    entries = [_entry(line, origin) for line in page]
    return InboxResponse(entries, unread, wire_time_or_none(down_since), more)


async def mark_read(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/inbox/read`; ids that are not the person's change nothing."""
    body: ReadBody = call.body
    actor = call.actor
    if (body.ids is None) == (body.until is None):
        raise ValidationFailed(errors={"ids": ["Give either ids or until."]})
    if body.ids is not None:
        await inbox_pages.mark_read(tx, actor.org, actor.person, body.ids)
    if body.until is not None:
        await inbox_pages.mark_read_until(tx, actor.org, actor.person, body.until)
    return UnreadResponse(await inbox_pages.count_unread(tx, actor.org, actor.person))


def _entry(line: InboxRow, origin: str) -> InboxEntry:
    topic = Topic(line.topic)
    ids = NoticeIds(line.automation_id, line.run_id, line.approval_id, line.integration_id, line.route_id)
    return InboxEntry(
        id=line.id,
        topic=topic.value,
        text=texts.sentence(topic, line.facts, count=line.count, automations=line.automations),
        automation_id=line.automation_id,
        run_id=line.run_id,
        approval_id=line.approval_id,
        integration_id=line.integration_id,
        count=line.count,
        first_at=wire_time(line.first_at),
        last_at=wire_time(line.last_at),
        read=line.is_read,
        url=origin + texts.page(topic, ids, count=line.count, automations=line.automations),
    )


OPERATIONS = (
    Operation(
        name="inbox.list",
        method="GET",
        path="/app/inbox",
        access=Access.APP,
        role=Role.MEMBER,
        function=find,
        query=InboxQuery,
        response=InboxResponse,
        small=True,
        summary="List one's own notices",
    ),
    Operation(
        name="inbox.mark_read",
        method="POST",
        path="/app/inbox/read",
        access=Access.APP,
        role=Role.MEMBER,
        function=mark_read,
        body=ReadBody,
        response=UnreadResponse,
        summary="Mark notices as read",
        writes=True,
    ),
)
