"""Evaluates the untyped conditions of if 1, filter 1, and switch 1 and 2."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo

from steward.model.json import AnyJson, JsonValue
from steward.steps.n8n import conditions
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, Params

KINDS = ("boolean", "dateTime", "number", "string")
_DEFAULT = {"boolean": "equal", "dateTime": "after", "number": "smaller", "string": "equal"}

_Compare = Callable[[AnyJson, AnyJson], bool]


def _text(value: object) -> str:
    return js.text(value) if js.truthy(value) else ""


def _count(value: js.Value) -> float:
    number = js.number(value) if js.truthy(value) else 0
    return number if not js.is_missing(value) else 0


def _empty(value: js.Value) -> bool:
    if js.is_missing(value) or value == "" or (isinstance(value, float) and math.isnan(value)):
        return True
    if js.is_object(value):
        return not value
    return js.is_list(value) and not value


def _equal(first: JsonValue, second: JsonValue) -> bool:
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


_TEXTS: dict[str, _Compare] = {
    "contains": lambda a, b: _text(b) in _text(a),
    "notContains": lambda a, b: _text(b) not in _text(a),
    "endsWith": lambda a, b: _text(a).endswith(_text(b)),
    "notEndsWith": lambda a, b: not _text(a).endswith(_text(b)),
    "startsWith": lambda a, b: _text(a).startswith(_text(b)),
    "notStartsWith": lambda a, b: not _text(a).startswith(_text(b)),
}
_NUMBERS: dict[str, _Compare] = {
    "smaller": lambda a, b: _count(a) < _count(b),
    "smallerEqual": lambda a, b: _count(a) <= _count(b),
    "larger": lambda a, b: _count(a) > _count(b),
    "largerEqual": lambda a, b: _count(a) >= _count(b),
}
_ANY: dict[str, _Compare] = {
    "equal": _equal,
    "notEqual": lambda a, b: not _equal(a, b),
    "isEmpty": lambda a, b: _empty(a),
    "isNotEmpty": lambda a, b: not _empty(a),
}
OPERATIONS = frozenset((*_TEXTS, *_NUMBERS, *_ANY, "after", "before", "regex", "notRegex"))


def row_holds(
    kind: str,
    row: Params,
    zone: tzinfo,
    match_results: Mapping[tuple[str, str], bool],
    *,
    first: AnyJson = js.UNDEFINED,
) -> bool:
    """Returns whether an older comparison holds; `first` is the switch's value. Raises ItemFailed."""
    operation = row.text("operation", _DEFAULT.get(kind, "equal"))
    value1 = row.get("value1", js.UNDEFINED) if first is js.UNDEFINED else first
    value2 = row.get("value2", _nothing(kind))
    if kind == "dateTime" and operation in ("after", "before"):
        return _by_date(operation, value1, value2, zone)
    if operation in ("regex", "notRegex"):
        match = conditions.matches(_text(value2), _text(value1), match_results)
        return match if operation == "regex" else not match
    compare = _ANY.get(operation) or _TEXTS.get(operation) or _NUMBERS.get(operation)
    if compare is None:
        raise ItemFailed(f"The comparison “{operation}” is not known.")
    return compare(value1, value2)


def _nothing(kind: str) -> object:
    return {"boolean": False, "number": 0, "string": ""}.get(kind, js.UNDEFINED)


def _by_date(operation: str, value1: JsonValue, value2: JsonValue, zone: tzinfo) -> bool:
    first, second = _date(value1, zone), _date(value2, zone)
    return first > second if operation == "after" else first < second


def _date(value: JsonValue, zone: tzinfo) -> datetime:
    date = None
    if js.is_number(value):
        date = js_dates.from_millis(value, zone)
    elif isinstance(value, str):
        date = js_dates.from_millis(float(value), zone) if value.isdigit() else js_dates.parse(value, zone)
    if date is None:
        raise ItemFailed(f"{js.json_text(value)[:80]} is not a date.")
    return date
