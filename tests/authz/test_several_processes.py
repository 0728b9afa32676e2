"""Tests API processes over one PostgreSQL: shared limits, and the round trips of a read."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from steward.database.engine.postgres import PostgresEngine
from tests.authz.two_organizations import PREFIX, make_two
from tests.fake_clock import FakeClock
from tests.people import Caller
from tests.processes.proxy import line_to
from tests.service import LOGIN, Service, make_service

STATUS = f"{PREFIX}/status"
CALLS = 20


@pytest.fixture
async def both(postgresql_url: str, clock: FakeClock) -> AsyncIterator[tuple[Service, Service]]:
    """Provides two processes with their own connections and a limit of five calls a minute."""
    engines = [await PostgresEngine.open(postgresql_url, size=2, clock=clock, test=True) for _ in range(2)]
    first = await make_service(engines[0], clock)
    first.restart(limit_person=5, limit_organization=7, limit_login=3)
    second = Service(
        replace(first.context, engine=engines[1]), clock, lines=first.lines, wake_hints=first.wake_hints
    )
    second.members, second.own, second.other = first.members, first.own, first.other
    yield first, second
    await second.close()
    await first.close()
    for engine in engines:
        await engine.close()


async def statuses(callers: list[Caller], number: int) -> list[int]:
    """Returns the statuses of simultaneous calls of each caller."""
    return sorted(
        response.status
        for response in await asyncio.gather(*(caller.get(STATUS) for caller in callers * number))
    )


async def test_calls_are_counted_together(both: tuple[Service, Service]) -> None:
    """Calls are counted exactly over all processes, and a refused call does not count."""
    assert await statuses([await service.token("member") for service in both], 6) == [200] * 5 + [429] * 7
    # Two of the organization's seven calls are left, since the seven refused calls used none.
    assert (
        await statuses([await each_service.token("owner") for each_service in both], 3)
        == [200] * 2 + [429] * 4
    )


async def test_login_attempts_are_counted_together(both: tuple[Service, Service]) -> None:
    """Login attempts count by client over all processes and addresses."""
    callers = [service.nobody(f"198.51.100.{number}") for number in range(4) for service in both]
    body = both[0].login_body("member")
    responses = await asyncio.gather(*(caller.post(LOGIN, body) for caller in callers))
    assert sorted(response.status for response in responses) == [200] * 3 + [429] * 5


async def test_a_run_is_read_in_two_round_trips(postgresql_url: str, clock: FakeClock) -> None:
    """Reading a run or polling it takes at most two round trips."""
    points = urlsplit(postgresql_url)
    assert points.hostname is not None
    assert points.port is not None
    async with line_to(points.hostname, points.port) as line:
        url = postgresql_url.replace(f":{points.port}/", f":{line.listen_port}/", 1)
        engine = await PostgresEngine.open(url, size=1, clock=clock, test=True)
        two = await make_two(engine, clock)
        two.service.restart(limit_person=2 * CALLS + 2)
        token = await two.service.token("owner")
        for path in (f"{PREFIX}/runs/{two.ours.run_id}", f"{PREFIX}/runs/{two.ours.run_id}?after_seq=500"):
            assert (await token.get(path)).status == 200  # so that its statements are prepared
            before = line.request_pieces
            assert [(await token.get(path)).status for _ in range(CALLS)] == [200] * CALLS
            assert 0 < line.request_pieces - before <= 2 * CALLS
        assert (await token.get(path)).status == 429
        await two.service.close()
        await engine.close()
