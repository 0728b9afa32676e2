"""Closes many collected messages at once; the database counts and selects notices, even in a flood."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Json, PerEngine, Tx, from_ms
from steward.model.ids import AutomationId, MessageId, NoticeId, OrgId
from steward.model.json import JsonObject, JsonValue
from steward.model.notice import GROUPS, LISTED, WAITING_TOPICS, NoticeGroup, Topic

# The topics that a message lists first.
_URGENCY = (NoticeGroup.APPROVALS, NoticeGroup.CONNECTIONS, NoticeGroup.AUTOMATIONS, NoticeGroup.RUNS)
# For each kind of notice that can become void: the condition under which it still holds.
_STILL_APPLIES = (
    (
        WAITING_TOPICS,
        "SELECT 1 FROM approvals AS s WHERE s.org_id = n.org_id AND s.id = n.approval_id"
        " AND s.status = 'pending' AND s.expires_at > {now}",
    ),
    (
        frozenset((Topic.CONNECTION_LOST,)),
        "SELECT 1 FROM connections AS s WHERE s.org_id = n.org_id AND s.integration_id = n.integration_id"
        " AND s.state = 'needs_reconnecting'",
    ),
    (
        frozenset((Topic.AUTOMATION_PAUSED,)),
        "SELECT 1 FROM automations AS s WHERE s.org_id = n.org_id AND s.id = n.automation_id"
        " AND s.state = 'paused'",
    ),
    (
        frozenset((Topic.AUTOMATION_QUIET,)),
        "SELECT 1 FROM automation_watch AS s WHERE s.org_id = n.org_id"
        " AND s.automation_id = n.automation_id AND s.quiet_since IS NOT NULL",
    ),
)
_OF_MESSAGES = (
    "FROM message_notices AS l JOIN notices AS n ON n.org_id = l.org_id AND n.id = l.notice_id"
    " WHERE l.org_id = :org AND l.message_id IN (:messages)"
)
_DELETE = "DELETE FROM message_notices WHERE org_id = :org AND message_id IN (:messages) AND notice_id IN"
_SUBJECTS = (
    "SELECT l.message_id, n.topic, n.automation_id, sum(n.count) AS count, min(n.created_at) AS first_at,"
    f" max(n.created_at) AS last_at {_OF_MESSAGES} GROUP BY l.message_id, n.topic, n.automation_id"
)


def _listed(expires_at: str) -> str:
    ranks = "".join(f" WHEN '{topic}' THEN {_URGENCY.index(group)}" for topic, group in GROUPS.items())
    waiting = ", ".join(f"'{topic}'" for topic in sorted(WAITING_TOPICS))
    order = (
        f"CASE n.topic{ranks} END, CASE WHEN n.topic IN ({waiting}) THEN {expires_at} ELSE '~' END,"
        " n.created_at DESC, n.id"
    )
    return (
        "SELECT message_id, notice_id FROM (SELECT l.message_id, l.notice_id,"
        f" row_number() OVER (PARTITION BY l.message_id ORDER BY {order}) AS place {_OF_MESSAGES}) AS ranked"
        f" WHERE place <= {LISTED} ORDER BY message_id, place"
    )


_LISTED = PerEngine(
    sqlite=_listed("n.facts ->> 'expires_at'"),
    postgresql=_listed("CAST(n.facts AS json) ->> 'expires_at'"),
)
_CLOSE = (
    "UPDATE messages SET state = 'due', closed_at = :now, next_try_at = :now, count = {count},"
    " envelope = r.value ->> 2 FROM {rows} AS r WHERE messages.org_id = :org"
    " AND messages.id = r.value ->> 0 AND messages.state = 'collecting'"
)
_CLOSE_ALL = PerEngine(
    # Without the list of ids, SQLite would scan all messages of the organization.
    sqlite=_CLOSE.replace("{rows}", "json_each(:rows)").replace("{count}", "r.value ->> 1")
    + " AND messages.id IN (SELECT k.value ->> 0 FROM json_each(:rows) AS k)",
    postgresql=_CLOSE.replace("{rows}", "jsonb_array_elements(CAST(:rows AS jsonb))").replace(
        "{count}", "(r.value ->> 1)::bigint"
    ),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The notices of one topic and automation in a message: their number, and their first and last time."""

    topic: Topic
    automation: AutomationId | None
    count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class ClosedMessage:
    """The content of a closed message."""

    message: MessageId
    count: int
    envelope: JsonObject


async def remove_outdated(
    tx: Tx, org: OrgId, messages: Collection[MessageId], topics: Collection[Topic]
) -> int:
    """Removes notices that no longer apply from the messages. Returns the number of rows removed.

    A notice no longer applies when its approval is decided, its connection works, or its automation is
    resumed or has succeeded. Considers only the given topics.
    """
    removed = 0
    for covered_topics, still_applies in _STILL_APPLIES:
        if covered_topics.isdisjoint(topics):
            continue
        outdated = f"SELECT n.id {_OF_MESSAGES} AND n.topic IN (:topics) AND NOT EXISTS ({still_applies})"
        args = {"org": org, "messages": list(messages), "topics": sorted(covered_topics)}
        removed += await tx.execute(f"{_DELETE} ({outdated})", args)
    return removed


async def subjects(tx: Tx, org: OrgId, messages: Collection[MessageId]) -> dict[MessageId, list[Subject]]:
    """Returns the topics and automations of each message; a message without notices is absent."""
    rows = await tx.all(_SUBJECTS, {"org": org, "messages": list(messages)})
    by_message: dict[MessageId, list[Subject]] = {}
    for row in rows:
        subject = Subject(
            Topic(row["topic"]),
            row["automation_id"],
            int(row["count"]),
            from_ms(row["first_at"]),
            from_ms(row["last_at"]),
        )
        by_message.setdefault(MessageId(row["message_id"]), []).append(subject)
    return by_message


async def remove_subject(tx: Tx, org: OrgId, message: MessageId, unwanted: Subject) -> int:
    """Removes the notices of a topic and automation from a message. Returns their number."""
    chosen = (
        f"SELECT n.id {_OF_MESSAGES} AND n.topic = :topic AND coalesce(n.automation_id, '') = :automation"
    )
    args = {
        "org": org,
        "messages": [message],
        "topic": unwanted.topic,
        "automation": unwanted.automation or "",
    }
    return await tx.execute(f"{_DELETE} ({chosen})", args)


async def listed(tx: Tx, org: OrgId, messages: Collection[MessageId]) -> dict[MessageId, list[NoticeId]]:
    """Returns the notices that each of the messages lists.

    Waiting approvals come first, by the time they end, then the other groups, newest first.
    """
    rows = await tx.all(_LISTED, {"org": org, "messages": list(messages)})
    by_message: dict[MessageId, list[NoticeId]] = {}
    for row in rows:
        by_message.setdefault(MessageId(row["message_id"]), []).append(NoticeId(row["notice_id"]))
    return by_message


async def close_many(tx: Tx, org: OrgId, closed: Sequence[ClosedMessage]) -> None:
    """Fixes the content of collected messages and makes them due."""
    if closed:
        rows: list[JsonValue] = [
            [message.message, message.count, json.dumps(message.envelope, ensure_ascii=False)]
            for message in closed
        ]
        await tx.execute(_CLOSE_ALL, {"org": org, "rows": Json(rows)})
