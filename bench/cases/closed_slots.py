"""Due slots of organizations without closed periods, with one a month ahead, and inside one, by turns."""

import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from statistics import fmean

from bench import many
from bench.cases.due_slots import MINUTES, Ahead
from bench.postgres import fresh_database
from bench.rounds import Case, Env, Figure, OpenCase, Round
from bench.service import Bench, open_bench
from steward.closed_periods import change
from steward.closed_periods.change import CreatePeriod, SentWhen
from steward.database.automations import schedules
from steward.database.engine.base import Tx
from steward.database.engine.maintenance import truncate_log
from steward.model.closed_period import ClosedKind, ClosedScope, ClosedScopeKind, Stops
from steward.model.ids import OrgId
from steward.model.json import JsonObject
from steward.runs import dispatch

SCHEDULES = 200_000
ORGS = 10
STRETCHES = 5
_CLEAR = (
    "DELETE FROM closed_periods WHERE org_id = :org",
    "DELETE FROM closing_work WHERE org_id = :org",
    "UPDATE organizations SET closed_from = NULL WHERE org_id = :org",
)
_FILE = "steward.db"
_WHOLE = ClosedScope(ClosedScopeKind.ORGANIZATION)


@contextlib.asynccontextmanager
async def on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The dispatch tick of one process over an embedded database."""
    async with _opened(f"sqlite:///{env.folder / _FILE}", env) as subject:
        yield OpenCase(subject)


@contextlib.asynccontextmanager
async def on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """The same over PostgreSQL."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _opened(url, env) as subject:
        yield OpenCase(subject)


@contextlib.asynccontextmanager
async def _opened(url: str, env: Env) -> AsyncIterator[Round]:
    clock = Ahead()
    bench = await open_bench(url, env.folder, clock=clock, env="test")
    try:
        await many.fill(url, clock.now(), count=env.size(SCHEDULES, SCHEDULES // 4), orgs=ORGS)
        yield partial(_round, bench, clock, env, [OrgId(many.FIRST_ORG + number) for number in range(ORGS)])
    finally:
        await bench.service.close()


async def _round(bench: Bench, clock: Ahead, env: Env, orgs: Sequence[OrgId]) -> Mapping[str, float]:
    """Stretches of slots with a period, each between two stretches without any."""
    without, figures = [await _dispatched(bench, clock, env)], {}
    for name, first, last in (("ahead", 30, 31), ("inside", -1, 1)):
        closed: list[Mapping[str, float]] = []
        neighbours: list[Mapping[str, float]] = []
        for _ in range(STRETCHES):
            now = clock.now()
            await _close(bench, orgs, now + timedelta(days=first), now + timedelta(days=last))
            closed.append(await _dispatched(bench, clock, env))
            await _open(bench, orgs)
            without.append(await _dispatched(bench, clock, env))
            neighbours += without[-2:]
        figures[f"{name}_rate"] = _mean(closed, "slots") / _mean(neighbours, "slots")
        figures[f"{name}_cpu"] = _mean(neighbours, "cpu") / _mean(closed, "cpu")
    return figures | {key: _mean(without, key) for key in ("slots", "cpu")}


def _mean(stretches: Sequence[Mapping[str, float]], key: str) -> float:
    return fmean(stretch[key] for stretch in stretches)


async def _dispatched(bench: Bench, clock: Ahead, env: Env) -> Mapping[str, float]:
    clock.by += timedelta(minutes=MINUTES)
    ctx = bench.ctx
    if ctx.engine.dialect == "sqlite":
        # A checkpoint of the log takes longer than a stretch: it would slow whichever stretch it falls into.
        await truncate_log(env.folder / _FILE, longest=0)
    due = len(await bench.read(partial(schedules.due, max_rows=SCHEDULES)))
    if not due:
        raise RuntimeError("no slot was due")
    begun, cpu = time.perf_counter(), time.process_time()
    while await dispatch.dispatch_due(ctx.engine, clock.now(), rules=ctx.automation_rules, log=ctx.log):
        pass
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    return {"slots": due / spent, "cpu": used / due * 1e6}


async def _close(bench: Bench, orgs: Sequence[OrgId], start: datetime, end: datetime) -> None:
    """Makes a period that stops runs in each organization."""
    fields: JsonObject = {"start": f"{start:%Y-%m-%dT%H:%M}", "end": f"{end:%Y-%m-%dT%H:%M}"}
    command = CreatePeriod("Measured", _WHOLE, Stops.RUNS, SentWhen(ClosedKind.ONCE, fields), "UTC")
    for org in orgs:
        make = partial(change.create, actor=replace(bench.owner, org=org), command=command)
        await bench.engine.write(bench.service.clock.now(), make, org=org)


async def _open(bench: Bench, orgs: Sequence[OrgId]) -> None:
    """Takes the periods away as if they had never been made."""

    async def clear(tx: Tx, org: OrgId) -> None:
        for text in _CLEAR:
            await tx.execute(text, {"org": org})

    for org in orgs:
        await bench.engine.write(bench.service.clock.now(), partial(clear, org=org), org=org)


_FIGURES = (
    Figure("slots", "slots/s without periods"),
    Figure("cpu", "µs of the process per slot without periods"),
    Figure("ahead_rate", "of the rate without periods, one next month", minimum=0.95),
    Figure("ahead_cpu", "of the slots per CPU without periods, one next month"),
    Figure("inside_rate", "of the rate without periods, inside one", minimum=0.3),
    Figure("inside_cpu", "of the slots per CPU without periods, inside one"),
)
CASES = (
    Case("closed_slots_sqlite", _FIGURES, on_sqlite),
    Case("closed_slots_postgres", _FIGURES, on_postgres, needs_postgres=True),
)
