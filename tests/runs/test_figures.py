"""Tests the metrics of the queue, leases, slots and open writes on both engines."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from steward import periodic_tasks
from steward.database.engine.migrate import is_sqlite
from steward.database.operator import health
from steward.database.operator.health import Follower, OpenTransaction
from steward.model.run import Mode
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from steward.worker import Worker, WorkerContext
from tests.databases import HIDE_SESSIONS
from tests.runs.shop import Shop
from tests.runs.test_limits import DAILY

# Figures of the sessions and statistics of a database.
pytestmark = pytest.mark.usefixtures("cold_database")


def gauge_by_label(ctx: WorkerContext, name: str, label: str) -> dict[str, float]:
    """Returns the values of a gauge by one of its labels."""
    prefix = f"{name}{{{label}="
    return {
        line.split('"')[1]: float(line.rsplit(" ", 1)[1])
        for line in ctx.metrics.text().splitlines()
        if line.startswith(prefix)
    }


def logging_to(lines: list[str], shop: Shop, hired: Worker) -> None:
    """Lets the worker log to `lines`."""
    hired.ctx = replace(hired.ctx, log=Log(lines.append, shop.clock, SecretRegister()))


def logged(lines: list[str], action: str) -> list[dict[str, Any]]:
    """Returns the log's lines of an action."""
    return [line for line in map(json.loads, lines) if line["action"] == action]


async def test_a_transaction_is_logged_once_when_it_is_open_for_over_a_minute(
    shop: Shop, database_url: str
) -> None:
    """Names process, role and application, not at a minute but past it, and not its query."""
    if is_sqlite(database_url):
        pytest.skip("SQLite has no sessions of other roles")
    hired, lines = await shop.registered_worker(), list[str]()
    logging_to(lines, shop, hired)
    settings = {"application_name": "weekly report"}
    reader: Any = await asyncpg.connect(database_url, server_settings=settings)
    async with reader.transaction():
        since = await reader.fetchval(
            "SELECT date_trunc('milliseconds', xact_start) FROM pg_stat_activity"
            " WHERE pid = pg_backend_pid() AND 4711 = 4711"
        )
        await shop.clock.advance((since - shop.clock.now()).total_seconds())
        for seconds, expected in ((60, 0), (0.1, 1), (15, 1)):
            await shop.clock.advance(seconds)
            await periodic_tasks.export_gauges(hired)
            assert len(logged(lines, "long_reader")) == expected
        [line] = logged(lines, "long_reader")
        process = await reader.fetchval("SELECT pg_backend_pid()")
        assert (line["server_process"], line["role"], line["application"], line["seconds"]) == (
            *(process, "steward", "weekly report", 60.1),
        )
        assert "4711" not in str(line)
    await reader.close()
    await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(hired.ctx, "steward_oldest_transaction_seconds", "kind")["session"] == 0


async def test_an_age_that_cannot_be_seen_is_no_metric(shop: Shop, database_url: str) -> None:
    """Without the grant to see other sessions their oldest age is absent, not 0."""
    if is_sqlite(database_url):
        pytest.skip("SQLite has no sessions of other roles")
    hired = await shop.registered_worker()
    await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(hired.ctx, "steward_oldest_transaction_seconds", "kind").keys() == {
        *("session", "prepared", "slot", "standby")
    }
    owner: Any = await asyncpg.connect(database_url)
    await owner.execute(HIDE_SESSIONS)
    await owner.close()
    await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(hired.ctx, "steward_oldest_transaction_seconds", "kind") == {"prepared": 0}


def test_rows_that_standbys_keep_are_as_old_as_they_have_been_seen() -> None:
    """The age begins when the transaction is first seen, and anew with a later one."""
    holds, now = health.RowHolds(), datetime(2026, 3, 2, tzinfo=UTC)
    standby = Follower("standby", "db2", "sync", 700, timedelta(), 0)
    slot = Follower("slot", "db3", "active", None, None, 0)
    [held] = holds.update([slot, standby], now)
    assert held == OpenTransaction("standby", now, 0, "", "db2")
    later = now + timedelta(minutes=2)
    first, second = holds.update([replace(slot, rows_since=900), standby], later)
    assert (first.kind, first.since, second.kind, second.since) == ("slot", later, "standby", now)
    assert [held.since for held in holds.update([replace(standby, rows_since=701)], later)] == [later]
    assert holds.update([slot], later) == []


