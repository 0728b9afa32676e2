"""A request as the request handler reads it: path, headers, id and client."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from steward.api.http.address import source
from steward.api.http.body import LargeBody
from steward.api.http.context import AppContext
from steward.api.http.operation import ApiCall, Client, RawRequest
from steward.api.http.statuses import HEADERS_TOO_LARGE, TARGET_TOO_LONG
from steward.model.account import Session
from steward.model.ids import new_id

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
# Sends a complete response from its status, raw headers and body; returns False if it cannot.
_WriteWhole = Callable[[int, bytes, bytes], bool]
WRITE_WHOLE = "steward.write_whole"  # the key of this function in a server's extensions, if it offers one

_LONGEST_TARGET = 8 * 1024
_MAX_HEADERS = 32 * 1024
_SMALL_BODY = 64 * 1024
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def _length(received: list[tuple[bytes, bytes]]) -> int:
    """Returns the size of the headers in bytes, as they were sent."""
    length = 4 * len(received)
    for name, value in received:
        length += len(name) + len(value)
    return length


class ApiRequest:
    """A request as the request handler reads it."""

    __slots__ = (
        "_context",
        "_received",
        "_scope",
        "call",
        "has_several_authorizations",
        "headers",
        "id",
        "is_overlong",
        "large_body",
        "method",
        "operation",
        "path",
        "query_string",
        "receive",
        "touched",
        "write_whole",
    )

    def __init__(self, scope: Message, receive: Receive, context: AppContext) -> None:
        self._scope = scope
        self._context = context
        self.receive = receive
        extensions = scope.get("extensions")
        self.write_whole: _WriteWhole | None = extensions.get(WRITE_WHOLE) if extensions else None
        self.call: ApiCall | None = None
        self.operation = ""  # the name of the matched operation
        self.touched: Session | None = None
        received: list[tuple[bytes, bytes]] = scope["headers"]
        self._received = received
        self.headers: dict[bytes, bytes] = dict(received)
        self.method: str = scope["method"]
        raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8")
        self.path = raw.decode("latin-1")
        self.query_string: bytes = scope["query_string"]
        self.has_several_authorizations = (
            len(self.headers) != len(received) and sum(name == b"authorization" for name, _ in received) > 1
        )
        request_id = self.headers.get(b"x-request-id")
        if request_id is not None and _REQUEST_ID.fullmatch(request_id):
            self.id = request_id.decode("ascii")
        else:
            self.id = new_id(context.clock.now())
        self.large_body: LargeBody | None = None
        # A client that waits for "100 Continue" sends no body if it is refused.
        is_sent = self.method != "GET" and b"expect" not in self.headers
        if is_sent and self.size(_SMALL_BODY + 1) > _SMALL_BODY:
            self.receive = self.large_body = LargeBody(receive)
        self.is_overlong: int | None = None
        if len(raw) + len(self.query_string) > _LONGEST_TARGET:
            self.is_overlong = TARGET_TOO_LONG
        elif _length(received) > _MAX_HEADERS:
            self.is_overlong = HEADERS_TOO_LARGE

    def size(self, maximum: int) -> int:
        """Returns the declared size of the body in bytes; `maximum` if the caller declares none."""
        if b"transfer-encoding" in self.headers:
            return maximum
        declared = self.headers.get(b"content-length", b"0")
        return min(int(declared), maximum) if declared.isdigit() else maximum

    def client(self, cookie: str | None) -> Client:
        """Returns where the request comes from."""
        agent = self.headers.get(b"user-agent", b"").decode("latin-1").replace("\x00", "")
        return Client(self._address(), agent, cookie)

    def raw_request(self, values: tuple[str, ...]) -> RawRequest:
        """Returns the request for an endpoint outside the envelope's rules."""
        return RawRequest(
            path=self.path,
            values=values,
            headers=self._received,
            query_string=self.query_string,
            address=self._address(),
            receive=self.receive,
            request_id=self.id,
        )

    def _address(self) -> str:
        client = self._scope.get("client")
        forwarded = [value for name, value in self._received if name == b"x-forwarded-for"]
        return source(client[0] if client else None, forwarded, self._context.rules.trusted_proxies)
