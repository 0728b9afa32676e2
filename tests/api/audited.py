"""Reads the audit log of an organization straight from its table."""

from steward.database.engine.base import Tx
from steward.model.ids import OrgId
from tests.service import Service


async def actions(service: Service, org: OrgId) -> list[tuple[str, str | None, str | None]]:
    """Returns action, actor and object id of every entry by a person in order, without sign-ins."""

    async def act(tx: Tx) -> list[tuple[str, str | None, str | None]]:
        rows = await tx.all(
            "SELECT action, actor, object_id FROM audit_log"
            " WHERE org_id = :org AND actor_kind = 'person' AND action <> 'signed_in' ORDER BY seq",
            {"org": org},
        )
        return [(row["action"], row["actor"], row["object_id"]) for row in rows]

    entries: list[tuple[str, str | None, str | None]] = await service.context.engine.read(
        service.clock.now(), act, org=org
    )
    return entries
