"""Reads request bodies within their size and time limits and parses strict JSON."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Any

from steward.model.refusals import Malformed, TooLarge, UnsupportedMediaType

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

MAX_DISCARDED = 8 * 1024 * 1024
_DEEPEST = 64
_LONGEST_NUMBER = 40
# After 5 seconds a body must arrive at 1 KiB a second or faster.
PATIENCE_SECONDS = 5.0
SLOWEST = 1024

_TYPE = re.compile(r'application/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?', re.IGNORECASE)
# Possessive, so that matching is linear: an unterminated string is one token up to the body's end.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9][0-9.eE+-]{40,}+")
# How much a bracket changes the depth, and all other bytes.
_STEPS = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1)}
_NO_BRACKETS = bytes(set(range(256)) - _STEPS.keys())
# A word, such as a number or `true`, becomes `xxx`, and all between words blanks.
_BETWEEN_WORDS = b' \t\n\r\f\v[]{}:,"'
_WORDS = bytes(ord(" " if byte in _BETWEEN_WORDS else "x") for byte in range(256))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class ClientDisconnected(Exception):
    """The client disconnected before its body was complete."""


async def read_bytes(receive: Receive, limit: int, *, patience: float = PATIENCE_SECONDS) -> bytes:
    """Reads the whole body.

    Raises TooLarge past `limit`, after discarding up to 8 MiB of the rest; TimeoutError when the body arrives
    too slowly; ClientDisconnected.
    """
    parts: list[bytes] = []
    size = 0
    began_at = asyncio.get_running_loop().time()
    async with asyncio.timeout(patience) as bound:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            part: bytes = message.get("body", b"")
            size += len(part)
            if size <= limit:
                if part:
                    parts.append(part)
            else:
                parts = []
                if size > limit + MAX_DISCARDED:
                    raise TooLarge
            if not message.get("more_body", False):
                break
            bound.reschedule(began_at + patience + size / SLOWEST)
    if size > limit:
        raise TooLarge
    return parts[0] if len(parts) == 1 else b"".join(parts)


class LargeBody:
    """Receives a body that may not fit into the buffers between the client and the service.

    If the service responds and closes before such a body is read, the client's connection is reset, and the
    client, or a proxy in front of the service, may not see the response.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0
        self._is_complete = False

    async def __call__(self) -> Mapping[str, Any]:
        """Receives the next message of the body."""
        message = await self._receive()
        self._size += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        return message

    async def discard_rest(self) -> None:
        """Reads and discards the rest of the body, up to 8 MiB in all, unless it arrives too slowly."""
        if not self._is_complete and self._size <= MAX_DISCARDED:
            with suppress(TooLarge, TimeoutError, ClientDisconnected):
                await read_bytes(self, 0)


def is_json(content_type: str) -> bool:
    """Returns whether a Content-Type denotes JSON in UTF-8."""
    return _TYPE.fullmatch(content_type.strip()) is not None


async def read_json(receive: Receive, headers: Mapping[bytes, bytes], *, limit: int, values: int) -> Any:
    """Reads and parses a JSON body; an empty body is `{}`.

    Raises UnsupportedMediaType, TooLarge and Malformed, in this order.
    """
    coded = headers.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity")
    typed = is_json(headers.get(b"content-type", b"").decode("latin-1"))
    try:
        body = await read_bytes(receive, limit)
    except TooLarge:
        if coded or not typed:
            raise UnsupportedMediaType from None
        raise
    if not body:
        return {}
    if coded or not typed:
        raise UnsupportedMediaType
    return parse(body, values)


def parse(body: bytes, max_values: int) -> Any:
    """Parses a JSON value within the bounds of depth, values and digits. Raises Malformed."""
    _check_bounds(body, max_values)
    try:
        if body.startswith(b"\xef\xbb\xbf"):
            raise Malformed("The body starts with a byte order mark. Send plain UTF-8.")
        value = _DECODER.decode(body.decode("utf-8"))
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise Malformed("The body contains text that is not valid Unicode.") from None
    except (ValueError, RecursionError):
        raise Malformed from None
    return value


def _check_bounds(body: bytes, max_values: int) -> None:
    """Checks depth, number of values and length of numbers; counting brackets suffices for most bodies."""
    opened = _opened(body)
    if (
        opened <= _DEEPEST
        and opened + body.count(b",") < max_values
        and (len(body) <= _LONGEST_NUMBER or not _LONG_NUMBER.search(body))
    ):
        return
    most_texts = 2 * max_values + 1  # each value may have a key
    structure, texts = _TEXT.subn(b'"', body, most_texts + 1)
    words = (b" " + structure.translate(_WORDS)).count(b" x")
    keys = structure.count(b":")
    if texts > most_texts or _opened(structure) + texts + words - keys > max_values:
        raise Malformed(f"The body contains more than {max_values} values.")
    steps = map(_STEPS.__getitem__, structure.translate(None, _NO_BRACKETS))
    if any(depth > _DEEPEST for depth in accumulate(steps)):
        raise Malformed(f"The body is nested more than {_DEEPEST} deep.")
    if any(_digits(hit[0]) > _LONGEST_NUMBER for hit in _LONG_NUMBER.finditer(structure)):
        raise Malformed(f"A number has more than {_LONGEST_NUMBER} digits.")


def _opened(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def _digits(number: bytes) -> int:
    return sum(48 <= byte <= 57 for byte in number)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("An object has the same name twice.")
    return members


def _no_constant(name: str) -> Any:
    raise Malformed(f"{name} is not JSON.")


# One decoder for all bodies: json.loads would build one for each.
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
