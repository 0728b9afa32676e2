"""The paths a Liquid text asks for, names it gives itself followed back (imports 8.2); pure.

Read here and not by the library, which parses foreign texts in its own process alone (safety 8). What this
reader does not know it takes for something asked for, so that nothing is left out of what is read.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

Path = tuple[str, ...]

MOST_PATHS: Final = 32  # that one name of a text may stand for
MOST_STEPS: Final = 10_000  # of following names back, in one text
DEEPEST: Final = 20
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
_FOR = re.compile(r"\s*([A-Za-z_][\w-]*)\s+in\s+(.*)", re.DOTALL)
_ASSIGN = re.compile(r"\s*([A-Za-z_][\w-]*)\s*=(.*)", re.DOTALL)
_WORDS = frozenset(
    ("and", "or", "not", "contains", "true", "false", "nil", "null", "empty", "blank", "in", "reversed",
     "with", "as", "forloop", "tablerowloop", "limit", "offset", "cols")
)  # fmt: skip
_SKIPPED = {"raw": "endraw", "comment": "endcomment", "doc": "enddoc"}
# Members of a list itself, not of its elements.
OF_LIST: Final = frozenset(("first", "last", "size"))
# Filters that give elements, or the list, they were given.
_KEEPING = frozenset(
    ("first", "last", "where", "reject", "find", "sort", "sort_natural", "reverse", "compact", "uniq",
     "concat", "slice", "default")
)  # fmt: skip
# Filters whose first argument names a member of the elements.
_BY_MEMBER = frozenset(
    ("map", "where", "reject", "find", "has", "find_index", "sort", "sort_natural", "sum", "uniq", "compact")
)


class TooMuch(Exception):
    """A text gives its names more meanings than can be followed."""


@dataclass(slots=True)
class Asked:
    """What a text asks for, and the paths with a member that is worked out only while it runs."""

    paths: list[Path] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


def paths_of(text: str, roots: Iterable[str]) -> Asked:
    """The paths of a Liquid text. `roots` are the names it may look at; others it must give itself.

    Raises TooMuch.
    """
    first = _Reading(frozenset(roots), {})
    first.read(text)
    if not first.names:
        return first.asked
    # A loop may use what it gave a name at its end; a name used before it is given anything is empty.
    later = {
        name: {path for path in given if path[0] in first.roots or path[0] not in first.names}
        for name, given in first.names.items()
    }
    again = _Reading(first.roots, later)
    again.read(text)
    return again.asked


@dataclass(slots=True)
class _Reading:
    roots: frozenset[str]
    later: dict[str, set[Path]]
    asked: Asked = field(default_factory=Asked)
    names: dict[str, set[Path]] = field(default_factory=dict)
    loops: list[tuple[str, set[Path] | None]] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)
    _steps: int = 0

    def read(self, text: str) -> None:
        """Every output and tag, in order."""
        skipped = ""
        for found in _MARK.finditer(text):
            tag = found["tag"]
            if skipped:
                skipped = "" if tag == skipped else skipped
            elif found["out"] is not None:
                self._value(found["out"])
            elif tag in _SKIPPED:
                skipped = _SKIPPED[tag]
            elif tag == "liquid":
                for line in found["rest"].splitlines():
                    name, _, rest = line.strip().partition(" ")
                    self._tag(name, rest)
            else:
                self._tag(tag, found["rest"])

    def _tag(self, tag: str, rest: str) -> None:
        if tag in ("#", "") or (tag.startswith("end") and tag not in ("endfor", "endtablerow")):
            return
        if tag in ("endfor", "endtablerow"):
            if self.loops:
                name, before = self.loops.pop()
                self._put_back(name, before)
        elif tag in ("for", "tablerow") and (found := _FOR.match(rest)):
            self.loops.append((found[1], self.names.get(found[1])))
            self.names[found[1]] = self._value(found[2], list_=True)
        elif tag == "assign" and (found := _ASSIGN.match(rest)):
            given = self.names.get(found[1], set()) | self._value(found[2])
            if len(given) > MOST_PATHS:
                raise TooMuch
            self.names[found[1]] = given
        elif tag in ("capture", "increment", "decrement"):
            name = rest.strip().strip("'\"")
            self.names.setdefault(name, set())
        elif tag == "echo":
            self._value(rest)
        else:
            self._terms(rest)

    def _put_back(self, name: str, before: set[Path] | None) -> None:
        if before is not None:
            self.names[name] = before
        elif name in self.roots:
            del self.names[name]
        else:
            self.names[name] = set()

    def _value(self, text: str, *, list_: bool = False) -> set[Path]:
        """The paths an expression with filters may stand for, having asked for everything in it."""
        head, *filters = _split(text, "|")
        given = self._terms(head, first=list_)
        for one in filters:
            name, _, arguments = one.partition(":")
            named = name.strip()
            self._steps += len(given)
            others = self._terms(arguments)
            member = re.match(r"\s*(?:'([\w.-]+)'|\"([\w.-]+)\")", arguments)
            if named in _BY_MEMBER and member is not None:
                below = {(*path, *(member[1] or member[2]).split(".")) for path in given}
                for path in sorted(below):
                    self._ask(path)
                given = below if named == "map" else given
            if named in ("default", "concat"):
                given = given | others
            elif named != "map" and named not in _KEEPING:
                given = set()
        if len(given) > MOST_PATHS:
            raise TooMuch
        return given

    def _terms(self, text: str, *, first: bool = False) -> set[Path]:
        """Everything asked for in an expression without filters."""
        found: set[Path] = set()
        for term in _TERM.finditer(text):
            if term["name"] is None or term["name"] in _WORDS or (term["argument"] and not term["more"]):
                continue
            path, dynamic = [term["name"]], False
            for dotted, single, double, number, worked_out in _MORE.findall(term["more"]):
                if worked_out:
                    dynamic = True
                    self._terms(worked_out)
                    break
                if not number:
                    path.append(dotted or single or double)
            if dynamic and term["name"] in self.roots:
                self.asked.unclear.append(".".join(path))
            for one in self._followed(tuple(path)):
                self._ask(one)
                found.add(_of_elements(one))
        return found

    def _followed(self, path: Path) -> Iterator[Path]:
        """A path with its first name followed back to what it was given."""
        head, rest = path[0], path[1:]
        known = self.names.get(head)
        if known is None:
            known = self.later.get(head)
            if known is None or head in self.roots:
                yield path
            known = known or set()
        self._steps += 1 + len(known)
        if self._steps > MOST_STEPS:
            raise TooMuch
        for one in sorted(known):
            if len(one) + len(rest) <= DEEPEST:
                yield one + rest

    def _ask(self, path: Path) -> None:
        plain = _of_elements(path)
        if plain not in self._seen:
            self._seen.add(plain)
            self.asked.paths.append(plain)


def _of_elements(path: Path) -> Path:
    """A path without what a list says of itself: `order.lineItems.first.title` asks for their titles."""
    return (path[0], *(one for one in path[1:] if one not in OF_LIST))


def _split(text: str, sign: str) -> list[str]:
    """Parts of a text between signs that stand outside quotes."""
    return re.findall(rf"(?:[^{sign}'\"]|'[^']*'|\"[^\"]*\"|['\"])+", text) or [""]
