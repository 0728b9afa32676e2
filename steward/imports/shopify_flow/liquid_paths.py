"""Finds the paths that a Liquid text reads, resolving names that it assigns.

The text is parsed here, because the Liquid library only runs on foreign texts in its own process. Whatever
this parser does not know counts as a read, so that no read is missed.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

Path = tuple[str, ...]

_MAX_PATHS: Final = 32  # per assigned name
_MAX_STEPS: Final = 10_000  # for resolving names, per text
_DEEPEST: Final = 20
_MARK = re.compile(
    r"\{\{-?(?P<out>.*?)(?:-?\}\}|\Z)|\{%-?\s*(?P<tag>#|\w*)(?P<rest>.*?)(?:-?%\}|\Z)", re.DOTALL
)
_TERM = re.compile(
    r"""(?P<text>'[^']*'|"[^"]*")
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<name>[A-Za-z_][\w-]*\??)
        (?P<more>(?:\s*\.\s*[A-Za-z_][\w-]*\??|\[\s*(?:'[^']*'|"[^"]*"|[\w.]+)\s*\])*)
        (?P<argument>\s*:)?""",
    re.VERBOSE,
)
_MORE = re.compile(r"\.\s*([A-Za-z_][\w-]*\??)|\[\s*(?:'([^']*)'|\"([^\"]*)\"|(-?\d+)|([\w.]+))\s*\]")
_QUOTED = re.compile(r"""(?P<member>\[\s*(?:'[^'=!<>]*'|"[^"=!<>]*")\s*\])|'[^']*'|"[^"]*\"""")
_VALUE = r"""(?:[\w.?-]|\[[\w.'"\s-]{1,100}+\]){1,200}+"""
_EQUALITY = re.compile(rf"(?P<left>{_VALUE})\s{{0,20}}(?:==|!=|<>)\s{{0,20}}(?P<right>{_VALUE})")
_OR = re.compile(r",|\bor\b")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_FOR = re.compile(r"\s*([A-Za-z_][\w-]*)\s+in\s+(.*)", re.DOTALL)
_ASSIGN = re.compile(r"\s*([A-Za-z_][\w-]*)\s*=(.*)", re.DOTALL)
_WORDS = frozenset(
    ("and", "or", "not", "contains", "true", "false", "nil", "null", "empty", "blank", "in", "reversed",
     "with", "as", "forloop", "tablerowloop", "limit", "offset", "cols")
)  # fmt: skip
_SKIPPED = {"raw": "endraw", "comment": "endcomment", "doc": "enddoc"}
# members of the list itself
OF_LIST: Final = frozenset(("first", "last", "size"))
# Filters that return elements of their input, or the list itself.
_KEEPING = frozenset(
    ("first", "last", "where", "reject", "find", "sort", "sort_natural", "reverse", "compact", "uniq",
     "concat", "slice", "default")
)  # fmt: skip
# filters whose first argument names a member of the elements
_BY_MEMBER = frozenset(
    ("map", "where", "reject", "find", "has", "find_index", "sort", "sort_natural", "sum", "uniq", "compact")
)


class TooManyMeanings(Exception):
    """Raised for a text whose names have more meanings than can be resolved."""


@dataclass(slots=True)
class LiquidPaths:
    """The paths that a text reads.

    `unclear` are those with a computed member name, `as_numbers` those that the text compares with a number
    for equality.
    """

    paths: list[Path] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    as_numbers: list[Path] = field(default_factory=list)


def paths_of(text: str, roots: Iterable[str]) -> LiquidPaths:
    """Returns the paths of a Liquid text; `roots` are the names defined outside of it.

    Raises TooManyMeanings.
    """
    first = _LiquidReader(frozenset(roots), {})
    first.read(text)
    if not first.names:
        return first.result
    # a loop may read a name that it assigns later in its body; before any assignment the name is empty
    later = {
        name: {path for path in meanings if path[0] in first.roots or path[0] not in first.names}
        for name, meanings in first.names.items()
    }
    second = _LiquidReader(first.roots, later)
    second.read(text)
    return second.result


@dataclass(slots=True)
class _LiquidReader:
    roots: frozenset[str]
    later: dict[str, set[Path]]
    result: LiquidPaths = field(default_factory=LiquidPaths)
    names: dict[str, set[Path]] = field(default_factory=dict)
    cases: list[set[Path]] = field(default_factory=list)
    loops: list[tuple[str, set[Path] | None]] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)
    _steps: int = 0

    def read(self, text: str) -> None:
        """Reads all outputs and tags in order."""
        skipped = ""
        for markup in _MARK.finditer(text):
            tag = markup["tag"]
            if skipped:
                skipped = "" if tag == skipped else skipped
            elif markup["out"] is not None:
                self._value(markup["out"])
            elif tag in _SKIPPED:
                skipped = _SKIPPED[tag]
            elif tag == "liquid":
                for line in markup["rest"].splitlines():
                    name, _, arguments = line.strip().partition(" ")
                    self._tag(name, arguments)
            else:
                self._tag(tag, markup["rest"])

    def _tag(self, tag: str, arguments: str) -> None:
        if tag.startswith("end"):
            self._end_tag(tag)
        elif tag in ("for", "tablerow") and (match := _FOR.match(arguments)):
            self.loops.append((match[1], self.names.get(match[1])))
            self.names[match[1]] = self._value(match[2], list_=True)
        elif tag == "assign" and (match := _ASSIGN.match(arguments)):
            self._assign(match[1], match[2])
        elif tag in ("capture", "increment", "decrement"):
            name = arguments.strip().strip("'\"")
            self.names.setdefault(name, set())
        elif tag == "echo":
            self._value(arguments)
        elif tag not in ("#", ""):
            self._compare(tag, arguments, self._terms(arguments))

    def _end_tag(self, tag: str) -> None:
        if tag in ("endfor", "endtablerow"):
            self._end_loop()
        elif tag == "endcase" and self.cases:
            self.cases.pop()

    def _compare(self, tag: str, text: str, meanings: set[Path]) -> None:
        """Records the paths that a tag with a condition compares with a number for equality."""
        if tag == "case":
            self.cases.append(meanings)
        elif tag == "when" and self.cases:
            values = _OR.split(_without_texts(text))
            if any(_NUMBER.fullmatch(value.strip()) for value in values):
                self.result.as_numbers += sorted(self.cases[-1])
        elif tag in ("if", "elsif", "unless"):
            self._equalities(_without_texts(text))

    def _equalities(self, text: str) -> None:
        """Records the paths that a condition compares with a number for equality."""
        for match in _EQUALITY.finditer(text):
            for value, other in ((match["left"], match["right"]), (match["right"], match["left"])):
                if _NUMBER.fullmatch(other) and not value.endswith(".size"):
                    self.result.as_numbers += sorted(self._terms(value))

    def _assign(self, name: str, text: str) -> None:
        meanings = self.names.get(name, set()) | self._value(text)
        if len(meanings) > _MAX_PATHS:
            raise TooManyMeanings
        self.names[name] = meanings

    def _end_loop(self) -> None:
        """Restores the meaning that the loop's name had before the loop."""
        if not self.loops:
            return
        name, before = self.loops.pop()
        if before is not None:
            self.names[name] = before
        elif name in self.roots:
            del self.names[name]
        else:
            self.names[name] = set()

    def _value(self, text: str, *, list_: bool = False) -> set[Path]:
        """Returns the paths that an expression with filters may evaluate to, and records its reads."""
        head, *filters = _split(text, "|")
        meanings = self._terms(head, first=list_)
        for filter_ in filters:
            name, _, arguments = filter_.partition(":")
            filter_name = name.strip()
            self._steps += len(meanings)
            others = self._terms(arguments)
            below = self._members(meanings, filter_name, arguments)
            if filter_name == "map":
                meanings = meanings if below is None else below
            elif filter_name in ("default", "concat"):
                meanings = meanings | others
            elif filter_name not in _KEEPING:
                meanings = set()
        if len(meanings) > _MAX_PATHS:
            raise TooManyMeanings
        return meanings

    def _members(self, meanings: set[Path], filter_name: str, arguments: str) -> set[Path] | None:
        """Returns the paths of the member that a filter names, or None; records them as read."""
        member = re.match(r"\s*(?:'([\w.-]+)'|\"([\w.-]+)\")", arguments)
        if filter_name not in _BY_MEMBER or member is None:
            return None
        below = {(*path, *(member[1] or member[2]).split(".")) for path in meanings}
        for path in sorted(below):
            self._add_path(path)
        return below

    def _terms(self, text: str, *, first: bool = False) -> set[Path]:
        """Returns the paths in an expression without filters, and records them as read."""
        meanings: set[Path] = set()
        for term in _TERM.finditer(text):
            if term["name"] is None or term["name"] in _WORDS or (term["argument"] and not term["more"]):
                continue
            for followed in self._followed(self._named_path(term)):
                self._add_path(followed)
                meanings.add(_of_elements(followed))
        return meanings

    def _named_path(self, term: re.Match[str]) -> Path:
        """Returns a term's path, cut at a computed member, which makes it unclear."""
        path = [term["name"]]
        for dotted, single, double, number, computed in _MORE.findall(term["more"]):
            if computed:
                self._terms(computed)
                if term["name"] in self.roots:
                    self.result.unclear.append(".".join(path))
                break
            if not number:
                path.append(dotted or single or double)
        return tuple(path)

    def _followed(self, path: Path) -> Iterator[Path]:
        """Yields the paths that a path refers to, replacing its first name by its assigned paths."""
        head, members = path[0], path[1:]
        meanings = self.names.get(head)
        if meanings is None:
            meanings = self.later.get(head)
            if meanings is None or head in self.roots:
                yield path
            meanings = meanings or set()
        self._steps += 1 + len(meanings)
        if self._steps > _MAX_STEPS:
            raise TooManyMeanings
        for meaning in sorted(meanings):
            if len(meaning) + len(members) <= _DEEPEST:
                yield meaning + members

    def _add_path(self, path: Path) -> None:
        plain = _of_elements(path)
        if plain not in self._seen:
            self._seen.add(plain)
            self.result.paths.append(plain)


def _of_elements(path: Path) -> Path:
    """Returns a path without members of lists themselves: `lineItems.first.title` reads the items' titles."""
    return (path[0], *(member for member in path[1:] if member not in OF_LIST))


def _without_texts(text: str) -> str:
    """Returns a condition with its quoted texts empty, except for names of members in brackets."""
    return _QUOTED.sub(lambda match: match["member"] or "''", text)


def _split(text: str, sign: str) -> list[str]:
    """Splits a text at a sign outside quotes."""
    return re.findall(rf"(?:[^{sign}'\"]|'[^']*'|\"[^\"]*\"|['\"])+", text) or [""]
