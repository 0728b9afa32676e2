"""Determines the parts of texts that contain expressions and markers of removed keys.

An account can restore a key only if its marker passes through an expression unchanged: joined to other texts,
inside an object, or encoded as JSON. An expression that compares a marker or computes with it would use the
marker in place of the key. See docs/design/imports-secrets.md#markers.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from steward.model.removed_secrets import MARKER
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.paths import Path, read_path
from steward.steps.workflow.expressions.template import Chunk


@dataclass(frozen=True, slots=True)
class RemovedKey:
    """A removed key in plain form; keys with the same name are identical."""

    name: str


class VariablePart(Enum):
    """A part of a text that is neither fixed text nor a plain key."""

    DATA = "data of the run"
    ENCODED = "keys and fixed text in base64"


TextPart: TypeAlias = str | RemovedKey | VariablePart
KeyReads: TypeAlias = Callable[[str], str | None]  # the removed key that code reads from items

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<string>'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+")
      | (?P<word>[^\W\d][\w$]*|\$[\w$]*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>\.\.\.|=>|[=!]==?|\?\.|\?\?|\+\+|--|&&|\|\||\*\*|[<>]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_LITERAL: Final = re.compile(r"""\s*('[^'\\\n]*'|"[^"\\\n]*")\s*""")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
# Operators allowed beside a key outside brackets; all others compute with it.
_JOINING: Final = frozenset(("+", ".", "?.", "||", "??"))
_OPERATORS: Final = frozenset(("typeof", "void", "delete", "new", "await", "in", "instanceof", "yield"))
_UNCHANGING: Final = frozenset(("trim", "toString"))  # methods that return a key unchanged
_VARIABLES: Final = ("$env", "$vars")
_MEMBER: Final = (".", "?.")
_BASE64: Final = ("'base64'", '"base64"')
_MAX_DEPTH: Final = 50
_MAX_TOKENS: Final = 2_000  # in an expression that reads a key


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class VariableRead:
    """A read of a variable of n8n by its name, such as `$env.KEY`, between two positions of some code.

    An empty text behind it is no fallback.
    """

    name: str
    start: int
    end: int
    has_fallback: bool


class _KeyChanged(Exception):
    """Raised if an expression does more with a key than pass it on."""


def reads_nothing(code: str) -> str | None:
    """Returns None: the code reads no removed key from its items."""
    return None


def parts_of(
    text: str, reads: KeyReads = reads_nothing, *, in_address: bool = False
) -> tuple[TextPart, ...] | None:
    """Returns the parts of a step's parameter, or None if an expression changes a key.

    Objects are written as JSON. With `in_address`, URL encoding counts as leaving a key unchanged.
    """
    parts: list[TextPart] = []
    try:
        for part in template.read(text).parts:
            if isinstance(part, Chunk):
                parts += _Code(part.code.rstrip("; \t\r\n"), reads, in_address).parts()
            else:
                parts += _of_text(part)
    except (_KeyChanged, RecursionError):
        return None
    return tuple(parts)


def variable_reads(code: str) -> list[VariableRead]:
    """Returns the reads of variables of n8n by fixed names in the code of an expression, in order."""
    try:
        return list(_variable_reads(code, 0, 0))
    except (_KeyChanged, RecursionError):
        return []


def _variable_reads(code: str, offset: int, depth: int) -> Iterable[VariableRead]:
    tokens = _tokens(code)
    if depth > _MAX_DEPTH:
        raise _KeyChanged
    for index, token in enumerate(tokens):
        if token.kind == "template":
            yield from _reads_in_template(token, offset, depth + 1)
        elif token.text in _VARIABLES and not (index and tokens[index - 1].text in _MEMBER):
            yield from _variable_read(tokens[index : index + 8], offset)


def _reads_in_template(token: _Token, offset: int, depth: int) -> Iterable[VariableRead]:
    position = token.start + 1
    for text, inside in _template_parts(token.text[1:-1]):
        position += len(text) + len("${")
        if inside is not None:
            yield from _variable_reads(inside, offset + position, depth)
            position += len(inside) + len("}")


