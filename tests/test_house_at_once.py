"""What goes to PostgreSQL without a transaction: functions that open the wall themselves, nothing else."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.source import ROOT, Function, Statements, functions, name_of, nodes_of, python_files

_STANDS_BY_ITSELF = re.compile(r"\s*SELECT\s[^;]*\sFROM\s+(?:steward|queue)_\w+\(")
_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(?!(?:steward|queue)_\w+\()")
_FUNCTION = re.compile(r"CREATE (?:OR REPLACE )?FUNCTION (\w+)\((.*?)\$\$;", re.S)
_ASKS = ("first", "all", "execute")


@cache
def _imported(path: Path) -> dict[str, tuple[Path, str | None]]:
    """What a file's names from the service stand for: a module, or something in one."""
    results: dict[str, tuple[Path, str | None]] = {}
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("steward"):
            module_path = ROOT / node.module.replace(".", "/")
            for alias in node.names:
                inner = module_path / f"{alias.name}.py"
                named = (inner, None) if inner.exists() else (module_path.with_suffix(".py"), alias.name)
                results[alias.asname or alias.name] = named
    return results


@cache
def _functions(path: Path) -> dict[str, Function]:
    return {function.name: function for function in functions(path)}


def _function(path: Path, name: str) -> tuple[Path, Function] | None:
    outcome = _functions(path).get(name)
    return None if outcome is None else (path, outcome)


