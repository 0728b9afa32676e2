"""The audit log of an organization, for its owners: pages, and files for auditors."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, Field

from steward.accounts import audit
from steward.accounts.audit import Export, NamedEntry
from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import (
    CursorText,
    PageQuery,
    QueryParameters,
    QueryPositive,
    Text,
    Timestamp,
    field_error,
)
from steward.database.accounts import audit as rows
from steward.database.accounts import audit_heads
from steward.database.accounts.audit import AuditFilter
from steward.database.accounts.audit_heads import AuditHead
from steward.database.engine.base import Tx, from_ms
from steward.model.account import Role
from steward.model.audit import Level, level_of
from steward.model.instants import wire_time, wire_time_or_none

MAX_ENTRIES = 10_000
_EXPORT_SECONDS = 25.0


def _entries(limit: int) -> int:
    if limit > MAX_ENTRIES:
        raise field_error(f"Give at most {MAX_ENTRIES:,} entries.")
    return limit


_FilterText = Annotated[Text, Field(min_length=1, max_length=60)]


class AuditQuery(PageQuery):
    """Query parameters: which entries to list."""

    since: Timestamp | None = Field(default=None, alias="from")
    until: Timestamp | None = Field(default=None, alias="to")
    actor: _FilterText | None = None
    action: _FilterText | None = None
    object_kind: _FilterText | None = None
    object_id: _FilterText | None = None


class AuditExportQuery(QueryParameters):
    """Query parameters of an export: its entries, their maximum number, and its format."""

    limit: Annotated[QueryPositive, AfterValidator(_entries)] = MAX_ENTRIES
    cursor: CursorText | None = None
    format: audit.ExportFormat = "ndjson"
    since: Timestamp | None = Field(default=None, alias="from")
    until: Timestamp | None = Field(default=None, alias="to")


class AuditActor(msgspec.Struct):
    """The actor: a person, an API credential, the operator or the service."""

    kind: str
    id: str | None
    name: str


class AuditObject(msgspec.Struct):
    """The object of the action; `label` is its present name."""

    kind: str
    id: str | None
    label: str | None


class AuditRecord(msgspec.Struct):
    """An entry; `words` says it as a sentence, and `level` whether owners should look at it."""

    seq: int
    id: str
    at: str
    actor: AuditActor
    action: str
    level: Level
    words: str
    object: AuditObject | None
    detail: Mapping[str, Any]
    hash: str


class AuditHeadRecord(msgspec.Struct):
    """The end of the chain."""

    seq: int
    hash: str
    at: str


class AuditCheckRecord(msgspec.Struct):
    """The result of the last check: intact up to `seq`, and the first wrong entry, if any."""

    seq: int
    at: str | None
    wrong_seq: int | None
    wrong_how: str | None


class AuditResponse(msgspec.Struct):
    """A page of entries, newest first."""

    entries: list[AuditRecord]
    next_cursor: str | None
    head: AuditHeadRecord | None
    check: AuditCheckRecord | None


class AuditExportResponse(msgspec.Struct):
    """The content of a file and its name; `next_cursor` leads to the next file."""

    file_name: str
    content: str
    next_cursor: str | None


async def find(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/audit`."""
    query: AuditQuery = call.query
    org = call.actor.org
    key = call.page_start()
    chosen = AuditFilter(
        query.since, query.until, query.actor, query.action, query.object_kind, query.object_id
    )
    before = None if key is None else (int(str(key[0])), int(str(key[1])))
    chained = await rows.find(tx, org, chosen, before=before, limit=query.limit + 1)
    page = chained[: query.limit]
    more = call.next_cursor([page[-1].at, page[-1].seq]) if len(chained) > len(page) else None
    head = await audit_heads.get(tx, org)
    entries = [_record(line) for line in await audit.with_names(tx, org, page)]
    return AuditResponse(entries, more, _head(head), _check(head))


async def record_export(call: ApiCall) -> int:
    """Writes the export into the audit log before the export is read."""
    context, org = call.context, call.actor.org

    async def act(tx: Tx) -> int:
        return await audit.record_export(tx, org, call.actor)

    return await context.engine.write(context.clock.now(), act, org=org)


async def export(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/audit/export`."""
    query: AuditExportQuery = call.query
    org = call.actor.org
    key = call.page_start()
    await tx.extend_time_limit(_EXPORT_SECONDS)
    first, last, more = await audit.range_of(
        tx,
        org,
        since=query.since,
        until=query.until,
        after=0 if key is None else int(str(key[0])),
        limit=query.limit,
    )
    making = Export(org, query.format, first, last)
    lines = [making.opening()]
    while not making.is_done:
        lines += await making.batch(tx)
    lines.append(await making.closing(tx))
    name = f"audit-{first}-{last}.{query.format}"
    return AuditExportResponse(name, "".join(lines), None if more is None else call.next_cursor([more]))


def _record(line: NamedEntry) -> AuditRecord:
    entry = line.entry
    about = None
    if entry.object_kind is not None:
        about = AuditObject(entry.object_kind, entry.object_id, line.object_label)
    return AuditRecord(
        seq=entry.seq,
        id=entry.id,
        at=wire_time(from_ms(entry.at)),
        actor=AuditActor(entry.actor_kind, entry.actor, line.actor_name),
        action=entry.action,
        level=level_of(entry.action),
        words=line.words,
        object=about,
        detail=line.detail,
        hash=entry.hash,
    )


def _head(head: AuditHead | None) -> AuditHeadRecord | None:
    return None if head is None else AuditHeadRecord(head.seq, head.hash, wire_time(head.at))


def _check(head: AuditHead | None) -> AuditCheckRecord | None:
    if head is None:
        return None
    fault = head.fault
    return AuditCheckRecord(
        head.verified_seq,
        wire_time_or_none(head.verified_at),
        None if fault is None else fault.seq,
        None if fault is None else fault.how,
    )


OPERATIONS = (
    Operation(
        name="audit.list",
        method="GET",
        path="/app/audit",
        access=Access.APP,
        role=Role.OWNER,
        function=find,
        query=AuditQuery,
        response=AuditResponse,
        summary="List the entries of the audit log",
    ),
    Operation(
        name="audit.export",
        method="GET",
        path="/app/audit/export",
        access=Access.APP,
        role=Role.OWNER,
        prepare=record_export,
        function=export,
        query=AuditExportQuery,
        response=AuditExportResponse,
        summary="Export the audit log",
        seconds=_EXPORT_SECONDS,
    ),
)
