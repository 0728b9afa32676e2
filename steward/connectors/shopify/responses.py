"""Reads Shopify's responses: its errors as common errors, its ids, numbers and times; no I/O."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from steward.outbound.errors import (
    CallError,
    Invalid,
    MissingRight,
    PlatformUnavailable,
    RemoteNotFound,
    Stale,
    Throttled,
    Unauthorized,
    UnusableResponse,
    WrongAddress,
)
from steward.outbound.response import Decoded, PlatformResponse

Row: TypeAlias = dict[str, Decoded]

_GID = re.compile(r"gid://shopify/([A-Za-z]+)/([0-9]{1,20})(?:\?.*)?")
_SHOP_STATES = {
    402: "This store is frozen because a Shopify bill is unpaid. No call works until it is paid.",
    423: "Shopify has locked this store. Ask Shopify support for the reason.",
}
# Codes of a failed compare-and-swap, and of a missing object.
_STALE_CODES = frozenset(
    {"CHANGE_FROM_QUANTITY_STALE", "COMPARE_QUANTITY_STALE", "STALE_OBJECT", "INVALID_COMPARE_DIGEST"}
)
_NOT_FOUND_CODES = frozenset(
    (
        *("PRODUCT_DOES_NOT_EXIST", "PRODUCT_VARIANT_DOES_NOT_EXIST", "NOT_FOUND", "DOES_NOT_EXIST"),
        *("FULFILLMENT_ORDER_NOT_FOUND", "INVALID_INVENTORY_ITEM", "INVALID_LOCATION"),
    )
)
CONCURRENT_REQUEST = "IDEMPOTENCY_CONCURRENT_REQUEST"
# A key used for two requests, or one whose first attempt failed: both are defects of Steward.
KEY_DEFECTS = frozenset({"IDEMPOTENCY_KEY_PARAMETER_MISMATCH", "IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED"})


def gid(kind: str, number: str) -> str:
    """Returns the global id of an object. Raises RemoteNotFound unless it is a number of 1 to 20 digits."""
    if not number.isascii() or not number.isdigit() or len(number) > 20:
        raise RemoteNotFound
    return f"gid://shopify/{kind}/{number}"


def number_of(value: Decoded, kind: str | None = None) -> str:
    """Returns the bare number of an id: a global id, or a number as events contain it.

    Raises UnusableResponse.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    match = _GID.fullmatch(value) if isinstance(value, str) else None
    if match is None or (kind is not None and match[1] != kind):
        raise UnusableResponse("an object has no id of its kind")
    return match[2]


def kind_of(row: Row) -> str:
    """Returns the kind of object a global id names. Raises UnusableResponse."""
    value = row.get("id")
    match = _GID.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise UnusableResponse("an object has no id")
    return match[1]


def _error_of(response: PlatformResponse) -> CallError | None:
    """Returns the error in a response's status or body; None for a response whose data can be used.

    When a response holds both data and errors, the data is not used.
    """
    body = _object(response)
    text = response.quote(_error_text(body) or response.body[:300].decode("utf-8", "replace"))
    if response.status != 200:
        error = _of_status(response.status, text)
        error.status, error.attempts = response.status, response.attempts
        return error
    if body is None:
        return UnusableResponse("it is not an object")
    errors = body.get("errors")
    if errors:
        return _of_errors(errors, text)
    return None if isinstance(body.get("data"), dict) else UnusableResponse("it contains no data")


def _of_status(status: int, text: str) -> CallError:
    if status >= 500:
        return PlatformUnavailable("The store had a server error.", platform_text=text)
    if status == 401:
        return Unauthorized(
            "The store did not accept the key. It may be revoked, or the app removed from the store.",
            platform_text=text,
        )
    if status in (402, 403, 423):
        words = _SHOP_STATES.get(status, "The store refused access to this app. Check the app in Shopify.")
        return MissingRight("use this store", words, platform_text=text)
    if status in (404, 410) or 300 <= status < 400:
        return WrongAddress("There is no Shopify store at this address.", platform_text=text)
    return UnusableResponse(f"status {status} was not expected", platform_text=text)


def data_of(response: PlatformResponse) -> Row:
    """Returns the data of a successful response. Raises the error of any other."""
    error = _error_of(response)
    if error is not None:
        raise error
    return row_of((_object(response) or {}).get("data"))


def _of_errors(errors: Decoded, text: str) -> CallError:
    codes = {_code(error) for error in errors} if isinstance(errors, list) else set()
    if "THROTTLED" in codes:
        return Throttled(2.0, platform_text=text)
    if "ACCESS_DENIED" in codes:
        missing_right = _missing_right(text)
        return MissingRight(
            missing_right, f"The app lacks the right {missing_right}. Give it in Shopify.", platform_text=text
        )
    if "SHOP_INACTIVE" in codes:
        return MissingRight("use this store", _SHOP_STATES[402], platform_text=text)
    if "INTERNAL_SERVER_ERROR" in codes or "TIMEOUT" in codes:
        return PlatformUnavailable("The store had a server error.", platform_text=text)
    return UnusableResponse("it contains errors", platform_text=text)


def _code(error: Decoded) -> str:
    extensions = error.get("extensions") if isinstance(error, dict) else None
    code = extensions.get("code") if isinstance(extensions, dict) else None
    return code if isinstance(code, str) else ""


