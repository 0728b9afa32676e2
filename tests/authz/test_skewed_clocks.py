"""Tests hosts with wrong clocks: on PostgreSQL the server's clock limits tokens and sessions."""

from datetime import timedelta
from typing import Any

import pytest

from steward.clock import SystemClock
from steward.database.engine.base import Tx
from steward.database.engine.hosts import Hosts
from steward.database.engine.postgres import PostgresEngine
from tests.fake_clock import FakeClock
from tests.service import make_service

STATUS = "/v1/automations/status"
SESSION_PATH = "/app/session"


@pytest.mark.parametrize("off", [timedelta(hours=-20), timedelta(hours=20)])
async def test_a_host_with_a_wrong_clock_ends_nothing_early_and_nothing_late(
    postgresql_url: str, off: timedelta
) -> None:
    """A token lasts an hour and an unused session 30 minutes, whatever the host's clock says."""
    clock = FakeClock(SystemClock().now() + off)
    pool: Any = (await PostgresEngine.open(postgresql_url, size=2, clock=clock, test=True))._pool
    # The server keeps its own time.
    engine = PostgresEngine(pool, Hosts(postgresql_url), clock=clock, test=False)
    service = await make_service(engine, clock)
    login = await service.log_in("owner")
    by_token = service.nobody()
    by_token.headers["Authorization"] = f"Bearer {login.body['access_token']}"
    by_cookie = await service.web("owner")
    assert (await by_token.get(STATUS)).status == 200
    assert (await by_cookie.get(SESSION_PATH)).status == 200
    await clock.advance(13 * 3600)
    assert (await by_token.get(STATUS)).status == 200
    assert (await by_cookie.get(SESSION_PATH)).status == 200

    async def age(seconds: int) -> None:
        async def act(tx: Tx) -> None:
            await tx.execute("UPDATE sessions SET seen_at = seen_at - :ms", {"ms": seconds * 1000})

        await service.write(act)

    await age(29 * 60)
    assert (await by_cookie.get(SESSION_PATH)).status == 200
    await age(31 * 60)
    assert (await by_cookie.get(SESSION_PATH)).status == 401
    await service.close()
    await engine.close()
