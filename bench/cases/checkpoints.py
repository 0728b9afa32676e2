"""Durable steps a second: a hundred runs at once, each writing one checkpoint after the other."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial

from bench.postgres import fresh_database
from bench.references import inserts_a_second, rows_a_second, syncs_a_second
from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import Bench, open_bench
from steward.database.runs.steps import ValueState
from steward.model.plan import PlanStep, StepKind, StepStatus
from steward.model.run import Counts
from steward.runs import claim, start_claimed
from steward.runs.checkpoint import EndedStep
from steward.runs.claimed_run import ClaimedRun
from steward.runs.open_connections import OpenConnections as Connections
from steward.runs.walk.state import Walk

RUNS = 100
OUTPUT = {"rows": [{"sku": f"A-{n}", "price": "12.90"} for n in range(5)], "read": 5}


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """One process, the file in WAL mode with every commit synced."""
    bench = await open_bench(f"sqlite:///{env.folder}/steward.db", env.folder)

    async def reference() -> Mapping[str, float]:
        return {"R2": syncs_a_second(env.folder), "R3": rows_a_second(env.folder)}

    try:
        walks = await _walks(bench)
        yield OpenCase(partial(_round, walks, env.size(100, 30)), reference)
    finally:
        await bench.service.close()


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """One worker process with its pool of eight."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url:
        bench = await open_bench(url, env.folder)

        async def reference() -> Mapping[str, float]:
            assert env.programs is not None
            return {"R1": await inserts_a_second(env.programs, url, env.folder)}

        try:
            walks = await _walks(bench)
            yield OpenCase(partial(_round, walks, env.size(30, 10)), reference)
        finally:
            await bench.service.close()


async def _walks(bench: Bench) -> list[Walk]:
    """A hundred runs in this worker's hands, each about to end its first step."""
    for automation in await bench.automations(RUNS):
        await bench.run_now(automation)
    worker = await bench.worker()
    leases = []
    while len(leases) < RUNS:
        leases += await claim.claim(bench.engine, bench.service.clock.now(), worker.id, free=RUNS, full=())
    walks = []
    for lease in leases:
        claimed_run = await bench.write(
            partial(start_claimed.start_one, lease=lease, rules=bench.ctx.automation_rules)
        )
        assert claimed_run is not None
        walks.append(_walk(bench, claimed_run))
    return walks


def _walk(bench: Bench, claimed_run: ClaimedRun) -> Walk:
    template = bench.ctx.automation_rules.templates[claimed_run.run.template_id]
    return Walk(
        ctx=bench.ctx,
        claimed=claimed_run,
        template=template,
        plan=template.plan,
        opened=Connections({}, {}, None, {}),
        seq=0,
        round=1,
        journal={},
        counted=Counts(),
        started=bench.ctx.clock.monotonic(),
    )


async def _round(walks: list[Walk], steps_per_walk: int) -> Mapping[str, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(_steps(walk, steps_per_walk) for walk in walks))
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    count = len(walks) * steps_per_walk
    return {"checkpoints": count / spent, "cpu": used / count * 1e6}


async def _steps(walk: Walk, steps_per_walk: int) -> None:
    for _ in range(steps_per_walk):
        number = walk.seq + 1
        ended = EndedStep(
            step=PlanStep(f"step-{number}", f"Step {number}", StepKind.DECIDE, "bench.step"),
            title=f"Step {number}",
            status=StepStatus.SUCCEEDED,
            started_at=walk.ctx.clock.now(),
            connection=None,
            counts=Counts(read=5),
        )
        await walk.checkpoint(ended, OUTPUT, state=ValueState.DONE)


CASES = (
    Case(
        "checkpoints_sqlite",
        (
            Figure("checkpoints", "checkpoints/s", "R3", minimum=15_000, ratio=0.50),
            Figure("cpu", "µs of the process per checkpoint"),
        ),
        on_sqlite,
    ),
    Case(
        "checkpoints_postgres",
        (
            Figure("checkpoints", "checkpoints/s", "R1", ratio=0.40, stretch="0.60 × R1"),
            Figure("cpu", "µs of the process per checkpoint"),
        ),
        on_postgres,
        needs_postgres=True,
    ),
)
