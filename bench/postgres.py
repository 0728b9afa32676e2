"""PostgreSQL for the measurements: a cluster that keeps what it confirms, and fresh databases in it."""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from bench.references import PGBENCH_TABLE
from tests import postgres_server
from tests.postgres_server import NoPostgres

# As in production: everything durable; only sizes suited to a small machine.
OPTIONS = (
    "-c fsync=on -c synchronous_commit=on -c max_connections=100 -c shared_buffers=256MB -c max_wal_size=2GB"
    " -c log_min_messages=warning -c listen_addresses=127.0.0.1 -c unix_socket_directories="
)
_numbers = count(1)


@contextlib.contextmanager
def cluster() -> Iterator[tuple[str, Path] | None]:
    """Address of a running server and the folder of its programs; None when there is no PostgreSQL."""
    programs = postgres_server.find_programs()
    if programs is None:
        yield None
        return
    try:
        server = postgres_server.start(starter=os.getpid(), options=OPTIONS, on_disk=True)
    except NoPostgres:
        yield None
        return
    try:
        yield server.url("postgres"), programs
    finally:
        postgres_server.stop(Path(server.folder))


async def server_cpu(url: str) -> float:
    """The CPU seconds that a server on this Linux machine has used, with its ended and present backends."""
    connection: Any = await asyncpg.connect(url)
    backend: int = await connection.fetchval("SELECT pg_backend_pid()")
    seconds = _seconds_of_tree(int(_stat(backend)[1]))
    await connection.close()
    return seconds


def _seconds_of_tree(parent: int) -> float:
    """The CPU seconds of a process and its children, ended ones included."""
    ticks = sum(map(int, _stat(parent)[11:15]))
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = _stat(int(folder.name))
            ticks += sum(map(int, fields[11:13])) if int(fields[1]) == parent else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(process: int) -> list[str]:
    """Its fields behind the name: state, parent, …; times of its own in 11 and 12, of ended children then."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


@contextlib.asynccontextmanager
async def fresh_database(server: str) -> AsyncIterator[str]:
    """The address of a database with pgbench's table alone, dropped at the end."""
    name = f"bench_{next(_numbers)}"
    maintenance: Any = await asyncpg.connect(server)
    await maintenance.execute(f"CREATE DATABASE {name}")
    url = server.rpartition("/")[0] + f"/{name}"
    try:
        inside: Any = await asyncpg.connect(url)
        await inside.execute(PGBENCH_TABLE)
        await inside.close()
        yield url
    finally:
        await maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await maintenance.close()
