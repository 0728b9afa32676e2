"""A pass of retention reads no more when there are more organizations; on both engines."""

import sqlite3
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, cast

import asyncpg

from steward.database.engine.base import Engine
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.operator import partitions
from steward.database.org_span import OrgSpan, next_orgs
from steward.runs.tasks.retention import SWEEPS, RetentionRules
from tests.fake_clock import FakeClock
from tests.growth.counting import CountingEngine

FEW, MANY, SPAN = 30, 900, 20
SHARE, SLACK = 1.2, 60


async def _write_orgs(url: str, numbers: range) -> None:
    """Writes organizations into the directory, past the service."""
    rows = [(number, f"Shop {number}", f"shop {number}") for number in numbers]
    if is_sqlite(url):
        file = sqlite3.connect(sqlite_path(url))
        with file:
            file.executemany("INSERT INTO dir_orgs (org_id, name, name_norm) VALUES (?, ?, ?)", rows)
        file.close()
        return
    connection: Any = await asyncpg.connect(url)
    columns = ["org_id", "name", "name_norm"]
    await connection.copy_records_to_table("dir_orgs", records=rows, columns=columns)
    await connection.execute("ANALYZE dir_orgs")
    await connection.close()


async def test_a_pass_costs_the_same_with_more_organizations(
    engine: Engine, clock: FakeClock, database_url: str
) -> None:
    """Each sweep, and the search for the oldest runs, with 30 organizations and with 900."""
    counting = CountingEngine(engine, str(sqlite_path(database_url)) if is_sqlite(database_url) else None)
    counted = cast("Engine", counting)
    rules = RetentionRules()

    async def costs(orgs: OrgSpan) -> dict[str, int]:
        read = {}
        for table, sweep in SWEEPS.items():
            counting.take()
            await sweep(counted, clock.now(), replace(rules, orgs=orgs))
            read[table] = counting.take()
        if engine.dialect == "postgresql":
            counting.take()
            oldest = partial(partitions.oldest_runs, queued_before=clock.now(), orgs=orgs)
            assert await counted.read(clock.now(), oldest) == (None, None)
            read["oldest runs"] = counting.take()
        return read

    await _write_orgs(database_url, range(1, FEW + 1))
    span = await _span(engine, clock.now())
    assert (span.first, span.last) == (1, SPAN)
    few = await costs(span)
    await _write_orgs(database_url, range(FEW + 1, MANY + 1))
    many = await costs(await _span(engine, clock.now()))
    counting.close_own()
    assert {
        table: (few[table], cost) for table, cost in many.items() if cost > SHARE * few[table] + SLACK
    } == {}
    assert few["runs"] > 0


async def _span(engine: Engine, now: datetime) -> OrgSpan:
    """Returns the first organizations."""
    span = await engine.read(now, partial(next_orgs, after=0, limit=SPAN))
    assert span is not None
    return span
