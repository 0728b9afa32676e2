"""What the schema refuses on both engines: inconsistent runs and slots, and changes of append-only tables."""

import itertools
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.sqlite import connect

STATUSES = (
    "queued",
    "running",
    "waiting_approval",
    "succeeded",
    "failed",
    "refused",
    "cancelled",
    "expired",
    "odd",
)
QUEUES = ("blocked", "ready", "leased", "sleeping", "parked", "done", "odd")
ENDED = {"succeeded", "failed", "refused", "cancelled", "expired"}
ALLOWED = (
    {("queued", queue) for queue in ("blocked", "ready", "leased", "sleeping")}
    | {("running", queue) for queue in ("ready", "leased", "sleeping")}
    | {("waiting_approval", "parked")}
    | {(status, "done") for status in ENDED}
)
REASONS = ("skipped_previous_running", "skipped_waiting_approval", "skipped_too_late", "by_merchant", "odd")
RUN = (
    "INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, worker_id, epoch, attempt,"
    " wake_at,"
    " last_seq, leased_ms, queued_at, finished_at, automation_name, automation_version, template_id,"
    " template_version, started_by) VALUES (1, 'run', 'a', 'live', $1, $2, 1, $3, 0, 1, $4,"
    " 0, 0, 1, $5, 'Hide', 1, 'hide', 1, 'hand')"
)
SLOT = (
    "INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason, run_id,"
    " version,"
    " by_auditor, from_edit, updated_at) VALUES (1, 'a', 1, 2, '2026-05-01T08:00', $1, $2, $3, 0,"
    " FALSE, FALSE, 1)"
)
Values = tuple[object, ...]
Accepts = Callable[[str, Values], Awaitable[bool]]


@pytest.fixture
async def accepts(database_url: str) -> AsyncIterator[Accepts]:
    """Yields a function that says whether a table's CHECKs accept a row; foreign keys are off."""
    if is_sqlite(database_url):
        file = connect(sqlite_path(database_url))
        file.execute("PRAGMA foreign_keys = OFF")

        async def on_sqlite(statement: str, values: Values) -> bool:
            file.execute("BEGIN")
            try:
                file.execute(re.sub(r"\$(\d)", r"?\1", statement), values)
            except sqlite3.IntegrityError:
                return False
            finally:
                file.execute("ROLLBACK")
            return True

        yield on_sqlite
        file.close()
        return
    connection: Any = await asyncpg.connect(database_url)
    await connection.execute("SET session_replication_role = replica")

    async def on_postgresql(statement: str, values: Values) -> bool:
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute(statement, *values)
        except asyncpg.CheckViolationError:
            return False
        finally:
            await transaction.rollback()
        return True

    yield on_postgresql
    await connection.close()


async def test_a_run_has_only_consistent_states(accepts: Accepts) -> None:
    """Accepts only fitting pairs of status and queue; worker, wake and finish times only where they apply."""
    for status, queue, *rest in itertools.product(STATUSES, QUEUES, (None, 1), (None, 1), (None, 1)):
        worker, wake_at, finished_at = rest
        expected = (status, queue) in ALLOWED and [value is not None for value in rest] == [
            queue == "leased",
            queue == "sleeping",
            queue == "done",
        ]
        values = (status, queue, worker, wake_at, finished_at)
        assert await accepts(RUN, values) == expected, values


async def test_a_slot_has_only_consistent_states(accepts: Accepts) -> None:
    """Accepts a run only on a queued slot and a known reason only on a skipped one."""
    states = ("pending", "queued", "skipped", "odd")
    for state, reason, run in itertools.product(states, (None, *REASONS), (None, "run")):
        expected = (state, reason is not None, run is not None) in {
            ("pending", False, False),
            ("queued", False, True),
            ("skipped", True, False),
        } and reason != "odd"
        assert await accepts(SLOT, (state, reason, run)) == expected, (state, reason, run)


async def test_steps_and_the_audit_log_are_append_only(sqlite_url: str) -> None:
    """Refuses changes of steps and audit entries, except when retention removes a step's output."""
    file = connect(sqlite_path(sqlite_url))
    file.execute("PRAGMA foreign_keys = OFF")
    file.execute(
        "INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at,"
        " changes_total,"
        " wire, output, state) VALUES (1, 'run', 1, 'look', '', 1, 'succeeded', 5, 0, '{}', x'00', 'done')"
    )
    entry = f"(1, 'id', 1, 0, 'service', NULL, 'x', NULL, NULL, '{{}}', '{'0' * 64}')"
    file.execute(f"INSERT INTO audit_log VALUES {entry}")
    file.execute("UPDATE steps SET output = NULL, state = NULL")
    for statement in ("UPDATE steps SET wire = '1'", "UPDATE audit_log SET at = 1", "DELETE FROM audit_log"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            file.execute(statement)
    file.close()
