"""JavaScript conversions of values to text, number and boolean, and n8n's property paths."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeGuard, TypeVar

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.expressions.paths import UNDEFINED as UNDEFINED
from steward.steps.workflow.expressions.paths import JsDate as JsDate
from steward.steps.workflow.expressions.paths import Value as Value

V = TypeVar("V")

# Exact types are checked first: most values are scalars, and isinstance with abstract classes is slow.
SCALARS: Final = frozenset((str, int, float, bool, type(None)))


def is_missing(value: object) -> bool:
    """Returns whether the value is null or undefined."""
    return value is None or value is UNDEFINED


def is_number(value: object) -> TypeGuard[float]:
    """Returns whether the value is a number and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_object(value: object) -> TypeGuard[Mapping[str, AnyJson]]:
    """Returns whether the value is an object."""
    return type(value) is dict or (type(value) not in SCALARS and isinstance(value, Mapping))


def is_list(value: object) -> TypeGuard[Sequence[AnyJson]]:
    """Returns whether the value is a list."""
    return type(value) is list or (type(value) not in SCALARS and isinstance(value, Sequence))


def number_text(value: float) -> str:
    """Formats a number as JavaScript does: 5, not 5.0; 1e+21, not 1e21."""
    if isinstance(value, int):
        if abs(value) < 10**21:
            return str(value)
        value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(Decimal(repr(value))))  # its shortest digits, then zeros
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits
    power = int(exponent)
    if -7 < power < 0:
        return f"{value:.{len(digits.lstrip('-').replace('.', '')) - 1 - power}f}"
    return f"{digits.removesuffix('.0')}e{power:+d}"


def text(value: object) -> str:
    """Returns `String(value)`: lists joined by commas, objects as [object Object]."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if value is UNDEFINED:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, Mapping):
        return "[object Object]"
    if isinstance(value, Sequence):
        return _joined_text(value)
    return str(value)


def _joined_text(elements: Sequence[object]) -> str:
    return ",".join("" if is_missing(element) else text(element) for element in elements)


def json_text(value: object, *, indent: int = 0, depth: int = 0) -> str:
    """Returns `JSON.stringify(value, null, indent)`: numbers as JavaScript formats them, NaN as null."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        colon = ": " if indent else ":"
        texts = [
            f"{_quoted(name)}{colon}{json_text(member, indent=indent, depth=depth + 1)}"
            for name, member in members(value)
            if member is not UNDEFINED
        ]
        return _enclosed("{}", texts, indent, depth)
    if isinstance(value, Sequence):
        texts = [json_text(member, indent=indent, depth=depth + 1) for member in value]
        return _enclosed("[]", texts, indent, depth)
    return _scalar_text(value)


def _scalar_text(value: object) -> str:
    if is_missing(value):
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value) if math.isfinite(value) else "null"
    return _quoted(str(value))


def _enclosed(brackets: str, texts: Sequence[str], indent: int, depth: int) -> str:
    """Returns the texts within brackets, each on a separate line if there is an indent."""
    if not indent or not texts:
        return f"{brackets[0]}{','.join(texts)}{brackets[1]}"
    line = "\n" + " " * indent * (depth + 1)
    return f"{brackets[0]}{line}{f',{line}'.join(texts)}\n{' ' * indent * depth}{brackets[1]}"


_ARRAY_INDEX = re.compile(r"(?:0|[1-9]\d{0,9})\Z", re.ASCII)
_MAX_ARRAY_INDEX = 2**32 - 2


def members(fields: Mapping[str, V]) -> list[tuple[str, V]]:
    """Returns the members of an object in JavaScript's order: indexes by number first, then the others."""
    indexes = [name for name in fields if _ARRAY_INDEX.match(name) and int(name) <= _MAX_ARRAY_INDEX]
    if not indexes:
        return list(fields.items())
    ordered = dict.fromkeys(sorted(indexes, key=int)) | dict.fromkeys(fields)
    return [(name, fields[name]) for name in ordered]


def text_order(value: str) -> bytes:
    """Returns a key that orders texts as JavaScript does: by the units of UTF-16."""
    return value.encode("utf-16-be", "surrogatepass")


_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def _quoted(value: str) -> str:
    return '"' + _ESCAPED.sub(lambda m: _SHORT.get(m[0]) or f"\\u{ord(m[0]):04x}", value) + '"'


_BLANKS = " \t\n\r\v\f\u00a0\ufeff\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_BLANKS += "\u2028\u2029\u202f\u205f\u3000"


def trimmed(value: str) -> str:
    """Returns `value.trim()`, which also cuts a byte order mark, but no separators of records."""
    return value.strip(_BLANKS)


_DECIMAL = re.compile(r"[+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\Z", re.ASCII)
_RADIX = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)\Z")


def number(value: object) -> float:
    """Returns `Number(value)`, which may be NaN."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    if value is None:
        return 0
    if isinstance(value, str):
        return _number_of(value.strip(_BLANKS))
    if isinstance(value, Sequence):
        return _number_of(text(value).strip(_BLANKS))
    return plain_number(value.milliseconds) if isinstance(value, JsDate) else math.nan


def _number_of(stripped: str) -> float:
    if not stripped:
        return 0
    if _RADIX.match(stripped):
        return int(stripped, 0)
    if not _DECIMAL.match(stripped):
        return math.nan
    if "Infinity" in stripped:
        return -math.inf if stripped.startswith("-") else math.inf
    return plain_number(float(stripped))


def plain_number(value: float) -> float:
    """Converts a whole float to an int, so that it is written without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def truthy(value: object) -> bool:
    """Returns `Boolean(value)`."""
    if is_missing(value):
        return False
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value != 0 and not math.isnan(value)
    if isinstance(value, str):
        return value != ""
    return True


