"""The walls of the house: who may import what, and that no owned row is reached without its organization."""

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from tests.source import (
    ROOT,
    Function,
    Statements,
    functions,
    imports,
    name_of,
    nodes_of,
    owned_tables,
    python_files,
)

# A module and the only places that import it. A contract of the import linter fails while a place is
# not there yet; this table does not mind.
ONLY = {
    "asyncpg": ("steward/database/",),
    "sqlite3": ("steward/database/",),
    "httpx": ("steward/outbound/", "steward/fake_platforms/"),
    "starlette": ("steward/api/", "steward/app.py", "steward/fake_platforms/"),
    "opentelemetry": ("steward/telemetry/otlp.py",),
    "quickjs": (),
    "_quickjs": ("steward/sandbox/",),
    "liquid": ("steward/sandbox/",),
    # Elsewhere a setting arrives as an argument; only its default may be looked up (`default_of`).
    "steward.config.Settings": (
        "steward/app.py",
        "steward/startup.py",
        "steward/platforms.py",
        "steward/settings_rules.py",
        "steward/cli/",
    ),
    "steward.config.read": ("steward/cli/",),
    "steward.connectors.base.writing.Writer": ("steward/runs/writes/apply.py", "steward/connectors/"),
}

# What PostgreSQL runs where the organization is not known yet or every one is looked at: functions of the
# migration, each with its own wall.
_WALLED = re.compile(r"\b(queue|steward_authenticate)_\w+\(")

# Functions that know the organization by something else, and by what.
NAMED: dict[str, str] = {
    "checkpoints._keep_rows": "items that carry their own lease",
    "records.store_batch": "rows that carry their own organization, each entered before",
    "records.valid_of": "organizations, each entered before",
    "records._store_bodies": "rows that carry their own organization, each entered before",
    "fast_slots.connected": "pairs of an organization and a connection, each entered before",
    "fast_slots.lock": "pairs of an organization and an automation, each entered before",
    "fast_slots.start": "rows that carry their own organization, as `lock` gave them",
    "fast_slots._stamps": "rows that carry their own organization, as `lock` gave them",
    "sessions.written": "the hash of a session, which stands in one organization",
}

# The folder of database/ that holds no statements on owned rows.
_PLUMBING = "steward/database/engine/"


def test_nothing_imports_uphill() -> None:
    """The import order. See docs/guides/contributors.md#layers."""
    actual = io.StringIO()
    with contextlib.redirect_stdout(actual):
        code = lint_imports()
    assert code == 0, actual.getvalue()


@pytest.mark.parametrize("module", list(ONLY))
def test_only_these_import_it(module: str) -> None:
    """Drivers, HTTP client, web framework, foreign code, settings, writer.

    See docs/guides/contributors.md#layers.
    """
    name_ofs = [
        name_of(path)
        for path in python_files("steward")
        if not name_of(path).startswith(ONLY[module])
        and any(name == module or name.startswith(f"{module}.") for name in imports(path))
    ]
    assert name_ofs == []


@pytest.mark.parametrize("folder", ["steward/fake_platforms/", "steward/sandbox/", "clients/python/"])
def test_strangers_share_no_code_with_the_service(folder: str) -> None:
    """The fake platforms, the sandbox and the client import nothing of the service.

    See docs/guides/contributors.md#layers.
    """
    own_value = folder.rstrip("/").replace("/", ".")
    faults = [
        f"{name_of(path)} imports {name}"
        for path in python_files("steward", "clients")
        if name_of(path).startswith(folder)
        for name in imports(path)
        if re.match(r"steward(\.|$)", name) and not name.startswith(own_value) and name != "steward"
    ]
    assert faults == []


def _carriers() -> set[str]:
    """Records that say whose they are: classes with a field of the type OrgId."""
    return {
        node.name
        for path in python_files("steward")
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(item, ast.AnnAssign) and ast.unparse(item.annotation) == "OrgId" for item in node.body
        )
    }


def _store_functions() -> list[tuple[str, Function, Path]]:
    return [
        (f"{path.stem}.{node.name}", node, path)
        for path in python_files("steward")
        if name_of(path).startswith("steward/database/") and not name_of(path).startswith(_PLUMBING)
        for node in functions(path)
    ]


def _touched(sql: str, owned: set[str]) -> list[str]:
    """The owned tables a statement reads or writes, once for each time it names them."""
    named = re.findall(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)", sql)
    return [table for table in named if table in owned]


def test_the_migrations_name_the_owned_tables() -> None:
    """org_id first in every key of an owned table. See docs/design/storage.md#values."""
    assert {"organizations", "members", "connections", "automations", "runs", "changes"} <= owned_tables()
    assert not {"people", "dir_orgs", "workers", "fairness_clock"} & owned_tables()


def _own_calls(function: Function, path: Path) -> list[list[str]]:
    """The calls that must name an organization: all but claims, sweeps and authentication.

    Those are known by what PostgreSQL runs for them: one of the `queue_…` functions, which answer ids alone,
    or of authentication's, which find out whose a token or session is.
    """
    if f"{path.stem}.{function.name}" in NAMED:
        return []
    calls = Statements(path).of(function)
    return [texts for texts in calls if not any(_WALLED.search(text) for text in texts)]


def test_functions_across_organizations_return_ids_only() -> None:
    """The queue functions, each with a fixed search_path, returning ids, never contents.

    See docs/design/storage.md#tenant-context-and-row-level-security.
    """
    files = (ROOT / "steward/database/migrations").glob("*.postgres.sql")
    text = "\n".join(file.read_text("utf-8") for file in files)
    findall = re.findall(r"CREATE (?:OR REPLACE )?FUNCTION (queue_\w+)\((.*?)\$\$", text, re.S)
    assert findall
    content = {"inputs", "name", "wire", "parts", "body", "result", "email", "secret", "before", "after"}
    for name, head in findall:
        assert "SECURITY DEFINER" in head, name
        assert "SET search_path" in head, name
        assert not content & set(re.findall(r"\w+", head.partition("RETURNS")[2])), name


def test_no_store_function_reaches_owned_rows_without_an_organization() -> None:
    """Walls by signature. See docs/design/storage.md#tenant-context-and-row-level-security."""
    owned, carriers = owned_tables(), _carriers()
    store_functions = [
        name
        for name, function, path in _store_functions()
        if any(_touched(text, owned) for texts in _own_calls(function, path) for text in texts)
        and not _takes_organization(function, carriers)
    ]
    assert store_functions == []


def _takes_organization(function: Function, carriers: set[str]) -> bool:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return any(
        argument.annotation is not None and ast.unparse(argument.annotation) in {"OrgId", *carriers}
        for argument in every
    )


def test_every_statement_on_owned_rows_names_the_organization() -> None:
    """org_id =:org in every owned table's part of the statement.

    See docs/design/storage.md#tenant-context-and-row-level-security.
    """
    owned = owned_tables()
    faults = []
    for name, function, path in _store_functions():
        for text in (text for texts in _own_calls(function, path) for text in texts):
            tables = _touched(text, owned)
            if tables and (text.count("org_id") < len(tables) or ":org" not in text):
                faults.append(f"{name}: {' '.join(text.split())[:120]}")
    assert faults == []
