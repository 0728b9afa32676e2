"""Migrations: one schema, upgrades that apply what is pending, released functions that never change."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from steward.database.engine.base import Dialect
from steward.database.engine.migrate import (
    Migrated,
    SchemaDiffers,
    is_sqlite,
    migrate,
    migrations,
    sqlite_path,
)
from steward.database.engine.sqlite import connect
from tests.fake_clock import FakeClock
from tests.source import ROOT

FOLDER = ROOT / "steward/database/migrations"
FUNCTIONS = FOLDER / "functions.postgres.sql"
LAST = len(migrations("sqlite"))
NEXT = f"{LAST + 1:04d}_made_up"  # the migration of a made-up later release
# Signatures of released functions: `name(types of the arguments)`. They never change, since `migrate`
# replaces functions while processes of the release before still call them.
RELEASED: frozenset[str] = frozenset()
# A statement that is not additive needs a line `-- reviewed: <why it is safe>` directly above it.
NOT_ADDITIVE = re.compile(r"\b(DROP|RENAME|writable_schema)\b|\bALTER COLUMN \w+ (SET DATA )?TYPE\b", re.I)
SIGNATURE = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\((.*?)\)\s*RETURNS(.*?)AS \$\$", re.S | re.M)
INLINED = {"steward_now"}  # calls functions of pg_catalog alone


def signatures(text: str) -> dict[str, str]:
    """Returns each function's signature with the part of its definition between arguments and body."""
    heads: dict[str, str] = {}
    names: set[str] = set()
    for name, arguments, head in SIGNATURE.findall(text):
        types = [argument.split(None, 1)[1] for argument in re.split(r",\s*", arguments) if argument]
        assert name not in names, f"{name} is written twice"
        names.add(name)
        heads[f"{name}({', '.join(types)})"] = head
    return heads


def faults(name: str, text: str) -> Iterator[str]:
    """Finds the statements of a migration that take something away without a review."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        code = line.partition("--")[0]
        if NOT_ADDITIVE.search(code) and not (number and lines[number - 1].startswith("-- reviewed: ")):
            yield f"{name}:{number + 1}: {line.strip()}"


def test_migrations_are_numbered_without_gaps() -> None:
    """Every number exists once, from 1 on, and each file of an engine belongs to a common one."""
    names = {file.name for file in FOLDER.glob("0*.sql")}
    common = sorted(name for name in names if re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", name))
    assert [int(name[:4]) for name in common] == list(range(1, len(common) + 1))
    ends = ("sqlite", "postgres")
    assert names - set(common) <= {name.replace(".sql", f".{end}.sql") for name in common for end in ends}


def test_migrations_after_the_first_only_add() -> None:
    """Nothing is dropped, renamed or given another type without a reviewed reason above the line."""
    later = [file for file in sorted(FOLDER.glob("0*.sql")) if not file.name.startswith("0001_")]
    assert [fault for file in later for fault in faults(file.name, file.read_text("utf-8"))] == []


def test_the_linter_finds_what_is_not_additive() -> None:
    """A made-up migration is refused statement by statement, and a reviewed one passes."""
    text = (
        "ALTER TABLE runs RENAME TO jobs;\nALTER TABLE runs ALTER COLUMN mode TYPE text;\nDROP TABLE steps;\n"
    )
    assert [fault.split(":")[1] for fault in faults("0002_x.sql", text)] == ["1", "2", "3"]
    assert list(faults("0002_x.sql", "-- reviewed: made by the line above\nDROP TABLE steps_old;\n")) == []
    assert list(faults("0002_x.sql", "ALTER TABLE runs ADD COLUMN note text; -- no DROP TABLE\n")) == []


def test_functions_have_a_fixed_search_path_and_stand_in_one_file() -> None:
    """A function finds only the tables of its own schema, whatever the caller's search_path."""
    heads = signatures(FUNCTIONS.read_text("utf-8"))
    assert len(heads) > 30
    unset = {signature.partition("(")[0] for signature, head in heads.items() if "search_path" not in head}
    assert unset == INLINED
    for file in FOLDER.glob("0*.sql"):
        assert not re.search(r"CREATE (OR REPLACE )?FUNCTION", file.read_text("utf-8")), file.name


