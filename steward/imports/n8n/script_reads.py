"""Decides whether a script may read fields of its items that it does not name.

It traces items through assignments, through the functions that are called with them, and through method calls
on lists.
"""

import re
from bisect import bisect_left, insort
from functools import lru_cache

from steward.imports.n8n.script_code import Callback, ScriptCode

_METHODS = r"(?:filter|slice|sort|reverse|find|at)\("  # methods of a list of items that return items
_ITEM_PARTS = r"(?:\[[\w$]{1,40}\])?(?:\??\.json)?"
_OF_STEP = rf"\.(?:(?:all|first|last)\(\){_ITEM_PARTS}|item(?:\??\.json)?)"
_OWN_ITEM = rf"\$json|(?<![\w$])json|(?<![\w$.])items?{_ITEM_PARTS}|\$input{_OF_STEP}"
_NAMED_ITEM = rf"\$\(''\){_OF_STEP}|\$node\[''\]\.json|\$items\(''\){_ITEM_PARTS}"
# Excludes an item's single field, and a parameter of a function.
_AS_A_WHOLE = (
    rf"(?![\w$]|\s{{0,5}}(?:\??\.(?!{_METHODS})|[\[(:]|=>|\)\s{{0,5}}=>|,[^()]{{0,60}}\)\s{{0,5}}=>))"
)
_WHOLE_ITEM = re.compile(f"(?:{_OWN_ITEM}){_AS_A_WHOLE}")
_WHOLE_NAMED_ITEM = re.compile(f"(?:{_NAMED_ITEM}){_AS_A_WHOLE}")
# Code that assigns an item to a variable, or adds it to a variable's value: `d = …`, `d.all[k] ??= …`, `const
# { id, ...d } = …`, `for (const d of …)`, `d.push(…)`, `d.get(k).push(…)`, `Object.assign(d, …)`.
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
_NAME = re.compile(
    rf"(?:(?<![\w$.])|(?<=\.\.\.))([\w$]{{1,60}}{_FIELDS})(?![\w$]|\s{{0,5}}(?:\??\.|[\[(:]|=>))"
)
_ALL_FIELDS_OF = re.compile(
    r"\b(?:Object\s{0,5}\.\s{0,5}(?:keys|values|entries)|JSON\s{0,5}\.\s{0,5}stringify)\s{0,5}\("
    r"|\bfor\s{0,5}\(\s{0,5}(?:const|let|var)\s{1,5}[\w$]{1,60}\s{1,5}in\s(?!\s{0,5}items\s{0,5}\))"
)
_COMPUTED_FIELD = re.compile(r"\bjson\s{0,5}(?:\?\.)?\[\s{0,5}(?!['\"`\d\s])")
# A list of items, or a variable, on which a method is called.
_LIST = re.compile(
    r"(?<![\w$.])(?:(?P<items>items|\$input\.all\(\))|(?P<named>\$\(''\)\.all\(\)|\$items\(''\))"
    r"|(?P<name>[\w$]{1,60}))(?=\s{0,40}\??\.\s{0,5}[\w$]{1,20}\()"
)
_METHOD = re.compile(r"\s{0,40}\??\.\s{0,5}(?P<method>[\w$]{1,20})(?=\()")
# Methods that pass the list's elements to a function, with the index of the parameter that receives them.
_WITH_ELEMENTS = dict.fromkeys(
    ("every", "filter", "find", "findIndex", "findLast", "flatMap", "forEach", "map", "some"), 0
) | {"reduce": 1, "reduceRight": 1}
_KEEPS_ELEMENTS = frozenset(
    ("concat", "filter", "flat", "reverse", "slice", "sort", "splice", "toReversed", "toSorted", "toSpliced")
)
_CALL = re.compile(r"(?<![\w$.])(?P<name>[\w$]{1,60})\s{0,5}(?=\()")
_MAX_CALLS = 10  # method calls that are traced in one chain
_MAX_PASSES = 4  # passes over a script; tracing ends once no further variable holds items


