"""The house numbers: what neither ruff, mypy nor the import linter can say.

See docs/guides/contributors.md#numbers.
"""

import ast
import importlib
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tests.source import (
    ROOT,
    functions,
    kept_files,
    name_of,
    nodes_of,
    python_files,
    text_constants,
    tree_of,
    words_of,
)

OURS = ("steward", "clients", "tools", "tests", "bench")
SERVICE = ("steward",)


def test_no_python_file_is_longer_than_600_lines() -> None:
    """See docs/guides/contributors.md#numbers."""
    lines = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in python_files(*OURS)}
    assert {name: count for name, count in lines.items() if count > 600} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    """See docs/guides/contributors.md#numbers."""
    long = [
        f"{name_of(path)}:{node.lineno} {node.name} {lines}"
        for path in python_files(*OURS)
        for node in functions(path)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > 60
    ]
    assert long == []


# Modules that are lists or put the service together, and how many modules each may import.
_LISTS_OF_MODULES = {"steward/app.py": 30, "steward/worker.py": 30, "steward/api/operations.py": 30}
_MOST_IMPORTS = 20
_MEAN_IMPORTS = 6.4


def test_no_module_imports_more_than_twenty_of_the_service() -> None:
    """See docs/guides/contributors.md#numbers."""
    counts = {name: len(modules) for name, modules in _imported_modules().items()}
    over = {
        name: count for name, count in counts.items() if count > _LISTS_OF_MODULES.get(name, _MOST_IMPORTS)
    }
    assert over == {}
    assert sum(counts.values()) / len(counts) <= _MEAN_IMPORTS


def _imported_modules() -> dict[str, set[str]]:
    """Returns the modules of the service that each of its files imports."""
    paths = list(python_files(*SERVICE))
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths
    }
    imported: dict[str, set[str]] = {name_of(path): set() for path in paths}
    for path in paths:
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                imported[name_of(path)] |= {alias.name for alias in node.names} & modules
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                imported[name_of(path)] |= {
                    name if name in modules else node.module for name in names
                } & modules
    return imported


def test_no_file_of_the_web_app_is_longer_than_300_lines() -> None:
    """See docs/guides/contributors.md#numbers."""
    sources = [path for path in kept_files() if path.suffix in (".svelte", ".ts", ".js")]
    lines = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in sources}
    assert {name: count for name, count in lines.items() if count > 300} == {}


def test_sql_stands_in_the_store_alone() -> None:
    """String constants that begin like a statement. See docs/guides/contributors.md#numbers."""
    statement = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s")
    outside = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files(*SERVICE)
        if not name_of(path).startswith("steward/database/")
        for node in text_constants(path)
        if statement.match(str(node.value))
    ]
    assert outside == []


def test_every_module_says_what_it_is_for() -> None:
    """See docs/guides/contributors.md#conventions."""
    silent = [
        name_of(path)
        for path in python_files(*OURS)
        if path.name != "__init__.py" and not ast.get_docstring(tree_of(path))
    ]
    assert silent == []


def test_init_files_are_empty_but_for_the_three_lists() -> None:
    """See docs/guides/contributors.md#layers."""
    lists = {ROOT / "steward" / folder / "__init__.py" for folder in LISTS}
    full = [
        name_of(path)
        for path in python_files("steward", "tests", "bench")
        if path.name == "__init__.py" and path not in lists and _beyond_docstring(path)
    ]
    assert full == []


def _beyond_docstring(path: Path) -> bool:
    body = tree_of(path).body
    return len(body) > (1 if ast.get_docstring(tree_of(path)) else 0)


# Folders whose `__init__.py` is the list of what they hold.
LISTS = ("connectors", "steps/n8n/nodes", "templates")


def test_the_list_of_connectors_names_every_folder() -> None:
    """Each folder of `steward/connectors` but the shared ones is registered."""
    folders = {path.name for path in (ROOT / "steward/connectors").glob("[!_]*") if path.is_dir()}
    assert set(importlib.import_module("steward.connectors").ALL) == folders - {"base", "web_request"}


def test_every_module_of_n8n_nodes_defines_a_node_type() -> None:
    """Each module of `steps/n8n/nodes` has at least one node type that is found."""
    modules = {path.stem for path in (ROOT / "steward/steps/n8n/nodes").glob("[!_]*.py")}
    by_type = importlib.import_module("steward.steps.n8n.nodes").BY_TYPE
    assert {type(node_type).__module__.rpartition(".")[2] for node_type in by_type.values()} == modules


