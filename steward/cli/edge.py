"""Who may hold a connection, and how long a request's head may take (safety 6); bodies are reading.py's."""

from asyncio import BaseTransport, TimerHandle, Transport
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from steward.api import answers
from steward.api.address import is_among, source
from steward.api.calls import Reply
from steward.model.refusals import Unavailable
from steward.telemetry.metrics import Metrics

# What a request's line and headers may take, far beyond what is answered with 414 or 431 (contract 1.2).
MOST_HEAD = 128 * 1024


@dataclass(slots=True, kw_only=True)
class Edge:
    """The bounds of one listening process, and what it holds at the moment.

    Connections of trusted proxies count together only: everybody comes by them.
    """

    head_seconds: float = 10.0
    most: int = 1_000
    most_of_one: int = 100
    proxies: Sequence[IPv4Network | IPv6Network] = ()
    metrics: Metrics = field(default_factory=Metrics)
    record: Callable[[float], None] = field(init=False)
    held: int = 0
    by_address: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.record = self.metrics.recorder("steward_request_seconds")

    def admit(self, peer: str | None) -> str | None:
        """Counts a connection: the name it counts under, None when there are too many."""
        name = source(peer, (), ())
        is_shared = peer is not None and is_among(peer, self.proxies)
        if self.held >= self.most or (not is_shared and self.by_address[name] >= self.most_of_one):
            self.metrics.count("steward_connections_refused_total")
            return None
        self.held += 1
        self.by_address[name] += 1
        self.metrics.set("steward_connections", self.held)
        return name

    def leave(self, name: str) -> None:
        """One connection less."""
        self.held -= 1
        self.by_address[name] -= 1
        if not self.by_address[name]:
            del self.by_address[name]
        self.metrics.set("steward_connections", self.held)


class _Guarded(HttpToolsProtocol):
    """uvicorn's protocol within the bounds of an edge."""

    edge: ClassVar[Edge]
    _name: str | None = None
    _head: TimerHandle | None = None
    _head_bytes = 0
    _asked_at = 0.0

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(cast("Transport", transport))
        self._name = self.edge.admit(self.client[0] if self.client else None)
        if self._name is None:
            self.transport.write(_REFUSED)
            self.transport.close()
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        if self._name is not None:
            self.edge.leave(self._name)
            self._name = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._head is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_head()  # the next request on a kept connection, whatever it begins with
        if self._head is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head is not None and self._head_bytes > MOST_HEAD:
            self._end_slow()

    def on_headers_complete(self) -> None:
        self._head_is_there()
        self._asked_at = self.loop.time()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self.edge.record(self.loop.time() - self._asked_at)
        super().on_response_complete()

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._head = self.loop.call_later(self.edge.head_seconds, self._end_slow)

    def _head_is_there(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _end_slow(self) -> None:
        self._head = None
        self.edge.metrics.count("steward_connections_slow_total")
        self.transport.close()


def protocol(edge: Edge) -> type[HttpToolsProtocol]:
    """The protocol of a server within the bounds of `edge`."""
    return type("Guarded", (_Guarded,), {"edge": edge})


def _raw(reply: Reply) -> bytes:
    """A whole answer on a connection that ends with it."""
    headers = [*answers.FIXED_HEADERS, *reply.headers, (b"content-length", b"%d" % len(reply.body))]
    lines = [b"HTTP/1.1 %d Service Unavailable" % reply.status, b"connection: close"]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join([*lines, b"", reply.body])


_REFUSED = _raw(answers.refuse(Unavailable("Too many connections. Try again shortly.", retry_after=1)))
