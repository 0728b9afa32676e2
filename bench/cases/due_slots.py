"""Due slots a second: many schedules due in one minute, each decided, advanced and made a run."""

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from functools import partial

from bench.postgres import fresh_database
from bench.references import inserts_a_second, rows_a_second
from bench.rounds import Case, Figure, Opened, Place, Round
from bench.service import House, open_house
from steward.clock import SystemClock
from steward.runs import dispatch
from steward.store.engine import Tx

DAILY = {"cadence": "daily", "run_at": "08:00"}


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
        yield partial(_round, house, clock, place.size(2000, 500))
    finally:
        await house.service.close()


async def _round(house: House, clock: Ahead, count: int) -> Mapping[str, float]:
    """Fresh automations, all due at once: each slot becomes a run in its free lane."""
    await house.write(_nothing_due)
    await house.automations(count, DAILY)
    clock.by += timedelta(minutes=1) + _until_eight(clock.now())
    before = await house.read(_made)
    begun, cpu = time.perf_counter(), time.process_time()
    tools = house.tools
    while await dispatch.dispatch_due(tools.engine, clock.now(), rules=tools.automation_rules, log=tools.log):
        pass
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    made = await house.read(_made) - before
    if made != count:
        raise RuntimeError(f"{count} slots were due and {made} runs were made")
    begun = time.perf_counter()
    await dispatch.dispatch_due(tools.engine, clock.now(), rules=tools.automation_rules, log=tools.log)
    empty = time.perf_counter() - begun
    return {"slots": count / spent, "cpu": used / count * 1e6, "empty_poll": empty * 1000}


def _until_eight(now: datetime) -> timedelta:
    eight = now.replace(hour=8, minute=0, second=0, microsecond=0)
    return (eight if eight > now else eight + timedelta(days=1)) - now


async def _nothing_due(tx: Tx) -> None:
    await tx.execute("UPDATE schedules SET next_run_at = NULL")


async def _made(tx: Tx) -> int:
    row = await tx.one("SELECT count(*) AS n FROM runs WHERE slot_at IS NOT NULL")
    return int(row["n"]) if row else 0


_SMALL = (
    Figure("cpu", "µs of the process per slot"),
    Figure("empty_poll", "ms", most=1),
)
CASES = (
    Case("due_slots_sqlite", (Figure("slots", "slots/s", "R3", least=14_000), *_SMALL), on_sqlite),
    Case(
        "due_slots_postgres",
        (Figure("slots", "slots/s", "R1", least=10_000), *_SMALL),
        on_postgres,
        needs_postgres=True,
    ),
)
