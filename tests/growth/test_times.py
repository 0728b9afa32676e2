"""How long each read takes over HTTP in an organization with many runs, beside one with a thousand."""

import os
import statistics

import pytest

from steward.clock import SystemClock
from steward.database.engine.base import Engine
from tests.fake_clock import FakeClock
from tests.growth.test_reads import READS, SHORT, Reads, label, open_reads

ROWS = int(os.environ.get("GROWTH_TIMES", "0"))
CALLS = 9
AT_ONCE = 100_000  # rows that are written together
# The bar: at most twice the time with a thousand runs, or this many milliseconds.
TWICE, MIN_MS = 2.0, 10.0
CLOCK = SystemClock()
MEASURE = min if "GROWTH_FASTEST" in os.environ else statistics.median


async def medians(reads: Reads, rows: int) -> dict[tuple[str, str], float]:
    """Returns the median of some calls of each operation and filter, in milliseconds.

    With `GROWTH_FASTEST` it is the fastest of them, to which other work on the machine adds least.
    """
    taken = {}
    for operation in READS:
        for query in reads.queries(operation, rows):
            if reads.is_bounded(operation, query):
                continue
            times = []
            for _ in range(CALLS):
                began = CLOCK.monotonic()
                response = await reads.callers[operation.path.startswith("/app")].get(
                    reads.path(operation), **query
                )
                times.append((CLOCK.monotonic() - began) * 1000)
                assert response.status == 200, (operation.path, query, response.body)
            taken[label(operation, query)] = MEASURE(times)
    return taken


@pytest.mark.skipif(not ROWS, reason="GROWTH_TIMES=1000000 writes that many runs and takes times")
async def test_reads_are_as_fast_with_many_runs_as_with_a_thousand(
    engine: Engine, clock: FakeClock, database_url: str
) -> None:
    """Answers each list, filter, far page and record within twice the time, or within 10 ms."""
    reads = await open_reads(engine, clock, database_url, ROWS)
    await reads.history.write(database_url, range(SHORT))
    short = await medians(reads, SHORT)
    for first in range(SHORT, ROWS, AT_ONCE):
        await reads.history.write(database_url, range(first, min(first + AT_ONCE, ROWS)))
    long = await medians(reads, ROWS)
    reads.engine.close_own()
    await reads.two.service.close()
    slowest = sorted(long, key=lambda call: -long[call])[:10]
    print(f"{engine.dialect}: {len(long)} reads, {ROWS:,} runs; the slowest:")
    print("\n".join(f"{' '.join(call)}: {short[call]:.1f} -> {long[call]:.1f} ms" for call in slowest))
    slower = {
        call: (round(short[call], 1), round(ms, 1))
        for call, ms in long.items()
        if ms > max(TWICE * short[call], MIN_MS)
    }
    assert not slower, "\n".join(f"{call}: {times}" for call, times in slower.items())
