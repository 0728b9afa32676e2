"""The rules that let two releases serve side by side on one schema (docs/design/storage.md#two-releases).

They hold from the first release on: before it there is one schema, made again. `python -m
tests.migration_rules` records what a release carries in `tests/data/released_schema.json`; the next one is
compared with it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steward.database.engine.base import Dialect
from steward.database.engine.migrate import migrations
from steward.version import __version__
from tests.source import ROOT

FOLDER = ROOT / "steward/database/migrations"
RECORD = ROOT / "tests/data/released_schema.json"
DIALECTS: tuple[Dialect, ...] = ("sqlite", "postgresql")
# Reviewed exceptions: the fault as it is worded, and why it is safe beside the release before.
EXCEPTIONS: Mapping[str, str] = {}
_HEAD = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\((.*?)\)\s*RETURNS(.*?)\$\$(.*?)\$\$", re.S | re.M)
_LITERAL = r"(-?\d+|'[^']*'|TRUE|FALSE|NULL)"
_ADDED_COLUMN = re.compile(
    rf'ALTER TABLE \w+ ADD COLUMN \w+ \w+( COLLATE "C")?( DEFAULT {_LITERAL}| NOT NULL DEFAULT {_LITERAL})?'
)
_ADDITIVE = (
    re.compile(r"CREATE TABLE \w+ (?!PARTITION OF).*"),
    _ADDED_COLUMN,
    re.compile(r"CREATE INDEX CONCURRENTLY \w+ ON .*"),
    re.compile(r"GRANT .*"),
)
# What a migration that begins with `-- cleans` may do, once no process of the release before is left.
_CLEANING = re.compile(r"DROP (TABLE|INDEX|TRIGGER) .*|ALTER TABLE \w+ DROP COLUMN \w+")
# What is free on a table that the same migration creates, which no other release knows.
_OF_NEW_TABLE = (
    re.compile(r"CREATE TABLE \w+ PARTITION OF (\w+) .*"),
    re.compile(r"CREATE (?:UNIQUE )?INDEX \w+ ON (\w+) .*"),
    re.compile(r"ALTER TABLE (\w+) .*"),
    re.compile(r"CREATE (?:POLICY|TRIGGER) .* ON (\w+) .*"),
    re.compile(r"INSERT INTO (\w+) .*"),
)
# Comments, strings and bodies in dollars are whole, so that a semicolon within them ends nothing.
_TOKEN = re.compile(r"--[^\n]*|'[^']*'|\$(\w*)\$.*?\$\1\$|[^-'$;]+|.", re.S)
_CONCURRENT = re.compile(r"CREATE INDEX CONCURRENTLY ")


@dataclass(frozen=True, slots=True)
class Released:
    """What the last release carried: its newest migration, and hashes of its migrations and functions."""

    release: str | None = None
    newest: int = 0
    migrations: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)


def last_release(path: Path = RECORD) -> Released:
    """Returns the recorded release; before the first one its name is None."""
    return Released(**json.loads(path.read_text("utf-8")))


def functions(text: str) -> dict[str, str]:
    """Returns the hash of each function by its signature `name(types)`.

    Raises ValueError for a name that is used twice.
    """
    hashes: dict[str, str] = {}
    names: set[str] = set()
    for match in _HEAD.finditer(text):
        name, arguments = match[1], match[2]
        types = [argument.split(None, 1)[1] for argument in re.split(r",\s*", arguments) if argument]
        if name in names:
            raise ValueError(f"{name} is written twice")
        names.add(name)
        hashes[f"{name}({', '.join(types)})"] = hashlib.sha256(match[0].encode()).hexdigest()
    return hashes


def statements(text: str) -> list[str]:
    """Returns the statements of SQL text, each on one line and without comments."""
    ended = [""]
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            ended.append("")
        elif not token[0].startswith("--"):
            ended[-1] += token[0]
    return [" ".join(statement.split()) for statement in ended if statement.strip()]


def _is_additive(statement: str, dialect: Dialect, new_tables: set[str]) -> bool:
    """Whether a statement leaves what the release before uses, and keeps nobody waiting."""
    if any(pattern.fullmatch(statement) for pattern in _ADDITIVE):
        return True
    if dialect == "sqlite" and re.fullmatch(r"CREATE INDEX \w+ ON .*", statement):
        return True  # the service is stopped meanwhile
    return any(
        (match := pattern.fullmatch(statement)) and match[1] in new_tables for pattern in _OF_NEW_TABLE
    )


def migration_faults(folder: Path = FOLDER, released: Released | None = None) -> list[str]:
    """Returns what is wrong with the migrations since the last release, exceptions included."""
    released = released or last_release()
    faults = []
    for dialect in DIALECTS:
        for step in migrations(dialect, folder):
            key = f"{step.name} ({dialect})"
            if step.version <= released.newest:
                if released.migrations.get(key) != step.sha256:
                    faults.append(f"{key}: was altered after its release")
                continue
            if released.release is None:
                if step.version > 1:
                    faults.append(f"{key}: before the first release there is one schema")
                continue
            if step.is_cleaning:
                faults += [f"{key}: {fault}" for fault in _cleaning_faults(step.text)]
                continue
            if f"-- serves from: {released.newest:04d}\n" not in step.text:
                faults.append(f"{key}: needs the line `-- serves from: {released.newest:04d}`")
            faults += [f"{key}: {fault}" for fault in _statement_faults(step.text, dialect)]
    return faults


def _cleaning_faults(text: str) -> list[str]:
    """Returns what does not belong into a cleaning migration, which no earlier release may serve beside."""
    faults = [each[:80] for each in statements(text) if not _CLEANING.fullmatch(each)]
    return [*faults, *(["no earlier release serves beside it"] if "-- serves from:" in text else [])]


def _statement_faults(text: str, dialect: Dialect) -> list[str]:
    ordered = statements(text)
    new_tables = {match[1] for each in ordered if (match := re.match(r"CREATE TABLE (\w+)", each))}
    faults = [each[:80] for each in ordered if not _is_additive(each, dialect, new_tables)]
    concurrent = [each for each in ordered if _CONCURRENT.match(each)]
    if concurrent and len(concurrent) < len(ordered):
        faults.append("indexes that are built concurrently need a migration of their own")
    return faults


def function_faults(text: str, released: Released | None = None) -> list[str]:
    """Returns released functions that were altered or are missing, and new ones under a released name."""
    released = released or last_release()
    present = functions(text)
    faults = []
    for signature, released_hash in released.functions.items():
        if signature not in present:
            faults.append(f"{signature}: is missing; the release before calls it")
        elif present[signature] != released_hash:
            faults.append(f"{signature}: was altered; give the changed form a new name")
    names = {signature.partition("(")[0] for signature in released.functions}
    for signature in present.keys() - released.functions.keys():
        if signature.partition("(")[0] in names:
            faults.append(f"{signature}: has the name of a released function")
    return faults


def unreviewed(faults: list[str], exceptions: Mapping[str, str] | None = None) -> list[str]:
    """Returns the faults that are no reviewed exceptions, and the exceptions that nothing needs."""
    exceptions = EXCEPTIONS if exceptions is None else exceptions
    unneeded = [f"{name}: an exception that nothing needs" for name in exceptions if name not in faults]
    return [fault for fault in faults if fault not in exceptions] + unneeded


def record() -> dict[str, Any]:
    """Returns what this release carries."""
    steps = [(dialect, step) for dialect in DIALECTS for step in migrations(dialect, FOLDER)]
    return {
        "release": __version__,
        "newest": max(step.version for _, step in steps),
        "migrations": {f"{step.name} ({dialect})": step.sha256 for dialect, step in steps},
        "functions": functions((FOLDER / "functions.postgres.sql").read_text("utf-8")),
    }


if __name__ == "__main__":
    RECORD.write_text(json.dumps(record(), indent=1) + "\n", "utf-8")
