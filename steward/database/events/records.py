"""Store events: stored once by their key, locked while they are matched, deferred when they fail."""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.database.due_rows import MAX_DEFERRED_MINUTES
from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none, ms
from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonObject, JsonValue

_FAILURES_TO_POISON = 5
_LEVEL = 1  # bodies are small and arrive quickly

_KEEP = PerEngine(
    "INSERT INTO events (org_id, id, integration_id, dedupe_key, topic, polled, received_at, occurred_at,"
    " bytes, oversize, state, not_before)"
    " SELECT r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4, r.value ->> 5, :now,"
    " r.value ->> 6, r.value ->> 7, r.value ->> 8, 'new', :now FROM json_each(:rows) AS r WHERE true"
    " ON CONFLICT (org_id, integration_id, dedupe_key) DO NOTHING RETURNING org_id, id",
    "INSERT INTO events (org_id, id, integration_id, dedupe_key, topic, polled, received_at, occurred_at,"
    " bytes, oversize, state, not_before)"
    " SELECT (r.value ->> 0)::bigint, r.value ->> 1, (r.value ->> 2)::bigint, r.value ->> 3, r.value ->> 4,"
    " (r.value ->> 5)::boolean, :now, (r.value ->> 6)::bigint, (r.value ->> 7)::bigint,"
    " (r.value ->> 8)::boolean, 'new', :now FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r"
    " ON CONFLICT (org_id, integration_id, dedupe_key) DO NOTHING RETURNING org_id, id",
)
_KEEP_BODIES = PerEngine(
    "INSERT INTO event_bodies (org_id, event_id, body) VALUES (:org, :id, :body)",
    "INSERT INTO event_bodies (org_id, event_id, body)"
    " SELECT * FROM unnest(:orgs::bigint[], :ids::text[], :bodies::bytea[])",
)
_DUE = PerEngine(
    "SELECT org_id, id FROM events WHERE state = 'new' AND not_before <= {now}"
    " ORDER BY not_before, id LIMIT :most",
    "SELECT org_id, id FROM queue_events(:most, :test_now)",
)
# One call of a function on PostgreSQL; SQLite would scan the whole table for such a statement.
_MATCHED = PerEngine(
    "UPDATE events SET state = 'matched', pointer = :pointer WHERE org_id = :org AND id = :event",
    "UPDATE events SET state = 'matched', pointer = r.value ->> 1"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r"
    " WHERE events.org_id = :org AND events.id = r.value ->> 0",
)
_COLUMNS = (
    "e.org_id, e.id, e.integration_id, e.topic, e.polled, e.received_at, e.occurred_at, e.oversize, e.tries"
)


@dataclass(frozen=True, slots=True)
class NewEvent:
    """A delivery to store; `body` is null when it was over the cap, `native` is the platform's own topic."""

    org: OrgId
    id: str
    integration: IntegrationId
    dedupe_key: str
    native: str
    size: int
    body: bytes | None
    occurred_at: datetime | None = None
    polled: bool = False


@dataclass(frozen=True, slots=True)
class EventRow:
    """A stored event; `body` is null when it was over the cap."""

    org: OrgId
    id: str
    integration: IntegrationId
    native: str
    polled: bool
    received_at: datetime
    occurred_at: datetime | None
    oversize: bool
    tries: int
    body: bytes | None


async def store(tx: Tx, new: NewEvent) -> bool:
    """Stores a delivery with its body. Returns False when its key was stored before."""
    return (await store_batch(tx, [new]))[0]


async def store_batch(tx: Tx, new: Sequence[NewEvent]) -> list[bool]:
    """Stores deliveries of any organizations of the tenant context; stores one of several with equal keys."""
    ordered = sorted(new, key=lambda event: (event.org, event.integration, event.dedupe_key))
    rows: list[list[JsonValue]] = [
        [
            event.org,
            event.id,
            event.integration,
            event.dedupe_key,
            event.native,
            event.polled,
            None if event.occurred_at is None else ms(event.occurred_at),
            event.size,
            event.body is None,
        ]
        for event in ordered
    ]
    stored = await tx.all(_KEEP, {"rows": Json(rows)})
    ids = {row["id"] for row in stored}
    with_body = [
        (event, zlib.compress(event.body, _LEVEL)) for event in ordered if event.id in ids and event.body
    ]
    if with_body:
        await _store_bodies(tx, with_body)
    return [event.id in ids for event in new]


async def _store_bodies(tx: Tx, bodies: Sequence[tuple[NewEvent, bytes]]) -> None:
    if tx.dialect == "postgresql":
        columns: dict[str, object] = {
            "orgs": [event.org for event, _ in bodies],
            "ids": [event.id for event, _ in bodies],
            "bodies": [body for _, body in bodies],
        }
        await tx.execute(_KEEP_BODIES, columns)
        return
    for event, body in bodies:
        await tx.execute(_KEEP_BODIES, {"org": event.org, "id": event.id, "body": body})


