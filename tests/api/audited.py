"""Reads the audit log of an organisation, which no endpoint answers."""

from steward.database.engine.base import Tx
from steward.model.ids import OrgId
from tests.service import Service


async def actions(service: Service, org: OrgId) -> list[tuple[str, str | None, str | None]]:
    """What people did, in order: the action, who, and to which object; sign-ins left out."""

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
