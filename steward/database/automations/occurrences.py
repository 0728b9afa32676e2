"""Reads and writes the stored rows of slots; slots that nobody has edited are computed elsewhere."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none, ms
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.json import JsonValue
from steward.model.occurrence import OccurrenceState, SkipReason

_COLUMNS = """
    o.org_id, o.automation_id, o.slot_at, o.run_at, o.local_key, o.state, o.reason, o.run_id, o.moved_from,
    o.version, o.by_auditor, o.from_edit, o.exempt, o.closed_name
"""
_OPEN = PerEngine(
    # CROSS JOIN keeps SQLite from scanning the whole table once for every automation.
    sqlite=f"SELECT {_COLUMNS} FROM json_each(:wanted) AS k CROSS JOIN occurrences AS o"
    " ON o.org_id = :org AND o.automation_id = k.value ->> 0 AND o.slot_at >= k.value ->> 1"
    f" UNION SELECT {_COLUMNS} FROM json_each(:wanted) AS k CROSS JOIN occurrences AS o"
    " ON o.org_id = :org AND o.automation_id = k.value ->> 0 AND o.state = 'pending'",
    postgresql=f"SELECT {_COLUMNS} FROM jsonb_array_elements(CAST(:wanted AS jsonb)) AS k"
    " JOIN occurrences AS o ON o.org_id = :org AND o.automation_id = k.value ->> 0"
    " AND o.slot_at >= (k.value ->> 1)::bigint"
    f" UNION SELECT {_COLUMNS} FROM jsonb_array_elements(CAST(:wanted AS jsonb)) AS k"
    " JOIN occurrences AS o ON o.org_id = :org AND o.automation_id = k.value ->> 0 AND o.state = 'pending'",
)
_DECIDED = (
    " ON CONFLICT (org_id, automation_id, slot_at) DO UPDATE SET state = excluded.state,"
    " reason = excluded.reason, run_id = excluded.run_id, closed_name = excluded.closed_name,"
    " updated_at = excluded.updated_at"
    " WHERE occurrences.state = 'pending'"
)
_DECIDE = PerEngine(
    sqlite="INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason,"
    " run_id, version, by_auditor, from_edit, updated_at, closed_name)"
    " SELECT :org, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4,"
    " r.value ->> 5, r.value ->> 6, 0, :by_auditor, 0, :now, r.value ->> 7"
    " FROM json_each(:rows) AS r WHERE true" + _DECIDED,
    postgresql="INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason,"
    " run_id, version, by_auditor, from_edit, updated_at, closed_name)"
    " SELECT :org, r.value ->> 0, (r.value ->> 1)::bigint, (r.value ->> 2)::bigint, r.value ->> 3,"
    " r.value ->> 4, r.value ->> 5, r.value ->> 6, 0, :by_auditor, false, :now, r.value ->> 7"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r" + _DECIDED,
)
_INSERT = PerEngine(
    sqlite="INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason,"
    " run_id, moved_from, version, by_auditor, from_edit, updated_at, exempt)"
    " SELECT :org, :automation, r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3, r.value ->> 4,"
    " r.value ->> 5, r.value ->> 6, r.value ->> 7, r.value ->> 8, r.value ->> 9, :now, r.value ->> 10"
    " FROM json_each(:rows) AS r WHERE true ON CONFLICT (org_id, automation_id, slot_at) DO NOTHING",
    postgresql="INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason,"
    " run_id, moved_from, version, by_auditor, from_edit, updated_at, exempt)"
    " SELECT :org, :automation, (r.value ->> 0)::bigint, (r.value ->> 1)::bigint, r.value ->> 2,"
    " r.value ->> 3, r.value ->> 4, r.value ->> 5, (r.value ->> 6)::bigint, (r.value ->> 7)::bigint,"
    " (r.value ->> 8)::boolean, (r.value ->> 9)::boolean, :now,"
    " (r.value ->> 10)::boolean"
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS r"
    " ON CONFLICT (org_id, automation_id, slot_at) DO NOTHING",
)


@dataclass(frozen=True, slots=True)
class StoredSlot:
    """A stored occurrence.

    A `this_and_later` move stores the runs before it, which keep their times, with `is_from_move`. An
    `exempt` one runs in closed periods too; `closed_name` is the period that caused a skip.
    """

    slot_at: datetime
    run_at: datetime
    local_key: str
    state: OccurrenceState = OccurrenceState.PENDING
    reason: SkipReason | None = None
    run_id: RunId | None = None
    moved_from: datetime | None = None
    version: int = 0
    by_auditor: bool = False
    is_from_move: bool = False
    exempt: bool = False
    closed_name: str | None = None

    @property
    def is_skipped_by_person(self) -> bool:
        """Whether a person skipped the slot, or it replaces one that a change of the automation removed."""
        return self.reason is SkipReason.BY_MERCHANT and self.closed_name is None

    @property
    def is_persons(self) -> bool:
        """Whether a person skipped the slot or exempted it from closed periods, which applies to its date."""
        return self.is_skipped_by_person or (self.exempt and self.state is OccurrenceState.PENDING)

    def carried_to(self, slot_at: datetime, local_key: str) -> "StoredSlot":
        """Returns a row for another slot that takes over a person's decision about this slot."""
        return StoredSlot(
            slot_at, slot_at, local_key, self.state, self.reason, version=self.version, exempt=self.exempt
        )