def to_json(value: object) -> AnyJson:
    """Returns a value in the form items store: without undefined members, NaN as null."""
    if value is UNDEFINED:
        return None
    if type(value) in SCALARS:
        return None if type(value) is float and not math.isfinite(value) else value
    if is_object(value):
        return {str(name): to_json(member) for name, member in value.items() if member is not UNDEFINED}
    if is_list(value):
        return [to_json(member) for member in value]
    return value.text if isinstance(value, JsDate) else value


def parse_json(value: str) -> AnyJson:
    """Returns `JSON.parse(value)`, or UNDEFINED if it is not JSON."""
    try:
        return json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return UNDEFINED


def _no_constant(name: str) -> object:
    raise ValueError(name)


_PART = re.compile(
    r"""[^.\[\]]+|\[(?:(-?\d+(?:\.\d+)?)|(["'])((?:(?!\2)[^\\]|\\.)*?)\2)\]|(?=(?:\.|\[\])(?:\.|\[\]|\Z))"""
)

_MAX_GAP: Final = 10_000  # elements by which setting an index may extend a list


def _path_parts(path: str) -> list[str]:
    """Splits a path such as `a.b[0]["c"]`."""
    parts = [""] if path.startswith(".") else []
    for match in _PART.finditer(path):
        if match[2] is not None:
            parts.append(re.sub(r"\\(\\)?", r"\1", match[3]))
        else:
            parts.append(match[1] or match[0])
    return parts or [path]


def _parts_in(value: object, path: str | Sequence[str]) -> Sequence[str]:
    """Returns the parts of a path, or the path itself if a field has that name."""
    if not isinstance(path, str):
        return path
    return [path] if isinstance(value, Mapping) and path in value else _path_parts(path)


def text_length(value: str) -> int:
    """Returns a text's `length`: the number of its UTF-16 units."""
    return len(value) if value.isascii() else len(value.encode("utf-16-le", "surrogatepass")) // 2


def get_path(value: object, path: str | Sequence[str]) -> AnyJson:
    """Returns the value at a path, or UNDEFINED."""
    parts = _parts_in(value, path)
    for part in parts:
        value = member(value, part)
        if value is UNDEFINED:
            return UNDEFINED
    return value


def member(value: object, name: str) -> AnyJson:
    """Returns a member of an object, an element of a list, or a length; UNDEFINED if absent."""
    if isinstance(value, Mapping):
        return value.get(name, UNDEFINED)
    if isinstance(value, str | list | tuple):
        if name == "length":
            return text_length(value) if isinstance(value, str) else len(value)
        index = _index(name)
        if index is not None and index < len(value):
            return value[index]
    return UNDEFINED


def _index(name: str) -> int | None:
    """Returns a path part as an index, or None for any other name."""
    is_index = name.isascii() and name.isdigit() and len(name) < 16 and (name[0] != "0" or name == "0")
    return int(name) if is_index else None


def set_path(target: JsonObject, path: str | Sequence[str], value: object) -> None:
    """Sets the value at a path, creating missing objects and lists as n8n does.

    Raises OverflowError for an index far beyond the end of its list.
    """
    parts = _parts_in(target, path)
    parent: JsonValue = target
    for index, part in enumerate(parts[:-1]):
        child = member(parent, part)
        if not isinstance(child, dict | list):
            child = [] if _index(parts[index + 1]) is not None else {}
            _put_one(parent, part, child)
        parent = child
    _put_one(parent, parts[-1], value)


def _put_one(target: AnyJson, name: str, value: object) -> None:
    if isinstance(target, list):
        index = _index(name)
        if index is None:
            return
        if index > len(target) + _MAX_GAP:
            raise OverflowError(f"The list has {len(target)} elements, and its element {name} would be set.")
        target.extend([None] * (index + 1 - len(target)))
        target[index] = value
    else:
        target[name] = value


def delete_path(target: JsonValue, path: str | Sequence[str]) -> None:
    """Removes the value at a path, if present."""
    parts = _parts_in(target, path)
    parent = get_path(target, parts[:-1]) if len(parts) > 1 else target
    if isinstance(parent, dict):
        parent.pop(parts[-1], None)
    elif isinstance(parent, list):
        index = _index(parts[-1])
        if index is not None and index < len(parent):
            parent[index] = None


def deep_copy(value: object) -> AnyJson:
    """Returns a deep copy in plain dicts and lists."""
    if type(value) in SCALARS:
        return value
    if is_object(value):
        return {name: deep_copy(member) for name, member in value.items()}
    if is_list(value):
        return [deep_copy(member) for member in value]
    return value


def strict_key(value: AnyJson) -> str:
    """Returns a key that is equal only for equal values of the same type."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_text(name)}:{strict_key(value[name])}" for name in sorted(value)) + "}"
    return json_text(value) if value is not UNDEFINED else "undefined"


def fuzzy_key(value: JsonValue) -> str:
    """Returns a key that ignores small type differences: 3 and '3'; null, '' and an empty list."""
    if is_missing(value) or value == "" or (is_list(value) and not value):
        return ""
    return strict_key(value) if is_object(value) or is_list(value) else text(value)
