"""Statements of PostgreSQL that take too long: the server ends each at the limit of its purpose."""

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest

from steward import config
from steward.cli.command import CliArgs, open_context
from steward.database.engine.base import LONG_SECONDS, Act, Autocommit, Batchable, Engine, Tx
from steward.database.engine.observer import EngineObserver
from steward.database.engine.postgres import PostgresEngine
from steward.database.engine.wrapper import EngineWrapper, LongLimitEngine
from steward.model.ids import OrgId
from steward.model.refusals import Unavailable
from steward.runs.run_context import TaskContext
from steward.runs.tasks import maintenance
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.processes.running import eventually
from tests.runs.shop import open_shop
from tests.service import make_service

T = TypeVar("T")
DEADLINE = 6.0  # the server ends a statement 0.6 s before: a busy machine may read its response that late
WITHIN, BEYOND = 0.1, 120.0  # seconds of a statement
_LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout")


@pytest.fixture
async def engine(postgresql_url: str, clock: FakeClock) -> AsyncIterator[PostgresEngine]:
    """Yields an engine with a short deadline, whose lost connections fail the test."""
    lost: list[str] = []
    observer = EngineObserver(connection_lost=lost.append)
    opened = await PostgresEngine.open(
        postgresql_url,
        size=5,
        clock=clock,
        test=True,
        deadline=DEADLINE,
        observer=observer,
    )
    yield opened
    await opened.close()
    assert not lost


async def _take(tx: Tx, seconds: float) -> int:
    row = await tx.first(
        "SELECT pg_backend_pid() AS pid FROM pg_sleep(CAST(CAST(:seconds AS text) AS float))",
        {"seconds": str(seconds)},
    )
    assert row is not None
    return int(row["pid"])


async def _take_together(tx: Tx, items: list[float]) -> list[int]:
    return [await _take(tx, seconds) for seconds in items]


async def test_a_statement_past_the_limit_ends_and_its_connection_goes_on(
    engine: PostgresEngine, clock: FakeClock
) -> None:
    """Its caller gets Unavailable; the same connections answer what comes next, of every kind of call."""
    now = clock.now()
    calls: dict[str, Callable[[float], Awaitable[int]]] = {
        "write": lambda seconds: engine.write(now, partial(_take, seconds=seconds)),
        "single statement": lambda seconds: engine.write(now, Autocommit(partial(_take, seconds=seconds))),
        "shared call": lambda seconds: engine.write(
            now, Batchable(seconds, _take, _take_together, autocommit=True)
        ),
        "read": lambda seconds: engine.read(now, partial(_take, seconds=seconds)),
        "small read": lambda seconds: engine.read(now, partial(_take, seconds=seconds), small=True),
    }
    processes = set(await asyncio.gather(*[call(WITHIN) for call in calls.values()]))
    assert len(processes) == len(calls)
    results = await asyncio.gather(*[call(BEYOND) for call in calls.values()], return_exceptions=True)
    for name, result in zip(calls, results, strict=True):
        assert isinstance(result, Unavailable), name
        assert (result.message, result.retry_after) == ("The database took too long.", 2), name
    assert processes == set(await asyncio.gather(*[call(WITHIN) for call in calls.values()]))


async def test_writes_of_a_shared_call_that_took_too_long_fail_at_once(
    engine: PostgresEngine, clock: FakeClock
) -> None:
    """None is written by itself afterwards, since each may take as long."""
    tried: list[float] = []

    async def alone(tx: Tx, seconds: float) -> int:
        tried.append(seconds)
        return await _take(tx, seconds)

    calls = [engine.write(clock.now(), Batchable(item, alone, _take_together)) for item in (WITHIN, BEYOND)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, Unavailable) for result in results)
    assert not tried


async def test_a_longer_limit_ends_with_its_transaction(engine: PostgresEngine, clock: FakeClock) -> None:
    """What is allowed more takes longer than others may; the connection then has its usual limit again."""
    now = clock.now()
    longer = LongLimitEngine(engine, 1.5 * DEADLINE)
    within, beyond = partial(_take, seconds=1.1 * DEADLINE), partial(_take, seconds=BEYOND)
    *served, too_long, usual = await asyncio.gather(
        longer.read(now, within),
        longer.write(now, within),
        longer.write(now, beyond),
        engine.write(now, within),
        return_exceptions=True,
    )
    assert all(isinstance(process, int) for process in served)
    assert isinstance(too_long, Unavailable)
    assert isinstance(usual, Unavailable)
    shorter = LongLimitEngine(engine, DEADLINE / 2)
    assert await shorter.read(now, _limits) == await engine.read(now, _limits)


async def _limits(tx: Tx) -> dict[str, int]:
    rows = await tx.all("SELECT name, setting FROM pg_settings WHERE name IN (:names)", {"names": _LIMITS})
    return {row["name"]: int(row["setting"]) for row in rows}


async def _compiles(tx: Tx) -> str:
    row = await tx.first("SHOW jit")
    assert row is not None
    return str(row["jit"])


