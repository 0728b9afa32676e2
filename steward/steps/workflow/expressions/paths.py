"""Property paths of expressions, evaluated in this process without JavaScript.

A path yields exactly what the sandbox would yield: own members only, `length` as JavaScript counts it, and
undefined for a missing member as well as for a path through null. See
docs/design/imports-n8n.md#where-expressions-run.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import Final, TypeAlias

from steward.model.json import JsonValue


class Undefined(Enum):
    """JavaScript's undefined, which JSON does not have."""

    UNDEFINED = "undefined"


UNDEFINED: Final = Undefined.UNDEFINED

# The value of an expression: JSON, undefined, or (only as the whole value) NaN or an infinity.
Value: TypeAlias = "JsonValue | Undefined"


@dataclass(frozen=True, slots=True)
class JsDate:
    """A JavaScript Date, represented by its ISO text, as in JSON."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def milliseconds(self) -> float:
        """The milliseconds since 1970; NaN for years without four digits."""
        try:
            return round(datetime.fromisoformat(self.text).timestamp() * 1000)
        except ValueError:
            return math.nan


class PathRoot(StrEnum):
    """The root of a path."""

    JSON = "json"  # $json, $input.item.json
    FIRST = "first"  # $input.first().json
    LAST = "last"
    STEP_ITEM = "step_item"  # $('X').item.json
    STEP_FIRST = "step_first"
    STEP_LAST = "step_last"
    NODE = "node"  # $node["X"].json: the item at the same index
    ITEM_INDEX = "item_index"
    RUN_INDEX = "run_index"


@dataclass(frozen=True, slots=True)
class Path:
    """A root, the step that it names, if any, and the keys that follow."""

    root: PathRoot
    step: str | None
    keys: tuple[str, ...]


class InheritedMember(Exception):
    """Raised for a member that JavaScript inherits; the sandbox must then evaluate the path."""


_QUOTED = r"""(?:'([^'\\\n]*)'|"([^"\\\n]*)")"""
_ROOT = re.compile(
    rf"""\s*(?:
      (?P<json>\$json|\$input\.item\.json)
    | \$input\.(?P<end>first|last)\(\)\.json
    | \$\(\s*{_QUOTED}\s*\)\.(?P<of>item|first\(\)|last\(\))\.json
    | \$node\[\s*{_QUOTED}\s*\]\.json
    | \$node\.(?P<dotted>[A-Za-z_]\w*)\.json
    | (?P<index>\$itemIndex|\$runIndex)
    )(?![\w$(])""",
    re.VERBOSE | re.ASCII,
)
_KEY = re.compile(
    rf"""(?:\??\.(?P<name>[A-Za-z_$\u00aa-\uffdc][\w$]*)|(?:\?\.)?\[\s*(?:(?P<number>0|[1-9]\d{{0,8}})|{_QUOTED})\s*\])""",
    re.VERBOSE,
)
_END = re.compile(r"\s*\Z")
_REFUSED = {"constructor", "prototype", "__proto__"}


def read_path(code: str) -> Path | None:
    """Parses a chunk as a path; returns None for calls, operators and refused names."""
    root = _ROOT.match(code)
    if root is None:
        return None
    keys: list[str] = []
    position = root.end()
    while key := _KEY.match(code, position):
        name = next(part for part in key.groups() if part is not None)
        if name in _REFUSED or (key["name"] is not None and not _is_name(name)):
            return None
        keys.append(name)
        position = key.end()
    if not _END.match(code, position):
        return None
    kind, step = _root_of(root)
    return Path(kind, step, tuple(keys))


def _is_name(name: str) -> bool:
    return name.replace("$", "_").isidentifier()


