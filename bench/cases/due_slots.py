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
from bench.rounds import Case, Figure, Opened, Place, Round
from bench.service import House, open_house
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
        self._own = SystemClock()
        self.by = timedelta()

    def now(self) -> datetime:
        """The wall clock, ahead."""
        return self._own.now() + self.by

    def monotonic(self) -> float:
        """As the machine's."""
        return self._own.monotonic()

    async def sleep(self, seconds: float) -> None:
        """As the machine's."""
        await self._own.sleep(seconds)


@contextlib.asynccontextmanager
async def on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """The dispatch tick of one process."""

    async def reference() -> Mapping[str, float]:
        return {"R3": rows_a_second(place.folder)}

    async with _opened(f"sqlite:///{place.folder}/steward.db", place) as own:
        yield Opened(own, reference)


@contextlib.asynccontextmanager
async def on_postgres(place: Place) -> AsyncIterator[Opened]:
    """The dispatch tick of one process, one batch after the other."""
    assert place.postgres is not None
    async with fresh_database(place.postgres) as url:

        async def reference() -> Mapping[str, float]:
            assert place.programs is not None
            return {"R1": await inserts_a_second(place.programs, url, place.folder)}

        async with _opened(url, place) as own:
            yield Opened(own, reference)


@contextlib.asynccontextmanager
async def _opened(url: str, place: Place) -> AsyncIterator[Round]:
    clock = Ahead()
    # In tests alone the clock that is passed is the database's clock too.
    house = await open_house(url, place.folder, clock=clock, env="test")
    try:
        count = place.size(SCHEDULES, SCHEDULES // 10)
        await many.fill(url, clock.now(), count=count, orgs=ORGS[house.engine.dialect])
        yield partial(_round, house, clock)
    finally:
        await house.service.close()


async def _round(house: House, clock: Ahead) -> Mapping[str, float]:
    """The slots of some minutes, all due at once: each becomes a run in its free lane."""
    clock.by += timedelta(minutes=MINUTES)
    ctx, made = house.ctx, list[timedelta]()
    due = len(await house.read(partial(schedules.due, max_rows=SCHEDULES)))
    tick = partial(dispatch.dispatch_due, ctx.engine, rules=ctx.automation_rules, log=ctx.log)
    begun, cpu = time.perf_counter(), time.process_time()
    while await tick(clock.now(), delays=made):
        pass
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    if not 0 < due <= len(made):
        raise RuntimeError(f"{due} slots were due and {len(made)} runs were made")
    begun = time.perf_counter()
    await tick(clock.now())
    empty = time.perf_counter() - begun
    return {"slots": due / spent, "cpu": used / due * 1e6, "empty_poll": empty * 1000, "due": due}


@contextlib.asynccontextmanager
async def crowd_on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """One minute's slots, decided by one process; each round in a new file."""

    async def own() -> Mapping[str, float]:
        with tempfile.TemporaryDirectory(dir=place.folder) as folder:
            return await _decide_crowd(f"sqlite:///{folder}/steward.db", place)

    yield Opened(own)


@contextlib.asynccontextmanager
async def crowd_on_postgres(place: Place) -> AsyncIterator[Opened]:
    """One minute's slots, decided by one process over four connections; each round in a new database."""
    server = place.postgres
    assert server is not None

    async def own() -> Mapping[str, float]:
        async with fresh_database(server) as url:
            return await _decide_crowd(url, place)

    yield Opened(own)


async def _decide_crowd(url: str, place: Place) -> Mapping[str, float]:
    """Makes a run of every slot of one minute, each in its free lane."""
    clock, made = Ahead(), list[timedelta]()
    house = await open_house(url, place.folder, clock=clock, env="test")
    try:
        count = place.size(CROWD, CROWD // 10)
        await many.fill(url, clock.now(), count=count, orgs=ORGS[house.engine.dialect], minutes=1)
        due_at = await house.read(schedules.next_due)
        assert due_at is not None
        clock.by = due_at - clock.now() + timedelta(milliseconds=1)
        ctx = house.ctx
        tick = partial(dispatch.dispatch_due, ctx.engine, rules=ctx.automation_rules, log=ctx.log)
        begun, cpu = time.perf_counter(), time.process_time()
        while await tick(clock.now(), delays=made):
            pass
        spent, used = time.perf_counter() - begun, time.process_time() - cpu
    finally:
        await house.service.close()
    if len(made) != count:
        raise RuntimeError(f"{count} slots were due and {len(made)} runs were made")
    return {"seconds": spent, "cpu": used}


_SMALL = (
    Figure("cpu", "µs of the process per slot"),
    Figure("empty_poll", "ms", most=1),
    Figure("due", "slots a round"),
)
_CROWD = (
    Figure("seconds", "s until all are decided", most=10),
    Figure("cpu", "s of the process"),
)
CASES = (
    Case("due_slots_sqlite", (Figure("slots", "slots/s", "R3", least=14_000), *_SMALL), on_sqlite),
    Case(
        "due_slots_postgres",
        (Figure("slots", "slots/s", "R1", least=10_000), *_SMALL),
        on_postgres,
        needs_postgres=True,
    ),
    Case("due_minute_sqlite", _CROWD, crowd_on_sqlite),
    Case("due_minute_postgres", _CROWD, crowd_on_postgres, needs_postgres=True),
)