def _variable_read(tokens: Sequence[_Token], offset: int) -> Iterable[VariableRead]:
    """Yields the read of the variable whose owner is first, if its name is fixed."""
    texts = [token.text for token in tokens[:7]] + [""] * 7
    opening = 2 if texts[1:3] == ["?.", "["] else 1
    # an import refuses names with an escape, which are not what is written
    if texts[opening] == "[" and texts[opening + 2] == "]" and _LITERAL.fullmatch(texts[opening + 1]):
        name, end = texts[opening + 1][1:-1], opening + 3
    elif texts[1] in _MEMBER and texts[2] and tokens[2].kind == "word":
        name, end = texts[2], 3
    else:
        return
    has_fallback = texts[end] in ("||", "??") and texts[end + 1] not in ("''", '""')
    owner, last = tokens[0], tokens[end - 1]
    yield VariableRead(f"{owner.text}.{name}", offset + owner.start, offset + last.end, has_fallback)


def is_fixed(parts: Sequence[TextPart] | None) -> bool:
    """Returns whether the text consists only of keys and fixed text, and so is the same in every run."""
    return parts is not None and not any(isinstance(part, VariablePart) for part in parts)


def _of_text(text: str) -> Iterable[TextPart]:
    position = 0
    for hit in MARKER.finditer(text):
        if hit.start() > position:
            yield text[position : hit.start()]
        yield RemovedKey(hit[1])
        position = hit.end()
    if position < len(text):
        yield text[position:]


