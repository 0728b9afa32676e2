"""Messages: collected, closed, leased for delivery, ended; each transition checks the earlier state."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.database.due_rows import NOT_DEFERRED
from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none
from steward.model.ids import MessageId, NoticeId, OrgId, PersonId, RouteId, new_id
from steward.model.json import JsonObject
from steward.model.notice import ChannelName, MessageKind, MessageState

DUE_BATCH = 200
_ERROR_CHARACTERS = 300
_RECEIVER = (
    " WHERE org_id = :org AND person_id = :person AND route_id = :route AND channel = :channel"
    " AND kind = :kind"
)
_SENT = (
    "UPDATE messages SET state = 'sent', lease_until = NULL, next_try_at = NULL, sealed = NULL,"
    " sealed_key = NULL, last_status = coalesce({status}, last_status), error = NULL, sent_at = :now"
    " FROM {rows} AS r WHERE messages.org_id = :org AND messages.id = r.value ->> 0"
    " AND messages.state = 'sending' AND messages.attempt = {attempt}"
)
_END_SENT = PerEngine(
    # Without the list of ids, SQLite would scan all messages of the organization.
    sqlite=_SENT.format(rows="json_each(:rows)", status="r.value ->> 2", attempt="r.value ->> 1")
    + " AND messages.id IN (SELECT k.value ->> 0 FROM json_each(:rows) AS k) RETURNING id",
    postgresql=_SENT.format(
        rows="jsonb_array_elements(CAST(:rows AS jsonb))",
        status="(r.value ->> 2)::bigint",
        attempt="(r.value ->> 1)::bigint",
    )
    + " RETURNING id",
)


@dataclass(frozen=True, slots=True)
class Receiver:
    """The receiver of a message, a person or a route, and its channel."""

    channel: ChannelName
    kind: MessageKind
    person: PersonId | None = None
    route: RouteId | None = None

    def args(self, org: OrgId) -> dict[str, object]:
        """Returns the receiver's columns as stored."""
        return {
            "org": org,
            "person": self.person or 0,
            "route": self.route or "",
            "channel": self.channel,
            "kind": self.kind,
        }


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """The stored row of a message."""

    org: OrgId
    id: MessageId
    receiver: Receiver
    state: MessageState
    attempt: int
    due_at: datetime
    next_try_at: datetime | None
    closed_at: datetime | None
    expires_at: datetime | None
    count: int
    envelope: JsonObject
    sealed: tuple[bytes, int] | None


async def to_close(tx: Tx) -> list[tuple[OrgId, MessageId]]:
    """Returns collected messages that are due, of all organizations, without deferred ones."""
    rows = await tx.all(
        PerEngine(
            "SELECT org_id, id FROM messages WHERE state = 'collecting' AND next_try_at <= {now}"
            f"{NOT_DEFERRED.format(task='close_messages', key='messages.id')}"
            " ORDER BY next_try_at, id LIMIT :most",
            "SELECT org_id, id FROM queue_messages_to_close(:most, :test_now)",
        ),
        {"most": DUE_BATCH, "test_now": tx.test_now},
    )
    return [(OrgId(row["org_id"]), MessageId(row["id"])) for row in rows]


async def to_deliver(tx: Tx, channel: ChannelName, limit: int) -> list[tuple[OrgId, MessageId]]:
    """Returns the channel's messages to deliver, of all organizations, without deferred ones."""
    rows = await tx.all(
        PerEngine(
            "SELECT org_id, id FROM messages WHERE channel = :channel AND state IN ('due', 'sending')"
            f" AND next_try_at <= {{now}}{NOT_DEFERRED.format(task='send', key='messages.id')}"
            " ORDER BY next_try_at, id LIMIT :most",
            "SELECT org_id, id FROM queue_messages(:channel, :most, :test_now)",
        ),
        {"channel": channel, "most": limit, "test_now": tx.test_now},
    )
    return [(OrgId(row["org_id"]), MessageId(row["id"])) for row in rows]


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
    """Stores a message with its content, due at once.

    It is an event of a webhook, a test, or a mail about an account.
    """
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


async def run_no_op(tx: Tx, org: OrgId) -> None:
    """Runs a statement that changes no row, where another caller would store a message."""
    await tx.execute("UPDATE messages SET error = error WHERE org_id = :org AND id = ''", {"org": org})


async def last_closed(tx: Tx, org: OrgId, receiver: Receiver) -> datetime | None:
    """Returns when the newest message to the receiver was closed, obsolete messages aside."""
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


async def lock_many(tx: Tx, org: OrgId, messages: Sequence[MessageId]) -> list[StoredMessage]:
    """Locks messages and returns them, oldest first, without those that another process has locked."""
    rows = await tx.all(
        "SELECT org_id, id, person_id, route_id, channel, kind, state, attempt, due_at, next_try_at,"
        " closed_at, expires_at, count, envelope, sealed, sealed_key FROM messages"
        " WHERE org_id = :org AND id IN (:messages) ORDER BY id {skip_locked}",
        {"org": org, "messages": list(messages)},
    )
    return [_stored(row) for row in rows]


