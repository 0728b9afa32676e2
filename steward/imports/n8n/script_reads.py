"""Whether a script may read fields of its items that it does not name.

Each pattern looks a bounded way ahead, so the time stays proportional to the length of the script.
"""

import re
from bisect import bisect_left
from functools import lru_cache

# Comments, which say nothing, and texts in quotes, which are no code; a quote or comment may be left open.
_NO_CODE = re.compile(
    r"""(?P<text>"(?:[^"\\\n]++|\\.)*+"?|'(?:[^'\\\n]++|\\.)*+'?)|(?P<template>`(?:[^`\\]++|\\.)*+`?)"""
    r"|(?<![\\\[])//[^\n]*+|(?<!\\)/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_METHODS = r"(?:filter|slice|sort|reverse|find|at)\("  # of a list of items, which give items
# An item or its fields as a whole, and neither one of its fields nor a parameter of a function.
_WHOLE_ITEM = re.compile(
    r"(?:\$json|(?<![\w$])json|(?<![\w$.])items?(?:\[[\w$]{1,40}\])?(?:\??\.json)?"
    r"|\$input\.(?:(?:all|first|last)\(\)(?:\[[\w$]{1,40}\])?|item)(?:\??\.json)?)"
    rf"(?![\w$]|\s{{0,5}}(?:\??\.(?!{_METHODS})|[\[(:]|=>|\)\s{{0,5}}=>|,[^()]{{0,60}}\)\s{{0,5}}=>))"
)
# What assigns an item to a name, or adds it to what the name holds: `d = …`, `d.all[k] ??= …`,
# `const { id, ...d } = …`, `for (const d of …)`, `d.push(…)`, `d.get(k).push(…)`, `Object.assign(d, …)`.
_FIELDS = r"(?:\.[\w$]{1,60}){0,4}"
_PART = r"(?:\??\.[\w$]{1,60}|\[(?:[^\[\]\n]|\[[^\[\]\n]{0,80}+\]){1,80}+\]){0,5}"
_GET = r"(?:\??\.get\((?:[^()\n]|\([^()\n]{0,80}+\)){1,80}+\))?"
_ASSIGNMENT = re.compile(
    r"(?:(?<![\w$.])(?P<name>[\w$]{1,60})"
    rf"(?:\s{{1,5}}of\s|(?P<fields>{_FIELDS}){_PART}"
    rf"(?:\s{{0,5}}(?:\?\?|\|\|)?=(?![=>])|{_GET}[\s)]{{0,5}}\??\.(?:push|unshift|splice|add|set)\())"
    rf"|\bObject\.assign\(\s{{0,5}}(?P<target>[\w$]{{1,60}}){_PART}\s{{0,5}},"
    r"|(?<=\.\.\.)(?P<rest>[\w$]{1,60})\s{0,5}\}\s{0,5}=)"
)
_VALUE = re.compile(r"[^;\n]{0,200}(?:\n\s{0,20}\.[^;\n]{0,200}){0,3}")
_NAME = re.compile(
    rf"(?:(?<![\w$.])|(?<=\.\.\.))([\w$]{{1,60}}{_FIELDS})(?![\w$]|\s{{0,5}}(?:\??\.|[\[(:]|=>))"
)
_ALL_FIELDS_OF = re.compile(
    r"\b(?:Object\s{0,5}\.\s{0,5}(?:keys|values|entries)|JSON\s{0,5}\.\s{0,5}stringify)\s{0,5}\("
    r"|\bfor\s{0,5}\(\s{0,5}(?:const|let|var)\s{1,5}[\w$]{1,60}\s{1,5}in\s(?!\s{0,5}items\s{0,5}\))"
)
_COMPUTED_FIELD = re.compile(r"\bjson\s{0,5}(?:\?\.)?\[\s{0,5}(?!['\"`\d\s])")
_BRACKET = re.compile(r"[()]")
_ARGUMENT = 300  # characters of an argument that are read


@lru_cache(maxsize=8)
def may_read_every_field(script: str) -> bool:
    """Returns whether a script goes through all fields of an item, or chooses one by an expression."""
    code = _NO_CODE.sub(_without_text, script)
    if _COMPUTED_FIELD.search(code):
        return True
    expressions = _Expressions(code)
    for match in _ASSIGNMENT.finditer(code):
        value = _VALUE.match(code, match.end())
        if value is not None and expressions.hold_item(value.start(), value.end()):
            name = match["name"] or match["target"] or match["rest"]
            fields = (match["fields"] or "").split(".")[1:]
            expressions.item_names |= {".".join([name, *fields[:depth]]) for depth in range(len(fields) + 1)}
    return any(
        expressions.hold_item(match.end(), _end_of_argument(code, match.end()))
        for match in _ALL_FIELDS_OF.finditer(code)
    )


class _Expressions:
    """The places in code that have an item as a whole, or a name."""

    def __init__(self, code: str) -> None:
        self.item_names: set[str] = set()
        self._items = [match.start() for match in _WHOLE_ITEM.finditer(code)]
        self._names = [(match.start(), match[1]) for match in _NAME.finditer(code)]

    def hold_item(self, begin: int, end: int) -> bool:
        """Returns whether the code between two places has an item, or a name that holds one."""
        index = bisect_left(self._items, begin)
        if index < len(self._items) and self._items[index] < end:
            return True
        if not self.item_names:
            return False
        names = self._names[bisect_left(self._names, (begin, "")) : bisect_left(self._names, (end, ""))]
        return any(name in self.item_names for _, name in names)


def _without_text(match: re.Match[str]) -> str:
    if match["template"] is not None:
        return match["template"]  # it has code in it
    return "''" if match["text"] is not None else " "


def _end_of_argument(code: str, begin: int) -> int:
    """Returns where the brackets end that are open at `begin`, or how far they are read."""
    depth = 1
    for match in _BRACKET.finditer(code, begin, begin + _ARGUMENT):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return begin + _ARGUMENT
