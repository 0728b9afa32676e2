"""A long history of one organization, written into the tables: few old rows of each kind, many alike."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from steward.database.engine.base import ms
from steward.database.engine.migrate import is_sqlite, sqlite_path
from tests.authz.two_organizations import OrganizationIds

RARE = 40  # the oldest rows, of every kind that a filter has
_STATUSES = ("queued", "running", "failed", "refused", "cancelled", "expired", "succeeded")
_STARTERS = ("hand", "event", "schedule")
_DECISIONS = ("partly_approved", "rejected", "expired", "superseded", "cancelled", "approved")
_BY_PERSON = ("partly_approved", "rejected", "approved")
_OUTCOMES = (
    "proposed",
    "approved",
    "declined",
    "unchanged",
    "conflict",
    "failed",
    "refused_test",
    "expired",
    "cancelled",
    "unknown",
    "applied",
)
_QUEUES = {"queued": "blocked", "running": "sleeping"}
_TABLES = (
    "runs",
    "approvals",
    "occurrences",
    "automation_history",
    "changes",
    "search_terms",
    "inbox",
    "messages",
    "audit_log",
)
_OLDEST_FIRST = ("approvals", "occurrences")
_ACTORS = ("7001", "7002")
_ACTIONS = ("signed_in", "route_made")
_OBJECTS = ("person", "notification_route")
OLD_ENTRIES = 1_000_000  # numbers that no entry of a test reaches
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """Whose rows they are, the instant of the oldest one, and how far apart they lie."""

    ids: OrganizationIds
    other_automation: str
    person: int
    oldest: datetime
    newest: datetime
    step: timedelta

    def instant(self, number: int) -> datetime:
        """Returns the instant of the row of this number, in lists with the newest first."""
        return self.oldest + number * self.step

    def instant_back(self, number: int) -> datetime:
        """Returns the instant of the row of this number, in lists with the oldest first."""
        return self.newest - number * self.step

    async def write(self, url: str, numbers: range) -> None:
        """Writes the rows of these numbers into each table."""
        for table in _TABLES:
            row_of = getattr(self, f"_{table}")
            owner = {"org_id": self.ids.organization_id}
            instant = self.instant_back if table in _OLDEST_FIRST else self.instant
            await insert_rows(url, table, [owner | row_of(n, ms(instant(n))) for n in numbers])

    def _runs(self, number: int, now_ms: int) -> Values:
        is_test = number < RARE // 2
        status = _pick(_STATUSES, number)
        if status == "running" and not is_test:  # an automation has one such live run
            status = "failed"
        is_open = status in _QUEUES
        return {
            "id": row_id("R", number),
            "automation_id": self.ids.automation_id,
            "integration_id": self.ids.integration_id if number < RARE else self.ids.teams_id,
            "mode": "test" if is_test else "live",
            "status": status,
            "queue": _QUEUES.get(status, "done"),
            "vt": 0,
            "epoch": 1,
            "attempt": 1,
            "last_seq": 0,
            "leased_ms": 0,
            "queued_at": now_ms,
            "finished_at": None if is_open else now_ms,
            "wake_at": 9_000_000_000_000 if status == "running" else None,
            "automation_name": "Grown",
            "automation_version": 1,
            "template_id": self.ids.template_id,
            "template_version": 1,
            "started_by": "hand" if is_test else _pick(_STARTERS, number),
        }

    def _approvals(self, number: int, now_ms: int) -> Values:
        status = _pick(_DECISIONS, number)
        return {
            "id": row_id("A", number),
            "run_id": row_id("R", number),
            "automation_id": self.ids.automation_id if number < RARE else self.other_automation,
            "integration_id": self.ids.integration_id,
            "round": 1,
            "kind": "changes",
            "version": 2,
            "status": status,
            "change_hash": "0" * 64,
            "counts": '{"total":1}',
            "warnings": "[]",
            "follows": '{"steps":0,"may_ask_again":false}',
            "created_at": now_ms,
            "expires_at": now_ms,
            "decided_at": now_ms,
            "decided_by": self.person if status in _BY_PERSON else None,
        }

    def _occurrences(self, number: int, now_ms: int) -> Values:
        is_rare = number < RARE
        return {
            "automation_id": self.other_automation,
            "slot_at": now_ms,
            "run_at": now_ms,
            "local_key": "grown",
            "state": "skipped" if is_rare else "queued",
            "reason": "by_merchant" if is_rare else None,
            "run_id": None if is_rare else row_id("R", number),
            "version": 1,
            "by_auditor": False,
            "from_edit": False,
            "updated_at": now_ms,
        }

    def _automation_history(self, number: int, now_ms: int) -> Values:
        return {
            "id": row_id("H", number),
            "automation_id": self.ids.automation_id,
            "at": now_ms,
            "action": "changed",
            "version": 1,
            "person_id": self.person,
            "via": "ui",
            "fields": "[]",
        }

    def _changes(self, number: int, now_ms: int) -> Values:
        return {
            "run_id": self.ids.run_id,
            "id": row_id("C", number),
            "seq": 3 if number < RARE else 2,
            "name": "grown",
            "iteration": "",
            "position": number,
            "round": 2,
            "object_type": "product",
            "wire": '{"grown":true}',
            "before_json": "{}",
            "after_json": "{}",
            "parts": "[]",
            "item_hash": "0" * 64,
            "outcome": _pick(_OUTCOMES, number),
            "undoable": False,
        }

    def _search_terms(self, number: int, now_ms: int) -> Values:
        return {
            "term": "grownlate" if number < RARE else "grown",
            "run_id": row_id("R", number),
            "seq": 2,
            "position": number,
        }

    def _inbox(self, number: int, now_ms: int) -> Values:
        return {
            "person_id": self.person,
            "id": row_id("N", number),
            "group_key": f"run_failed|{number}",
            "topic": "run_failed",
            "count": 1,
            "facts": '{"automation":"Grown"}',
            "first_at": now_ms,
            "last_at": now_ms,
            "read_at": None if number < RARE else now_ms,
        }

    def _messages(self, number: int, now_ms: int) -> Values:
        return {
            "id": row_id("M", number),
            "route_id": self.ids.route_id,
            "channel": "teams",
            "kind": "notices",
            "state": "sent",
            "created_at": now_ms,
            "due_at": now_ms,
            "closed_at": now_ms,
            "sent_at": now_ms,
        }

    def _audit_log(self, number: int, now_ms: int) -> Values:
        return {
            "id": row_id("L", number),
            "seq": OLD_ENTRIES + number,
            "at": now_ms,
            "actor_kind": "person",
            "actor": _pick(_ACTORS, number),
            "action": _pick(_ACTIONS, number),
            "object_kind": _pick(_OBJECTS, number),
            "object_id": _pick(_ACTORS, number),
            "detail": "{}",
            "hash": "0" * 64,
        }


def row_id(letter: str, number: int) -> str:
    """Returns an id of the month before, older than any that a test makes."""
    return f"01KN{letter}{number:021d}"


def _pick(values: Sequence[str], number: int) -> str:
    return values[number % len(values)] if number < RARE else values[-1]


async def insert_rows(url: str, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows past the service."""
    columns = list(rows[0])
    records = [tuple(row.values()) for row in rows]
    if is_sqlite(url):
        file = sqlite3.connect(sqlite_path(url))
        with file:
            places = ", ".join("?" * len(columns))
            file.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", records)
        file.close()
        return
    connection: Any = await asyncpg.connect(url)
    await connection.execute("SET session_replication_role = replica")  # no trigger changes the past
    await connection.copy_records_to_table(table, records=records, columns=columns)
    await connection.execute(f"ANALYZE {table}")
    await connection.close()
