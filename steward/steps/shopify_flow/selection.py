"""Parses the input and output types of a run-code step.

The input is a GraphQL selection of the environment's names, without arguments, fragments and directives. The
output types are objects, lists, and the five scalar types.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from steward.model.json import JsonValue
from steward.steps.shopify_flow.environment import FlowVariables

MAX_DEPTH: Final = 30
MAX_FIELDS: Final = 2000
_PYTHON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "Int": (int, float),
    "Float": (int, float),
    "String": (str,),
    "Boolean": (bool,),
    "ID": (str, int),
}
PLAIN: Final = frozenset(_PYTHON_TYPES)
_TOKEN = re.compile(
    r'(?:[\s,\ufeff]+|\#[^\n\r]*)|(?P<word>[A-Za-z_]\w*)|(?P<mark>[{}\[\]:!])|"""(?:.*?)"""|"[^"\n]*"',
    re.DOTALL | re.ASCII,
)


class UnreadableSelection(Exception):
    """Raised for text that is not a selection or has no valid types; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(slots=True)
class _Selection:
    """The selected fields of an object, keyed by alias; empty for a plain value."""

    fields: "dict[str, tuple[str, _Selection]]" = field(default_factory=dict)

    def paths(self) -> list[str]:
        """Returns the dotted paths of the innermost selected fields."""
        paths: list[str] = []
        for name, below in self.fields.values():
            paths += [f"{name}.{path}" for path in below.paths()] or [name]
        return paths


@dataclass(frozen=True, slots=True)
class NamedType:
    """A type referred to by name."""

    name: str
    required: bool


@dataclass(frozen=True, slots=True)
class _ListOf:
    """A list of values of one type."""

    of: "Type"
    required: bool


Type: TypeAlias = "NamedType | _ListOf"


@dataclass(frozen=True, slots=True)
class Schema:
    """The types of an output, by name; `root` is the name of the output's own type."""

    root: str
    types: Mapping[str, Mapping[str, Type]]

    def has(self, names: Iterable[str]) -> bool:
        """Returns whether the output has a field at a path of names, looking through lists."""
        type_name = self.root
        for name in names:
            field_type = self.types.get(type_name, {}).get(name)
            if field_type is None:
                return False
            type_name = _innermost(field_type)
        return True


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None or token.end() == position:
                raise UnreadableSelection(
                    f"It cannot be read from “{text[position : position + 30].strip()}” on."
                )
            if token.lastgroup is not None:
                self._tokens.append(token[0])
            position = token.end()
        self._position = 0

    def peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self._position += 1
        return token

    def expect(self, mark: str) -> None:
        if self.next() != mark:
            raise UnreadableSelection(f"A “{mark}” is missing.")

    def word(self) -> str:
        token = self.next()
        if not token.isidentifier():
            raise UnreadableSelection(
                f"A name is missing before “{token}”." if token else "It ends too early."
            )
        return token

    def has(self, mark: str) -> bool:
        if self.peek() != mark:
            return False
        self._position += 1
        return True


def read_selection(text: str) -> _Selection:
    """Parses the input of a run-code step, `query { order { id } }`. Raises UnreadableSelection."""
    tokens = _Tokens(text)
    if tokens.peek() == "query":
        tokens.next()
        if tokens.peek() != "{":
            tokens.word()
    if not tokens.peek():
        return _Selection()
    selection = _selection(tokens, 0, [0])
    if tokens.peek():
        raise UnreadableSelection(f"It cannot be read from “{tokens.peek()}” on.")
    return selection


def _selection(tokens: _Tokens, depth: int, count: list[int]) -> _Selection:
    tokens.expect("{")
    selection = _Selection()
    while not tokens.has("}"):
        count[0] += 1
        if depth > MAX_DEPTH or count[0] > MAX_FIELDS:
            raise UnreadableSelection("It takes too many fields or is nested too deeply.")
        name = alias = tokens.word()
        if tokens.has(":"):
            name = tokens.word()
        below = _selection(tokens, depth + 1, count) if tokens.peek() == "{" else _Selection()
        selected = selection.fields.get(alias)
        if selected is not None and selected[0] == name:
            below = _Selection({**selected[1].fields, **below.fields})
        selection.fields[alias] = (name, below)
    return selection


