"""Tests batched writes on PostgreSQL: one that waits or fails does not affect the others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from steward.database.accounts import idempotency
from steward.database.engine.base import Batchable, NeedsSlowPath, Tx
from steward.database.engine.migrate import is_sqlite
from steward.model.automation import Automation
from steward.model.refusals import KeyReused
from steward.model.run import RunStatus
from steward.runs.start import StartedRun
from tests.fake_clock import FakeClock
from tests.occurrences.interleaving import BLOCKED
from tests.runs.shop import Shop, connect_all, open_shop

SPLIT = "steward_commit_batches_split_total"


@pytest.fixture
async def logging_shop(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Provides a service on PostgreSQL that logs warnings."""
    if is_sqlite(database_url):
        pytest.skip("SQLite has one writer, and no rows to lock")
    opened = await open_shop(database_url, clock, tmp_path, STEWARD_LOG_LEVEL="warning")
    await connect_all(opened)
    yield opened
    await opened.service.close()


async def _insert_key(tx: Tx, shop: Shop, key: str, other: Automation) -> None:
    """Stores the run-now key for another automation; the next user of the key waits for this transaction."""
    keep = partial(idempotency.store, object_id="unused", automation=other.id, request_sha256="0" * 64)
    assert await keep(tx, shop.owner.org, "run", key=key)


async def test_a_call_that_waits_and_then_fails_holds_up_no_other(
    logging_shop: Shop, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other runs go on while one batch waits.

    When it fails, only the failing write gets the error, the others are repeated one by one, and the operator
    is told. See docs/design/storage.md#group-commit.
    """
    shop, watcher = logging_shop, await asyncpg.connect(database_url)
    late, beside, free = [await shop.hiding(threshold=5) for _ in range(3)]

    async def hold(tx: Tx) -> list["asyncio.Task[StartedRun]"]:
        await _insert_key(tx, shop, "taken", beside)
        requests = [(late, "taken"), (beside, "own")]
        waiting = [asyncio.create_task(shop.started(automation, key=key)) for automation, key in requests]
        while not await watcher.fetchval(BLOCKED):
            assert not waiting[0].done()
        ended = await asyncio.wait_for(shop.run_and_drain(free), 60)
        assert ended.status is RunStatus.WAITING_APPROVAL
        assert not any(task.done() for task in waiting)
        return waiting

    refused, started_run = await asyncio.gather(*await shop.write(hold), return_exceptions=True)
    assert isinstance(refused, KeyReused)
    assert isinstance(started_run, StartedRun)
    assert await shop.run(started_run.run) == started_run.run
    assert shop.service.metrics.value(SPLIT, kind="start") == 1
    [line] = [line for line in capsys.readouterr().out.splitlines() if "batch_split" in line]
    assert '"kind": "start"' in line
    assert '"reason": "RaiseError"' in line
    assert "taken" not in line
    await watcher.close()


async def _alone(tx: Tx, item: int) -> int:
    return item


async def _refused(tx: Tx, items: Sequence[int]) -> Sequence[int]:
    raise NeedsSlowPath


async def test_repeated_failures_are_counted_and_logged_once_a_minute(
    logging_shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every split batch is counted, and logged at most once a minute (docs/guides/operators.md)."""

    async def failing() -> int:
        act = Batchable(1, _alone, _refused, autocommit=True)
        assert await logging_shop.engine.write(logging_shop.clock.now(), act) == 1
        return capsys.readouterr().out.count("batch_split")

    assert [await failing(), await failing()] == [1, 0]
    logging_shop.clock.tick(59.9)
    assert await failing() == 0
    logging_shop.clock.tick(0.1)
    assert await failing() == 1
    assert logging_shop.service.metrics.value(SPLIT, kind="test_shared_calls") == 4
