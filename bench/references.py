"""The yardsticks of the same machine and disk: pgbench (R1), fdatasync (R2), a bare SQLite writer (R3)."""

import asyncio
import os
import re
import sqlite3
import time
from pathlib import Path

BLOCK = 8 * 1024
ROWS_A_COMMIT = 100
WIRE = '{"seq":1,"name":"step-1","title":"Step 1","kind":"decide","status":"succeeded"}' + " " * 220
CLIENTS = 20


def syncs_a_second(folder: Path, seconds: float = 0.5) -> float:
    """R2: overwrites of 8 KiB, each followed by fdatasync."""
    path = folder / "r2.bin"
    block = os.urandom(BLOCK)
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.pwrite(handle, block * 16, 0)
        os.fsync(handle)
        count, begun = 0, time.perf_counter()
        while (spent := time.perf_counter() - begun) < seconds:
            os.pwrite(handle, block, (count % 16) * BLOCK)
            os.fdatasync(handle)
            count += 1
        return count / spent
    finally:
        os.close(handle)
        path.unlink()


def rows_a_second(folder: Path, seconds: float = 0.5) -> float:
    """R3: the least a durable step row costs on SQLite: one bare insert each, 100 rows a commit."""
    path = folder / "r3.db"
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS rows (org_id INTEGER, run_id TEXT, seq INTEGER, wire TEXT,"
            " PRIMARY KEY (org_id, run_id, seq)) WITHOUT ROWID"
        )
        count, begun = 0, time.perf_counter()
        while (spent := time.perf_counter() - begun) < seconds:
            connection.execute("BEGIN IMMEDIATE")
            for _ in range(ROWS_A_COMMIT):
                connection.execute(
                    "INSERT INTO rows (org_id, run_id, seq, wire) VALUES (?, ?, ?, ?)",
                    (1, f"01JD3Z0QH8N2Y5V7W9X{count % ROWS_A_COMMIT:07d}", count, WIRE),
                )
                count += 1
            connection.execute("COMMIT")
        return count / spent
    finally:
        connection.close()
        for end in ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)


# In a schema of its own: `migrate` refuses a database whose public schema has tables of another program.
PGBENCH_TABLE = (
    "CREATE SCHEMA IF NOT EXISTS reference; CREATE TABLE IF NOT EXISTS reference.bench_rows"
    " (id bigserial PRIMARY KEY, org_id bigint, wire text)"
)
PGBENCH_SCRIPT = f"INSERT INTO reference.bench_rows (org_id, wire) VALUES (1, '{WIRE}');\n"


async def inserts_a_second(programs: Path, url: str, folder: Path, seconds: int = 2) -> float:
    """R1: pgbench, one row an INSERT, 20 clients, prepared statements; transactions a second."""
    script = folder / "r1.sql"
    script.write_text(PGBENCH_SCRIPT)
    command = [
        str(programs / "pgbench"), "-n", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds),
        "-M", "prepared", "-f", str(script), url,
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    match = re.search(rb"tps = ([0-9.]+)", output)
    if match is None:
        raise RuntimeError(f"pgbench said: {output.decode(errors='replace')}")
    return float(match[1])
