"""Reads the calendar: stored occurrences by time, and automations with future slots."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import msgspec

from steward.database.engine.base import Args, PerEngine, Row, Sql, Tx, from_ms, from_ms_or_none, ms
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId
from steward.model.occurrence import Occurrence, OccurrenceState, SkipReason
from steward.model.run import RunStatus
from steward.model.schedule import Schedule

# The position of a row in the calendar: `run_at`, `slot_at`, automation.
CalendarKey = tuple[datetime, datetime, str]

_STORED = """
SELECT o.automation_id AS automation_id, o.slot_at AS slot_at, {run_at} AS run_at, o.state, o.reason,
    o.run_id, o.moved_from, o.version,
    o.exempt, o.closed_name, a.name, a.version AS automation_version, a.timezone, a.integration_id,
    r.status AS run_status
FROM occurrences AS o
JOIN automations AS a ON a.org_id = o.org_id AND a.id = o.automation_id
LEFT JOIN runs AS r ON r.org_id = o.org_id AND r.id = o.run_id
WHERE o.org_id = :org AND {within}
    AND (o.run_at > :after_run OR o.slot_at > :after_slot
        OR (o.slot_at = :after_slot AND o.automation_id > :after_id))
    AND {of_state}
    AND (a.state = 'active' OR (a.state <> 'archived' AND (o.state = 'queued'
        OR (o.state = 'skipped' AND (o.reason <> 'by_merchant' OR o.run_at <= :now)))))
"""
_WITHIN = "o.run_at >= :since AND o.run_at < :until"
# SQLite has no index of an automation's slots by the time they run. It reads the slots that were not moved by
# the key, in the order of the list, and merges the moved ones.
_UNMOVED = "o.run_at = o.slot_at AND o.slot_at >= :since AND o.slot_at < :until"
_MOVED = f"o.run_at <> o.slot_at AND {_WITHIN}"
_COMING = """
SELECT a.id, a.name, a.version, a.timezone, a.schedule, a.spread_minutes, a.integration_id, s.due_at,
    s.next_slot_at, s.slots_after