def _meant(path: Path, inside: ast.AST, node: ast.expr) -> tuple[Path, Function] | None:
    """The function an expression stands for, through `partial` and local names; None when it is not seen."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "partial":
        return _meant(path, inside, node.args[0])
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = _imported(path).get(node.value.id)
        return None if module is None or module[1] is not None else _function(module[0], node.attr)
    if not isinstance(node, ast.Name):
        return None
    for inner_node in ast.walk(inside):
        if isinstance(inner_node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == node.id for target in inner_node.targets
        ):
            return _meant(path, inside, inner_node.value)
    other = _imported(path).get(node.id)
    if other is not None:
        return None if other[1] is None else _function(other[0], other[1])
    return _function(path, node.id)


def _is(test: ast.expr, dialect: str) -> bool:
    """Returns whether a branch is only for this engine: `tx.dialect == "sqlite"`, by itself or with more."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(ast.unparse(part) == f"tx.dialect == '{dialect}'" for part in parts)


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node that are made on PostgreSQL."""
    if isinstance(node, ast.If) and _is(node.test, "sqlite"):
        children: Sequence[ast.AST] = node.orelse
    elif isinstance(node, ast.If) and ast.unparse(node.test) == "tx.dialect == 'postgresql'":
        children = node.body
    else:
        children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call):
        yield node
    for child in children:
        yield from _calls(child)


def _gets_tx(call: ast.Call) -> bool:
    expressions = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(isinstance(expression, ast.Name) and expression.id == "tx" for expression in expressions)


def _seen(path: Path, function: Function, been: set[str]) -> Iterator[str]:
    """Every statement `function` and what it calls run on PostgreSQL; as `?…` what cannot be followed."""
    name = f"{name_of(path)}:{function.name}"
    if name in been:
        return
    been.add(name)
    statements = Statements(path, postgresql=True)
    for call in _calls(function):
        expression = call.func
        if isinstance(expression, ast.Attribute) and ast.unparse(expression.value) == "tx":
            # `many` and `set_tenant` are nothing without a transaction.
            texts = (
                statements.arguments_of(call, function)
                if expression.attr in _ASKS
                else [f"?tx.{expression.attr}"]
            )
            yield from (" ".join(text.split()) for text in texts)
        elif _gets_tx(call):
            meant = _meant(path, function, expression)
            if meant is None:
                yield f"?{ast.unparse(expression)} in {name}"
            else:
                yield from _seen(*meant, been)


def _acts(kind: str) -> Iterator[tuple[str, tuple[Path, Function] | None, tuple[Path, Function] | None]]:
    """Each act of a kind that goes without a transaction: where, its function, and what it is by itself."""
    for path in python_files("steward"):
        if not re.search(r"\bAutocommit\(|\bautocommit=True", path.read_text("utf-8")):
            continue
        for function in functions(path):
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                if ast.unparse(call.func) != kind:
                    continue
                where = f"{name_of(path)}:{call.lineno}"
                if kind == "Autocommit":
                    yield where, _meant(path, function, call.args[0]), None
                elif any(keyword.arg == "autocommit" for keyword in call.keywords):
                    alone, together = (_meant(path, function, node) for node in call.args[1:3])
                    yield where, together, alone


def _autocommit_writes(path: Path, function: Function) -> Iterator[ast.expr]:
    """The functions whose Autocommit acts a function passes to `write`, directly or by a local name."""
    acts = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "write":
            for argument in call.args:
                act = acts.get(argument.id) if isinstance(argument, ast.Name) else argument
                if isinstance(act, ast.Call) and ast.unparse(act.func) == "Autocommit":
                    yield act.args[0]


def _repeatable() -> Iterator[str]:
    """Every function that is called without a transaction to write, or for several writes at once."""
    for path in python_files("steward"):
        if not re.search(r"\b(?:Autocommit|Batchable)\(", path.read_text("utf-8")):
            continue
        for function in functions(path):
            batches = [
                call.args[2]
                for call in ast.walk(function)
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "Batchable"
            ]
            for act in [*batches, *_autocommit_writes(path, function)]:
                meant = _meant(path, function, act)
                assert meant is not None, f"{name_of(path)}: {ast.unparse(act)} is not seen"
                yield f"{meant[0].stem}.{meant[1].name}"


def test_each_call_whose_outcome_may_be_unknown_is_safe_to_repeat() -> None:
    """Each such call has a reason in the table, and a test that repeats it.

    See docs/design/storage.md#writes-whose-outcome-is-unknown.
    """
    text = (ROOT / "docs/design/storage.md").read_text("utf-8")
    section = text.partition("### Writes whose outcome is unknown")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| \[(\w+)\]\(\.\./\.\./([^)]+)\) \|$", section, re.M)
    assert sorted(call for call, *_ in rows) == sorted(set(_repeatable()))
    for _, reason, test, path in rows:
        assert len(reason) > 20
        assert test in _functions(ROOT / path), test


def _plain(seen: Sequence[str]) -> list[str]:
    return [text for text in seen if not _STANDS_BY_ITSELF.match(text) or _TABLE.search(text)]


def test_statements_without_a_transaction_call_only_functions() -> None:
    """No wall is open there for a statement on a table.

    See docs/design/storage.md#postgresql and docs/design/storage.md#tenant-context-and-row-level-security.
    """
    for kind, minimum in (("Batchable", 5), ("Autocommit", 5)):
        acts = list(_acts(kind))
        assert len(acts) >= minimum
        for where, act, alone in acts:
            assert act is not None, f"{where}: what it runs is not seen"
            seen = list(_seen(*act, set()))
            assert seen, where
            assert _plain(seen) == [], where
            if alone is not None:  # which has a transaction: the same look sees what stands on tables
                assert any(_TABLE.search(text) for text in _seen(*alone, set())), where


def test_the_functions_asked_there_open_the_wall_themselves() -> None:
    """Those for every organization answer ids as their owner, the others enter those given.

    See docs/design/storage.md#tenant-context-and-row-level-security.
    """
    files = sorted((ROOT / "steward/database/migrations").glob("*.postgres.sql"))
    sql_by_function = {}
    for file in files:  # the last one that makes a function counts
        sql_by_function.update(_FUNCTION.findall(file.read_text("utf-8")))
    requests = {
        name
        for kind in ("Batchable", "Autocommit")
        for _, act, _ in _acts(kind)
        if act is not None
        for text in _seen(*act, set())
        for name in re.findall(r"\b((?:steward|queue)_\w+)\(", text)
    }
    assert {name for name in requests if name.startswith("steward_")}
    for name in requests - {"steward_now"}:
        opens = "SECURITY DEFINER" if name.startswith("queue_") else r"\bsteward_set_tenants?\("
        assert re.search(opens, sql_by_function[name]), name
