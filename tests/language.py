"""Measures the language and the structure of the code: names, docstrings, complexity, folders."""

import ast
import builtins
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.source import ROOT, Function, children, functions, name_of, nodes_of, python_files, tree_of

VAGUE = frozenset(
    """
    found one given asked at each place wanted known kept made told shown taken standing left behind way most
    least here own come begin said
    """.split()  # noqa: SIM905 - a list of thirty strings reads worse
)
_BRANCHES = (ast.If, ast.IfExp, ast.ExceptHandler, ast.For, ast.AsyncFor, ast.While, ast.Assert, ast.Lambda)
_DECLARATION = re.compile(
    r"\b(?:const|let|function|interface|type|class) ([A-Za-z_]\w*)"
    r"|\((\w+)(?:: [^()]*)?\) =>|, (\w+)\) =>|\{#snippet \w+\((\w+)"
    r"|\{#each .+? as (?:(\w+)|[{\[][^}\]]*[}\]])(?:, (\w+))?"
)
_RAISES = re.compile(r"\braises? (\w+(?:,? (?:or|and) \w+|, \w+)*)", re.I)
_EXCEPTION = re.compile(r"_?[A-Z]\w*[a-z]\w*")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+")
_TYPE = re.compile(r"[A-Z][a-z]\w*")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def vague_web_names() -> tuple[list[str], int]:
    """Returns where web/src declares a vague name, and how many variables and elements of lists it names."""
    vague, total = [], 0
    for path in sorted((ROOT / "web/src").rglob("*")):
        if path.suffix not in (".ts", ".svelte") or path.name == "schema.d.ts":
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            is_comment = line.lstrip().startswith(("//", "*", "/*"))
            declarations = [] if is_comment else _DECLARATION.findall(line)
            names = [name for declared in declarations for name in declared if name]
            total += len(names)
            vague += [f"{name_of(path)}:{number} {name}" for name in names if name in VAGUE]
    return vague, total


def bound_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the line and name of every function, class, parameter, variable and attribute."""
    for node in nodes_of(path):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case _:
                pass


@cache
def is_vague(name: str) -> bool:
    """Whether the whole of a name is one of the words that do not say what the value is."""
    return name.strip("_").lower() in VAGUE


def vague_names(*folders: str) -> tuple[list[str], int]:
    """Returns where vague names are bound, and how many names are bound in all."""
    bindings = [(path, *binding) for path in python_files(*folders) for binding in bound_names(path)]
    vague = [f"{name_of(path)}:{line} {name}" for path, line, name in bindings if is_vague(name)]
    return vague, len(bindings)


def doubled_classes(*folders: str) -> dict[str, list[str]]:
    """Returns the public class names that stand for several classes, with their places."""
    classes: dict[str, list[str]] = defaultdict(list)
    for path in python_files(*folders):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(f"{name_of(path)}:{node.lineno}")
    return {name: places for name, places in classes.items() if len(places) > 1}


def complexity(function: Function) -> int:
    """Returns the cyclomatic complexity.

    It is 1, and 1 more for each branch, loop, handler, further operand and comprehension. Functions inside
    count by themselves.
    """
    total = 1
    nodes: list[ast.AST] = children(function)
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        nodes += children(node)
        if isinstance(node, _BRANCHES):
            total += 1
        if isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.Try) and node.orelse:
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, _COMPREHENSIONS):
            total += len(node.generators) + sum(len(generator.ifs) for generator in node.generators)
        elif isinstance(node, ast.match_case):
            total += 1
    return total


def complex_functions(*folders: str, limit: int) -> tuple[list[str], int]:
    """Returns the functions over the limit, the worst first, and how many functions there are."""
    measured = [
        (complexity(function), f"{name_of(path)}:{function.lineno} {function.name}")
        for path in python_files(*folders)
        for function in functions(path)
    ]
    over = sorted((entry for entry in measured if entry[0] > limit), reverse=True)
    return [f"{location} {value}" for value, location in over], len(measured)


def files_of_folders(*folders: str) -> Counter[str]:
    """Counts the Python files of each folder, without `__init__.py`."""
    return Counter(name_of(path.parent) for path in python_files(*folders) if path.name != "__init__.py")


def names_of_one_file(folder: str) -> list[str]:
    """Returns where the public functions and constants are defined that the code of no other file names.

    Classes and aliases of types are left out, because they are the types of what other files call, and so
    are the functions of `api/`, which the table of operations calls.
    """
    files = python_files(folder, "tests", "bench")
    files_with = Counter(name for path in files for name in set(_used_names(path)))
    own_names = {path: set(_used_names(path)) for path in python_files(folder)}
    return [
        f"{name_of(path)}:{line} {name}"
        for path, used_names in own_names.items()
        for line, name in _module_names(path)
        if files_with[name] == (name in used_names) and not name.startswith("_")
    ]


def _used_names(path: Path) -> Iterator[str]:
    """Yields the names that a file's code reads or imports, and the texts that are names of constants."""
    for node in nodes_of(path):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                yield name
            case ast.alias(name=name):
                yield from name.split(".")
            case ast.Constant(value=str(text)) if _CONSTANT.fullmatch(text):  # as in setattr(module, "LIMIT")
                yield text
            case _:
                pass


def _module_names(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the line and name of a module's functions and constants; types are none."""
    for node in tree_of(path).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if "api" not in path.parts:
                    yield node.lineno, name
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not _TYPE.fullmatch(name):
                    yield node.lineno, name
            case _:
                pass


def unknown_exceptions(*folders: str) -> list[str]:
    """Returns where a docstring says that it raises a class that is neither defined nor used by its file."""
    classes = set(dir(builtins)) | {
        node.name
        for path in python_files(*folders)
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    }
    used_names = {name_of(path): frozenset(_used_names(path)) for path in python_files(*folders)}
    return [
        f"{location} {name}"
        for location, text in docstrings(*folders)
        for match in _RAISES.finditer(" ".join(text.split()))
        for name in match[1].replace(",", " ").split()
        if _EXCEPTION.fullmatch(name) and name not in classes | used_names[location.partition(":")[0]]
    ]


@cache
def docstrings(*folders: str) -> tuple[tuple[str, str], ...]:
    """Returns where each docstring stands and its text."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(
        (f"{name_of(path)}:{getattr(node, 'lineno', 1)}", text)
        for path in python_files(*folders)
        for node in nodes_of(path)
        if isinstance(node, documented) and (text := ast.get_docstring(node)) is not None
    )
