"""GET run over a real socket with a verified token: requests a second on one core, CPU per request."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial

from bench.postgres import fresh_database
from bench.rounds import Case, Figure, Opened, Place
from bench.servers import Server, beside_framework, framework_round
from bench.service import House, open_house
from steward import periodic_tasks, worker
from steward.model.ids import RunId


@contextlib.asynccontextmanager
async def on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """The embedded database: everything in the server's process."""
    async with _measured(f"sqlite:///{place.folder}/steward.db", place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(place: Place) -> AsyncIterator[Opened]:
    """PostgreSQL: the server process alone is counted."""
    assert place.postgres is not None
    async with fresh_database(place.postgres) as url, _measured(url, place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _measured(url: str, place: Place) -> AsyncIterator[Opened]:
    house = await open_house(url, place.folder)
    run = await _finished_run(house)
    headers = {"authorization": f"Bearer {house.token()}"}
    await house.service.close()
    path = f"/v1/automations/runs/{run}"
    count = place.size(8000, 2000)
    async with beside_framework(url, place.folder, path, headers) as (steward, framework):
        yield Opened(
            partial(_round, steward, path, headers, count), partial(framework_round, framework, count)
        )


async def _round(server: Server, path: str, headers: Mapping[str, str], count: int) -> Mapping[str, float]:
    rate, cpu = await server.of_one(path, headers, count)
    _, poll = await server.of_one(f"{path}?after_seq=5", headers, count)
    return {"requests": rate, "cpu": cpu, "poll_cpu": poll}


async def _finished_run(house: House) -> RunId:
    """One run that has taken its five steps."""
    [automation] = await house.automations(1)
    run = await house.run_now(automation)
    own = await house.worker()
    await worker.drain(own, periodic_tasks.of_worker(own))
    return run.id


_FIGURES = (
    Figure("requests", "requests/s", "bare framework", least=5_000),
    Figure("cpu", "µs of CPU per request", "bare framework CPU", most=170),
    Figure("poll_cpu", "µs of CPU per request", "bare framework CPU", most=120),
)
_POSTGRES = (
    Figure("requests", "requests/s", "bare framework"),
    Figure("cpu", "µs of CPU per request", "bare framework CPU", most=400),
    Figure("poll_cpu", "µs of CPU per request", "bare framework CPU"),
)
CASES = (
    Case("get_run_sqlite", _FIGURES, on_sqlite),
    Case("get_run_postgres", _POSTGRES, on_postgres, needs_postgres=True),
)
