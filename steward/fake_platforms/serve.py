"""Serves the fake platforms on a socket, and closes connections without a response for faults."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from steward.fake_platforms.application import DROP, FakePlatforms, create
from steward.fake_platforms.exchange import Row
from steward.fake_platforms.mail import serve_mail

Ready = Callable[[Row], None]


class _DroppingProtocol(HttpToolsProtocol):
    """uvicorn's protocol with an extension that closes a connection without a response.

    An application that ends without answering makes uvicorn send 500, which is a response.
    """

    def on_message_begin(self) -> None:
        """Gives the application a function that closes the connection."""
        super().on_message_begin()
        scope = cast(dict[str, Any], self.scope)
        scope["extensions"] = {**(scope.get("extensions") or {}), DROP: self._close}

    def _close(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()


class _Server(uvicorn.Server):
    """A server that reports when it is ready, and leaves the process's signals to the caller."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], *, own_signals: bool) -> None:
        super().__init__(config)
        self._ready = ready
        self._own_signals = own_signals

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Installs uvicorn's handlers, unless the caller has its own."""
        if self._own_signals:
            with super().capture_signals():
                yield
        else:
            yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening, then reports it."""
        await super().startup(sockets=sockets)
        if self.started:
            self._ready()


def refuse_production() -> None:
    """Raises RuntimeError when STEWARD_ENV is production."""
    if os.environ.get("STEWARD_ENV") == "production":
        raise RuntimeError(
            "The fake platforms of `steward sandbox` do not start where STEWARD_ENV is production."
        )


def listening(host: str, port: int) -> socket.socket:
    """Returns a bound socket; port 0 picks a free one. Raises OSError for an address in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Names the protocol, or asyncio would delay small responses by 40 ms to wait for more (TCP_NODELAY).
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def address(bound: socket.socket) -> str:
    """Returns the http address of a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server(
    platforms: FakePlatforms, ready: Callable[[], None], *, own_signals: bool = True
) -> uvicorn.Server:
    """Returns a server that is not running yet: `await server.serve(sockets=[…])`.

    Without `own_signals`, the caller ends it through `should_exit`.
    """
    config = uvicorn.Config(
        platforms,
        http=_DroppingProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # A caller that keeps a connection must not find it closed just as it sends a write.
        timeout_keep_alive=300,
        timeout_graceful_shutdown=1,
    )
    return _Server(config, ready, own_signals=own_signals)


def run(host: str, port: int, seed: int, *, ready: Ready | None = None) -> None:
    """Serves until interrupted; calls `ready` once with the response of `GET /sandbox`.

    Raises RuntimeError in production, OSError when the address is in use.
    """
    refuse_production()
    with listening(host, port) as bound:
        asyncio.run(_serve(create(seed, address(bound)), bound, ready))


async def _serve(platforms: FakePlatforms, bound: socket.socket, ready: Ready | None) -> None:
    async with mail_beside(platforms, bound) as described:

        def tell() -> None:
            if ready is not None:
                ready(described)

        await server(platforms, tell).serve(sockets=[bound])


@contextlib.asynccontextmanager
async def mail_beside(platforms: FakePlatforms, bound: socket.socket) -> AsyncIterator[Row]:
    """Serves mail on a free port of the same host; yields the response of `GET /sandbox` with its address."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve_mail(lambda: platforms.state.mailbox, reader, writer)

    with listening(bound.getsockname()[0], 0) as mail_bound:
        smtp_url = address(mail_bound).replace("http://", "smtp://")
        async with await asyncio.start_server(take, sock=mail_bound):
            yield {**platforms.described(), "mail": {"smtp_url": smtp_url}}
