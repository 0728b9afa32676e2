"""The shared strict types of bodies and queries."""

import base64
import binascii
import re
import unicodedata
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from steward.model.ids import is_id
from steward.model.instants import read_time
from steward.scheduling.zones import NO_SUCH_ZONE, zone

MAX_INTEGER = 2**53 - 1
_LONGEST_TEXT = 65_536
_MAX_LIMIT = 200
ID_PATTERN = r"^[0-9A-HJKMNP-TV-Z]{26}$"
TEMPLATE_ID_PATTERN = "^[a-z0-9][a-z0-9-]{1,80}$"
PLATFORM_PATTERN = "^[a-z][a-z0-9_]{1,63}$"

_MIME_TYPE_PATTERN = "^[A-Za-z0-9!#$&^_.+-]{1,63}/[A-Za-z0-9!#$&^_.+-]{1,127}$"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_BLANK_OFFSET = re.compile(r"[0-9] [0-9]{2}:[0-9]{2}\Z")
_QUERY_INTEGER = re.compile(r"-?[0-9]{1,16}")
_TEMPLATE_ID = re.compile(r"[a-z0-9][a-z0-9-]{1,80}")
_PLATFORM = re.compile(r"[a-z][a-z0-9_]{1,63}")
_MIME_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,63}/[A-Za-z0-9!#$&^_.+-]{1,127}")

T = TypeVar("T")


class RequestBody(BaseModel):
    """A request body: unknown fields are refused at every level."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class EmptyBody(RequestBody):
    """The body `{}`."""


class QueryParameters(BaseModel):
    """Query parameters: each arrives as text; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def field_error(message: str) -> PydanticCustomError:
    """Returns the error of a field, for a validator to raise."""
    return PydanticCustomError("plain", "{words}", {"words": message})


def _int64(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise field_error("Give a whole number.")
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise field_error("The number is out of range.")
    return value


def _number(value: Any) -> Any:
    if type(value) is int:
        value = float(value) if abs(value) > MAX_INTEGER else value
    elif type(value) is not float:
        raise field_error("Give a number.")
    if value in (float("inf"), float("-inf")):
        raise field_error("The number is too large.")
    return value


def _zone(value: Any) -> Any:
    if zone(_text(value)) is None:
        raise field_error(NO_SUCH_ZONE)
    return value


def _text(value: Any) -> Any:
    if type(value) is not str:
        raise field_error("Give text.")
    if "\x00" in value:
        raise field_error("The text contains a character that is not allowed (U+0000).")
    if len(value) > _LONGEST_TEXT:
        raise field_error(f"Give at most {_LONGEST_TEXT} characters.")
    return value


def _name(value: Any) -> Any:
    value = unicodedata.normalize("NFC", _text(value)).strip()
    if _CONTROL.search(value):
        raise field_error("Control characters are not allowed here.")
    return value


def _base64(value: Any) -> Any:
    try:
        return base64.b64decode(value if type(value) is str else b"-", validate=True)
    except (binascii.Error, ValueError):
        raise field_error("Give the file's content as Base64, without line breaks.") from None


def _lines(value: Any) -> Any:
    value = unicodedata.normalize("NFC", _text(value)).strip()
    if _CONTROL_BUT_LINES.search(value):
        raise field_error("Control characters other than line feeds are not allowed here.")
    return value


def _id(value: Any) -> Any:
    if type(value) is not str or not is_id(value):
        raise field_error("Give an id: 26 digits and upper-case letters.")
    return value


def _timestamp(value: Any) -> datetime:
    instant = read_time(value) if type(value) is str else None
    if instant is None:
        # An unescaped + in an address arrives as a space.
        escape = " In an address, + is written as %2B." if _BLANK_OFFSET.search(str(value)) else ""
        raise field_error(f"Give a time such as 2026-11-20T07:00:00Z, with Z or an offset.{escape}")
    return instant


def _boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise field_error("Give true or false.")
    return value


def _query_integer(value: Any) -> Any:
    if type(value) is int:
        return value
    if type(value) is not str or not _QUERY_INTEGER.fullmatch(value):
        raise field_error("Give a whole number.")
    return _int64(int(value))


def _query_boolean(value: Any) -> Any:
    if type(value) is bool:
        return value
    if value not in ("true", "false"):
        raise field_error("Give true or false.")
    return value == "true"


def _query_list(value: Any) -> Any:
    if type(value) is not str:
        return value
    items = value.split(",")
    if any(not item or item != item.strip() for item in items):
        raise field_error("Separate the values by commas, without blanks.")
    if len(set(items)) != len(items):
        raise field_error("Name each value once.")
    return items


def _unique(items: list[T]) -> list[T]:
    if len({repr(item) for item in items}) != len(items):
        raise field_error("Name each value once.")
    return items


def _pattern(pattern: re.Pattern[str], words: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if type(value) is not str or not pattern.fullmatch(value):
            raise field_error(words)
        return value

    return BeforeValidator(check)


def check_open_json(value: Any) -> Any:
    """Validates the strings and numbers of JSON that is stored unchanged. Raises the error of a field."""
    if type(value) is not dict:
        raise field_error("Give an object.")
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, str):
            _text(item)
        elif isinstance(item, float):
            _number(item)
    return value


def _limit(value: int) -> int:
    return min(value, _MAX_LIMIT)


def _from(lowest: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", "minimum": lowest, "maximum": MAX_INTEGER})


def absent(value: Any, *, alias: str | None = None) -> Any:
    """Returns an optional field; `value` stands for its absence and is not in the schema."""
    return Field(default_factory=lambda: value, alias=alias)


# Of bodies -------------------------------------------------------------------------------------------------

Int64 = Annotated[int, BeforeValidator(_int64), _from(-MAX_INTEGER)]
Positive = Annotated[int, BeforeValidator(_int64), Field(ge=1), _from(1)]
NotNegative = Annotated[int, BeforeValidator(_int64), Field(ge=0), _from(0)]
Number = Annotated[float, BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_boolean)]
Text = Annotated[str, BeforeValidator(_text), Field(max_length=_LONGEST_TEXT)]
ZoneText = Annotated[str, BeforeValidator(_zone), Field(max_length=_LONGEST_TEXT)]
PasswordText = Annotated[Text, Field(min_length=1, max_length=1024)]
NameText = Annotated[str, BeforeValidator(_name), Field(min_length=1, max_length=120)]
ReasonText = Annotated[str, BeforeValidator(_lines), Field(min_length=1, max_length=500)]
CommentText = Annotated[str, BeforeValidator(_lines), Field(max_length=500)]
IdText = Annotated[str, BeforeValidator(_id), WithJsonSchema({"type": "string", "pattern": ID_PATTERN})]
Timestamp = Annotated[
    datetime, BeforeValidator(_timestamp), WithJsonSchema({"type": "string", "format": "date-time"})
]
TemplateIdText = Annotated[
    str,
    _pattern(_TEMPLATE_ID, "Give a template id: lower-case letters, digits and hyphens."),
    WithJsonSchema({"type": "string", "pattern": TEMPLATE_ID_PATTERN}),
]
PlatformText = Annotated[
    str,
    _pattern(_PLATFORM, "Give a platform: lower-case letters, digits and underscores."),
    WithJsonSchema({"type": "string", "pattern": PLATFORM_PATTERN}),
]
IdempotencyKey = Annotated[
    str,
    _pattern(re.compile(r"[\x21-\x7e]{1,200}"), "Give 1 to 200 visible ASCII characters without blanks."),
    WithJsonSchema({"type": "string", "pattern": "^[\\x21-\\x7E]+$", "minLength": 1, "maxLength": 200}),
]
OpenObject = Annotated[dict[str, Any], BeforeValidator(check_open_json), WithJsonSchema({"type": "object"})]
FileContent = Annotated[
    bytes, BeforeValidator(_base64), WithJsonSchema({"type": "string", "contentEncoding": "base64"})
]
FileName = Annotated[str, BeforeValidator(_name), Field(min_length=1, max_length=255)]
MimeTypeText = Annotated[
    str,
    _pattern(_MIME_TYPE, "Give a MIME type, such as text/csv."),
    WithJsonSchema({"type": "string", "pattern": _MIME_TYPE_PATTERN}),
]
Unique = AfterValidator(_unique)
# Bodies are strict; this lets a JSON string be read as an enum: Annotated[Mode, FromJson].
FromJson = Field(strict=False)

# Of queries ------------------------------------------------------------------------------------------------

QueryInt = Annotated[int, BeforeValidator(_query_integer), _from(-MAX_INTEGER)]
QueryPositive = Annotated[int, BeforeValidator(_query_integer), Field(ge=1), _from(1)]
QueryNotNegative = Annotated[int, BeforeValidator(_query_integer), Field(ge=0), _from(0)]
QueryFlag = Annotated[bool, BeforeValidator(_query_boolean), WithJsonSchema({"type": "boolean"})]
CommaList = BeforeValidator(_query_list)  # Annotated[list[AutomationState], CommaList]
SearchText = Annotated[str, BeforeValidator(_name), Field(min_length=1, max_length=120)]
Limit = Annotated[QueryPositive, AfterValidator(_limit)]
CursorText = Annotated[str, BeforeValidator(_text), Field(max_length=512)]


class PageQuery(QueryParameters):
    """The two parameters of every list."""

    limit: Limit = 50
    cursor: CursorText | None = None
