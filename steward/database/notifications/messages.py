"""Messages: collected, closed, leased for a delivery, ended. Each move is guarded by the state before it."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.database.due_rows import NOT_DEFERRED
from steward.database.engine.base import Both, Json, Row, Tx, from_ms, from_ms_or_none
from steward.model.ids import MessageId, NoticeId, OrgId, PersonId, RouteId, new_id
from steward.model.json import JsonObject
from steward.model.notice import ChannelName, MessageKind, MessageState

DUE_BATCH = 200
_ERROR_CHARACTERS = 300
_RECEIVER = (
    " WHERE org_id = :org AND person_id = :person AND route_id = :route AND channel = :channel"
    " AND kind = :kind"
)


@dataclass(frozen=True, slots=True)
class Receiver:
    """Whom a message is for, and by which channel: a person or a route."""

    channel: ChannelName
    kind: MessageKind
    person: PersonId | None = None
    route: RouteId | None = None

    def args(self, org: OrgId) -> dict[str, object]:
        """Returns the receiver as stored."""
        return {
            "org": org,
            "person": self.person or 0,
            "route": self.route or "",
            "channel": self.channel,
            "kind": self.kind,
        }


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message's own row."""

    org: OrgId
    id: MessageId
    receiver: Receiver
    state: MessageState
    attempt: int
    due_at: datetime
    closed_at: datetime | None
    expires_at: datetime | None
    count: int
    envelope: JsonObject
    sealed: tuple[bytes, int] | None


async def to_close(tx: Tx, limit: int = DUE_BATCH) -> list[tuple[OrgId, MessageId]]:
    """Returns collected messages that are due, of every organization, without deferred ones."""
    rows = await tx.all(
        Both(
            "SELECT org_id, id FROM messages WHERE state = 'collecting' AND next_try_at <= {now}"
            f"{NOT_DEFERRED.format(tick='close_messages', key='messages.id')}"
            " ORDER BY next_try_at, id LIMIT :most",
            "SELECT org_id, id FROM queue_messages_to_close(:most)",
        ),
        {"most": limit},
    )
    return [(OrgId(row["org_id"]), MessageId(row["id"])) for row in rows]


async def to_deliver(tx: Tx, channel: ChannelName, limit: int) -> list[tuple[OrgId, MessageId]]:
    """Returns the channel's messages to deliver, of every organization, without deferred ones."""
    rows = await tx.all(
        Both(
            "SELECT org_id, id FROM messages WHERE channel = :channel AND state IN ('due', 'sending')"
            f" AND next_try_at <= {{now}}{NOT_DEFERRED.format(tick='send', key='messages.id')}"
            " ORDER BY next_try_at, id LIMIT :most",
            "SELECT org_id, id FROM queue_messages(:channel, :most)",
        ),
        {"channel": channel, "most": limit},
    )
    return [(OrgId(row["org_id"]), MessageId(row["id"])) for row in rows]


async def collect(
    tx: Tx, org: OrgId, receiver: Receiver, notices: Sequence[NoticeId], *, due_at: datetime
) -> MessageId:
    """Adds notices to the receiver's open message, which becomes due at `due_at` or as early as it was."""
    row = None
    while row is None:  # another process may close the one that was open between both statements
        row = await tx.first(
            f"UPDATE messages SET due_at = {_LEAST}, next_try_at = {_LEAST}{_RECEIVER}"
            " AND state = 'collecting' RETURNING id",
            {**receiver.args(org), "due": due_at},
        ) or await _insert(tx, org, receiver, state=MessageState.COLLECTING, due_at=due_at)
    message = MessageId(row["id"])
    await _attach(tx, org, message, notices)
    return message


# Both engines have one of these functions each.
_LEAST = "CASE WHEN due_at < :due THEN due_at ELSE :due END"


async def _insert(
    tx: Tx, org: OrgId, receiver: Receiver, *, state: MessageState, due_at: datetime
) -> Row | None:
    return await tx.first(
        "INSERT INTO messages (org_id, id, person_id, route_id, channel, kind, state, created_at, due_at,"
        " next_try_at) VALUES (:org, :id, :person, :route, :channel, :kind, :state, :now, :due, :due)"
        " ON CONFLICT DO NOTHING RETURNING id",
        {**receiver.args(org), "id": new_id(tx.now), "state": state, "due": due_at},
    )


async def _attach(tx: Tx, org: OrgId, message: MessageId, notices: Sequence[NoticeId]) -> None:
    if notices:
        await tx.execute(
            "INSERT INTO message_notices (org_id, message_id, notice_id)"
            " SELECT org_id, CAST(:message AS text), id FROM notices WHERE org_id = :org AND id IN (:notices)"
            " ON CONFLICT DO NOTHING",
            {"org": org, "message": message, "notices": list(notices)},
        )