FROM schedules AS s
JOIN automations AS a ON a.org_id = s.org_id AND a.id = s.automation_id
WHERE s.org_id = :org AND a.state = 'active'
"""
_OF_INTEGRATION = " AND (a.integration_id = :integration OR a.connections LIKE :reads)"


@dataclass(frozen=True, slots=True)
class CalendarFilter:
    """The filter of a calendar; without both fields it matches all automations of the organization."""

    automation: AutomationId | None = None
    integration: IntegrationId | None = None

    def conditions(self, automation_column: str) -> str:
        """Returns SQL conditions to add to a WHERE clause."""
        requested = "" if self.automation is None else f" AND {automation_column} = :automation"
        return requested + ("" if self.integration is None else _OF_INTEGRATION)

    def args(self) -> Args:
        """Returns the arguments of `conditions`."""
        return {
            "automation": self.automation,
            "integration": self.integration,
            "reads": f'%"integration_id":{self.integration},%',
        }


@dataclass(frozen=True, slots=True)
class CalendarRow:
    """A stored row of the calendar, the store of its automation, and whether a person exempted it."""

    occurrence: Occurrence
    integration: IntegrationId | None
    is_exempt: bool


@dataclass(frozen=True, slots=True)
class ScheduledAutomation:
    """An active automation with the fields that its future rows need."""

    id: AutomationId
    name: str
    version: int
    timezone: str
    schedule: Schedule
    spread_minutes: int
    integration: IntegrationId | None
    due_at: datetime
    next_slot_at: datetime | None
    slots_after: datetime


async def stored(
    tx: Tx,
    org: OrgId,
    narrowing: CalendarFilter,
    *,
    since: datetime,
    until: datetime,
    after: CalendarKey | None,
    states: Collection[OccurrenceState],
    limit: int,
) -> list[CalendarRow]:
    """Returns stored rows with `run_at` in [since, until) after `after`, in the calendar's order.

    Pending rows, and future rows that a person skipped, are included only for active automations; queued
    and other skipped rows for every automation that is not archived.
    """
    rows = await tx.all(
        _stored_text(narrowing, states),
        {
            **narrowing.args(),
            "org": org,
            "since": since,
            "until": until,
            "after_run": -1 if after is None else ms(after[0]),
            "after_slot": -1 if after is None else ms(after[1]),
            "after_id": "" if after is None else after[2],
            "states": sorted(states),
            "limit": limit,
        },
    )
    return [
        CalendarRow(
            _occurrence(row),
            None if row["integration_id"] is None else IntegrationId(row["integration_id"]),
            bool(row["exempt"]),
        )
        for row in rows
    ]


def _stored_text(narrowing: CalendarFilter, states: Collection[OccurrenceState]) -> Sql:
    of_state = "o.state IN (:states)"
    if OccurrenceState.QUEUED not in states:
        of_state += " AND o.state <> 'queued'"  # as in the partial index

    def part(within: str, run_at: str = "o.run_at") -> str:
        text = _STORED.format(run_at=run_at, within=within, of_state=of_state)
        return text + narrowing.conditions("o.automation_id")

    statement = f"{part(_WITHIN)} ORDER BY o.run_at, o.slot_at, o.automation_id LIMIT :limit"
    if narrowing.automation is None:
        return statement
    merged = f"{part(_UNMOVED, 'o.slot_at')} UNION ALL {part(_MOVED)}"
    return PerEngine(f"{merged} ORDER BY run_at, slot_at, automation_id LIMIT :limit", statement)


async def coming(
    tx: Tx,
    org: OrgId,
    narrowing: CalendarFilter,
    *,
    due_by: datetime,
    until: datetime,
    limit: int,
) -> list[ScheduledAutomation]:
    """Returns all active automations due by `due_by`, and some of those due later.

    Of those due after it and before `until`, returns the first `limit`.
    """
    conditions = narrowing.conditions("s.automation_id")
    args = {**narrowing.args(), "org": org, "due_by": due_by, "until": until, "limit": limit}
    due = await tx.all(f"{_COMING} AND s.due_at <= :due_by{conditions}", args)
    later = await tx.all(
        f"{_COMING} AND s.due_at > :due_by AND s.due_at < :until{conditions}"
        " ORDER BY s.due_at, s.automation_id LIMIT :limit",
        args,
    )
    return [_coming(row) for row in (*due, *later)]


async def stored_slots(
    tx: Tx, org: OrgId, automations: Collection[AutomationId], *, since: datetime, until: datetime
) -> set[tuple[str, datetime]]:
    """Returns the slots of the automations in [since, until] that have a stored row of any state."""
    rows = await tx.all(
        "SELECT automation_id, slot_at FROM occurrences WHERE org_id = :org"
        " AND automation_id IN (:automations) AND slot_at >= :since AND slot_at <= :until",
        {"org": org, "automations": list(automations), "since": since, "until": until},
    )
    return {(row["automation_id"], from_ms(row["slot_at"])) for row in rows}


def _occurrence(row: Row) -> Occurrence:
    return Occurrence(
        automation_id=AutomationId(row["automation_id"]),
        automation_name=row["name"],
        automation_version=row["automation_version"],
        timezone=row["timezone"],
        slot_at=from_ms(row["slot_at"]),
        run_at=from_ms(row["run_at"]),
        state=OccurrenceState(row["state"]),
        reason=SkipReason(row["reason"]) if row["reason"] else None,
        run_id=RunId(row["run_id"]) if row["run_id"] else None,
        run_status=RunStatus(row["run_status"]) if row["run_status"] else None,
        moved_from=from_ms_or_none(row["moved_from"]),
        version=row["version"],
        closed_name=row["closed_name"],
    )


def _coming(row: Row) -> ScheduledAutomation:
    return ScheduledAutomation(
        AutomationId(row["id"]),
        row["name"],
        row["version"],
        row["timezone"],
        _schedule(row["schedule"]),
        row["spread_minutes"],
        None if row["integration_id"] is None else IntegrationId(row["integration_id"]),
        from_ms(row["due_at"]),
        from_ms_or_none(row["next_slot_at"]),
        from_ms(row["slots_after"]),
    )


@lru_cache(maxsize=4096)  # a thousand automations share a few dozen schedules
def _schedule(text: str) -> Schedule:
    return Schedule.from_wire(msgspec.json.decode(text.encode("utf-8"), type=dict[str, object]))
