"""GET run over a real socket with a verified token: requests a second on one core, CPU per request."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import partial

from bench.postgres import fresh_database
from bench.rounds import Case, Env, Figure, OpenCase
from bench.servers import Server, beside_framework, framework_round
from bench.service import Bench, open_bench
from steward import periodic_tasks, worker
from steward.model.ids import RunId


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database: everything in the server's process."""
    async with _measured(f"sqlite:///{env.folder}/steward.db", env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """PostgreSQL: the server process alone is counted."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _measured(url, env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _measured(url: str, env: Env) -> AsyncIterator[OpenCase]:
    bench = await open_bench(url, env.folder)
    run = await _finished_run(bench)
    headers = {"authorization": f"Bearer {bench.token()}"}
    await bench.service.close()
    path = f"/v1/automations/runs/{run}"
    count = env.size(8000, 2000)
    async with beside_framework(url, env.folder, path, headers) as (steward, framework):
        yield OpenCase(
            partial(_round, steward, path, headers, count), partial(framework_round, framework, count)
        )


async def _round(server: Server, path: str, headers: Mapping[str, str], count: int) -> Mapping[str, float]:
    rate, cpu = await server.of_one(path, headers, count)
    _, poll = await server.of_one(f"{path}?after_seq=5", headers, count)
    return {"requests": rate, "cpu": cpu, "poll_cpu": poll}


async def _finished_run(bench: Bench) -> RunId:
    """One run that has taken its five steps."""
    [automation] = await bench.automations(1)
    run = await bench.run_now(automation)
    own_worker = await bench.worker()
    await worker.drain(own_worker, periodic_tasks.of_worker(own_worker))
    return run.id


_FIGURES = (
    Figure("requests", "requests/s", "bare framework", minimum=5_000),
    Figure("cpu", "µs of CPU per request", "bare framework CPU", maximum=170),
    Figure("poll_cpu", "µs of CPU per request", "bare framework CPU", maximum=120),
)
_POSTGRES = (
    Figure("requests", "requests/s", "bare framework"),
    Figure("cpu", "µs of CPU per request", "bare framework CPU", maximum=400),
    Figure("poll_cpu", "µs of CPU per request", "bare framework CPU"),
)
CASES = (
    Case("get_run_sqlite", _FIGURES, on_sqlite),
    Case("get_run_postgres", _POSTGRES, on_postgres, needs_postgres=True),
)