@dataclass(frozen=True, slots=True)
class _Code:
    """The code of one expression."""

    code: str
    reads: KeyReads
    in_address: bool
    depth: int = 0

    def parts(self) -> list[TextPart]:
        """Returns the parts of the code's result. Raises _KeyChanged."""
        if MARKER.search(self.code) is None and self.reads(self.code) is None:
            literal = _LITERAL.fullmatch(self.code)
            return [VariablePart.DATA if literal is None else _unquoted(literal[1])]
        tokens = _tokens(self.code)
        if self.depth > _MAX_DEPTH:
            raise _KeyChanged
        return self._value(tokens)

    def _has_key(self, tokens: Sequence[_Token]) -> bool:
        text = self._text(tokens)
        return MARKER.search(text) is not None or self.reads(text) is not None

    def _text(self, tokens: Sequence[_Token]) -> str:
        return self.code[tokens[0].start : tokens[-1].end] if tokens else ""

    def _value(self, tokens: Sequence[_Token]) -> list[TextPart]:
        if not tokens:
            raise _KeyChanged
        if not self._has_key(tokens):
            fixed = _fixed_text(tokens)
            return [VariablePart.DATA] if fixed is None else [fixed]
        inside = _inside_brackets(tokens)
        if inside is not None and tokens[0].text == "(":
            return self._value(inside)
        _refuse_operators(tokens)
        for fallback in ("||", "??"):
            first, *others = _split(tokens, fallback)
            if others:
                # a key is never empty, so the alternatives are not used
                if any(map(self._has_key, others)):
                    raise _KeyChanged
                return self._value(first)
        summands = _split(tokens, "+")
        if len(summands) > 1:
            return [part for summand in summands for part in self._value(summand)]
        return self._operand(tokens)

    def _operand(self, tokens: Sequence[_Token]) -> list[TextPart]:
        first = tokens[0]
        if len(tokens) == 1 and first.kind == "string":
            return list(_of_text(_unquoted(first.text)))
        if len(tokens) == 1 and first.kind == "template":
            return self._template(first)
        inside = _inside_brackets(tokens)
        if inside is not None:
            return self._list(inside) if first.text == "[" else self._object(inside)
        called = self._called(tokens)
        if called is not None:
            return called
        return self._of_path(self._text(tokens))

    def _of_path(self, text: str) -> list[TextPart]:
        name, path = self.reads(text), read_path(text)
        if name is None or path is None or _is_of_text(path):
            raise _KeyChanged
        return [RemovedKey(name)]

    def _called(self, tokens: Sequence[_Token]) -> list[TextPart] | None:
        """Returns the parts of a call of a known function or method, or None for any other code."""
        texts = [token.text for token in tokens]
        if len(texts) > 4 and texts[-4] in (".", "?.") and texts[-2:] == ["(", ")"]:
            return self._of_method(texts[-3], tokens[:-4])
        if texts[:3] == ["Buffer", ".", "from"]:
            return self._of_buffer(tokens[3:])
        if texts[:3] == ["JSON", ".", "stringify"]:
            return self._json_text(_inside_brackets(tokens[3:]))
        arguments = _inside_brackets(tokens[1:])
        if arguments is None or texts[1] != "(":
            return None
        if texts[0] == "btoa":
            return self._encoded(arguments)
        is_unchanging = texts[0] == "String" or (self.in_address and texts[0] == "encodeURIComponent")
        return self._value(arguments) if is_unchanging else None

    def _of_method(self, name: str, tokens: Sequence[_Token]) -> list[TextPart] | None:
        """Returns the parts of a known method call without arguments."""
        if name in _UNCHANGING:
            return self._value(tokens)
        return self._encoded(tokens) if name == "base64Encode" else None

    def _of_buffer(self, tokens: Sequence[_Token]) -> list[TextPart] | None:
        """Returns the parts of `(…).toString('base64')` after `Buffer.from`."""
        texts = [token.text for token in tokens]
        arguments = _inside_brackets(tokens[:-5])
        if arguments is None or texts[-5:-2] != [".", "toString", "("] or texts[-2] not in _BASE64:
            return None
        return self._encoded(_split(arguments, ",")[0])

    def _json_text(self, arguments: Sequence[_Token] | None) -> list[TextPart]:
        if arguments is None:
            raise _KeyChanged
        value, *others = _split(arguments, ",")
        if any(len(other) != 1 or other[0].text not in ("null", "2", "4") for other in others):
            raise _KeyChanged  # a replacer function could change the text
        return self._member(value)

    def _encoded(self, tokens: Sequence[_Token]) -> list[TextPart]:
        parts = self._value(tokens)
        if any(isinstance(part, VariablePart) for part in parts):
            raise _KeyChanged
        return [VariablePart.ENCODED]

    def _template(self, token: _Token) -> list[TextPart]:
        parts: list[TextPart] = []
        for text, code in _template_parts(token.text[1:-1]):
            parts += _of_text(text)
            if code is not None:
                parts += _Code(code, self.reads, self.in_address, self.depth + 1).parts()
        return parts

    def _list(self, tokens: Sequence[_Token]) -> list[TextPart]:
        parts: list[TextPart] = ["["]
        for number, element in enumerate(_split(tokens, ",")):
            parts += [*([","] if number else []), *(self._member(element) if element else ())]
        return [*parts, "]"]

    def _object(self, tokens: Sequence[_Token]) -> list[TextPart]:
        parts: list[TextPart] = ["{"]
        for member in _split(tokens, ","):
            if not member:
                continue
            has_name = len(member) > 2 and member[1].text == ":" and member[0].kind in ("word", "string")
            if has_name:
                name = member[0].text if member[0].kind == "word" else _unquoted(member[0].text)
                parts += [f"{json.dumps(name)}:", *self._member(member[2:]), ","]
            elif self._has_key(member):
                raise _KeyChanged
        return [*parts, "}"]

    def _member(self, tokens: Sequence[_Token]) -> list[TextPart]:
        """Returns the parts of a value in JSON syntax."""
        parts = self._value(tokens)
        if parts == [VariablePart.DATA] or (_inside_brackets(tokens) is not None and tokens[0].text != "("):
            return parts
        inner = [json.dumps(part)[1:-1] if isinstance(part, str) else part for part in parts]
        return ['"', *inner, '"']


def _tokens(code: str) -> list[_Token]:
    """Returns the tokens of code. Raises _KeyChanged for too many, and at a quote that is not closed."""
    tokens: list[_Token] = []
    position = 0
    while position < len(code):
        if code[position] == "`":
            kind, end = "template", _template_end(code, position)
        else:
            hit = _token_at(code, position)
            kind, end = str(hit.lastgroup), hit.end()
        if kind != "space":
            if len(tokens) == _MAX_TOKENS:
                raise _KeyChanged
            tokens.append(_Token(kind, code[position:end], position, end))
        position = end
    return tokens


