"""Migrations: one schema, upgrades beside running processes, and releases that are too old for a database."""

import asyncio
import hashlib
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from steward.database.engine.base import Dialect
from steward.database.engine.migrate import (
    LockLimits,
    MigrationResult,
    SchemaDiffers,
    is_sqlite,
    migrate,
    migrations,
    sqlite_path,
)
from steward.database.engine.sqlite import connect
from steward.model.refusals import Unavailable
from tests.databases import Clones
from tests.fake_clock import FakeClock
from tests.source import ROOT

FOLDER = ROOT / "steward/database/migrations"
FUNCTIONS = FOLDER / "functions.postgres.sql"
LAST = len(migrations("sqlite"))
NEXT = f"{LAST + 1:04d}_made_up"  # the migration of a made-up later release
SIGNATURE = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\((.*?)\)\s*RETURNS(.*?)AS \$\$", re.S | re.M)
INLINED = {"steward_now"}  # calls functions of pg_catalog alone


def test_migrations_are_numbered_without_gaps() -> None:
    """Numbers migrations from 1 without gaps; each file of one engine belongs to a common one."""
    names = {file.name for file in FOLDER.glob("0*.sql")}
    common = sorted(name for name in names if re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", name))
    assert [int(name[:4]) for name in common] == list(range(1, len(common) + 1))
    ends = ("sqlite", "postgres")
    assert names - set(common) <= {name.replace(".sql", f".{end}.sql") for name in common for end in ends}


def test_functions_have_a_fixed_search_path_and_stand_in_one_file() -> None:
    """Sets a search_path for every function, so that it finds only its own tables, all in one file."""
    heads = SIGNATURE.findall(FUNCTIONS.read_text("utf-8"))
    assert len(heads) > 30
    assert {name for name, _, head in heads if "search_path" not in head} == INLINED
    for file in FOLDER.glob("0*.sql"):
        assert not re.search(r"CREATE (OR REPLACE )?FUNCTION", file.read_text("utf-8")), file.name


def test_the_text_of_each_engine_has_no_macro_left() -> None:
    """Leaves no macro in the text of either engine."""
    dialects: tuple[Dialect, ...] = ("sqlite", "postgresql")
    for dialect in dialects:
        for step in migrations(dialect):
            code = re.sub(r"--.*", "", step.text)
            assert not re.search(r"\{\w+(:\w+)?\}", code), (dialect, step.name)


@pytest.fixture
def upgraded(tmp_path: Path) -> Path:
    """Returns the migrations of a made-up later release: this one's and one more."""
    folder = tmp_path / "migrations"
    shutil.copytree(FOLDER, folder)
    (folder / f"{NEXT}.sql").write_text(
        f"-- serves from: {LAST:04d}\n"
        "CREATE TABLE notes (\n    id {serial},\n    text {text} NOT NULL\n) {strict};\n"
        "ALTER TABLE workers ADD COLUMN host {text};\n"
    )
    (folder / f"{NEXT}.sqlite.sql").write_text("INSERT INTO notes (text) VALUES ('sqlite');\n")
    (folder / f"{NEXT}.postgres.sql").write_text("INSERT INTO notes (text) VALUES (steward_note());\n")
    with (folder / "functions.postgres.sql").open("a") as functions:
        functions.write(
            "\nCREATE OR REPLACE FUNCTION steward_note() RETURNS text LANGUAGE sql STABLE\n"
            "SET search_path = pg_catalog, public AS $$\n"
            "    SELECT 'postgresql' WHERE NOT EXISTS (SELECT 1 FROM notes)\n$$;\n"
        )
    return folder


async def _rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    if is_sqlite(url):
        file = connect(sqlite_path(url))
        try:
            return [tuple(row) for row in file.execute(statement)]
        finally:
            file.close()
    connection: Any = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


async def _execute(url: str, statement: str) -> None:
    if is_sqlite(url):
        file = connect(sqlite_path(url))
        file.execute(statement)
        file.close()
        return
    connection: Any = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


async def test_an_upgrade_applies_what_is_pending_and_keeps_rows(
    database_url: str, clock: FakeClock, upgraded: Path
) -> None:
    """Applies the pending migration and function once to a database with rows, and keeps the rows."""
    await _execute(
        database_url,
        "INSERT INTO workers (name, version, state, lease_until, started_at, slots)"
        " VALUES ('w', '1', 'dead', 0, 0, 1)",
    )
    dialect: Dialect = "sqlite" if is_sqlite(database_url) else "postgresql"
    before = await migrate(database_url, clock.now(), dry_run=True, folder=upgraded)
    names = (NEXT,) if dialect == "sqlite" else (NEXT, "functions")
    assert (before.before, before.applied, before.pending) == (LAST, (), names)
    assert await migrate(database_url, clock.now(), folder=upgraded) == MigrationResult(
        dialect, LAST, LAST + 1, names, ()
    )
    assert await migrate(database_url, clock.now(), folder=upgraded) == MigrationResult(
        dialect, LAST + 1, LAST + 1, (), ()
    )
    assert await _rows(database_url, "SELECT text FROM notes") == [(dialect,)]
    assert await _rows(database_url, "SELECT name, host FROM workers") == [("w", None)]


async def test_a_failing_migration_leaves_the_database_as_it_was(
    database_url: str, clock: FakeClock, upgraded: Path
) -> None:
    """Rolls a failing migration back completely, so that the next attempt starts afresh."""
    with (upgraded / f"{NEXT}.sql").open("a") as text:
        text.write("INSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(Exception, match="nowhere"):
        await migrate(database_url, clock.now(), folder=upgraded)
    assert (await migrate(database_url, clock.now(), dry_run=True, folder=upgraded)).before == LAST
    assert (await migrate(database_url, clock.now())).after == LAST


async def test_a_database_of_an_earlier_commit_is_refused(database_url: str, clock: FakeClock) -> None:
    """Refuses a database of an earlier commit with words and changes nothing."""
    other = hashlib.sha256(b"an earlier text").hexdigest()
    await _execute(database_url, f"UPDATE schema_version SET sha256 = '{other}' WHERE version = 1")
    for dry_run in (True, False):
        with pytest.raises(SchemaDiffers, match="made by another release, or by a commit before the first"):
            await migrate(database_url, clock.now(), dry_run=dry_run)
    assert (1, other) in await _rows(database_url, "SELECT version, sha256 FROM schema_version")


def _contents(folder: Path) -> dict[str, bytes]:
    """Returns each file's content; of the index of SQLite's log, where readers mark locks, the name."""
    return {file.name: b"" if file.name.endswith("-shm") else file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE orders (id INTEGER)",
        "CREATE VIEW today AS SELECT date('now') AS day",
        "CREATE TABLE schema_version (installed_rank INTEGER, version TEXT, checksum INTEGER)",
    ],
)
async def test_a_file_of_another_program_is_refused(
    tmp_path: Path, clock: FakeClock, schema: str, journal: str
) -> None:
    """Refuses an SQLite file with another program's schema, open or closed; leaves its folder as it was."""
    path = tmp_path / "other.sqlite"
    (tmp_path / "link").symlink_to(path)

    async def assert_refused() -> None:
        contents = _contents(tmp_path)
        for name, dry_run in ((path, True), (path, False), (tmp_path / "link", False)):
            with pytest.raises(
                SchemaDiffers, match=r"another program\. Set STEWARD_DATABASE_URL to a new file"
            ):
                await migrate(f"sqlite:///{name}", clock.now(), dry_run=dry_run)
        assert _contents(tmp_path) == contents

    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA journal_mode = {journal}")
        other.execute(schema)
        await assert_refused()
    await assert_refused()


@pytest.fixture
def empty_postgresql_url(clones: Clones) -> Iterator[str]:
    """Yields the address of an empty PostgreSQL database."""
    url = clones.clone("template1")
    yield url
    clones.drop_meanwhile(url)


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("CREATE TABLE orders (id bigint); CREATE TABLE customers (id bigint)", "customers"),
        ("CREATE VIEW today AS SELECT current_date AS day", "today"),
        ("CREATE TABLE schema_version (installed_rank int, version text, checksum int)", "schema_version"),
    ],
)
async def test_a_postgresql_database_of_another_program_is_refused(
    empty_postgresql_url: str, clock: FakeClock, schema: str, name: str
) -> None:
    """Names one of its tables, and adds nothing to it."""
    await _execute(empty_postgresql_url, schema)
    described = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    relations = await _rows(empty_postgresql_url, described)
    for dry_run in (True, False):
        with pytest.raises(SchemaDiffers, match=f"another program, such as “{name}”. Create an empty"):
            await migrate(empty_postgresql_url, clock.now(), dry_run=dry_run)
    assert await _rows(empty_postgresql_url, described) == relations


