"""Runs at a steady rate while other sessions keep transactions open, and without them (PostgreSQL)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import asyncpg

from bench import many
from bench.cases.five_steps import AUTOMATIONS, CALLERS, five_steps_round
from bench.postgres import fresh_database, server_cpu
from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import Bench, open_bench
from steward import periodic_tasks, worker
from steward.clock import Clock
from steward.database.engine.base import ms
from steward.model.automation import Automation

READERS = 3
READER_SECONDS = 60
# Daily schedules: about three a second are due, all of a minute at once.
SCHEDULES, ORGS = 250_000, 1000
# Runs by hand, as a part of the most that this machine finishes.
SHARE = 0.7
# Windows begin and end in the middle of a minute, when the slots that were due at its beginning have run.
WINDOW_STARTS_AT = 30
# Runs that are open at any moment of the load.
ALMOST_NONE = 20
_OPEN = "SELECT count(*) FROM runs WHERE queue IN ('ready', 'leased', 'blocked')"
_PAGES = "SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
_OLDEST_READER = """SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float
FROM pg_stat_activity WHERE application_name = 'long reader'"""
_ENDED = """SELECT count(*) AS runs,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY started_at - queued_at) AS start_p99
FROM runs WHERE status = 'succeeded' AND finished_at >= $1 AND finished_at < $2"""


@dataclass(frozen=True, slots=True)
class _Load:
    """The service with its worker, a session for the figures, and what is started how often."""

    bench: Bench
    url: str
    session: Any  # asyncpg has no types
    automations: Iterator[Automation]
    rate: float
    seconds: int

    async def start_runs(self) -> None:
        """Starts runs by hand at the rate, whether or not those before have ended."""
        clock = self.bench.service.clock
        begun, calls = clock.monotonic(), set[asyncio.Task[Any]]()
        for number in range(round(self.rate * self.seconds)):
            await clock.sleep(max(0.0, begun + number / self.rate - clock.monotonic()))
            calls.add(asyncio.create_task(self.bench.run_now(next(self.automations))))
            for call in [call for call in calls if call.done()]:
                calls.discard(call)
                await call
        await asyncio.gather(*calls)

    async def backlog(self) -> int:
        """How many runs are queued or being worked at."""
        return int(await self.session.fetchval(_OPEN))

    async def window(self) -> Mapping[str, float]:
        """The figures of a window of this load."""
        clock = self.bench.service.clock
        backlog, since = await self.backlog(), ms(clock.now())
        pages, cpu = await self.session.fetchval(_PAGES), await server_cpu(self.url)
        await self.start_runs()
        await clock.sleep(max(0.0, since / 1000 + self.seconds - clock.now().timestamp()))
        used, read = await server_cpu(self.url) - cpu, await self.session.fetchval(_PAGES) - pages
        ended = await self.session.fetchrow(_ENDED, since, since + self.seconds * 1000)
        return {
            "runs": ended["runs"] / self.seconds,
            "backlog": await self.backlog() - backlog,
            "pages": read / ended["runs"],
            "server_cpu": used / ended["runs"] * 1e6,
            "start_p99": ended["start_p99"],
            "oldest_reader": await self.session.fetchval(_OLDEST_READER),
        }

    async def settle(self) -> None:
        """Waits until earlier runs have ended, cleans the tables, and waits for the middle of a minute."""
        clock = self.bench.service.clock
        while await self.backlog() > ALMOST_NONE:
            await clock.sleep(1)
        await self.session.execute("VACUUM ANALYZE")
        await clock.sleep((WINDOW_STARTS_AT - clock.now().timestamp()) % 60)


@contextlib.asynccontextmanager
async def _opened(env: Env) -> AsyncIterator[OpenCase]:
    """One process with API and worker; a window with readers follows one without them."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url:
        bench = await open_bench(url, env.folder)
        clock = bench.service.clock
        session: Any = await asyncpg.connect(url)
        await many.fill(url, clock.now(), count=SCHEDULES, orgs=ORGS)
        automations = await bench.automations(AUTOMATIONS)
        own_worker = await bench.worker()
        stop = asyncio.Event()
        working = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))
        try:
            fastest_round = await five_steps_round(bench, automations, env.size(3000, 1000), CALLERS)
            load = _Load(
                bench,
                url,
                session,
                cycle(automations),
                SHARE * fastest_round["runs"],
                env.size(180, READER_SECONDS),
            )

            async def quiet() -> Mapping[str, float]:
                await load.settle()
                return {f"quiet {name}": value for name, value in (await load.window()).items()}

            async def with_readers() -> Mapping[str, float]:
                await load.settle()
                async with _readers(url, clock):
                    return await load.window()

            yield OpenCase(with_readers, quiet)
        finally:
            stop.set()
            await working
            await session.close()
            await bench.service.close()


@contextlib.asynccontextmanager
async def _readers(url: str, clock: Clock) -> AsyncIterator[None]:
    """Sessions whose transactions overlap, so that one is always open."""
    readers = [
        asyncio.create_task(_read_on(url, clock, number * READER_SECONDS / READERS))
        for number in range(READERS)
    ]
    try:
        yield
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
    for reader in readers:
        if not reader.cancelled():
            reader.result()


async def _read_on(url: str, clock: Clock, begins_after: float) -> None:
    """Opens one long transaction after the other until it is cancelled."""
    await clock.sleep(begins_after)
    session: Any = await asyncpg.connect(url, server_settings={"application_name": "long reader"})
    try:
        while True:
            async with session.transaction(isolation="repeatable_read"):
                await session.fetchval("SELECT count(*) FROM workers")
                await clock.sleep(READER_SECONDS)
    finally:
        session.terminate()


CASES = (
    Case(
        "long_readers",
        (
            Figure("runs", "runs/s", "quiet runs", ratio=0.9),
            Figure("backlog", "runs more at the end of a window", maximum=50),
            Figure("pages", "pages of the database a run", "quiet pages"),
            Figure("server_cpu", "µs of the server a run", "quiet server_cpu"),
            Figure("start_p99", "ms from queued to begun", "quiet start_p99"),
            Figure("oldest_reader", "s"),
        ),
        _opened,
        needs_postgres=True,
    ),
)
