"""The code of a script without comments and texts: its brackets, values, calls and functions.

Nothing is run. Each look goes a bounded way ahead, so that the time stays proportional to the length.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

# Comments, which say nothing, and texts in quotes, which are no code; a quote or comment may be left open.
_NO_CODE = re.compile(
    r"""(?P<text>"(?:[^"\\\n]++|\\.)*+"?|'(?:[^'\\\n]++|\\.)*+'?)|(?P<template>`(?:[^`\\]++|\\.)*+`?)"""
    r"|(?<![\\\[])//[^\n]*+|(?<!\\)/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_STOP = re.compile(r"[;,\n()\[\]{}]")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_CONTINUED = re.compile(r"\s{0,40}(?:\?\.|[.?:&|+])")  # a value that goes on in the next line
_EMPTY = re.compile(r"\s{0,40}\Z")
_CHAINED = re.compile(r"\s{0,5}\??\.")
_MAX_JUMPS = 12  # over brackets of one value, and arguments of one call
_PARAMETERS = r"\((?P<{0}>[^()]{{0,200}})\)"
_FUNCTION = re.compile(
    rf"\bfunction\s{{1,5}}(?P<name>[\w$]{{1,60}})\s{{0,5}}{_PARAMETERS.format('named')}"
    r"|(?<![\w$.])(?P<holder>[\w$]{1,60})\s{0,5}[=:]\s{0,5}(?:async\s{1,5})?"
    rf"(?:function\s{{0,5}}[\w$]{{0,60}}\s{{0,5}}{_PARAMETERS.format('plain')}"
    rf"|{_PARAMETERS.format('arrow')}\s{{0,5}}=>|(?P<single>[\w$]{{1,60}})\s{{0,5}}=>)"
)
_CALLBACK = re.compile(
    r"\s{0,40}(?:async\s{1,5})?(?:function\s{0,5}[\w$]{0,60}\s{0,5}"
    rf"{_PARAMETERS.format('plain')}|{_PARAMETERS.format('arrow')}\s{{0,5}}=>"
    r"|(?P<single>[\w$]{1,60})\s{0,5}=>|(?P<function>[\w$]{1,60})\s{0,5}[,)])"
)
_PARAMETER_LIST = re.compile(
    r"\bfunction\s{0,5}[\w$]{0,60}\s{0,5}\([^()]{0,200}\)|\([^()]{0,200}\)(?=\s{0,5}=>)"
)
_LOG = re.compile(r"\bconsole\s{0,5}\.\s{0,5}\w{1,20}\s{0,5}(?=\()")
_DESTRUCTURED = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]")
_REST = re.compile(r"\.\.\.([\w$]{1,60})")
_FIRST_NAME = re.compile(r"\s*(?:\.\.\.)?([\w$]{1,60})")


@dataclass(frozen=True, slots=True)
class Callback:
    """A function that a call is given: its parameters, or the name of a function of the script."""

    parameters: tuple[tuple[str, ...], ...] = ()
    function: str = ""


