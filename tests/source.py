"""The house's own source as the house checks read it: files, syntax trees, names and statements."""

import ast
import gc
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def kept_files() -> tuple[Path, ...]:
    """Every file of the repository that is or will be under version control."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:  # an archive without its history
        hidden = {".venv", ".cache", ".git", "node_modules", "__pycache__"}
        paths = [path for path in ROOT.rglob("*") if not hidden & set(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in paths if path.is_file()))


def name_of(path: Path) -> str:
    """A file's name inside the repository."""
    return path.relative_to(ROOT).as_posix()


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """The Python files of these top folders."""
    return tuple(
        path for path in kept_files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders
    )


@cache
def _trees(folder: str) -> dict[Path, ast.Module]:
    """The syntax trees of the Python files of a top folder, or of one file beside the folders.

    The garbage collector does not see them: it would go through their millions of nodes again and again,
    here and in every later test of the process.
    """
    gc.collect()  # what is garbage now would never be collected either
    gc.disable()
    try:
        return {
            path: ast.parse(path.read_text("utf-8"), filename=name_of(path)) for path in python_files(folder)
        }
    finally:
        gc.freeze()
        gc.enable()


def tree_of(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return _trees(path.relative_to(ROOT).parts[0])[path]


def children(node: ast.AST) -> list[ast.AST]:
    """Returns the nodes below a node, without the `ctx` of names; twice as fast as `ast.iter_child_nodes`."""
    below: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field, None)
        if isinstance(value, list):
            below += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST) and field != "ctx":
            below.append(value)
    return below


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Returns every node of a file's syntax tree, outer ones first, without the `ctx` of names."""
    nodes: list[ast.AST] = [tree_of(path)]
    for node in nodes:
        nodes += children(node)
    return tuple(nodes)


@cache
def functions(path: Path) -> tuple[Function, ...]:
    """Every function of a file, inner ones and methods too."""
    return tuple(node for node in nodes_of(path) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module a file imports, in full; for `from a import b` both `a` and `a.b`."""
    modules: list[str] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            modules += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            modules += (module, *(f"{module}.{alias.name}" for alias in node.names))
    return tuple(modules)


@cache
def text_constants(path: Path) -> tuple[ast.Constant, ...]:
    """Every string constant of a file, the fixed parts of formatted ones too."""
    return tuple(
        node for node in nodes_of(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def words_of(name: str) -> list[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)]


def _named(target: ast.expr, value: ast.expr) -> dict[str, ast.expr]:
    """What an assignment gives a name to, also `a, b = one, other`."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=False)
        return {name: part for expression, other in pairs for name, part in _named(expression, other).items()}
    return {}


class Statements:
    """The SQL texts of one file of store/, by the function that runs them.

    With `postgresql`, where the engines differ, those it alone runs.
    """

    def __init__(self, path: Path, *, postgresql: bool = False) -> None:
        self._postgresql = postgresql
        self._constants = {
            target.id: node.value
            for node in tree_of(path).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def of(self, function: Function) -> Iterator[list[str]]:
        """What `function` gives to its transaction, call by call, constants filled in.

        A call has several texts when they differ between the engines or by an `if`.
        """
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("first", "all", "execute")
                and node.args
            ):
                yield self.arguments_of(node, function)

    def arguments_of(self, call: ast.Call, function: Function) -> list[str]:
        """What one call of `function` gives to its transaction."""
        inside = dict(self._constants)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                inside.update(_named(targets[0], node.value))
        return self._texts(call.args[0], inside, depth=0)

    def _texts(self, node: ast.expr, names: dict[str, ast.expr], *, depth: int) -> list[str]:
        """What an expression may be as text: several for an `if` or the two engines, "" for what varies."""
        if depth > 20:
            return [""]
        if isinstance(node, ast.Constant):
            return [str(node.value)]
        if isinstance(node, ast.Name):
            return self._texts(names[node.id], names, depth=depth + 1) if node.id in names else [""]
        if isinstance(node, ast.BinOp):
            remaining = self._texts(node.left, names, depth=depth + 1)
            right = self._texts(node.right, names, depth=depth + 1)
            return [prefix + other for prefix in remaining for other in right]
        if isinstance(node, ast.IfExp):
            return [
                *self._texts(node.body, names, depth=depth + 1),
                *self._texts(node.orelse, names, depth=depth + 1),
            ]
        if isinstance(node, ast.List):  # what " AND ".join(where) has at least
            return [" ".join(self._texts(part, names, depth=depth + 1)[0] for part in node.elts)]
        if isinstance(node, ast.Call):  # PerEngine(sqlite, postgresql), or a join
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
            if self._postgresql and isinstance(node.func, ast.Name) and node.func.id == "PerEngine":
                parts = parts[1:]
            return [text for part in parts for text in self._texts(part, names, depth=depth + 1)]
        if isinstance(node, ast.JoinedStr):
            texts = [""]
            for part in node.values:
                inner = part.value if isinstance(part, ast.FormattedValue) else part
                texts = [a + b for a in texts for b in self._texts(inner, names, depth=depth + 1)]
            return texts
        return [""]


def owned_tables() -> set[str]:
    """The tables whose primary key begins with the organization, from the migrations of both engines."""
    table_names = set()
    for file in sorted((ROOT / "steward/database/migrations").glob("*.sql")):
        for table, body in re.findall(
            r"CREATE (?:UNLOGGED )?TABLE (\w+) \((.*?)\n\)", file.read_text(), re.S
        ):
            if re.search(r"PRIMARY KEY \(org_id\b", body) or re.match(r"\s*org_id [^,]*PRIMARY KEY", body):
                table_names.add(table)
    return table_names