async def test_each_purpose_has_its_limit(postgresql_url: str, clock: FakeClock) -> None:
    """A request, a heartbeat and a long task each end within their limit by the caller's clock.

    No transaction idles for more than ten seconds, and nothing is compiled.
    """
    opened = await PostgresEngine.open(postgresql_url, size=1, clock=clock, test=True)
    now, usual = clock.now(), {"idle_in_transaction_session_timeout": 10_000}
    try:
        assert await opened.read(now, _limits) == {**usual, "statement_timeout": 7_200}
        assert await opened.write(now, _limits, urgent=True) == {**usual, "statement_timeout": 4_500}
        long_tasks = LongLimitEngine(opened, LONG_SECONDS)
        assert await long_tasks.write(now, _limits) == {**usual, "statement_timeout": 27_000}
        assert await opened.write(now, _limits) == {**usual, "statement_timeout": 7_200}
        assert await opened.read(now, _compiles) == "off"
    finally:
        await opened.close()


async def test_retention_waits_where_a_request_is_refused(
    postgresql_url: str, clock: FakeClock, engine: PostgresEngine, tmp_path: Path
) -> None:
    """A row that stays locked ends a request's statement; retention removes it when it is free."""
    shop = await open_shop(postgresql_url, clock, tmp_path)
    ctx = replace((await shop.registered_worker()).ctx, engine=engine)

    async def defer(tx: Tx) -> None:
        await tx.execute(
            "INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)"
            " VALUES ('t', 'k', 1, 0, 'm', 0)"
        )

    async def forget(tx: Tx) -> int:
        return await tx.execute("DELETE FROM deferred_rows WHERE task = 't'")

    await engine.write(clock.now(), defer)
    holder: Any = await asyncpg.connect(postgresql_url)
    try:
        await holder.execute("BEGIN; UPDATE deferred_rows SET failures = 2")
        retention = asyncio.create_task(maintenance.apply_retention(ctx, ctx.retention))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event = 'transactionid'"
        )
        await eventually(partial(holder.fetchval, waiting))
        with pytest.raises(Unavailable, match="took too long"):
            await engine.write(clock.now(), forget)
        await holder.execute("COMMIT")
        await retention
        assert await engine.write(clock.now(), forget) == 0
    finally:
        await holder.close()
        await shop.service.close()


class _LimitRecorder(EngineWrapper):
    """An engine that records the server's limit at the end of each transaction."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.seconds: list[float] = []

    async def write(
        self, now: datetime, act: Act[T], *, org: OrgId | Collection[OrgId] = (), urgent: bool = False
    ) -> T:
        """Writes like the wrapped engine."""
        if isinstance(act, Autocommit | Batchable):
            return await super().write(now, act, org=org, urgent=urgent)
        return await super().write(now, partial(self._recorded, act), org=org, urgent=urgent)

    async def read(
        self,
        now: datetime,
        act: Act[T],
        *,
        org: OrgId | Collection[OrgId] = (),
        small: bool = False,
        sets_tenant: bool = False,
    ) -> T:
        """Reads like the wrapped engine."""
        if not (small or isinstance(act, Autocommit)):
            act = partial(self._recorded, act)
        return await super().read(now, act, org=org, small=small, sets_tenant=sets_tenant)

    async def _recorded(self, act: Act[T], tx: Tx) -> T:
        result = await act(tx)
        self.seconds.append((await _limits(tx))["statement_timeout"] / 1000)
        return result


async def _export(engine: Engine, clock: FakeClock) -> None:
    service = await make_service(engine, clock)
    try:
        assert (await (await service.web("owner")).get("/app/audit/export")).status == 200
    finally:
        await service.close()


def _context(engine: Engine, clock: FakeClock) -> TaskContext:
    log = Log(lambda line: None, clock, SecretRegister())
    return TaskContext(engine=engine, clock=clock, log=log, metrics=Metrics())


async def _rotate_partitions(engine: Engine, clock: FakeClock) -> None:
    await maintenance.rotate_partitions(_context(engine, clock))


async def _check_logs(engine: Engine, clock: FakeClock) -> None:
    await (await make_service(engine, clock)).close()
    await maintenance.check_audit_logs(_context(engine, clock), timedelta(days=1))


@pytest.mark.parametrize(
    ("act", "seconds"), [(_export, 22.5), (_rotate_partitions, 27.0), (_check_logs, 27.0)]
)
async def test_what_takes_long_has_a_longer_limit(
    postgresql_url: str,
    clock: FakeClock,
    act: Callable[[Engine, FakeClock], Awaitable[None]],
    seconds: float,
) -> None:
    """The server's limit of an export ends before the operation's 25 s, of periodic work before 30 s."""
    opened = await PostgresEngine.open(postgresql_url, size=2, clock=clock, test=True)
    try:
        recorder = _LimitRecorder(opened)
        await act(recorder, clock)
        assert max(recorder.seconds) == seconds
    finally:
        await opened.close()


async def test_a_command_of_an_operator_has_a_minute(postgresql_url: str, tmp_path: Path) -> None:
    """It may read more than a request does."""
    environ = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": postgresql_url,
        "STEWARD_DATA_DIR": str(tmp_path),
    }
    args = CliArgs(Namespace(), partial(config.read, environ), lambda facts: None)
    async with open_context(args) as context:
        limits = await context.engine.read(args.now(), _limits)
    assert limits["statement_timeout"] == 54_000
