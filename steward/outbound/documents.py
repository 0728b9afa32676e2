"""The GraphQL documents that a connection may send, registered by name and classified by effect.

Connectors test that the fields exist; this module only determines whether a document reads or writes.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

# Comments and strings can contain any word; they are removed before the tokens are read.
_IGNORED = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*', re.DOTALL)
_TOKEN = re.compile(r"[{}()]|[A-Za-z_][A-Za-z0-9_]*|[^\s]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATION_TYPES = frozenset({"query", "mutation", "subscription"})
_DEFINITION_TYPES = _OPERATION_TYPES | {"fragment"}


@dataclass(frozen=True, slots=True)
class Document:
    """A GraphQL document; `max_cost` is its highest expected query cost.

    `text` holds one operation, which names the document, and any fragments. Raises ValueError for anything
    else.
    """

    text: str
    max_cost: float
    name: str = field(init=False)
    operation_type: str = field(init=False)
    root_fields: tuple[str, ...] = field(init=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        kind, name, roots = operation_of(self.text)
        object.__setattr__(self, "operation_type", kind)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "root_fields", roots)
        object.__setattr__(self, "sha256", hashlib.sha256(self.text.encode("utf-8")).hexdigest())


class DocumentRegistry:
    """The documents of one platform; `read_only_mutations` are root fields of mutations that only read.

    `compiler` creates documents that are not constants from a recipe of names. Raises ValueError.
    """

    def __init__(
        self,
        path: str,
        documents: Iterable[Document],
        *,
        read_only_mutations: frozenset[str],
        compiler: Callable[[Any], Document] | None = None,
    ) -> None:
        listed = list(documents)
        self.path = path
        self.all: Mapping[str, Document] = MappingProxyType({document.name: document for document in listed})
        self._read_only_mutations = read_only_mutations
        self._compiler = compiler
        if len(self.all) != len(listed):
            raise ValueError("two documents have one name")

    def compile(self, recipe: object) -> Document:
        """Returns the document of a recipe, always a query. Raises ValueError."""
        if self._compiler is None:
            raise ValueError("documents of this platform are constants")
        document = self._compiler(recipe)
        if document.operation_type != "query":
            raise ValueError("what is made while the service runs only reads")
        return document

    def only_reads(self, document: Document) -> bool:
        """Returns whether no part of the document can change a store."""
        if document.operation_type == "mutation":
            return set(document.root_fields) <= self._read_only_mutations
        return document.operation_type == "query"


def operation_of(text: str) -> tuple[str, str, tuple[str, ...]]:
    """Returns type, name and root fields of the operation in `text`. Raises ValueError for other texts."""
    tokens = _TOKEN.findall(_IGNORED.sub(" ", text))
    operations: list[tuple[str, str, tuple[str, ...]]] = []
    depth, in_definition = 0, False
    for position, token in enumerate(tokens):
        if depth == 0 and token in _OPERATION_TYPES:
            name = tokens[position + 1] if position + 1 < len(tokens) else ""
            operations.append((token, name, _root_fields(tokens, position)))
        if not in_definition and token not in _DEFINITION_TYPES:
            break
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(token, 0)
        in_definition = depth != 0 or token != "}"
    if len(operations) != 1 or depth != 0 or in_definition:
        raise ValueError("a document holds exactly one operation, and it has a name")
    return operations[0]


def _root_fields(tokens: list[str], start: int) -> tuple[str, ...]:
    """Returns the names of the fields directly in the operation's selection; refuses `...` there."""
    names: list[str] = []
    for number in _selection(tokens, start):
        if tokens[number] == ".":
            raise ValueError("an operation's own fields are named in it")
        is_alias = tokens[number + 1 : number + 2] == [":"]  # the field's name follows
        if _NAME.fullmatch(tokens[number]) and tokens[number - 1] != "@" and not is_alias:
            names.append(tokens[number])
    return tuple(names)


def _selection(tokens: list[str], start: int) -> Iterator[int]:
    """Yields the positions of the tokens directly in the selection after `start`, without arguments."""
    depth, parentheses = 0, 0
    for number, token in enumerate(tokens[start:], start=start):
        if token in ("(", ")"):
            parentheses += 1 if token == "(" else -1
        elif parentheses:
            continue
        elif token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                return
        elif depth == 1:
            yield number
