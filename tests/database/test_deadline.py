"""A PostgreSQL that stops answering: callers hear so within the deadline, and go on when it is back."""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import pytest

from steward.database.engine.base import Autocommit, Tx
from steward.database.engine.postgres import PostgresEngine
from steward.model.refusals import Unavailable
from tests.fake_clock import FakeClock
from tests.processes.proxy import Proxy, line_to

DEADLINE = 0.5


@pytest.fixture
async def line(postgresql_url: str) -> AsyncIterator[Proxy]:
    """The way to the database, which a test may silence."""
    address = urlsplit(postgresql_url)
    assert address.hostname is not None
    assert address.port is not None
    async with line_to(address.hostname, address.port) as proxy:
        yield proxy


async def _touch(tx: Tx) -> int:
    return await tx.execute("UPDATE fairness_clock SET vt = vt + 1")


async def _look(tx: Tx) -> int:
    row = await tx.first("SELECT vt FROM fairness_clock")
    assert row is not None
    return int(row["vt"])


async def _answered(engine: PostgresEngine, clock: FakeClock) -> int:
    """The first answer; the pool may still be waiting for a connection of the silent time."""
    for _ in range(20):
        with contextlib.suppress(Unavailable):
            return await engine.read(clock.now(), _look)
    raise AssertionError("the database is not reached any more")


async def test_a_silent_server_is_given_up_at_the_deadline(
    line: Proxy, postgresql_url: str, clock: FakeClock
) -> None:
    """Writes, reads and heartbeats answer 503 and go on over new connections; the pool misses none."""
    address = urlsplit(postgresql_url)
    url = postgresql_url.replace(f":{address.port}/", f":{line.listen_port}/")
    engine = await PostgresEngine.open(url, size=1, clock=clock, test=True, deadline=DEADLINE)
    now = clock.now()
    calls: dict[str, Callable[[], Awaitable[int]]] = {
        "write": lambda: engine.write(now, _touch),
        "single statement": lambda: engine.write(now, Autocommit(_touch)),
        "heartbeat": lambda: engine.write(now, _touch, urgent=True),
        "read": lambda: engine.read(now, _look),
        "small read": lambda: engine.read(now, _look, small=True),
    }
    writes = 0
    for name, call in calls.items():
        await call()
        line.silence()
        begun = time.monotonic()
        with pytest.raises(Unavailable) as refused:
            await call()
        # A statement's deadline, and where the pool has to connect anew, that of the connection.
        assert time.monotonic() - begun < 10 * DEADLINE, name
        assert refused.value.retry_after == 2, name
        await line.reset()
        line.heal()
        writes += "read" not in name
        assert await _answered(engine, clock) == writes, name
    await engine.close()
