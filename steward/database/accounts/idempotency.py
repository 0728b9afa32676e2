"""Idempotency keys: a key belongs to one object for as long as the object exists."""

from dataclasses import dataclass

from steward.database.engine.base import Tx
from steward.model.ids import AutomationId, OrgId


@dataclass(frozen=True, slots=True)
class StoredKey:
    """The object that an idempotency key belongs to."""

    object_id: str
    automation_id: AutomationId | None
    request_sha256: str


async def find(tx: Tx, org: OrgId, kind: str, *, key: str) -> StoredKey | None:
    """Returns the object that `key` of `kind` ("run" or "automation") belongs to in this organization."""
    row = await tx.first(
        "SELECT object_id, automation_id, request_sha256 FROM idempotency_keys"
        " WHERE org_id = :org AND kind = :kind AND key = :key",
        {"org": org, "kind": kind, "key": key},
    )
    return StoredKey(row["object_id"], row["automation_id"], row["request_sha256"]) if row else None


async def store(
    tx: Tx,
    org: OrgId,
    kind: str,
    *,
    key: str,
    object_id: str,
    automation: AutomationId | None,
    request_sha256: str,
) -> bool:
    """Stores the object that `key` belongs to. Returns False when another request stored the key first."""
    touched = await tx.execute(
        "INSERT INTO idempotency_keys (org_id, kind, key, automation_id, object_id, request_sha256,"
        " created_at)"
        " VALUES (:org, :kind, :key, :automation, :object_id, :request, :now)"
        " ON CONFLICT (org_id, kind, key) DO NOTHING",
        {
            "org": org,
            "kind": kind,
            "key": key,
            "automation": automation,
            "object_id": object_id,
            "request": request_sha256,
        },
    )
    return touched == 1
