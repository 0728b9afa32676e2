"""Counts of what waits end at their cap, and so does what is read for them; on both engines."""

from functools import partial
from typing import Any, cast

from steward.database.engine.base import Engine, from_ms
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.operator import gauges
from steward.database.operator import status as stats
from steward.database.operator.gauges import WaitingRuns
from steward.model.ids import OrgId
from tests.fake_clock import FakeClock
from tests.growth.counting import CountingEngine
from tests.growth.waiting import ORG, QUEUES, write_waiting

CAP = 50
# A page of an index more to descend, and what the server reads to set up a function.
SHARE, SLACK = 1.2, 60


async def test_counts_end_at_their_cap(engine: Engine, clock: FakeClock, database_url: str) -> None:
    """At the cap a count is exact, and one past it it is the cap; the oldest is among those counted."""
    oldest = from_ms(1_000)

    async def counted(cap: int) -> list[WaitingRuns]:
        act = partial(gauges.queues, cap=cap)
        return sorted(
            await engine.read(clock.now(), act), key=lambda waiting: list(QUEUES).index(waiting.queue)
        )

    async def of_status(cap: int) -> int:
        org = OrgId(ORG)
        counts = await engine.read(clock.now(), partial(stats.counts, org=org, cap=cap), org=org)
        return counts.queued_runs

    for queue in QUEUES:
        if queue != "blocked":
            await write_waiting(database_url, queue, range(3))
    others = [WaitingRuns(queue, 3, oldest) for queue in QUEUES if queue != "blocked"]
    assert await counted(3) == [*others, WaitingRuns("blocked", 0, None)]
    assert [waiting.count for waiting in await counted(2)] == [2, 2, 2, 2, 0]
    assert [await of_status(cap) for cap in (4, 3, 2)] == [3, 3, 2]
    await write_waiting(database_url, "blocked", range(3))
    assert await counted(6) == [*others, WaitingRuns("blocked", 3, oldest)]
    assert [await of_status(cap) for cap in (7, 6, 5)] == [6, 6, 5]


async def test_counts_read_no_more_rows_beyond_their_cap(
    engine: Engine, clock: FakeClock, database_url: str
) -> None:
    """The figures of the queue and the counts of the status read as much of 200 runs a state as of 1,500."""
    counting = CountingEngine(engine, str(sqlite_path(database_url)) if is_sqlite(database_url) else None)
    org = OrgId(ORG)

    async def costs() -> dict[str, int]:
        acts: dict[str, Any] = {
            "queues": partial(gauges.queues, cap=CAP),
            "closed": partial(gauges.closed, cap=CAP),
            "counts": partial(stats.counts, org=org, cap=CAP),
        }
        read = {}
        for name, act in acts.items():
            counting.take()
            await cast("Engine", counting).read(clock.now(), act, org=org)
            read[name] = counting.take()
        return read

    for queue in QUEUES:
        await write_waiting(database_url, queue, range(200))
    few = await costs()
    for queue in QUEUES:
        await write_waiting(database_url, queue, range(200, 1_500))
    many = await costs()
    counting.close_own()
    assert {name: (few[name], cost) for name, cost in many.items() if cost > SHARE * few[name] + SLACK} == {}
    assert min(few.values()) > 0
