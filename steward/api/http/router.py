"""Finds the operations of a path in a tree built once; static names go before parameters."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

from steward.model.ids import ID


class _Routed(Protocol):
    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...


R = TypeVar("R", bound=_Routed)

_NUMBER = re.compile(r"[1-9][0-9]{0,15}")
_TEMPLATE = re.compile(r"[a-z0-9][a-z0-9-]{1,80}")
# Below this prefix, single words are static names, never ids: an unknown word is an unknown path, not a
# record that does not exist.
_NAMED = ["v1", "automations"]
_WORD = re.compile(r"[a-z][a-z-]*")
_KEY = re.compile(r"[A-Za-z0-9]{32}")
_KEY_STATE = re.compile(r"[1-9][0-9]{0,15}-[A-Za-z0-9_-]{43}")
# The pattern of a path value by the parameter's name; any other parameter is an Id.
_SHAPES = {
    "template_id": _TEMPLATE,
    "integration_id": _NUMBER,
    "user_id": _NUMBER,
    "endpoint_key": _KEY,
    "key_state": _KEY_STATE,
}


@dataclass(slots=True)
class _Node(Generic[R]):
    static: "dict[str, _Node[R]]" = field(default_factory=dict)
    parameter: "_Node[R] | None" = None
    has_named: bool = False
    methods: dict[str, R] = field(default_factory=dict)

    def parameter_for(self, value: str) -> "_Node[R] | None":
        """Returns the child node for a parameter with this value; None if only static names match here."""
        return None if self.has_named and _WORD.fullmatch(value) else self.parameter


@dataclass(slots=True)
class PathMatch(Generic[R]):
    """The operations of one path by method, and the values of its parameters in order."""

    methods: dict[str, R]
    values: tuple[str, ...]


class Routes(Generic[R]):
    """The tree of paths."""

    def __init__(self, operations: Iterable[R]) -> None:
        self._root: _Node[R] = _Node()
        self._exact: dict[str, PathMatch[R]] = {}
        self._folders: dict[str, _Node[R]] = {}
        for operation in operations:
            self._add(operation)

    def _add(self, operation: R) -> None:
        node = self._root
        folder: str | None = ""
        for depth, name in enumerate(names := operation.path.split("/")[1:]):
            if folder is not None:
                self._folders[folder] = node
                folder = None if name.startswith("{") else f"{folder}/{name}"
            node.has_named = names[:depth] == _NAMED
            if name.startswith("{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.static.setdefault(name, _Node())
        if operation.method in node.methods:
            raise ValueError(f"{operation.method} {operation.path} appears twice in the table")
        node.methods[operation.method] = operation
        if "{" not in operation.path:
            self._exact[operation.path] = PathMatch(node.methods, ())

    def find(self, path: str) -> PathMatch[R] | None:
        """Returns the operations at exactly this path; None when there are none."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        # Most paths are a prefix without parameters, followed by one value.
        parent, _, last = path.rpartition("/")
        folder = self._folders.get(parent)
        if folder is not None and last and last not in folder.static:
            child = folder.parameter_for(last)
            return PathMatch(child.methods, (last,)) if child is not None and child.methods else None
        return self._walk(path)

    def _walk(self, path: str) -> PathMatch[R] | None:
        node = self._root
        values: list[str] = []
        for name in path.split("/")[1:]:
            child = node.static.get(name)
            if child is None:
                child = node.parameter_for(name) if name else None
                if child is None:
                    return None
                values.append(name)
            node = child
        return PathMatch(node.methods, tuple(values)) if node.methods else None


@lru_cache(maxsize=1024)
def _parameters(path: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return tuple((name, _SHAPES.get(name, ID)) for name in names)


def named(path: str, values: tuple[str, ...]) -> dict[str, str] | None:
    """Returns the path's values by parameter name; None if a value does not match its parameter's pattern."""
    by_name: dict[str, str] = {}
    if values:
        for (name, shape), value in zip(_parameters(path), values, strict=True):
            if not shape.fullmatch(value):
                return None
            by_name[name] = value
    return by_name


def parameter_schema(name: str) -> dict[str, object]:
    """Returns the JSON schema of a path parameter."""
    if name in ("integration_id", "user_id"):
        return {"type": "integer", "minimum": 1}
    shape = _SHAPES.get(name)
    return {"type": "string", "pattern": f"^{shape.pattern}$" if shape else "^[0-9A-HJKMNP-TV-Z]{26}$"}
