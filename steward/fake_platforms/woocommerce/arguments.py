"""Validates arguments as the shop's REST server does: types, enumerations, bounds, dates, addresses."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce.errors import ShopError

_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")


def is_email(text: str) -> bool:
    """Returns whether the shop accepts a text as an e-mail address."""
    return _EMAIL.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument: `kind` is a case of `_typed`; `inside` describes an object's fields."""

    kind: str = "string"
    choices: tuple[str, ...] = ()
    nullable: bool = False
    minimum: int | None = None
    maximum: int | None = None
    inside: "dict[str, Arg] | None" = None


@dataclass(frozen=True, slots=True)
class _Problem(Exception):
    code: str
    message: str
    data: Row | None = None


_EMPTY: dict[str, Any] = {
    **dict.fromkeys(("string", "email"), ""),
    **dict.fromkeys(("objects", "integers", "texts"), ()),
    "integer": 0,
    "boolean": False,
    "object": {},
}


def _empty(arg: Arg) -> Any:
    """Returns the value of an argument sent as null: WordPress casts null without validating it."""
    value = None if arg.nullable else _EMPTY.get(arg.kind)
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value


def _wrong_type(name: str, kind: str) -> _Problem:
    return _Problem("rest_invalid_type", f"{name} is not of type {kind}.", {"param": name})


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + ", and " + words[-1]


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if choices and value not in choices:
        raise _Problem("rest_not_in_enum", f"{name} is not one of {_listed(choices)}.")
    return value


def _integer(name: str, value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d+(\.0*)?\s*", value):
        return int(float(value))
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise _wrong_type(name, "integer")
    return int(value)


def _bounded(name: str, value: int, arg: Arg) -> int:
    minimum, maximum = arg.minimum, arg.maximum
    if minimum is not None and maximum is not None and not minimum <= value <= maximum:
        message = f"{name} must be between {minimum} (inclusive) and {maximum} (inclusive)"
        raise _Problem("rest_out_of_bounds", message)
    if minimum is not None and value < minimum:
        raise _Problem("rest_out_of_bounds", f"{name} must be greater than or equal to {minimum}")
    return value


def _boolean(name: str, value: Any) -> bool:
    booleans = {True: True, False: False, "true": True, "false": False, "1": True, "0": False}
    lowered = value.lower() if isinstance(value, str) else value
    if not isinstance(lowered, bool | int | str) or lowered not in booleans:
        raise _wrong_type(name, "boolean")
    return booleans[lowered]


def moment(text: str) -> datetime | None:
    """Returns a date that the server understands; null for other texts."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]


def _within(name: str, value: Row, arg: Arg) -> Row:
    """Returns an object with its known fields converted and its unknown ones unchanged."""
    converted = dict(value)
    for key, inner in (arg.inside or {}).items():
        if key in value and not (value[key] is None and inner.nullable):
            converted[key] = _typed(f"{name}[{key}]", value[key], inner)
    return converted


def _typed(name: str, value: Any, arg: Arg) -> Any:
    convert = _CONVERSIONS.get(arg.kind)
    return value if convert is None else convert(name, value, arg)


def _text(name: str, value: Any, arg: Arg) -> str:
    if not isinstance(value, str):
        raise _wrong_type(name, "string")
    if arg.kind == "email" and not is_email(value):
        raise _Problem("rest_invalid_email", "Invalid email address.")
    return _choice(name, value, arg.choices)


def _object(name: str, value: Any, arg: Arg) -> Row:
    if not isinstance(value, dict):
        raise _wrong_type(name, "object")
    return _within(name, value, arg)


def _objects(name: str, value: Any, arg: Arg) -> list[Row]:
    items = _items(value)
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise _wrong_type(f"{name}[{index}]", "object")
    return [_within(f"{name}[{index}]", item, arg) for index, item in enumerate(items)]


def _integers(name: str, value: Any, arg: Arg) -> list[int]:
    return [_integer(f"{name}[{index}]", item) for index, item in enumerate(_items(value))]


def _texts(name: str, value: Any, arg: Arg) -> list[str]:
    items = enumerate(_items(value))
    return [_choice(f"{name}[{index}]", str(item), arg.choices) for index, item in items]


def _text_date(name: str, value: Any, arg: Arg) -> str:
    """Accepts any text, as the shop does: an invalid date counts as none."""
    if not isinstance(value, str):
        raise _wrong_type(name, "null,string")
    return value


def _date(name: str, value: Any, arg: Arg) -> str:
    if not isinstance(value, str) or moment(value) is None:
        raise _Problem("rest_invalid_date", "Invalid date.")
    return value


_CONVERSIONS: dict[str, Callable[[str, Any, Arg], Any]] = {
    "string": _text,
    "email": _text,
    "integer": lambda name, value, arg: _bounded(name, _integer(name, value), arg),
    "boolean": lambda name, value, arg: _boolean(name, value),
    "object": _object,
    "objects": _objects,
    "integers": _integers,
    "texts": _texts,
    "text date": _text_date,
    "date": _date,
}


def validated(values: Row, args: dict[str, Arg], *, required: tuple[str, ...] = ()) -> Row:
    """Returns the known arguments, converted. Raises ShopError that names all missing or wrong ones."""
    missing = [name for name in required if values.get(name) is None]
    if missing:
        message = "Missing parameter(s): " + ", ".join(missing)
        raise ShopError(400, "rest_missing_callback_param", message, {"params": missing})
    converted: Row = {}
    problems: dict[str, _Problem] = {}
    for name, arg in args.items():
        if name not in values:
            continue
        value = values[name]
        try:
            converted[name] = _empty(arg) if value is None else _typed(name, value, arg)
        except _Problem as problem:
            problems[name] = problem
    if problems:
        raise _invalid_parameters(problems)
    return converted


def _invalid_parameters(problems: dict[str, _Problem]) -> ShopError:
    details = {n: {"code": p.code, "message": p.message, "data": p.data} for n, p in problems.items()}
    params = {name: problem.message for name, problem in problems.items()}
    message = "Invalid parameter(s): " + ", ".join(problems)
    return ShopError(400, "rest_invalid_param", message, {"params": params, "details": details})


def coerced(values: Row, args: dict[str, Arg], *, fallback: str) -> Row:
    """Returns the known arguments of a batch item, which the shop converts without checking.

    Null counts as absent, and an unknown status is replaced: `{"id": 11, "status": "hidden"}` in a batch
    yields a draft.
    """
    converted: Row = {}
    for name, arg in args.items():
        value = values.get(name)
        if value is None:
            if name in values and arg.nullable:
                converted[name] = None
            continue
        try:
            converted[name] = _typed(name, value, arg)
        except _Problem:
            replacement = fallback if name == "status" else _cast(value, arg)
            if replacement is not None:
                converted[name] = replacement
    return converted


def _cast(value: Any, arg: Arg) -> str | int | None:
    """Returns a value of the wrong type as PHP casts it; null for one that is left out."""
    if arg.kind == "string" and isinstance(value, int | float):
        return str(value)
    if arg.kind == "integer" and isinstance(value, str):
        number = re.match(r"\s*[-+]?\d+", value)
        return int(number.group()) if number else 0
    return None
