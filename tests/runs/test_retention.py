"""Tests what retention removes, when, and what stays. See docs/design/storage.md#retention."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from steward import periodic_tasks
from steward.database import due_rows
from steward.database.accounts import attempt_limits as limits
from steward.database.accounts import sessions
from steward.database.engine import maintenance as database_maintenance
from steward.database.engine.base import Tx
from steward.database.engine.migrate import sqlite_path
from steward.database.engine.sqlite import SqliteEngine
from steward.database.runs import steps
from steward.model.refusals import NotFound
from steward.model.run import Mode, Run, RunStatus
from steward.runs.tasks import maintenance, retention
from tests.fake_clock import FakeClock
from tests.processes.running import eventually
from tests.runs.shop import Shop, connect_all, neighbour, open_shop

OF_A_RUN = ("runs", "steps", "step_values", "changes", "search_terms", "write_ledger", "idempotency_keys")
HISTORY = timedelta(days=400)
STORED = timedelta(milliseconds=1)


async def counted(shop: Shop, *tables: str) -> dict[str, int]:
    """Returns the number of the organization's rows by table."""

    async def count(tx: Tx) -> dict[str, int]:
        counts = {}
        for table in tables:
            row = await tx.first(
                f"SELECT count(*) AS n FROM {table} WHERE org_id = :org", {"org": shop.owner.org}
            )
            assert row is not None
            counts[table] = row["n"]
        return counts

    return await shop.read(count)


async def finished(shop: Shop) -> Run:
    """Returns an ended run that proposed changes, was approved and wrote them."""
    run = await shop.waiting(await shop.hiding())
    await shop.approve(run)
    return await shop.until_settled(run)


async def until(shop: Shop, ended: Run, age: timedelta) -> None:
    """Advances the clock until the run ended `age` ago and runs one pass of retention."""
    assert ended.finished_at is not None
    await shop.clock.advance((ended.finished_at + age - shop.clock.now()).total_seconds())
    await periodic_tasks.apply_retention(await shop.registered_worker())


async def test_a_run_goes_with_all_it_holds_when_its_time_is_over(shop: Shop) -> None:
    """A run is there at 400 days and removed with all its rows a moment later.

    See docs/design/storage.md#retention.
    """
    ended = await finished(shop)
    assert ended.status is RunStatus.SUCCEEDED
    before = await counted(shop, *OF_A_RUN, "approvals")
    assert all(before.values()), before
    await until(shop, ended, timedelta(days=30))
    assert (await counted(shop, *OF_A_RUN, "approvals")) == before
    journal = partial(steps.values, org=shop.owner.org, run=ended.id)
    held = await shop.read(journal)
    assert held
    await until(shop, ended, timedelta(days=30) + STORED)
    after = await counted(shop, *OF_A_RUN, "approvals")
    assert await shop.read(journal) == ([] if shop.engine.dialect == "sqlite" else held)
    gone_by_row = {"step_values": 0} if shop.engine.dialect == "sqlite" else {}
    assert after == before | gone_by_row
    await until(shop, ended, HISTORY)
    assert (await shop.run(ended)).status is RunStatus.SUCCEEDED
    await until(shop, ended, HISTORY + STORED)
    remaining = await counted(shop, *OF_A_RUN, "approvals")
    assert remaining == dict.fromkeys(OF_A_RUN, 0) | {"approvals": 1}
    with pytest.raises(NotFound):
        await shop.run(ended)
    rows = await shop.read(partial(approval_rows, org=shop.owner.org))
    assert [(row["status"], row["decided_by"], len(row["change_hash"])) for row in rows] == [
        ("approved", shop.owner.person, 64)
    ]
    assert [(row["counts"], row["warnings"], row["comment"]) for row in rows] == [("{}", "[]", None)]


async def approval_rows(tx: Tx, org: int) -> list[Any]:
    """Returns every stored approval of the organization."""
    return await tx.all(
        "SELECT status, decided_by, change_hash, counts, warnings, comment"
        " FROM approvals WHERE org_id = :org",
        {"org": org},
    )


async def test_retention_removes_only_ended_runs(shop: Shop) -> None:
    """Only ended runs are removed; a run with many rows is removed in several passes.

    See docs/design/storage.md#retention.
    """
    waiting = await shop.run_now(await shop.hiding(), Mode.TEST)
    ended = await finished(shop)
    hired = await shop.registered_worker()
    await shop.drain()
    open_run = await shop.run_now(await shop.hiding())
    await shop.clock.advance((HISTORY + timedelta(days=1)).total_seconds())
    run_ids = await shop.read(partial(runs_left, org=shop.owner.org))
    assert {waiting.id, ended.id, open_run.id} == run_ids
    for _ in range(3):
        await periodic_tasks.apply_retention(hired)
    assert await shop.read(partial(runs_left, org=shop.owner.org)) == {open_run.id}


