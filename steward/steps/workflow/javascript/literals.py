"""Parses objects and lists in text, as JSON or JavaScript literals, for n8n fields of these types."""

import re
from typing import Final

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.javascript import values as js

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<sign>[{}\[\]:,])
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
      | (?P<word>[^\W\d][\w$]*|\$[\w$]*)
    )\s*""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"true": True, "false": False, "null": None, "undefined": js.UNDEFINED}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_DEEPEST: Final = 100


def list_in(text: str) -> AnyJson:
    """Parses a list in JSON with either kind of quotes; returns UNDEFINED for any other text."""
    parsed = js.parse_json(text)
    if parsed is js.UNDEFINED:
        parsed = js.parse_json(text.replace("'", '"'))
    return parsed if js.is_list(parsed) else js.UNDEFINED


def object_in(text: str) -> AnyJson:
    """Parses an object in JSON or JavaScript; returns None for null, UNDEFINED for any other text."""
    parsed = js.parse_json(text)
    if parsed is js.UNDEFINED:
        try:
            parsed = _Reader(text).whole()
        except ValueError:
            return js.UNDEFINED
    return parsed if parsed is None or js.is_object(parsed) else js.UNDEFINED


class _Reader:
    """Parses JavaScript literals. Raises ValueError for anything else."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                raise ValueError(text[position : position + 20])
            self.tokens.append((str(token.lastgroup), token[str(token.lastgroup)]))
            position = token.end()
        self.at = 0

    def whole(self) -> AnyJson:
        """Parses the whole text as one value."""
        value = self._value(0)
        if self.at != len(self.tokens):
            raise ValueError(self.tokens[self.at][1])
        return value

    def _next(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise ValueError("the end")
        self.at += 1
        return self.tokens[self.at - 1]

    def _takes(self, sign: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == ("sign", sign):
            self.at += 1
            return True
        return False

    def _value(self, depth: int) -> AnyJson:
        kind, word = self._next()
        if depth > _DEEPEST:
            raise ValueError(word)
        if kind == "text":
            return _unescaped(word)
        if kind == "number":
            return js.plain_number(float(word))
        if word == "{":
            return self._object(depth)
        if word == "[":
            return self._list(depth)
        if kind == "word" and word in _WORDS:
            return _WORDS[word]
        raise ValueError(word)

    def _object(self, depth: int) -> JsonObject:
        members: dict[str, JsonValue] = {}
        while not self._takes("}"):
            kind, word = self._next()
            if kind == "sign" or not self._takes(":"):
                raise ValueError(word)
            members[_unescaped(word) if kind == "text" else word] = self._value(depth + 1)
            if not self._takes(",") and self.tokens[self.at : self.at + 1] != [("sign", "}")]:
                raise ValueError(word)
        return members

    def _list(self, depth: int) -> list[AnyJson]:
        elements: list[JsonValue] = []
        while not self._takes("]"):
            elements.append(self._value(depth + 1))
            if not self._takes(",") and self.tokens[self.at : self.at + 1] != [("sign", "]")]:
                raise ValueError("a list")
        return elements


def _unescaped(quoted: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(plain, quoted[1:-1])
