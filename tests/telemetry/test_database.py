"""Tests what an operator sees when connections to a real PostgreSQL are lost, and when it is back."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from steward.database.engine.base import Act, Autocommit, Tx
from steward.database.engine.postgres import PostgresEngine
from steward.model.refusals import Unavailable
from steward.startup import observe_database
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.processes.proxy import Proxy, line_to
from tests.processes.running import eventually

# Deadlines in seconds: of calls that the database answers, and of calls to a server that was silenced.
PATIENCE, SILENCE = 300.0, 3.0
ADD_ROW = """
INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)
VALUES ('t', :key, 1, 0, 'm', 0)
"""
# Ends the process that serves the connection when the transaction is about to commit.
ENDS_AT_COMMIT = """
CREATE FUNCTION end_process() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER end_process AFTER UPDATE ON fairness_clock DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION end_process()
"""


@dataclass
class ObservedEngine:
    """An engine behind a proxy for each host of its address, and what an operator sees of it."""

    engine: PostgresEngine
    clock: FakeClock
    hosts: list[Proxy]
    metrics: Metrics
    lines: list[str]

    async def write(self, act: Act[Any]) -> None:
        """Writes on the engine. Raises Unavailable."""
        await self.engine.write(self.clock.now(), act)

    async def goes_on(self) -> None:
        """Writes until a write is answered."""

        async def is_written() -> bool:
            with contextlib.suppress(Unavailable):
                await self.write(touch)
                return True
            return False

        await eventually(is_written)

    def lost(self, why: str) -> float:
        """Returns how often connections were lost for this reason."""
        return self.metrics.value("steward_database_lost_total", why=why)

    def unknown(self) -> float:
        """Returns how many commits were lost before their response."""
        return self.metrics.value("steward_commits_unknown_total")

    def host(self, number: int) -> float:
        """Returns 1 for the host in use."""
        return self.metrics.value("steward_database_host", host_number=str(number))

    def logged(self) -> list[tuple[str, object]]:
        """Returns action and reason, or seconds, of the lines of the log since the last call."""
        entries = [json.loads(line) for line in self.lines]
        self.lines.clear()
        return [(entry["action"], entry.get("reason", entry.get("seconds"))) for entry in entries]


async def operate(
    stack: AsyncExitStack, url: str, clock: FakeClock, *, hosts: int = 1, deadline: float = PATIENCE
) -> ObservedEngine:
    """Opens an engine whose address names so many proxies before one server."""
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    proxies = [await stack.enter_async_context(line_to(address.hostname, address.port)) for _ in range(hosts)]
    names = ",".join(f"127.0.0.1:{proxy.listen_port}" for proxy in proxies)
    metrics, lines = Metrics(), list[str]()
    engine = await PostgresEngine.open(
        url.replace(f"{address.hostname}:{address.port}", names),
        size=1,
        clock=clock,
        test=True,
        deadline=deadline,
        observer=observe_database(metrics, Log(lines.append, clock, SecretRegister()), clock),
    )
    stack.push_async_callback(engine.close)
    return ObservedEngine(engine, clock, proxies, metrics, lines)


@pytest.fixture
async def operated(postgresql_url: str, clock: FakeClock) -> AsyncIterator[ObservedEngine]:
    """Yields an engine over one host."""
    async with AsyncExitStack() as stack:
        yield await operate(stack, postgresql_url, clock)


async def touch(tx: Tx) -> None:
    """Changes a row."""
    await tx.execute("UPDATE fairness_clock SET vt = vt + 1")


async def run_as_owner(url: str, sql: str) -> None:
    """Runs SQL past the service."""
    owner: Any = await asyncpg.connect(url)
    try:
        await owner.execute(sql)
    finally:
        await owner.close()


async def test_a_terminated_process_is_a_loss_that_the_next_connection_ends(
    operated: ObservedEngine, postgresql_url: str
) -> None:
    """Counts and logs a connection that is terminated before its commit, and when the database is back."""

    async def is_terminated(tx: Tx) -> None:
        row = await tx.first("SELECT pg_backend_pid() AS pid")
        assert row is not None
        await run_as_owner(postgresql_url, f"SELECT pg_terminate_backend({row['pid']})")
        await touch(tx)

    await operated.write(touch)
    assert operated.logged() == []
    assert operated.metrics.value("steward_database_connect_seconds") == 1
    with pytest.raises(Unavailable):
        await operated.write(is_terminated)
    # The server's last words may be read before the next statement, which then meets a closed connection.
    why = "shut_down" if operated.lost("shut_down") else "connection"
    assert operated.lost(why) == 1
    assert operated.unknown() == 0
    assert operated.logged() == [("database_lost", why)]
    await operated.goes_on()  # or the pool itself: either opens the next connection
    assert operated.logged() == [("database_recovered", 0)]
    assert operated.metrics.value("steward_database_connect_seconds") == 2
    await operated.goes_on()
    assert operated.logged() == []


async def test_losses_of_one_minute_are_one_line_with_one_end(operated: ObservedEngine) -> None:
    """Counts each loss; logs the first of a minute and its end, and the next once the minute is over."""

    async def is_cut(tx: Tx) -> None:
        await operated.hosts[0].reset()
        await touch(tx)

    for after, lines in ((0, 1), (59.9, 0), (0.2, 1)):
        await operated.clock.advance(after)
        with pytest.raises(Unavailable):
            await operated.write(is_cut)
        await operated.goes_on()
        assert operated.logged() == [("database_lost", "connection"), ("database_recovered", 0)][: 2 * lines]
    assert operated.lost("connection") == 3
    assert operated.unknown() == 0


async def test_a_commit_without_a_response_is_of_unknown_outcome(
    postgresql_url: str, clock: FakeClock
) -> None:
    """Counts a commit, and a statement that commits itself, whose response does not arrive; nothing else."""

    async def unknown_after(*, silent_at: str) -> float:
        async with AsyncExitStack() as stack:
            operated = await operate(stack, postgresql_url, clock, deadline=SILENCE)

            async def act(tx: Tx) -> None:
                if silent_at != "commit":
                    operated.hosts[0].silence()
                await tx.execute(ADD_ROW, {"key": silent_at})  # its own row: no call waits for another
                operated.hosts[0].silence()

            calls: dict[str, Callable[[], Awaitable[None]]] = {
                "statement": lambda: operated.write(act),
                "commit": lambda: operated.write(act),
                "statement that commits itself": lambda: operated.write(Autocommit(act)),
                "read": lambda: operated.engine.read(clock.now(), act),
            }
            with pytest.raises(Unavailable):
                await calls[silent_at]()
            operated.hosts[0].heal()
            await operated.goes_on()
            assert operated.lost("deadline") == 1
            return operated.unknown()

    expected = {"statement": 0, "commit": 1, "statement that commits itself": 1, "read": 0}
    counts = await asyncio.gather(*[unknown_after(silent_at=moment) for moment in expected])
    assert dict(zip(expected, counts, strict=True)) == expected


async def test_a_commit_that_is_cut_is_of_unknown_outcome(
    operated: ObservedEngine, postgresql_url: str
) -> None:
    """Counts a commit whose server process ended, for a usual and for an urgent write."""
    await run_as_owner(postgresql_url, ENDS_AT_COMMIT)
    for number, is_urgent in enumerate((False, True), start=1):
        with pytest.raises(Unavailable):
            await operated.engine.write(operated.clock.now(), touch, urgent=is_urgent)
        assert operated.unknown() == number


async def test_a_refused_statement_that_commits_itself_is_of_known_outcome(
    operated: ObservedEngine, postgresql_url: str
) -> None:
    """Does not count a statement that the server refuses because it takes no writes."""
    database = urlsplit(postgresql_url).path.strip("/")
    await run_as_owner(postgresql_url, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    await operated.hosts[0].reset()
    with pytest.raises(Unavailable):
        await operated.write(touch)  # on the connection that was cut
    with pytest.raises(Unavailable):
        await operated.write(Autocommit(touch))
    assert operated.lost("read_only") == 1
    assert operated.unknown() == 0


async def test_a_server_that_takes_no_connection_is_a_loss(operated: ObservedEngine) -> None:
    """Counts and logs tries to connect that all fail, and how long it was before the first that succeeds."""
    await operated.goes_on()
    operated.logged()
    await operated.hosts[0].cut()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await operated.write(touch)
    assert operated.lost("not_opened") >= 1
    assert operated.unknown() == 0
    assert ("database_lost", "not_opened") in operated.logged()
    await operated.clock.advance(30)
    operated.hosts[0].heal()
    await operated.goes_on()
    assert operated.logged() == [("database_recovered", 30)]


async def test_the_host_in_use_is_shown_by_its_position(postgresql_url: str, clock: FakeClock) -> None:
    """Sets 1 for the host of the newest connection and 0 for the one before, and logs the change."""
    async with AsyncExitStack() as stack:
        operated = await operate(stack, postgresql_url, clock, hosts=2)
        first = 1 if operated.host(1) else 2
        other = 3 - first
        assert (operated.host(first), operated.host(other)) == (1, 0)
        await operated.hosts[first - 1].cut()
        await operated.goes_on()
        assert (operated.host(first), operated.host(other)) == (0, 1)
        assert json.loads(operated.lines[-1])["host_number"] == other
