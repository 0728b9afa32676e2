"""Finds brackets, values, calls and functions in a script's code without running it.

Comments and string contents are removed first. Reading takes time proportional to its length.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

# Comments, quoted strings and regular expressions, which are removed, and the characters that begin and end
# template literals and the code in them. A string, template or comment may be unterminated.
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\\n]++|\\.)*+"?|'(?:[^'\\\n]++|\\.)*+'?)"""
    r"|(?P<comment>(?<![\\\[])//[^\n]*+|(?<!\\)/\*.*?(?:\*/|\Z))"
    r"|(?P<regex>(?:(?<=[(,=:\[!&|?;])|(?<=[(,=:\[!&|?;>]\s)|(?<=return\s))/(?![*/])(?:[^/\\\n]++|\\.)++/)"
    r"|(?P<sign>[`{}])",
    re.DOTALL,
)
_TEMPLATE_TEXT = re.compile(r"(?:[^`\\$]++|\\.|\$(?!\{))*+(?P<end>`|\$\{|\Z|\\\Z)", re.DOTALL)
_STOP = re.compile(r"[;,\n()\[\]{}]")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_CONTINUED = re.compile(r"\s{0,40}(?:\?\.|[.?:&|+])")  # a value that continues on the next line
_CONTINUING = re.compile(
    r"(?<!\+)\+\Z|(?<!-)-\Z|[=*/%&|?:<>^!~(\[{]\Z"
)  # the end of a line whose value continues
_MAX_BLANKS = 40  # characters examined at the end of a line
_CHAINED = re.compile(r"\s{0,5}\??\.")
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
_NO_LOG = re.compile(r"\bconsole\b(?!\s{0,5}\.\s{0,5}\w{1,20}\s{0,5}\()")  # a console of the script itself
_BEFORE_STATEMENT = re.compile(r"(?:^|[;{})\n]|=>|\belse)[^\S\n]*\Z")
_AFTER_STATEMENT = re.compile(r"[^\S\n]{0,40}(?:[;})\n]|\Z)")
_STORING = re.compile(
    r"(?<![=!<>])=(?![=>])|\+\+|--|\.\s{0,5}(?:push|unshift|splice|add|set|assign)\s{0,5}\("
)
_DESTRUCTURED = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]")
_REST = re.compile(r"\.\.\.([\w$]{1,60})")
_FIRST_NAME = re.compile(r"\s*(?:\.\.\.)?([\w$]{1,60})")


@dataclass(frozen=True, slots=True)
class Callback:
    """A function passed to a call: its parameters, or the name of a function that the script defines."""

    parameters: tuple[tuple[str, ...], ...] = ()
    function: str = ""


