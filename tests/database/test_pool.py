"""The pool of PostgreSQL connections: waiting in turn, cancelled callers, age, closing."""

import asyncio
from datetime import timedelta

import pytest

from steward.database.engine import hosts
from steward.database.engine.base import Tx
from steward.database.engine.postgres import PostgresEngine
from steward.model.refusals import NotFound, Unavailable
from tests.fake_clock import FakeClock


async def _backend(tx: Tx) -> int:
    row = await tx.first("SELECT pg_backend_pid() AS pid, count(*) AS members FROM members")
    assert row is not None
    return int(row["pid"])


async def _endless(tx: Tx) -> None:
    await tx.execute("UPDATE fairness_clock SET vt = vt + 1000")
    await tx.first("SELECT pg_sleep(60)")


@pytest.mark.parametrize("writes", [True, False])
async def test_a_connection_of_a_cancelled_caller_serves_the_next_one(
    postgresql_url: str, clock: FakeClock, writes: bool
) -> None:
    """Its statement is ended and its transaction rolled back; the connection itself is kept."""
    engine = await PostgresEngine.open(postgresql_url, size=1, clock=clock, test=True)
    backend = await engine.read(clock.now(), _backend, small=True)

    async def seen(tx: Tx) -> int:
        row = await tx.first("SELECT vt FROM fairness_clock")
        assert row is not None
        return int(row["vt"])

    async def forever(tx: Tx) -> None:
        begun.set()
        await (_endless(tx) if writes else tx.first("SELECT pg_sleep(60)"))

    before = await engine.read(clock.now(), seen)
    begun = asyncio.Event()
    call = engine.write(clock.now(), forever) if writes else engine.read(clock.now(), forever, small=True)
    caller = asyncio.ensure_future(call)
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await engine.read(clock.now(), seen) == before
    assert await engine.read(clock.now(), _backend, small=True) == backend
    await engine.close()


async def test_callers_beyond_the_size_wait_in_turn_and_a_refusal_keeps_the_connection(
    postgresql_url: str, clock: FakeClock
) -> None:
    """Twenty callers of two connections are all served, by two processes of the server."""
    engine = await PostgresEngine.open(postgresql_url, size=2, clock=clock, test=True)

    async def refuse(tx: Tx) -> int:
        await _backend(tx)
        raise NotFound

    # Two callers wait for each other: one connection might serve all before the other is open.
    both_in_use = asyncio.Barrier(2)

    async def meet(tx: Tx) -> int:
        await both_in_use.wait()
        return await _backend(tx)

    acts = [refuse if n % 3 == 0 else meet if n < 3 else _backend for n in range(20)]
    results = await asyncio.gather(*(engine.read(clock.now(), act) for act in acts), return_exceptions=True)
    assert sum(isinstance(result, NotFound) for result in results) == 7
    assert len({result for result in results if isinstance(result, int)}) == 2
    await engine.close()


async def test_a_caller_waits_for_a_connection_until_the_deadline(
    postgresql_url: str, clock: FakeClock
) -> None:
    """When every connection is busy for longer, the database counts as unavailable."""
    engine = await PostgresEngine.open(postgresql_url, size=1, clock=clock, test=True, deadline=3.0)
    free, held = asyncio.Event(), asyncio.Event()

    async def hold(tx: Tx) -> None:
        held.set()
        await free.wait()

    holder = asyncio.ensure_future(engine.read(clock.now(), hold, small=True))
    await held.wait()
    with pytest.raises(Unavailable):
        await engine.read(clock.now(), _backend)
    free.set()
    await holder
    assert await engine.read(clock.now(), _backend)
    await engine.close()
    with pytest.raises(Unavailable):
        await engine.read(clock.now(), _backend)


async def test_an_old_connection_is_replaced_and_an_idle_one_closed(
    postgresql_url: str, clock: FakeClock
) -> None:
    """A connection serves for an hour at most; of two idle ones the unused one is closed."""
    engine = await PostgresEngine.open(postgresql_url, size=2, clock=clock, test=True)
    first = set(await asyncio.gather(*(engine.read(clock.now(), _backend) for _ in range(2))))
    assert len(first) == 2

    async def present(tx: Tx) -> set[int]:
        rows = await tx.all("SELECT pid FROM pg_stat_activity WHERE pid = ANY(:pids)", {"pids": list(first)})
        return {int(row["pid"]) for row in rows}

    await clock.advance(timedelta(minutes=6).total_seconds())
    recent = await engine.read(clock.now(), _backend)
    assert recent in first
    while await engine.read(clock.now(), present) != {recent}:
        pass
    await clock.advance(timedelta(minutes=61).total_seconds())
    assert await engine.read(clock.now(), _backend) == recent
    assert await engine.read(clock.now(), _backend) not in first
    await engine.close()


async def test_a_closed_engine_refuses_at_once_and_is_closed_again(
    postgresql_url: str, clock: FakeClock
) -> None:
    """Nobody waits until the deadline for a connection that will not come."""
    engine = await PostgresEngine.open(postgresql_url, size=1, clock=clock, test=True, deadline=600)
    async with asyncio.timeout(60):
        for _ in range(2):
            await engine.close()
            with pytest.raises(Unavailable):
                await engine.read(clock.now(), _backend)


@pytest.mark.parametrize("cached_statements", [100, 0])
async def test_the_facts_of_types_are_read_once_a_process(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch, cached_statements: int
) -> None:
    """A second connection does not ask the server what it has told the first."""
    monkeypatch.setattr(hosts, "_TYPES", {})
    sql = "SELECT $1::bigint[] AS longs, $2::boolean[] AS flags, $3::float8[] AS floats"
    questions: list[int] = []
    for _ in range(2):
        connection = await hosts.Hosts(postgresql_url).connect(
            timeout=60, statement_cache_size=cached_statements
        )
        queries: list[str] = []
        with connection.query_logger(lambda logged, queries=queries: queries.append(logged.query)):
            row = await connection.fetchrow(sql, [1, None, 2**62], [True, False], [0.5])
        assert row is not None
        assert tuple(row) == ([1, None, 2**62], [True, False], [0.5])
        questions.append(sum(query != sql for query in queries))
        await connection.close()
    assert questions[0] > 0
    assert questions[1] == 0
