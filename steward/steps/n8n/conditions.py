"""Evaluates the conditions of if, filter and switch. See docs/design/imports-n8n.md#conditions."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from operator import ge, gt, le, lt
from typing import Protocol

import re2

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import literals
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed

_SINGLE = frozenset(("exists", "notExists", "empty", "notEmpty", "true", "false"))


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """The rules of comparison: letter case, strict types, version of the conversions, time zone.

    `matches` holds the results of the patterns that the sandbox evaluated.
    """

    case_sensitive: bool
    strict: bool
    version: float
    zone: tzinfo
    matches: Mapping[tuple[str, str], bool]


def rules_of(options: JsonObject, zone: tzinfo, matches: Mapping[tuple[str, str], bool]) -> ComparisonRules:
    """Returns the rules that a filter's options set."""
    return ComparisonRules(
        case_sensitive=bool(options.get("caseSensitive", True)),
        strict=options.get("typeValidation", "strict") != "loose",
        version=float(js.number(options.get("version", 1)) or 1),
        zone=zone,
        matches=matches,
    )


def holds(conditions: Mapping[str, AnyJson], rules: ComparisonRules) -> bool:
    """Returns whether the conditions hold for one item. Raises ItemFailed if a value has the wrong type."""
    one_is_enough = conditions.get("combinator", "and") == "or"
    rows = conditions.get("conditions") or []
    results = (condition(row, rules) for row in rows if isinstance(row, Mapping))  # stops once it is certain
    return any(results) if one_is_enough else all(results)


def condition(row: Mapping[str, AnyJson], rules: ComparisonRules) -> bool:
    """Evaluates one comparison. Raises ItemFailed."""
    raw_operator = row.get("operator")
    operator = raw_operator if isinstance(raw_operator, Mapping) else {}
    kind, operation = str(operator.get("type", "string")), str(operator.get("operation", "equals"))
    first, second = row.get("leftValue", js.UNDEFINED), row.get("rightValue", js.UNDEFINED)
    first = read(first, kind, rules)
    if operation in ("exists", "notExists"):  # only after the type check, which fails these comparisons too
        is_absent = js.is_missing(first) or (isinstance(first, float) and math.isnan(first))
        return is_absent is (operation == "notExists")
    single = operator.get("singleValue") is True or operation in _SINGLE
    if not single:
        second = read(second, str(operator.get("rightType") or kind), rules)
    compare = _COMPARE.get(kind, {}).get(operation)
    return compare is not None and compare(first, second, rules)  # in n8n an unknown comparison never holds


def read(value: js.Value, kind: str, rules: ComparisonRules) -> AnyJson:
    """Converts an operand of a comparison to its type; keeps null and undefined. Raises ItemFailed."""
    if js.is_missing(value):
        return value
    if kind == "any":
        return value
    if kind not in _STRICT:
        raise ItemFailed(f"The type “{kind}” of a condition is not known.")
    fits = _STRICT[kind](value, rules)
    if fits is not js.UNDEFINED:
        return fits
    if rules.strict:
        raise ItemFailed(f"{js.json_text(value)[:80]} is not a {kind}.")
    converted = _LOOSE[kind](value, rules)
    if converted is js.UNDEFINED:
        raise ItemFailed(f"{js.json_text(value)[:80]} cannot be read as a {kind}.")
    return converted


def _date(value: JsonValue, rules: ComparisonRules) -> AnyJson:
    if isinstance(value, datetime):
        return value
    # A number is parsed as its digits: 20240115 is a date, milliseconds since 1970 are not.
    text = value.text if isinstance(value, js.JsDate) else js.text(value)
    date = js_dates.parse(text, rules.zone)
    return date if date is not None else js.UNDEFINED


_STRICT: dict[str, Callable[[AnyJson, ComparisonRules], AnyJson]] = {
    "string": lambda value, rules: value if isinstance(value, str) else js.UNDEFINED,
    "number": lambda value, rules: value if js.is_number(value) else js.UNDEFINED,
    "boolean": lambda value, rules: value if isinstance(value, bool) else js.UNDEFINED,
    "array": lambda value, rules: value if js.is_list(value) else js.UNDEFINED,
    "object": lambda value, rules: (
        value if js.is_object(value) or isinstance(value, js.JsDate) else js.UNDEFINED
    ),
    "dateTime": _date,
}