class _Spans:
    """Parts of a text, in order."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._begins = [begin for begin, _ in spans]
        self._ends = [end for _, end in spans]

    def have(self, place: int) -> bool:
        """Returns whether the last part that begins before a place goes on there."""
        index = bisect_right(self._begins, place) - 1
        return index >= 0 and place < self._ends[index]


class ScriptCode:
    """The code of a script; texts in quotes are empty."""

    def __init__(self, script: str) -> None:
        self.text = _NO_CODE.sub(_without_text, script)
        self._parameter_lists = _Spans([match.span() for match in _PARAMETER_LIST.finditer(self.text)])
        stops = list(_STOP.finditer(self.text))
        self._stops = [match.start() for match in stops]
        self._closed_at = _pairs([(match.start(), match[0]) for match in stops])
        logs = _LOG.finditer(self.text)
        self._logs = _Spans([(match.end(), self.end_of_call(match.end())) for match in logs])

    def is_parameter(self, place: int) -> bool:
        """Returns whether a place is within the parameters of a function."""
        return self._parameter_lists.have(place)

    def is_logged(self, place: int) -> bool:
        """Returns whether what is at a place is only written to the console."""
        return self._logs.have(place)

    def end_of_value(self, begin: int, *, is_outermost: bool = True) -> int:
        """Returns where the value ends that begins here: at its line's end, outside of its brackets.

        A call of what stands in brackets around it belongs to it: `(t[k] ??= []).push(…)`.
        """
        for stop in self._outer_stops(begin):
            sign = self.text[stop]
            if sign == ")" and is_outermost and _CHAINED.match(self.text, stop + 1):
                return self.end_of_value(stop + 1, is_outermost=False)
            if sign == "\n" and (_EMPTY.match(self.text, begin, stop) or _CONTINUED.match(self.text, stop)):
                continue
            if sign != ",":
                return stop
        return len(self.text)

    def end_of_call(self, opening: int) -> int:
        """Returns where the brackets close that open at a place."""
        return self._closed_at.get(opening, len(self.text))

    def arguments(self, opening: int) -> Iterator[tuple[int, int]]:
        """Yields the places of the arguments between the brackets that open at a place."""
        begin, end = opening + 1, self.end_of_call(opening)
        for stop in self._outer_stops(begin):
            if stop >= end:
                break
            if self.text[stop] == ",":
                yield begin, stop
                begin = stop + 1
        yield begin, end

    def callback(self, opening: int) -> Callback | None:
        """Returns the function that the call is given whose brackets open at a place."""
        match = _CALLBACK.match(self.text, opening + 1)
        if match is None:
            return None
        if match["function"]:
            return Callback(function=match["function"])
        return Callback(_names_of(match["single"] or match["plain"] or match["arrow"] or ""))

    def functions(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Returns the names in each parameter of the functions that have a name."""
        return {
            match["name"] or match["holder"]: _names_of(
                match["named"] or match["plain"] or match["arrow"] or match["single"] or ""
            )
            for match in _FUNCTION.finditer(self.text)
        }

    def _outer_stops(self, begin: int) -> Iterator[int]:
        """Yields commas, ends of lines and of statements outside of brackets, as far as they are read."""
        index = bisect_left(self._stops, begin)
        jumps = 0
        while index < len(self._stops) and jumps < _MAX_JUMPS:
            stop = self._stops[index]
            index += 1
            if self.text[stop] in _CLOSING:
                jumps += 1
                index = bisect_left(self._stops, self._closed_at.get(stop, len(self.text)) + 1, index)
                continue
            yield stop
            jumps += 1
            if self.text[stop] in ")]}":
                return
        if index < len(self._stops):
            yield self._stops[index]


def _pairs(signs: list[tuple[int, str]]) -> dict[int, int]:
    """Returns where each bracket that opens is closed; one that another kind closes first never is."""
    closed_at: dict[int, int] = {}
    opened: list[tuple[int, str]] = []
    for place, sign in signs:
        if sign in _CLOSING:
            opened.append((place, _CLOSING[sign]))
        elif sign in _CLOSING.values():
            while opened and opened[-1][1] != sign:
                opened.pop()
            if opened:
                closed_at[opened.pop()[0]] = place
    return closed_at


def _without_text(match: re.Match[str]) -> str:
    if match["template"] is not None:
        return match["template"]  # it has code in it
    return "''" if match["text"] is not None else " "


def _names_of(parameters: str) -> tuple[tuple[str, ...], ...]:
    """Returns the names in each parameter that hold all of an argument, or the rest of it."""
    names: list[tuple[str, ...]] = []
    rests = tuple(_REST.findall(parameters))
    for part in _DESTRUCTURED.sub(" ", parameters).split(","):
        match = _FIRST_NAME.match(part)
        names.append((match[1],) if match else rests)
    return tuple(names)
