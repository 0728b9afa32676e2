"""Evaluates a flow's conditions: all operators, and any, all and none of a list.

Text is compared case-insensitively; numbers and dates are compared by the type that the condition names or,
in the older syntax without a type, as numbers or times if both sides are. An absent value equals
only an absent value and never begins with or contains anything, for which the negated operators hold; it is
neither less nor greater than anything.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Final, TypeAlias

from steward.model.json import JsonObject, JsonValue
from steward.steps.shopify_flow.environment import FlowVariables, elements
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.step_types import ItemFailed

_NUMBERS: Final = frozenset(("Int", "Float", "Decimal", "Money", "UnsignedInt64", "BigInt", "Number"))
_DATES: Final = frozenset(("DateTime", "Date", "Time"))
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?\Z")
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?\Z")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?\Z", re.ASCII)
# A converted operand; both operands have the same type.
_Ordered: TypeAlias = Decimal | date | str
_ORDERED: Final = {">": gt, ">=": ge, "<": lt, "<=": le}
_TEXT_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "start_with?": str.startswith,
    "end_with?": str.endswith,
    "include?": str.__contains__,
}
_UNARY: Mapping[str, Callable[[JsonValue], bool]] = {
    "nil?": lambda value: value is None,
    "not_nil?": lambda value: value is not None,
    "empty_or_nil?": lambda value: _is_empty(value),
    "not_empty_and_not_nil?": lambda value: not _is_empty(value),
}
_NEGATED: Mapping[str, str] = {
    "!=": "==",
    "not_start_with?": "start_with?",
    "not_end_with?": "end_with?",
    "not_include?": "include?",
    "not_in?": "in?",
}


def holds(tree: JsonObject, environment: FlowVariables, zone: tzinfo) -> bool:
    """Returns whether the condition holds. Raises ItemFailed for incomparable values, UnknownInTest.

    Parts are evaluated in order, and only until the result is certain.
    """
    if "and" in tree:
        return all(holds(part, environment, zone) for part in _trees(tree["and"]))
    if "or" in tree:
        return any(holds(part, environment, zone) for part in _trees(tree["or"]))
    if "each" in tree:
        return _list_holds(tree, environment, zone)
    path = str(tree["path"])
    expected = environment.resolve(str(tree["value_path"])) if "value_path" in tree else tree.get("value")
    type_ = tree.get("type")
    return compared(
        environment.resolve(path),
        str(tree["operator"]),
        expected,
        type_=None if type_ is None else str(type_),
        zone=zone,
        path=path,
    )


def _trees(parts: JsonValue) -> list[Mapping[str, JsonValue]]:
    return [part for part in elements(parts) if isinstance(part, Mapping)]


def _list_holds(tree: JsonObject, environment: FlowVariables, zone: tzinfo) -> bool:
    """Evaluates a condition over a list; for an empty list any is false, all and none are true."""
    item, condition = str(tree["item"]), tree["holds"]
    if not isinstance(condition, Mapping):
        raise ItemFailed("The condition cannot be read. Import the flow again.")
    results = (
        holds(condition, environment.with_name(item, element), zone)
        for element in elements(environment.resolve(str(tree["each"])))
    )
    operator = tree["operator"]
    if operator == "all":
        return all(results)
    return any(results) is (operator == "any")


def compared(
    actual: JsonValue, operator: str, expected: JsonValue, *, type_: str | None, zone: tzinfo, path: str = ""
) -> bool:
    """Evaluates a comparison; `operator` has its name in exported files. Raises ItemFailed."""
    unary = _UNARY.get(operator)
    if unary is not None:
        return unary(actual)
    positive = _NEGATED.get(operator)
    if positive is not None:
        return not compared(actual, positive, expected, type_=type_, zone=zone, path=path)
    if operator == "include?" and _is_list(actual):
        return any(_equal(element, expected, type_, zone, path) for element in elements(actual))
    if operator == "in?":
        return _is_in(actual, _choices(expected), type_, zone, path)
    if operator == "==":
        return _equal(actual, expected, type_, zone, path)
    if actual is None or expected is None:
        return False
    return _compare_present(actual, operator, expected, type_, zone, path)


def _is_in(
    actual: JsonValue, choices: Sequence[JsonValue], type_: str | None, zone: tzinfo, path: str
) -> bool:
    return actual is not None and any(_equal(actual, choice, type_, zone, path) for choice in choices)


def _compare_present(
    actual: JsonValue, operator: str, expected: JsonValue, type_: str | None, zone: tzinfo, path: str
) -> bool:
    if operator in _TEXT_OPERATORS:
        return _TEXT_OPERATORS[operator](_text(actual, path), _text(expected, path))
    if operator in _ORDERED:
        return bool(_ORDERED[operator](*_converted(actual, expected, type_, zone, path)))
    raise ItemFailed(f"The operator “{operator[:40]}” is not known.")


def _is_empty(value: JsonValue) -> bool:
    return value is None or value == "" or (_is_list(value) and not elements(value))


def _is_list(value: JsonValue) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _choices(expected: JsonValue) -> list[JsonValue]:
    """Returns the choices of `in?` from a list, a JSON list or comma-separated text."""
    if _is_list(expected):
        return elements(expected)
    text = "" if expected is None else str(expected).strip()
    if text.startswith("["):
        try:
            choices = json.loads(text)
        except ValueError:
            choices = None
        if isinstance(choices, list):
            return choices
    return [choice.strip() for choice in text.split(",")] if text else []


def _equal(actual: JsonValue, expected: JsonValue, type_: str | None, zone: tzinfo, path: str) -> bool:
    if actual is None or expected is None:
        return actual is None and expected is None
    first, second = _converted(actual, expected, type_, zone, path)
    return bool(first == second)


def _converted(
    actual: JsonValue, expected: JsonValue, type_: str | None, zone: tzinfo, path: str
) -> tuple[_Ordered, _Ordered]:
    """Returns both sides converted to the type in which they are compared."""
    if type_ in _NUMBERS or (type_ is None and _are_numbers(actual, expected)):
        return _number(actual, path), _number(expected, path)
    if type_ in _DATES or (type_ is None and _are_moments(actual, expected)):
        first, second = _date(actual, zone, path), _date(expected, zone, path)
        return (first.date(), second.date()) if type_ == "Date" else (first, second)
    return _text(actual, path), _text(expected, path)


def _are_numbers(actual: JsonValue, expected: JsonValue) -> bool:
    return all(
        not isinstance(value, bool)
        and (isinstance(value, int | float) or (isinstance(value, str) and bool(_PLAIN.match(value.strip()))))
        for value in (actual, expected)
    )


def _are_moments(actual: JsonValue, expected: JsonValue) -> bool:
    """Returns whether both are dates and one has a time, so that comparing them as text would be wrong."""
    if not (isinstance(actual, str) and isinstance(expected, str) and "T" in actual + expected):
        return False
    return all(_MOMENT.match(text) and js_dates.parse(text, UTC) is not None for text in (actual, expected))


def _number(value: JsonValue, path: str) -> Decimal:
    if isinstance(value, Mapping) and "amount" in value:
        value = value["amount"]
    text = "" if isinstance(value, bool | Mapping) or _is_list(value) else str(value).strip()
    if not _NUMBER.match(text):
        raise ItemFailed(f"“{_abbreviated(value)}” is not a number{_where(path)}.")
    return Decimal(text)


def _date(value: JsonValue, zone: tzinfo, path: str) -> datetime:
    parsed = js_dates.parse(value, zone) if isinstance(value, str) else None
    try:
        if parsed is not None:
            return parsed.astimezone(zone)
    except OverflowError:  # outside the range of years
        pass
    raise ItemFailed(f"“{_abbreviated(value)}” is not a date{_where(path)}.")


def _text(value: JsonValue, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        raise ItemFailed(f"It compares an object{_where(path)}. Compare one of its fields.")
    if _is_list(value):
        message = f"It compares a list{_where(path)}. Say whether any, all or none of it is meant."
        raise ItemFailed(message)
    return str(value).casefold()


def _abbreviated(value: JsonValue) -> str:
    return str(value)[:40]


def _where(path: str) -> str:
    return f" (compared with “{path[:80]}”)" if path else ""
