"""The append-only log of who changed accounts, keys and connections.

Each entry carries its own hash and the hash of the entry before; docs/design/audit.md describes the form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from steward.database.accounts import audit_heads
from steward.database.engine.base import Json, Row, Tx, ms, to_column
from steward.model.account import Actor
from steward.model.audit import ACTIONS, ActorKind, ChainedEntry
from steward.model.ids import OrgId, first_id, new_id
from steward.model.json import JsonObject

_COLUMNS = "seq, id, at, actor_kind, actor, action, object_kind, object_id, detail, hash"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the audit log; `detail` never holds a secret, a name or a person's text."""

    actor_kind: ActorKind
    action: str
    actor: str | None = None
    object_kind: str | None = None
    object_id: str | None = None
    detail: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """The filter of a list of audit entries; None matches all."""

    since: datetime | None = None
    until: datetime | None = None
    actor: str | None = None
    action: str | None = None
    object_kind: str | None = None
    object_id: str | None = None


async def record(tx: Tx, org: OrgId, entry: AuditEntry) -> None:
    """Appends an entry to the organization's chain and moves its head.

    The head stays locked until the commit. Raises LookupError for an action that is not in ACTIONS.
    """
    if entry.action not in ACTIONS:
        raise LookupError(f"{entry.action} is not an action of steward/model/audit.py")
    head = await audit_heads.lock(tx, org)
    chained = ChainedEntry(
        org=org,
        seq=head.seq + 1,
        id=new_id(tx.now),
        at=ms(tx.now),
        actor_kind=entry.actor_kind,
        actor=entry.actor,
        action=entry.action,
        object_kind=entry.object_kind,
        object_id=entry.object_id,
        detail=str(to_column(Json(entry.detail), tx.dialect)),
    )
    chained = replace(chained, hash=chained.hash_after(head.hash))
    await tx.execute(
        f"INSERT INTO audit_log (org_id, {_COLUMNS}) VALUES (:org, :seq, :id, :at, :actor_kind, :actor,"
        " :action, :object_kind, :object_id, :detail, :hash)",
        {
            "org": org,
            "seq": chained.seq,
            "id": chained.id,
            "at": chained.at,
            "actor_kind": chained.actor_kind,
            "actor": chained.actor,
            "action": chained.action,
            "object_kind": chained.object_kind,
            "object_id": chained.object_id,
            "detail": chained.detail,
            "hash": chained.hash,
        },
    )
    await audit_heads.move(tx, org, seq=chained.seq, entry_hash=chained.hash)


async def count_since(tx: Tx, org: OrgId, action: str, since: datetime) -> int:
    """Counts how often an action was recorded since an instant."""
    row = await tx.first(
        "SELECT count(*) AS n FROM audit_log WHERE org_id = :org AND id >= :border AND action = :action",
        {"org": org, "border": first_id(since), "action": action},
    )
    return 0 if row is None else int(row["n"])


async def by_person(
    tx: Tx, actor: Actor, action: str, *, object_kind: str, object_id: str, detail: JsonObject | None = None
) -> None:
    """Records the action of a person in the organization that they act for."""
    entry = AuditEntry("person", action, str(actor.person), object_kind, object_id, detail or {})
    await record(tx, actor.org, entry)


async def after(tx: Tx, org: OrgId, seq: int, *, limit: int) -> list[ChainedEntry]:
    """Returns the entries after `seq`, oldest first."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM audit_log WHERE org_id = :org AND seq > :seq ORDER BY seq, id LIMIT :limit",
        {"org": org, "seq": seq, "limit": limit},
    )
    return [_entry(org, row) for row in rows]


async def find(
    tx: Tx, org: OrgId, chosen: AuditFilter, *, before: tuple[int, int] | None, limit: int
) -> list[ChainedEntry]:
    """Returns matching entries, newest first, before the entry with this time and number."""
    conditions, args = _conditions(chosen)
    if before is not None:
        conditions += " AND (at, seq) < (:before_at, :before_seq)"
        args |= {"before_at": before[0], "before_seq": before[1]}
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM audit_log WHERE org_id = :org{conditions}"
        " ORDER BY at DESC, seq DESC LIMIT :limit",
        {**args, "org": org, "limit": limit},
    )
    return [_entry(org, row) for row in rows]


async def bounds(tx: Tx, org: OrgId, *, since: datetime | None, until: datetime | None) -> tuple[int, int]:
    """Returns the first and the last entry of a period; (1, 0) when there is none."""
    conditions, args = _conditions(AuditFilter(since=since, until=until))
    statement = (
        "SELECT (SELECT min(seq) FROM audit_log WHERE org_id = :org) AS first,"
        " (SELECT max(seq) FROM audit_log WHERE org_id = :org) AS last"
    )
    if conditions:  # `+ 0`: otherwise SQLite searches the index of numbers
        statement = (
            "SELECT min(seq + 0) AS first, max(seq + 0) AS last FROM audit_log"
            f" WHERE org_id = :org{conditions}"
        )
    row = await tx.first(statement, {**args, "org": org})
    return (1, 0) if row is None or row["first"] is None else (row["first"], row["last"])


async def hash_of(tx: Tx, org: OrgId, seq: int) -> str | None:
    """Returns the stored hash of an entry; None when there is none."""
    row = await tx.first(
        "SELECT hash FROM audit_log WHERE org_id = :org AND seq = :seq ORDER BY id LIMIT 1",
        {"org": org, "seq": seq},
    )
    return None if row is None else str(row["hash"])


def _conditions(chosen: AuditFilter) -> tuple[str, dict[str, object]]:
    """Returns the conditions of a WHERE clause after the organization, and their arguments."""
    conditions: list[str] = []
    args: dict[str, object] = {}
    if chosen.since is not None:
        conditions.append("at >= :since")
        args["since"] = ms(chosen.since)
    if chosen.until is not None:
        conditions.append("at < :until")
        args["until"] = ms(chosen.until)
    equal: Mapping[str, str | None] = {
        "actor": chosen.actor,
        "action": chosen.action,
        "object_kind": chosen.object_kind,
        "object_id": chosen.object_id,
    }
    for column, value in equal.items():
        if value is not None:
            conditions.append(f"{column} = :{column}")
            args[column] = value
    return "".join(f" AND {condition}" for condition in conditions), args


def _entry(org: OrgId, row: Row) -> ChainedEntry:
    return ChainedEntry(org=org, **{name: row[name] for name in _COLUMNS.split(", ")})
