"""The last state of a store's objects, from which connectors derive topics."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from steward.database.engine.base import Json, PerEngine, Tx, from_ms_or_none, ms
from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonObject

_PUT_HEAD = (
    "INSERT INTO last_seen"
    " (org_id, integration_id, object_type, object_id, fields, modified_at, delivered, seen_at)"
)
_CONFLICT = (
    " ON CONFLICT (org_id, integration_id, object_type, object_id) DO UPDATE SET fields = excluded.fields,"
    " modified_at = excluded.modified_at, seen_at = excluded.seen_at"
)
_PUT_TAIL = _CONFLICT + ", delivered = excluded.delivered"
# An initial fill never overwrites a newer state from an event.
_FILL_TAIL = (
    _CONFLICT + " WHERE last_seen.modified_at IS NULL OR excluded.modified_at > last_seen.modified_at"
)
_PUT_ROWS = PerEngine(
    _PUT_HEAD + " SELECT :org, :integration, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3,"
    " r.value ->> 4, :now FROM json_each(:rows) AS r WHERE true",
    _PUT_HEAD + " SELECT :org, :integration, r.value ->> 0, r.value ->> 1, r.value ->> 2,"
    " (r.value ->> 3)::bigint, r.value ->> 4, :now FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r",
)
_PUT = PerEngine(_PUT_ROWS.sqlite + _PUT_TAIL, _PUT_ROWS.postgresql + _PUT_TAIL)
_FILL = PerEngine(_PUT_ROWS.sqlite + _FILL_TAIL, _PUT_ROWS.postgresql + _FILL_TAIL)


@dataclass(frozen=True, slots=True)
class ReportedTimes:
    """The newest modification times with which deliveries and catch-up reported a topic of an object."""

    delivered: datetime | None = None
    polled: datetime | None = None


@dataclass(frozen=True, slots=True)
class ObjectSnapshot:
    """The last state of an object; `fields` is at most 2 KiB of JSON; `reported` is by topic."""

    object_type: str
    object_id: str
    fields: JsonObject
    modified_at: datetime | None
    reported: Mapping[str, ReportedTimes] = field(default_factory=dict)


Key = tuple[str, str]


async def of(
    tx: Tx, org: OrgId, integration: IntegrationId, keys: Collection[Key]
) -> dict[Key, ObjectSnapshot]:
    """Returns the snapshots of these objects by type and id; unknown objects are absent."""
    rows = await tx.all(
        "SELECT object_type, object_id, fields, modified_at, delivered FROM last_seen"
        " WHERE org_id = :org AND integration_id = :integration"
        " AND object_type IN (:types) AND object_id IN (:ids)",
        {
            "org": org,
            "integration": integration,
            "types": sorted({kind for kind, _ in keys}),
            "ids": sorted({object_id for _, object_id in keys}),
        },
    )
    return {
        (row["object_type"], row["object_id"]): ObjectSnapshot(
            row["object_type"],
            row["object_id"],
            json.loads(row["fields"]),
            from_ms_or_none(row["modified_at"]),
            {
                topic: ReportedTimes(from_ms_or_none(delivered), from_ms_or_none(polled))
                for topic, (delivered, polled) in json.loads(row["delivered"]).items()
            },
        )
        for row in rows
    }


async def put(tx: Tx, org: OrgId, integration: IntegrationId, seen: Sequence[ObjectSnapshot]) -> None:
    """Stores the newest state of objects, of which none occurs twice."""
    await tx.execute(_PUT, _args(org, integration, seen))


async def fill(tx: Tx, org: OrgId, integration: IntegrationId, seen: Sequence[ObjectSnapshot]) -> None:
    """Stores states as `put` does, but keeps newer ones."""
    await tx.execute(_FILL, _args(org, integration, seen))


async def forget(tx: Tx, org: OrgId, integration: IntegrationId, keys: Collection[Key]) -> None:
    """Removes the snapshots of deleted objects."""
    for kind, object_id in sorted(keys):
        await tx.execute(
            "DELETE FROM last_seen WHERE org_id = :org AND integration_id = :integration"
            " AND object_type = :kind AND object_id = :id",
            {"org": org, "integration": integration, "kind": kind, "id": object_id},
        )


async def ids(tx: Tx, org: OrgId, integration: IntegrationId, object_type: str) -> set[str]:
    """Returns the ids of all known objects of a type."""
    rows = await tx.all(
        "SELECT object_id FROM last_seen"
        " WHERE org_id = :org AND integration_id = :integration AND object_type = :kind",
        {"org": org, "integration": integration, "kind": object_type},
    )
    return {row["object_id"] for row in rows}


async def forget_store(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Removes all snapshots of a store."""
    await tx.execute(
        "DELETE FROM last_seen WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )


def _args(org: OrgId, integration: IntegrationId, seen: Sequence[ObjectSnapshot]) -> dict[str, object]:
    rows = [
        [
            snapshot.object_type,
            snapshot.object_id,
            json.dumps(snapshot.fields, ensure_ascii=False, separators=(",", ":")),
            _ms(snapshot.modified_at),
            json.dumps(
                {
                    topic: [_ms(times.delivered), _ms(times.polled)]
                    for topic, times in snapshot.reported.items()
                }
            ),
        ]
        for snapshot in sorted(seen, key=lambda snapshot: (snapshot.object_type, snapshot.object_id))
    ]
    return {"org": org, "integration": integration, "rows": Json(rows)}


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else ms(instant)