async def add_closed(
    tx: Tx,
    org: OrgId,
    receiver: Receiver,
    *,
    notices: Sequence[NoticeId] = (),
    count: int,
    envelope: JsonObject,
    id_: MessageId | None = None,
    sealed: tuple[bytes, int] | None = None,
    expires_at: datetime | None = None,
) -> MessageId:
    """Stores a message that is due at once with what it says: one event of a webhook, a test, a mail of
    one's account."""
    message = id_ or MessageId(new_id(tx.now))
    await tx.execute(
        "INSERT INTO messages (org_id, id, person_id, route_id, channel, kind, state, created_at, due_at,"
        " next_try_at, closed_at, expires_at, count, envelope, sealed, sealed_key)"
        " VALUES (:org, :id, :person, :route, :channel, :kind, 'due', :now, :now, :now, :now, :expires,"
        " :count, :envelope, :sealed, :key)",
        {
            **receiver.args(org),
            "id": message,
            "count": count,
            "envelope": Json(envelope),
            "expires": expires_at,
            "sealed": sealed[0] if sealed else None,
            "key": sealed[1] if sealed else None,
        },
    )
    await _attach(tx, org, message, notices)
    return message


async def touch_none(tx: Tx, org: OrgId) -> None:
    """Runs a statement that touches no row, where another caller stores a message."""
    await tx.execute("UPDATE messages SET error = error WHERE org_id = :org AND id = ''", {"org": org})


async def last_closed(tx: Tx, org: OrgId, receiver: Receiver) -> datetime | None:
    """Returns when the newest message to the receiver was closed that was not found obsolete."""
    row = await tx.first(
        "SELECT max(closed_at) AS at FROM messages"
        " WHERE org_id = :org AND person_id = :person AND route_id = :route AND channel = :channel"
        " AND kind IN ('notices', 'digest') AND state <> 'obsolete'",
        receiver.args(org),
    )
    return None if row is None else from_ms_or_none(row["at"])


async def closed_since(tx: Tx, org: OrgId, receiver: Receiver, since: datetime) -> int:
    """Counts the messages to the receiver that were closed since an instant."""
    row = await tx.first(
        f"SELECT count(*) AS n FROM messages{_RECEIVER} AND closed_at > :since",
        {**receiver.args(org), "since": since},
    )
    return 0 if row is None else int(row["n"])


async def lock(tx: Tx, org: OrgId, message: MessageId) -> StoredMessage | None:
    """Locks a message and returns it; None when there is none or another process has it."""
    row = await tx.first(
        "SELECT org_id, id, person_id, route_id, channel, kind, state, attempt, due_at, closed_at,"
        " expires_at, count, envelope, sealed, sealed_key FROM messages"
        " WHERE org_id = :org AND id = :message {skip_locked}",
        {"org": org, "message": message},
    )
    return None if row is None else _stored(row)


async def notices_of(tx: Tx, org: OrgId, message: MessageId) -> list[NoticeId]:
    """Returns the ids of the notices that a message tells."""
    rows = await tx.all(
        "SELECT notice_id FROM message_notices WHERE org_id = :org AND message_id = :message"
        " ORDER BY notice_id",
        {"org": org, "message": message},
    )
    return [NoticeId(row["notice_id"]) for row in rows]


async def close(
    tx: Tx,
    org: OrgId,
    message: MessageId,
    *,
    left_out: Collection[NoticeId],
    count: int,
    envelope: JsonObject,
) -> bool:
    """Fixes what a collected message says and makes it due; returns False when it is closed already."""
    if left_out:
        await tx.execute(
            "DELETE FROM message_notices"
            " WHERE org_id = :org AND message_id = :message AND notice_id IN (:left_out)",
            {"org": org, "message": message, "left_out": list(left_out)},
        )
    touched = await tx.execute(
        "UPDATE messages SET state = 'due', closed_at = :now, next_try_at = :now, count = :count,"
        " envelope = :envelope WHERE org_id = :org AND id = :message AND state = 'collecting'",
        {"org": org, "message": message, "count": count, "envelope": Json(envelope)},
    )
    return touched == 1


async def lease(tx: Tx, org: OrgId, message: MessageId, *, lasts: timedelta) -> bool:
    """Takes a due message, or one whose worker is lost, for a delivery; returns False when another has it."""
    touched = await tx.execute(
        "UPDATE messages SET state = 'sending', attempt = attempt + 1, lease_until = {now} + :lasts,"
        " next_try_at = {now} + :lasts WHERE org_id = :org AND id = :message AND next_try_at <= {now}"
        " AND state IN ('due', 'sending')",
        {"org": org, "message": message, "lasts": int(lasts.total_seconds() * 1000)},
    )
    return touched == 1


