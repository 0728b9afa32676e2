"""What was last seen of a store's objects, to derive topics from; what it means is the connector's."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from steward.database.engine.base import Both, Json, Tx, from_ms_or_none, ms
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
# A first fill never undoes what an event told meanwhile, and tells nobody anything.
_FILL_TAIL = (
    _CONFLICT + " WHERE last_seen.modified_at IS NULL OR excluded.modified_at > last_seen.modified_at"
)
_PUT_ROWS = Both(
    _PUT_HEAD + " SELECT :org, :integration, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3,"
    " r.value ->> 4, :now FROM json_each(:rows) AS r WHERE true",
    _PUT_HEAD + " SELECT :org, :integration, r.value ->> 0, r.value ->> 1, r.value ->> 2,"
    " (r.value ->> 3)::bigint, r.value ->> 4, :now FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r",
)
_PUT = Both(_PUT_ROWS.sqlite + _PUT_TAIL, _PUT_ROWS.postgresql + _PUT_TAIL)
_FILL = Both(_PUT_ROWS.sqlite + _FILL_TAIL, _PUT_ROWS.postgresql + _FILL_TAIL)


@dataclass(frozen=True, slots=True)
class Told:
    """The newest modified time of an object that deliveries, and catch-up, told a topic with."""

    delivered: datetime | None = None
    polled: datetime | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of an object as its newest event tells it; `fields` ≤ 2 KiB of JSON; `told` by topic."""

    object_type: str
    object_id: str
    fields: JsonObject
    modified_at: datetime | None
    told: Mapping[str, Told] = field(default_factory=dict)


Key = tuple[str, str]


async def of(tx: Tx, org: OrgId, integration: IntegrationId, keys: Collection[Key]) -> dict[Key, Seen]:
    """What was last seen of these objects (type and id); those never seen are absent."""
    rows = await tx.all(
        "SELECT object_type, object_id, fields, modified_at, delivered FROM last_seen"
        " WHERE org_id = :org AND integration_id = :integration"
        " AND object_type IN (:types) AND object_id IN (:ids)",
        {
            "org": org,
            "integration": integration,
            "types": sorted({kind for kind, _ in keys}),
            "ids": sorted({one for _, one in keys}),
        },
    )
    return {
        (row["object_type"], row["object_id"]): Seen(
            row["object_type"],
            row["object_id"],
            json.loads(row["fields"]),
            from_ms_or_none(row["modified_at"]),
            {
                topic: Told(from_ms_or_none(delivered), from_ms_or_none(polled))
                for topic, (delivered, polled) in json.loads(row["delivered"]).items()
            },
        )
        for row in rows
    }


async def put(tx: Tx, org: OrgId, integration: IntegrationId, seen: Sequence[Seen]) -> None:
    """Keeps the newest state of objects, each named once."""
    await tx.execute(_PUT, _args(org, integration, seen))


async def fill(tx: Tx, org: OrgId, integration: IntegrationId, seen: Sequence[Seen]) -> None:
    """As `put`, but leaves what is newer."""
    await tx.execute(_FILL, _args(org, integration, seen))


async def forget(tx: Tx, org: OrgId, integration: IntegrationId, keys: Collection[Key]) -> None:
    """The objects are gone."""
    for kind, one in sorted(keys):
        await tx.execute(
            "DELETE FROM last_seen WHERE org_id = :org AND integration_id = :integration"
            " AND object_type = :kind AND object_id = :id",
            {"org": org, "integration": integration, "kind": kind, "id": one},
        )


async def ids(tx: Tx, org: OrgId, integration: IntegrationId, object_type: str) -> set[str]:
    """The ids of every object of a type that is known."""
    rows = await tx.all(
        "SELECT object_id FROM last_seen"
        " WHERE org_id = :org AND integration_id = :integration AND object_type = :kind",
        {"org": org, "integration": integration, "kind": object_type},
    )
    return {row["object_id"] for row in rows}


async def forget_store(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Nothing of a store is known any more: it is no longer listened to."""
    await tx.execute(
        "DELETE FROM last_seen WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )


def _args(org: OrgId, integration: IntegrationId, seen: Sequence[Seen]) -> dict[str, object]:
    rows = [
        [
            one.object_type,
            one.object_id,
            json.dumps(one.fields, ensure_ascii=False, separators=(",", ":")),
            _ms(one.modified_at),
            json.dumps({topic: [_ms(told.delivered), _ms(told.polled)] for topic, told in one.told.items()}),
        ]
        for one in sorted(seen, key=lambda one: (one.object_type, one.object_id))
    ]
    return {"org": org, "integration": integration, "rows": Json(rows)}


def _ms(instant: datetime | None) -> int | None:
    return None if instant is None else ms(instant)
