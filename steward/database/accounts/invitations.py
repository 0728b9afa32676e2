"""Invitations by the hash of their link's token; accounts/ decides who may invite and accept."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Tx
from steward.model.ids import OrgId, PersonId


@dataclass(frozen=True, slots=True)
class Invitation:
    """An open invitation: the invited person and the organization."""

    org: OrgId
    person: PersonId


async def insert(
    tx: Tx,
    token_hash: str,
    org: OrgId,
    *,
    person: PersonId,
    created_by: PersonId | None,
    expires_at: datetime,
) -> None:
    """Inserts an invitation; `created_by` is None for the operator's."""
    await tx.execute(
        "INSERT INTO invitations (token_hash, org_id, person_id, created_by, created_at, expires_at)"
        " VALUES (:token_hash, :org, :person, :created_by, :now, :expires_at)",
        {
            "token_hash": token_hash,
            "org": org,
            "person": person,
            "created_by": created_by,
            "expires_at": expires_at,
        },
    )


async def withdraw(tx: Tx, org: OrgId, person: PersonId) -> int:
    """Ends a person's open and expired invitations to one organization. Returns their number."""
    return await tx.execute(
        "DELETE FROM invitations WHERE org_id = :org AND person_id = :person AND used_at IS NULL",
        {"org": org, "person": person},
    )


async def hand_over(tx: Tx, org: OrgId, *, invited: PersonId, account: PersonId) -> None:
    """Moves the invitations of an invited person to the account that they have."""
    await tx.execute(
        "UPDATE invitations SET person_id = :account WHERE org_id = :org AND person_id = :invited",
        {"org": org, "invited": invited, "account": account},
    )


async def by_token(tx: Tx, token_hash: str) -> Invitation | None:
    """Returns the invitation of a link; None when it is unknown, used or expired."""
    row = await tx.first(
        "SELECT org_id, person_id FROM invitations"
        " WHERE token_hash = :token_hash AND used_at IS NULL AND expires_at > {now}",
        {"token_hash": token_hash},
    )
    return None if row is None else Invitation(OrgId(row["org_id"]), PersonId(row["person_id"]))


async def use(tx: Tx, token_hash: str) -> bool:
    """Marks an invitation used. Returns False when it was used or withdrawn, or has expired."""
    touched = await tx.execute(
        "UPDATE invitations SET used_at = :now"
        " WHERE token_hash = :token_hash AND used_at IS NULL AND expires_at > {now}",
        {"token_hash": token_hash},
    )
    return touched == 1