def cut(environment: FlowVariables, selection: _Selection) -> dict[str, JsonValue]:
    """Returns the selected part of the environment; missing values become None. Raises UnknownInTest."""
    for path in selection.paths():
        environment.require_known(path)
    return {
        alias: _cut(environment.values.get(name), below) for alias, (name, below) in selection.fields.items()
    }


def _cut(value: JsonValue, selection: _Selection) -> JsonValue:
    if not selection.fields:
        return value
    if isinstance(value, list | tuple):
        return [_cut(element, selection) for element in value]
    if not isinstance(value, Mapping):
        return None
    return {alias: _cut(value.get(name), below) for alias, (name, below) in selection.fields.items()}


def read_schema(text: str) -> Schema:
    """Parses the types of an output, such as `type Output { n: Int! }`. Raises UnreadableSelection."""
    tokens, types = _Tokens(text), dict[str, dict[str, Type]]()
    while tokens.peek():
        if tokens.next() not in ("type", "input"):
            raise UnreadableSelection("Only types can be described.")
        name = tokens.word()
        fields: dict[str, Type] = {}
        tokens.expect("{")
        while not tokens.has("}"):
            label = tokens.word()
            tokens.expect(":")
            fields[label] = _type(tokens, 0)
        types[name] = fields
    root = "Output" if "Output" in types else next(iter(types), None)
    if root is None:
        raise UnreadableSelection("It names no type.")
    for fields in types.values():
        for type_ in fields.values():
            below = _innermost(type_)
            if below not in PLAIN and below not in types:
                raise UnreadableSelection(f"The type “{below}” is not known.")
    return Schema(root, types)


def _type(tokens: _Tokens, depth: int) -> Type:
    if depth > MAX_DEPTH:
        raise UnreadableSelection("It is nested too deeply.")
    if tokens.has("["):
        below = _type(tokens, depth + 1)
        tokens.expect("]")
        return _ListOf(below, tokens.has("!"))
    return NamedType(tokens.word(), tokens.has("!"))


def _innermost(type_: Type) -> str:
    while isinstance(type_, _ListOf):
        type_ = type_.of
    return type_.name


class OutputMismatch(Exception):
    """Raised for an output that does not match its types; the message names the field."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def fitted(value: JsonValue, schema: Schema) -> JsonValue:
    """Returns the output without fields that its types do not declare. Raises OutputMismatch."""
    return _fitted(value, NamedType(schema.root, required=True), schema, "The output", 0)


def _fitted(value: JsonValue, type_: Type, schema: Schema, where: str, depth: int) -> JsonValue:
    if depth > 100:
        raise OutputMismatch(f"{where} is nested too deeply.")
    if value is None:
        if type_.required:
            raise OutputMismatch(f"{where} is missing.")
        return None
    if isinstance(type_, _ListOf):
        if not isinstance(value, list):
            raise OutputMismatch(f"{where} is not a list.")
        return [
            _fitted(element, type_.of, schema, f"{where}, item {number}", depth + 1)
            for number, element in enumerate(value, start=1)
        ]
    fields = schema.types.get(type_.name)
    if fields is None:
        return _plain(value, type_.name, where)
    if not isinstance(value, Mapping):
        raise OutputMismatch(f"{where} is not an object.")
    return {
        name: _fitted(value.get(name), below, schema, f"The output's “{name}”", depth + 1)
        for name, below in fields.items()
    }


def _plain(value: JsonValue, name: str, where: str) -> JsonValue:
    is_boolean = isinstance(value, bool)
    if is_boolean is (name == "Boolean") and isinstance(value, _PYTHON_TYPES.get(name, ())):
        if name == "ID":
            return str(value)
        if name != "Int":
            return value
        if isinstance(value, int | float) and float(value).is_integer():
            return int(value)
    raise OutputMismatch(f"{where} is not of type {name}.")
