"""Stores each change of an automation with its author and time; append-only."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.database.engine.base import Json, Row, Tx, from_ms
from steward.model.ids import AutomationId, OrgId, PersonId, new_id
from steward.model.json import JsonValue


class HistoryAction(StrEnum):
    """The kind of change."""

    CREATED = "created"
    CHANGED = "changed"
    PAUSED = "paused"
    RESUMED = "resumed"
    ARCHIVED = "archived"
    RESTORED = "restored"
    MOVED = "moved"
    SKIPPED = "skipped"
    UNSKIPPED = "unskipped"


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """The values of a field before and after a change, in their API form."""

    field: str
    before: JsonValue
    after: JsonValue


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An entry of an automation's history; `via` is `service` when the service itself acted."""

    id: str
    at: datetime
    action: HistoryAction
    version: int
    person: PersonId | None
    first_name: str | None
    last_name: str | None
    via: str
    api_client_id: str | None
    reason: str | None
    fields: tuple[FieldEdit, ...]


async def add(
    tx: Tx,
    org: OrgId,
    automation: AutomationId,
    *,
    action: HistoryAction,
    version: int,
    person: PersonId | None,
    via: str,
    api_client_id: str | None,
    reason: str | None,
    fields: Sequence[FieldEdit],
) -> None:
    """Adds an entry in the transaction of the change that it describes."""
    edits = [{"field": edit.field, "before": edit.before, "after": edit.after} for edit in fields]
    await tx.execute(
        "INSERT INTO automation_history (org_id, id, automation_id, at, action, version, person_id, via,"
        " api_client_id, reason, fields)"
        " VALUES (:org, :id, :automation, :now, :action, :version, :person, :via, :client, :reason, :fields)",
        {
            "org": org,
            "id": new_id(tx.now),
            "automation": automation,
            "action": action,
            "version": version,
            "person": person,
            "via": via,
            "client": api_client_id,
            "reason": reason,
            "fields": Json(edits),
        },
    )


async def find(
    tx: Tx, org: OrgId, automation: AutomationId, *, limit: int, before: str | None = None
) -> list[HistoryEntry]:
    """Returns entries, newest first, that are older than the entry with id `before`."""
    rows = await tx.all(
        "SELECT h.id, h.at, h.action, h.version, h.person_id, h.via, h.api_client_id, h.reason, h.fields,"
        " m.first_name, m.last_name FROM automation_history AS h"
        " LEFT JOIN members AS m ON m.org_id = h.org_id AND m.person_id = h.person_id"
        " WHERE h.org_id = :org AND h.automation_id = :automation"
        + (" AND h.id < :before" if before is not None else "")
        + " ORDER BY h.id DESC LIMIT :limit",
        {"org": org, "automation": automation, "limit": limit, "before": before},
    )
    return [_entry(row) for row in rows]


def _entry(row: Row) -> HistoryEntry:
    return HistoryEntry(
        id=row["id"],
        at=from_ms(row["at"]),
        action=HistoryAction(row["action"]),
        version=row["version"],
        person=None if row["person_id"] is None else PersonId(row["person_id"]),
        first_name=row["first_name"],
        last_name=row["last_name"],
        via=row["via"],
        api_client_id=row["api_client_id"],
        reason=row["reason"],
        fields=tuple(
            FieldEdit(edit["field"], edit["before"], edit["after"]) for edit in json.loads(row["fields"])
        ),
    )