async def notices_of(tx: Tx, org: OrgId, messages: Sequence[MessageId]) -> dict[MessageId, list[NoticeId]]:
    """Returns the ids of the notices in each of the messages."""
    if not messages:
        return {}
    rows = await tx.all(
        "SELECT message_id, notice_id FROM message_notices WHERE org_id = :org AND message_id IN (:messages)"
        " ORDER BY message_id, notice_id",
        {"org": org, "messages": list(messages)},
    )
    by_message: dict[MessageId, list[NoticeId]] = {}
    for row in rows:
        by_message.setdefault(MessageId(row["message_id"]), []).append(NoticeId(row["notice_id"]))
    return by_message


async def make_obsolete(tx: Tx, org: OrgId, messages: Sequence[MessageId]) -> int:
    """Ends messages that are no longer to be sent, and erases their sealed content. Returns their number."""
    if not messages:
        return 0
    return await tx.execute(
        "UPDATE messages SET state = 'obsolete', lease_until = NULL, next_try_at = NULL, sealed = NULL,"
        " sealed_key = NULL WHERE org_id = :org AND id IN (:messages) AND next_try_at IS NOT NULL",
        {"org": org, "messages": list(messages)},
    )


async def lease(tx: Tx, org: OrgId, messages: Sequence[MessageId], *, lasts: timedelta) -> None:
    """Leases locked messages for delivery that are due or whose worker is lost."""
    await tx.execute(
        "UPDATE messages SET state = 'sending', attempt = attempt + 1, lease_until = {now} + :lasts,"
        " next_try_at = {now} + :lasts WHERE org_id = :org AND id IN (:messages) AND next_try_at <= {now}"
        " AND state IN ('due', 'sending')",
        {"org": org, "messages": list(messages), "lasts": int(lasts.total_seconds() * 1000)},
    )


async def release(tx: Tx, org: OrgId, message: MessageId, *, attempt: int) -> None:
    """Returns an unsent leased message to the queue; the attempt does not count."""
    await tx.execute(
        "UPDATE messages SET state = 'due', lease_until = NULL, next_try_at = :now, attempt = attempt - 1"
        " WHERE org_id = :org AND id = :message AND state = 'sending' AND attempt = :attempt",
        {"org": org, "message": message, "attempt": attempt},
    )


async def end_sent(tx: Tx, org: OrgId, sent: Sequence[tuple[MessageId, int, int | None]]) -> set[MessageId]:
    """Ends accepted messages, each with its attempt and the response's status; erases their sealed content.

    Returns the messages that had not ended and that no other worker had.
    """
    if not sent:
        return set()
    rows = await tx.all(_END_SENT, {"org": org, "rows": Json([[*entry] for entry in sent])})
    return {MessageId(row["id"]) for row in rows}


async def wait_until(tx: Tx, org: OrgId, message: MessageId, *, until: datetime, error: str) -> None:
    """Postpones a due message without counting an attempt."""
    await tx.execute(
        "UPDATE messages SET next_try_at = :until, error = :error"
        " WHERE org_id = :org AND id = :message AND state = 'due'",
        {"org": org, "message": message, "until": until, "error": error[:_ERROR_CHARACTERS]},
    )


async def schedule_retry(
    tx: Tx,
    org: OrgId,
    message: MessageId,
    *,
    attempt: int,
    until: datetime,
    status: int | None,
    error: str | None,
    counts: bool,
) -> bool:
    """Ends an attempt that will be repeated; without `counts` it does not count against the limit."""
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
            "back": int(not counts),
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
    """Ends a message permanently and erases its sealed content.

    `attempt` is the attempt that had this outcome. Returns False when the message has ended, or another
    worker has it.
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
    """Ends the unfinished messages of a route. Returns their number."""
    return await tx.execute(
        "UPDATE messages SET state = :state, lease_until = NULL, next_try_at = NULL, error = :error,"
        " closed_at = coalesce(closed_at, :now)"
        " WHERE org_id = :org AND person_id = 0 AND route_id = :route AND next_try_at IS NOT NULL",
        {"org": org, "route": route, "state": state, "error": error},
    )


async def forget_before_restore(tx: Tx, org: OrgId) -> int:
    """Ends unfinished messages after a restore, since they may have been sent. Returns their number.

    New notices only go to the inbox.
    """
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
        from_ms_or_none(row["next_try_at"]),
        from_ms_or_none(row["closed_at"]),
        from_ms_or_none(row["expires_at"]),
        row["count"],
        json.loads(row["envelope"]) if row["envelope"] else {},
        (bytes(row["sealed"]), row["sealed_key"]) if row["sealed"] is not None else None,
    )
