"""What a run-code step takes and gives: the selection of its input, the types of its output (imports 8.3).

The input is a GraphQL selection of the environment's names; arguments, fragments and directives are no part
of it. The output's types are objects of fields, lists, and the five plain types. Pure.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from steward.model.json import JsonValue
from steward.steps.shopify_flow.environment import Environment

DEEPEST: Final = 30
MOST: Final = 2000
PLAIN: Final = frozenset(("Int", "Float", "String", "Boolean", "ID"))
_TOKEN = re.compile(
    r'(?:[\s,\ufeff]+|\#[^\n\r]*)|(?P<word>[A-Za-z_]\w*)|(?P<mark>[{}\[\]:!])|"""(?:.*?)"""|"[^"\n]*"',
    re.DOTALL | re.ASCII,
)


class Unreadable(Exception):
    """The text is no selection, or no types; the message says what of it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(slots=True)
class Selection:
    """The fields taken of an object, by the name they go under; of a plain value none below."""

    fields: "dict[str, tuple[str, Selection]]" = field(default_factory=dict)

    def paths(self) -> list[str]:
        """The dotted paths of what it takes, deepest names alone."""
        found: list[str] = []
        for name, below in self.fields.values():
            found += [f"{name}.{path}" for path in below.paths()] or [name]
        return found


@dataclass(frozen=True, slots=True)
class Named:
    """A type by its name."""

    name: str
    required: bool


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one type."""

    of: "Type"
    required: bool


Type: TypeAlias = "Named | ListOf"


@dataclass(frozen=True, slots=True)
class Schema:
    """The types of an output, by name; `root` is the output's own."""

    root: str
    types: Mapping[str, Mapping[str, Type]]

    def has(self, names: Iterable[str]) -> bool:
        """Whether the output has a field at a path of names, through lists as through objects."""
        here = self.root
        for name in names:
            found = self.types.get(here, {}).get(name)
            if found is None:
                return False
            here = _innermost(found)
        return True


class _Tokens:
    def __init__(self, text: str) -> None:
        self._found: list[str] = []
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None or token.end() == at:
                raise Unreadable(f"It cannot be read from “{text[at : at + 30].strip()}” on.")
            if token.lastgroup is not None:
                self._found.append(token[0])
            at = token.end()
        self._at = 0

    def peek(self) -> str:
        return self._found[self._at] if self._at < len(self._found) else ""

    def next(self) -> str:
        found = self.peek()
        self._at += 1
        return found

    def take(self, mark: str) -> None:
        if self.next() != mark:
            raise Unreadable(f"A “{mark}” is missing.")

    def word(self) -> str:
        found = self.next()
        if not found.isidentifier():
            raise Unreadable(f"A name is missing before “{found}”." if found else "It ends too early.")
        return found

    def has(self, mark: str) -> bool:
        if self.peek() != mark:
            return False
        self._at += 1
        return True


def read_selection(text: str) -> Selection:
    """The input of a run-code step, `query { order { id } }`. Raises Unreadable."""
    tokens = _Tokens(text)
    if tokens.peek() == "query":
        tokens.next()
        if tokens.peek() != "{":
            tokens.word()
    if not tokens.peek():
        return Selection()
    found = _selection(tokens, 0, [0])
    if tokens.peek():
        raise Unreadable(f"It cannot be read from “{tokens.peek()}” on.")
    return found


def _selection(tokens: _Tokens, depth: int, count: list[int]) -> Selection:
    tokens.take("{")
    found = Selection()
    while not tokens.has("}"):
        count[0] += 1
        if depth > DEEPEST or count[0] > MOST:
            raise Unreadable("It takes too many fields or is nested too deeply.")
        name = shown = tokens.word()
        if tokens.has(":"):
            name = tokens.word()
        below = _selection(tokens, depth + 1, count) if tokens.peek() == "{" else Selection()
        known = found.fields.get(shown)
        if known is not None and known[0] == name:
            below = Selection({**known[1].fields, **below.fields})
        found.fields[shown] = (name, below)
    return found


def cut(environment: Environment, selection: Selection) -> dict[str, JsonValue]:
    """The part of the environment a selection takes; what is not there is null. Raises UnknownInTest."""
    for path in selection.paths():
        environment.ask(path)
    return {
        shown: _cut(environment.values.get(name), below) for shown, (name, below) in selection.fields.items()
    }


def _cut(value: JsonValue, selection: Selection) -> JsonValue:
    if not selection.fields:
        return value
    if isinstance(value, list | tuple):
        return [_cut(one, selection) for one in value]
    if not isinstance(value, Mapping):
        return None
    return {shown: _cut(value.get(name), below) for shown, (name, below) in selection.fields.items()}


def read_schema(text: str) -> Schema:
    """The types of an output: `type Output { n: Int! }` and the types it names. Raises Unreadable."""
    tokens, types = _Tokens(text), dict[str, dict[str, Type]]()
    while tokens.peek():
        if tokens.next() not in ("type", "input"):
            raise Unreadable("Only types can be described.")
        name = tokens.word()
        fields: dict[str, Type] = {}
        tokens.take("{")
        while not tokens.has("}"):
            label = tokens.word()
            tokens.take(":")
            fields[label] = _type(tokens, 0)
        types[name] = fields
    root = "Output" if "Output" in types else next(iter(types), None)
    if root is None:
        raise Unreadable("It names no type.")
    for fields in types.values():
        for one in fields.values():
            below = _innermost(one)
            if below not in PLAIN and below not in types:
                raise Unreadable(f"The type “{below}” is not known.")
    return Schema(root, types)


def _type(tokens: _Tokens, depth: int) -> Type:
    if depth > DEEPEST:
        raise Unreadable("It is nested too deeply.")
    if tokens.has("["):
        below = _type(tokens, depth + 1)
        tokens.take("]")
        return ListOf(below, tokens.has("!"))
    return Named(tokens.word(), tokens.has("!"))


def _innermost(one: Type) -> str:
    while isinstance(one, ListOf):
        one = one.of
    return one.name


class Misfit(Exception):
    """The output is not as its types say; the message names the field."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def fitted(value: JsonValue, schema: Schema) -> JsonValue:
    """The output as its types have it: fields they do not name are left out. Raises Misfit."""
    return _fitted(value, Named(schema.root, required=True), schema, "The output", 0)


def _fitted(value: JsonValue, wanted: Type, schema: Schema, where: str, depth: int) -> JsonValue:
    if depth > 100:
        raise Misfit(f"{where} is nested too deeply.")
    if value is None:
        if wanted.required:
            raise Misfit(f"{where} is missing.")
        return None
    if isinstance(wanted, ListOf):
        if not isinstance(value, list):
            raise Misfit(f"{where} is no list.")
        return [
            _fitted(one, wanted.of, schema, f"{where}, item {place}", depth + 1)
            for place, one in enumerate(value, start=1)
        ]
    fields = schema.types.get(wanted.name)
    if fields is None:
        return _plain(value, wanted.name, where)
    if not isinstance(value, Mapping):
        raise Misfit(f"{where} is no object.")
    return {
        name: _fitted(value.get(name), below, schema, f"The output's “{name}”", depth + 1)
        for name, below in fields.items()
    }


def _plain(value: JsonValue, name: str, where: str) -> JsonValue:
    if name == "Boolean" and isinstance(value, bool):
        return value
    if name == "String" and isinstance(value, str):
        return value
    if name == "ID" and isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    if name in ("Int", "Float") and isinstance(value, int | float) and not isinstance(value, bool):
        if name == "Float":
            return value
        if float(value).is_integer():
            return int(value)
    raise Misfit(f"{where} is no {name}.")
