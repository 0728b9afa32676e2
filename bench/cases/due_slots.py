"""Due slots a second out of a million schedules: each decided, advanced and made a run."""

import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from functools import partial

from bench import many
from bench.postgres import fresh_database
from bench.references import inserts_a_second, rows_a_second
from bench.rounds import Case, Env, Figure, OpenCase, Round
from bench.service import Bench, open_bench
from steward.clock import SystemClock
from steward.database.automations import schedules
from steward.runs import dispatch

SCHEDULES = 1_000_000
# The embedded database serves a few organizations, a server many.
ORGS = {"sqlite": 10, "postgresql": 1000}
# Slots of this many minutes are due at once: less than the ten after which they would be too late.
MINUTES = 8
# As many are due in one and the same minute.
CROWD = 60_000


class Ahead:
    """The machine's clock, moved ahead so that what was set up now is due now."""

    def __init__(self) -> None:
        self._system_clock = SystemClock()
        self.by = timedelta()

    def now(self) -> datetime:
        """The wall clock, ahead."""
        return self._system_clock.now() + self.by

    def monotonic(self) -> float:
        """As the machine's."""
        return self._system_clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """As the machine's."""
        await self._system_clock.sleep(seconds)


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The dispatch tick of one process."""

    async def reference() -> Mapping[str, float]:
        return {"R3": rows_a_second(env.folder)}

    async with _opened(f"sqlite:///{env.folder}/steward.db", env) as subject:
        yield OpenCase(subject, reference)


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """The dispatch tick of one process, one batch after the other."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url:

        async def reference() -> Mapping[str, float]:
            assert env.programs is not None
            return {"R1": await inserts_a_second(env.programs, url, env.folder)}

        async with _opened(url, env) as subject:
            yield OpenCase(subject, reference)


@contextlib.asynccontextmanager
async def _opened(url: str, env: Env) -> AsyncIterator[Round]:
    clock = Ahead()
    # In tests alone the clock that is passed is the database's clock too.
    bench = await open_bench(url, env.folder, clock=clock, env="test")
    try:
        count = env.size(SCHEDULES, SCHEDULES // 10)
        await many.fill(url, clock.now(), count=count, orgs=ORGS[bench.engine.dialect])
        yield partial(_round, bench, clock)
    finally:
        await bench.service.close()


async def _round(bench: Bench, clock: Ahead) -> Mapping[str, float]:
    """The slots of some minutes, all due at once: each becomes a run in its free lane."""
    clock.by += timedelta(minutes=MINUTES)
    ctx, delays = bench.ctx, list[timedelta]()
    due = len(await bench.read(partial(schedules.due, max_rows=SCHEDULES)))
    tick = partial(dispatch.dispatch_due, ctx.engine, rules=ctx.automation_rules, log=ctx.log)
    begun, cpu = time.perf_counter(), time.process_time()
    while await tick(clock.now(), delays=delays):
        pass
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    if not 0 < due <= len(delays):
        raise RuntimeError(f"{due} slots were due and {len(delays)} runs were made")
    begun = time.perf_counter()
    await tick(clock.now())
    empty = time.perf_counter() - begun
    return {"slots": due / spent, "cpu": used / due * 1e6, "empty_poll": empty * 1000, "due": due}


@contextlib.asynccontextmanager
async def crowd_on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """One minute's slots, decided by one process; each round in a new file."""

    async def subject() -> Mapping[str, float]:
        with tempfile.TemporaryDirectory(dir=env.folder) as folder:
            return await _decide_crowd(f"sqlite:///{folder}/steward.db", env)

    yield OpenCase(subject)


@contextlib.asynccontextmanager
async def crowd_on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """One minute's slots, decided by one process over four connections; each round in a new database."""
    server = env.postgres
    assert server is not None

    async def subject() -> Mapping[str, float]:
        async with fresh_database(server) as url:
            return await _decide_crowd(url, env)

    yield OpenCase(subject)


async def _decide_crowd(url: str, env: Env) -> Mapping[str, float]:
    """Makes a run of every slot of one minute, each in its free lane."""
    clock, delays = Ahead(), list[timedelta]()
    bench = await open_bench(url, env.folder, clock=clock, env="test")
    try:
        count = env.size(CROWD, CROWD // 10)
        await many.fill(url, clock.now(), count=count, orgs=ORGS[bench.engine.dialect], minutes=1)
        due_at = await bench.read(schedules.next_due)
        assert due_at is not None
        clock.by = due_at - clock.now() + timedelta(milliseconds=1)
        ctx = bench.ctx
        tick = partial(dispatch.dispatch_due, ctx.engine, rules=ctx.automation_rules, log=ctx.log)
        begun, cpu = time.perf_counter(), time.process_time()
        while await tick(clock.now(), delays=delays):
            pass
        spent, used = time.perf_counter() - begun, time.process_time() - cpu
    finally:
        await bench.service.close()
    if len(delays) != count:
        raise RuntimeError(f"{count} slots were due and {len(delays)} runs were made")
    return {"seconds": spent, "cpu": used}


_SMALL = (
    Figure("cpu", "µs of the process per slot"),
    Figure("empty_poll", "ms", maximum=1),
    Figure("due", "slots a round"),
)
_CROWD = (
    Figure("seconds", "s until all are decided", maximum=10),
    Figure("cpu", "s of the process"),
)
CASES = (
    Case("due_slots_sqlite", (Figure("slots", "slots/s", "R3", minimum=14_000), *_SMALL), on_sqlite),
    Case(
        "due_slots_postgres",
        (Figure("slots", "slots/s", "R1", minimum=10_000), *_SMALL),
        on_postgres,
        needs_postgres=True,
    ),
    Case("due_minute_sqlite", _CROWD, crowd_on_sqlite),
    Case("due_minute_postgres", _CROWD, crowd_on_postgres, needs_postgres=True),
)
