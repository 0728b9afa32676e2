"""Counts what statements read: rows and pages of plans on PostgreSQL, steps of the virtual machine on SQLite.

The pages tell of index entries that a scan skips, and of what functions read, which are no rows of a plan.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, TypeVar

from steward.database.engine.base import Act, Args, Engine, Row, Sql, Tx, bind, prepare
from steward.model.ids import OrgId

T = TypeVar("T")
_STEPS = 20  # of the virtual machine between two counts


class _CountedTx:
    """A transaction that counts what each of its statements reads, besides running it."""

    def __init__(self, tx: Tx, counting: "CountingEngine") -> None:
        self._tx = tx
        self._counting = counting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def first(self, sql: Sql, args: Args | None = None) -> Row | None:
        """Counts and runs a statement of one row."""
        await self._counting.count(self._tx, sql, args)
        return await self._tx.first(sql, args)

    async def all(self, sql: Sql, args: Args | None = None) -> list[Row]:
        """Counts and runs a statement of several rows."""
        await self._counting.count(self._tx, sql, args)
        return await self._tx.all(sql, args)


class CountingEngine:
    """An engine that counts what reading acts read until `take` is called; it passes everything else on."""

    def __init__(self, engine: Engine, path: str | None) -> None:
        self._counted = engine
        self._file = None if path is None else sqlite3.connect(path, check_same_thread=False)
        self._total = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._counted, name)

    async def read(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), **options: Any
    ) -> T:
        """As the engine does, counting."""

        async def counted(tx: Tx) -> T:
            return await act(_CountedTx(tx, self))

        return await self._counted.read(now, counted, org=org, **options)

    def take(self) -> int:
        """Returns what was read since the last call."""
        total, self._total = self._total, 0
        return total

    def close_own(self) -> None:
        """Ends the connection that counts."""
        if self._file is not None:
            self._file.close()

    async def count(self, tx: Tx, sql: Sql, args: Args | None) -> None:
        """Adds what a statement reads."""
        if self._file is not None:
            self._count_steps(self._file, sql, args, tx.now)
            return
        text = sql if isinstance(sql, str) else sql.postgresql
        if "queue_" in text:  # once before: what planning reads of the catalogue does not count
            await tx.all(text, args)
        rows = await tx.all(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {text}", args)
        plan = json.loads(rows[0]["QUERY PLAN"])[0]["Plan"]
        self._total += _rows_read(plan) + int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    def _count_steps(self, file: sqlite3.Connection, sql: Sql, args: Args | None, now: datetime) -> None:
        def more() -> int:
            self._total += _STEPS
            return 0

        statement = prepare(sql, "sqlite")
        file.set_progress_handler(more, _STEPS)
        file.execute(statement.text, tuple(bind(statement, args, now, dialect="sqlite"))).fetchall()
        file.set_progress_handler(None, 0)


def _rows_read(plan: Mapping[str, Any]) -> int:
    """Returns how many rows the scans of a plan looked at."""
    rows = sum(_rows_read(inner) for inner in plan.get("Plans", ()))
    if "Relation Name" in plan or "Index Name" in plan:
        looked_at = (
            plan["Actual Rows"]
            + plan.get("Rows Removed by Filter", 0)
            + plan.get("Rows Removed by Index Recheck", 0)
        )
        rows += round(looked_at * plan["Actual Loops"])
    return rows
