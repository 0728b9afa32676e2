"""A database of an earlier release, with rows as that release left them."""

import sqlite3

import asyncpg

from steward.database.engine.base import Engine
from steward.database.engine.migrate import is_sqlite, migrations, sqlite_path
from steward.database.engine.postgres import PostgresEngine
from steward.database.engine.sqlite import SqliteEngine
from tests.fake_clock import FakeClock

VERSIONS = (
    "CREATE TABLE schema_version"
    " (version bigint PRIMARY KEY, applied_at bigint NOT NULL, sha256 text NOT NULL)"
)


async def make_earlier(url: str, version: int, rows: str) -> None:
    """Gives the database the schema of `version` and these rows; foreign keys of the rows are not checked."""
    texts = [
        one for one in migrations("sqlite" if is_sqlite(url) else "postgresql") if one.version <= version
    ]
    kept = [f"INSERT INTO schema_version VALUES ({one.version}, 1, '{one.sha256}')" for one in texts]
    parts = [*(one.text for one in texts), VERSIONS, *kept]
    if is_sqlite(url):
        path = sqlite_path(url)
        path.unlink()
        file = sqlite3.connect(path)
        file.executescript(";\n".join([*parts, rows]))
        file.close()
        return
    connection = await asyncpg.connect(url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    for text in parts:
        await connection.execute(text)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(rows)
    await connection.close()


async def open_engine(url: str, clock: FakeClock) -> Engine:
    """The engine over a database that was migrated by a test."""
    if is_sqlite(url):
        return SqliteEngine(sqlite_path(url), clock=clock)
    return await PostgresEngine.open(url, size=2, clock=clock, test=True)
