"""Sends one guarded request and reads its bounded response.

client.py decides who may call, and retries.
"""

import asyncio
import base64
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

import httpx

from steward.clock import Clock
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.address import Resolver, SystemResolver, UrlOrigin, origin_of
from steward.outbound.call_queue import Urgency
from steward.outbound.endpoint import (
    Basic,
    Bearer,
    ClientCredentials,
    Credentials,
    HeaderSecret,
    PlacedSecrets,
    PlatformEndpoint,
    RequestSigner,
    ServiceAccount,
    Timeouts,
    TokenExchange,
    UnsignedRequest,
    UserSignIn,
)
from steward.outbound.errors import (
    BadCertificate,
    CallError,
    CallRefused,
    CallTimedOut,
    PlatformUnavailable,
    Throttled,
    UnusableResponse,
)
from steward.outbound.mail import MailTransport
from steward.outbound.mail_server import is_mail_address, mail_origin
from steward.outbound.placed_secrets import body_with, refuse_markers_in, url_with
from steward.outbound.query_cost import ReportedCost, reported_cost
from steward.outbound.rate_limiter import RateLimiter, RateLimiters, retry_after
from steward.outbound.response import (
    HEADER_BYTES,
    REDIRECT_STATUSES,
    RESPONSE_BYTES,
    BodyReader,
    LineReader,
    PlatformResponse,
)
from steward.outbound.secret_texts import response_without_secrets, secret_texts
from steward.outbound.sockets import (
    FAILURES,
    SEND_TRACKER,
    GuardedBackend,
    GuardedTransport,
    SendTracker,
    certificate_problem,
    public_tls_context,
)
from steward.outbound.tokens import RefreshTokens, TokenCache
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from steward.telemetry.traces import NO_TRACES, Span, SpanKind, Traces, current_run, new_span, run_span

REQUEST_BYTES = 2 * 1024 * 1024
_PROCESS_CALLS = 200
_POOLS = 50
_LONG_WAIT_S = 1.0
_AGENT = "Steward/1"

_PoolKey = tuple[OrgId, IntegrationId | None, UrlOrigin, bool]


CancelCheck: TypeAlias = Callable[[], Awaitable[None]]


class RequestFailed(Exception):
    """Raised for a request without a usable response; says whether certainly nothing was sent."""

    def __init__(self, cause: CallError, *, not_sent: bool) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.not_sent = not_sent


@dataclass(frozen=True, slots=True)
class Target:
    """A connection with its origin and rate limiter, as the transport uses it."""

    org: OrgId
    integration_id: IntegrationId | None
    endpoint: PlatformEndpoint
    origin: UrlOrigin
    limiter: RateLimiter
    private_hosts: frozenset[str] = frozenset()  # allowed in addition to public addresses over https

    @property
    def pool_key(self) -> _PoolKey:
        """The key of its socket pool, never shared with another organization or connection."""
        return self.org, self.integration_id, self.origin, bool(self.private_hosts)


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """A request before it is checked; `operation` is its name in logs."""

    method: str
    url: str
    operation: str
    content: bytes = b""
    headers: Mapping[str, str] | None = None
    credentials: Credentials = None
    timeout_s: float = 20.0
    max_wait_s: float | None = None
    write: bool = False
    attempt: int = 1
    check_allowed: Callable[[datetime], None] | None = None
    # Awaited before the call waits for its turn and after a long wait; it may raise to end the read.
    check_cancelled: CancelCheck | None = None
    max_cost: float = 0.0
    max_bytes: int = RESPONSE_BYTES
    discards_body: bool = False  # reads at most `max_bytes` of the body and returns none
    retry_timeouts: bool = True
    urgency: Urgency | None = None
    share: Hashable = None