async def runs_left(tx: Tx, org: int) -> set[str]:
    """Returns the ids of all runs."""
    return {row["id"] for row in await tx.all("SELECT id FROM runs WHERE org_id = :org", {"org": org})}


async def test_a_pass_takes_a_thousand_rows_a_table(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass removes up to 1,000 rows a table, and the next one follows at once if a table had that many.

    See docs/design/storage.md#retention.
    """
    ended = await finished(shop)
    monkeypatch.setattr(retention, "ROWS", 1)
    hired = await shop.registered_worker()
    await shop.clock.advance((HISTORY + timedelta(days=1)).total_seconds())
    held = (await counted(shop, "write_ledger"))["write_ledger"]
    assert held > 1
    await periodic_tasks.apply_retention(hired)
    assert (await counted(shop, "write_ledger", "runs")) == {"write_ledger": held - 1, "runs": 1}
    for _ in range(40):
        await periodic_tasks.apply_retention(hired)
    assert (await counted(shop, *OF_A_RUN)) == dict.fromkeys(OF_A_RUN, 0), ended.id


async def test_sessions_attempts_and_failures_go_when_they_have_ended(shop: Shop) -> None:
    """Sessions, sign-in attempts and failures are removed at their own end.

    See docs/design/storage.md#retention.
    """
    now = shop.clock.now()

    async def populate(tx: Tx) -> None:
        person = {"person": shop.owner.person}
        for n, seen in enumerate((timedelta(minutes=30), timedelta(minutes=30) - STORED)):
            await sessions.insert(tx, f"{n}" * 64, shop.owner.person, org=None, address="", agent="")
            await tx.execute(
                "UPDATE sessions SET seen_at = :seen WHERE session_hash = :hash",
                {"seen": now - seen, "hash": f"{n}" * 64, **person},
            )
        await limits.attempt(tx, {"client": "a"}, 10)
        await due_rows.defer(tx, "settle", "some", message="no")

    await shop.write(populate)
    hired = await shop.registered_worker()
    await periodic_tasks.apply_retention(hired)

    async def load(tx: Tx) -> list[int]:
        counts = []
        for table in ("sessions", "login_attempts", "deferred_rows"):
            row = await tx.first(f"SELECT count(*) AS n FROM {table}")
            assert row is not None
            counts.append(row["n"])
        return counts

    assert await shop.read(load) == [1, 1, 1]
    await shop.clock.advance(60)
    await periodic_tasks.apply_retention(hired)
    assert await shop.read(load) == [0, 0, 1]
    await shop.clock.advance(86_401)
    await periodic_tasks.apply_retention(hired)
    assert await shop.read(load) == [0, 0, 0]


async def test_decided_slots_go_with_the_history(shop: Shop) -> None:
    """Decided slots are removed after 400 days; pending ones stay. See docs/design/storage.md#retention."""
    automation = await shop.set_up("hide-out-of-stock-products", {}, {"cadence": "daily", "run_at": "23:00"})
    await shop.pass_time(days=1)
    assert (await counted(shop, "occurrences"))["occurrences"] >= 1
    await shop.write(partial(only_pending_left, org=shop.owner.org))
    await shop.clock.advance((HISTORY + timedelta(days=3)).total_seconds())
    await periodic_tasks.apply_retention(await shop.registered_worker())
    assert await shop.read(partial(slots_decided, org=shop.owner.org)) == 0, automation.id


async def only_pending_left(tx: Tx, org: int) -> None:
    """Asserts that slots were decided and that only pending ones are left."""
    assert await slots_decided(tx, org) > 0


async def slots_decided(tx: Tx, org: int) -> int:
    """Returns the slots that started a run or were skipped."""
    row = await tx.first(
        "SELECT count(*) AS n FROM occurrences WHERE org_id = :org AND state <> 'pending'", {"org": org}
    )
    assert row is not None
    return int(row["n"])


async def test_a_pass_looks_into_some_organizations(shop: Shop) -> None:
    """Each pass takes the next organizations up to its limit and starts over after the last."""
    shops = [shop, await neighbour(shop)]
    for each_shop in shops:
        await each_shop.run_and_drain(await each_shop.hiding(), Mode.TEST)
    orgs = [item.owner.org for item in shops]
    ctx = (await shop.registered_worker()).ctx
    await shop.clock.advance((HISTORY + STORED).total_seconds())

    async def swept(after: int, limit: int) -> tuple[tuple[bool, int], list[bool]]:
        passed = await maintenance.apply_retention(ctx, ctx.retention, after=after, max_orgs=limit)
        remaining = [await entry.read(partial(runs_left, org=entry.owner.org)) for entry in shops]
        return passed, [runs == set() for runs in remaining]

    assert await swept(orgs[0], 1) == ((False, orgs[1]), [False, True])
    assert await swept(orgs[1], 1) == ((False, orgs[0]), [True, True])
    assert await swept(0, 2) == ((False, orgs[1]), [True, True])


async def test_partitions_are_created_ahead_and_dropped_when_old(
    postgresql_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Partitions are created ahead and dropped when old, except those an unfinished run needs.

    See docs/design/storage.md#retention.
    """
    shop = await open_shop(postgresql_url, clock, tmp_path)
    hired = await shop.registered_worker()
    await periodic_tasks.rotate_partitions(hired)
    await connect_all(shop)
    waiting = await shop.waiting(await shop.hiding())
    ended = await finished(shop)
    owner: Any = await asyncpg.connect(postgresql_url)

    async def months(table: str) -> list[str]:
        rows = await owner.fetch(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ $1 ORDER BY 1",
            f"^{table}_[0-9]{{4}}_[0-9]{{2}}$",
        )
        return [row["relname"].removeprefix(f"{table}_") for row in rows]

    months_kept = ["2026_05", "2026_06", "2026_07", "2026_08"]
    assert (await months("steps"))[:4] == months_kept
    assert await owner.fetchval("SELECT count(*) FROM steps_2026_05") > 0
    assert await owner.fetchval("SELECT count(*) FROM steps_default") == 0
    await shop.clock.advance(timedelta(days=70).total_seconds())
    await periodic_tasks.rotate_partitions(hired)
    assert "2026_05" in await months("step_values")  # the waiting run may need them
    await shop.cancel(waiting)
    await periodic_tasks.rotate_partitions(hired)
    assert "2026_05" not in await months("step_values")
    assert "2026_05" in await months("steps")
    await shop.clock.advance((HISTORY + STORED).total_seconds())
    await periodic_tasks.apply_retention(hired)
    assert await shop.read(partial(runs_left, org=shop.owner.org)) == set(), ended.id
    await periodic_tasks.rotate_partitions(hired)
    now = shop.clock.now()
    remaining = await months("steps")
    assert f"{now:%Y_%m}" in remaining
    assert not [month for month in remaining if month < f"{now - timedelta(days=8):%Y_%m}"]
    assert "2026_05" not in await months("changes")
    assert set(months_kept) <= set(
        await months("audit_log")
    )  # the record of who did what is kept permanently
    await owner.close()
    await shop.service.close()


async def test_a_database_file_shrinks_after_rows_were_removed(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """SQLite returns freed pages and truncates a long write-ahead log.

    See docs/design/storage.md#transactions and docs/design/storage.md#retention.
    """
    file = sqlite_path(sqlite_url)
    engine = SqliteEngine(file, clock=clock)

    async def fill(tx: Tx) -> None:
        for n in range(2_000):
            await tx.execute(
                "INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)"
                " VALUES ('t', :key, 1, 0, :message, 0)",
                {"key": str(n), "message": "x" * 2_000},
            )

    await engine.write(clock.now(), fill)
    assert database_maintenance.log_size(file) > 2_000_000
    assert not await database_maintenance.truncate_log(file, longest=database_maintenance.log_size(file))
    assert await database_maintenance.truncate_log(file, longest=database_maintenance.log_size(file) - 1)
    assert database_maintenance.log_size(file) == 0
    full = file.stat().st_size
    for _ in range(2):
        await retention.SWEEPS["deferred_rows"](engine, clock.now(), retention.RetentionRules())
    for _ in range(3):
        await retention.release_space(engine, clock.now(), retention.RetentionRules(file=file))
    # 4,000 written rows began a checkpoint on the engine's thread; SQLite refuses a second one meanwhile.
    await eventually(partial(database_maintenance.truncate_log, file, longest=0))
    assert file.stat().st_size < full / 2
    await engine.close()
