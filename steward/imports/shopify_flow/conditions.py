"""Parses a flow's condition, in either of its two syntaxes, into one tree.

The tree in a plan: `{"and": [TREE…]}`, `{"or": [TREE…]}`, `{"path", "operator", "value", "type"}` (with
`value_path` in place of `value` if the right side is a path) and `{"each": list path, "item": name,
"operator": any|all|none, "holds": TREE}`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from steward.imports.shopify_flow.file import inner
from steward.model.json import JsonObject, JsonValue

WITH_VALUE: Final = (
    "==", "!=", ">", ">=", "<", "<=", "start_with?", "not_start_with?", "end_with?", "not_end_with?",
    "include?", "not_include?", "in?", "not_in?",
)  # fmt: skip
UNARY: Final = ("empty_or_nil?", "not_empty_and_not_nil?", "nil?", "not_nil?")
_OF_LISTS: Final = {"any?": "any", "all?": "all", "none?": "none"}
_MAX_DEPTH: Final = 100
_MAX_PARTS: Final = 1000
PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


class UnreadableCondition(Exception):
    """Raised for an unknown or invalid condition; the message says what is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def read_condition(text: str) -> JsonObject:
    """Parses a condition into a tree. Raises UnreadableCondition."""
    parsed = inner(text)
    if isinstance(parsed, Mapping):
        return _Tree().of(parsed)
    if parsed is not None or not text.strip():
        raise UnreadableCondition("It has no condition.")
    return _Text(text).read()


def paths_in(tree: JsonObject) -> list[str]:
    """Returns the paths that a tree reads, with loop items expressed as members of their list."""
    paths: list[str] = []
    stack: list[tuple[JsonObject, dict[str, str]]] = [(tree, {})]
    while stack:
        current, items = stack.pop()
        for part in _parts(current):
            stack.append((part, items))
        if "each" in current:
            path = _spelled(str(current["each"]), items)
            paths.append(path)
            inner_condition = current["holds"]
            if isinstance(inner_condition, Mapping):
                stack.append((inner_condition, {**items, str(current["item"]): path}))
        paths += [_spelled(str(current[name]), items) for name in ("path", "value_path") if name in current]
    return paths


def _parts(tree: JsonObject) -> list[JsonObject]:
    parts = tree.get("and") or tree.get("or") or ()
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _spelled(path: str, items: Mapping[str, str]) -> str:
    head, dot, members = path.partition(".")
    return f"{items[head]}{dot}{members}" if head in items else path


def _joined(word: str, parts: list[JsonObject]) -> JsonObject:
    """Joins parts with `and` or `or`; nested parts joined in the same way become one list."""
    flat: list[JsonValue] = []
    for part in parts:
        inner_parts = part.get(word)
        flat += inner_parts if isinstance(inner_parts, list) else [part]
    return {word: flat}


def _path(path: Any) -> str:
    if not isinstance(path, str) or not PATH.match(path):
        raise UnreadableCondition(f"“{str(path)[:80]}” is not a path.")
    return path


def _comparison(path: str, operator: str, value: JsonValue, type_: str | None) -> JsonObject:
    if operator in UNARY:
        return {"path": path, "operator": operator, "value": None, "type": type_}
    if operator not in WITH_VALUE:
        raise UnreadableCondition(f"The operator “{operator[:80]}” is not known.")
    return {"path": path, "operator": operator, "value": value, "type": type_}


