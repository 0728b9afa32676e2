"""One call: what is sent, whether it may be sent again, and what its response is."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from steward_client.decoding import Record, read_record
from steward_client.errors import NoResponse, StewardError, refusal, seconds_of

TRIES = 3
DEADLINE_SECONDS = 30.0
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_AGAIN = frozenset({429, 502, 503, 504})


class Absent(Enum):
    """Stands for a field that is not sent; None is sent as null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


class HasId(Protocol):
    """A record with an id, such as a run."""

    @property
    def id(self) -> str: ...


Id = str | HasId


@dataclass(frozen=True)
class Operation:
    """A row of the document: where it is, whether it may be sent again, and what its response holds."""

    method: str
    path: str
    idempotent: str
    answer: type[Record]
    field: str | None


@dataclass(frozen=True)
class Call:
    """One call as it is sent, at every try the same."""

    operation: Operation
    path: str
    query: Mapping[str, str]
    body: Mapping[str, Any] | None

    @property
    def key(self) -> str | None:
        """Returns the idempotency key that is sent."""
        return (self.body or {}).get("idempotency_key")

    @property
    def may_be_repeated(self) -> bool:
        """Whether a second try can do no harm: a read, or a call with its key or version."""
        if self.operation.idempotent == "by_version":
            return bool((self.body or {}).keys() & {"version", "automation_version"})
        return self.operation.idempotent == "yes" or (
            self.operation.idempotent == "by_key" and self.key is not None
        )


def call_of(
    operation: Operation, ids: Mapping[str, Any], query: Mapping[str, Any], body: Mapping[str, Any]
) -> Call:
    """Builds the call with these values; one by key gets a key when it has none."""
    path = operation.path
    for name, value in ids.items():
        text = value if isinstance(value, str | int) else value.id
        path = path.replace(f"{{{name}}}", quote(str(text), safe=""))
    values = {name: value for name, value in body.items() if value is not ABSENT}
    if operation.idempotent == "by_key" and not values.get("idempotency_key"):
        values["idempotency_key"] = ulid()
    return Call(
        operation,
        path,
        {name: _text(value) for name, value in query.items() if value is not ABSENT},
        _plain(values) if operation.method in ("POST", "PATCH") else None,
    )


def ulid() -> str:
    """Makes a ULID: the time in milliseconds and 80 random bits."""
    number = (int(time.time() * 1000) << 80) | secrets.randbits(80)
    return "".join(_DIGITS[(number >> shift) & 31] for shift in range(125, -1, -5))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


Outcome = httpx.Response | httpx.TransportError


class Tries:
    """Counts the tries of one call: at most three, within the deadline, where a second does no harm."""

    def __init__(self, call: Call, now: float) -> None:
        self._call = call
        self._ends_at = now + DEADLINE_SECONDS
        self._count = 0
        self._is_lost = False
        self._has_new_token = False

    def needs_token(self, outcome: Outcome) -> bool:
        """Whether the token was not accepted; true once, since a new one must be."""
        if isinstance(outcome, httpx.Response) and outcome.status_code == 401 and not self._has_new_token:
            self._has_new_token = "invalid_token" in outcome.headers.get("www-authenticate", "")
            return self._has_new_token
        return False

    def wait(self, outcome: Outcome, now: float) -> float | None:
        """Returns the seconds until the next try; None when the outcome is the last."""
        self._count += 1
        if isinstance(outcome, httpx.Response):
            if outcome.status_code not in _AGAIN or _body(outcome).get("code") == "not_configured":
                return None
            was_done = outcome.status_code != 429
        else:
            was_done = not isinstance(outcome, _UNSENT)
        if not self._call.may_be_repeated or self._count == TRIES:
            return None
        told = seconds_of(outcome.headers) if isinstance(outcome, httpx.Response) else None
        seconds = random.uniform(0.5, min(4.0, 2.0**self._count)) if told is None else float(told)
        if now + seconds > self._ends_at:
            return None
        self._is_lost = self._is_lost or was_done
        return seconds

    def result(self, outcome: Outcome) -> Any:
        """Returns the `data` of a response as a record. Raises StewardError, NoResponse."""
        if isinstance(outcome, httpx.TransportError):
            is_unsent = isinstance(outcome, _UNSENT)
            what = "The service cannot be reached" if is_unsent else "The response was lost"
            raise NoResponse(
                f"{what}: {type(outcome).__name__}.", idempotency_key=self._call.key
            ) from outcome
        data = data_of(outcome, key=self._call.key, is_lost=self._is_lost)
        return read_record(self._call.operation.answer, data)


def data_of(response: httpx.Response, *, key: str | None = None, is_lost: bool = False) -> Mapping[str, Any]:
    """Returns the `data` of a response. Raises StewardError."""
    body = _body(response)
    if response.is_success and body.get("success") is True:
        data: Mapping[str, Any] = body["data"]
        return data
    if response.is_success or response.is_redirect:
        raise StewardError(
            "This is not a response of Steward: check the address.", status=response.status_code
        )
    raise refusal(response.status_code, body, response.headers, key=key, is_lost=is_lost)


def _body(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:  # a page of a proxy
        return {}
    return body if isinstance(body, dict) else {}


class Group:
    """The operations of one noun."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def _call(self, operation: Operation, ids: Any, query: Any, body: Any) -> Any:
        answer = self._transport.call(call_of(operation, ids, query, body))
        return getattr(answer, attribute(operation)) if operation.field else answer

    def _pages(self, operation: Operation, ids: Any, query: Any, body: Any) -> Iterator[Any]:
        cursor: Any = ABSENT
        while cursor is not None:
            page = self._transport.call(call_of(operation, ids, {**query, "cursor": cursor}, body))
            yield from getattr(page, attribute(operation))
            cursor = page.next_cursor


class AsyncGroup:
    """The operations of one noun, to be awaited."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    async def _call(self, operation: Operation, ids: Any, query: Any, body: Any) -> Any:
        answer = await self._transport.call(call_of(operation, ids, query, body))
        return getattr(answer, attribute(operation)) if operation.field else answer

    async def _pages(self, operation: Operation, ids: Any, query: Any, body: Any) -> AsyncIterator[Any]:
        cursor: Any = ABSENT
        while cursor is not None:
            page = await self._transport.call(call_of(operation, ids, {**query, "cursor": cursor}, body))
            for record in getattr(page, attribute(operation)):
                yield record
            cursor = page.next_cursor


def attribute(operation: Operation) -> str:
    """Names the attribute that holds what an operation answers."""
    return operation.answer.KINDS[operation.field or ""][0]