def _loose_number(value: JsonValue, rules: ComparisonRules) -> AnyJson:
    if isinstance(value, str) and not value.strip() and rules.version >= 3:
        return None
    if js.is_list(value) and not value and rules.version >= 3:
        return None
    number = js.number(value)
    return js.UNDEFINED if math.isnan(number) else number


def _loose_boolean(value: JsonValue, rules: ComparisonRules) -> JsonValue:
    if rules.version >= 2 and isinstance(value, str) and value.lower() in ("false", "0"):
        return False
    return js.truthy(value)


def _loose_deep(reader: Callable[[str], AnyJson]) -> Callable[[AnyJson, ComparisonRules], AnyJson]:
    return lambda value, rules: reader(value) if isinstance(value, str) else js.UNDEFINED


_LOOSE: dict[str, Callable[[AnyJson, ComparisonRules], AnyJson]] = {
    "string": lambda value, rules: js.json_text(value) if _deep(value) else js.text(value),
    "number": _loose_number,
    "boolean": _loose_boolean,
    "array": _loose_deep(literals.list_in),
    "object": _loose_deep(literals.object_in),
    "dateTime": lambda value, rules: js.UNDEFINED,
}


def _deep(value: object) -> bool:
    return js.is_object(value) or js.is_list(value) or isinstance(value, js.JsDate)


class Pattern(Protocol):
    """A pattern that google-re2 compiled."""

    def search(self, text: str) -> object | None:
        """Returns the first match, or None."""

    def sub(self, replacement: str, text: str, count: int) -> str:
        """Replaces the first `count` matches, or all of them if it is 0."""


_Compare = Callable[[AnyJson, AnyJson, ComparisonRules], bool]


def _not(compare: _Compare) -> _Compare:
    return lambda first, second, rules: not compare(first, second, rules)


def _as_text(value: js.Value) -> str:
    return "" if js.is_missing(value) else str(value)


def _texts(compare: Callable[[str, str], bool]) -> _Compare:
    def compare_texts(first: JsonValue, second: JsonValue, rules: ComparisonRules) -> bool:
        first, second = _as_text(first), _as_text(second)
        if not rules.case_sensitive:
            first, second = first.lower(), second.lower()
        return compare(first, second)

    return compare_texts


def _regex(first: JsonValue, second: JsonValue, rules: ComparisonRules) -> bool:
    text = _as_text(first) if rules.case_sensitive else _as_text(first).lower()
    return matches(_as_text(second), text, rules.matches)


def _same(first: JsonValue, second: JsonValue, rules: ComparisonRules) -> bool:
    return first == second and isinstance(first, bool) == isinstance(second, bool)


def _ordered(compare: Callable[[AnyJson, AnyJson], bool]) -> _Compare:
    def compare_ordered(first: AnyJson, second: AnyJson, rules: ComparisonRules) -> bool:
        if first is js.UNDEFINED or second is js.UNDEFINED:
            return False
        if first is None or second is None:  # as in JavaScript, null orders like 0
            first, second = (0 if side is None else side for side in (first, second))
        return compare(first, second)

    return compare_ordered


def _dates(compare: Callable[[datetime, datetime], bool]) -> _Compare:
    return lambda first, second, rules: (
        isinstance(first, datetime) and isinstance(second, datetime) and compare(first, second)
    )


def _length(compare: Callable[[float, float], bool]) -> _Compare:
    return lambda first, second, rules: compare(
        0 if js.is_missing(first) else len(first), 0 if js.is_missing(second) else second
    )


def _contains(first: AnyJson, second: AnyJson, rules: ComparisonRules) -> bool:
    for element in [] if js.is_missing(first) else first:
        if isinstance(element, str) and isinstance(second, str) and not rules.case_sensitive:
            if element.lower() == second.lower():
                return True
        elif _identical(element, second):
            return True
    return False


def _identical(first: JsonValue, second: JsonValue) -> bool:
    if _deep(first) or _deep(second):
        return False
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


def _nothing(first: js.Value, second: JsonValue, rules: ComparisonRules) -> bool:
    return js.is_missing(first)


def _no_text(first: js.Value, second: JsonValue, rules: ComparisonRules) -> bool:
    return js.is_missing(first) or not first or isinstance(first, js.JsDate)  # a date has no members


