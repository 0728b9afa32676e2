"""Runs of five durable steps with Procrastinate, for comparison; runs in an environment of its own.

`python -m bench.peer_runs URL CONCURRENCY COUNT CALLERS WORKERS` starts COUNT runs by as many callers, works
on them in this process and WORKERS - 1 others, each on CONCURRENCY at once, and prints runs a second and its
CPU. `python -m bench.peer_runs URL CONCURRENCY` is such another. A run is a job; each of its steps is a row
of the same columns as the service's own, in a transaction of its own.
"""

import asyncio
import importlib
import json
import sys
import time
from typing import Any

from steward.clock import SystemClock

CLOCK = SystemClock()
CONNECTIONS = 20
STEPS = 5
WIRE = '{"seq":1,"name":"step-1","title":"Step 1","kind":"decide","status":"succeeded"}' + " " * 220
OUTPUT = b'{"seen":1,"word":"measured"}'
TABLE = (
    "CREATE TABLE IF NOT EXISTS peer_steps (org_id bigint, run_id text, seq bigint, name text,"
    " iteration text, attempt bigint, status text, finished_at bigint, changes_total bigint, wire text,"
    " output bytea, PRIMARY KEY (org_id, run_id, seq))"
)
INSERT = "INSERT INTO peer_steps VALUES (1, %s, %s, 'step', '', 1, 'succeeded', %s, 0, %s, %s)"
ENDED = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"

procrastinate: Any = importlib.import_module("procrastinate")
psycopg_pool: Any = importlib.import_module("psycopg_pool")


def application(url: str) -> tuple[Any, Any]:
    """The application with its one task, and the pool its steps are written with."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=CONNECTIONS))
    pool = psycopg_pool.AsyncConnectionPool(
        url, min_size=8, max_size=8, open=False, kwargs={"autocommit": True}
    )

    async def five_steps(run: str) -> None:
        for seq in range(1, STEPS + 1):
            async with pool.connection() as connection:
                ended = int(CLOCK.now().timestamp() * 1000)
                await connection.execute(INSERT, (run, seq, ended, WIRE, OUTPUT))

    app.task(five_steps, name="five_steps")
    return app, pool


def working(app: Any, concurrency: int) -> Any:
    """A worker that goes on until it is cancelled."""
    return app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)


async def another(url: str, concurrency: int) -> None:
    """One more worker process, until it is ended."""
    app, pool = application(url)
    async with app.open_async(), pool:
        await working(app, concurrency)


async def _ended(eye: Any) -> int:
    return int((await (await eye.execute(ENDED)).fetchone())[0])


async def measured(url: str, concurrency: int, count: int, callers: int, workers: int) -> dict[str, float]:
    """Runs a second, from the first start to the last end, and µs of this process's CPU per run."""
    app, pool = application(url)
    async with app.open_async(), pool, pool.connection() as eye:
        table = await (await eye.execute("SELECT to_regclass('procrastinate_jobs')")).fetchone()
        if table[0] is None:
            await app.schema_manager.apply_schema_async()
        await eye.execute(TABLE)
        before = await _ended(eye)
        command = [sys.executable, "-m", "bench.peer_runs", url, str(concurrency)]
        others = [await asyncio.create_subprocess_exec(*command) for _ in range(workers - 1)]
        subject = asyncio.create_task(working(app, concurrency))
        await CLOCK.sleep(2)  # until all of them listen
        numbers, task = iter(range(count)), app.tasks["five_steps"]
        begun, cpu = time.perf_counter(), time.process_time()

        async def starter() -> None:
            for number in numbers:
                await task.defer_async(run=f"{begun}-{number}")

        try:
            await asyncio.gather(*(starter() for _ in range(callers)))
            while await _ended(eye) - before < count:
                await CLOCK.sleep(0.01)
            spent, used = time.perf_counter() - begun, time.process_time() - cpu
            return {"runs": count / spent, "cpu": used / count * 1e6}
        finally:
            subject.cancel()
            await asyncio.gather(subject, return_exceptions=True)
            for process in others:
                process.kill()
                await process.wait()


if __name__ == "__main__":
    address, *numbers = sys.argv[1:]
    if len(numbers) > 1:
        print(json.dumps(asyncio.run(measured(address, *map(int, numbers)))))
    else:
        asyncio.run(another(address, *map(int, numbers)))
