"""Fail-over between real servers: acknowledged writes are kept and the service goes on."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from steward.database.engine.base import Engine, Tx
from steward.database.engine.disk_space import DiskFull
from steward.database.engine.hosts import Hosts, NoServer
from steward.database.engine.migrate import migrate
from steward.database.engine.observer import EngineObserver
from steward.database.engine.postgres import PostgresEngine
from steward.database.operator import health
from steward.model.refusals import Unavailable
from tests.fake_clock import START, FakeClock
from tests.postgres_server import Server
from tests.processes import postgres
from tests.processes.running import CLOCK, eventually

# Seconds from the end of a promotion to the next acknowledged write.
BACK_WITHIN = 30.0


@dataclass
class Cluster:
    """A primary, its synchronous standby, and a standby of that one, in one database URL."""

    servers: list[Server]
    lost: list[str] = field(default_factory=list)
    host: int = 0
    unknown: int = 0
    backs: int = 0

    @property
    def url(self) -> str:
        """Returns the URL that names all of the servers."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return self.servers[0].url("postgres").replace(f"127.0.0.1:{self.servers[0].port}", hosts)

    def observer(self) -> EngineObserver:
        """Returns an observer that keeps why connections were lost, but not tries to open one."""

        def connected(host: int, seconds: float) -> None:
            self.host = host

        def lost(why: str) -> None:
            self.lost += [why] * (why != "not_opened")

        def commit_unknown() -> None:
            self.unknown += 1

        def back(host: int, seconds: float) -> None:
            self.backs += 1

        return EngineObserver(
            connected=connected, connection_lost=lost, commit_unknown=commit_unknown, recovered=back
        )


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yields three servers in a row, each following the one before."""
    request.getfixturevalue("clones")  # skips when there is no PostgreSQL, or fails where it is required
    servers = [postgres.start_primary()]
    try:
        for _ in range(2):
            servers.append(postgres.follow(servers[-1]))
        yield Cluster(servers)
    finally:
        for server in servers:
            postgres.thaw(server)
        postgres.remove(*reversed(servers))


@contextlib.asynccontextmanager
async def superuser(server: Server) -> AsyncIterator[Any]:
    """Opens a connection that bypasses the service."""
    connection: Any = await asyncpg.connect(server.url("postgres"))
    try:
        yield connection
    finally:
        connection.terminate()


async def wait_for_standby(server: Server) -> None:
    """Makes commits wait for the server's standby from now on, and waits until it follows."""
    async with superuser(server) as connection:
        await connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await connection.execute("SELECT pg_reload_conf()")

        async def is_followed() -> Any:
            return await connection.fetchval("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")

        await eventually(is_followed)


@dataclass
class Writer:
    """Writes increasing numbers and remembers which were acknowledged."""

    engine: PostgresEngine
    clock: FakeClock
    acknowledged: list[int] = field(default_factory=list)
    tried: int = 0

    async def write(self) -> None:
        """Writes the next number. Raises Unavailable."""
        self.tried = number = self.tried + 1

        async def insert(tx: Tx) -> None:
            await tx.execute("INSERT INTO numbers VALUES (:number)", {"number": number})

        await self.engine.write(self.clock.now(), insert)
        self.acknowledged.append(number)

    async def goes_on(self) -> float:
        """Returns the seconds until a write is acknowledged."""
        begun = CLOCK.monotonic()

        async def is_written() -> bool:
            with contextlib.suppress(Unavailable):
                await self.write()
                return True
            return False

        await eventually(is_written)
        return CLOCK.monotonic() - begun

    async def assert_kept(self, server: Server) -> None:
        """Checks that every acknowledged number is stored and none twice."""
        async with superuser(server) as connection:
            numbers = [row["number"] for row in await connection.fetch("SELECT number FROM numbers")]
        assert len(numbers) == len(set(numbers))
        assert set(self.acknowledged) <= set(numbers)


