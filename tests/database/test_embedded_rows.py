"""What migrations make anew on SQLite: the rows stay, and what a row may be is what it was."""

import itertools
import sqlite3
from collections.abc import Iterator

import pytest

from steward.database.engine.migrate import migrations

FIRST_ANEW = 20
STATUSES = [
    "queued",
    "running",
    "waiting_approval",
    "succeeded",
    "failed",
    "refused",
    "cancelled",
    "expired",
    "odd",
]
QUEUES = ["blocked", "ready", "leased", "sleeping", "parked", "done", "odd"]
REASONS = ["skipped_previous_running", "skipped_waiting_approval", "skipped_too_late", "by_merchant", "odd"]
RUN = (
    "INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, worker_id, epoch, attempt,"
    " wake_at, last_seq, leased_ms, queued_at, finished_at)"
    " VALUES (1, 'run', 'a', 'live', ?, ?, 1, ?, 0, 1, ?, 0, 0, 1, ?)"
)
SLOT = (
    "INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason, run_id,"
    " version, by_auditor, kept, updated_at) VALUES (1, 'a', 1, 2, '2026-05-01T08:00', ?, ?, ?, 0, 0, 0, 1)"
)
STEP = (
    "INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at, changes_total,"
    " wire) VALUES (1, 'run', 1, 'look', '', 1, 'succeeded', 5, 0, '{}')"
)
FACTS = (
    "INSERT INTO run_facts (org_id, run_id, automation_id, automation_name, automation_version, template_id,"
    " template_version, started_by, event_id, event_topic, event_received_at, created_by, message, summary)"
    " VALUES (1, 'run', 'a', 'Hide', 3, 'hide', 2, 'event', 'e', 'orders/create', 7, 9, 'Done.', '{\"a\":1}')"
)
SCHEDULE = (
    "INSERT INTO schedules (org_id, automation_id, slots_after, consecutive_failures, audited_until)"
    " VALUES (1, 'a', 0, 2, 0)"
)
LANE = (
    "INSERT INTO lanes (org_id, automation_id, holder_run_id, dropped, dropped_at)"
    " VALUES (1, 'a', 'run', 3, 4)"
)


@pytest.fixture
def before() -> Iterator[sqlite3.Connection]:
    """A database of the release before."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("PRAGMA foreign_keys = OFF")
    _bring(database, range(FIRST_ANEW))
    yield database
    database.close()


def _bring(database: sqlite3.Connection, versions: range) -> None:
    for migration in migrations("sqlite"):
        if migration.version in versions:
            database.executescript(f"BEGIN;\n{migration.text}\nCOMMIT;")


def _takes(database: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> bool:
    database.execute("BEGIN")
    try:
        database.execute(statement, values)
    except sqlite3.IntegrityError:
        return False
    finally:
        database.execute("ROLLBACK")
    return True


def test_a_run_and_a_slot_may_be_what_they_could_be(before: sqlite3.Connection) -> None:
    """engine 3.4 and 3.5: the CHECKs of occurrences and runs"""
    runs = [(RUN, it) for it in itertools.product(STATUSES, QUEUES, (None, 1), (None, 1), (None, 1))]
    states = ("pending", "queued", "skipped", "odd")
    slots = [(SLOT, it) for it in itertools.product(states, (None, *REASONS), (None, "run"))]
    was = [_takes(before, *each) for each in [*runs, *slots]]
    _bring(before, range(FIRST_ANEW, 10_000))
    assert [_takes(before, *each) for each in [*runs, *slots]] == was
    assert sum(was) == 19


def test_every_row_is_taken_over(before: sqlite3.Connection) -> None:
    """engine 2 "Migrations": what an installation holds stays"""
    before.execute(RUN, ("running", "leased", 1, None, None))
    before.execute(SLOT, ("queued", None, "run"))
    before.execute(STEP)
    before.execute(FACTS)
    before.execute(SCHEDULE)
    before.execute(LANE)
    facts = before.execute("SELECT * FROM run_facts").fetchall()
    tables = ("runs", "occurrences", "steps", "schedules")
    was = [before.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
    _bring(before, range(FIRST_ANEW, 10_000))
    now = [before.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
    # A run and its facts are one row; none was lost with a worker.
    assert now[0] == [(*row, *facts[0][3:], None) for row in was[0]]
    assert now[1] == was[1]
    assert [row[:10] for row in now[2]] == was[2]  # but for its output, which lies in step_values
    assert now[3] == [(*row, 3, 4) for row in was[3]]  # what was dropped is counted with the schedule
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        before.execute("UPDATE steps SET wire = '{}'")
    before.execute("UPDATE steps SET output = NULL, state = NULL")
    assert before.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