async def test_tables_are_looked_for_where_the_others_are(
    empty_postgresql_url: str, clock: FakeClock
) -> None:
    """Reads the schema `public` also where the role's own comes first and its name has capitals."""
    await _execute(empty_postgresql_url, "CREATE TABLE orders (id bigint)")
    await _execute(
        empty_postgresql_url,
        'CREATE SCHEMA "Shop"; DO $$ BEGIN EXECUTE format('
        "'ALTER DATABASE %I SET search_path = \"Shop\", public', current_database()); END $$",
    )
    with pytest.raises(SchemaDiffers, match="another program, such as “orders”"):
        await migrate(empty_postgresql_url, clock.now(), dry_run=True)


async def test_views_of_an_extension_are_not_another_programs(
    empty_postgresql_url: str, clock: FakeClock
) -> None:
    """Migrates a database in which an extension has put its views."""
    await _execute(empty_postgresql_url, "CREATE EXTENSION pg_stat_statements")
    assert (await migrate(empty_postgresql_url, clock.now())).after == LAST


async def test_a_file_with_tables_of_sqlite_alone_is_taken(tmp_path: Path, clock: FakeClock) -> None:
    """Migrates a file in which only ANALYZE has left its table."""
    path = tmp_path / "analyzed.sqlite"
    with closing(sqlite3.connect(path)) as analyzed:
        analyzed.executescript("CREATE TABLE t (a INTEGER); CREATE INDEX i ON t (a); ANALYZE; DROP TABLE t")
        assert analyzed.execute("SELECT name FROM sqlite_master").fetchall() == [("sqlite_stat1",)]
    assert (await migrate(f"sqlite:///{path}", clock.now())).after == LAST


