"""The callers of the HTTP measurements: kept-alive connections that send a request on each response."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import cast

CONNECTIONS = 16


@dataclass(slots=True)
class PendingRequests:
    """Requests still to be sent, and how many responses are still to come."""

    to_send: int
    to_come: int
    done: "asyncio.Future[None]"


class Caller(asyncio.Protocol):
    """One connection; every response must be a 200 or 201 of the length its head names."""

    def __init__(self, requests: Iterator[bytes], pending: PendingRequests) -> None:
        self._requests = requests
        self._pending = pending
        self._seen = b""
        self._transport: asyncio.Transport | None = None
        self.last = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the first request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass
        self._next()

    def next_of(self, requests: Iterator[bytes], pending: PendingRequests) -> None:
        """Sends the first of other requests, once everything before was answered."""
        self._requests, self._pending = requests, pending
        self._next()

    def _next(self) -> None:
        if self._pending.to_send and self._transport is not None:
            self._pending.to_send -= 1
            self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        """Counts a whole response and sends the next request."""
        self._seen += data
        head, separator, body = self._seen.partition(b"\r\n\r\n")
        if not separator:
            return
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            self._fail(self._seen)
            return
        start = head.lower().index(b"content-length: ") + 16
        if len(body) < int(head[start:].split(b"\r\n", 1)[0]):
            return
        self.last, self._seen = body, b""
        self._pending.to_come -= 1
        if self._pending.to_come == 0 and not self._pending.done.done():
            self._pending.done.set_result(None)
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        """A response that will not come."""
        self._fail(b"the connection was closed")

    def _fail(self, seen: bytes) -> None:
        if not self._pending.done.done():
            self._pending.done.set_exception(RuntimeError(seen[:500].decode("latin-1")))


def request(path: str, headers: Mapping[str, str]) -> bytes:
    """A GET as it is sent."""
    lines = [
        f"GET {path} HTTP/1.1",
        "host: 127.0.0.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def posting(path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """A POST of JSON as it is sent."""
    head = request(path, {**headers, "content-type": "application/json", "content-length": str(len(body))})
    return b"POST" + head.removeprefix(b"GET") + body


async def get(port: int, path: str, headers: Mapping[str, str]) -> bytes:
    """One response's body."""
    return await response_to(port, request(path, headers))


async def response_to(port: int, sent: bytes) -> bytes:
    """The body of the response to a request, over a connection of its own."""
    loop = asyncio.get_running_loop()
    pending = PendingRequests(1, 1, loop.create_future())
    transport, caller = await loop.create_connection(lambda: Caller(repeat(sent), pending), "127.0.0.1", port)
    await pending.done
    transport.close()
    return caller.last


async def flood(port: int, requests: Iterable[bytes], *, count: int) -> float:
    """Seconds that the first `count` of the requests take over sixteen connections."""
    loop = asyncio.get_running_loop()
    pending = PendingRequests(count, count, loop.create_future())
    begun = time.perf_counter()
    sent = iter(requests)
    connections = [
        await loop.create_connection(lambda: Caller(sent, pending), "127.0.0.1", port)
        for _ in range(CONNECTIONS)
    ]
    await pending.done
    spent = time.perf_counter() - begun
    for transport, _ in connections:
        transport.close()
    return spent
