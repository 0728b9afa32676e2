"""Reads on after a request that offers a protocol upgrade, which the service declines.

The parser takes whatever follows such a head for the other protocol, but a client only switches once the
server has agreed. Some clients offer HTTP/2 with the first request of a connection, including its body.
"""

from collections.abc import Sequence
from typing import Protocol

from httptools import HttpRequestParser

_FRAMING = (b"content-length", b"transfer-encoding")


class _Parsed(Protocol):
    """The callbacks of the HTTP parser."""

    def on_message_begin(self) -> None:
        """Called when a request begins."""

    def on_url(self, url: bytes) -> None:
        """Called for each part of the request target."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called for each header."""

    def on_headers_complete(self) -> None:
        """Called after the last header."""

    def on_body(self, body: bytes) -> None:
        """Called for each part of the body."""

    def on_message_complete(self) -> None:
        """Called after the whole request."""


class _Body:
    """Passes on all parser callbacks except those for the head it was primed with."""

    def __init__(self, to: _Parsed) -> None:
        self._to = to
        self.is_told = True
        self.on_body = to.on_body
        self.on_message_complete = to.on_message_complete

    def on_message_begin(self) -> None:
        if not self.is_told:
            self._to.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self.is_told:
            self._to.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.is_told:
            self._to.on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self.is_told:
            self._to.on_headers_complete()


def has_body(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Returns whether a request with these lower-case headers has a body."""
    return any(name in _FRAMING and value != b"0" for name, value in headers)


def body_parser(to: _Parsed, headers: Sequence[tuple[bytes, bytes]]) -> HttpRequestParser:
    """Returns a parser positioned at the start of the body of a request with these lower-case headers."""
    framing = [name + b": " + value + b"\r\n" for name, value in headers if name in _FRAMING]
    body = _Body(to)
    parser = HttpRequestParser(body)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
    parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")
    body.is_told = False
    return parser