async def test_functions_are_applied_by_every_migrate(postgresql_url: str, clock: FakeClock) -> None:
    """Reports a missing function as pending and restores it with its owner and settings."""
    described = (
        "SELECT p.oid::regprocedure::text, pg_get_userbyid(p.proowner), p.prosecdef, p.proconfig::text,"
        " p.prosrc FROM pg_proc AS p WHERE p.pronamespace = 'public'::regnamespace ORDER BY 1"
    )
    before = await _rows(postgresql_url, described)
    assert all(row[1] == "steward_queue" and row[2] for row in before if row[0].startswith("queue_"))
    await _execute(postgresql_url, "DROP FUNCTION queue_due_slots, steward_append_only CASCADE")
    assert (await migrate(postgresql_url, clock.now(), dry_run=True)).pending == ("functions",)
    await migrate(postgresql_url, clock.now())
    assert await _rows(postgresql_url, described) == before
    # `migrate` applies the file without checking bodies, since a later migration may create their tables.
    await _execute(postgresql_url, "SET check_function_bodies = on;" + FUNCTIONS.read_text("utf-8"))
    assert await _rows(postgresql_url, described) == before


async def test_a_release_serves_the_schema_of_the_next_one_and_not_the_one_after(
    database_url: str, clock: FakeClock, upgraded: Path
) -> None:
    """Serves the schema of the next release with nothing pending, and refuses that of the one after."""
    await migrate(database_url, clock.now(), folder=upgraded)
    beside = await migrate(database_url, clock.now(), dry_run=True)
    assert (beside.before, beside.pending) == (LAST + 1, ())
    assert (await migrate(database_url, clock.now())).applied == ()
    second = f"-- serves from: {LAST + 1:04d}\nALTER TABLE notes ADD COLUMN author {{text}};\n"
    (upgraded / f"{LAST + 2:04d}_second.sql").write_text(second)
    await migrate(database_url, clock.now(), folder=upgraded)
    for dry_run in (True, False):
        with pytest.raises(SchemaDiffers, match="later release"):
            await migrate(database_url, clock.now(), dry_run=dry_run)


