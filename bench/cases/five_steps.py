"""Whole runs a second: five durable steps each, started by run now, counted when finished."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.postgres import fresh_database
from bench.references import inserts_a_second, rows_a_second, syncs_a_second
from bench.rounds import Case, Env, Figure, OpenCase, Round
from bench.service import Bench, open_bench
from steward import periodic_tasks, worker
from steward.database.engine.base import Tx
from steward.model.automation import Automation

ROOT = Path(__file__).parent.parent.parent
# The Python of what is compared with (bench/requirements.txt), apart from the service's own.
PEER = ROOT / ".cache" / "peers" / "bin" / "python"
AUTOMATIONS = 200
CALLERS = 10
# With two workers: as many as ask of both sides, so that neither waits for somebody to ask.
MANY_CALLERS = 50
# How many jobs a worker of Procrastinate takes at once: what it does by itself, and where it was fastest
# (above ten nothing changes); a worker of the service takes 20.
PEER_DEFAULT = 1
PEER_FASTEST = 20


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The service embedded, as `steward serve` runs it by default."""
    bench = await open_bench(f"sqlite:///{env.folder}/steward.db", env.folder)

    async def reference() -> Mapping[str, float]:
        return {"R2": syncs_a_second(env.folder), "R3": rows_a_second(env.folder)}

    async with _measured(bench, env) as subject:
        yield OpenCase(subject, reference)


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """One process over PostgreSQL, API and worker together."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url:
        bench = await open_bench(url, env.folder)
        reference = partial(_pgbench, env, url)
        async with _measured(bench, env) as subject:
            yield OpenCase(subject, reference)


@contextlib.asynccontextmanager
async def with_two_workers(env: Env) -> AsyncIterator[OpenCase]:
    """Two processes over PostgreSQL, one of which is the API too; its references are Procrastinate's two."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, fresh_database(env.postgres) as other:
        bench = await open_bench(url, env.folder)
        bench.service.share_hints(listens=True)
        measured = _measured(bench, env, callers=MANY_CALLERS)
        async with _another_worker(url, env.folder), measured as subject:
            yield OpenCase(subject, partial(_procrastinate, other, env.size(300, 100)))


@contextlib.asynccontextmanager
async def _another_worker(url: str, folder: Path) -> AsyncIterator[None]:
    command = [sys.executable, "-m", "bench.working", url, str(folder)]
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, **pipes)  # type: ignore[arg-type]
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if not await process.stdout.readline():
            raise RuntimeError("the second worker ended before it worked")
        yield
    finally:
        process.stdin.close()
        await process.wait()


async def _procrastinate(url: str, count: int) -> Mapping[str, float]:
    """The same runs with Procrastinate: a job each, and a row of the same columns for each of its steps."""
    if not PEER.exists():
        raise RuntimeError("Procrastinate is not installed; `make bench` does it")
    default = await _peer_runs(url, PEER_DEFAULT, count)
    fastest = await _peer_runs(url, PEER_FASTEST, count)
    return {
        "Procrastinate as it comes": default["runs"],
        "Procrastinate at its fastest": fastest["runs"],
        "Procrastinate CPU": fastest["cpu"],
    }


async def _peer_runs(url: str, concurrency: int, count: int) -> Mapping[str, float]:
    """Runs a second with two workers that take so many at once, and µs of the first one's CPU."""
    numbers = [concurrency, count, MANY_CALLERS, 2]
    command = [str(PEER), "-m", "bench.peer_runs", url, *map(str, numbers)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    figures: Mapping[str, float] = json.loads(output)
    return figures


async def _pgbench(env: Env, url: str) -> Mapping[str, float]:
    assert env.programs is not None
    return {"R1": await inserts_a_second(env.programs, url, env.folder)}


@contextlib.asynccontextmanager
async def _measured(bench: Bench, env: Env, callers: int = CALLERS) -> AsyncIterator[Round]:
    automations = await bench.automations(AUTOMATIONS)
    own_worker = await bench.worker()
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))
    try:
        yield partial(five_steps_round, bench, automations, env.size(1500, 400), callers)
    finally:
        stop.set()
        await working
        await bench.service.close()


async def five_steps_round(
    bench: Bench, automations: Sequence[Automation], count: int, callers: int
) -> Mapping[str, float]:
    """Callers start runs one after the other while the worker takes them."""
    numbers = iter(range(count))
    before = await bench.read(_succeeded)
    begun, cpu = time.perf_counter(), time.process_time()

    async def starter() -> None:
        for number in numbers:
            await bench.run_now(automations[number % len(automations)])

    await asyncio.gather(*(starter() for _ in range(callers)))
    started = time.perf_counter() - begun
    while await bench.read(_open):
        await bench.service.clock.sleep(0.01)
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    ended = await bench.read(_succeeded) - before
    if ended != count:
        raise RuntimeError(f"{count} runs were started and {ended} ended well")
    return {
        "runs": count / spent,
        "beside": count / spent,
        "beside_fastest": count / spent,
        "cpu": used / count * 1e6,
        "started": count / started,
    }


async def _open(tx: Tx) -> int:
    """Whether a run has still to end, by the partial indexes alone."""
    row = await tx.first(
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM runs WHERE queue = 'leased' LIMIT 1) AS l)"
        " + (SELECT count(*) FROM (SELECT 1 FROM runs WHERE queue = 'ready' LIMIT 1) AS r) AS n"
    )
    return int(row["n"]) if row else 0


async def _succeeded(tx: Tx) -> int:
    row = await tx.first("SELECT count(*) AS n FROM runs WHERE status = 'succeeded'")
    return int(row["n"]) if row else 0


_FIGURES = (
    Figure("runs", "runs/s", "R2", minimum=400),
    Figure("started", "run-now calls/s while working"),
    Figure("cpu", "µs of the process per run"),
)
CASES = (
    Case("five_steps_sqlite", _FIGURES, on_sqlite),
    Case(
        "five_steps_postgres",
        (Figure("runs", "runs/s", "R1", minimum=300), *_FIGURES[1:]),
        on_postgres,
        needs_postgres=True,
    ),
    Case(
        "five_steps_two_workers",
        (
            Figure("runs", "runs/s", minimum=300),
            Figure("beside", "runs/s", "Procrastinate as it comes", ratio=5),
            Figure("beside_fastest", "runs/s", "Procrastinate at its fastest"),
            Figure("started", "run-now calls/s while working"),
            Figure("cpu", "µs of the first process per run", "Procrastinate CPU"),
        ),
        with_two_workers,
        needs_postgres=True,
    ),
)