def _token_at(code: str, position: int) -> re.Match[str]:
    """Returns the match of the token at a position. Raises _KeyChanged at a quote that is not closed.

    Each such quote is searched for to the end of its line, so going on would take quadratic time.
    """
    hit = _TOKEN.match(code, position)
    if hit is None or hit[0] in ("'", '"'):
        raise _KeyChanged
    return hit


def _template_end(code: str, start: int) -> int:
    """Returns the end of the template literal that begins at `start`. Raises _KeyChanged."""
    for position in _template_walk(code, start + 1, 0):
        return position
    raise _KeyChanged


def _template_walk(code: str, position: int, nested: int) -> Iterable[int]:
    while position < len(code) and nested < _MAX_DEPTH:
        if code[position] == "\\":
            position += 2
        elif code[position] == "`":
            yield position + 1
            return
        elif code.startswith("${", position):
            position = _code_end(code, position + 2, nested + 1) + 1
        else:
            position += 1


def _code_end(code: str, position: int, nested: int = 0) -> int:
    """Returns the index of the `}` that ends the code in a template literal. Raises _KeyChanged."""
    braces = 0
    while position < len(code):
        if code[position] == "`":
            position = next(iter(_template_walk(code, position + 1, nested)), len(code))
            continue
        hit = _token_at(code, position)
        if hit[0] == "}" and not braces:
            return position
        braces += {"{": 1, "}": -1}.get(hit[0], 0)
        position = hit.end()
    raise _KeyChanged


def _template_parts(text: str) -> Iterable[tuple[str, str | None]]:
    """Yields each text of a template literal with the code that follows it, or None after the last."""
    position = begin = 0
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text.startswith("${", position):
            end = _code_end(text, position + 2)
            yield text[begin:position], text[position + 2 : end]
            position = begin = end + 1
        else:
            position += 1
    yield text[begin:], None


def _depths(tokens: Sequence[_Token]) -> list[int]:
    """Returns the bracket depth of each token; a bracket has the depth outside it."""
    depths, open_brackets = [], list[str]()
    for token in tokens:
        if open_brackets and token.text == open_brackets[-1] and token.kind == "sign":
            open_brackets.pop()
        depths.append(len(open_brackets))
        if token.kind == "sign" and token.text in _CLOSING:
            open_brackets.append(_CLOSING[token.text])
    if open_brackets:
        raise _KeyChanged
    return depths


def _inside_brackets(tokens: Sequence[_Token]) -> Sequence[_Token] | None:
    """Returns the tokens inside the brackets that enclose all tokens, or None if there are none."""
    if len(tokens) < 2 or tokens[0].kind != "sign" or tokens[0].text not in _CLOSING:
        return None
    depths = _depths(tokens)
    is_around = tokens[-1].text == _CLOSING[tokens[0].text] and 0 not in depths[1:-1]
    return tokens[1:-1] if is_around else None


def _split(tokens: Sequence[_Token], sign: str) -> list[Sequence[_Token]]:
    parts: list[Sequence[_Token]] = []
    begin = 0
    for index, (token, depth) in enumerate(zip(tokens, _depths(tokens), strict=True)):
        if token.kind == "sign" and token.text == sign and not depth:
            parts.append(tokens[begin:index])
            begin = index + 1
    return [*parts, tokens[begin:]]


def _refuse_operators(tokens: Sequence[_Token]) -> None:
    """Raises _KeyChanged if any operator other than joining is applied to a key."""
    for token, depth in zip(tokens, _depths(tokens), strict=True):
        is_bracket = token.text in "()[]{}"
        if not depth and token.kind == "sign" and not is_bracket and token.text not in _JOINING:
            raise _KeyChanged
        if token.text in _OPERATORS and token.kind == "word":
            raise _KeyChanged


def _fixed_text(tokens: Sequence[_Token]) -> str | None:
    """Returns the text of joined literals, or None for any other code."""
    texts = []
    for summand in _split(tokens, "+"):
        if len(summand) != 1 or summand[0].kind not in ("string", "number"):
            return None
        token = summand[0]
        texts.append(_unquoted(token.text) if token.kind == "string" else token.text)
    return "".join(texts)


def _is_of_text(path: Path) -> bool:
    """Returns whether a path may end in a text's length or in one of its characters."""
    return bool(path.keys) and (path.keys[-1] == "length" or str(path.keys[-1]).isdigit())


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
