"""A PostgreSQL that stops answering: calls raise Unavailable by the deadline and work when it is back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from urllib.parse import urlsplit

import pytest

from steward.database.engine.base import Autocommit, Tx
from steward.database.engine.postgres import PostgresEngine
from steward.model.refusals import Unavailable
from tests.fake_clock import FakeClock
from tests.processes.proxy import Proxy, line_to
from tests.processes.running import eventually

DEADLINE, HEARTBEAT_DEADLINE = 0.5, 60.0  # the shorter one holds
GIVEN_UP_WITHIN = 7.0  # less than the usual deadline


@pytest.fixture
async def line(postgresql_url: str) -> AsyncIterator[Proxy]:
    """Yields the connection to the database, which a test can silence."""
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


async def _opened(url: str, clock: FakeClock) -> PostgresEngine:
    """Opens an engine whose deadline a busy machine may miss at the start."""
    while True:
        with contextlib.suppress(Unavailable):
            return await PostgresEngine.open(
                url,
                size=1,
                clock=clock,
                test=True,
                deadline=DEADLINE,
                heartbeat_deadline=HEARTBEAT_DEADLINE,
            )


async def _answered(call: Callable[[], Awaitable[int]]) -> int:
    """Returns the first result; the pool may still try connections from the time of the silence."""
    results: list[int] = []

    async def has_result() -> bool:
        with contextlib.suppress(Unavailable):
            results.append(await call())
        return bool(results)

    await eventually(has_result)
    return results[0]


async def test_a_silent_server_is_given_up_at_the_deadline(
    line: Proxy, postgresql_url: str, clock: FakeClock
) -> None:
    """Raises Unavailable from writes, reads and heartbeats, and serves each again over new connections."""
    address = urlsplit(postgresql_url)
    url = postgresql_url.replace(f":{address.port}/", f":{line.listen_port}/")
    engine = await _opened(url, clock)
    now = clock.now()
    calls: dict[str, Callable[[], Awaitable[int]]] = {
        "write": lambda: engine.write(now, _touch),
        "single statement": lambda: engine.write(now, Autocommit(_touch)),
        "heartbeat": lambda: engine.write(now, _touch, urgent=True),
        "read": lambda: engine.read(now, _look),
        "small read": lambda: engine.read(now, _look, small=True),
    }
    look = partial(engine.read, now, _look)
    for name, call in calls.items():
        await _answered(call)
        before = await _answered(look)
        line.silence()
        # The statement's deadline, that of a new connection where the pool has to connect, and time to spare.
        async with asyncio.timeout(GIVEN_UP_WITHIN):
            with pytest.raises(Unavailable) as refused:
                await call()
        assert refused.value.retry_after == 2, name
        await line.reset()
        line.heal()
        assert await _answered(look) == before, name
    assert before >= sum("read" not in name for name in calls)
    await engine.close()