class HttpTransport:
    """Sends every request to a platform; app.py builds it once.

    `transport` replaces the sockets, for tests with an application in the same process: every rule except
    those on resolved addresses still applies.
    """

    def __init__(
        self,
        clock: Clock,
        register: SecretRegister,
        log: Log,
        *,
        private_hosts: Collection[str] = (),
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        traces: Traces = NO_TRACES,
    ) -> None:
        self.clock = clock
        self.register = register
        self.private_hosts = frozenset(private_hosts)
        self._log = log
        self.traces = traces
        self._resolver = resolver or SystemResolver()
        self._tls = tls or public_tls_context()
        self._fixed_transport = transport
        self.mail = MailTransport(
            clock, register, log, private_hosts=private_hosts, resolver=resolver, tls=tls
        )
        self._limiters = RateLimiters(clock)
        self._tokens = TokenCache(clock, register)
        self.refresh_tokens: RefreshTokens | None = None  # set by app.py: they are stored above this layer
        self._process_slots = asyncio.Semaphore(_PROCESS_CALLS)
        self._pools: OrderedDict[_PoolKey, GuardedTransport] = OrderedDict()
        self._busy: dict[_PoolKey, int] = {}

    def target(self, org: OrgId, integration_id: IntegrationId | None, endpoint: PlatformEndpoint) -> Target:
        """Returns a connection's target and registers its secrets for redaction.

        Raises CallRefused for its address.
        """
        self.register.add(*secret_texts(endpoint.credentials))
        if (
            isinstance(endpoint.credentials, UserSignIn)
            and self.refresh_tokens
            and integration_id is not None
        ):
            lease = partial(self.refresh_tokens.leased, org, integration_id)
            endpoint = replace(endpoint, credentials=replace(endpoint.credentials, lease=lease))
        private_hosts = frozenset() if endpoint.public_only else self.private_hosts
        if is_mail_address(endpoint.base_url):
            origin = mail_origin(endpoint.base_url, private_hosts)
        else:
            origin = origin_of(endpoint.base_url, private_hosts, allows_http=_is_keyless(endpoint))
        return Target(
            org,
            integration_id,
            endpoint,
            origin,
            self._limiters.get(endpoint.rate_limit_key, endpoint.rate_limit),
            private_hosts,
        )

    async def send(self, target: Target, request: OutboundRequest) -> PlatformResponse:
        """Sends one request within the rate limit, never retried. Raises RequestFailed."""
        await self._wait_for_turn(target, request)
        started_at = self.clock.monotonic()
        status = 0
        size = 0
        wait: float | None = None
        cost: ReportedCost | None = None
        try:
            async with self._process_slots:
                started_at = self.clock.monotonic()  # the account did not cause the wait
                headers = await self._authenticated_headers(target, request)
                if request.check_allowed is not None:
                    self._check_grant(request.check_allowed)
                response = await self._exchange(target, _with_secrets(request), headers)
            is_followed = response.status in REDIRECT_STATUSES and not request.write and not request.content
            response = response_without_secrets(
                response, request.credentials, headers, keeps_location=is_followed
            )
            status, size = response.status, len(response.body)
            wait = retry_after(response.headers.get("retry-after"), self.clock.now())
            cost = _cost_of(response) if request.max_cost else None
            if status == 401 and isinstance(request.credentials, TokenExchange):
                self._tokens.forget(request.credentials)
            return response
        finally:
            seconds = self.clock.monotonic() - started_at
            failed = status == 0 or status >= 500
            limited = wait if status in (429, 503) else None
            target.limiter.release(
                write=request.write,
                seconds=seconds,
                failed=failed,
                retry_after=limited,
                max_cost=request.max_cost,
                reported_cost=cost,
                urgency=request.urgency,
            )
            self._log.info(
                "call",
                org=target.org,
                integration=target.integration_id,
                connector=target.endpoint.connector,
                operation=request.operation,
                host=target.endpoint.host,
                status=status,
                bytes=size,
                seconds=round(seconds, 3),
                attempt=request.attempt,
            )
            if self.traces.is_on:
                self._trace(target, request, seconds, status=status, size=size)

    def _trace(
        self, target: Target, request: OutboundRequest, seconds: float, *, status: int, size: int
    ) -> None:
        """Adds the call's span to the trace of its run, without host, path, query or body."""
        run = current_run.get()
        parent = None if run is None else run_span(run)
        span_id = new_span(None if parent is None else parent.trace)
        if not self.traces.is_sampled(span_id.trace):
            return
        attributes: dict[str, str | int] = {
            "steward.org": target.org,
            "steward.connector": target.endpoint.connector,
            "http.request.method": request.method,
            "steward.attempt": request.attempt,
            "steward.bytes": size,
        }
        is_error = status == 0 or status >= 400
        if status:
            attributes["http.response.status_code"] = status
        if is_error:
            attributes["error.type"] = str(status or "no_response")
        now = self.clock.now()
        began = now - timedelta(seconds=seconds)
        self.traces.add(
            Span("call", span_id, began, now, attributes, parent, kind=SpanKind.CLIENT, is_error=is_error)
        )

    async def _wait_for_turn(self, target: Target, request: OutboundRequest) -> None:
        """Waits for the call's turn unless it is cancelled.

        Raises RequestFailed, and what `check_cancelled` raises.
        """
        queued_at = self.clock.monotonic()
        if request.check_cancelled is not None:
            await request.check_cancelled()
        try:
            self._check_request(target, request)
            await target.limiter.acquire(
                write=request.write,
                max_wait_s=request.max_wait_s,
                max_cost=request.max_cost,
                urgency=request.urgency,
                share=request.share,
            )
        except CallError as error:
            raise RequestFailed(error, not_sent=True) from None
        if request.check_cancelled is None or self.clock.monotonic() - queued_at <= _LONG_WAIT_S:
            return
        try:
            await request.check_cancelled()
        except BaseException:  # also when cancelled
            target.limiter.release(
                write=request.write,
                seconds=None,
                failed=False,
                max_cost=request.max_cost,
                urgency=request.urgency,
            )
            raise

    async def lines(self, target: Target, request: OutboundRequest) -> AsyncIterator[bytes]:
        """Yields the lines of a GET's body as they arrive, each within its own cap. Raises RequestFailed.

        It bypasses the rate limiter: the call that created the result has paid for reading it.
        """
        self._check_request(target, request)
        line_reader, deadline = LineReader(), self.clock.monotonic() + request.timeout_s
        limits = _limits(target.endpoint.timeouts, request)
        http_request = httpx.Request(
            request.method, request.url, headers={"user-agent": _AGENT}, extensions=limits
        )
        try:
            async with self._process_slots:
                transport = await self._pool_of(target)
                http_response = await transport.handle_async_request(http_request)
                try:
                    if http_response.status_code != 200:
                        raise PlatformUnavailable(
                            f"The result cannot be fetched (status {http_response.status_code})."
                        )
                    async for chunk in _timed(
                        http_response.aiter_raw(), target.endpoint.timeouts.between_bytes_s
                    ):
                        for line in line_reader.feed(chunk):
                            yield line
                        if self.clock.monotonic() > deadline:
                            raise CallTimedOut("The result did not arrive in time.")
                finally:
                    await http_response.aclose()
        except CallError as error:
            raise RequestFailed(error, not_sent=False) from None
        except (*FAILURES, TimeoutError, OSError) as error:
            raise RequestFailed(CallTimedOut("The result did not arrive in time."), not_sent=False) from error
        for line in line_reader.rest():
            yield line

    async def aclose(self) -> None:
        """Closes every socket."""
        await self.mail.aclose()
        for pool in self._pools.values():
            await pool.aclose()
        self._pools.clear()

    def _check_grant(self, check_allowed: Callable[[datetime], None]) -> None:
        """Checks the lease and the age of the intent again, after waiting for a slot and a token."""
        try:
            check_allowed(self.clock.now())
        except CallRefused as refusal:
            raise RequestFailed(refusal, not_sent=True) from None

    def _check_request(self, target: Target, request: OutboundRequest) -> None:
        """Raises CallRefused for a request to another origin than the target's, or one that is too large."""
        allows_http = _is_keyless(target.endpoint)
        if origin_of(request.url, target.private_hosts, allows_http=allows_http) != target.origin:
            raise CallRefused("a call goes to the host of its connection")
        if len(request.content) > REQUEST_BYTES:
            raise CallRefused("a request is at most 2 MiB")

    async def _authenticated_headers(self, target: Target, request: OutboundRequest) -> dict[str, str]:
        """Returns the headers with secrets, which are added here once host, port and scheme are checked."""
        headers = {"accept": "application/json", "accept-encoding": "gzip, deflate", "user-agent": _AGENT}
        headers |= {name.lower(): value for name, value in (request.headers or {}).items()}
        match request.credentials:
            case Basic() as basic:
                headers["authorization"] = _basic_header(basic)
            case Bearer(token):
                headers["authorization"] = f"Bearer {token.reveal()}"
            case HeaderSecret(header, value):
                headers[header.lower()] = value.reveal()
            case ServiceAccount() | UserSignIn() as account:
                headers["authorization"] = f"Bearer {await self._token(target, account)}"
            case ClientCredentials() as app:
                token_text = await self._token(target, app)
                is_standard = app.header.lower() == "authorization"
                headers[app.header.lower()] = f"Bearer {token_text}" if is_standard else token_text
            case PlacedSecrets(placed, auth=basic_auth):
                headers |= {name.lower(): secret.reveal() for name, secret in placed}
                if basic_auth is not None:
                    headers["authorization"] = _basic_header(basic_auth)
            case RequestSigner(secret, sign):
                unsigned = UnsignedRequest(request.method, request.url, headers, self.clock.now())
                headers |= sign(secret.reveal(), unsigned)
        return headers

    async def _token(self, target: Target, account: TokenExchange) -> str:
        """Returns a cached or new token of the account; retries a failed exchange twice."""

        async def post(url: str, content: bytes, own_headers: Mapping[str, str]) -> PlatformResponse:
            endpoint = replace(target.endpoint, base_url=url, credentials=None)
            other = replace(target, endpoint=endpoint, origin=origin_of(url, target.private_hosts))
            form = {"content-type": "application/x-www-form-urlencoded", **own_headers}
            request = OutboundRequest(
                "POST", url, "token", content=content, headers=form, timeout_s=target.endpoint.timeouts.read_s
            )
            for attempt in range(1, 4):
                try:
                    response = await self._exchange(other, request, {"accept": "application/json", **form})
                except RequestFailed as failure:
                    if attempt == 3 or isinstance(failure.cause, CallRefused):
                        raise failure.cause from None
                else:
                    if response.status not in (429, 500, 502, 503, 504) or attempt == 3:
                        return response
                await self.clock.sleep(4.0 ** (attempt - 1))
            raise AssertionError

        try:
            return (await self._tokens.get(account, post)).reveal()
        except CallError as error:
            raise RequestFailed(error, not_sent=True) from None
        except TimeoutError:
            raise RequestFailed(CallTimedOut("The sign-in did not answer in time."), not_sent=True) from None

    async def _exchange(
        self, target: Target, request: OutboundRequest, headers: Mapping[str, str]
    ) -> PlatformResponse:
        """Sends the request and reads the response within its time. Raises RequestFailed."""
        tracker = SendTracker()
        http_request = httpx.Request(
            request.method,
            httpx.URL(request.url),
            headers=headers,
            content=request.content or None,
            extensions=_limits(target.endpoint.timeouts, request, tracker),
        )
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._send_over_pool(target, http_request, request)
        except CallError as error:
            # Before the request: refused or not resolved. After it: the response exceeded a cap.
            raise RequestFailed(
                error, not_sent=not isinstance(error, UnusableResponse) and not tracker.started
            ) from None
        except (*FAILURES, TimeoutError, OSError) as error:
            not_sent = tracker.not_sent(error)
            cause = _cause(error, target.endpoint.host, not_sent=not_sent)
            raise RequestFailed(cause, not_sent=not_sent) from None

    async def _send_over_pool(
        self, target: Target, http_request: httpx.Request, request: OutboundRequest
    ) -> PlatformResponse:
        """Sends the request over the connection's own socket pool, which stays open while it is in use."""
        transport, pool_key = await self._pool_of(target), target.pool_key
        self._busy[pool_key] = self._busy.get(pool_key, 0) + 1
        try:
            http_response = await transport.handle_async_request(http_request)
            try:
                return await self._read(target, request, http_response)
            finally:
                await http_response.aclose()
        finally:
            self._busy[pool_key] -= 1
            if not self._busy[pool_key]:
                del self._busy[pool_key]

    async def _read(
        self, target: Target, request: OutboundRequest, http_response: httpx.Response
    ) -> PlatformResponse:
        size = sum(len(name) + len(value) + 4 for name, value in http_response.headers.raw)
        if size > HEADER_BYTES:
            raise UnusableResponse("its headers are larger than 64 KiB")
        headers = {name.lower(): value for name, value in http_response.headers.items()}
        chunks = _timed(http_response.aiter_raw(), target.endpoint.timeouts.between_bytes_s)
        if request.discards_body:
            await _discard(chunks, request.max_bytes)
            return PlatformResponse(http_response.status_code, headers, b"", self.register.clean)
        body = BodyReader(headers.get("content-encoding", ""), request.max_bytes)
        if request.method != "HEAD":
            async for chunk in chunks:
                body.feed(chunk)
        return PlatformResponse(http_response.status_code, headers, body.whole(), self.register.clean)

    async def _pool_of(self, target: Target) -> httpx.AsyncBaseTransport:
        """Returns the socket pool of the target; closes the least recently used idle one beyond `_POOLS`."""
        if self._fixed_transport is not None:
            return self._fixed_transport
        pool_key = target.pool_key
        pool = self._pools.get(pool_key)
        if pool is None:
            backend = GuardedBackend(self._resolver, target.private_hosts)
            pool = self._pools[pool_key] = GuardedTransport(backend, self._tls)
        self._pools.move_to_end(pool_key)
        if len(self._pools) > _POOLS:
            unused = next(
                (
                    other_key
                    for other_key in self._pools
                    if other_key not in self._busy and other_key != pool_key
                ),
                None,
            )
            if unused is not None:
                await self._pools.pop(unused).aclose()
        return pool