async def wait_until(tx: Tx, org: OrgId, message: MessageId, *, until: datetime, error: str) -> None:
    """Lets a due message wait, without a try."""
    await tx.execute(
        "UPDATE messages SET next_try_at = :until, error = :error"
        " WHERE org_id = :org AND id = :message AND state = 'due'",
        {"org": org, "message": message, "until": until, "error": error[:_ERROR_CHARACTERS]},
    )


async def try_later(
    tx: Tx,
    org: OrgId,
    message: MessageId,
    *,
    attempt: int,
    until: datetime,
    status: int | None,
    error: str | None,
    keeps_try: bool,
) -> bool:
    """Ends an attempt that is to be repeated; with `keeps_try` it counts as none."""
    touched = await tx.execute(
        "UPDATE messages SET state = 'due', lease_until = NULL, next_try_at = :until, last_status = :status,"
        " error = :error, attempt = attempt - :back"
        " WHERE org_id = :org AND id = :message AND state = 'sending' AND attempt = :attempt",
        {
            "org": org,
            "message": message,
            "attempt": attempt,
            "until": until,
            "status": status,
            "error": None if error is None else error[:_ERROR_CHARACTERS],
            "back": int(keeps_try),
        },
    )
    return touched == 1


async def end(
    tx: Tx,
    org: OrgId,
    message: MessageId,
    *,
    state: MessageState,
    attempt: int | None = None,
    status: int | None = None,
    error: str | None = None,
) -> bool:
    """Ends a message for good and erases its sealed content.

    `attempt` is the one whose outcome this is. Returns False when the message has ended, or another worker
    has it.
    """
    touched = await tx.execute(
        "UPDATE messages SET state = :state, lease_until = NULL, next_try_at = NULL, sealed = NULL,"
        " sealed_key = NULL, last_status = coalesce(CAST(:status AS bigint), last_status), error = :error,"
        " sent_at = CASE WHEN :state = 'sent' THEN CAST(:now AS bigint) END"
        " WHERE org_id = :org AND id = :message AND next_try_at IS NOT NULL"
        " AND (CAST(:attempt AS bigint) IS NULL OR (state = 'sending' AND attempt = :attempt))",
        {
            "org": org,
            "message": message,
            "state": state,
            "attempt": attempt,
            "status": status,
            "error": None if error is None else error[:_ERROR_CHARACTERS],
        },
    )
    return touched == 1


async def sent_since(tx: Tx, org: OrgId, channel: ChannelName, since: datetime) -> int:
    """Counts the organization's messages that a channel accepted since an instant."""
    row = await tx.first(
        "SELECT count(*) AS n FROM messages WHERE org_id = :org AND channel = :channel AND sent_at >= :since",
        {"org": org, "channel": channel, "since": since},
    )
    return 0 if row is None else int(row["n"])


async def end_of_route(tx: Tx, org: OrgId, route: RouteId, *, state: MessageState, error: str | None) -> int:
    """Ends the unfinished messages of a route; returns how many."""
    return await tx.execute(
        "UPDATE messages SET state = :state, lease_until = NULL, next_try_at = NULL, error = :error,"
        " closed_at = coalesce(closed_at, :now)"
        " WHERE org_id = :org AND person_id = 0 AND route_id = :route AND next_try_at IS NOT NULL",
        {"org": org, "route": route, "state": state, "error": error},
    )


async def forget_before_restore(tx: Tx, org: OrgId) -> int:
    """After the database was put back: unfinished messages may have been sent; new notices go to the inbox
    alone. Returns how many messages ended."""
    await tx.execute(
        "UPDATE notices SET inbox_only = :yes WHERE org_id = :org AND state = 'new'",
        {"org": org, "yes": True},
    )
    return await tx.execute(
        "UPDATE messages SET state = 'obsolete', lease_until = NULL, next_try_at = NULL, sealed = NULL,"
        " sealed_key = NULL WHERE org_id = :org AND next_try_at IS NOT NULL",
        {"org": org},
    )


def _stored(row: Row) -> StoredMessage:
    return StoredMessage(
        OrgId(row["org_id"]),
        MessageId(row["id"]),
        Receiver(
            ChannelName(row["channel"]),
            MessageKind(row["kind"]),
            PersonId(row["person_id"]) if row["person_id"] else None,
            RouteId(row["route_id"]) if row["route_id"] else None,
        ),
        MessageState(row["state"]),
        row["attempt"],
        from_ms(row["due_at"]),
        from_ms_or_none(row["closed_at"]),
        from_ms_or_none(row["expires_at"]),
        row["count"],
        json.loads(row["envelope"]) if row["envelope"] else {},
        (bytes(row["sealed"]), row["sealed_key"]) if row["sealed"] is not None else None,
    )