class _Spans:
    """Disjoint parts of a text, in order."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._begins = [begin for begin, _ in spans]
        self._ends = [end for _, end in spans]

    def contains(self, offset: int) -> bool:
        """Returns whether an offset lies within one of the parts."""
        index = bisect_right(self._begins, offset) - 1
        return index >= 0 and offset < self._ends[index]


class ScriptCode:
    """The code of a script without comments; `text` has every quoted string empty."""

    def __init__(self, script: str) -> None:
        self.text = _without_texts(script)
        self._parameter_lists = _Spans([match.span() for match in _PARAMETER_LIST.finditer(self.text)])
        stops = list(_STOP.finditer(self.text))
        self._stops = [match.start() for match in stops]
        self._closed_at = _pairs([(match.start(), match[0]) for match in stops])
        self._value_ends = self._ends_of_values()
        logs = [] if _NO_LOG.search(self.text) else list(_LOG.finditer(self.text))
        self._logs = _Spans(
            [
                (match.end(), self.end_of_call(match.end()))
                for match in logs
                if self._only_logs(match.start(), match.end())
            ]
        )

    def is_parameter(self, offset: int) -> bool:
        """Returns whether an offset is within the parameters of a function."""
        return self._parameter_lists.contains(offset)

    def is_logged(self, offset: int) -> bool:
        """Returns whether the code at an offset is only an argument of a console call."""
        return self._logs.contains(offset)

    def _only_logs(self, begin: int, opening: int) -> bool:
        """Returns whether a console call is a complete statement that stores nothing."""
        end = self._closed_at.get(opening)
        if end is None or _STORING.search(self.text, opening, end):
            return False
        before = self.text[max(0, begin - _MAX_BLANKS) : begin]
        if not _BEFORE_STATEMENT.search(before) or not _AFTER_STATEMENT.match(self.text, end + 1):
            return False
        return not any(self.text[stop] == ";" for stop in self._outer_stops(opening + 1))

    def end_of_value(self, begin: int, *, is_outermost: bool = True) -> int:
        """Returns where the value at an offset ends: with its statement, or at the bracket around it.

        A method call on the parenthesized value belongs to it: `(t[k] ??= []).push(…)`.
        """
        end = self._value_ends[bisect_left(self._stops, begin)]
        if is_outermost and self.text.startswith(")", end) and _CHAINED.match(self.text, end + 1):
            return self.end_of_value(end + 1, is_outermost=False)
        return end

    def _ends_of_values(self) -> list[int]:
        """Returns the end of a value that extends to each stop; the last entry is the script's end."""
        ends = [len(self.text)] * (len(self._stops) + 1)
        for index in range(len(self._stops) - 1, -1, -1):
            stop = self._stops[index]
            sign = self.text[stop]
            if sign in _CLOSING:
                if stop in self._closed_at:
                    ends[index] = ends[bisect_left(self._stops, self._closed_at[stop]) + 1]
            elif sign == "," or (sign == "\n" and self._goes_on(stop)):
                ends[index] = ends[index + 1]
            else:
                ends[index] = stop
        return ends

    def _goes_on(self, line_end: int) -> bool:
        """Returns whether a value continues after the line break at an offset."""
        line = self.text[max(0, line_end - _MAX_BLANKS) : line_end].rstrip()
        return bool(not line or _CONTINUING.search(line) or _CONTINUED.match(self.text, line_end))

    def end_of_call(self, opening: int) -> int:
        """Returns the offset of the bracket that closes the one at `opening`, or the end of the script."""
        return self._closed_at.get(opening, len(self.text))

    def arguments(self, opening: int) -> Iterator[tuple[int, int]]:
        """Yields the spans of the arguments of the call whose bracket is at `opening`."""
        begin, end = opening + 1, self.end_of_call(opening)
        for stop in self._outer_stops(begin):
            if stop >= end:
                break
            if self.text[stop] == ",":
                yield begin, stop
                begin = stop + 1
        yield begin, end

    def callback(self, opening: int) -> Callback | None:
        """Returns the function that is the first argument of the call with its bracket at `opening`."""
        match = _CALLBACK.match(self.text, opening + 1)
        if match is None:
            return None
        if match["function"]:
            return Callback(function=match["function"])
        return Callback(_names_of(match["single"] or match["plain"] or match["arrow"] or ""))

    def functions(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Returns the script's named functions, each with the names that its parameters declare."""
        return {
            match["name"] or match["holder"]: _names_of(
                match["named"] or match["plain"] or match["arrow"] or match["single"] or ""
            )
            for match in _FUNCTION.finditer(self.text)
        }

    def _outer_stops(self, begin: int) -> Iterator[int]:
        """Yields the commas, semicolons and line breaks outside nested brackets, up to a closing bracket."""
        index = bisect_left(self._stops, begin)
        while index < len(self._stops):
            stop = self._stops[index]
            index += 1
            if self.text[stop] in _CLOSING:
                index = bisect_left(self._stops, self._closed_at.get(stop, len(self.text)) + 1, index)
                continue
            yield stop
            if self.text[stop] in ")]}":
                return


def _pairs(signs: list[tuple[int, str]]) -> dict[int, int]:
    """Returns the offset of the closing bracket for each opening one; unbalanced brackets have none."""
    closed_at: dict[int, int] = {}
    opened: list[tuple[int, str]] = []
    for offset, sign in signs:
        if sign in _CLOSING:
            opened.append((offset, _CLOSING[sign]))
        elif sign in _CLOSING.values():
            while opened and opened[-1][1] != sign:
                opened.pop()
            if opened:
                closed_at[opened.pop()[0]] = offset
    return closed_at


def _without_texts(script: str) -> str:
    """Returns a script without comments and string contents; the code within template literals stays."""
    pieces: list[str] = []
    opened: list[int] = []  # number of open braces in the code of each enclosing template literal
    begin = 0
    while match := _TOKEN.search(script, begin):
        pieces.append(script[begin : match.start()])
        begin, sign = match.end(), match["sign"]
        if sign is None:
            pieces.append(" " if match["comment"] is not None else "''")
        elif sign == "`" or _closes_code(sign, opened):
            begin, has_code = _end_of_template_text(script, begin)
            opened += [0] * has_code
            pieces.append(sign + ("${" if has_code else "`"))
        else:
            pieces.append(sign)
    return "".join([*pieces, script[begin:]]).replace("``", "''")


def _closes_code(brace: str, opened: list[int]) -> bool:
    """Counts a brace in a template literal's code; returns whether it ends that code."""
    if not opened:
        return False
    opened[-1] += 1 if brace == "{" else -1
    if opened[-1] >= 0:
        return False
    opened.pop()
    return True


def _end_of_template_text(script: str, begin: int) -> tuple[int, bool]:
    """Returns the end of the template text that begins at an offset, and whether code follows it."""
    match = _TEMPLATE_TEXT.match(script, begin)
    return (len(script), False) if match is None else (match.end(), match["end"] == "${")


def _names_of(parameters: str) -> tuple[tuple[str, ...], ...]:
    """Returns, for each parameter, the names that hold the whole argument or the rest of it."""
    names: list[tuple[str, ...]] = []
    rests = tuple(_REST.findall(parameters))
    for part in _DESTRUCTURED.sub(" ", parameters).split(","):
        match = _FIRST_NAME.match(part)
        names.append((match[1],) if match else rests)
    return tuple(names)
