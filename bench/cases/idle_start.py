"""How long a run that is started by hand waits for its first step while the service is idle."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

from bench.postgres import fresh_database
from bench.references import syncs_a_second
from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import FIVE_STEPS, Bench, five_steps, open_bench
from steward import periodic_tasks, worker
from steward.model.automation import Automation
from steward.steps.base import StepContext, StepResult
from steward.templates.base import Template

AUTOMATIONS = 20
PAUSE = 0.02


class Begun:
    """When the first step of the run that was just started began."""

    def __init__(self) -> None:
        self.started_at = 0.0
        self.seen = asyncio.Event()

    async def __call__(self, context: StepContext) -> StepResult:
        """The first step."""
        self.started_at = time.perf_counter()
        self.seen.set()
        return StepResult({})


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """API and worker in one process."""
    bench = await open_bench(f"sqlite:///{env.folder}/steward.db", env.folder)
    async with _measured(bench, env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """API and worker in one process over PostgreSQL."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url:
        bench = await open_bench(url, env.folder)
        async with _measured(bench, env) as opened:
            yield opened


@contextlib.asynccontextmanager
async def _measured(bench: Bench, env: Env) -> AsyncIterator[OpenCase]:
    begun = Begun()
    template = five_steps()
    first = template.facts.steps[0].name
    offered = cast("dict[str, Template]", bench.ctx.automation_rules.templates)
    offered[FIVE_STEPS] = replace(template, steps={**template.steps, first: begun})
    automations = await bench.automations(AUTOMATIONS)
    own_worker = await bench.worker()
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))

    async def reference() -> Mapping[str, float]:
        return {"R2": syncs_a_second(env.folder)}

    try:
        yield OpenCase(partial(_round, bench, automations, begun, env.size(200, 40)), reference)
    finally:
        stop.set()
        await working
        await bench.service.close()


async def _round(
    bench: Bench, automations: list[Automation], begun: Begun, count: int
) -> Mapping[str, float]:
    """From the call of run now (its commit included) and from its response to the first step."""
    offered, answered = [], []
    for number in range(count):
        begun.seen.clear()
        before = time.perf_counter()
        await bench.run_now(automations[number % len(automations)])
        after = time.perf_counter()
        await begun.seen.wait()
        offered.append((begun.started_at - before) * 1000)
        answered.append((begun.started_at - after) * 1000)
        await bench.service.clock.sleep(PAUSE)
    return {
        "p50": _share(offered, 0.50),
        "p99": _share(offered, 0.99),
        "after_answer_p50": _share(answered, 0.50),
    }


def _share(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


_FIGURES = (
    Figure("p50", "ms", maximum=8),
    Figure("p99", "ms", maximum=20),
    Figure("after_answer_p50", "ms"),
)
CASES = (
    Case("idle_start_sqlite", _FIGURES, on_sqlite),
    Case("idle_start_postgres", _FIGURES, on_postgres, needs_postgres=True),
)
