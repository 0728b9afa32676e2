"""Runs in every state of the queue, written past the service: what waits in one organization."""

import sqlite3
from typing import Any

import asyncpg

from steward.database.engine.migrate import is_sqlite, sqlite_path
from tests.growth.history import row_id

ORG = 77
QUEUES = {
    "ready": "queued",
    "leased": "running",
    "sleeping": "running",
    "parked": "waiting_approval",
    "blocked": "queued",
}
_INSTANTS = {"sleeping": "wake_at", "parked": "expires_at"}
_COLUMNS = (
    "org_id, id, automation_id, mode, status, queue, vt, worker_id, epoch, attempt, wake_at, last_seq,"
    " leased_ms, queued_at, expires_at, automation_name, automation_version, template_id, template_version,"
    " started_by"
)


def _row(queue: str, number: int) -> tuple[Any, ...]:
    """Returns a run of a state; test runs, of which an automation has any number."""
    values = {
        "org_id": ORG,
        "id": row_id(queue[0].upper(), number),
        "automation_id": row_id("A", 1),
        "mode": "test",
        "status": QUEUES[queue],
        "queue": queue,
        "vt": number,
        "worker_id": 1 if queue == "leased" else None,
        "epoch": 1,
        "attempt": 1,
        "wake_at": None,
        "last_seq": 0,
        "leased_ms": 0,
        "queued_at": 1_000 + number,
        "expires_at": None,
        "automation_name": "Waiting",
        "automation_version": 1,
        "template_id": "none",
        "template_version": 1,
        "started_by": "hand",
    }
    if queue in _INSTANTS:
        values[_INSTANTS[queue]] = 9_000_000 + number
    return tuple(values[name] for name in _COLUMNS.split(", "))


async def write_waiting(url: str, queue: str, numbers: range) -> None:
    """Writes runs of one state, without the automation that they name."""
    records = [_row(queue, number) for number in numbers]
    if is_sqlite(url):
        file = sqlite3.connect(sqlite_path(url))
        with file:
            places = ", ".join("?" * len(records[0]))
            file.executemany(f"INSERT INTO runs ({_COLUMNS}) VALUES ({places})", records)
        file.close()
        return
    connection: Any = await asyncpg.connect(url)
    await connection.execute("SET session_replication_role = replica")
    await connection.copy_records_to_table("runs", records=records, columns=_COLUMNS.split(", "))
    await connection.execute("ANALYZE runs")
    await connection.close()
