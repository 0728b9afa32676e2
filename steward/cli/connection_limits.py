"""Limits on connections, and on the time that a request's head may take."""

import re
from asyncio import BaseTransport, TimerHandle, Transport
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from typing import Any, ClassVar, cast

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from steward.api.http import envelope
from steward.api.http.address import is_among, source
from steward.api.http.operation import Reply
from steward.api.http.request import WRITE_WHOLE
from steward.cli import upgrades
from steward.clock import Clock, SystemClock
from steward.model.ids import new_id
from steward.model.refusals import Malformed, Refusal, Unavailable
from steward.telemetry.metrics import Metrics

# Maximum size of a request's line and headers, well above what 414 and 431 reject.
MAX_HEAD_BYTES = 128 * 1024

# RFC 9112, section 3.2, and RFC 3986, section 3.2.2: a name, an address or nothing, and a port.
_HOST = re.compile(rb"(?:\[[0-9A-Za-z:.%_~!$&'()*+,;=-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
_MAY_LACK_HOST = ("0.9", "1.0")


class _BadHost(Exception):
    """Raised for a request without the single valid Host header that its HTTP version requires."""


def _check_host(headers: Sequence[tuple[bytes, bytes]], version: str) -> None:
    """Raises _BadHost for an HTTP version and headers, whose names are in lower case."""
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) == 1:
        if _HOST.fullmatch(hosts[0].strip(b" \t")) is None:
            raise _BadHost("The Host header is not a valid host name. Send the name of this service.")
    elif hosts:
        raise _BadHost("The request has more than one Host header. Send exactly one.")
    elif version not in _MAY_LACK_HOST:
        raise _BadHost("The request has no Host header. Send exactly one.")


def lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns headers as sent."""
    return b"".join([name + b": " + value + b"\r\n" for name, value in headers])


@dataclass(slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of one listening process, and its current connections.

    Connections of trusted proxies only count in the total, since all clients share them.
    """

    head_seconds: float = 10.0
    unread_seconds: float = 15.0  # between checks that a client reads a blocked response at 1 KiB/s or faster
    max_connections: int = 1_000
    max_per_address: int = 100
    proxies: Sequence[IPv4Network | IPv6Network] = ()
    metrics: Metrics = field(default_factory=Metrics)
    clock: Clock = field(default_factory=SystemClock)
    record: Callable[[float], None] = field(init=False)
    _server_headers_of: list[tuple[bytes, bytes]] = field(default_factory=list)
    _server_headers: bytes = b""
    open_connections: int = 0
    by_address: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.record = self.metrics.recorder("steward_request_seconds")

    def admit(self, peer: str | None) -> str | None:
        """Counts a connection; returns the name it counts under, or None if there are too many."""
        name = source(peer, (), ())
        is_shared = peer is not None and is_among(peer, self.proxies)
        if self.open_connections >= self.max_connections or (
            not is_shared and self.by_address[name] >= self.max_per_address
        ):
            self.metrics.count("steward_connections_refused_total")
            return None
        self.open_connections += 1
        self.by_address[name] += 1
        self.metrics.set("steward_connections", self.open_connections)
        return name

    def server_headers(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Returns the server's own headers as bytes, including the current date."""
        if headers is not self._server_headers_of:
            self._server_headers_of, self._server_headers = headers, lines(headers)
        return self._server_headers

    def leave(self, name: str) -> None:
        """Releases a closed connection."""
        self.open_connections -= 1
        self.by_address[name] -= 1
        if not self.by_address[name]:
            del self.by_address[name]
        self.metrics.set("steward_connections", self.open_connections)


class _Guarded(HttpToolsProtocol):
    """uvicorn's protocol with connection limits."""

    limits: ClassVar[ConnectionLimits]
    _name: str | None = None
    _head: TimerHandle | None = None
    _head_bytes = 0
    _is_whole = False  # whether the head ended in the data just received
    _requested_at = 0.0
    _unread: TimerHandle | None = None
    _unread_bytes = 0

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(cast("Transport", transport))
        self._name = self.limits.admit(self.client[0] if self.client else None)
        if self._name is None:
            self._refuse(Unavailable("Too many connections. Try again shortly.", retry_after=1))
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        self._cancel_reader_timer()
        if self._name is not None:
            self.limits.leave(self._name)
            self._name = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        is_head = self._head is not None or self.cycle is None or self.cycle.response_complete
        self._is_whole = False
        self._unset_keepalive_if_required()
        self._parse(data)
        if not is_head or self._is_whole:
            return
        if self._head is None:
            self._expect_head()  # next request on a kept connection
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._end_slow()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as offered:
            if upgrades.has_body(self.headers):
                self.cycle.more_body = True
                self.cycle.message_event.clear()
                self.parser = upgrades.body_parser(self, self.headers)
            if remaining_data := data[offered.args[0] :]:
                self._parse(remaining_data)
        except HttpParserError as error:
            cause = error.__context__
            self._end_unread(
                str(cause) if isinstance(cause, _BadHost) else "This is not a valid HTTP request."
            )

    def _end_unread(self, words: str) -> None:
        """Closes the connection after an unreadable request, once earlier requests are answered."""
        cycle = self.cycle
        if self.pipeline:
            # anything written now would be taken for the response to an earlier request
            self.transport.close()
        elif cycle is not None and not (cycle.response_complete or cycle.more_body):
            cycle.keep_alive = False
        else:
            self._refuse(Malformed(words))

    def _refuse(self, refusal: Refusal) -> None:
        self.transport.write(_raw(envelope.refuse(refusal), new_id(self.limits.clock.now())))
        self.transport.close()

    def on_headers_complete(self) -> None:
        self._is_whole = True
        self._cancel_head_timer()
        _check_host(self.headers, self.parser.get_http_version())
        self._requested_at = self.loop.time()
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        extensions: dict[str, Any] = {WRITE_WHOLE: partial(_write_response, self.limits, cycle)}
        cycle.scope["extensions"] = extensions
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.limits.record(self.loop.time() - self._requested_at)
        super().on_response_complete()

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._head = self.loop.call_later(self.limits.head_seconds, self._end_slow)

    def _cancel_head_timer(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        self._cancel_reader_timer()
        super().resume_writing()

    def _end_idle(self) -> None:
        # A closed connection would wait for its last response to be read without a time limit.
        if not self.transport.get_write_buffer_size():
            super().timeout_keep_alive_handler()
        elif self._unread is None:
            self._watch_reader()

    timeout_keep_alive_handler = _end_idle  # the name that uvicorn calls

    def _watch_reader(self) -> None:
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.limits.unread_seconds, self._check_reader)

    def _check_reader(self) -> None:
        self._unread = None
        if self._unread_bytes - self.transport.get_write_buffer_size() >= 1024 * self.limits.unread_seconds:
            self._watch_reader()
        else:
            self.limits.metrics.count("steward_connections_slow_total")
            self.transport.abort()

    def _cancel_reader_timer(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _end_slow(self) -> None:
        self._head = None
        self.limits.metrics.count("steward_connections_slow_total")
        self.transport.close()


def _write_response(
    limits: ConnectionLimits, cycle: RequestResponseCycle, status: int, head: bytes, body: bytes
) -> bool:
    """Writes a whole response like uvicorn's two messages; returns False if those are required."""
    if (
        cycle.flow.write_paused
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    server_headers = limits.server_headers(cycle.default_headers)
    cycle.transport.write(b"".join((STATUS_LINE[status], server_headers, head, b"\r\n", body)))
    cycle.message_event.set()
    cycle.on_response()
    return True


def protocol(limits: ConnectionLimits) -> type[HttpToolsProtocol]:
    """Returns the protocol class of a server limited by `limits`."""
    return type("Guarded", (_Guarded,), {"limits": limits})


def _raw(reply: Reply, request_id: str) -> bytes:
    """Returns the bytes of a response after which the connection is closed."""
    head = envelope.head(len(reply.body), request_id) + lines(reply.headers)
    return b"".join((STATUS_LINE[reply.status], head, b"connection: close\r\n\r\n", reply.body))
