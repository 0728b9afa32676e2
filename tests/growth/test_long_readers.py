"""What a poll reads while a transaction stays open and dead rows cannot be cleaned up (PostgreSQL)."""

import json
from functools import partial
from typing import Any, cast

import asyncpg

from steward.database.engine.base import Engine, ms
from steward.database.engine.postgres import PostgresEngine
from steward.database.runs import transitions, workers
from steward.run_queue.claim_bound import MARGIN, ClaimBound
from steward.runs import claim
from tests.fake_clock import FakeClock
from tests.growth.counting import CountingEngine
from tests.growth.history import row_id
from tests.growth.waiting import ORG, write_waiting

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
        await cast("Engine", counting).read(clock.now(), partial(transitions.full_organizations, cap=CAP))
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


async def test_a_claim_reads_no_runs_that_were_claimed_long_before(
    postgresql_url: str, clock: FakeClock
) -> None:
    """It begins at the bound; a claim of all ready runs would read each of them again.

    See docs/design/runs.md#claim.
    """
    engine = await PostgresEngine.open(postgresql_url, size=4, clock=clock, test=True)
    reader: Any = await asyncpg.connect(postgresql_url)
    owner: Any = await asyncpg.connect(postgresql_url)
    register = partial(workers.register, name="first", version="1", slots=CAP, lease_ms=3_600_000)
    worker = await engine.write(clock.now(), register)
    bound = ClaimBound(clock.monotonic)

    async def claim_all() -> int:
        claimed = 0
        while leases := await claim.claim(
            cast("Engine", engine), clock.now(), worker, free=CAP, full=(), bound=bound
        ):
            claimed += len(leases)
        return claimed

    async def pages(first_vt: int) -> int:
        statement = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM queue_claim($1, $2, '{}', $3, $4)"
        for _ in range(2):  # what planning reads of the catalogue does not count
            text = await owner.fetchval(statement, worker, CAP, first_vt, ms(clock.now()))
        plan = json.loads(text)[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("SELECT count(*) FROM runs")
        await write_waiting(postgresql_url, "ready", range(RUNS))
        assert await claim_all() == RUNS
        for number in range(RUNS, RUNS + 2):  # one is the candidate, the next makes it the bound
            clock.tick(MARGIN)
            await write_waiting(postgresql_url, "ready", range(number, number + 1))
            assert await claim_all() == 1
        assert await pages(bound.first_vt()) <= SLACK
        assert await pages(0) > 2 * SLACK
    await reader.close()
    await owner.close()
    await engine.close()


async def test_a_checkpoint_reads_no_other_leased_runs(postgresql_url: str) -> None:
    """Not with a plan that was made while hardly any run was leased either."""
    await write_waiting(postgresql_url, "leased", range(1))
    await write_waiting(postgresql_url, "parked", range(RUNS))
    worker: Any = await asyncpg.connect(postgresql_url)
    others: Any = await asyncpg.connect(postgresql_url)
    runs = [row_id("L", number) for number in range(20)]
    words, numbers = [""] * len(runs), [0] * len(runs)
    args = [[ORG] * len(runs), runs, [9] * len(runs), numbers, words, words, numbers, words, numbers]
    values = [words, "mark", [b""] * len(runs), words, words, None]
    places = ", ".join(f"${number}" for number in range(1, len(args) + len(values) + 1))
    statement = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM steward_checkpoint_runs({places})"

    async def pages() -> int:
        for _ in range(2):  # what planning reads of the catalogue does not count
            text = await worker.fetchval(statement, *args, *values)
        plan = json.loads(text)[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    few = await pages()
    await others.execute("SET session_replication_role = replica")
    columns = "org_id, automation_id, mode, status, queue, vt, worker_id, epoch, attempt, last_seq, leased_ms"
    columns += ", queued_at, automation_name, automation_version, template_id, template_version, started_by"
    await others.execute(
        f"INSERT INTO runs (id, {columns}) SELECT 'x' || n, {columns}"
        f" FROM runs, generate_series(1, {RUNS}) AS n WHERE queue = 'leased'"
    )
    assert await pages() <= few + 10 * SLACK
    await worker.close()
    await others.close()
