"""Imports as rows: stored whole without secrets, once per source and content, with the content sealed."""

import json
import zlib
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Row, Tx, from_ms
from steward.model.account import CreatedVia, Creator
from steward.model.ids import OrgId, PersonId
from steward.model.json import JsonObject
from steward.model.refusals import NotFound

_SHORT = (
    "id, source, name, sha256, bytes, supported, report, created_at, created_by, created_via, api_client_id"
)


@dataclass(frozen=True, slots=True)
class Import:
    """A stored export; `report` holds what a list shows: issues, needs, step_count, trigger."""

    org: OrgId
    id: str
    source: str
    name: str
    sha256: str
    bytes: int
    supported: bool
    report: JsonObject
    created_at: datetime
    maker: Creator
    plan: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class SealedContent:
    """The content of an import as stored, sealed under the data key of this number."""

    key_no: int
    sealed: bytes


async def insert(tx: Tx, stored_import: Import, *, content: SealedContent, plan: JsonObject) -> bool:
    """Inserts an import; returns False when equal content of its source exists already."""
    done = await tx.execute(
        f"INSERT INTO imports (org_id, {_SHORT}, content, content_key, plan)"
        " VALUES (:org, :id, :source, :name, :sha256, :bytes, :supported, :report, :created, :person, :via,"
        " :client, :content, :content_key, :plan) ON CONFLICT (org_id, source, sha256) DO NOTHING",
        {
            "org": stored_import.org,
            "id": stored_import.id,
            "source": stored_import.source,
            "name": stored_import.name,
            "sha256": stored_import.sha256,
            "bytes": stored_import.bytes,
            "supported": int(stored_import.supported),
            "report": json.dumps(stored_import.report, ensure_ascii=False),
            "created": stored_import.created_at,
            "person": stored_import.maker.created_by,
            "via": stored_import.maker.created_via,
            "client": stored_import.maker.api_client_id,
            "content": content.sealed,
            "content_key": content.key_no,
            "plan": packed(json.dumps(plan, ensure_ascii=False)),
        },
    )
    return done == 1


async def by_content(tx: Tx, org: OrgId, source: str, sha256: str) -> Import | None:
    """Returns the import with the same content and its plan, or None."""
    row = await tx.first(
        f"SELECT {_SHORT}, plan FROM imports WHERE org_id = :org AND source = :source AND sha256 = :sha256",
        {"org": org, "source": source, "sha256": sha256},
    )
    return None if row is None else _of(org, row, with_plan=True)


async def get(tx: Tx, org: OrgId, import_id: str) -> Import:
    """Returns an import with its plan. Raises NotFound."""
    row = await tx.first(
        f"SELECT {_SHORT}, plan FROM imports WHERE org_id = :org AND id = :id", {"org": org, "id": import_id}
    )
    if row is None:
        raise NotFound
    return _of(org, row, with_plan=True)


async def sealed_content(tx: Tx, org: OrgId, import_id: str) -> SealedContent | None:
    """Returns the sealed export, which holds no secrets; None when it was deleted."""
    row = await tx.first(
        "SELECT content, content_key FROM imports WHERE org_id = :org AND id = :id",
        {"org": org, "id": import_id},
    )
    return None if row is None else SealedContent(row["content_key"], bytes(row["content"]))


async def sealed_under_others(tx: Tx, org: OrgId, number: int) -> list[str]:
    """Returns the imports whose content is sealed with a data key other than `number`."""
    rows = await tx.all(
        "SELECT id FROM imports WHERE org_id = :org AND content_key <> :number ORDER BY id",
        {"org": org, "number": number},
    )
    return [row["id"] for row in rows]


async def reseal(tx: Tx, org: OrgId, import_id: str, *, before: int, after: SealedContent) -> int:
    """Stores resealed content; returns 0 when it is no longer sealed under data key `before`."""
    return await tx.execute(
        "UPDATE imports SET content = :content, content_key = :key"
        " WHERE org_id = :org AND id = :id AND content_key = :before",
        {"org": org, "id": import_id, "content": after.sealed, "key": after.key_no, "before": before},
    )


async def count(tx: Tx, org: OrgId) -> int:
    """Counts the imports of an organization."""
    row = await tx.first("SELECT count(*) AS kept FROM imports WHERE org_id = :org", {"org": org})
    return 0 if row is None else int(row["kept"])


async def listed(
    tx: Tx,
    org: OrgId,
    *,
    source: str | None,
    supported: bool | None,
    after: tuple[int, str] | None,
    limit: int,
) -> list[Import]:
    """Returns imports without plans, newest first, after the (created_at in ms, id) of `after`."""
    when = "" if source is None else " AND source = :source"
    when += "" if supported is None else " AND supported = :supported"
    when += "" if after is None else " AND (created_at, id) < (:at, :after)"
    rows = await tx.all(
        f"SELECT {_SHORT} FROM imports WHERE org_id = :org{when}"
        " ORDER BY created_at DESC, id DESC LIMIT :limit",
        {
            "org": org,
            "limit": limit,
            **({} if source is None else {"source": source}),
            **({} if supported is None else {"supported": int(supported)}),
            **({} if after is None else {"at": after[0], "after": after[1]}),
        },
    )
    return [_of(org, row) for row in rows]


async def delete(tx: Tx, org: OrgId, import_id: str) -> int:
    """Deletes an import; automations created from it keep their own plan."""
    return await tx.execute(
        "DELETE FROM imports WHERE org_id = :org AND id = :id", {"org": org, "id": import_id}
    )


def _of(org: OrgId, row: Row, *, with_plan: bool = False) -> Import:
    return Import(
        org=org,
        id=row["id"],
        source=row["source"],
        name=row["name"],
        sha256=row["sha256"],
        bytes=row["bytes"],
        supported=bool(row["supported"]),
        report=json.loads(row["report"]),
        created_at=from_ms(row["created_at"]),
        maker=Creator(
            None if row["created_by"] is None else PersonId(row["created_by"]),
            None if row["created_via"] is None else CreatedVia(row["created_via"]),
            row["api_client_id"],
        ),
        plan=json.loads(_unpacked(row["plan"])) if with_plan else None,
    )


def packed(text: str) -> bytes:
    """Returns a text in its stored, compressed form."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 6)


def _unpacked(packed: bytes) -> str:
    return zlib.decompress(packed).decode("utf-8", "surrogatepass")