@lru_cache(maxsize=16)
def may_read_every_field(script: str, *, of_named_steps: bool = False) -> bool:
    """Returns whether a script iterates over all fields of an item, or computes a field's name.

    The items are those of its input or, with `of_named_steps`, those of steps that it names.
    """
    code = ScriptCode(script)
    if not of_named_steps and _COMPUTED_FIELD.search(code.text):
        return True
    items = _Items(code, of_named_steps=of_named_steps)
    for _ in range(_MAX_PASSES):
        if not items.follow():
            break
    return any(
        items.are_within(
            match.end(),
            code.end_of_call(match.end() - 1) if match[0].endswith("(") else code.end_of_value(match.end()),
        )
        for match in _ALL_FIELDS_OF.finditer(code.text)
        if not code.is_logged(match.start())
    )


class _Items:
    """The positions in code of whole items and of variables that hold one."""

    def __init__(self, code: ScriptCode, *, of_named_steps: bool) -> None:
        self._code = code
        self._of_named_steps = of_named_steps
        whole_item = _WHOLE_NAMED_ITEM if of_named_steps else _WHOLE_ITEM
        self._positions = [
            match.start() for match in whole_item.finditer(code.text) if not code.is_parameter(match.start())
        ]
        self._item_names: set[tuple[str, int]] = set()
        self._positions_of: dict[str, list[int]] = {}
        for match in _NAME.finditer(code.text):
            if not code.is_parameter(match.start(1)):
                self._positions_of.setdefault(match[1], []).append(match.start(1))
        self._functions = code.functions()

    def are_within(self, begin: int, end: int) -> bool:
        """Returns whether the code between two positions contains an item or a variable that holds one."""
        index = bisect_left(self._positions, begin)
        return index < len(self._positions) and self._positions[index] < end

    def follow(self) -> bool:
        """Traces items through the script once; returns whether it found more variables that hold items."""
        before = len(self._item_names)
        self._follow_assignments()
        for match in _LIST.finditer(self._code.text):
            has_items = match["named"] if self._of_named_steps else match["items"]
            if has_items or (match["name"], 0) in self._item_names:
                self._follow_list(match.end())
        for match in _CALL.finditer(self._code.text):
            if match["name"] in self._functions:
                self._follow_call(match["name"], match.end())
        return len(self._item_names) > before

    def _follow_assignments(self) -> None:
        """Marks the variables that items are assigned or added to."""
        for match in _ASSIGNMENT.finditer(self._code.text):
            if self.are_within(match.end(), self._code.end_of_value(match.end())):
                name = match["name"] or match["target"] or match["rest"]
                fields = (match["fields"] or "").split(".")[1:]
                for depth in range(len(fields) + 1):
                    self._add(".".join([name, *fields[:depth]]))

    def _follow_list(self, position: int) -> None:
        """Traces the elements of a list into the functions passed to its methods."""
        for _ in range(_MAX_CALLS):
            match = _METHOD.match(self._code.text, position)
            if match is None:
                return
            method, opening = match["method"], match.end()
            if method in _WITH_ELEMENTS and (callback := self._code.callback(opening)) is not None:
                self._follow_elements(callback, _WITH_ELEMENTS[method], opening)
            position = self._code.end_of_call(opening)
            if method not in _KEEPS_ELEMENTS and not self.are_within(opening, position):
                return
            position += 1

    def _follow_elements(self, callback: Callback, position: int, opening: int) -> None:
        """Marks the parameter that receives the elements in the function passed to a call."""
        if callback.function:
            for name in _at(self._functions.get(callback.function, ()), position):
                self._add(name)
        for name in _at(callback.parameters, position):
            self._add(name, opening, self._code.end_of_call(opening))

    def _follow_call(self, function: str, opening: int) -> None:
        """Marks the parameters of a function that receive an item in a call."""
        parameters = self._functions[function]
        for position, (begin, end) in enumerate(self._code.arguments(opening)):
            if self.are_within(begin, end):
                for name in _at(parameters, min(position, len(parameters) - 1)):
                    self._add(name)

    def _add(self, name: str, begin: int = 0, end: int | None = None) -> None:
        """Marks a variable as holding an item, everywhere or only in a range."""
        if (name, begin) not in self._item_names:
            self._item_names.add((name, begin))
            positions = self._positions_of.get(name, [])
            last = len(positions) if end is None else bisect_left(positions, end)
            for position in positions[bisect_left(positions, begin) : last]:
                insort(self._positions, position)


def _at(parameters: tuple[tuple[str, ...], ...], position: int) -> tuple[str, ...]:
    return parameters[position] if 0 <= position < len(parameters) else ()
