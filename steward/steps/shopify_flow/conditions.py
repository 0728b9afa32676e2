"""Works out a flow's condition over its environment: every operator, and the lists' any, all, none.

Text is compared without regard to case; numbers and dates by the type the condition names (imports 7.3), or,
in the older spelling that names none, as numbers or times where both sides are such. Nothing equals, begins
or includes what is not there, so the negated operators hold of it; it is neither more nor less than anything.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any, Final

from steward.model.json import JsonObject, JsonValue
from steward.steps.shopify_flow.environment import Environment, elements
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.step_types import ItemFailed

NUMBERS: Final = frozenset(("Int", "Float", "Decimal", "Money", "UnsignedInt64", "BigInt", "Number"))
DATES: Final = frozenset(("DateTime", "Date", "Time"))
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?\Z")
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?\Z")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?\Z", re.ASCII)
_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
}
_OF_TEXT: Mapping[str, Callable[[str, str], bool]] = {
    "start_with?": str.startswith,
    "end_with?": str.endswith,
    "include?": str.__contains__,
}
_ALONE: Mapping[str, Callable[[JsonValue], bool]] = {
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


def holds(tree: JsonObject, environment: Environment, zone: tzinfo) -> bool:
    """Whether the condition holds. Raises ItemFailed for a value that cannot be compared, UnknownInTest.

    Parts are looked at in their order, and no further than the answer needs.
    """
    if "and" in tree:
        return all(holds(one, environment, zone) for one in _trees(tree["and"]))
    if "or" in tree:
        return any(holds(one, environment, zone) for one in _trees(tree["or"]))
    if "each" in tree:
        return _of_list(tree, environment, zone)
    path = str(tree["path"])
    right = environment.look(str(tree["value_path"])) if "value_path" in tree else tree.get("value")
    type_ = tree.get("type")
    return compared(
        environment.look(path),
        str(tree["operator"]),
        right,
        type_=None if type_ is None else str(type_),
        zone=zone,
        path=path,
    )


def _trees(parts: JsonValue) -> list[Mapping[str, JsonValue]]:
    return [one for one in elements(parts) if isinstance(one, Mapping)]


def _of_list(tree: JsonObject, environment: Environment, zone: tzinfo) -> bool:
    """Of an empty list any is false, all and none are true."""
    item, below = str(tree["item"]), tree["holds"]
    if not isinstance(below, Mapping):
        raise ItemFailed("The condition cannot be read.")
    answers = (
        holds(below, environment.plus(item, one), zone)
        for one in elements(environment.look(str(tree["each"])))
    )
    operator = tree["operator"]
    if operator == "all":
        return all(answers)
    return any(answers) is (operator == "any")


def compared(
    left: JsonValue, operator: str, right: JsonValue, *, type_: str | None, zone: tzinfo, path: str = ""
) -> bool:
    """One comparison, by the operator's name in files. Raises ItemFailed."""
    alone = _ALONE.get(operator)
    if alone is not None:
        return alone(left)
    positive = _NEGATED.get(operator)
    if positive is not None:
        return not compared(left, positive, right, type_=type_, zone=zone, path=path)
    if operator == "include?" and _is_list(left):
        return any(_equal(one, right, type_, zone, path) for one in elements(left))
    if operator == "in?":
        return left is not None and any(_equal(left, one, type_, zone, path) for one in _choices(right))
    if operator == "==":
        return _equal(left, right, type_, zone, path)
    if left is None or right is None:
        return False
    if operator in _OF_TEXT:
        return _OF_TEXT[operator](_text(left, path), _text(right, path))
    if operator in _ORDERED:
        return _ORDERED[operator](*_both(left, right, type_, zone, path))
    raise ItemFailed(f"The operator “{operator[:40]}” is not known.")


def _is_empty(value: JsonValue) -> bool:
    return value is None or value == "" or (_is_list(value) and not elements(value))


def _is_list(value: JsonValue) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _choices(right: JsonValue) -> list[JsonValue]:
    """What `in?` chooses from: a list, the JSON of one, or values between commas."""
    if _is_list(right):
        return elements(right)
    text = "" if right is None else str(right).strip()
    if text.startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, list):
            return found
    return [one.strip() for one in text.split(",")] if text else []


def _equal(left: JsonValue, right: JsonValue, type_: str | None, zone: tzinfo, path: str) -> bool:
    if left is None or right is None:
        return left is None and right is None
    one, other = _both(left, right, type_, zone, path)
    return bool(one == other)


def _both(left: JsonValue, right: JsonValue, type_: str | None, zone: tzinfo, path: str) -> tuple[Any, Any]:
    """Both sides as what they are compared as."""
    if type_ in NUMBERS or (type_ is None and _are_numbers(left, right)):
        return _number(left, path), _number(right, path)
    if type_ in DATES or (type_ is None and _are_moments(left, right)):
        one, other = _date(left, zone, path), _date(right, zone, path)
        return (one.date(), other.date()) if type_ == "Date" else (one, other)
    return _text(left, path), _text(right, path)


def _are_numbers(left: JsonValue, right: JsonValue) -> bool:
    return all(
        not isinstance(one, bool)
        and (isinstance(one, int | float) or (isinstance(one, str) and bool(_PLAIN.match(one.strip()))))
        for one in (left, right)
    )


def _are_moments(left: JsonValue, right: JsonValue) -> bool:
    """Two dates of which one has a time: their texts would be in order only within one zone."""
    if not (isinstance(left, str) and isinstance(right, str) and "T" in left + right):
        return False
    return all(_MOMENT.match(one) and js_dates.parse(one, UTC) is not None for one in (left, right))


def _number(value: JsonValue, path: str) -> Decimal:
    if isinstance(value, Mapping) and "amount" in value:
        value = value["amount"]
    text = "" if isinstance(value, bool | Mapping) or _is_list(value) else str(value).strip()
    if not _NUMBER.match(text):
        raise ItemFailed(f"“{_shown(value)}” is no number{_beside(path)}.")
    return Decimal(text)


def _date(value: JsonValue, zone: tzinfo, path: str) -> datetime:
    found = js_dates.parse(value, zone) if isinstance(value, str) else None
    try:
        if found is not None:
            return found.astimezone(zone)
    except OverflowError:  # beyond the first or the last year there is
        pass
    raise ItemFailed(f"“{_shown(value)}” is no date{_beside(path)}.")


def _text(value: JsonValue, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        raise ItemFailed(f"It compares an object{_beside(path)}. Compare one of its fields.")
    if _is_list(value):
        words = f"It compares a list{_beside(path)}. Say whether any, all or none of it is meant."
        raise ItemFailed(words)
    return str(value).casefold()


def _shown(value: JsonValue) -> str:
    return str(value)[:40]


def _beside(path: str) -> str:
    return f" (compared with “{path[:80]}”)" if path else ""