@dataclass(frozen=True, slots=True)
class DecidedSlot:
    """The outcome of one due slot, to be written."""

    automation_id: AutomationId
    slot_at: datetime
    run_at: datetime
    local_key: str
    state: OccurrenceState
    reason: SkipReason | None
    run_id: RunId | None
    closed_name: str | None = None


async def at_slot(tx: Tx, org: OrgId, automation: AutomationId, *, slot_at: datetime) -> StoredSlot | None:
    """Returns the stored row of one slot; None without one."""
    row = await tx.first(
        f"SELECT {_COLUMNS} FROM occurrences AS o"
        " WHERE o.org_id = :org AND o.automation_id = :automation AND o.slot_at = :slot_at",
        {"org": org, "automation": automation, "slot_at": slot_at},
    )
    return None if row is None else _stored(row)


async def open_rows(
    tx: Tx, org: OrgId, automation: AutomationId, *, since: datetime | None
) -> list[StoredSlot]:
    """Returns pending rows, and rows of any state for slots from `since` on; only pending ones for None."""
    open_slots = await open_of(tx, org, {automation: since})
    return open_slots.get(automation, [])


async def open_of(
    tx: Tx, org: OrgId, since_by_automation: Mapping[AutomationId, datetime | None]
) -> dict[AutomationId, list[StoredSlot]]:
    """Returns rows like `open_rows`, for several automations; those without such rows are absent."""
    rows: list[JsonValue] = [
        [automation, _AFTER_ALL if since is None else ms(since)]
        for automation, since in since_by_automation.items()
    ]
    open_slots: dict[AutomationId, list[StoredSlot]] = {}
    for row in await tx.all(_OPEN, {"org": org, "wanted": Json(rows)}):
        open_slots.setdefault(AutomationId(row["automation_id"]), []).append(_stored(row))
    return open_slots


_AFTER_ALL = 2**53 - 1