async def test_standbys_are_counted_where_they_are_expected_and_seen(shop: Shop, database_url: str) -> None:
    """A single server has no such series; one of several that nothing follows has 0."""
    if is_sqlite(database_url):
        pytest.skip("SQLite has no standbys")
    hired, lines = await shop.registered_worker(), list[str]()
    logging_to(lines, shop, hired)
    await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(hired.ctx, "steward_standbys", "state") == {}
    rules = replace(hired.ctx.worker_rules, expects_standbys=True)
    hired.ctx = replace(hired.ctx, worker_rules=rules)
    for _ in range(2):
        await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(hired.ctx, "steward_standbys", "state") == {"synchronous": 0, "asynchronous": 0}
    assert [line["asynchronous"] for line in logged(lines, "standby_missing")] == [0]  # once, when it begins
    owner: Any = await asyncpg.connect(database_url)
    await owner.execute(HIDE_SESSIONS)
    await owner.close()
    await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(hired.ctx, "steward_standbys", "state") == {}


async def test_dead_rows_and_transaction_age_are_exported(shop: Shop, database_url: str) -> None:
    """Exports dead rows, the age of transactions, and rows without a partition, counted up to the limit."""
    if is_sqlite(database_url):
        pytest.skip("SQLite cleans up in each transaction")
    hired = await shop.registered_worker()
    await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(hired.ctx, "steward_dead_rows", "table").keys() == set(health.QUEUE_TABLES)
    assert re.search(r"^steward_transaction_age [1-9]", hired.ctx.metrics.text(), re.M)
    rest_rows = gauge_by_label(hired.ctx, "steward_rest_rows", "table")
    assert rest_rows.keys() == {"audit_log", "changes", "event_bodies", "step_values", "steps"}
    assert rest_rows["event_bodies"] == 0
    owner: Any = await asyncpg.connect(database_url)
    await owner.execute(
        "SET session_replication_role = replica;"  # without triggers and foreign keys
        " INSERT INTO event_bodies (org_id, event_id, body)"
        " SELECT 1, '7ZZZZZZZZZZZZZZZZZZZZZZZZ' || n, '' FROM generate_series(1, 3) AS n"
    )
    await owner.close()
    await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(hired.ctx, "steward_rest_rows", "table")["event_bodies"] == 3
    engine = shop.service.engine
    for cap in (2, 3):
        counted = await engine.read(shop.clock.now(), partial(health.rest_rows, cap=cap))
        assert counted["event_bodies"] == cap
    assert (await engine.read(shop.clock.now(), health.rest_rows))["event_bodies"] == 3


async def test_tables_of_the_queue_are_vacuumed_early(postgresql_url: str) -> None:
    """Gives the tables whose rows change most, and no others, their own limits for autovacuum."""
    owner: Any = await asyncpg.connect(postgresql_url)
    rows = await owner.fetch("SELECT relname, reloptions FROM pg_class WHERE relkind = 'r'")
    await owner.close()
    options = {row["relname"]: set(row["reloptions"] or ()) for row in rows}
    assert {name for name in options if any("autovacuum" in option for option in options[name])} == set(
        health.QUEUE_TABLES
    )
    early = {
        "autovacuum_vacuum_scale_factor=0.01",
        "autovacuum_vacuum_threshold=1000",
        "autovacuum_vacuum_cost_delay=0",
        "autovacuum_analyze_scale_factor=0.02",
    }
    for name in health.QUEUE_TABLES:
        assert options[name] - {"fillfactor=70"} == early


async def test_metrics_report_depth_and_age_of_the_queue(shop: Shop) -> None:
    """The metrics report queue depth and age, leases, late slots and the time to a run's start."""
    hired = await shop.registered_worker()
    ctx = hired.ctx
    automation = await shop.hiding()
    await shop.waiting(automation)
    await shop.run_now(automation)
    await shop.clock.advance(30)
    await shop.run_now(await shop.pricing(), Mode.TEST)
    await shop.set_up("hide-out-of-stock-products", {}, DAILY)
    await periodic_tasks.export_gauges(hired)
    assert gauge_by_label(ctx, "steward_queue_runs", "state") == {
        "blocked": 1,
        "leased": 0,
        "parked": 1,
        "ready": 1,
        "sleeping": 0,
    }
    ages = gauge_by_label(ctx, "steward_queue_oldest_seconds", "state")
    assert (ages["ready"], ages["leased"], 30 <= ages["blocked"] < 60) == (0, 0, True)
    assert gauge_by_label(ctx, "steward_writes_open", "state") == {"intent": 0, "unknown": 0}
    assert ctx.metrics.value("steward_schedule_behind_seconds") == 0
    assert gauge_by_label(ctx, "steward_workers", "lease") == {"held": 1, "expired": 0}
    await shop.clock.advance(86_400)
    await periodic_tasks.export_gauges(hired)
    lagging = ctx.metrics.value("steward_schedule_behind_seconds")
    assert 0 < lagging < 86_400
    assert gauge_by_label(ctx, "steward_workers", "lease") == {"held": 0, "expired": 1}
    assert ctx.metrics.value("steward_lease_left_seconds") == 0
    before = ctx.metrics.value("steward_run_start_seconds")
    await shop.drain()
    assert ctx.metrics.value("steward_run_start_seconds") > before
    assert ctx.metrics.value("steward_commit_batch_size") > 0
