"""Event addresses, found by the hash of their key before the organization is known."""

import hashlib

from steward.database.engine.base import Tx
from steward.model.ids import IntegrationId, OrgId


def hashed(key: str) -> str:
    """Returns the hash by which a key is looked up and named in logs."""
    return hashlib.sha256(key.encode("utf-8")).hexdigest()


async def find(tx: Tx, key: str) -> tuple[OrgId, IntegrationId] | None:
    """Returns the connection whose event address has this key; None for an unknown or removed address."""
    row = await tx.first(
        "SELECT org_id, integration_id FROM dir_endpoints WHERE endpoint_key_hash = :hash",
        {"hash": hashed(key)},
    )
    return (OrgId(row["org_id"]), IntegrationId(row["integration_id"])) if row else None


async def open_for(tx: Tx, org: OrgId, integration: IntegrationId, key: str) -> None:
    """Opens a store's address under a new key and closes its former addresses."""
    await close(tx, org, integration)
    await tx.execute(
        "INSERT INTO dir_endpoints (endpoint_key_hash, org_id, integration_id)"
        " VALUES (:hash, :org, :integration)",
        {"hash": hashed(key), "org": org, "integration": integration},
    )


async def close(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Closes a store's address: later deliveries are not found."""
    await tx.execute(
        "DELETE FROM dir_endpoints WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )
