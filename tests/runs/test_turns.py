"""Tests how little PostgreSQL reads of ended runs while a transaction keeps their dead rows."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from steward.model.run import Run, RunStatus
from steward.runs import finish
from steward.runs.finish import FinishRequest, RunEnd
from tests.fake_clock import FakeClock
from tests.occurrences.interleaving import BLOCKED, LOOK_S
from tests.runs.shop import Shop, connect_all, open_shop

ROUNDS = 40
PAGES = 20  # what one look at the queue may read; each run leaves four dead rows and as many index entries


@pytest.fixture
async def shop(postgresql_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Provides a connected shop on PostgreSQL."""
    opened = await open_shop(postgresql_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


_COUNT_WAITING = "SELECT steward_count_waiting(ARRAY[$1::bigint], ARRAY[$2::text], ARRAY[$3::bigint], 1000)"


async def _end(shop: Shop, run: Run) -> None:
    """Claims, begins and ends a run that is ready."""
    claimed = await shop.begun((await shop.claimed())[run.id])
    assert claimed is not None
    ctx = shop.service.worker_context
    end = RunEnd(RunStatus.SUCCEEDED, message=None, summary={"text": "Done."}, result={"seen": 1})
    request = FinishRequest(claimed.lease, end, run.automation_id, run.mode, ctx.automation_rules)
    await finish.end_run(ctx.engine, shop.clock.now(), request)


async def _pages(session: Any, statement: str, *args: object) -> int:
    """Returns how many pages a statement reads, without those of the catalogue; rolls back what it writes."""
    for _ in range(2):  # the first time reads the catalogue too
        transaction = session.transaction()
        await transaction.start()
        text = await session.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *args)
        await transaction.rollback()
    plan = json.loads(text)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_lookups_in_the_queue_read_no_ended_runs(shop: Shop, postgresql_url: str) -> None:
    """Counting waiting runs, and checking for an active run when one is promoted, read no ended runs."""
    automation = await shop.hiding()
    reader: Any = await asyncpg.connect(postgresql_url)
    owner: Any = await asyncpg.connect(postgresql_url)

    async with reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("SELECT count(*) FROM runs")
        next_run = await shop.run_now(automation)
        for _ in range(ROUNDS):
            run, next_run = next_run, await shop.run_now(automation)
            await _end(shop, run)
            shop.clock.tick(1)
        await owner.execute("SET plan_cache_mode = force_generic_plan")
        turn = await owner.fetchval("SELECT turn FROM runs WHERE id = $1", next_run.id)
        assert turn == ROUNDS
        key = (int(shop.owner.org), str(automation.id))
        assert await _pages(owner, _COUNT_WAITING, *key, turn) <= PAGES
        async with owner.transaction():
            await owner.execute("SET LOCAL enable_seqscan = off")
            # Not a heap-only update, since the stamp is part of an index: every unique index is checked.
            moved = "UPDATE runs SET vt = vt + 1 WHERE org_id = $1 AND id = $2"
            assert await _pages(owner, moved, key[0], str(next_run.id)) <= 4 * PAGES
    await reader.close()
    await owner.close()


_OTHERS = (
    "INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq, turn,"
    " leased_ms, queued_at, automation_name, automation_version, template_id, template_version, started_by)"
    " SELECT 1000 + n, 'other' || n, 'other' || n, 'live', 'queued', 'ready', n, 0, 1, 0, 1,"
    " 0, n, 'Other', 1, template_id, 1, 'hand' FROM runs, generate_series(1, 3000) AS n WHERE runs.id = $1"
)


async def test_no_other_index_finds_active_runs(shop: Shop, postgresql_url: str) -> None:
    """Without `runs_active` all runs are read, even where statistics promise one run an automation.

    A plan that took an index of all runs of an automation would read each of them at every start.
    """
    automation = await shop.hiding()
    active = await shop.run_now(automation)
    key = (int(shop.owner.org), str(automation.id), 0)
    owner: Any = await asyncpg.connect(postgresql_url)
    await owner.execute("SET plan_cache_mode = force_generic_plan")
    await owner.execute("SET session_replication_role = replica")
    await owner.execute(_OTHERS, str(active.id))
    await owner.execute("ANALYZE runs")
    table = await owner.fetchval("SELECT relpages FROM pg_class WHERE relname = 'runs'")
    assert table > 3 * PAGES
    assert await _pages(owner, _COUNT_WAITING, *key) <= PAGES
    await owner.execute("DROP INDEX runs_active")
    assert await _pages(owner, _COUNT_WAITING, *key) >= table
    await owner.close()


