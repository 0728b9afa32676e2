"""Mails with a link that works once, while they wait to be delivered."""

from dataclasses import dataclass

from steward.database.engine.base import Tx
from steward.model.ids import MessageId, OrgId, PersonId


@dataclass(frozen=True, slots=True)
class SealedMail:
    """The sealed content of an account mail that still waits."""

    id: MessageId
    key_no: int
    sealed: bytes


async def withdraw(tx: Tx, org: OrgId, person: PersonId) -> int:
    """Makes a person's waiting mails with a link obsolete and erases their content. Returns their number.

    The link was used or withdrawn. Mails of an account without a link have no end (`expires_at`) and are
    still sent.
    """
    return await tx.execute(
        "UPDATE messages SET state = 'obsolete', lease_until = NULL, next_try_at = NULL, sealed = NULL,"
        " sealed_key = NULL WHERE org_id = :org AND person_id = :person AND route_id = ''"
        " AND channel = 'email' AND kind = 'transactional' AND expires_at IS NOT NULL"
        " AND next_try_at IS NOT NULL",
        {"org": org, "person": person},
    )


async def sealed_under_others(tx: Tx, org: OrgId, number: int) -> list[SealedMail]:
    """Returns the waiting mails that are sealed under a data key other than `number`."""
    rows = await tx.all(
        "SELECT id, sealed_key, sealed FROM messages WHERE org_id = :org AND next_try_at IS NOT NULL"
        " AND kind = 'transactional' AND sealed_key <> :number ORDER BY id",
        {"org": org, "number": number},
    )
    return [SealedMail(MessageId(row["id"]), row["sealed_key"], bytes(row["sealed"])) for row in rows]


async def reseal(tx: Tx, org: OrgId, mail: SealedMail, *, key_no: int, sealed: bytes) -> int:
    """Stores resealed content; returns 0 when it was erased or resealed since."""
    return await tx.execute(
        "UPDATE messages SET sealed = :sealed, sealed_key = :key_no"
        " WHERE org_id = :org AND id = :id AND sealed_key = :before",
        {"org": org, "id": mail.id, "sealed": sealed, "key_no": key_no, "before": mail.key_no},
    )
