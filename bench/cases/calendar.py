"""The calendar: pages of 200 rows out of a thousand automations, and fourteen days of an hourly one."""

import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import cycle
from urllib.parse import urlencode

from bench.load import get, request
from bench.rounds import Case, Env, Figure, OpenCase
from bench.servers import Server, beside_framework, framework_round
from bench.service import open_bench
from steward.clock import SystemClock
from steward.model.instants import wire_time
from steward.model.schedule import Cadence, Schedule
from steward.scheduling import slots
from steward.scheduling.zones import zone

AUTOMATIONS = 1_000
PATH = "/v1/automations/occurrences"
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
ROWS = 200


def mixed_schedule(number: int) -> dict[str, object]:
    """Every cadence, at many times of the day."""
    time_of_day = f"{number % 24:02}:{number * 7 % 60:02}"
    return (
        {"cadence": "hourly"},
        {"cadence": "every_6_hours"},
        {"cadence": "daily", "run_at": time_of_day},
        {"cadence": "weekdays", "run_at": time_of_day},
        {"cadence": "weekly", "run_at": time_of_day, "day_of_week": number % 7 + 1},
        {"cadence": "monthly", "run_at": time_of_day, "day_of_month": number % 31 + 1},
    )[number % 6]


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database: everything in the server's process."""
    url = f"sqlite:///{env.folder}/steward.db"
    bench = await open_bench(url, env.folder)
    for first in range(0, AUTOMATIONS, ROWS):
        await bench.mixed([(mixed_schedule(n), ZONES[n % len(ZONES)]) for n in range(first, first + ROWS)])
    headers = {"authorization": f"Bearer {bench.token()}"}
    now = bench.service.clock.now()
    await bench.service.close()
    count = env.size(200, 60)
    async with beside_framework(url, env.folder, PATH, headers) as (steward, framework):
        pages = await _pages(steward, headers)
        far = _far(headers, now)
        yield OpenCase(
            partial(_round, steward, pages, far, count), partial(framework_round, framework, count * 10)
        )


async def _pages(server: Server, headers: Mapping[str, str]) -> Iterator[bytes]:
    """The first pages of the usual range one after the other, again and again."""
    paths, cursor = [], ""
    for _ in range(10):
        path = f"{PATH}?limit={ROWS}" + (f"&cursor={cursor}" if cursor else "")
        data = json.loads(await get(server.port, path, headers))["data"]
        if len(data["occurrences"]) != ROWS:
            raise RuntimeError(f"a page of the calendar has {len(data['occurrences'])} rows")
        paths.append(path)
        cursor = data["next_cursor"]
    return cycle([request(path, headers) for path in paths])


def _far(headers: Mapping[str, str], now: datetime) -> Iterator[bytes]:
    """A page from another day of the coming year with each request: nothing of it was asked before."""
    for number in cycle(range(1, 364)):
        since = now + timedelta(days=number, seconds=number)
        query = {"from": wire_time(since), "to": wire_time(since + timedelta(days=1)), "limit": ROWS}
        yield request(f"{PATH}?{urlencode(query)}", headers)


async def _round(
    server: Server, pages: Iterator[bytes], far: Iterator[bytes], count: int
) -> Mapping[str, float]:
    _, near_cpu = await server.measured(pages, count)
    _, far_cpu = await server.measured(far, count // 4)
    return {"page_cpu": near_cpu / 1000, "far_page_cpu": far_cpu / 1000, "hourly": _hourly()}


def _hourly(times: int = 50) -> float:
    """Milliseconds of CPU to project fourteen days of an hourly automation, another start each time."""
    env = zone("Europe/Berlin")
    assert env is not None
    since = SystemClock().now()
    begun = time.process_time()
    for number in range(times):
        start = since + timedelta(minutes=number * 997)
        occurrences = list(
            slots.slots(
                Schedule(Cadence.HOURLY),
                env,
                spread_minutes=3,
                after=start,
                until=start + timedelta(days=14),
            )
        )
        if not 335 <= len(occurrences) <= 337:
            raise RuntimeError(f"fourteen days have {len(occurrences)} hours")
    return (time.process_time() - begun) / times * 1000


CASES = (
    Case(
        "calendar_sqlite",
        (
            Figure("page_cpu", "ms of CPU per page of 200", "bare framework CPU", maximum=30),
            Figure("far_page_cpu", "ms of CPU per page of 200", maximum=30),
            Figure("hourly", "ms of CPU for 14 days", maximum=2),
        ),
        on_sqlite,
    ),
)