def _limits(
    times: Timeouts, request: OutboundRequest, tracker: SendTracker | None = None
) -> dict[str, object]:
    """Returns the transport's timeouts; its only read timeout is set to that of the first byte.

    `_timed` limits the time between the bytes of a body.
    """
    between, connect = min(times.between_bytes_s, request.timeout_s), min(times.connect_s, request.timeout_s)
    first_byte = min(times.first_byte_s, request.timeout_s)
    limits = {"connect": connect, "read": first_byte, "write": between, "pool": request.timeout_s}
    return {"timeout": limits, SEND_TRACKER: tracker or SendTracker()}


async def _timed(chunks: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yields the chunks of a body. Raises TimeoutError when the next one takes longer than `seconds`."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        yield chunk


async def _discard(chunks: AsyncIterator[bytes], max_bytes: int) -> None:
    """Reads the chunks of a body until it ends or `max_bytes` bytes were read."""
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            return


def throttled(response: PlatformResponse, clock: Clock) -> Throttled:
    """Returns the error of a 429; without `Retry-After` the wait is 2 s."""
    wait = retry_after(response.headers.get("retry-after"), clock.now())
    return Throttled(2.0 if wait is None else wait, platform_text=response.quote(_text(response)))


def _cost_of(response: PlatformResponse) -> ReportedCost | None:
    try:
        return reported_cost(response.json())
    except UnusableResponse:
        return None


def _text(response: PlatformResponse) -> str:
    return response.body[:2_000].decode("utf-8", "replace")


def _cause(error: BaseException, host: str, *, not_sent: bool) -> PlatformUnavailable:
    """Returns why a call failed; only a response counts as timed out, not a connection."""
    if _is_timeout(error):
        return PlatformUnavailable() if not_sent else CallTimedOut()
    why = certificate_problem(error)
    if why is not None:
        return BadCertificate(f"The certificate of {host} was not accepted: {why}.")
    return PlatformUnavailable()


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError | httpx.TimeoutException) or "Timeout" in type(error).__name__


def _is_keyless(endpoint: PlatformEndpoint) -> bool:
    """Returns whether calls go to an address from a workflow without any credentials."""
    return endpoint.public_only and endpoint.credentials is None


def _basic_header(basic: Basic) -> str:
    pair = f"{basic.user.reveal()}:{basic.password.reveal()}".encode()
    return "Basic " + base64.b64encode(pair).decode("ascii")


def _with_secrets(request: OutboundRequest) -> OutboundRequest:
    """Returns the request with the account's secrets in its address and body.

    Raises RequestFailed if it contains a marker of a removed secret that the account does not replace.
    """
    url = request.url
    if isinstance(request.credentials, PlacedSecrets):
        url = url_with(request.credentials, url)
    try:
        content = body_with(request.credentials, request.content, request.headers or {})
        refuse_markers_in(url, request.headers or {})
    except CallRefused as refusal:
        raise RequestFailed(refusal, not_sent=True) from None
    return replace(request, url=url, content=content)
