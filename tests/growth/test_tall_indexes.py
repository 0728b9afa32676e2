"""PostgreSQL reads lists of runs from the index for them, even where another index has fewer levels."""

from dataclasses import replace
from typing import cast

import asyncpg
import pytest

from steward.api.http.operation import Operation
from steward.database.engine.base import Engine
from steward.database.engine.postgres import PostgresEngine
from tests.authz.two_organizations import PREFIX
from tests.fake_clock import FakeClock
from tests.growth.history import RARE
from tests.growth.test_reads import READS, SHARE, SHORT, SLACK, Reads, label, open_reads

LONG = 4 * SHORT
INDEXES = ("runs_by_kind", "runs_of_automation", "runs_of_store")
PATHS = {f"{PREFIX}/runs", "/app/runs", "/app/overview", "/app/automations/strips"}
OPERATIONS = [operation for operation in READS if operation.path in PATHS]


async def _costs(reads: Reads, operations: list[Operation]) -> dict[tuple[str, str], int]:
    return {
        label(operation, query): await reads.cost(operation, query)
        for operation in operations
        for query in reads.queries(operation)
    }


async def _make_tall(url: str) -> None:
    """Fills each page of the narrow indexes to a tenth, so that they get the levels of a million runs."""
    connection = await asyncpg.connect(url)
    for name in INDEXES:
        await connection.execute(f"ALTER INDEX {name} SET (fillfactor = 10)")
        await connection.execute(f"REINDEX INDEX {name}")
    await connection.execute("ANALYZE runs")
    await connection.close()


@pytest.mark.parametrize("first", [0, RARE], ids=["some of each kind", "all of one kind"])
async def test_reads_of_runs_do_not_walk_the_history(
    first: int, postgresql_url: str, clock: FakeClock
) -> None:
    """Reads no more for a long history, even where the planner expects more runs of a kind than there are."""
    engine = await PostgresEngine.open(postgresql_url, size=4, clock=clock, test=True)
    reads = await open_reads(engine, clock, postgresql_url, LONG)
    service = reads.two.service
    service.context = replace(service.context, engine=cast("Engine", reads.engine))
    service.restart()
    try:
        await reads.history.write(postgresql_url, range(first, SHORT))
        short = await _costs(reads, OPERATIONS)
        await reads.history.write(postgresql_url, range(SHORT, LONG))
        await _make_tall(postgresql_url)
        long = await _costs(reads, OPERATIONS)
    finally:
        await service.close()
        await engine.close()
    slack = SLACK[engine.dialect]
    dearer = {call: (short[call], cost) for call, cost in long.items() if cost > SHARE * short[call] + slack}
    assert not dearer, "\n".join(f"{call}: {costs}" for call, costs in dearer.items())