async def _followers_are_seen(first: Server, second: Server, engine: Engine, clock: FakeClock) -> None:
    """Sees a standby whose readers keep rows, its clock, and a slot whose standby is gone."""
    async with superuser(first) as connection, superuser(second) as standby:
        await connection.execute("SELECT pg_create_physical_replication_slot('gone', true)")
        await standby.execute("ALTER SYSTEM SET hot_standby_feedback = on")
        await standby.execute("SELECT pg_reload_conf()")

        async def keep_rows() -> bool:
            return any(one.rows_since for one in await engine.read(clock.now(), health.followers))

        await eventually(keep_rows)
        [slot, follower] = await engine.read(clock.now(), health.followers)
        assert (slot.kind, slot.name, slot.state, slot.rows_since) == ("slot", "gone", "inactive", None)
        assert (follower.kind, follower.state, follower.is_synchronous) == ("standby", "sync", True)
        assert follower.rows_since is not None
        [held] = health.RowHolds().update([slot, follower], clock.now())
        assert (held.kind, held.since) == ("standby", clock.now())
        assert follower.clock_ahead is not None
        assert abs(follower.clock_ahead.total_seconds()) < 30
        await standby.execute("ALTER SYSTEM RESET hot_standby_feedback")
        await standby.execute("SELECT pg_reload_conf()")
        await connection.execute("SELECT pg_drop_replication_slot('gone')")


async def test_each_fault_of_a_primary_loses_nothing_and_is_left_behind(
    cluster: Cluster, clock: FakeClock
) -> None:
    """Loses no write by an unreplicated commit or a read-only, a frozen and a killed primary."""
    first, second, third = cluster.servers
    await migrate(first.url("postgres"), START)
    async with superuser(first) as connection:
        await connection.execute("CREATE TABLE numbers (number bigint); GRANT ALL ON numbers TO steward_app")
    await wait_for_standby(first)
    engine = await PostgresEngine.open(
        cluster.url, size=3, clock=clock, test=True, deadline=6.0, observer=cluster.observer()
    )
    writer = Writer(engine, clock)
    try:
        await asyncio.gather(*[writer.goes_on() for _ in range(3)])  # three connections
        assert await engine.read(clock.now(), health.standbys) == health.Standbys(1, 0, is_waiting=True)
        await _followers_are_seen(first, second, engine, clock)
        assert (cluster.host, cluster.unknown, cluster.backs) == (1, 0, 0)
        await _an_unreplicated_commit_is_no_success(first, second, writer)
        assert cluster.lost[-1:] == ["not_replicated"]
        assert (cluster.unknown, cluster.backs) == (1, 1)
        await _a_cancelled_commit_stops_no_read(first, second, writer)
        assert (cluster.lost[-1:], cluster.unknown, cluster.backs) == (["not_replicated"], 1, 1)
        await _a_read_only_primary_is_left(first, writer)
        assert cluster.lost[-1:] == ["read_only"]
        postgres.freeze(first)
        with pytest.raises(Unavailable):
            await writer.write()
        assert cluster.lost[-1:] == ["deadline"]
        await asyncio.to_thread(postgres.promote, second)
        assert await writer.goes_on() < BACK_WITHIN
        assert cluster.host == 2
        await wait_for_standby(second)
        await asyncio.gather(*[writer.goes_on() for _ in range(3)])
        postgres.kill(second)
        with pytest.raises(Unavailable):
            await writer.write()
        await asyncio.to_thread(postgres.promote, third)
        assert await writer.goes_on() < BACK_WITHIN
        assert cluster.host == 3
        await writer.assert_kept(third)
    finally:
        await engine.close()


async def _an_unreplicated_commit_is_no_success(primary: Server, standby: Server, writer: Writer) -> None:
    """Treats a commit whose wait for the standby was cancelled as lost, though PostgreSQL reports success."""
    async with superuser(primary) as connection:  # opened before the write, whose deadline is short
        postgres.freeze(standby)
        waiting = asyncio.create_task(writer.write())

        async def is_cancelled() -> Any:
            return await connection.fetchval(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            )

        await eventually(is_cancelled)
    with pytest.raises(Unavailable):
        await waiting
    postgres.thaw(standby)
    await writer.goes_on()


