"""A hundred thousand runs that wait for a person, and a run behind ten thousand of another organization."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import asyncpg

from bench import many
from bench.postgres import fresh_database
from bench.rounds import Case, Env, Figure, OpenCase
from bench.service import Bench, open_bench
from steward import periodic_tasks, worker
from steward.accounts import organizations, people
from steward.accounts.organizations import CreateOrganization
from steward.database.engine.base import Tx
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.runs import claim

WAITING = 100_000
RUNS_AHEAD = 10_000
IN_FLIGHT = 20
SECONDS = 10.0


@contextlib.asynccontextmanager
async def waiting_on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database."""
    async with _waiting(f"sqlite:///{env.folder}/steward.db", env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def waiting_on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """One process over PostgreSQL; the process alone is counted."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _waiting(url, env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _waiting(url: str, env: Env) -> AsyncIterator[OpenCase]:
    bench = await open_bench(url, env.folder)
    now, count = bench.service.clock.now(), env.size(WAITING, WAITING // 10)
    await many.fill(url, now, count=count, orgs=100)
    before = await _size(url, env)
    await many.park(url, now)
    bytes_per_run = (await _size(url, env) - before) / count
    own_worker = await bench.worker()
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(own_worker, periodic_tasks.of_worker(own_worker), stop))
    try:
        await bench.service.clock.sleep(SECONDS)  # what a start does at once
        yield OpenCase(partial(_idle, bench, bytes_per_run, env.size(int(SECONDS), 3)))
    finally:
        stop.set()
        await working
        await bench.service.close()


async def _size(url: str, env: Env) -> int:
    """Bytes of the database."""
    if url.startswith("sqlite:///"):
        return (env.folder / "steward.db").stat().st_size
    connection: Any = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT pg_database_size(current_database())"))
    finally:
        await connection.close()


async def _idle(bench: Bench, bytes_per_run: float, seconds: int) -> Mapping[str, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    await bench.service.clock.sleep(seconds)
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    return {"bytes": bytes_per_run, "idle": used / spent * 100}


@contextlib.asynccontextmanager
async def fair_on_sqlite(env: Env) -> AsyncIterator[OpenCase]:
    """The embedded database."""
    async with _fair(f"sqlite:///{env.folder}/steward.db", env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def fair_on_postgres(env: Env) -> AsyncIterator[OpenCase]:
    """One worker over PostgreSQL."""
    assert env.postgres is not None
    async with fresh_database(env.postgres) as url, _fair(url, env) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _fair(url: str, env: Env) -> AsyncIterator[OpenCase]:
    bench = await open_bench(url, env.folder)
    try:
        [automation] = await bench.automations(1)
        now, org = bench.service.clock.now(), bench.owner.org
        await many.queue(url, now, org=org, automation=automation.id, count=RUNS_AHEAD)
        other = await _second_organization(bench)
        own_worker = await bench.worker()
        yield OpenCase(partial(_rank, other, own_worker))
    finally:
        await bench.service.close()


async def _second_organization(bench: Bench) -> Bench:
    """A second organization in the same service."""

    async def create_owner(tx: Tx) -> Actor:
        org = (await organizations.create(tx, CreateOrganization("Other"))).id
        person = await people.resolve(tx, "owner@bench.example")
        await people.add_to_organization(tx, person, org, Role.OWNER)
        return Actor(org, person.id, ROLE_SCOPES[Role.OWNER], CreatedVia.UI, None, Role.OWNER, "0" * 64)

    owner = await bench.engine.write(bench.service.clock.now(), create_owner)
    return Bench(bench.service, owner, "", started=1_000_000)


async def _rank(other: Bench, own_worker: worker.Worker) -> Mapping[str, float]:
    """The place of the other organization's new run among the runs taken after it was made."""
    ctx = other.ctx
    await claim.claim(ctx.engine, ctx.clock.now(), own_worker.id, free=IN_FLIGHT, full=())
    [automation] = await other.automations(1)
    run = await other.run_now(automation)
    rank = 0
    while True:
        for lease in await claim.claim(ctx.engine, ctx.clock.now(), own_worker.id, free=1, full=()):
            rank += 1
            if lease.run == run.id:
                return {"rank": rank}


_WAITING = (
    Figure("bytes", "bytes of disk per waiting run", maximum=1024),
    Figure("idle", "% of a core", maximum=1),
)
_FAIR = (Figure("rank", f"th run taken, with {IN_FLIGHT} claims in flight", maximum=2 + IN_FLIGHT),)
CASES = (
    Case("waiting_sqlite", _WAITING, waiting_on_sqlite),
    Case("waiting_postgres", _WAITING, waiting_on_postgres, needs_postgres=True),
    Case("fairness_sqlite", _FAIR, fair_on_sqlite),
    Case("fairness_postgres", _FAIR, fair_on_postgres, needs_postgres=True),
)