async def due(tx: Tx, max_rows: int) -> list[tuple[OrgId, str]]:
    """Returns events of all organizations that wait to be matched, the longest waiting first."""
    rows = await tx.all(_DUE, {"most": max_rows, "test_now": tx.test_now})
    return [(OrgId(row["org_id"]), row["id"]) for row in rows]


async def read(tx: Tx, org: OrgId, events: Collection[str]) -> list[EventRow]:
    """Returns the events with these ids that are still new, with their bodies, in ascending order of id."""
    rows = await tx.all(
        f"SELECT {_COLUMNS}, b.body FROM events AS e"
        " LEFT JOIN event_bodies AS b ON b.org_id = e.org_id AND b.event_id = e.id"
        " WHERE e.org_id = :org AND e.id IN (:events) AND e.state = 'new' ORDER BY e.id",
        {"org": org, "events": list(events)},
    )
    return [_event_row(row) for row in rows]


async def lock(tx: Tx, org: OrgId, events: Collection[str]) -> set[str]:
    """Locks the events that are still new; leaves out those that another process is matching."""
    rows = await tx.all(
        "SELECT id FROM events WHERE org_id = :org AND id IN (:events) AND state = 'new'"
        " AND not_before <= {now} ORDER BY id {skip_locked}",
        {"org": org, "events": sorted(events)},
    )
    return {row["id"] for row in rows}


async def mark_matched(tx: Tx, org: OrgId, pointers: Mapping[str, JsonObject]) -> None:
    """Ends the matching of events; each keeps its pointer for the runs that it started."""
    rows: list[list[JsonValue]] = [
        [event, json.dumps(pointer, ensure_ascii=False)] for event, pointer in sorted(pointers.items())
    ]
    if rows and tx.dialect == "postgresql":
        await tx.execute(_MATCHED, {"org": org, "rows": Json(rows)})
        return
    for event, pointer in rows:
        await tx.execute(_MATCHED, {"org": org, "event": event, "pointer": pointer})


async def postpone(tx: Tx, org: OrgId, events: Collection[str], *, until: datetime) -> None:
    """Defers events without counting a failure."""
    await tx.execute(
        "UPDATE events SET not_before = :until WHERE org_id = :org AND id IN (:events) AND state = 'new'",
        {"org": org, "events": list(events), "until": until},
    )


async def record_failure(tx: Tx, org: OrgId, event: str) -> bool:
    """Counts a failure and defers the event for 1, 2, 4 … minutes. Returns whether it is now poison."""
    row = await tx.first(
        "SELECT tries FROM events WHERE org_id = :org AND id = :event AND state = 'new' {for_update}",
        {"org": org, "event": event},
    )
    if row is None:
        return False
    tries = int(row["tries"]) + 1
    is_poison = tries >= _FAILURES_TO_POISON
    minutes = min(2 ** (tries - 1), MAX_DEFERRED_MINUTES)
    await tx.execute(
        "UPDATE events SET tries = :tries, state = :state, not_before = :later"
        " WHERE org_id = :org AND id = :event",
        {
            "org": org,
            "event": event,
            "tries": tries,
            "state": "poison" if is_poison else "new",
            "later": tx.now + timedelta(minutes=minutes),
        },
    )
    return is_poison


async def content_for_run(
    tx: Tx, org: OrgId, event: str, *, with_body: bool
) -> tuple[JsonObject, bytes | None]:
    """Returns what a run of the event receives: its pointer and, on request, its body if it still exists."""
    row = await tx.first(
        "SELECT pointer FROM events WHERE org_id = :org AND id = :event", {"org": org, "event": event}
    )
    pointer: JsonObject = json.loads(row["pointer"]) if row is not None and row["pointer"] else {}
    if not with_body:
        return pointer, None
    body_row = await tx.first(
        "SELECT body FROM event_bodies WHERE org_id = :org AND event_id = :event",
        {"org": org, "event": event},
    )
    return pointer, None if body_row is None else zlib.decompress(bytes(body_row["body"]))


def _event_row(row: Row) -> EventRow:
    body = row["body"]
    return EventRow(
        org=OrgId(row["org_id"]),
        id=row["id"],
        integration=IntegrationId(row["integration_id"]),
        native=row["topic"],
        polled=bool(row["polled"]),
        received_at=from_ms(row["received_at"]),
        occurred_at=from_ms_or_none(row["occurred_at"]),
        oversize=bool(row["oversize"]),
        tries=row["tries"],
        body=None if row["oversize"] else b"" if body is None else zlib.decompress(bytes(body)),
    )
