"""Collected messages: one statement adds the notices of a pass to the open messages of many receivers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Json, PerEngine, Tx, from_ms, ms
from steward.database.notifications.messages import Receiver
from steward.model.ids import NoticeId, OrgId, PersonId, new_id
from steward.model.notice import ChannelName

# The ON CONFLICT branch also covers another process that closes the open message meanwhile.
_HEAD = (
    "INSERT INTO messages AS m (org_id, id, person_id, route_id, channel, kind, state, created_at, due_at,"
    " next_try_at)"
)
_EARLIER_DUE = "CASE WHEN m.due_at < excluded.due_at THEN m.due_at ELSE excluded.due_at END"
_TAIL = (
    " ON CONFLICT (org_id, person_id, route_id, channel, kind) WHERE state = 'collecting'"
    f" DO UPDATE SET due_at = {_EARLIER_DUE}, next_try_at = {_EARLIER_DUE}"
    " RETURNING id, person_id, route_id, channel, kind"
)
_COLLECT = PerEngine(
    sqlite=_HEAD + " SELECT :org, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4,"
    " 'collecting', :now, r.value ->> 5, r.value ->> 5 FROM json_each(:rows) AS r WHERE true" + _TAIL,
    postgresql=_HEAD + " SELECT :org, r.value ->> 0, (r.value ->> 1)::bigint, r.value ->> 2, r.value ->> 3,"
    " r.value ->> 4, 'collecting', :now, (r.value ->> 5)::bigint, (r.value ->> 5)::bigint"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r" + _TAIL,
)
_ATTACH = PerEngine(
    sqlite="INSERT INTO message_notices (org_id, message_id, notice_id)"
    " SELECT :org, r.value ->> 0, r.value ->> 1 FROM json_each(:rows) AS r WHERE true ON CONFLICT DO NOTHING",
    postgresql="INSERT INTO message_notices (org_id, message_id, notice_id)"
    " SELECT :org, r.value ->> 0, r.value ->> 1 FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r"
    " ON CONFLICT DO NOTHING",
)
_LAST_CLOSED = (
    "SELECT k.value AS person_id, (SELECT max(m.closed_at) FROM messages AS m WHERE m.org_id = :org"
    " AND m.person_id = k.value AND m.route_id = '' AND m.channel = :channel"
    " AND m.kind IN ('notices', 'digest') AND m.state <> 'obsolete') AS closed_at"
)
_LAST_CLOSED_OF_ALL = PerEngine(
    sqlite=f"{_LAST_CLOSED} FROM json_each(:people) AS k",
    postgresql=f"{_LAST_CLOSED} FROM unnest(CAST(:people AS bigint[])) AS k(value)",
)


@dataclass(frozen=True, slots=True)
class CollectedNotices:
    """Notices for the open message of a receiver, and its latest due time."""

    receiver: Receiver
    notices: Sequence[NoticeId]
    due_at: datetime


async def collect_many(tx: Tx, org: OrgId, collected: Sequence[CollectedNotices]) -> None:
    """Adds notices to the receivers' open messages, which become due at `due_at` unless due earlier.

    No receiver may occur twice.
    """
    if not collected:
        return
    rows = [
        [
            new_id(tx.now),
            entry.receiver.person or 0,
            entry.receiver.route or "",
            entry.receiver.channel,
            entry.receiver.kind,
            ms(entry.due_at),
        ]
        for entry in collected
    ]
    stored = await tx.all(_COLLECT, {"org": org, "rows": Json([*rows])})
    messages = {(row["person_id"], row["route_id"], row["channel"], row["kind"]): row["id"] for row in stored}
    pairs = []
    for row, entry in zip(rows, collected, strict=True):
        message = messages[row[1], row[2], row[3], row[4]]
        pairs += [[message, notice] for notice in entry.notices]
    await tx.execute(_ATTACH, {"org": org, "rows": Json([*pairs])})


async def last_closed_of_all(
    tx: Tx, org: OrgId, people: Sequence[PersonId], channel: ChannelName
) -> dict[PersonId, datetime]:
    """Returns when the newest message to each person was closed, obsolete messages aside."""
    if not people:
        return {}
    rows = await tx.all(_LAST_CLOSED_OF_ALL, {"org": org, "people": list(people), "channel": channel})
    return {
        PersonId(row["person_id"]): from_ms(row["closed_at"]) for row in rows if row["closed_at"] is not None
    }
