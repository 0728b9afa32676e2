"""An organization that has many of everything it lists: automations, connections, people and closings."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg

from steward.database.engine.base import ms
from steward.database.engine.migrate import is_sqlite, sqlite_path
from tests.growth.history import RARE, History, insert_rows, row_id

_STATES = ("draft", "active", "paused", "archived")
_ORIGINS = (("template", None), ("workflow", "workflow_tool"), ("workflow", "store_flow"))
_TRIGGERS = ('{"kind":"schedule"}', '{"kind":"event","topics":["order.created"]}')
_FIRST_NUMBER = 5_000  # no person or connection of a test has such a number
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LargeOrganization:
    """Copies a row of each table, with what makes it another one: few of every kind, many alike."""

    history: History

    async def write(self, url: str, numbers: range) -> None:
        """Writes the rows of these numbers into each table."""
        tables: dict[str, Callable[[int], Values]] = {
            "automations": self._automation,
            "schedules": self._schedule,
            "connections": self._connection,
            "people": self._person,
            "members": self._member,
            "closed_periods": self._closed_period,
        }
        for table, values_of in tables.items():
            row = await _any_row(url, table, self.history.ids.organization_id)
            row.pop("facet", None)  # computed
            await insert_rows(url, table, [row | values_of(number) for number in numbers])

    def _automation(self, number: int) -> Values:
        is_rare, ids = number < RARE, self.history.ids
        kind, source = _ORIGINS[number // 4 % 3] if is_rare else _ORIGINS[0]
        state = _state(number)
        return {
            "id": row_id("A", number),
            "kind": kind,
            "source": source,
            "plan_version": 1 if kind == "workflow" else None,
            "template_id": ids.template_id if is_rare else "grown",
            "platform": "woocommerce" if is_rare else "shopify",
            "integration_id": ids.integration_id if is_rare else _FIRST_NUMBER,
            "connections": "[]",
            "name": f"Grown {number}",
            "name_folded": f"grown {number}",
            "state": state,
            "paused_by": "merchant" if state == "paused" else None,
            "trigger_json": _TRIGGERS[number // 12 % 2] if is_rare else _TRIGGERS[0],
            "created_at": ms(self.history.instant(number)),
            "updated_at": ms(self.history.instant(number)),
        }

    def _schedule(self, number: int) -> Values:
        is_active = _state(number) == "active"
        due_at = ms(self.history.newest) + 1_000 * (1 + number) if is_active else None
        return {
            "automation_id": row_id("A", number),
            "next_run_at": due_at,
            "due_at": due_at,
            "next_slot_at": due_at,
            "last_run_at": ms(self.history.instant(number)),
        }

    def _connection(self, number: int) -> Values:
        return {
            "integration_id": _FIRST_NUMBER + number,
            "kind": "woocommerce" if number < RARE else "teams",
            "is_store": number < RARE,
            "state": "needs_reconnecting" if number < RARE else "connected",
            "name": f"Grown {number}",
            "subject": f"grown-{number}",
        }

    def _person(self, number: int) -> Values:
        address = f"grown-{number}@example.com"
        return {"person_id": _FIRST_NUMBER + number, "email": address, "email_norm": address}

    def _member(self, number: int) -> Values:
        return {
            "person_id": _FIRST_NUMBER + number,
            "email_norm": f"grown-{number}@example.com",
            "added_at": ms(self.history.instant(number)),
        }

    def _closed_period(self, number: int) -> Values:
        return {
            "id": row_id("P", number),
            "version": 1,
            "valid_from": ms(self.history.instant(number)),
            "valid_until": ms(self.history.instant(number)) + 1,
            "scope_kind": "organization",
            "integration_id": None,
            "automation_id": None,
            "kind": "once",
            "origin": None,
        }


def _state(number: int) -> str:
    if number < RARE:
        return _STATES[number % 4]
    return "archived" if number % 8 == 0 else "active"


async def _any_row(url: str, table: str, organization: int) -> Values:
    """Returns a row of a table, of the organization where the table has such a column."""
    condition = "" if table == "people" else f" WHERE org_id = {organization}"
    query = f"SELECT * FROM {table}{condition} LIMIT 1"
    if is_sqlite(url):
        file = sqlite3.connect(sqlite_path(url))
        file.row_factory = sqlite3.Row
        row: Any = file.execute(query).fetchone()
        file.close()
    else:
        connection: Any = await asyncpg.connect(url)
        row = await connection.fetchrow(query)
        await connection.close()
    return dict(row)
