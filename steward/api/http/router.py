"""From a path to its operations, by a tree built once; static names come before parameters."""

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
# Below here words name what there is, beside the ids: one that names nothing is no absent record but a path
# that is not there.
_NAMED = ["v1", "automations"]
_WORD = re.compile(r"[a-z][a-z-]*")
_KEY = re.compile(r"[A-Za-z0-9]{32}")
# What a value of the path must look like, by the parameter's name; every other one is an Id.
_SHAPES = {
    "template_id": _TEMPLATE,
    "integration_id": _NUMBER,
    "user_id": _NUMBER,
    "endpoint_key": _KEY,
}


@dataclass(slots=True)
class _Node(Generic[R]):
    static: "dict[str, _Node[R]]" = field(default_factory=dict)
    parameter: "_Node[R] | None" = None
    has_named: bool = False
    methods: dict[str, R] = field(default_factory=dict)


@dataclass(slots=True)
class Found(Generic[R]):
    """The operations of one path by method, and the values of its parameters in order."""

    methods: dict[str, R]
    values: tuple[str, ...]


class Routes(Generic[R]):
    """The tree of paths."""

    def __init__(self, operations: Iterable[R]) -> None:
        self._root: _Node[R] = _Node()
        self._exact: dict[str, Found[R]] = {}
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
            raise ValueError(f"{operation.method} {operation.path} stands twice in the table")
        node.methods[operation.method] = operation
        if "{" not in operation.path:
            self._exact[operation.path] = Found(node.methods, ())

    def find(self, path: str) -> Found[R] | None:
        """The operations at exactly this path; None when there are none."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        # Most paths are a folder without parameters and one value.
        above, _, last = path.rpartition("/")
        folder = self._folders.get(above)
        if folder is not None and last and last not in folder.static:
            below = None if folder.has_named and _WORD.fullmatch(last) else folder.parameter
            return Found(below.methods, (last,)) if below is not None and below.methods else None
        node = self._root
        values: list[str] = []
        for name in path.split("/")[1:]:
            below = node.static.get(name)
            if below is None:
                below = node.parameter
                if below is None or not name or (node.has_named and _WORD.fullmatch(name)):
                    return None
                values.append(name)
            node = below
        return Found(node.methods, tuple(values)) if node.methods else None


@lru_cache(maxsize=1024)
def _parameters(path: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return tuple((name, _SHAPES.get(name, ID)) for name in names)


def named(path: str, values: tuple[str, ...]) -> dict[str, str] | None:
    """The values by their names in an operation's path; None when one has not its name's shape."""
    found: dict[str, str] = {}
    if values:
        for (name, shape), value in zip(_parameters(path), values, strict=True):
            if not shape.fullmatch(value):
                return None
            found[name] = value
    return found


def parameter_schema(name: str) -> dict[str, object]:
    """The shape of a value of the path as JSON schema."""
    if name in ("integration_id", "user_id"):
        return {"type": "integer", "minimum": 1}
    shape = _SHAPES.get(name)
    return {"type": "string", "pattern": f"^{shape.pattern}$" if shape else "^[0-9A-HJKMNP-TV-Z]{26}$"}