def _root_of(match: re.Match[str]) -> tuple[PathRoot, str | None]:
    named = next((part for part in (*match.groups()[2:4], *match.groups()[5:7]) if part is not None), None)
    if match["json"]:
        return PathRoot.JSON, None
    if match["end"]:
        return (PathRoot.FIRST if match["end"] == "first" else PathRoot.LAST), None
    if match["index"]:
        return (PathRoot.ITEM_INDEX if match["index"] == "$itemIndex" else PathRoot.RUN_INDEX), None
    if match["of"]:
        kinds = {"item": PathRoot.STEP_ITEM, "first()": PathRoot.STEP_FIRST, "last()": PathRoot.STEP_LAST}
        return kinds[match["of"]], named
    return PathRoot.NODE, named or match["dotted"]


# Members that JavaScript inherits from prototypes; only the sandbox can evaluate them.
_OF_ALL = frozenset(
    re.findall(
        r"\w+",
        """toString toLocaleString valueOf hasOwnProperty isPrototypeOf propertyIsEnumerable
        __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__ constructor __proto__""",
    )
)
_OF_LIST = _OF_ALL | frozenset(
    re.findall(
        r"\w+",
        """at concat copyWithin entries every fill filter find findIndex findLast findLastIndex flat flatMap
        forEach includes indexOf join keys lastIndexOf map pop push reduce reduceRight reverse shift slice
        some sort splice toReversed toSorted toSpliced unshift values with""",
    )
)
_OF_TEXT = _OF_ALL | frozenset(
    re.findall(
        r"\w+",
        """anchor at big blink bold charAt charCodeAt codePointAt concat endsWith fixed fontcolor fontsize
        includes indexOf isWellFormed italics lastIndexOf link localeCompare match matchAll normalize padEnd
        padStart repeat replace replaceAll search slice small split startsWith strike sub substr substring sup
        toLocaleLowerCase toLocaleUpperCase toLowerCase toUpperCase toWellFormed trim trimEnd trimLeft
        trimRight trimStart""",
    )
)
_OF_NUMBER = _OF_ALL | {"toExponential", "toFixed", "toPrecision"}
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


def follow_path(value: Value, keys: Sequence[str]) -> Value:
    """Returns the member of `value` at `keys`, or UNDEFINED. Raises InheritedMember.

    The result is the data itself, not a copy.
    """
    for key in keys:
        if isinstance(value, Mapping):
            if key in value:
                value = value[key]
            elif key in _OF_ALL:
                raise InheritedMember(key)
            else:
                return UNDEFINED
        elif isinstance(value, list | tuple):
            if _INDEX.fullmatch(key):
                index = int(key)
                value = value[index] if index < len(value) else UNDEFINED
            elif key == "length":
                value = len(value)
            elif key in _OF_LIST:
                raise InheritedMember(key)
            else:
                return UNDEFINED
        else:
            value = _of_scalar(value, key)
    return value


def _of_scalar(value: Value, key: str) -> Value:
    if isinstance(value, str):
        return _of_text(value, key)
    if value is None or value is UNDEFINED:
        return UNDEFINED
    if key in (_OF_ALL if isinstance(value, bool) else _OF_NUMBER):
        raise InheritedMember(key)
    return UNDEFINED


def _of_text(value: str, key: str) -> Value:
    if key == "length":
        return _utf16_length(value)
    if _INDEX.fullmatch(key):
        if _utf16_length(value) != len(value):
            raise InheritedMember(key)  # beyond the BMP: JavaScript must cut the text
        index = int(key)
        return value[index] if index < len(value) else UNDEFINED
    if key in _OF_TEXT:
        raise InheritedMember(key)
    return UNDEFINED


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text) + sum(1 for character in text if character > "\uffff")


def as_text(value: Value) -> str | None:
    """Returns a value as part of a longer text, or None if only JavaScript can format it."""
    if value is None or value is UNDEFINED:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and -(2**53) <= value <= 2**53:
        return str(value)
    if isinstance(value, float):
        return _number_text(value)
    return None


def _number_text(value: float) -> str | None:
    """Formats a fraction as JavaScript does; returns None for very large and very small numbers."""
    if value.is_integer() and abs(value) <= 2**53:
        return str(int(value))
    return repr(value) if 1e-4 <= abs(value) < 1e16 else None