def test_names_say_what_things_are() -> None:
    """See docs/guides/contributors.md#conventions."""
    faults = []
    for path in python_files(*SERVICE):
        faults += [f"{name_of(path)}: {part}" for part in _parts(path) if _is_vague(part) or part in _NOWHERE]
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and _is_vague_class(node.name, path):
                faults.append(f"{name_of(path)}:{node.lineno} class {node.name}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_vague(node.name):
                faults.append(f"{name_of(path)}:{node.lineno} {node.name}")
    assert faults == []


_NOWHERE = {"common", "core", "lib", "services"}


def _parts(path: Path) -> list[str]:
    return [*path.relative_to(ROOT).parts[1:-1], path.stem]


def _is_vague(name: str) -> bool:
    """Whether a file or function has a name that could be any other's."""
    words = words_of(name)
    empty = {"manager", "repository", "helper", "helpers", "util", "utils", "perform"}
    alone = {"data", "process", "do", "service"} if not name.startswith("_") else set()
    return bool(empty & set(words)) or (len(words) == 1 and words[0] in alone) or words[:1] in (["do"],)


def _is_vague_class(name: str, path: Path) -> bool:
    words = words_of(name)
    if "base" in words and path.name != "base.py":
        return True
    return words[-1:] in (["service"], ["info"]) or _is_vague(name)


def test_no_text_names_a_registry_or_a_machine() -> None:
    """The repository stands by itself."""
    hosts = ["pypi" + ".org", "files.python" + "hosted", "registry.npm" + "js", "registry.yarn" + "pkg"]
    hosts.append("deb." + "debian.org")
    paths = [f"/{top}/" for top in ("work", "root", "opt/" + "pypi", "opt/" + "wheels", "Users")]
    banned = re.compile("|".join(map(re.escape, hosts)) + r"|(?<![\w./-])(" + "|".join(paths) + ")")
    faults = []
    for path in kept_files():
        try:
            lines = path.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        faults += [f"{name_of(path)}:{number}" for number, line in enumerate(lines, 1) if banned.search(line)]
    assert faults == []


def test_no_rule_of_the_house_is_switched_off_in_a_line() -> None:
    """A number is changed by a decision, not by an exception in the code.

    See docs/guides/contributors.md#numbers.
    """
    switch = re.compile(r"#\s*noqa(?!:)|#\s*noqa:.*\b(TID|BLE|DTZ|ASYNC|S[0-9])|#\s*type: ignore(?!\[)")
    faults = [
        f"{name_of(path)}:{number}"
        for path in python_files(*OURS)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if switch.search(line) and path.name != "test_house.py"
    ]
    assert faults == []


def test_steps_and_templates_type_json_and_nothing_else_as_any() -> None:
    """`AnyJson` of `steward/model/json.py` is a JSON value whose members are used unchecked."""
    uses = [
        f"{name_of(path)}:{node.lineno}"
        for path in python_files(*SERVICE)
        if name_of(path).startswith(("steward/steps/", "steward/templates/"))
        for node in nodes_of(path)
        if isinstance(node, ast.Name) and node.id == "Any"
    ]
    assert uses == []


def test_every_test_is_named_by_a_sentence() -> None:
    """See docs/guides/contributors.md#tests."""
    faults = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in python_files("tests")
        for node in functions(path)
        if node.name.startswith("test_") and len(words_of(node.name)) < 4
    ]
    assert faults == []


def _required(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    entries = [line.strip().lower() for line in lines if line.strip() and not line.startswith(("#", "-"))]
    return {re.split("[<>=!~ ]", entry)[0] for entry in entries}


def test_the_service_needs_few_things_each_with_a_reason() -> None:
    """At most 20, each with a reason in the decisions. See docs/design/security.md#supply-chain."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=!~ \[]", entry)[0].lower() for entry in project["dependencies"]}
    reasons = (ROOT / "docs/decisions/0001-at-most-twenty-direct-dependencies.md").read_text().lower()
    assert declared == _required("requirements.in")
    assert len(declared) <= 20
    assert [name for name in sorted(declared) if f"| {name} |" not in reasons] == []


@pytest.mark.parametrize(
    ("extra", "decision"),
    [("files", "0133-readers-of-files-are-an-extra"), ("holidays", "0175-holidays-are-an-extra")],
)
def test_dependencies_of_extras_are_locked_and_justified(extra: str, decision: str) -> None:
    """See docs/design/files.md#formats and docs/design/closed-periods.md#holidays."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=]", entry)[0].lower() for entry in project["optional-dependencies"][extra]}
    reasons = (ROOT / f"docs/decisions/{decision}.md").read_text().lower()
    assert declared == _required(f"requirements-{extra}.in")
    assert [name for name in sorted(declared) if f"| {name} |" not in reasons] == []


PERMISSIVE = re.compile(r"\b(MIT|BSD|Apache)\b")
# Those whose metadata declares no licence; the decision on dependencies says what their sources say.
FILE_ALONE = {"quickjs-ng"}


def test_every_dependency_is_under_a_permissive_licence() -> None:
    """What is declared in its metadata, or, where nothing is, in the licence file that comes with it"""
    silent = set()
    extras = ("requirements-files.in", "requirements-holidays.in", "requirements-traces.in")
    for name in sorted(_required("requirements.in").union(*map(_required, extras))):
        package_metadata = metadata.metadata(name)
        fields = [
            package_metadata.get("License-Expression"),
            package_metadata.get("License"),
            *(package_metadata.get_all("Classifier") or []),
        ]
        declared = [text for text in fields if text and (PERMISSIVE.search(text) or "License ::" in text)]
        if not declared:
            silent.add(name)
            files = [file for file in metadata.files(name) or [] if "LICENSE" in file.name]
            declared = [file.read_text() for file in files]
        assert declared, name
        assert all(PERMISSIVE.search(text) for text in declared), name
    assert silent == FILE_ALONE


@pytest.mark.parametrize(
    "name",
    [
        "requirements",
        "requirements-files",
        "requirements-holidays",
        "requirements-traces",
        "requirements-dev",
        "requirements-build",
    ],
)
def test_everything_installed_is_locked_with_its_hash(name: str) -> None:
    """Locked with hashes. See docs/design/security.md#supply-chain."""
    locked = re.sub(r"\\\n", " ", (ROOT / f"{name}.txt").read_text())
    lines = [line for line in locked.splitlines() if line and not line.lstrip().startswith("#")]
    assert [line for line in lines if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)] == []
    pinned = {line.partition("==")[0].lower() for line in lines}
    assert _required(f"{name}.in") <= pinned
