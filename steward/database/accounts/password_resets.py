"""Links that set a new password, by the hash of their token; accounts/ decides who gets one."""

from datetime import datetime

from steward.database.engine.base import Tx
from steward.model.ids import PersonId


async def insert(tx: Tx, token_hash: str, person: PersonId, *, expires_at: datetime) -> None:
    """Stores a link for an active account, and for no other; deletes expired links."""
    await tx.execute("DELETE FROM password_resets WHERE expires_at <= {now}")
    await tx.execute(
        "INSERT INTO password_resets (token_hash, person_id, created_at, expires_at)"
        " SELECT :token_hash, person_id, :now, :expires_at FROM people"
        " WHERE person_id = :person AND active AND NOT unclaimed",
        {"token_hash": token_hash, "person": person, "expires_at": expires_at},
    )


async def by_token(tx: Tx, token_hash: str) -> PersonId | None:
    """Returns the person of a link; None when it is unknown, used or expired."""
    row = await tx.first(
        "SELECT person_id FROM password_resets"
        " WHERE token_hash = :token_hash AND used_at IS NULL AND expires_at > {now}",
        {"token_hash": token_hash},
    )
    return None if row is None else PersonId(row["person_id"])


async def use(tx: Tx, token_hash: str, person: PersonId) -> bool:
    """Marks a link used and ends the person's other links; returns False when it was used or has expired."""
    touched = await tx.execute(
        "UPDATE password_resets SET used_at = :now"
        " WHERE token_hash = :token_hash AND person_id = :person AND used_at IS NULL AND expires_at > {now}",
        {"token_hash": token_hash, "person": person},
    )
    if touched == 1:
        await _end_of_person(tx, person)
    return touched == 1


async def _end_of_person(tx: Tx, person: PersonId) -> int:
    """Ends the open links of a person."""
    return await tx.execute(
        "DELETE FROM password_resets WHERE person_id = :person AND used_at IS NULL", {"person": person}
    )