class _Tree:
    """Parses the JSON syntax."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, node: Any, depth: int = 0, items: frozenset[str] = frozenset()) -> JsonObject:
        """Returns the tree of a part; `items` are the item names of the enclosing lists."""
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_PARTS:
            raise UnreadableCondition("It is nested too deeply or has too many parts.")
        if not isinstance(node, Mapping):
            raise UnreadableCondition("A part of it is empty.")
        if "array_path" in node:
            return self._array(node, depth, items)
        if node.get("operation_type") == "LogicalExpression" or node.get("operator") in ("AND", "OR"):
            return self._logical(node, depth, items)
        if node.get("operation_type") in ("Comparison", None) and isinstance(node.get("lhs"), Mapping):
            return self._compared(node, items)
        raise UnreadableCondition(f"A part of kind “{str(node.get('operation_type'))[:80]}” is not known.")

    def _logical(self, node: Mapping[str, Any], depth: int, items: frozenset[str]) -> JsonObject:
        word = {"AND": "and", "OR": "or"}.get(str(node.get("operator")))
        if word is None:
            raise UnreadableCondition(f"The operator “{str(node.get('operator'))[:80]}” is not known.")
        first = self.of(node.get("lhs"), depth + 1, items)
        if node.get("rhs") is None:
            return first
        return _joined(word, [first, self.of(node["rhs"], depth + 1, items)])

    def _array(self, node: Mapping[str, Any], depth: int, items: frozenset[str]) -> JsonObject:
        word = str(node.get("operator"))
        if word not in ("ANY", "ALL", "NONE"):
            raise UnreadableCondition(f"The operator “{word[:80]}” of a list is not known.")
        item = _path(_environment(node.get("array_item_key"), items))
        if "." in item:
            raise UnreadableCondition(f"“{item[:80]}” is not a name of an item.")
        return {
            "each": _path(_environment(node.get("array_path"), items)),
            "item": item,
            "operator": word.lower(),
            "holds": self.of(node.get("operation"), depth + 1, items | {item}),
        }

    def _compared(self, node: Mapping[str, Any], items: frozenset[str]) -> JsonObject:
        path = _path(_environment(node["lhs"], items))
        value_type = node.get("value_type")
        type_ = value_type.rpartition(":")[2] if isinstance(value_type, str) else None
        right = node.get("rhs")
        operator = str(node.get("operator"))
        if operator in UNARY:
            return _comparison(path, operator, None, type_)
        if not isinstance(right, Mapping):
            raise UnreadableCondition("A comparison has nothing to compare with.")
        if right.get("comparison_value_type") == "EnvironmentValue":
            comparison = dict(_comparison(path, operator, None, type_))
            del comparison["value"]
            return {**comparison, "value_path": _path(_environment(right, items))}
        value = right.get("value")
        if isinstance(value, Mapping) or right.get("comparison_value_type") not in ("LiteralValue", None):
            raise UnreadableCondition("A comparison is with something other than a value or a path.")
        return _comparison(path, operator, value, type_)


def _environment(node: Any, items: frozenset[str]) -> Any:
    """Returns the path of a part, which may begin at the item of a list."""
    if isinstance(node, str):
        return node
    if not isinstance(node, Mapping) or node.get("comparison_value_type") not in ("EnvironmentValue", None):
        return None
    value = node.get("value")
    if isinstance(value, str) and value.partition(".")[0] in items:
        return value
    return node.get("full_environment_path") or value


_TOKEN = re.compile(
    r"""\s*(?:(?P<mark>&&|\|\||[()|,\[\]])
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<operator>==|!=|>=|<=|>|<|[a-z_]+\?)
      | (?P<number>-?\d+(?:\.\d+)?(?![\w.]))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*))""",
    re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WORDS: Mapping[str, JsonValue] = {"true": "true", "false": "false", "nil": None, "null": None}
_END = ("end", "")


class _Text:
    """Parses the text syntax: `(order.lineItems any? |x| (x.quantity > 2)) && …`.

    It never mixes `&&` and `||` in one group.
    """

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._position = self._count = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            token = _TOKEN.match(text, position)
            if token is None or len(self._tokens) > 20 * _MAX_PARTS:
                raise UnreadableCondition(
                    f"It cannot be read from “{text[position : position + 40].strip()}” on."
                )
            self._tokens.append((str(token.lastgroup), str(token[str(token.lastgroup)])))
            position = token.end()

    def read(self) -> JsonObject:
        tree = self._joined(0)
        if self._position < len(self._tokens):
            raise UnreadableCondition(f"It cannot be read from “{self._peek()[1][:40]}” on.")
        return tree

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._position += 1
        return token

    def _expect(self, mark: str) -> None:
        if self._next() != ("mark", mark):
            raise UnreadableCondition(f"A “{mark}” is missing.")

    def _joined(self, depth: int) -> JsonObject:
        if depth > _MAX_DEPTH:
            raise UnreadableCondition("It is nested too deeply.")
        parts = [self._part(depth)]
        marks: set[str] = set()
        while self._peek() in (("mark", "&&"), ("mark", "||")):
            marks.add(self._next()[1])
            parts.append(self._part(depth))
        if len(marks) > 1:
            raise UnreadableCondition("It mixes “&&” and “||” without brackets.")
        return _joined("and" if "&&" in marks else "or", parts) if marks else parts[0]

    def _part(self, depth: int) -> JsonObject:
        if self._peek() == ("mark", "("):
            self._next()
            part = self._joined(depth + 1)
            self._expect(")")
            return part
        self._count += 1
        if self._count > _MAX_PARTS:
            raise UnreadableCondition("It has too many parts.")
        kind, path = self._next()
        if kind != "name":
            raise UnreadableCondition(f"A path is missing before “{path[:40]}”.")
        kind, operator = self._next()
        if kind != "operator":
            raise UnreadableCondition(f"An operator is missing after “{path[:80]}”.")
        if operator in _OF_LISTS:
            return self._of_list(path, _OF_LISTS[operator], depth)
        if operator in UNARY:
            return _comparison(path, operator, None, None)
        kind, value = self._value()
        part = _comparison(path, operator, value, None)
        if kind != "name":
            return part
        return {name: member for name, member in part.items() if name != "value"} | {"value_path": value}

    def _of_list(self, path: str, word: str, depth: int) -> JsonObject:
        self._expect("|")
        kind, item = self._next()
        if kind != "name" or "." in item:
            raise UnreadableCondition(f"The items of “{path[:80]}” have no name.")
        self._expect("|")
        self._expect("(")
        inner_condition = self._joined(depth + 1)
        self._expect(")")
        return {"each": path, "item": item, "operator": word, "holds": inner_condition}

    def _value(self) -> tuple[str, JsonValue]:
        kind, text = self._next()
        if kind == "text":
            return kind, _ESCAPED.sub(lambda hit: hit[1], text[1:-1])
        if kind == "number":
            return kind, text
        if kind == "name":
            return ("word", _WORDS[text]) if text in _WORDS else (kind, text)
        if (kind, text) == ("mark", "["):
            return "list", self._list()
        raise UnreadableCondition("A comparison has nothing to compare with.")

    def _list(self) -> list[JsonValue]:
        values: list[JsonValue] = []
        while self._peek() != ("mark", "]"):
            kind, value = self._value()
            if kind in ("name", "list"):
                raise UnreadableCondition("A list holds something other than values.")
            values.append(value)
            if self._peek() == ("mark", ","):
                self._next()
            elif self._peek() != ("mark", "]"):
                raise UnreadableCondition("A list has no end.")
        self._next()
        return values
