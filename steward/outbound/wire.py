"""One guarded request and its bounded answer; leaves who may ask what, and repeats, to client.py."""

import asyncio
import base64
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx

from steward.clock import Clock
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.address import Origin, Resolver, SystemResolver, origin_of
from steward.outbound.answer import ANSWER_BYTES, HEADER_BYTES, Answer, Body, LineCap
from steward.outbound.errors import (
    BadCertificate,
    Broken,
    CallError,
    Refused,
    Throttled,
    TimedOut,
    Unavailable,
)
from steward.outbound.exchange import Tokens
from steward.outbound.link import (
    AddressSecret,
    Basic,
    Bearer,
    ClientCredentials,
    Exchanged,
    HeaderSecret,
    Link,
    Proof,
    RequestSigner,
    ServiceAccount,
    Timeouts,
    Unsigned,
    UserSignIn,
)
from steward.outbound.pace import Pace, Paces, retry_after
from steward.outbound.points import Told, told_by
from steward.outbound.transport import (
    FAILURES,
    MARK,
    GuardedBackend,
    GuardedTransport,
    SentMark,
    certificate_problem,
    tls_context,
)
from steward.outbound.turns import Urgency
from steward.telemetry.log import Log
from steward.telemetry.redact import Register

REQUEST_BYTES = 2 * 1024 * 1024
_PROCESS_CALLS = 200
_POOLS = 50
_LONG_WAIT_S = 1.0
_AGENT = "Steward/1"

Place = tuple[OrgId, IntegrationId | None, Origin, bool]


StillWanted: TypeAlias = Callable[[], Awaitable[None]]


class Failed(Exception):
    """A request without a usable answer, and whether it is certain that nothing of it left."""

    def __init__(self, cause: CallError, *, not_sent: bool) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.not_sent = not_sent