async def _a_cancelled_commit_stops_no_read(primary: Server, standby: Server, writer: Writer) -> None:
    """Serves reads after a write whose caller gave up while its commit waited for the standby."""
    async with superuser(primary) as connection:
        postgres.freeze(standby)
        waiting = asyncio.create_task(writer.write())

        async def is_committing() -> Any:
            return await connection.fetchval("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")

        await eventually(is_committing)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting, timeout=0)
        all_connections = asyncio.Barrier(3)

        async def read(tx: Tx) -> int:
            await all_connections.wait()
            return await _select_one(tx)

        results = await asyncio.gather(*[writer.engine.read(writer.clock.now(), read) for _ in range(3)])
        assert results == [1, 1, 1]
    postgres.thaw(standby)
    await writer.goes_on()


async def _a_read_only_primary_is_left(primary: Server, writer: Writer) -> None:
    """Closes the connections of a primary that turns read-only, and goes on once it takes writes again."""
    async with superuser(primary) as connection:
        for value in ("on", "off"):
            await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            await connection.execute("SELECT pg_reload_conf()")
            if value == "off":
                break

            async def is_refused() -> bool:
                try:
                    await writer.write()
                except Unavailable:
                    return True
                return False

            await eventually(is_refused)
            await connection.execute("SET default_transaction_read_only = off")
    await writer.goes_on()


async def test_a_host_that_does_not_exist_costs_one_try(postgresql_url: str, clock: FakeClock) -> None:
    """Connects to the next host of the URL when one does not exist."""
    host = postgresql_url.partition("@")[2].partition("/")[0]
    url = postgresql_url.replace(f"@{host}/", f"@127.0.0.1:1,{host}/")
    engine = await PostgresEngine.open(url, size=1, clock=clock, test=True)
    try:
        async with asyncio.timeout(60):
            assert await engine.read(clock.now(), _select_one) == 1
    finally:
        await engine.close()


async def test_an_error_says_what_happened_at_each_server(postgresql_url: str) -> None:
    """Names each server of the URL with its own reason, in the order of the URL and without its password."""
    address = postgresql_url.partition("@")[2]
    host, _, database = address.partition("/")
    silent = socket.create_server(("127.0.0.1", 0))  # accepts connections and answers nothing
    closing = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port, closing_port = silent.getsockname()[1], closing.sockets[0].getsockname()[1]
    hosts = f"127.0.0.1:1,127.0.0.1:{port},127.0.0.1:{closing_port},{host},no-host.invalid"
    url = postgresql_url.replace(f"@{host}/", f"@{hosts}/")
    connection: Any = await asyncpg.connect(postgresql_url)
    await connection.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    await connection.close()
    with silent, pytest.raises(NoServer) as raised:
        async with closing:
            await Hosts(url).connect(timeout=2.0)
    *reasons, unknown = str(raised.value).split("; ")
    assert reasons == [
        "127.0.0.1:1: refuses connections",
        f"127.0.0.1:{port}: no response within 2 s",
        f"127.0.0.1:{closing_port}: closes the connection",
        f"{host}: a standby, or another server that takes no writes",
    ]
    assert unknown in (
        "no-host.invalid: a host whose name is not known here",
        "no-host.invalid: Temporary failure in name resolution",  # where no name server can be asked
    )


@pytest.mark.parametrize("code", ["53100", "58030"])  # disk full, I/O error
async def test_a_full_or_failing_disk_of_the_server_refuses_the_call(
    postgresql_url: str, clock: FakeClock, code: str
) -> None:
    """Says so to the caller and counts it; the connection goes on."""
    lost: list[str] = []
    observer = EngineObserver(connection_lost=lost.append)
    engine = await PostgresEngine.open(postgresql_url, size=1, clock=clock, test=True, observer=observer)

    async def fail(tx: Tx) -> None:
        await tx.execute(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$")

    try:
        for call in (engine.write, engine.read):
            with pytest.raises(DiskFull):
                await call(clock.now(), fail)
        assert lost == ["disk", "disk"]
        assert await engine.read(clock.now(), _select_one) == 1
    finally:
        await engine.close()


async def _select_one(tx: Tx) -> int:
    row = await tx.first("SELECT 1 AS one")
    assert row is not None
    return int(row["one"])
