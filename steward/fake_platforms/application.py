"""The ASGI application of all fake platforms: ledger, faults and the services' responses.

See `docs/design/fake-platforms.md`.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx

from steward.fake_platforms import catalogue, control, page
from steward.fake_platforms.deliveries import WebhookSender
from steward.fake_platforms.exchange import (
    ConnectionDropped,
    FakeRequest,
    FakeResponse,
    ResponseTooLate,
    Row,
    json_response,
    text_response,
)
from steward.fake_platforms.faults import InjectedFault
from steward.fake_platforms.slow import Slowness
from steward.fake_platforms.state import PlatformState
from steward.fake_platforms.woocommerce import api, key_page
from steward.fake_platforms.woocommerce.shop import FakeShop

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_Sleep = Callable[[float], Awaitable[None]]

DROP = "steward.fake_platforms.drop"
PATIENCE = "steward.fake_platforms.patience"
_SERVICES = (
    ("/wp-json", "woocommerce"),
    ("/sheets", "sheets"),
    ("/teams", "teams"),
    ("/slack", "slack"),
    ("/hooks", "webhook"),
    ("/s3", "s3"),
)


def _system_now() -> datetime:
    return datetime.now(UTC)


def create(
    seed: int,
    url: str,
    now: Callable[[], datetime] | None = None,
    *,
    deliver: httpx.AsyncBaseTransport | None = None,
    slow: Slowness | None = None,
    sleep: _Sleep = asyncio.sleep,
) -> "FakePlatforms":
    """Creates the fake platforms.

    `url` is their own address; `deliver` sends the webhooks (default: the network). `slow` is the shop's
    initial slowness, also after a reset; `sleep` waits for it.
    """
    return FakePlatforms(
        seed, url, now=now or _system_now, deliver=deliver, slow=slow or Slowness(), sleep=sleep
    )


class FakePlatforms:
    """The application; tests in the same process read `state` and its parts."""

    def __init__(
        self,
        seed: int,
        url: str,
        *,
        now: Callable[[], datetime],
        deliver: httpx.AsyncBaseTransport | None,
        slow: Slowness,
        sleep: _Sleep,
    ) -> None:
        self._now, self._start, self._deliver = now, now(), deliver
        self._slow, self._sleep = slow, sleep
        self.state = PlatformState(seed, url, now=now, start=self._start, deliver=deliver, slow=slow)

    @property
    def app(self) -> "FakePlatforms":
        """Returns the ASGI application."""
        return self

    def transport(self) -> httpx.AsyncBaseTransport:
        """Returns an httpx transport into this process; a dropped connection is httpx's own error."""
        return InProcessTransport(self)

    def described(self) -> Row:
        """Returns the response of `GET /sandbox`."""
        return self.state.keys.described()

    def set_webhook_transport(self, transport: httpx.AsyncBaseTransport | None) -> None:
        """Sets how webhooks are sent from now on."""
        self._deliver = transport
        self.state.deliveries.set_transport(transport)

    def replace_shop(self, shop: FakeShop) -> None:
        """Replaces the seeded shop until the next reset, for replays."""
        self.state.shop = shop
        self.state.deliveries = WebhookSender(shop, self._deliver)

    async def settle(self) -> None:
        """Waits until delivery of all webhooks so far was attempted."""
        await self.state.deliveries.settle()

    def load_products(self, count: int) -> None:
        """Replaces the catalogue by `count` generated products, of which every tenth is variable."""
        catalogue.load_products(self.state.shop, count, self.state.seed, self._start)

    async def reset(self, seed: int | None = None) -> None:
        """Restores the initial data with the keys of the seed, and drops pending deliveries."""
        await self.state.deliveries.stop()
        chosen = self.state.seed if seed is None else seed
        self.state = PlatformState(
            chosen,
            self.state.url,
            now=self._now,
            start=self._start,
            deliver=self._deliver,
            slow=self._slow,
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            request = await _arrived(scope, receive)
            if request is not None:
                await self._serve(request, scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.state.deliveries.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, request: FakeRequest, scope: Message, receive: Receive, send: Send) -> None:
        if _is_below(request.path, "/sandbox"):
            await _send(send, request, await self._controlled(request))
        elif request.path == "/" and request.first("rest_route") is None:
            html = page.rendered(self.state)
            await _send(send, request, text_response(200, html, kind="text/html; charset=UTF-8"))
        elif request.path.rstrip("/") == "/wc-auth/v1/authorize" and request.method == "GET":
            await _send(send, request, await key_page.authorize(self.state.shop, request, self._deliver))
        else:
            await self._serve_platform(request, scope, receive, send)

    async def _serve_platform(
        self, request: FakeRequest, scope: Message, receive: Receive, send: Send
    ) -> None:
        state = self.state
        service = next((name for start, name in _SERVICES if _is_below(request.path, start)), None)
        entry = state.ledger.record_arrival(request, service, arrived_at=self._now()) if service else None
        fault = state.faults.match_request(request.method, request.path)
        if entry is not None and fault is not None:
            entry.fault = fault.id
        is_late = await self._wait(scope, _pause_seconds(state, request, service, fault))
        sent, applied = _responses(state, request, service, fault)
        if entry is not None:
            state.ledger.complete(entry, applied, status=sent.status if sent is not None else None)
        events = state.shop.pop_events()
        if sent is None:
            state.deliveries.enqueue(events)
            await _drop(scope, receive)
            return
        await state.deliveries.send_pings(events)
        if is_late:
            state.deliveries.enqueue(events)
            raise ResponseTooLate("the caller did not wait for the response")
        await _send(send, request, sent)
        state.deliveries.enqueue(events)

    async def _wait(self, scope: Message, seconds: float) -> bool:
        """Waits before the response. Returns whether a caller in the same process gave up meanwhile.

        A caller on a socket closes the socket instead.
        """
        patience = (scope.get("extensions") or {}).get(PATIENCE)
        if seconds:
            await self._sleep(seconds if patience is None else min(seconds, patience))
        return patience is not None and seconds > patience

    async def _controlled(self, request: FakeRequest) -> FakeResponse:
        try:
            if request.path.rstrip("/") == "/sandbox/reset" and request.method == "POST":
                await self.reset(control.reset_seed(request, self.state.seed))
                return json_response(200, {"seed": self.state.seed})
            return await control.control(self.state, request)
        except control.BadControlRequest as refusal:
            return json_response(refusal.status, {"error": str(refusal)})


def _is_below(path: str, start: str) -> bool:
    return path == start or path.startswith(start + "/")


def _response(state: PlatformState, request: FakeRequest, service: str | None) -> FakeResponse:
    match service:
        case "woocommerce":
            return api.respond(state.shop, request)
        case "sheets":
            return state.google.spreadsheets(request)
        case "teams":
            return state.teams.respond(request)
        case "slack":
            return state.slack.respond(request)
        case "webhook":
            return state.receiver.respond(request)
        case "s3":
            return state.store.respond(request)
    if request.path == "/google/authorize" and request.method == "GET":
        return state.google.authorize(request)
    if request.path == "/google/token" and request.method == "POST":
        return state.google.token(request)
    return api.respond(state.shop, request)


def _faulty(fault: InjectedFault, service: str | None) -> FakeResponse:
    """Returns the response of a fault: its own body, or an error in the service's form."""
    status = 429 if fault.kind == "throttle" else fault.status or 500
    headers = {"retry-after": str(fault.retry_after)} if fault.kind == "throttle" else {}
    if isinstance(fault.body, str):
        return FakeResponse(
            status, fault.body.encode(), {"content-type": "text/html; charset=UTF-8", **headers}
        )
    if fault.body is not None:
        return json_response(status, fault.body, headers)
    message = "Refused on request of a fault."
    if service == "sheets":
        words_by_status = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
        word = words_by_status.get(status, "INTERNAL")
        return json_response(status, {"error": {"code": status, "message": message, "status": word}}, headers)
    if service == "s3":
        code = "SlowDown" if status in (429, 503) else "InternalError"
        text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        return FakeResponse(status, text.encode(), {"content-type": "application/xml", **headers})
    return json_response(
        status, {"code": "sandbox_fault", "message": message, "data": {"status": status}}, headers
    )


def _pause_seconds(
    state: PlatformState, request: FakeRequest, service: str | None, fault: InjectedFault | None
) -> float:
    seconds = state.slow.seconds(request) if service == "woocommerce" else 0.0
    if fault is not None and fault.kind == "delay":
        seconds += fault.delay_ms / 1000
    return seconds


def _responses(
    state: PlatformState, request: FakeRequest, service: str | None, fault: InjectedFault | None
) -> tuple[FakeResponse | None, FakeResponse | None]:
    """Returns the response to send and the service's own, each null for none.

    Without a response to send, the connection is dropped; without the service's own, it was not called.
    """
    if fault is not None and fault.kind in ("status", "throttle"):
        return _faulty(fault, service), None
    if fault is not None and fault.kind == "drop_before":
        return None, None
    response = _response(state, request, service)
    if fault is not None and fault.kind == "drop_after":
        return None, response
    if fault is not None and fault.kind == "status_after":
        return _faulty(fault, service), response
    return response, response


async def _arrived(scope: Message, receive: Receive) -> FakeRequest | None:
    """Returns the complete request; null when the caller disconnected before."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    raw = scope.get("raw_path") or scope["path"].encode()
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        text, held = value.decode("latin-1"), headers.get(name.decode("latin-1").lower())
        headers[name.decode("latin-1").lower()] = text if held is None else f"{held}, {text}"
    return FakeRequest(
        method=scope["method"],
        path=scope["path"],
        raw_path=raw.decode("latin-1").partition("?")[0],
        query=tuple(query),
        headers=headers,
        body=b"".join(parts),
        scheme=scope.get("scheme", "http"),
    )


async def _send(send: Send, request: FakeRequest, response: FakeResponse) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
    if response.status not in (204, 304):
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    body = b"" if request.method == "HEAD" else response.body
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _drop(scope: Message, receive: Receive) -> None:
    """Closes the connection without a response: through the server, or in process with an error."""
    close = scope.get("extensions", {}).get(DROP) if scope.get("extensions") else None
    if close is None:
        raise ConnectionDropped("the fake platforms closed the connection without answering")
    close()
    while (await receive())["type"] != "http.disconnect":
        continue


class InProcessTransport(httpx.AsyncBaseTransport):
    """An httpx transport to the fake platforms of the same process."""

    def __init__(self, platforms: FakePlatforms) -> None:
        self._platforms = platforms

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Serves the request within the caller's own read timeout.

        Raises httpx's errors for a dropped connection and a late response, as over a socket.
        """
        patience = request.extensions.get("timeout", {}).get("read")

        async def served(scope: Message, receive: Receive, send: Send) -> None:
            await self._platforms({**scope, "extensions": {PATIENCE: patience}}, receive, send)

        try:
            return await httpx.ASGITransport(served, raise_app_exceptions=True).handle_async_request(request)
        except ConnectionDropped as dropped:
            raise httpx.ReadError(str(dropped), request=request) from dropped
        except ResponseTooLate as late:
            raise httpx.ReadTimeout(str(late), request=request) from late
