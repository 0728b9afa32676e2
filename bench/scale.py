"""`make scale`: what schedules cost on PostgreSQL, as the table and drawing of the operators' guide."""

import argparse
import asyncio
import contextlib
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from bench import many, postgres
from bench.cases.due_slots import MINUTES, Ahead
from bench.service import Bench, open_bench, wire
from steward import periodic_tasks
from steward.database.automations import lists, schedules
from steward.model.ids import OrgId
from steward.runs import dispatch

PAGE, PAGES, PASSES = 50, 300, 100
# As many automations in each organization, and slots of so many schedules in a minute.
OF_AN_ORG, OF_A_MINUTE = 100, 250
BAR = 40  # characters of the widest bar


@dataclass(frozen=True, slots=True)
class Decade:
    """The cost of a number of schedules: bytes of one, milliseconds, and due slots decided in a second."""

    count: int
    bytes_each: float
    empty_pass_ms: float
    gauges_ms: float
    page_ms: float
    slots_s: float
    start_s: float


ROWS: tuple[tuple[str, Callable[[Decade], float], str], ...] = (
    ("disk of a schedule with its automation, bytes", lambda decade: decade.bytes_each, "{:,.0f}"),
    ("pass of the dispatcher that finds nothing, ms", lambda decade: decade.empty_pass_ms, "{:.2f}"),
    ("due slots decided by one process, a second", lambda decade: decade.slots_s, "{:,.0f}"),
    ("page of 50 automations, ms", lambda decade: decade.page_ms, "{:.1f}"),
    ("gauges of the metrics, ms", lambda decade: decade.gauges_ms, "{:.1f}"),
    ("start of a process, s", lambda decade: decade.start_s, "{:.2f}"),
)


def main() -> None:
    """Measures each decade from 1,000 up to `--most` schedules and prints table and drawing."""
    parser = argparse.ArgumentParser(prog="make scale", description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, help="schedules of the last decade")
    max_count = parser.parse_args().most
    if max_count < 1_000:
        parser.error("--most is at least 1000")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster and the folders go too
    with postgres.cluster() as server:
        if server is None:
            parser.error("there is no PostgreSQL on this machine: make postgres")
        decades = []
        for count in counts(max_count):
            print(f"{count:,} schedules …", file=sys.stderr, flush=True)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                decades.append(runner.run(measure(server[0], count)))
    print(table(decades), drawing(decades), sep="\n\n")


def counts(max_count: int) -> list[int]:
    """Returns 1,000 and its tenfolds up to `max_count`."""
    return [1_000 * 10**power for power in range(9) if 1_000 * 10**power <= max_count]


async def measure(server: str, count: int) -> Decade:
    """Fills a database with so many schedules and measures each figure once, as medians of many passes."""
    clock = Ahead()
    async with _filled(server, count, clock) as (bench, url, folder, bytes_each):
        hired = await bench.worker()
        tick = partial(
            dispatch.dispatch_due, bench.engine, rules=bench.ctx.automation_rules, log=bench.ctx.log
        )
        empty = await _times(PASSES, lambda _: tick(clock.now()))
        gauges = await _times(PASSES // 10, lambda _: periodic_tasks.export_gauges(hired))
        orgs = count // OF_AN_ORG
        pages = await _times(PAGES, lambda n: _page(bench, OrgId(many.FIRST_ORG + n * 7_919 % orgs)))
        start = await _start(url, folder, clock)
        slots_s = await _decide(bench, clock, tick)
        return Decade(
            count,
            bytes_each,
            statistics.median(empty) * 1000,
            statistics.median(gauges) * 1000,
            statistics.median(pages) * 1000,
            slots_s,
            start,
        )


@contextlib.asynccontextmanager
async def _filled(server: str, count: int, clock: Ahead) -> AsyncIterator[tuple[Bench, str, Path, float]]:
    """Opens a service over a new database with so many schedules; also yields the bytes of each."""
    with tempfile.TemporaryDirectory(prefix="steward-scale-") as name:
        folder = Path(name)
        async with postgres.fresh_database(server) as url:
            bench = await open_bench(url, folder, clock=clock, env="test")
            try:
                before = await _bytes(url)
                minutes = min(many.MINUTES, count // OF_A_MINUTE)
                orgs = count // OF_AN_ORG
                await many.fill(url, clock.now(), count=count, orgs=orgs, minutes=minutes)
                yield bench, url, folder, (await _bytes(url) - before) / count
            finally:
                await bench.service.close()


async def _bytes(url: str) -> int:
    connection: Any = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT pg_database_size(current_database())"))
    finally:
        await connection.close()


async def _times(passes: int, act: Callable[[int], Awaitable[object]]) -> list[float]:
    """Returns the seconds of each pass; a first tenth of them warms caches and plans."""
    seconds = []
    for number in range(-passes // 10, passes):
        begun = time.perf_counter()
        await act(number)
        seconds.append(time.perf_counter() - begun)
    return seconds[-passes:]


async def _page(bench: Bench, org: OrgId) -> None:
    act = partial(lists.find, org=org, query=lists.AutomationFilter(), sort=lists.Sort.NAME, limit=PAGE)
    page = await bench.engine.read(bench.service.clock.now(), act, org=org)
    if len(page.automations) != PAGE:
        raise RuntimeError(f"a page has {len(page.automations)} automations")


async def _start(url: str, folder: Path, clock: Ahead) -> float:
    """Returns the seconds in which another process's service is wired and has a worker."""
    begun = time.perf_counter()
    bench = await wire(url, folder, clock=clock, env="test")
    await bench.worker()
    seconds = time.perf_counter() - begun
    await bench.service.close()
    return seconds


async def _decide(bench: Bench, clock: Ahead, tick: Callable[..., Awaitable[bool]]) -> float:
    """Returns the slots a second that one process decides when those of some minutes are due at once."""
    due_at = await bench.read(schedules.next_due)
    assert due_at is not None
    clock.by = due_at - clock.now() + timedelta(minutes=MINUTES)
    delays: list[timedelta] = []
    begun = time.perf_counter()
    while await tick(clock.now(), delays=delays):
        pass
    if not delays:
        raise RuntimeError("no slot was due")
    return len(delays) / (time.perf_counter() - begun)


def table(decades: Sequence[Decade]) -> str:
    """Returns a Markdown table with a column for each decade."""
    lines = [
        "| Schedules | " + " | ".join(f"{decade.count:,}" for decade in decades) + " |",
        "| - |" + " -: |" * len(decades),
    ]
    lines += [
        f"| {name} | " + " | ".join(text.format(of(decade)) for decade in decades) + " |"
        for name, of, text in ROWS
    ]
    return "\n".join(lines)


def drawing(decades: Sequence[Decade]) -> str:
    """Returns bars of each figure by decade, relative to the largest of the figure."""
    lines = []
    for name, of, text in ROWS:
        largest = max(map(of, decades))
        lines.append(name)
        for decade in decades:
            bar = "█" * max(1, round(of(decade) / largest * BAR))
            lines.append(f"{decade.count:>12,}  {bar:<{BAR}}  {text.format(of(decade))}")
    return "\n".join(["```text", *lines, "```"])


if __name__ == "__main__":
    main()
