"""A parameter's text split into text and chunks (imports 5.1); leaves what chunks come to to evaluate.py."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from steward.model.json import JsonObject, JsonValue
from steward.steps.workflow.expressions.paths import Path, read_path


class Lang(StrEnum):
    """How a parameter is worked out: as it stands, by paths alone, by JavaScript, by Liquid."""

    LITERAL = "literal"
    PATH = "path"
    JS = "js"
    LIQUID = "liquid"


@dataclass(frozen=True, slots=True)
class Chunk:
    """What stood between `{{` and `}}`, and the same as a path where it is no more than one."""

    code: str
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class ParameterTemplate:
    """One parameter. `parts` are text and chunks in order; a single chunk alone keeps its type.

    `steps` are the names of other steps it asks for, `paired` those of which it asks for the item that
    belongs to the current one (`.item`, `.itemMatching()`, `.pairedItem()`); None: it works the names out,
    so any step may be meant.
    """

    text: str
    lang: Lang
    parts: tuple[str | Chunk, ...]
    steps: frozenset[str] | None = frozenset()
    paired: frozenset[str] | None = frozenset()

    @property
    def typed(self) -> bool:
        """Whether its value keeps its type (one chunk and no other character) or is text."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Chunk)

    def encoded(self) -> JsonObject:
        """As a plan keeps it (imports 9): `{expr, lang, chunks}`."""
        chunks: list[JsonValue] = [
            part if isinstance(part, str) else {str(Lang.PATH if part.path else self.lang): part.code}
            for part in self.parts
        ]
        return {"expr": self.text, "lang": str(self.lang), "chunks": chunks}


LIQUID_OUTPUT: Final = "{{"


def read(text: str) -> ParameterTemplate:
    """A string parameter of the workflow tool: an expression when it begins with `=`, else itself.

    Pure; never fails: a chunk that is no JavaScript is found by `Evaluator.check`, and comes to a Fault when
    it is worked out all the same.
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
    """A text of the store's own automation product: Liquid when it has a tag or an output in it."""
    if LIQUID_OUTPUT in text or "{%" in text:
        return ParameterTemplate(text, Lang.LIQUID, (Chunk(text),))
    return ParameterTemplate(text, Lang.LITERAL, (text,))


def decode_template(encoded: JsonObject) -> ParameterTemplate:
    """What `Template.kept` gave."""
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
_BY_PAIR = {"item", "itemMatching", "pairedItem"}
_NEVER_PAIRED = {"first", "last", "all", "params", "context", "isExecuted"}


def names_in(codes: Iterable[str]) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """The steps JavaScript texts ask for by name, and of which they ask for the paired item; None: any."""
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
