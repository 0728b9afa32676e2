"""What a poll reads while a transaction stays open and dead rows cannot be cleaned up (PostgreSQL)."""

from functools import partial
from typing import Any, cast

import asyncpg

from steward.database.engine.base import Engine
from steward.database.engine.postgres import PostgresEngine
from steward.database.runs import transitions, workers
from tests.fake_clock import FakeClock
from tests.growth.counting import CountingEngine
from tests.growth.waiting import write_waiting

CAP, RUNS = 50, 2_000
SLACK = 20  # pages


async def test_the_check_for_full_organizations_reads_no_dead_runs(
    postgresql_url: str, clock: FakeClock
) -> None:
    """Not while the workers hold fewer runs than an organization may have; at the limit it counts them."""
    engine = await PostgresEngine.open(postgresql_url, size=4, clock=clock, test=True)
    counting = CountingEngine(cast("Engine", engine), None)

    async def work(slots: int) -> None:
        register = partial(workers.register, name=f"{slots}", version="1", slots=slots, lease_ms=30_000)
        await engine.write(clock.now(), register)

    async def pages() -> int:
        counting.take()
        await cast("Engine", counting).read(clock.now(), partial(transitions.full, cap=CAP))
        return counting.take()

    await work(CAP - 1)
    before = await pages()
    reader: Any = await asyncpg.connect(postgresql_url)
    owner: Any = await asyncpg.connect(postgresql_url)
    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("SELECT count(*) FROM runs")
        await write_waiting(postgresql_url, "leased", range(RUNS))
        await owner.execute(
            "UPDATE runs SET queue = 'done', worker_id = NULL, status = 'failed', finished_at = 1"
        )
        assert await pages() <= before + SLACK
        await work(1)
        assert await pages() > before + SLACK
    await reader.close()
    await owner.close()
    await engine.close()
