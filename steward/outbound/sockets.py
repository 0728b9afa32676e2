"""Connects only to checked addresses and reports whether any byte was sent; client.py has the rules."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Iterable
from functools import cache
from typing import Any

import certifi
import httpcore
import httpx

from steward.outbound.address import Resolver, resolve_allowed
from steward.outbound.errors import CallRefused

# Errors that httpx and httpcore raise for a call that failed in transit.
FAILURES = (httpx.TransportError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
_CONNECT_ERRORS = (
    httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout,
    httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout,
)  # fmt: skip
_SOCKETS = 4  # of one connection
SEND_TRACKER = "steward.sent"


class SendTracker:
    """Records whether the first byte of a request may have been sent.

    `docs/design/writes.md#reading-the-response` says what that decides.
    """

    def __init__(self) -> None:
        self.started = False
        self.is_traced = False

    async def trace(self, name: str, info: object) -> None:
        """Records a step of the connection, which calls this at each step."""
        if name.endswith("send_request_headers.started"):
            self.started = True

    def not_sent(self, error: BaseException) -> bool:
        """Returns whether certainly nothing was sent; without a trace, by the kind of error."""
        return not self.started if self.is_traced else isinstance(error, _CONNECT_ERRORS)


class _Stream(httpcore.AsyncNetworkStream):
    """A connected stream that spends the rest of the connect timeout on TLS."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, deadline: float | None) -> None:
        self._inner = inner
        self._deadline = deadline

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if self._deadline is not None:
            timeout = max(self._deadline - asyncio.get_running_loop().time(), 0.001)
        return await self._inner.start_tls(ssl_context, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Resolves once, checks every address, connects to one and compares the peer's address with it."""

    def __init__(
        self,
        resolver: Resolver,
        private: Collection[str],
        inner: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._resolver = resolver
        self._private = private
        self._inner = inner or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Returns a stream to a checked address of `host`.

        Raises CallRefused, PlatformUnavailable, httpcore's errors.
        """
        now = asyncio.get_running_loop().time
        deadline = None if timeout is None else now() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await resolve_allowed(host, port, self._resolver, self._private)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        failure: Exception = httpcore.ConnectError()
        for address in addresses[:4]:
            remaining_s = None if deadline is None else deadline - now()
            if remaining_s is not None and remaining_s <= 0:
                raise httpcore.ConnectTimeout
            try:
                stream = await self._inner.connect_tcp(
                    str(address), port, remaining_s, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            peer = stream.get_extra_info("server_addr")
            if peer is None or str(peer[0]).partition("%")[0] != str(address).partition("%")[0]:
                await stream.aclose()
                raise CallRefused("the connection led to another address than the one checked")
            return _Stream(stream, deadline)
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises CallRefused: local sockets are never called."""
        raise CallRefused("local sockets are not called")

    async def sleep(self, seconds: float) -> None:
        """Raises CallRefused: only connection retries sleep, and those are off."""
        raise CallRefused("a connection is never retried automatically")


class _Incoming(httpx.AsyncByteStream):
    def __init__(self, inner: AsyncIterator[bytes], close: Any) -> None:
        self._inner = inner
        self._close = close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            yield chunk

    async def aclose(self) -> None:
        await self._close()


class GuardedTransport(httpx.AsyncBaseTransport):
    """The pool of one connection: 4 sockets, HTTP/1.1, no retries, no proxy, no environment settings."""

    def __init__(self, backend: httpcore.AsyncNetworkBackend, tls: ssl.SSLContext) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=_SOCKETS,
            max_keepalive_connections=_SOCKETS,
            keepalive_expiry=15.0,
            http1=True,
            http2=False,
            retries=0,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends one request. Raises CallRefused, PlatformUnavailable and httpcore's errors."""
        mark = request.extensions.get(SEND_TRACKER)
        extensions: dict[str, Any] = {"timeout": request.extensions.get("timeout", {})}
        if isinstance(mark, SendTracker):
            mark.is_traced = True
            extensions["trace"] = mark.trace
        response = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=extensions,
            )
        )
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Incoming(response.aiter_stream(), response.aclose),
        )

    async def aclose(self) -> None:
        """Closes every socket of the pool."""
        await self._pool.aclose()


# Reasons by OpenSSL's verification error number.
_VERIFY_ERRORS = {
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is self-signed, not signed by a known authority",
    19: "it was signed by an unknown authority",
    20: "it was signed by an authority that is not known, or the certificates between them are missing",
    21: "it was signed by an authority that is not known, or the certificates between them are missing",
    62: "it belongs to another host",
    64: "it belongs to another host",
}


def certificate_problem(error: BaseException | None) -> str | None:
    """Returns why a certificate was rejected; null for any other failure."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return _VERIFY_ERRORS.get(error.verify_code, error.verify_message[:200])
        error = error.__cause__ or error.__context__
    return None


@cache
def public_tls_context() -> ssl.SSLContext:
    """Returns the context for public servers, whose authorities are loaded once per process."""
    return tls_context()


def tls_context(authorities: str | None = None) -> ssl.SSLContext:
    """Returns a TLS context.

    It requires version 1.2 or later, checks certificate and name, and ignores the environment.
    `authorities` is a file of further certificate authorities, for tests and private networks.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cafile=certifi.where())
    if authorities is not None:
        context.load_verify_locations(cafile=authorities)
    return context
