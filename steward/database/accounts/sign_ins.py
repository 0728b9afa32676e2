"""Stores sign-ins in progress by the hash of their state; connections/sign_in.py knows their purpose."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Tx
from steward.model.ids import IntegrationId, OrgId


@dataclass(frozen=True, slots=True)
class SignIn:
    """A sign-in in progress: its session and organization, for a new connection or an existing one."""

    session_hash: str
    org: OrgId
    integration: IntegrationId | None
    kind: str
    name: str
    key_no: int
    verifier: bytes


async def insert(tx: Tx, org: OrgId, state_hash: str, *, sign_in: SignIn, expires_at: datetime) -> None:
    """Stores a new sign-in and deletes the expired ones."""
    await tx.execute("DELETE FROM sign_in_states WHERE expires_at <= {now}", {})
    await tx.execute(
        "INSERT INTO sign_in_states"
        " (state_hash, session_hash, org_id, integration_id, kind, name, key_no, verifier_enc, expires_at)"
        " VALUES (:state, :session, :org, :integration, :kind, :name, :key_no, :verifier, :expires_at)",
        {
            "state": state_hash,
            "session": sign_in.session_hash,
            "org": org,
            "integration": sign_in.integration,
            "kind": sign_in.kind,
            "name": sign_in.name,
            "key_no": sign_in.key_no,
            "verifier": sign_in.verifier,
            "expires_at": expires_at,
        },
    )


async def take(tx: Tx, org: OrgId, state_hash: str) -> SignIn | None:
    """Deletes and returns the sign-in of a state.

    Returns None if it is unknown, used, expired or another organization's.
    """
    row = await tx.first(
        "DELETE FROM sign_in_states WHERE org_id = :org AND state_hash = :state AND expires_at > {now}"
        " RETURNING session_hash, integration_id, kind, name, key_no, verifier_enc",
        {"org": org, "state": state_hash},
    )
    if row is None:
        return None
    number = row["integration_id"]
    return SignIn(
        row["session_hash"],
        org,
        None if number is None else IntegrationId(number),
        row["kind"],
        row["name"],
        row["key_no"],
        bytes(row["verifier_enc"]),
    )