@dataclass(frozen=True, slots=True)
class Line:
    """One connection as the guard sees it."""

    org: OrgId
    integration_id: IntegrationId | None
    link: Link
    origin: Origin
    pace: Pace
    private: frozenset[str] = frozenset()  # what it may reach beside public addresses over https

    @property
    def place(self) -> Place:
        """Whose sockets it uses: never those of another organisation, connection or guard."""
        return self.org, self.integration_id, self.origin, bool(self.private)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request before it is guarded; `operation` is the word logs use."""

    method: str
    url: str
    operation: str
    content: bytes = b""
    headers: Mapping[str, str] | None = None
    proof: Proof = None
    total_s: float = 20.0
    patience_s: float | None = None
    write: bool = False
    tries: int = 1
    still_allowed: Callable[[datetime], None] | None = None
    # Awaited before the call waits for its turn and after a long wait: it may raise to end the reading.
    still_wanted: StillWanted | None = None
    points: float = 0.0
    most_bytes: int = ANSWER_BYTES
    retry_timeouts: bool = True
    urgency: Urgency | None = None
    share: Hashable = None


class Wire:
    """The one place that sends requests; made once by app.py.

    `transport` replaces the sockets, for tests over an application in process: every rule but those on
    resolved addresses still holds.
    """

    def __init__(
        self,
        clock: Clock,
        register: Register,
        log: Log,
        *,
        private_hosts: Collection[str] = (),
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.clock = clock
        self.register = register
        self.private = frozenset(private_hosts)
        self._log = log
        self._resolver = resolver or SystemResolver()
        # With a transport given no socket is opened, and to read the authorities takes a while.
        self._tls = tls if tls is not None or transport is not None else tls_context()
        self._given = transport
        self._paces = Paces(clock)
        self._tokens = Tokens(clock, register)
        self._places = asyncio.Semaphore(_PROCESS_CALLS)
        self._pools: OrderedDict[Place, GuardedTransport] = OrderedDict()
        self._busy: dict[Place, int] = {}

    def line(self, org: OrgId, integration_id: IntegrationId | None, link: Link) -> Line:
        """A connection's line; its secrets are entered in the register. Raises Refused on its address."""
        self.register.add(*_secrets(link.proof))
        private = frozenset() if link.public_only else self.private
        origin = origin_of(link.base, private)
        return Line(org, integration_id, link, origin, self._paces.of(link.pace_key, link.pace), private)

    async def send(self, line: Line, ask: Ask) -> Answer:
        """One request over `line`, paced, never repeated. Raises Failed."""
        await self._enter(line, ask)
        begun = self.clock.monotonic()
        status = 0
        size = 0
        wait: float | None = None
        told: Told | None = None
        try:
            async with self._places:
                begun = self.clock.monotonic()  # what was waited here is not the account's doing
                headers = await self._proven(line, ask)
                if ask.still_allowed is not None:
                    self._allowed(ask.still_allowed)
                answer = await self._exchange(line, ask, headers)
            status, size = answer.status, len(answer.body)
            wait = retry_after(answer.headers.get("retry-after"), self.clock.now())
            told = _told(answer) if ask.points else None
            if status == 401 and isinstance(ask.proof, Exchanged):
                self._tokens.forget(ask.proof)
            return answer
        finally:
            seconds = self.clock.monotonic() - begun
            failed = status == 0 or status >= 500
            limited = wait if status in (429, 503) else None
            line.pace.leave(
                write=ask.write,
                seconds=seconds,
                failed=failed,
                retry_after=limited,
                points=ask.points,
                told=told,
                urgency=ask.urgency,
            )
            self._log.info(
                "call",
                org=line.org,
                integration=line.integration_id,
                connector=line.link.connector,
                operation=ask.operation,
                host=line.link.host,
                status=status,
                bytes=size,
                seconds=round(seconds, 3),
                tries=ask.tries,
            )

    async def _enter(self, line: Line, ask: Ask) -> None:
        """Waits for the call's turn while it is wanted. Raises Failed, and what `still_wanted` raises."""
        asked_at = self.clock.monotonic()
        if ask.still_wanted is not None:
            await ask.still_wanted()
        try:
            self._check(line, ask)
            await line.pace.enter(
                write=ask.write,
                patience=ask.patience_s,
                points=ask.points,
                urgency=ask.urgency,
                share=ask.share,
            )
        except CallError as error:
            raise Failed(error, not_sent=True) from None
        if ask.still_wanted is None or self.clock.monotonic() - asked_at <= _LONG_WAIT_S:
            return
        try:
            await ask.still_wanted()
        except BaseException:
            line.pace.leave(
                write=ask.write, seconds=None, failed=False, points=ask.points, urgency=ask.urgency
            )
            raise

    async def lines(self, line: Line, ask: Ask) -> AsyncIterator[bytes]:
        """The lines of a GET's body as they come, each under a cap of its own. Raises Failed.

        It takes no place of the pace: what it reads was paid for by the call that made it.
        """
        self._check(line, ask)
        left, until = LineCap(), self.clock.monotonic() + ask.total_s
        limits = _limits(line.link.timeouts, ask)
        request = httpx.Request(ask.method, ask.url, headers={"user-agent": _AGENT}, extensions=limits)
        try:
            async with self._places:
                transport = await self._transport(line)
                response = await transport.handle_async_request(request)
                try:
                    if response.status_code != 200:
                        raise Unavailable(f"The result cannot be fetched (status {response.status_code}).")
                    async for piece in _timed(response.aiter_raw(), line.link.timeouts.between_bytes_s):
                        for whole in left.feed(piece):
                            yield whole
                        if self.clock.monotonic() > until:
                            raise TimedOut("The result did not come in time.")
                finally:
                    await response.aclose()
        except CallError as error:
            raise Failed(error, not_sent=False) from None
        except (*FAILURES, TimeoutError, OSError) as error:
            raise Failed(TimedOut("The result did not come in time."), not_sent=False) from error
        for whole in left.rest():
            yield whole

    async def aclose(self) -> None:
        """Closes every socket."""
        for pool in self._pools.values():
            await pool.aclose()
        self._pools.clear()

    def _allowed(self, still_allowed: Callable[[datetime], None]) -> None:
        """The lease and the age of the intent once more, after waiting for a place and a token."""
        try:
            still_allowed(self.clock.now())
        except Refused as refusal:
            raise Failed(refusal, not_sent=True) from None

    def _check(self, line: Line, ask: Ask) -> None:
        if origin_of(ask.url, line.private) != line.origin:
            raise Refused("a call goes to the host of its connection")
        if len(ask.content) > REQUEST_BYTES:
            raise Refused("a request is at most 2 MiB")

    async def _proven(self, line: Line, ask: Ask) -> dict[str, str]:
        """The headers of the request; secrets are added here, after host, port and scheme were checked."""
        headers = {"accept": "application/json", "accept-encoding": "gzip, deflate", "user-agent": _AGENT}
        headers |= {name.lower(): value for name, value in (ask.headers or {}).items()}
        match ask.proof:
            case Basic(user, password):
                pair = f"{user.reveal()}:{password.reveal()}".encode()
                headers["authorization"] = "Basic " + base64.b64encode(pair).decode("ascii")
            case Bearer(token):
                headers["authorization"] = f"Bearer {token.reveal()}"
            case HeaderSecret(header, value):
                headers[header.lower()] = value.reveal()
            case ServiceAccount() | UserSignIn() as account:
                headers["authorization"] = f"Bearer {await self._token(line, account)}"
            case ClientCredentials() as app:
                headers[app.header.lower()] = await self._token(line, app)
            case RequestSigner(secret, sign):
                unsigned = Unsigned(ask.method, ask.url, headers, self.clock.now())
                headers |= sign(secret.reveal(), unsigned)
        return headers

    async def _token(self, line: Line, account: Exchanged) -> str:
        async def post(url: str, content: bytes) -> Answer:
            link = replace(line.link, base=url, proof=None)
            other = replace(line, link=link, origin=origin_of(url, line.private))
            form = {"content-type": "application/x-www-form-urlencoded"}
            ask = Ask("POST", url, "token", content=content, headers=form, total_s=line.link.timeouts.read_s)
            for attempt in range(1, 4):
                try:
                    answer = await self._exchange(other, ask, {"accept": "application/json", **form})
                except Failed as failure:
                    if attempt == 3 or isinstance(failure.cause, Refused):
                        raise failure.cause from None
                else:
                    if answer.status not in (429, 500, 502, 503, 504) or attempt == 3:
                        return answer
                await self.clock.sleep(4.0 ** (attempt - 1))
            raise AssertionError

        try:
            return (await self._tokens.get(account, post)).reveal()
        except CallError as error:
            raise Failed(error, not_sent=True) from None

    async def _exchange(self, line: Line, ask: Ask, headers: Mapping[str, str]) -> Answer:
        mark = SentMark()
        request = httpx.Request(
            ask.method,
            httpx.URL(ask.url),
            headers=headers,
            content=ask.content or None,
            extensions=_limits(line.link.timeouts, ask, mark),
        )
        try:
            async with asyncio.timeout(ask.total_s):
                return await self._answered(line, request, ask.most_bytes)
        except CallError as error:
            # Before the request: refused or not resolved. After it: the answer was over a cap.
            raise Failed(error, not_sent=not isinstance(error, Broken) and not mark.left) from None
        except (*FAILURES, TimeoutError, OSError) as error:
            not_sent = mark.not_sent(error)
            cause = _cause(error, line.link.host, not_sent=not_sent)
            raise Failed(cause, not_sent=not_sent) from None

    async def _answered(self, line: Line, request: httpx.Request, most_bytes: int) -> Answer:
        transport, place = await self._transport(line), line.place
        self._busy[place] = self._busy.get(place, 0) + 1
        try:
            response = await transport.handle_async_request(request)
            try:
                return await self._read(line, request, response, most_bytes)
            finally:
                await response.aclose()
        finally:
            self._busy[place] -= 1
            if not self._busy[place]:
                del self._busy[place]

    async def _read(
        self, line: Line, request: httpx.Request, response: httpx.Response, most_bytes: int
    ) -> Answer:
        size = sum(len(name) + len(value) + 4 for name, value in response.headers.raw)
        if size > HEADER_BYTES:
            raise Broken("its headers are larger than 64 KiB")
        headers = {name.lower(): value for name, value in response.headers.items()}
        body = Body(headers.get("content-encoding", ""), most_bytes)
        if request.method != "HEAD":
            async for piece in _timed(response.aiter_raw(), line.link.timeouts.between_bytes_s):
                body.feed(piece)
        return Answer(response.status_code, headers, body.whole(), self.register.clean)

    async def _transport(self, line: Line) -> httpx.AsyncBaseTransport:
        if self._given is not None:
            return self._given
        place = line.place
        pool = self._pools.get(place)
        if pool is None:
            backend = GuardedBackend(self._resolver, line.private)
            pool = self._pools[place] = GuardedTransport(backend, self._tls or tls_context())
        self._pools.move_to_end(place)
        if len(self._pools) > _POOLS:
            unused = next((each for each in self._pools if each not in self._busy and each != place), None)
            if unused is not None:
                await self._pools.pop(unused).aclose()
        return pool