def test_the_signatures_of_released_functions_stay() -> None:
    """A released function keeps its arguments; its changed form gets a new name beside it."""
    assert set(signatures(FUNCTIONS.read_text("utf-8"))) >= RELEASED


def test_the_text_of_each_engine_has_no_macro_left() -> None:
    """Every macro and every line of one engine is replaced."""
    dialects: tuple[Dialect, ...] = ("sqlite", "postgresql")
    for dialect in dialects:
        for step in migrations(dialect):
            code = re.sub(r"--.*", "", step.text)
            assert not re.search(r"\{\w+(:\w+)?\}", code), (dialect, step.name)


@pytest.fixture
def upgraded(tmp_path: Path) -> Path:
    """The migrations of a made-up later release: this one's and one more."""
    folder = tmp_path / "migrations"
    shutil.copytree(FOLDER, folder)
    (folder / f"{NEXT}.sql").write_text(
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
    """A database of this release with rows takes the next release's migration and function, once."""
    await _execute(
        database_url,
        "INSERT INTO workers (name, version, state, lease_until, started_at, slots)"
        " VALUES ('w', '1', 'dead', 0, 0, 1)",
    )
    dialect: Dialect = "sqlite" if is_sqlite(database_url) else "postgresql"
    before = await migrate(database_url, clock.now(), only_look=True, folder=upgraded)
    names = (NEXT,) if dialect == "sqlite" else (NEXT, "functions")
    assert (before.before, before.applied, before.pending) == (LAST, (), names)
    assert await migrate(database_url, clock.now(), folder=upgraded) == Migrated(
        dialect, LAST, LAST + 1, names, ()
    )
    assert await migrate(database_url, clock.now(), folder=upgraded) == Migrated(
        dialect, LAST + 1, LAST + 1, (), ()
    )
    assert await _rows(database_url, "SELECT text FROM notes") == [(dialect,)]
    assert await _rows(database_url, "SELECT name, host FROM workers") == [("w", None)]


async def test_a_failing_migration_leaves_the_database_as_it_was(
    database_url: str, clock: FakeClock, upgraded: Path
) -> None:
    """Nothing of a migration that fails half-way stays, and the next attempt begins anew."""
    with (upgraded / f"{NEXT}.sql").open("a") as text:
        text.write("INSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(Exception, match="nowhere"):
        await migrate(database_url, clock.now(), folder=upgraded)
    assert (await migrate(database_url, clock.now(), only_look=True, folder=upgraded)).before == LAST
    assert (await migrate(database_url, clock.now())).after == LAST


async def test_a_database_of_an_earlier_commit_is_refused(database_url: str, clock: FakeClock) -> None:
    """The words name what to do, and nothing is changed."""
    other = hashlib.sha256(b"an earlier text").hexdigest()
    await _execute(database_url, f"UPDATE schema_version SET sha256 = '{other}' WHERE version = 1")
    for only_look in (True, False):
        with pytest.raises(SchemaDiffers, match="made by another release, or by a commit before the first"):
            await migrate(database_url, clock.now(), only_look=only_look)
    assert (1, other) in await _rows(database_url, "SELECT version, sha256 FROM schema_version")


async def test_functions_are_applied_by_every_migrate(postgresql_url: str, clock: FakeClock) -> None:
    """A missing function counts as pending and comes back, with its owner and settings."""
    described = (
        "SELECT p.oid::regprocedure::text, pg_get_userbyid(p.proowner), p.prosecdef, p.proconfig::text,"
        " p.prosrc FROM pg_proc AS p WHERE p.pronamespace = 'public'::regnamespace ORDER BY 1"
    )
    before = await _rows(postgresql_url, described)
    assert all(row[1] == "steward_queue" and row[2] for row in before if row[0].startswith("queue_"))
    await _execute(postgresql_url, "DROP FUNCTION queue_due_slots, steward_append_only CASCADE")
    assert (await migrate(postgresql_url, clock.now(), only_look=True)).pending == ("functions",)
    await migrate(postgresql_url, clock.now())
    assert await _rows(postgresql_url, described) == before
    # `migrate` applies the file without checking bodies, since a later migration may make their tables.
    await _execute(postgresql_url, "SET check_function_bodies = on;" + FUNCTIONS.read_text("utf-8"))
    assert await _rows(postgresql_url, described) == before