async def of_automation(
    tx: Tx, org: OrgId, automation: AutomationId, *, since: datetime, until: datetime
) -> list[StoredSlot]:
    """Returns the stored rows of one automation with `slot_at` in [since, until), in ascending order."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM occurrences AS o"
        " WHERE o.org_id = :org AND o.automation_id = :automation"
        " AND o.slot_at >= :since AND o.slot_at < :until ORDER BY o.slot_at",
        {"org": org, "automation": automation, "since": since, "until": until},
    )
    return [_stored(row) for row in rows]


async def is_taken(
    tx: Tx, org: OrgId, automation: AutomationId, *, run_at: datetime, other_than: datetime
) -> bool:
    """Returns whether a stored pending row other than the slot `other_than` runs at exactly `run_at`."""
    row = await tx.first(
        "SELECT 1 AS taken FROM occurrences"
        " WHERE org_id = :org AND automation_id = :automation AND state = 'pending'"
        " AND run_at = :run_at AND slot_at <> :other_than",
        {"org": org, "automation": automation, "run_at": run_at, "other_than": other_than},
    )
    return row is not None


async def insert_many(tx: Tx, org: OrgId, automation: AutomationId, rows: Sequence[StoredSlot]) -> None:
    """Stores rows for slots that have none; existing rows stay unchanged."""
    if not rows:
        return
    values = [
        [
            ms(row.slot_at),
            ms(row.run_at),
            row.local_key,
            row.state.value,
            None if row.reason is None else row.reason.value,
            row.run_id,
            None if row.moved_from is None else ms(row.moved_from),
            row.version,
            row.by_auditor,
            row.is_from_move,
            row.exempt,
        ]
        for row in rows
    ]
    await tx.execute(_INSERT, {"org": org, "automation": automation, "rows": Json(values)})


async def update(tx: Tx, org: OrgId, automation: AutomationId, *, row: StoredSlot, was: StoredSlot) -> int:
    """Stores an edited row unless it changed since it was read. Returns the number of rows written."""
    return await tx.execute(
        "UPDATE occurrences SET run_at = :run_at, local_key = :local_key, state = :state, reason = :reason,"
        " moved_from = :moved_from, version = :version, from_edit = :from_edit, exempt = :exempt,"
        " updated_at = :now"
        " WHERE org_id = :org AND automation_id = :automation AND slot_at = :slot_at"
        " AND state = :was_state AND version = :was_version",
        {
            "org": org,
            "automation": automation,
            "slot_at": was.slot_at,
            "run_at": row.run_at,
            "local_key": row.local_key,
            "state": row.state,
            "reason": row.reason,
            "moved_from": row.moved_from,
            "version": row.version,
            "from_edit": row.is_from_move,
            "exempt": row.exempt,
            "was_state": was.state,
            "was_version": was.version,
        },
    )


async def decide(tx: Tx, org: OrgId, rows: Collection[DecidedSlot], *, by_auditor: bool = False) -> int:
    """Stores the outcomes of due slots as new rows or in pending ones. Returns the number of rows written.

    The row of a slot that was decided before stays unchanged.
    """
    values = [
        [
            row.automation_id,
            ms(row.slot_at),
            ms(row.run_at),
            row.local_key,
            row.state.value,
            None if row.reason is None else row.reason.value,
            row.run_id,
            row.closed_name,
        ]
        for row in rows
    ]
    return await tx.execute(_DECIDE, {"org": org, "rows": Json(values), "by_auditor": by_auditor})


async def skip_pending(
    tx: Tx, org: OrgId, automation: AutomationId, *, slots: Collection[datetime], reason: SkipReason
) -> int:
    """Marks pending rows as skipped by the service without a new version. Returns the rows written."""
    return await tx.execute(
        "UPDATE occurrences SET state = 'skipped', reason = :reason, updated_at = :now"
        " WHERE org_id = :org AND automation_id = :automation AND state = 'pending' AND slot_at IN (:slots)",
        {"org": org, "automation": automation, "reason": reason, "slots": [ms(slot) for slot in slots]},
    )


async def delete_coming(tx: Tx, org: OrgId, automation: AutomationId, *, slots: Collection[datetime]) -> int:
    """Deletes rows of future slots that are pending or skipped by a person. Returns their number.

    The row of a past slot is never deleted: it is the record of its slot.
    """
    return await tx.execute(
        "DELETE FROM occurrences WHERE org_id = :org AND automation_id = :automation"
        " AND slot_at IN (:slots) AND slot_at > :now"
        " AND (state = 'pending' OR (reason = 'by_merchant' AND closed_name IS NULL))",
        {"org": org, "automation": automation, "slots": [ms(slot) for slot in slots]},
    )


def _stored(row: Row) -> StoredSlot:
    return StoredSlot(
        slot_at=from_ms(row["slot_at"]),
        run_at=from_ms(row["run_at"]),
        local_key=row["local_key"],
        state=OccurrenceState(row["state"]),
        reason=SkipReason(row["reason"]) if row["reason"] else None,
        run_id=RunId(row["run_id"]) if row["run_id"] else None,
        moved_from=from_ms_or_none(row["moved_from"]),
        version=row["version"],
        by_auditor=bool(row["by_auditor"]),
        is_from_move=bool(row["from_edit"]),
        exempt=bool(row["exempt"]),
        closed_name=row["closed_name"],
    )
