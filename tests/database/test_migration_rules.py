"""The linter of migrations refuses changes that would stop the previous release."""

import shutil
from pathlib import Path

import pytest

from tests.migration_rules import (
    EXCEPTIONS,
    FOLDER,
    Released,
    function_faults,
    functions,
    last_release,
    migration_faults,
    record,
    statements,
    unreviewed,
)

FIRST = Released(**record())  # as if this had been released
NEXT = f"{FIRST.newest + 1:04d}_made_up"
HEADER = f"-- serves from: {FIRST.newest:04d}\n"
FUNCTIONS = (FOLDER / "functions.postgres.sql").read_text("utf-8")
NEW_TABLE = "CREATE TABLE notes (id {serial}, note {text} NOT NULL) {strict};\n"

REFUSED = {
    "a table goes": "DROP TABLE steps;",
    "a column goes": "ALTER TABLE runs DROP COLUMN summary;",
    "a table is renamed": "ALTER TABLE runs RENAME TO jobs;",
    "a column is renamed": "ALTER TABLE runs RENAME COLUMN mode TO how;",
    "a type changes": "ALTER TABLE runs ALTER COLUMN mode TYPE text;",
    "a column must be filled": "ALTER TABLE runs ADD COLUMN note {text} NOT NULL;",
    "a column is calculated": "ALTER TABLE runs ADD COLUMN note {int} DEFAULT steward_now();",
    "a column is checked": "ALTER TABLE runs ADD COLUMN note {int} CHECK (note > 0);",
    "a column refers": "ALTER TABLE runs ADD COLUMN note {int} REFERENCES people (person_id);",
    "a constraint comes": "ALTER TABLE runs ADD CONSTRAINT short CHECK (length(summary) < 9);",
    "an index must be unique": "CREATE UNIQUE INDEX runs_once ON runs (org_id, summary);",
    "an index locks out writers": "{postgres} CREATE INDEX runs_note ON runs (summary);",
    "rows are rewritten": "UPDATE runs SET summary = NULL;",
    "rows go": "DELETE FROM runs;",
    "rows come": "INSERT INTO people (person_id) VALUES (1);",
    "a right goes": "{postgres} REVOKE SELECT ON runs FROM steward_app;",
    "a block does anything": "{postgres} DO $$ BEGIN DROP TABLE runs; END $$;",
    "a trigger on an old table": "{postgres} CREATE TRIGGER t BEFORE UPDATE ON runs EXECUTE FUNCTION f();",
    "a partition of an old table": "{postgres} CREATE TABLE steps_x PARTITION OF steps DEFAULT;",
    "an index beside other statements": NEW_TABLE
    + "CREATE INDEX {concurrently} runs_note ON runs (summary);",
}
ACCEPTED = {
    "a table": NEW_TABLE
    + "CREATE UNIQUE INDEX notes_once ON notes (note);\nINSERT INTO notes (note) VALUES (';');",
    "a column": "ALTER TABLE runs ADD COLUMN note {text};",
    "a column with a value": "ALTER TABLE runs ADD COLUMN note {int} NOT NULL DEFAULT 0; -- no DROP TABLE",
    "an index": "CREATE INDEX {concurrently} runs_note ON runs (summary);",
    "a right": "{postgres} GRANT SELECT ON runs TO steward_queue;",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a copy of the migrations to which a test adds one."""
    target = tmp_path / "migrations"
    shutil.copytree(FOLDER, target)
    return target


def faults(folder: Path, text: str) -> list[str]:
    """Returns the faults of a next migration with this text."""
    (folder / f"{NEXT}.sql").write_text(text + "\n")
    return migration_faults(folder, FIRST)


def test_the_migrations_and_functions_of_this_release_fit_the_one_before() -> None:
    """Finds no fault in the migrations and functions of this release, and no unused exception."""
    assert unreviewed(migration_faults() + function_faults(FUNCTIONS)) == []
    released = last_release()
    assert (released.release is None) is (not released.functions)
    assert released.release is not None or EXCEPTIONS == {}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_statements_that_are_not_additive_are_refused(folder: Path, text: str) -> None:
    """Refuses each statement that is not additive on the engines that have it, unless it is reviewed."""
    wrong = faults(folder, HEADER + text)
    assert len(wrong) == (1 if "{postgres}" in text or "{concurrently}" in text else 2), wrong
    assert unreviewed(wrong, dict.fromkeys(wrong, "reviewed")) == []


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_additive_statements_are_accepted(folder: Path, text: str) -> None:
    """Accepts statements that only add, with which the previous release works on."""
    assert faults(folder, HEADER + text) == []


def test_a_second_migration_waits_for_the_first_release(folder: Path) -> None:
    """Refuses a second migration before the first release, until which the one schema is changed instead."""
    (folder / f"{NEXT}.sql").write_text(HEADER + ACCEPTED["a column"] + "\n")
    assert {fault.partition(": ")[2] for fault in migration_faults(folder, Released())} == {
        "before the first release there is one schema"
    }


def test_a_migration_says_which_release_it_leaves_serving(folder: Path) -> None:
    """Requires the line that names exactly the previous release as the one it leaves serving."""
    needs = f"needs the line `-- serves from: {FIRST.newest:04d}`"
    for text in (ACCEPTED["a column"], f"-- serves from: {FIRST.newest - 1:04d}\n{ACCEPTED['a column']}"):
        assert [fault.partition(": ")[2] for fault in faults(folder, text)] == [needs, needs]


def test_a_released_migration_is_not_altered(folder: Path) -> None:
    """Refuses any change of a released migration, even a comment, since databases store its hash."""
    with (folder / "0001_schema.sql").open("a") as file:
        file.write("-- more\n")
    assert [fault.partition(": ")[2] for fault in migration_faults(folder, FIRST)] == [
        "was altered after its release",
        "was altered after its release",
    ]


def test_a_released_function_stays_as_it_is() -> None:
    """Refuses to alter, rename or overload a released function, and accepts a new one."""
    assert function_faults(FUNCTIONS, FIRST) == []
    added = FUNCTIONS + (
        "\nCREATE OR REPLACE FUNCTION steward_now_2() RETURNS bigint LANGUAGE sql AS $$\n    SELECT 1\n$$;\n"
    )
    assert function_faults(added, FIRST) == []
    altered = FUNCTIONS.replace("RAISE EXCEPTION '% is append-only'", "RAISE EXCEPTION '% only grows'")
    assert function_faults(altered, FIRST) == [
        "steward_append_only(): was altered; give the changed form a new name"
    ]
    renamed = FUNCTIONS.replace("FUNCTION steward_append_only()", "FUNCTION steward_only_append()", 1)
    assert function_faults(renamed, FIRST) == [
        "steward_append_only(): is missing; the release before calls it"
    ]
    overloaded = FUNCTIONS.replace(
        "FUNCTION steward_append_only()", "FUNCTION steward_append_only(why text)", 1
    )
    assert function_faults(overloaded, FIRST) == [
        "steward_append_only(): is missing; the release before calls it",
        "steward_append_only(text): has the name of a released function",
    ]
    with pytest.raises(ValueError, match="steward_now is written twice"):
        functions(FUNCTIONS + FUNCTIONS)


def test_an_unneeded_exception_is_reported() -> None:
    """Reports an exception that no migration needs."""
    assert unreviewed([], {"0002_x: DROP TABLE steps": "empty since 1.1"}) == [
        "0002_x: DROP TABLE steps: an exception that nothing needs"
    ]


def test_statements_are_distinguished() -> None:
    """Splits statements at semicolons outside of comments and dollar-quoted bodies."""
    text = "SELECT 1; -- one; two\nDO $x$ BEGIN PERFORM 1; END $x$;\n  SELECT\n 2"
    assert statements(text) == ["SELECT 1", "DO $x$ BEGIN PERFORM 1; END $x$", "SELECT 2"]
