"""Durable steps a second: a hundred runs at once, each writing one checkpoint after the other."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial

from bench.postgres import fresh_database
from bench.references import inserts_a_second, rows_a_second, syncs_a_second
from bench.rounds import Case, Figure, Opened, Place
from bench.service import House, open_house
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
async def on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """One process, the file in WAL mode with every commit synced."""
    house = await open_house(f"sqlite:///{place.folder}/steward.db", place.folder)

    async def reference() -> Mapping[str, float]:
        return {"R2": syncs_a_second(place.folder), "R3": rows_a_second(place.folder)}

    try:
        walks = await _walks(house)
        yield Opened(partial(_round, walks, place.size(100, 30)), reference)
    finally:
        await house.service.close()


@contextlib.asynccontextmanager
async def on_postgres(place: Place) -> AsyncIterator[Opened]:
    """One worker process with its pool of eight."""
    assert place.postgres is not None
    async with fresh_database(place.postgres) as url:
        house = await open_house(url, place.folder)

        async def reference() -> Mapping[str, float]:
            assert place.programs is not None
            return {"R1": await inserts_a_second(place.programs, url, place.folder)}

        try:
            walks = await _walks(house)
            yield Opened(partial(_round, walks, place.size(30, 10)), reference)
        finally:
            await house.service.close()


async def _walks(house: House) -> list[Walk]:
    """A hundred runs in this worker's hands, each about to end its first step."""
    for automation in await house.automations(RUNS):
        await house.run_now(automation)
    worker = await house.worker()
    leases = []
    while len(leases) < RUNS:
        leases += await claim.claim(house.engine, house.service.clock.now(), worker.id, free=RUNS, full=())
    walks = []
    for lease in leases:
        taken = await house.write(
            partial(start_claimed.start_one, lease=lease, rules=house.ctx.automation_rules)
        )
        assert taken is not None
        walks.append(_walk(house, taken))
    return walks


def _walk(house: House, taken: ClaimedRun) -> Walk:
    template = house.ctx.automation_rules.templates[taken.run.template_id]
    return Walk(
        ctx=house.ctx,
        claimed=taken,
        template=template,
        plan=template.plan,
        opened=Connections({}, {}, None, {}),
        seq=0,
        round=1,
        journal={},
        counted=Counts(),
        started=house.ctx.clock.monotonic(),
    )


async def _round(walks: list[Walk], each: int) -> Mapping[str, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(_steps(walk, each) for walk in walks))
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    count = len(walks) * each
    return {"checkpoints": count / spent, "cpu": used / count * 1e6}


async def _steps(walk: Walk, each: int) -> None:
    for _ in range(each):
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
            Figure("checkpoints", "checkpoints/s", "R3", least=15_000, ratio=0.50),
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
