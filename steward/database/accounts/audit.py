"""The append-only record of who did what to accounts, keys and connections."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from steward.database.engine.base import Json, Tx
from steward.model.account import Actor
from steward.model.ids import OrgId, first_id, new_id
from steward.model.json import JsonObject

ActorKind = Literal["person", "credential", "service", "operator"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the record; `detail` never holds a secret."""

    actor_kind: ActorKind
    action: str
    actor: str | None = None
    object_kind: str | None = None
    object_id: str | None = None
    detail: JsonObject = field(default_factory=dict)


async def record(tx: Tx, org: OrgId, entry: Entry) -> None:
    """Writes one line."""
    await tx.execute(
        "INSERT INTO audit_log (org_id, id, at, actor_kind, actor, action, object_kind, object_id, detail)"
        " VALUES (:org, :id, :now, :actor_kind, :actor, :action, :object_kind, :object_id, :detail)",
        {
            "org": org,
            "id": new_id(tx.now),
            "actor_kind": entry.actor_kind,
            "actor": entry.actor,
            "action": entry.action,
            "object_kind": entry.object_kind,
            "object_id": entry.object_id,
            "detail": Json(entry.detail),
        },
    )


async def count_since(tx: Tx, org: OrgId, action: str, since: datetime) -> int:
    """Returns how often something was done since an instant."""
    row = await tx.first(
        "SELECT count(*) AS n FROM audit_log WHERE org_id = :org AND id >= :border AND action = :action",
        {"org": org, "border": first_id(since), "action": action},
    )
    return 0 if row is None else int(row["n"])


async def by_person(
    tx: Tx, actor: Actor, action: str, *, object_kind: str, object_id: str, detail: JsonObject | None = None
) -> None:
    """Writes what a person did, inside the organisation they act in."""
    entry = Entry("person", action, str(actor.person), object_kind, object_id, detail or {})
    await record(tx, actor.org, entry)
