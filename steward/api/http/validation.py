"""Checks queries and bodies against their models and words their faults."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)
Errors = dict[str, list[str]]
_SHORT = 200  # bytes of a query that is remembered
MOST_NAMED = 1000  # unknown fields of one object, told in one refusal

_UNKNOWN = "This field is not known here."
_WORDS: Mapping[str, str] = {
    "missing": "This field is required.",
    "extra_forbidden": _UNKNOWN,
    "string_type": "Give text.",
    "int_type": "Give a whole number.",
    "int_from_float": "Give a whole number.",
    "float_type": "Give a number.",
    "bool_type": "Give true or false.",
    "list_type": "Give a list.",
    "dict_type": "Give an object.",
    "model_type": "Give an object.",
    "model_attributes_type": "Give an object.",
    "none_required": "Give null.",
    "string_pattern_mismatch": "The text does not have the form that is needed here.",
}


def query_fields(query_string: bytes, errors: Errors) -> dict[str, str]:
    """The query's parameters; repeated and unreadable ones are put into `errors`."""
    parameters: dict[str, str] = {}
    if not query_string:
        return parameters
    for part in query_string.split(b"&"):
        if not part:
            continue
        raw_name, _, raw_value = part.partition(b"=")
        try:
            name = unquote_to_bytes(raw_name.replace(b"+", b" ")).decode("utf-8")
            value = unquote_to_bytes(raw_value.replace(b"+", b" ")).decode("utf-8")
        except UnicodeDecodeError:
            errors.setdefault(raw_name.decode("latin-1"), []).append("Give UTF-8 text, percent-encoded.")
            continue
        if name in parameters:
            errors.setdefault(name, []).append("Give this parameter once.")
        parameters[name] = value
    return parameters


def query(model: type[M] | None, query_string: bytes, errors: Errors) -> M | None:
    """The checked query, which is frozen; its faults are put into `errors`, and then None is given."""
    if model is not None and len(query_string) <= _SHORT:
        good: Any = _good(model, query_string)
        if good is not None:
            checked: M = good
            return checked
    parameters = query_fields(query_string, errors)
    if model is None:
        for name in parameters:
            errors.setdefault(name, []).append("This parameter is not known here.")
        return None
    return _checked(model, parameters, errors)


@lru_cache(maxsize=2048)  # who polls asks the same again and again
def _good(model: type[BaseModel], query_string: bytes) -> BaseModel | None:
    """The checked query when nothing is wrong with it."""
    errors: Errors = {}
    checked = _checked(model, query_fields(query_string, errors), errors)
    return None if errors else checked


def body(model: type[M], value: Any, errors: Errors) -> M | None:
    """The checked body; its faults are put into `errors`, and then None is given."""
    if type(value) is not dict:
        errors.setdefault("body", []).append("Give a JSON object.")
        return None
    return _checked(model, _thinned(model, value), errors)


def _thinned(model: type[BaseModel], value: dict[str, Any]) -> dict[str, Any]:
    """The body with no more unknown fields than a refusal names; a typed object has far fewer known ones.

    Naming each of 50,000 takes a second, for every request that is made to.
    """
    long = [
        name
        for name, field_value in value.items()
        if type(field_value) is dict and len(field_value) > MOST_NAMED
    ]
    if len(value) <= MOST_NAMED and not long:
        return value
    known_fields = _fields_of(model)
    thinned = {name: field_value for name, field_value in value.items() if name in known_fields}
    thinned |= dict(islice(value.items(), MOST_NAMED))
    for name in long:
        if name in thinned and not known_fields.get(name, False):
            thinned[name] = dict(islice(thinned[name].items(), MOST_NAMED))
    return thinned


@lru_cache(maxsize=256)
def _fields_of(model: type[BaseModel]) -> dict[str, bool]:
    """The body's fields, and whether each holds an object with whatever names."""
    return {
        field.alias or name: "dict[" in str(field.annotation) for name, field in model.model_fields.items()
    }


def _checked(model: type[M], value: Any, errors: Errors) -> M | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            path = _path(detail, value)
            words = _words(detail)
            messages = errors.setdefault(path, [])
            if words not in messages:
                messages.append(words)
        return None


def _path(detail: ErrorDetails, value: Any) -> str:
    """The dotted path of a fault in the request: without the names pydantic adds for unions."""
    parts: list[str] = []
    current = value
    location = detail["loc"]
    for position, part in enumerate(location):
        if isinstance(current, dict) and part in current:  # noqa: SIM114 - mypy narrows each apart
            current = current[part]
        elif isinstance(current, list) and isinstance(part, int) and part < len(current):
            current = current[part]
        elif not (
            position == len(location) - 1 and isinstance(current, dict) and detail["type"] == "missing"
        ):
            continue
        parts.append(str(part))
    if detail["type"].startswith("union_tag_"):
        parts.append(detail["ctx"]["discriminator"].strip("'"))
    return ".".join(parts) or "body"


def _words(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == "plain":
        return str(context["words"])
    if kind in ("enum", "literal_error"):
        return f"Give one of these: {context['expected']}."
    if kind == "union_tag_not_found":
        return _WORDS["missing"]
    if kind == "union_tag_invalid":
        return f"Give one of these: {context['expected_tags']}."
    if kind in ("greater_than_equal", "greater_than"):
        return f"Give at minimum {context.get('ge', context.get('gt'))}."
    if kind in ("less_than_equal", "less_than"):
        return f"Give at most {context.get('le', context.get('lt'))}."
    unit = "characters" if isinstance(detail.get("input"), str) else "items"
    if kind in ("string_too_long", "too_long"):
        return f"Give at most {context['max_length']} {unit}."
    if kind in ("string_too_short", "too_short"):
        minimum = context["min_length"]
        return "This must not be empty." if minimum == 1 else f"Give at minimum {minimum} {unit}."
    if kind == "value_error":
        return str(context["error"])
    return f"{detail['msg']}."