async def test_what_the_release_before_used_is_dropped_by_cleaning_alone(
    database_url: str, clock: FakeClock, upgraded: Path
) -> None:
    """Keeps it for `migrate`, and serves without it; after `cleans` no earlier release starts any more."""
    cleaning = f"{LAST + 2:04d}_tidy"
    (upgraded / f"{cleaning}.sql").write_text("-- cleans\nALTER TABLE workers DROP COLUMN slots;\n")
    old: tuple[str, ...] = ()
    if not is_sqlite(database_url):
        old = ("queue_of_old(bigint)",)
        await _execute(
            database_url, "CREATE FUNCTION queue_of_old(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $1'"
        )
    done = await migrate(database_url, clock.now(), folder=upgraded)
    assert (done.after, done.to_clean) == (LAST + 1, (cleaning, *old))
    looked = await migrate(database_url, clock.now(), dry_run=True, folder=upgraded)
    assert (looked.pending, looked.to_clean) == ((), (cleaning, *old))
    assert (await migrate(database_url, clock.now(), dry_run=True)).before == LAST + 1
    assert await _rows(database_url, "SELECT slots FROM workers") == []
    cleaned = await migrate(database_url, clock.now(), cleans=True, folder=upgraded)
    assert (cleaned.applied, cleaned.to_clean) == ((cleaning, *old), ())
    assert (await migrate(database_url, clock.now(), dry_run=True, folder=upgraded)).to_clean == ()
    with pytest.raises(Exception, match="slots"):
        await _rows(database_url, "SELECT slots FROM workers")
    with pytest.raises(SchemaDiffers, match="later release"):
        await migrate(database_url, clock.now(), dry_run=True)


async def test_an_index_is_built_beside_writers_and_again_after_a_failure(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Builds an index outside of a transaction on PostgreSQL, and again when one was left invalid."""
    folder = tmp_path / "indexed"
    shutil.copytree(FOLDER, folder)
    index = "CREATE INDEX {concurrently} workers_named ON workers (name);\n"
    (folder / f"{NEXT}.sql").write_text(f"-- serves from: {LAST:04d}\n{index}")
    if is_sqlite(database_url):
        await migrate(database_url, clock.now(), folder=folder)
        assert await _rows(database_url, "SELECT 1 FROM sqlite_master WHERE name = 'workers_named'") == [(1,)]
        return
    await _execute(database_url, "CREATE INDEX workers_named ON workers (version)")
    await _execute(
        database_url,
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'workers_named'::regclass",
    )
    assert (await migrate(database_url, clock.now(), folder=folder)).applied == (NEXT,)
    described = "SELECT indisvalid, pg_get_indexdef(indexrelid) FROM pg_index"
    described += " WHERE indexrelid = 'workers_named'::regclass"
    [(is_valid, definition)] = await _rows(database_url, described)
    assert is_valid
    assert definition.endswith("(name)")


async def test_a_migration_may_take_as_long_as_it_needs(
    postgresql_url: str, clock: FakeClock, upgraded: Path
) -> None:
    """Where the database limits every statement, a migration that takes longer is applied all the same."""
    holder: Any = await asyncpg.connect(postgresql_url)
    name = await holder.fetchval("SELECT current_database()")
    await holder.execute(f"ALTER DATABASE {name} SET statement_timeout = '500ms'")
    await holder.close()
    with (upgraded / f"{NEXT}.postgres.sql").open("a") as slow:
        slow.write("SELECT pg_sleep(0.7);\n")
    assert (await migrate(postgresql_url, clock.now(), folder=upgraded)).after == LAST + 1


async def test_a_migration_gives_up_a_locked_table_and_comes_back(
    postgresql_url: str, clock: FakeClock, upgraded: Path
) -> None:
    """Gives a locked table up after short waits, raises Unavailable after the last, or applies later."""
    holder: Any = await asyncpg.connect(postgresql_url)
    try:
        await holder.execute("BEGIN; LOCK TABLE workers IN ACCESS SHARE MODE")
        few = LockLimits(wait_ms=10, tries=2, pause_s=0)
        with pytest.raises(Unavailable, match=r"2 tries of 0\.01 s"):
            await migrate(postgresql_url, clock.now(), folder=upgraded, lock_limits=few)
        assert (await migrate(postgresql_url, clock.now(), dry_run=True)).before == LAST
        patient = LockLimits(wait_ms=10, tries=1_000_000, pause_s=0)
        migrating = asyncio.create_task(
            migrate(postgresql_url, clock.now(), folder=upgraded, lock_limits=patient)
        )
        waiting = (
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'workers'::regclass"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        while not await holder.fetchval(waiting):
            assert not migrating.done()
        await holder.execute("COMMIT")
        assert (await migrating).after == LAST + 1
    finally:
        await holder.close()
