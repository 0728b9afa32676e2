"""One ASGI application of all pretend services: arrival, ledger, faults, answers (contract 9)."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx

from steward.fake_platforms import catalogue, control, page
from steward.fake_platforms.deliveries import Deliveries
from steward.fake_platforms.exchange import (
    Answer,
    AnsweredLate,
    Asked,
    Dropped,
    Row,
    answer_json,
    answer_text,
)
from steward.fake_platforms.faults import Fault
from steward.fake_platforms.ledger import Entry
from steward.fake_platforms.slow import Slowness
from steward.fake_platforms.state import State
from steward.fake_platforms.woocommerce import api
from steward.fake_platforms.woocommerce.shop import Shop

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

Sleep = Callable[[float], Awaitable[None]]

DROP = "steward.fake_platforms.drop"
PATIENCE = "steward.fake_platforms.patience"
_SERVICES = (("/wp-json", "woocommerce"), ("/sheets", "sheets"), ("/teams", "teams"), ("/s3", "s3"))


def _system_now() -> datetime:
    return datetime.now(UTC)


def create(
    seed: int,
    url: str,
    now: Callable[[], datetime] | None = None,
    *,
    deliver: httpx.AsyncBaseTransport | None = None,
    slow: Slowness | None = None,
    sleep: Sleep = asyncio.sleep,
) -> "World":
    """A pretend world. `url` is its own address; `deliver` takes the webhooks (default: the network).

    `slow` is how slowly the shop answers from the start and after a reset; `sleep` is what it waits by.
    """
    return World(seed, url, now=now or _system_now, deliver=deliver, slow=slow or Slowness(), sleep=sleep)


class World:
    """The application itself; tests in one process may look at `state` and its parts."""

    def __init__(
        self,
        seed: int,
        url: str,
        *,
        now: Callable[[], datetime],
        deliver: httpx.AsyncBaseTransport | None,
        slow: Slowness,
        sleep: Sleep,
    ) -> None:
        self._now, self._start, self._deliver = now, now(), deliver
        self._slow, self._sleep = slow, sleep
        self.state = State(seed, url, now=now, start=self._start, deliver=deliver, slow=slow)

    @property
    def app(self) -> "World":
        """The ASGI application."""
        return self

    def transport(self) -> httpx.AsyncBaseTransport:
        """Leads an httpx client here without a socket; a dropped connection is httpx's own error."""
        return InProcess(self)

    def described(self) -> Row:
        """What `GET /sandbox` answers."""
        return self.state.keys.described()

    def deliver_through(self, transport: httpx.AsyncBaseTransport | None) -> None:
        """Sets how webhooks leave from now on."""
        self._deliver = transport
        self.state.deliveries.through(transport)

    def take_shop(self, shop: Shop) -> None:
        """Puts another shop in the place of the seeded one until the next reset: for replays."""
        self.state.shop = shop
        self.state.deliveries = Deliveries(shop, self._deliver)

    async def settle(self) -> None:
        """Waits until all webhooks caused so far were tried."""
        await self.state.deliveries.settle()

    def load_products(self, count: int) -> None:
        """Replaces the catalogue by `count` generated products, each tenth of them variable."""
        catalogue.load_products(self.state.shop, count, self.state.seed, self._start)

    async def reset(self, seed: int | None = None) -> None:
        """All as at the start, with the keys of the seed; what was to be delivered is given up."""
        await self.state.deliveries.stop()
        chosen = self.state.seed if seed is None else seed
        self.state = State(
            chosen,
            self.state.url,
            now=self._now,
            start=self._start,
            deliver=self._deliver,
            slow=self._slow,
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            asked = await _arrived(scope, receive)
            if asked is not None:
                await self._serve(asked, scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.state.deliveries.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, asked: Asked, scope: Message, receive: Receive, send: Send) -> None:
        if asked.path == "/sandbox" or asked.path.startswith("/sandbox/"):
            await _send(send, asked, await self._controlled(asked))
            return
        if asked.path == "/" and asked.first("rest_route") is None:
            html = page.rendered(self.state)
            await _send(send, asked, answer_text(200, html, kind="text/html; charset=UTF-8"))
            return
        state = self.state
        service = next((name for start, name in _SERVICES if _is_below(asked.path, start)), None)
        entry = state.ledger.arrive(asked, service, at=self._now()) if service else None
        fault = state.faults.strike(asked.method, asked.path)
        if entry is not None and fault is not None:
            entry.fault = fault.id
        pause = state.slow.seconds(asked) if service == "woocommerce" else 0.0
        if fault is not None and fault.kind == "delay":
            pause += fault.delay_ms / 1000
        is_late = await self._wait(scope, pause)
        answer, is_applied = self._outcome(state, asked, service, fault)
        if answer is None or (fault is not None and fault.kind == "drop_after"):
            _finish(state, entry, answer if is_applied else None, answered=None)
            state.deliveries.caused(state.shop.take_happened())
            await _drop(scope, receive)
            return
        happened = state.shop.take_happened()
        sent = answer
        if fault is not None and fault.kind == "status_after":
            sent = _faulty(fault, service)
        _finish(state, entry, answer if is_applied else None, answered=sent.status)
        await state.deliveries.ping_each(happened)
        if is_late:
            state.deliveries.caused(happened)
            raise AnsweredLate("the caller did not wait for the answer")
        await _send(send, asked, sent)
        state.deliveries.caused(happened)

    async def _wait(self, scope: Message, seconds: float) -> bool:
        """Waits before an answer is made; whether a caller in the same process gave up meanwhile.

        One on a socket closes it by itself.
        """
        patience = (scope.get("extensions") or {}).get(PATIENCE)
        if seconds:
            await self._sleep(seconds if patience is None else min(seconds, patience))
        return patience is not None and seconds > patience

    def _outcome(
        self, state: State, asked: Asked, service: str | None, fault: Fault | None
    ) -> tuple[Answer | None, bool]:
        """The answer, None when the connection is dropped before; whether the service was asked."""
        match fault.kind if fault is not None else "":
            case "status" | "throttle":
                assert fault is not None
                return _faulty(fault, service), False
            case "drop_before":
                return None, False
        return _answered(state, asked, service), True

    async def _controlled(self, asked: Asked) -> Answer:
        try:
            if asked.path.rstrip("/") == "/sandbox/reset" and asked.method == "POST":
                await self.reset(control.reset_seed(asked, self.state.seed))
                return answer_json(200, {"seed": self.state.seed})
            return await control.control(self.state, asked)
        except control.BadAsk as refusal:
            return answer_json(refusal.status, {"error": str(refusal)})


def _is_below(path: str, start: str) -> bool:
    return path == start or path.startswith(start + "/")


def _answered(state: State, asked: Asked, service: str | None) -> Answer:
    match service:
        case "woocommerce":
            return api.answer(state.shop, asked)
        case "sheets":
            return state.google.spreadsheets(asked)
        case "teams":
            return state.teams.answer(asked)
        case "s3":
            return state.store.answer(asked)
    if asked.path == "/google/authorize" and asked.method == "GET":
        return state.google.authorize(asked)
    if asked.path == "/google/token" and asked.method == "POST":
        return state.google.token(asked)
    return api.answer(state.shop, asked)


def _faulty(fault: Fault, service: str | None) -> Answer:
    """What a fault answers: its body, or one in the service's own form of an error."""
    status = 429 if fault.kind == "throttle" else fault.status or 500
    headers = {"retry-after": str(fault.retry_after)} if fault.kind == "throttle" else {}
    if isinstance(fault.body, str):
        return Answer(status, fault.body.encode(), {"content-type": "text/html; charset=UTF-8", **headers})
    if fault.body is not None:
        return answer_json(status, fault.body, headers)
    words = "Refused on request of a fault."
    if service == "sheets":
        known = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
        word = known.get(status, "INTERNAL")
        return answer_json(status, {"error": {"code": status, "message": words, "status": word}}, headers)
    if service == "s3":
        code = "SlowDown" if status in (429, 503) else "InternalError"
        text = f"<Error><Code>{code}</Code><Message>{words}</Message></Error>"
        return Answer(status, text.encode(), {"content-type": "application/xml", **headers})
    return answer_json(
        status, {"code": "sandbox_fault", "message": words, "data": {"status": status}}, headers
    )


def _finish(state: State, entry: Entry | None, answer: Answer | None, *, answered: int | None) -> None:
    if entry is not None:
        state.ledger.finish(entry, answer, answered=answered)


async def _arrived(scope: Message, receive: Receive) -> Asked | None:
    """The whole request, or None when the caller went away before it was whole."""
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
    return Asked(
        method=scope["method"],
        path=scope["path"],
        raw_path=raw.decode("latin-1").partition("?")[0],
        query=tuple(query),
        headers=headers,
        body=b"".join(parts),
        scheme=scope.get("scheme", "http"),
    )


async def _send(send: Send, asked: Asked, answer: Answer) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]
    if answer.status not in (204, 304):
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = b"" if asked.method == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _drop(scope: Message, receive: Receive) -> None:
    """Closes the connection without answering: by the server's own means, or in process by an error."""
    close = scope.get("extensions", {}).get(DROP) if scope.get("extensions") else None
    if close is None:
        raise Dropped("the pretend world closed the connection without answering")
    close()
    while (await receive())["type"] != "http.disconnect":
        continue


class InProcess(httpx.AsyncBaseTransport):
    """An httpx transport into a world of the same process."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Serves the request. Raises httpx's errors for a dropped connection and a late answer, as over a
        socket; the caller's own limit for the first byte counts.
        """
        patience = request.extensions.get("timeout", {}).get("read")

        async def served(scope: Message, receive: Receive, send: Send) -> None:
            await self._world({**scope, "extensions": {PATIENCE: patience}}, receive, send)

        try:
            return await httpx.ASGITransport(served, raise_app_exceptions=True).handle_async_request(request)
        except Dropped as dropped:
            raise httpx.ReadError(str(dropped), request=request) from dropped
        except AnsweredLate as late:
            raise httpx.ReadTimeout(str(late), request=request) from late
