"""Tests that the counts of the status read no finished run: programs and the web app poll them."""

from steward.database.engine.base import Tx
from steward.database.engine.migrate import sqlite_path
from steward.database.engine.sqlite import SqliteEngine
from steward.database.operator import status
from tests.fake_clock import FakeClock


async def test_the_status_finds_queued_runs_by_an_index(sqlite_url: str, clock: FakeClock) -> None:
    """SQLite counts them by their kind; with a list as a parameter it read every run of the organization."""
    engine = SqliteEngine(sqlite_path(sqlite_url), clock=clock)

    async def plan(tx: Tx) -> list[str]:
        rows = await tx.all(f"EXPLAIN QUERY PLAN {status.COUNTS}", {"org": 1, "cap": 1})
        return [row["detail"] for row in rows]

    searches = await engine.read(clock.now(), plan)
    await engine.close()
    assert [step for step in searches if "runs_by_kind (org_id=? AND kind=?)" in step], searches
