"""Splits a parameter's text into literal text and expression chunks; evaluate.py evaluates them.

See docs/design/imports-n8n.md#chunks.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from steward.model.json import JsonObject, JsonValue
from steward.steps.workflow.expressions.paths import Path, read_path


class Lang(StrEnum):
    """The language of a parameter: literal text, only paths, JavaScript or Liquid."""

    LITERAL = "literal"
    PATH = "path"
    JS = "js"
    LIQUID = "liquid"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The code between `{{` and `}}`, and its path if it is nothing else."""

    code: str
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class ParameterTemplate:
    """A parsed parameter. `parts` are text and chunks in order; a single chunk keeps its value's type.

    `steps` are the other steps whose data it reads, `paired` those whose paired item it reads (`.item`,
    `.itemMatching()`, `.pairedItem()`). None means any step, because the code computes the names.
    """

    text: str
    lang: Lang
    parts: tuple[str | Chunk, ...]
    steps: frozenset[str] | None = frozenset()
    paired: frozenset[str] | None = frozenset()

    @property
    def typed(self) -> bool:
        """Whether the value keeps its type (a single chunk and nothing else) or is text."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Chunk)

    def encoded(self) -> JsonObject:
        """Returns the template as plans store it: `{expr, lang, chunks}`."""
        chunks: list[JsonValue] = [
            part if isinstance(part, str) else {str(Lang.PATH if part.path else self.lang): part.code}
            for part in self.parts
        ]
        return {"expr": self.text, "lang": str(self.lang), "chunks": chunks}


_LIQUID_OUTPUT: Final = "{{"


def read(text: str) -> ParameterTemplate:
    """Parses an n8n string parameter: an expression if it begins with `=`, else literal text.

    Never fails: `Evaluator.check` reports a chunk that is not JavaScript, and evaluating such a chunk gives
    an ExpressionError.
    """
    if not text.startswith("="):
        return ParameterTemplate(text, Lang.LITERAL, (text,))
    parts = _split(text[1:])
    chunks = [part for part in parts if isinstance(part, Chunk)]
    if not chunks:
        return ParameterTemplate(
            text, Lang.LITERAL, ("".join(part for part in parts if isinstance(part, str)),)
        )
    lang = Lang.PATH if all(chunk.path for chunk in chunks) else Lang.JS
    steps, paired = names_in(chunk.code for chunk in chunks)
    return ParameterTemplate(text, lang, parts, steps, paired)


def read_liquid(text: str) -> ParameterTemplate:
    """Parses a Shopify Flow text: Liquid if it has a tag or an output, else literal text."""
    if _LIQUID_OUTPUT in text or "{%" in text:
        return ParameterTemplate(text, Lang.LIQUID, (Chunk(text),))
    return ParameterTemplate(text, Lang.LITERAL, (text,))


def decode_template(encoded: JsonObject) -> ParameterTemplate:
    """Decodes a template that `ParameterTemplate.encoded` returned."""
    text = str(encoded["expr"])
    return read_liquid(text) if encoded["lang"] == Lang.LIQUID else read(text)


_OPENING = re.compile(r"(\\?)\{\{")


def _split(text: str) -> tuple[str | Chunk, ...]:
    parts: list[str | Chunk] = []
    plain, position = "", 0
    while opening := _OPENING.search(text, position):
        plain += text[position : opening.start()]
        if opening[1]:
            plain, position = plain + opening[0], opening.end()
            continue
        if plain:
            parts.append(plain)
            plain = ""
        closing = text.find("}}", opening.end())
        code = text[opening.end() :] if closing < 0 else text[opening.end() : closing]
        parts.append(Chunk(code, read_path(code)))
        position = len(text) if closing < 0 else closing + 2
    plain += text[position:]
    if plain or not parts:
        parts.append(plain)
    return tuple(parts)


_NAMED = re.compile(
    r"""\$\s*\(\s*(?P<q1>['"`])(?P<call>(?:(?!(?P=q1))[^\\$])*)(?P=q1)\s*\)(?P<after>\s*\??\.\s*\w+)?
      | \$node\s*\??\.?\s*\[\s*(?P<q2>['"`])(?P<node>(?:(?!(?P=q2))[^\\$])*)(?P=q2)\s*\]
      | \$node\s*\??\.\s*(?P<dotted>[^\W\d][\w$]*)
      | \$items\s*\(\s*(?P<q3>['"`])(?P<items>(?:(?!(?P=q3))[^\\$])*)(?P=q3)
      | \$items\s*\(\s*\)
      | (?P<open>\$\s*\(|\$node\b|\$items\b|\$evaluateExpression\b)""",
    re.VERBOSE,
)
_NEVER_PAIRED = {"first", "last", "all", "params", "context", "isExecuted"}


def names_in(codes: Iterable[str]) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """Returns the steps that code reads and those whose paired item it reads; None means any."""
    steps: set[str] = set()
    paired: set[str] = set()
    for code in codes:
        for reference in _NAMED.finditer(code):
            if reference["open"] is not None:
                return None, None
            name = next(
                (reference[key] for key in ("call", "node", "dotted", "items") if reference[key] is not None),
                None,
            )
            if name is None:
                continue
            steps.add(name)
            after = (reference["after"] or "").strip("?. \n\t")
            if reference["call"] is not None and after not in _NEVER_PAIRED:
                paired.add(name)
    return frozenset(steps), frozenset(paired)
