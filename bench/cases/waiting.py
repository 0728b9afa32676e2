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
from bench.rounds import Case, Figure, Opened, Place
from bench.service import House, open_house
from steward import periodic_tasks, worker
from steward.accounts import organizations, people
from steward.accounts.organizations import CreateOrganization
from steward.database.engine.base import Tx
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.runs import claim

WAITING = 100_000
BEHIND = 10_000
IN_FLIGHT = 20
SECONDS = 10.0


@contextlib.asynccontextmanager
async def waiting_on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """The embedded database."""
    async with _waiting(f"sqlite:///{place.folder}/steward.db", place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def waiting_on_postgres(place: Place) -> AsyncIterator[Opened]:
    """One process over PostgreSQL; the process alone is counted."""
    assert place.postgres is not None
    async with fresh_database(place.postgres) as url, _waiting(url, place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _waiting(url: str, place: Place) -> AsyncIterator[Opened]:
    house = await open_house(url, place.folder)
    now, count = house.service.clock.now(), place.size(WAITING, WAITING // 10)
    await many.fill(url, now, count=count, orgs=100)
    before = await _size(url, place)
    await many.park(url, now)
    each = (await _size(url, place) - before) / count
    own = await house.worker()
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(own, periodic_tasks.of_worker(own), stop))
    try:
        await house.service.clock.sleep(SECONDS)  # what a start does at once
        yield Opened(partial(_idle, house, each, place.size(int(SECONDS), 3)))
    finally:
        stop.set()
        await working
        await house.service.close()


async def _size(url: str, place: Place) -> int:
    """Bytes of the database."""
    if url.startswith("sqlite:///"):
        return (place.folder / "steward.db").stat().st_size
    connection: Any = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT pg_database_size(current_database())"))
    finally:
        await connection.close()


async def _idle(house: House, each: float, seconds: int) -> Mapping[str, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    await house.service.clock.sleep(seconds)
    spent, used = time.perf_counter() - begun, time.process_time() - cpu
    return {"bytes": each, "idle": used / spent * 100}


@contextlib.asynccontextmanager
async def fair_on_sqlite(place: Place) -> AsyncIterator[Opened]:
    """The embedded database."""
    async with _fair(f"sqlite:///{place.folder}/steward.db", place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def fair_on_postgres(place: Place) -> AsyncIterator[Opened]:
    """One worker over PostgreSQL."""
    assert place.postgres is not None
    async with fresh_database(place.postgres) as url, _fair(url, place) as opened:
        yield opened


@contextlib.asynccontextmanager
async def _fair(url: str, place: Place) -> AsyncIterator[Opened]:
    house = await open_house(url, place.folder)
    try:
        [automation] = await house.automations(1)
        now, org = house.service.clock.now(), house.owner.org
        await many.queue(url, now, org=org, automation=automation.id, count=BEHIND)
        other = await _another_house(house)
        own = await house.worker()
        yield Opened(partial(_rank, other, own))
    finally:
        await house.service.close()


async def _another_house(house: House) -> House:
    """A second organization in the same service."""

    async def found(tx: Tx) -> Actor:
        org = (await organizations.create(tx, CreateOrganization("Other"))).id
        person = await people.resolve(tx, "owner@bench.example")
        await people.add_to_organization(tx, person, org, Role.OWNER)
        return Actor(org, person.id, ROLE_SCOPES[Role.OWNER], CreatedVia.UI, None, Role.OWNER, "0" * 64)

    owner = await house.engine.write(house.service.clock.now(), found)
    return House(house.service, owner, "", started=1_000_000)


async def _rank(other: House, own: worker.Worker) -> Mapping[str, float]:
    """The place of the other organization's new run among the runs taken after it was made."""
    ctx = other.ctx
    await claim.claim(ctx.engine, ctx.clock.now(), own.id, free=IN_FLIGHT, full=())
    [automation] = await other.automations(1)
    run = await other.run_now(automation)
    rank = 0
    while True:
        for lease in await claim.claim(ctx.engine, ctx.clock.now(), own.id, free=1, full=()):
            rank += 1
            if lease.run == run.id:
                return {"rank": rank}


_WAITING = (
    Figure("bytes", "bytes of disk per waiting run", most=1024),
    Figure("idle", "% of a core", most=1),
)
_FAIR = (Figure("rank", f"th run taken, with {IN_FLIGHT} claims in flight", most=2 + IN_FLIGHT),)
CASES = (
    Case("waiting_sqlite", _WAITING, waiting_on_sqlite),
    Case("waiting_postgres", _WAITING, waiting_on_postgres, needs_postgres=True),
    Case("fairness_sqlite", _FAIR, fair_on_sqlite),
    Case("fairness_postgres", _FAIR, fair_on_postgres, needs_postgres=True),
)