def _limits(times: Timeouts, ask: Ask, mark: SentMark | None = None) -> dict[str, object]:
    """The transport's own limits: it knows one for every read, so that for the first byte stands there.

    Between the bytes of a body `_timed` counts.
    """
    between, connect = min(times.between_bytes_s, ask.total_s), min(times.connect_s, ask.total_s)
    first_byte = min(times.first_byte_s, ask.total_s)
    limits = {"connect": connect, "read": first_byte, "write": between, "pool": ask.total_s}
    return {"timeout": limits, MARK: mark or SentMark()}


async def _timed(pieces: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The pieces of a body. Raises TimeoutError when the next one takes longer than `seconds`."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        yield piece


def throttled(answer: Answer, clock: Clock) -> Throttled:
    """The error of a 429; without `Retry-After` the wait is 2 s."""
    wait = retry_after(answer.headers.get("retry-after"), clock.now())
    return Throttled(2.0 if wait is None else wait, platform_text=answer.quote(_text(answer)))


def _told(answer: Answer) -> Told | None:
    try:
        return told_by(answer.json())
    except Broken:
        return None


def _text(answer: Answer) -> str:
    return answer.body[:2_000].decode("utf-8", "replace")


def _cause(error: BaseException, host: str, *, not_sent: bool) -> Unavailable:
    """Why a call did not come through. Only an answer can be late, not a connection."""
    if _is_timeout(error):
        return Unavailable() if not_sent else TimedOut()
    why = certificate_problem(error)
    if why is not None:
        return BadCertificate(f"The certificate of {host} was not accepted: {why}.")
    return Unavailable()


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError | httpx.TimeoutException) or "Timeout" in type(error).__name__


def _secrets(proof: Proof) -> tuple[str, ...]:
    match proof:
        case Basic(user, password):
            return (user.reveal(), password.reveal(), f"{user.reveal()}:{password.reveal()}")
        case Bearer(token):
            return (token.reveal(),)
        case HeaderSecret(_, value):
            return (value.reveal(),)
        case AddressSecret(url):
            parts = urlsplit(url.reveal())
            # Not every value of the query: some are dates and words that stand in many lines.
            pairs = [pair.partition("=") for pair in parts.query.split("&")]
            signed = (value for name, _, value in pairs if name == "sig")
            return (url.reveal(), parts.path, parts.query, *signed)
        case UserSignIn() as person:
            return (person.refresh_token.reveal(), person.client_secret.reveal())
        case RequestSigner(secret, _):
            return (secret.reveal(),)
        case ClientCredentials() as app:
            return (app.client_secret.reveal(),)
        case ServiceAccount() as account:
            lines = account.private_key.reveal().split("\n")
            return (account.private_key.reveal(), *(line for line in lines if line and "-----" not in line))
        case _:
            return ()