def _missing_right(text: str) -> str:
    """Returns the scope that a refusal names, such as `write_orders`."""
    named = re.search(r"\b(?:read|write)_[a-z_]+\b", text)
    return named[0] if named else "for this"


def _error_text(body: Row | None) -> str:
    errors = (body or {}).get("errors")
    if isinstance(errors, str):
        return errors
    messages = (
        [error.get("message") for error in errors if isinstance(error, dict)]
        if isinstance(errors, list)
        else []
    )
    return " ".join(message for message in messages if isinstance(message, str))


class UserError:
    """An entry of `userErrors`: its path, code and message."""

    def __init__(self, row: Row) -> None:
        path, code, message = row.get("field"), row.get("code"), row.get("message")
        self.path = tuple(str(segment) for segment in path) if isinstance(path, list) else ()
        self.code = code if isinstance(code, str) else ""
        self.message = message[:300] if isinstance(message, str) else ""
        index = row.get("elementIndex")
        self._element = index if isinstance(index, int) and not isinstance(index, bool) else None

    @property
    def item(self) -> int | None:
        """The 0-based index of the list item that it is about; null when it is about the whole call."""
        if self._element is not None:
            return self._element
        return next(
            (
                int(segment)
                for segment in self.path
                if segment.isascii() and segment.isdigit() and len(segment) < 6
            ),
            None,
        )

    def as_error(self) -> CallError:
        """Returns Stale, RemoteNotFound or Invalid."""
        if self.code in _STALE_CODES:
            return Stale(platform_text=self.message)
        if self.code in _NOT_FOUND_CODES or (not self.code and "does not exist" in self.message.lower()):
            return RemoteNotFound(platform_text=self.message)
        field = next((segment for segment in reversed(self.path) if not segment.isdigit()), "")
        message = f"The store refused it ({self.code or 'no code'})."
        return Invalid([field] if field else [], message, platform_text=self.message)


def user_errors(payload: Row, name: str = "userErrors") -> list[UserError]:
    """Returns the refusals of a payload. Raises UnusableResponse when it has no list of them."""
    return [UserError(row_of(row)) for row in list_of(payload, name)]


def row_of(value: Decoded) -> Row:
    """Returns an object. Raises UnusableResponse."""
    if not isinstance(value, dict):
        raise UnusableResponse("an object was expected")
    return value


def sub(row: Row, *names: str) -> Row:
    """Returns a nested object; empty when any on the path is null."""
    for name in names:
        value = row.get(name)
        if value is None:
            return {}
        row = row_of(value)
    return row


def list_of(row: Row, name: str) -> list[Decoded]:
    """Returns a list that must be present. Raises UnusableResponse."""
    value = row.get(name)
    if not isinstance(value, list):
        raise UnusableResponse(f"{name} is not a list")
    return value


def nodes_of(row: Row, name: str) -> list[Row]:
    """Returns the nodes of a connection. Raises UnusableResponse."""
    return [row_of(node) for node in list_of(row_of(row.get(name)), "nodes")]


def text_of(row: Row, name: str) -> str:
    """Returns a text that must be present. Raises UnusableResponse."""
    value = row.get(name)
    if not isinstance(value, str):
        raise UnusableResponse(f"{name} is not text")
    return value


def text(row: Row, name: str) -> str:
    """Returns a text; empty when it is null."""
    value = row.get(name)
    return value if isinstance(value, str) else ""


def texts_of(row: Row, name: str) -> tuple[str, ...]:
    """Returns a list of texts. Raises UnusableResponse."""
    values = list_of(row, name)
    if not all(isinstance(value, str) for value in values):
        raise UnusableResponse(f"{name} is not a list of texts")
    return tuple(str(value) for value in values)


def whole(row: Row, name: str) -> int | None:
    """Returns a whole number that may be null. Raises UnusableResponse."""
    value = row.get(name)
    if isinstance(value, str) and value.isascii() and value.lstrip("-").isdigit() and len(value) < 20:
        return int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise UnusableResponse(f"{name} is not a whole number")


def money(row: Row, *names: str) -> str | None:
    """Returns an amount as text, through nested objects; null when there is none.

    Raises UnusableResponse.
    """
    value = sub(row, *names[:-1]).get(names[-1])
    if value is None:
        return None
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise UnusableResponse(f"{names[-1]} is not an amount")
    return value


def instant_of(row: Row, name: str = "updatedAt") -> datetime | None:
    """Returns an instant of an object; null when it is absent or unreadable."""
    value = row.get(name)
    if not isinstance(value, str):
        return None
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None


def quoted(value: str) -> str:
    """Returns a value as one term of Shopify's search language; no character in it can end the term."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def either(name: str, values: Sequence[str]) -> str:
    """Returns a search for objects whose `name` is one of `values`."""
    return " OR ".join(f"{name}:{quoted(value)}" for value in values)


def errors_by_item(errors: Sequence[UserError]) -> Mapping[int | None, UserError]:
    """Returns the first refusal of each item; under null, the first refusal of the whole call."""
    first_errors: dict[int | None, UserError] = {}
    for error in errors:
        first_errors.setdefault(error.item, error)
    return first_errors


def _object(response: PlatformResponse) -> Row | None:
    try:
        decoded = response.json()
    except UnusableResponse:
        return None
    return decoded if isinstance(decoded, dict) else None
