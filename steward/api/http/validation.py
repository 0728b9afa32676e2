"""Validates queries and bodies against their models, with an error message for each field."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)
Errors = dict[str, list[str]]
_SHORT = 200  # the longest query whose result is cached, in bytes
_MAX_NAMED = 1000  # the number of unknown fields of one object that a refusal names

_REQUIRED = "This field is required."
_UNKNOWN = "This field is not known here."
_WORDS: Mapping[str, str] = {
    "missing": _REQUIRED,
    "union_tag_not_found": _REQUIRED,
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


def _query_fields(query_string: bytes, errors: Errors) -> dict[str, str]:
    """Returns the query's parameters; adds repeated and unreadable ones to `errors`."""
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
    """Validates a query; returns the frozen model, or None after adding its errors to `errors`."""
    if model is not None and len(query_string) <= _SHORT:
        validated: Any = _validated_query(model, query_string)
        if validated is not None:
            checked: M = validated
            return checked
    parameters = _query_fields(query_string, errors)
    if model is None:
        for name in parameters:
            errors.setdefault(name, []).append("This parameter is not known here.")
        return None
    return _checked(model, parameters, errors)


@lru_cache(maxsize=2048)  # polling repeats the same query
def _validated_query(model: type[BaseModel], query_string: bytes) -> BaseModel | None:
    """Returns the validated query, or None if it has an error."""
    errors: Errors = {}
    checked = _checked(model, _query_fields(query_string, errors), errors)
    return None if errors else checked


def body(model: type[M], value: Any, errors: Errors) -> M | None:
    """Validates a body; returns the model, or None after adding its errors to `errors`."""
    if type(value) is not dict:
        errors.setdefault("body", []).append("Give a JSON object.")
        return None
    return _checked(model, _with_few_unknown_fields(model, value), errors)


def _with_few_unknown_fields(model: type[BaseModel], value: dict[str, Any]) -> dict[str, Any]:
    """Returns the body with at most as many unknown fields as a refusal names.

    Naming each of 50,000 would take a second of every such request.
    """
    too_long = [name for name, member in value.items() if type(member) is dict and len(member) > _MAX_NAMED]
    if len(value) <= _MAX_NAMED and not too_long:
        return value
    known_fields = _fields_of(model)
    thinned = {name: member for name, member in value.items() if name in known_fields}
    thinned |= dict(islice(value.items(), _MAX_NAMED))
    for name in thinned.keys() & too_long:
        if not known_fields.get(name, False):
            thinned[name] = dict(islice(thinned[name].items(), _MAX_NAMED))
    return thinned


@lru_cache(maxsize=256)
def _fields_of(model: type[BaseModel]) -> dict[str, bool]:
    """Returns the names of the body's fields, and whether each holds an object with arbitrary names."""
    return {
        field.alias or name: "dict[" in str(field.annotation) for name, field in model.model_fields.items()
    }


def _checked(model: type[M], value: Any, errors: Errors) -> M | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path = _path(detail, value)
            words = _words(detail)
            messages = errors.setdefault(path, [])
            if words not in messages:
                messages.append(words)
        return None


def _path(detail: ErrorDetails, value: Any) -> str:
    """Returns the dotted path of an error in the request, without the names pydantic adds for unions."""
    parts: list[str] = []
    current = value
    location = detail["loc"]
    is_missing = detail["type"] == "missing"
    for position, part in enumerate(location):
        if _has_member(current, part):
            current = current[part]
        elif not (is_missing and position == len(location) - 1 and isinstance(current, dict)):
            continue
        parts.append(str(part))
    if detail["type"].startswith("union_tag_"):
        parts.append(detail["ctx"]["discriminator"].strip("'"))
    return ".".join(parts) or "body"


def _has_member(container: Any, part: int | str) -> bool:
    """Returns whether an object has this member, or a list this position."""
    if isinstance(container, list):
        return isinstance(part, int) and part < len(container)
    return isinstance(container, dict) and part in container


def _words(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _WORDS:
        return _WORDS[kind]
    if kind in _WORDS_WITH_CONTEXT:
        return _WORDS_WITH_CONTEXT[kind](context)
    unit = "characters" if isinstance(detail.get("input"), str) else "items"
    if kind in ("string_too_long", "too_long"):
        return f"Give at most {context['max_length']} {unit}."
    if kind in ("string_too_short", "too_short"):
        minimum = context["min_length"]
        return "This must not be empty." if minimum == 1 else f"Give at least {minimum} {unit}."
    return f"{detail['msg']}."


def _one_of_expected(context: Mapping[str, Any]) -> str:
    return f"Give one of these: {context['expected']}."


def _at_least(context: Mapping[str, Any]) -> str:
    return f"Give at least {context.get('ge', context.get('gt'))}."


def _at_most(context: Mapping[str, Any]) -> str:
    return f"Give at most {context.get('le', context.get('lt'))}."


_WORDS_WITH_CONTEXT: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "plain": lambda context: str(context["words"]),
    "enum": _one_of_expected,
    "literal_error": _one_of_expected,
    "union_tag_invalid": lambda context: f"Give one of these: {context['expected_tags']}.",
    "greater_than_equal": _at_least,
    "greater_than": _at_least,
    "less_than_equal": _at_most,
    "less_than": _at_most,
    "value_error": lambda context: str(context["error"]),
}