def _opposites(name: str, compare: _Compare) -> dict[str, _Compare]:
    return {name: compare, f"not{name[0].upper()}{name[1:]}": _not(compare)}


_EQUALS = _opposites("equals", _same)
_COMPARE: dict[str, dict[str, _Compare]] = {
    "string": _opposites("empty", _no_text)
    | _opposites("equals", _texts(lambda a, b: a == b))
    | _opposites("contains", _texts(lambda a, b: b in a))
    | _opposites("startsWith", _texts(str.startswith))
    | _opposites("endsWith", _texts(str.endswith))
    | _opposites("regex", _regex),
    "number": _opposites("empty", _nothing)
    | _EQUALS
    | {
        "gt": _ordered(gt),
        "lt": _ordered(lt),
        "gte": _ordered(ge),
        "lte": _ordered(le),
    },
    "dateTime": _opposites("empty", _nothing)
    | {
        "equals": _dates(lambda a, b: a == b),
        "notEquals": _dates(lambda a, b: a != b),
        "after": _dates(lambda a, b: a > b),
        "before": _dates(lambda a, b: a < b),
        "afterOrEquals": _dates(lambda a, b: a >= b),
        "beforeOrEquals": _dates(lambda a, b: a <= b),
    },
    "boolean": _opposites("empty", _nothing)
    | _EQUALS
    | {
        "true": lambda first, second, rules: first is True,
        "false": lambda first, second, rules: js.is_missing(first) or first is False,
    },
    "array": _opposites("empty", _no_text)
    | _opposites("contains", _contains)
    | _opposites("lengthEquals", _length(lambda a, b: a == b))
    | {
        "lengthGt": _length(lambda a, b: a > b),
        "lengthLt": _length(lambda a, b: a < b),
        "lengthGte": _length(lambda a, b: a >= b),
        "lengthLte": _length(lambda a, b: a <= b),
    },
    "object": _opposites("empty", _no_text),
}
_COMPARE["array"]["lengthNotEquals"] = _COMPARE["array"].pop("notLengthEquals")


def is_known_comparison(kind: str, operation: str) -> bool:
    """Returns whether the comparison exists."""
    return operation in ("exists", "notExists") or operation in _COMPARE.get(kind, {})


_SLASHED = re.compile(r"/(.*)/([a-z]*)\Z", re.DOTALL)


def _split_pattern(pattern: str) -> tuple[str, str]:
    """Splits a pattern, `/…/flags` or plain, into the pattern and its flags."""
    match = _SLASHED.match(pattern)
    return (match[1], match[2]) if match else (pattern, "")


def compiled(pattern: str) -> Pattern | None:
    """Compiles the pattern with google-re2; returns None if re2 does not support it."""
    body, flags = _split_pattern(pattern)
    options = re2.Options()
    options.case_sensitive = "i" not in flags
    options.log_errors = False
    options.dot_nl = "s" in flags
    prefix = "(?m)" if "m" in flags else ""
    try:
        program: Pattern = re2.compile(prefix + body, options)
    except re2.error:
        return None
    return program


def matches(pattern: str, text: str, match_results: Mapping[tuple[str, str], bool]) -> bool:
    """Returns whether the text matches; `match_results` holds the sandbox's results for other patterns."""
    if (pattern, text) in match_results:
        return match_results[(pattern, text)]
    program = compiled(pattern)
    if program is None:
        raise ItemFailed(f"The pattern {pattern[:80]} cannot be read.")
    return program.search(text) is not None


_ODD_BLANKS = re.compile("[\\x0b\\r\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff]")


def _differs_in_javascript(pattern: str, text: str) -> bool:
    """Returns whether re2 and JavaScript may treat the white space or line ends of the text differently."""
    return _ODD_BLANKS.search(text) is not None and re.search(r"\\[sS]|\.", pattern) is not None


async def matched_in_sandbox(
    pairs: Sequence[tuple[str, str]], evaluator: Evaluator
) -> dict[tuple[str, str], bool]:
    """Matches, in the sandbox, the patterns that re2 does not support; leaves out invalid ones."""
    hard = [
        pair for pair in dict.fromkeys(pairs) if compiled(pair[0]) is None or _differs_in_javascript(*pair)
    ]
    if not hard:
        return {}
    results = await evaluator.matches([(*_split_pattern(pattern), text) for pattern, text in hard])
    return {pair: result for pair, result in zip(hard, results, strict=True) if result is not None}
