"""Restores on PostgreSQL: which processes may serve the database, and what is looked up first."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from steward.clock import SystemClock
from steward.config import read
from steward.database.accounts import audit
from steward.database.accounts.audit import AuditFilter
from steward.database.engine.base import Tx
from steward.database.engine.migrate import migrate
from steward.database.runs import transitions
from steward.failpoint import watch
from steward.model.change import Outcome
from steward.model.instants import wire_time
from steward.model.refusals import WrongState
from steward.model.run import RunStatus
from steward.platforms import operations
from steward.runs import restored
from steward.runs.restored import Operations
from tests.cli.test_copies import approved, refused, report_of
from tests.fake_clock import START, FakeClock
from tests.postgres_server import Server
from tests.processes import postgres
from tests.processes.test_commands import refused as refused_process
from tests.runs.shop import Shop, connect_all, neighbour, open_shop

LATER = timedelta(minutes=10)  # by then every lease has ended


async def opened(url: str, folder: Path) -> Shop:
    """Opens a service whose clock is behind the command line's, so that its leases have ended there."""
    shop = await open_shop(url, FakeClock(SystemClock().now() - LATER), folder)
    await connect_all(shop)
    return shop


@pytest.fixture
async def shop(database_url: str, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service on each engine."""
    served = await opened(database_url, tmp_path / "data")
    yield served
    await served.service.close()


@pytest.fixture
async def postgres_shop(postgresql_url: str, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service on PostgreSQL."""
    served = await opened(postgresql_url, tmp_path / "data")
    yield served
    await served.service.close()


async def execute(shop: Shop, statement: str) -> None:
    """Executes a statement past the service."""

    async def act(tx: Tx) -> None:
        await tx.execute(statement)

    await shop.write(act)


async def epochs(shop: Shop) -> list[int]:
    """Returns the epochs of the organization's runs, oldest first."""

    async def act(tx: Tx) -> list[int]:
        rows = await tx.all("SELECT epoch FROM runs WHERE org_id = :org ORDER BY id", {"org": shop.owner.org})
        return [row["epoch"] for row in rows]

    return await shop.read(act)


async def serving_obstacle(shop: Shop) -> str | None:
    """Returns why a process that starts after all leases have ended must not serve, or None."""
    return await restored.serving_obstacle(shop.engine, shop.clock.now() + LATER)


async def restored_entries(shop: Shop) -> list[str]:
    """Returns the details of the organization's `restored` audit entries."""
    action = AuditFilter(action="restored")
    find = partial(audit.find, org=shop.owner.org, chosen=action, before=None, limit=9)
    return [entry.detail for entry in await shop.read(find)]


def writes_of(shop: Shop) -> Operations:
    """Returns the write operations of each kind of connection."""
    return operations(read(dict(shop.environ)))


async def test_a_database_with_another_history_is_not_served_until_somebody_says_what_is_lost(
    postgres_shop: Shop,
) -> None:
    """Refuses to serve a database with another history until an operator says what is lost."""
    shop = postgres_shop
    assert await serving_obstacle(shop) is None  # no worker has served it yet
    await shop.drain()
    assert await serving_obstacle(shop) is None
    await execute(shop, "UPDATE service_stats SET server_history = '1/1'")
    assert await restored.serving_obstacle(shop.engine, shop.clock.now()) is None  # its worker lives
    assert "steward restored --at INSTANT" in (await serving_obstacle(shop) or "")
    await shop.pass_time(seconds=10)
    assert await serving_obstacle(shop) is None
    await execute(shop, "UPDATE service_stats SET server_history = '1/1'")
    assert await report_of(shop, "restored", "--nothing-lost") == {"nothing_lost": True}
    assert await serving_obstacle(shop) is None
    assert await restored_entries(shop) == []


async def test_restored_refuses_what_it_cannot_do(postgres_shop: Shop) -> None:
    """Refuses a living worker, a missing, future or ambiguous instant, two answers, and SQLite."""
    shop = postgres_shop
    await shop.drain()
    now = SystemClock().now()
    assert await refused(shop, "restored") == (2, "usage")
    assert await refused(shop, "restored", "--nothing-lost", "--at", wire_time(now)) == (2, "usage")
    assert await refused(shop, "restored", "--at", "2026-11-23T14:05:00") == (2, "usage")
    assert await refused(shop, "restored", "--at", wire_time(now + LATER)) == (2, "usage")
    sqlite = {"STEWARD_DATABASE_URL": "sqlite:////nowhere/steward.db"}
    assert await refused(shop, "restored", "--nothing-lost", **sqlite) == (1, "not_postgresql")
    await execute(shop, f"UPDATE workers SET lease_until = {int((now + LATER).timestamp() * 1000)}")
    assert await refused(shop, "restored", "--nothing-lost") == (1, "still_running")


async def test_a_preparation_that_was_broken_off_continues_where_it_stopped(shop: Shop) -> None:
    """Continues an interrupted preparation, prepares each organization once and serves nothing before."""
    other = await neighbour(shop)
    orgs = (shop, other)
    waiting = [
        [await each_shop.waiting(await setup()) for setup in (each_shop.pricing, each_shop.hiding)]
        for each_shop in orgs
    ]
    for org, (prices, _) in zip(orgs, waiting, strict=True):
        await org.approve(prices)
    before = [await epochs(each_org) for each_org in orgs]
    points: list[str] = []

    def stop(point: str) -> None:
        points.append(point)
        if points.count("restored_batch") == 4:
            raise ConnectionAbortedError

    prepare = partial(restored.prepare, operations=writes_of(shop), taken_at=START, batch=1)
    watch(stop)
    try:
        with pytest.raises(ConnectionAbortedError):
            await prepare(shop.engine, shop.clock)
    finally:
        watch(None)
    assert f"steward restored --at {wire_time(START)}" in (await serving_obstacle(shop) or "")
    with pytest.raises(WrongState):
        await restored.accept(shop.engine, shop.clock.now())
    assert await prepare(shop.engine, shop.clock) == 4
    assert await serving_obstacle(shop) is None
    after = [await epochs(item) for item in orgs]
    assert after == [[epoch + 1_000_000 for epoch in of_org] for of_org in before]
    for org in orgs:
        assert await restored_entries(org) == [f'{{"taken_at":"{wire_time(START)}"}}']


async def test_a_restore_fences_workers_that_held_runs(shop: Shop) -> None:
    """Fences a worker that held a run before the restore, even with a later epoch."""
    await shop.run_now(await shop.hiding())
    [lease] = (await shop.claimed()).values()
    later = replace(lease, epoch=lease.epoch + 1)
    await restored.prepare(shop.engine, shop.clock, writes_of(shop), taken_at=START)
    await shop.restart()
    await shop.another_worker()
    [fresh] = (await shop.claimed()).values()
    assert fresh.run == lease.run
    for stale in (lease, later):
        assert await shop.write(partial(transitions.advance, lease=stale, seq=1)) == (False, None)
    assert await shop.write(partial(transitions.advance, lease=fresh, seq=1)) == (True, None)


@dataclass
class Servers:
    """A primary with a base backup, and the servers restored from it."""

    servers: list[Server] = field(default_factory=list)


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Yields servers of this test alone and removes them afterwards."""
    request.getfixturevalue("clones")  # skips when there is no PostgreSQL, or fails where it is required
    new_servers = Servers([postgres.start_primary()])
    yield new_servers
    postgres.remove(*reversed(new_servers.servers))


async def test_after_going_back_to_a_moment_nothing_is_written_twice(
    servers: Servers, tmp_path: Path
) -> None:
    """Restores a real server to a point in time: nothing serves it before `steward restored`.

    Afterwards nothing is written twice.
    """
    primary = servers.servers[0]
    await migrate(primary.url("postgres"), START)
    shop = await opened(primary.url("postgres"), tmp_path / "data")
    try:
        backup = await asyncio.to_thread(postgres.back_up, primary)
        prices = await approved(shop)
        moment: Any = await asyncpg.connect(primary.url("postgres"))
        await moment.execute("SELECT pg_create_restore_point('approved')")
        await moment.close()
        await shop.drain()
        assert (await shop.run(prices)).status is RunStatus.SUCCEEDED
        written = len(shop.writes())
        assert written > 0
        await shop.service.close()

        copy = await asyncio.to_thread(postgres.restore, backup, primary, to="approved")
        servers.servers.append(copy)
        shop.environ = {**shop.environ, "STEWARD_DATABASE_URL": copy.url("postgres")}
        commands = (("worker",), ("serve", "--port", "0"))
        starts = await asyncio.gather(*(refused_process(*words, env=shop.environ) for words in commands))
        assert starts == [(1, "cannot_serve"), (1, "cannot_serve")]
        timestamp = wire_time(SystemClock().now())
        assert await report_of(shop, "restored", "--at", timestamp) == {
            "taken_at": timestamp,
            "runs_to_check": 1,
        }
        await shop.restart()
        assert await serving_obstacle(shop) is None
        assert (await shop.run(prices)).status is RunStatus.RUNNING
        ended = await shop.until_settled(prices)
        assert len(shop.writes()) == written
        assert ended.status is RunStatus.SUCCEEDED
        assert {change.outcome for change in await shop.changes(ended)} <= {
            Outcome.APPLIED,
            Outcome.UNCHANGED,
        }
        assert await restored_entries(shop) == [f'{{"taken_at":"{timestamp}"}}']
    finally:
        await shop.service.close()