_FINISH = (
    "SELECT n FROM steward_finish_runs(ARRAY[$1::bigint], ARRAY[$2], ARRAY[$3::bigint], ARRAY[$4],"
    " ARRAY[true], ARRAY[NULL], ARRAY[NULL], ARRAY[NULL], ARRAY[NULL::bigint], ARRAY[NULL], ARRAY[NULL],"
    " ARRAY[NULL::bigint], ARRAY[NULL], ARRAY[NULL::bigint], ARRAY[NULL], '', ARRAY[NULL::bytea],"
    " ARRAY[NULL], ARRAY[NULL], NULL)"
)
_BLOCKED_OTHERS = _OTHERS.replace("1000 + n", "org_id").replace("'ready', n, 0", "'blocked', 0, 0")


async def test_promoting_a_run_reads_no_blocked_runs_of_other_automations(
    shop: Shop, postgresql_url: str
) -> None:
    """Ending a run finds the next one by its key, also with a plan that expects few blocked runs."""
    automation = await shop.hiding()
    active, blocked = await shop.run_now(automation), await shop.run_now(automation)
    claimed = await shop.begun((await shop.claimed())[active.id])
    assert claimed is not None
    owner: Any = await asyncpg.connect(postgresql_url)
    await owner.execute("SET session_replication_role = replica")
    await owner.execute(_BLOCKED_OTHERS, str(active.id))
    lease = claimed.lease
    arguments = (int(lease.org), str(lease.run), lease.epoch, str(automation.id))
    assert await _pages(owner, _FINISH, *arguments) <= 4 * PAGES
    assert await owner.fetchval(_FINISH, *arguments) == 1
    assert await owner.fetchval("SELECT queue FROM runs WHERE id = $1", str(blocked.id)) == "ready"
    await owner.close()


async def test_runs_are_found_by_their_key_while_their_table_is_young(
    shop: Shop, postgresql_url: str
) -> None:
    """Without statistics, the planner takes the primary key and no index of an automation's runs."""
    automation = await shop.hiding()
    await shop.run_now(automation)
    owner: Any = await asyncpg.connect(postgresql_url)
    await owner.execute("SET plan_cache_mode = force_generic_plan")
    await owner.execute("SET enable_seqscan = off")
    lookup = "EXPLAIN (FORMAT JSON) UPDATE runs SET epoch = 1 WHERE org_id = $1 AND id = $2 AND epoch = $3"
    plan = json.loads(await owner.fetchval(lookup, 1, "", 1))[0]["Plan"]
    assert plan["Plans"][0]["Index Name"] == "runs_pkey"
    await owner.close()


async def test_a_blocked_run_is_never_queued_before_the_active_one(shop: Shop) -> None:
    """A blocked run gets the active run's `queued_at` if a clock was set back; the search starts there."""
    automation = await shop.hiding()
    active = await shop.run_now(automation)
    shop.clock.jump(-10)
    blocked = [await shop.run_now(automation) for _ in range(2)]
    assert [run.queued_at for run in blocked] == [active.queued_at] * 2
    assert [(await shop.run(run)).queued_at for run in blocked] == [active.queued_at] * 2
    for run in (active, *sorted(blocked, key=lambda run: run.id)):
        await _end(shop, run)


_BEGIN = (
    "SELECT n FROM steward_begin_runs(ARRAY[$1::bigint], ARRAY[$2], ARRAY[$3::bigint], ARRAY[$4],"
    " ARRAY[true], ARRAY[''::bytea], NULL)"
)
_PROMOTE = "UPDATE runs SET queue = 'ready', vt = 1 WHERE id = $1"
_START = (
    "INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,"
    " leased_ms, queued_at, automation_name, automation_version, template_id, template_version, started_by)"
    " SELECT org_id, 'another' || right(id, 19), automation_id, mode, status, 'ready', 1, 0, 1, 0,"
    " 0, queued_at, automation_name, automation_version, template_id, template_version, started_by"
    " FROM runs WHERE id = $1"
)


@pytest.mark.parametrize("statement", [_START, _PROMOTE], ids=["started", "promoted"])
async def test_a_second_active_run_is_refused_while_the_first_begins(
    shop: Shop, postgresql_url: str, statement: str
) -> None:
    """`runs_active` refuses a second active run from a statement that has not locked the queue."""
    automation = await shop.hiding()
    active, blocked = await shop.run_now(automation), await shop.run_now(automation)
    lease = (await shop.claimed())[active.id]
    beginning, second, watching = [await asyncpg.connect(postgresql_url) for _ in range(3)]
    transaction = beginning.transaction()
    await transaction.start()
    begun = (int(shop.owner.org), str(active.id), lease.epoch, str(automation.id))
    assert len(await beginning.fetch(_BEGIN, *begun)) == 1
    activation = asyncio.create_task(second.execute(statement, str(blocked.id)))
    while not activation.done() and not await watching.fetchval(BLOCKED):
        await asyncio.wait({activation}, timeout=LOOK_S)
    await transaction.commit()
    with pytest.raises(asyncpg.UniqueViolationError, match="runs_active"):
        await activation
    for connection in (beginning, second, watching):
        await connection.close()
