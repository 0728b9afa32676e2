"""Clients that are distinguished by type: reads, granted writes, management, notices."""

import random
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec

from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonValue
from steward.outbound.address import origin_of
from steward.outbound.call_queue import Urgency
from steward.outbound.documents import Document
from steward.outbound.endpoint import PlatformEndpoint, SecretUrl, TokenExchange
from steward.outbound.errors import (
    BadCertificate,
    CallError,
    CallRefused,
    CallTimedOut,
    NotSent,
    OutcomeUnknown,
    PlatformUnavailable,
    Throttled,
    UnknownHost,
    WrongAddress,
    WrongResponder,
)
from steward.outbound.grant import WriteGrant
from steward.outbound.hosts import target_at
from steward.outbound.mail_client import MailWriteClient, check_mail
from steward.outbound.notice import NoticeHttp
from steward.outbound.paths import body_of, document_request, url_of
from steward.outbound.query_cost import is_throttled, reported_cost, throttle_wait
from steward.outbound.response import REDIRECT_STATUSES, RESPONSE_BYTES, PlatformResponse
from steward.outbound.transport import (
    CancelCheck,
    HttpTransport,
    OutboundRequest,
    RequestFailed,
    Target,
    throttled,
)
from steward.outbound.web import MAX_REDIRECTS, WebReadClient, WebWriteClient
from steward.telemetry.redact import Secret

_RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
# A proxy timed out waiting for the account: 504, and a CDN's 524.
_GATEWAY_TIMEOUTS = frozenset({504, 524})
_RETRY_BACKOFF_S = (1.0, 4.0)
_MAX_NAMED_WAIT_S = 60.0
# Reading a large result may take as long as all other reads of a run.
_RESULT_TIMEOUT_S = 600.0
_WRITE_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Outbound:
    """Creates clients; app.py builds it once. `jitter` returns numbers in [0, 1)."""

    def __init__(self, transport: HttpTransport, *, jitter: Callable[[], float] = random.random) -> None:
        self.transport = transport
        self._jitter = jitter

    def read_client(
        self,
        org: OrgId,
        integration_id: IntegrationId,
        endpoint: PlatformEndpoint,
        *,
        urgency: Urgency = Urgency.READ,
        check_cancelled: CancelCheck | None = None,
    ) -> "ReadClient":
        """Returns a client that only sends reads and takes turns with the other clients of its urgency.

        `check_cancelled` is awaited before each request and may raise to end the read. Raises CallRefused
        for the connection's address.
        """
        target = self.transport.target(org, integration_id, endpoint)
        return ReadClient(
            self.transport, target, self._jitter, urgency=urgency, check_cancelled=check_cancelled
        )

    def write_client(
        self, grant: WriteGrant, integration_id: IntegrationId, endpoint: PlatformEndpoint
    ) -> "WriteClient":
        """Returns a client for the writes of `grant`. Raises CallRefused for the connection's address."""
        return WriteClient(self.transport, self.transport.target(grant.org, integration_id, endpoint), grant)

    def management_client(
        self, org: OrgId, integration_id: IntegrationId | None, endpoint: PlatformEndpoint
    ) -> "ManagementClient":
        """Returns a client for checks and subscriptions, which runs never get.

        Raises CallRefused for the address.
        """
        return ManagementClient(
            self.transport, self.transport.target(org, integration_id, endpoint), self._jitter
        )

    def web_read_client(self, org: OrgId, *, check_cancelled: CancelCheck | None = None) -> WebReadClient:
        """Returns a client that reads addresses without a connection.

        `check_cancelled` is used as in `read_client`.
        """
        return WebReadClient(self.transport, org, check_cancelled=check_cancelled)

    def web_write_client(self, grant: WriteGrant) -> WebWriteClient:
        """Returns a client that sends to addresses without a connection, for the writes of `grant`."""
        return WebWriteClient(self.transport, grant)

    def notice_client(
        self, org: OrgId, integration_id: IntegrationId | None, endpoint: PlatformEndpoint, path: str = ""
    ) -> NoticeHttp:
        """Returns a client that only posts notices to one path. Raises CallRefused for the address."""
        return NoticeHttp(self.transport, self.transport.target(org, integration_id, endpoint), path)

    async def aclose(self) -> None:
        """Closes every socket."""
        await self.transport.aclose()


class ReadClient:
    """Sends GET and HEAD to one connection, with safe retries (`docs/design/connectors.md#retries`)."""

    def __init__(
        self,
        transport: HttpTransport,
        target: Target,
        jitter: Callable[[], float],
        *,
        urgency: Urgency,
        check_cancelled: CancelCheck | None = None,
    ) -> None:
        self._check_cancelled = check_cancelled
        self._transport = transport
        self._target = target
        self._jitter = jitter
        self._urgency = urgency

    async def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        operation: str = "read",
        headers: Mapping[str, str] | None = None,
        max_bytes: int = RESPONSE_BYTES,
        timeout_s: float | None = None,
        retry_timeouts: bool = True,
    ) -> PlatformResponse:
        """Returns the response of any status except a redirect or a 429. Raises CallError.

        Makes up to 3 attempts on connect failure, timeout, 429, 500, 502, 503 and 504, and does not wait
        when the platform asks for more than 60 s. `max_bytes` and `timeout_s` are for files, which may be
        larger and take longer. Without `retry_timeouts`, the first timeout of the account or a proxy raises
        CallTimedOut, so that the caller can request less.
        """
        request = OutboundRequest(
            "GET",
            url_of(self._target, path, params),
            operation,
            headers=headers,
            max_bytes=max_bytes,
            timeout_s=timeout_s or self._target.endpoint.timeouts.read_s,
            credentials=self._target.endpoint.credentials,
            retry_timeouts=retry_timeouts,
        )
        return await self._read(request)

    async def head(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "read"
    ) -> PlatformResponse:
        """Sends HEAD as `get` sends GET; the response has no body."""
        endpoint, url = self._target.endpoint, url_of(self._target, path, params)
        return await self._read(
            OutboundRequest(
                "HEAD", url, operation, credentials=endpoint.credentials, timeout_s=endpoint.timeouts.read_s
            )
        )

    async def fetch(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        max_bytes: int = RESPONSE_BYTES,
    ) -> PlatformResponse:
        """Returns the response, of any status, of an address on one of the connection's own hosts.

        `content` is the body of a query or search that the caller has checked to change nothing. Redirects
        are followed as long as they stay on the connection's hosts. Raises CallError.
        """
        if method not in ("GET", "HEAD") and not content:
            raise CallRefused("a read is a GET or HEAD")
        request = OutboundRequest(method, url, "http.read", content=content, headers=headers)
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._fetch_once(replace(request, url=url, max_bytes=max_bytes))
            location = response.headers.get("location")
            if response.status not in REDIRECT_STATUSES or location is None or content:
                return response
            url = urljoin(url, location)
        raise WrongResponder("The address redirects too many times. Check it.")

    async def _fetch_once(self, request: OutboundRequest) -> PlatformResponse:
        target = target_at(self._transport, self._target, request.url)
        client = ReadClient(
            self._transport,
            target,
            self._jitter,
            urgency=self._urgency,
            check_cancelled=self._check_cancelled,
        )
        credentials = target.endpoint.credentials
        request = replace(request, timeout_s=target.endpoint.timeouts.read_s, credentials=credentials)
        response = await client._send_with_retries(request)
        if response.status == 401 and isinstance(credentials, TokenExchange):
            return await client._send_with_retries(request)
        return response

    async def execute(self, name: str, variables: Mapping[str, JsonValue]) -> PlatformResponse:
        """Returns the response to the named document, of any status, but never a throttled one.

        Sends nothing that can change a store: raises CallRefused for such a document, KeyError for an
        unknown name. Retries as `get` does, and once with a new token when an exchanged one is not
        accepted. Raises CallError.
        """
        documents = self._target.endpoint.documents
        if documents is None:
            raise CallRefused("this account is not asked by documents")
        document = documents.all[name]
        if not documents.only_reads(document):
            raise CallRefused("a read changes nothing")
        return await self._execute_document(document, variables)

    async def execute_compiled(self, recipe: object, variables: Mapping[str, JsonValue]) -> PlatformResponse:
        """Executes the query that the platform's compiler creates from a recipe, never from a text.

        Raises CallRefused for a recipe that compiles to no query, CallError.
        """
        documents = self._target.endpoint.documents
        if documents is None:
            raise CallRefused("this account is not asked by documents")
        try:
            document = documents.compile(recipe)
        except ValueError as error:
            raise CallRefused("only fields that are there are asked for", str(error)) from None
        return await self._execute_document(document, variables)

    async def _execute_document(
        self, document: Document, variables: Mapping[str, JsonValue]
    ) -> PlatformResponse:
        request = document_request(self._target, document, variables)
        response = await self._send_with_retries(request)
        if response.status == 401 and isinstance(self._target.endpoint.credentials, TokenExchange):
            return await self._send_with_retries(request)
        return response

    async def lines(self, url: str, *, operation: str = "result") -> AsyncIterator[bytes]:
        """Yields the lines of a large result that the platform stored elsewhere, as they arrive.

        Fetches it without credentials, and only from the endpoint's result hosts. Raises CallError.
        """
        host, endpoint = urlsplit(url).hostname or "", self._target.endpoint
        if host != endpoint.host and not any(
            host == suffix or host.endswith("." + suffix) for suffix in endpoint.result_hosts
        ):
            raise CallRefused("a result is fetched from the platform's own hosts")
        target_without_credentials = self._transport.target(
            self._target.org, self._target.integration_id, replace(endpoint, base_url=url, credentials=None)
        )
        request = OutboundRequest("GET", url, operation, timeout_s=_RESULT_TIMEOUT_S)
        try:
            async for line in self._transport.lines(target_without_credentials, request):
                yield line
        except RequestFailed as failure:
            raise failure.cause from None

    async def pause(self, seconds: float) -> None:
        """Waits before the progress of a bulk operation is read again."""
        await self._transport.clock.sleep(seconds)

    async def _read(self, request: OutboundRequest) -> PlatformResponse:
        is_secret = isinstance(self._target.endpoint.credentials, SecretUrl)
        for redirects in range(MAX_REDIRECTS + 1):
            response = await self._send_with_retries(request)
            if response.status not in REDIRECT_STATUSES:
                return response
            target = response.headers.get("location")
            if target is None or is_secret or redirects == MAX_REDIRECTS:
                break
            request = replace(request, url=self._redirect_target(request.url, target))
        raise WrongResponder("The address leads elsewhere. Check the address of the account.")

    def _redirect_target(self, url: str, target: str) -> str:
        """Returns the target of a redirect, on the same scheme, host and port. Raises WrongResponder."""
        try:
            redirect_url = urljoin(url, target)
            is_same_origin = origin_of(redirect_url, self._transport.private_hosts) == self._target.origin
        except (CallRefused, ValueError):
            is_same_origin = False
        if not is_same_origin:
            raise WrongResponder("The address leads to another host. Check the address of the account.")
        return redirect_url

    async def _send_with_retries(self, original: OutboundRequest) -> PlatformResponse:
        attempt = 1
        response, error = await self._attempt(original, attempt)
        while (wait_s := self._retry_wait(original, attempt, response, error)) is not None:
            await self._transport.clock.sleep(wait_s)
            attempt += 1
            response, error = await self._attempt(original, attempt)
        if error is not None:
            error.attempts = attempt
            raise error
        assert response is not None
        return response if attempt == 1 else replace(response, attempts=attempt)

    def _retry_wait(
        self,
        original: OutboundRequest,
        attempt: int,
        response: PlatformResponse | None,
        error: CallError | None,
    ) -> float | None:
        """Returns how long to wait before the next attempt; None if this was the last one."""
        if error is None and response is not None and response.status not in _RETRY_STATUSES:
            return None
        if attempt > len(_RETRY_BACKOFF_S):
            return None
        named_wait_s = None if response is None else self._named_wait(original, response, error)
        if named_wait_s is None:
            return _RETRY_BACKOFF_S[attempt - 1] * (0.7 + 0.6 * self._jitter())
        return named_wait_s if named_wait_s <= _MAX_NAMED_WAIT_S else None

    async def _attempt(
        self, original: OutboundRequest, attempt: int
    ) -> tuple[PlatformResponse | None, CallError | None]:
        """Sends the request once. Returns the response, if any, and the error that permits a retry.

        Raises CallError when no retry can help.
        """
        request = replace(
            original,
            attempt=attempt,
            urgency=self._urgency,
            share=id(self),
            check_cancelled=self._check_cancelled,
        )
        try:
            response = await self._transport.send(self._target, request)
        except RequestFailed as failure:
            # A person waits for a check, and a mistyped name is none a second later.
            is_unknown = self._urgency is Urgency.MANAGEMENT and isinstance(failure.cause, UnknownHost)
            if is_unknown or not _is_retried(original, failure.cause):
                raise failure.cause from None
            return None, failure.cause
        if response.status in _GATEWAY_TIMEOUTS and not original.retry_timeouts:
            raise CallTimedOut
        return response, self._throttle_error(original, response)

    def _named_wait(
        self, request: OutboundRequest, response: PlatformResponse, error: CallError | None
    ) -> float | None:
        """Returns the wait that the platform asks for, by header or query cost; null without one."""
        if "retry-after" in response.headers:
            return throttled(response, self._transport.clock).wait_s
        return error.wait_s if request.max_cost and isinstance(error, Throttled) else None

    def _throttle_error(self, request: OutboundRequest, response: PlatformResponse) -> Throttled | None:
        """Returns the pause that the platform asks for: by status or, for documents, in the body."""
        if request.max_cost and response.status in (200, 429):
            body = body_of(response)
            if is_throttled(body):
                return Throttled(throttle_wait(reported_cost(body), jitter=self._jitter()))
        return throttled(response, self._transport.clock) if response.status == 429 else None


def _is_retried(request: OutboundRequest, error: CallError) -> bool:
    if isinstance(error, CallTimedOut):
        return request.retry_timeouts
    return isinstance(error, PlatformUnavailable) and not isinstance(error, BadCertificate)


class WriteClient:
    """Sends the one request of a batch at most once, for writes whose intents are committed."""

    def __init__(self, transport: HttpTransport, target: Target, grant: WriteGrant) -> None:
        self._transport = transport
        self._target = target
        self._grant = grant
        self._used: set[str] = set()
        self.mail = MailWriteClient(transport, target, grant)

    async def send(
        self,
        method: str,
        path: str,
        body: JsonValue,
        *,
        params: Mapping[str, str] | None = None,
        write_keys: Sequence[str],
        key: str,
        operation: str = "write",
        max_cost: float = 0.0,
    ) -> PlatformResponse:
        """Returns the platform's response, even a refusal; never retries or follows redirects.

        `max_cost` is the highest query cost of the call, on platforms that count it. Raises NotSent when no
        byte was sent or the platform did nothing (429), OutcomeUnknown otherwise.
        """
        try:
            request = replace(self._request(method, path, body, params, key, operation), max_cost=max_cost)
        except CallRefused as refusal:
            raise NotSent(refusal) from None
        return await self._send_once(request, write_keys, key)

    async def _send_once(
        self, request: OutboundRequest, write_keys: Sequence[str], key: str
    ) -> PlatformResponse:
        """Checks the grant and sends. Raises NotSent, OutcomeUnknown."""
        if self._target.integration_id is None:
            raise NotSent(CallRefused("a write needs a stored connection"))
        now = self._transport.clock.now()
        try:
            self._grant.check(write_keys, key, connection=self._target.integration_id)
            self._grant.check_time(now)
            if self._used & set(write_keys):
                raise CallRefused("this attempt of the write was sent already")
            if request.method not in _WRITE_METHODS:
                raise CallRefused("a write is a POST, PUT, PATCH or DELETE")
        except CallRefused as refusal:
            raise NotSent(refusal) from None
        request = replace(request, max_wait_s=max((self._grant.send_by - now).total_seconds(), 0.0))
        self._used |= set(write_keys)
        try:
            response = await self._transport.send(self._target, request)
        except RequestFailed as failure:
            raise (NotSent if failure.not_sent else OutcomeUnknown)(failure.cause) from None
        if response.status == 429:
            raise NotSent(throttled(response, self._transport.clock))
        if request.max_cost and is_throttled(decoded := body_of(response)):
            raise NotSent(Throttled(throttle_wait(reported_cost(decoded), jitter=0.5)))
        return response

    async def send_request(
        self,
        method: str,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        write_keys: Sequence[str],
        key: str,
    ) -> PlatformResponse:
        """Returns the response of an address on one of the connection's own hosts, even a refusal.

        Never retries or follows redirects. Raises NotSent, OutcomeUnknown.
        """
        try:
            target = target_at(self._transport, self._target, url)
        except CallRefused as refusal:
            raise NotSent(refusal) from None
        client = WriteClient(self._transport, target, self._grant)
        client._used = self._used
        request = OutboundRequest(
            method,
            url,
            "http.send",
            content=body,
            headers={**headers, "idempotency-key": key},
            credentials=target.endpoint.credentials,
            timeout_s=target.endpoint.timeouts.write_s,
            write=True,
            check_allowed=self._grant.check_time,
        )
        return await client._send_once(request, write_keys, key)

    def _request(
        self,
        method: str,
        path: str,
        body: JsonValue,
        params: Mapping[str, str] | None,
        key: str,
        operation: str,
    ) -> OutboundRequest:
        return OutboundRequest(
            method,
            url_of(self._target, path, params),
            operation,
            content=msgspec.json.encode(body),
            headers={"content-type": "application/json", "idempotency-key": key},
            credentials=self._target.endpoint.credentials,
            timeout_s=self._target.endpoint.timeouts.write_s,
            write=True,
            check_allowed=self._grant.check_time,
        )


class ManagementClient:
    """Checks, sign-in and subscriptions: reads as ReadClient does, and sends other calls once."""

    def __init__(self, transport: HttpTransport, target: Target, jitter: Callable[[], float]) -> None:
        self._transport = transport
        self._target = target
        self._reads = ReadClient(transport, target, jitter, urgency=Urgency.MANAGEMENT)
        target_without_credentials = replace(target, endpoint=replace(target.endpoint, credentials=None))
        self._without_credentials = ReadClient(
            transport, target_without_credentials, jitter, urgency=Urgency.MANAGEMENT
        )

    async def check_mail(self) -> tuple[str, ...]:
        """Signs in to the connection's mail server; returns its extensions. Raises CallError."""
        return await check_mail(self._transport, self._target)

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "check"
    ) -> PlatformResponse:
        """Reads as ReadClient.get does."""
        return await self._reads.get(path, params, operation=operation)

    async def execute(self, name: str, variables: Mapping[str, JsonValue]) -> PlatformResponse:
        """Executes a document as ReadClient does; sends one that changes a subscription or the like once."""
        documents = self._target.endpoint.documents
        if documents is None or documents.only_reads(documents.all[name]):
            return await self._reads.execute(name, variables)
        request = document_request(self._target, documents.all[name], variables)
        keyed = {**(request.headers or {}), "idempotency-key": str(uuid.uuid4())}
        return await self._send_once(replace(request, headers=keyed))

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> PlatformResponse:
        """Reads as ReadClient.fetch does."""
        return await self._reads.fetch("GET", url, headers or {})

    async def get_without_credentials(
        self, path: str, params: Mapping[str, str] | None = None, *, operation: str = "check"
    ) -> PlatformResponse:
        """Reads as `get` does, without the connection's credentials."""
        return await self._without_credentials.get(path, params, operation=operation)

    async def send(
        self,
        method: str,
        path: str,
        body: JsonValue,
        *,
        params: Mapping[str, str] | None = None,
        key: str | None = None,
        operation: str = "check",
    ) -> PlatformResponse:
        """Makes one call without retries; sends `key` as `Idempotency-Key`. Raises CallError."""
        headers = {"content-type": "application/json"} | ({"idempotency-key": key} if key else {})
        endpoint = self._target.endpoint
        request = OutboundRequest(
            method,
            url_of(self._target, path, params),
            operation,
            content=b"" if body is None else msgspec.json.encode(body),
            headers=headers,
            credentials=endpoint.credentials,
            timeout_s=endpoint.timeouts.read_s,
        )
        return await self._send_once(request)

    async def _send_once(self, request: OutboundRequest) -> PlatformResponse:
        try:
            response = await self._transport.send(self._target, replace(request, urgency=Urgency.MANAGEMENT))
        except RequestFailed as failure:
            raise failure.cause from None
        if response.status == 429:
            raise throttled(response, self._transport.clock)
        if request.max_cost and is_throttled(body := body_of(response)):
            raise Throttled(throttle_wait(reported_cost(body), jitter=0.5))
        if response.status in REDIRECT_STATUSES:
            raise WrongAddress
        return response

    async def post_form(
        self, form: Mapping[str, str], *, secret: tuple[str, Secret] | None = None
    ) -> PlatformResponse:
        """Posts a form once; `secret` is the name and value of its secret field. Raises CallError."""
        sealed = {} if secret is None else {secret[0]: secret[1].reveal()}
        self._transport.register.add(*sealed.values())
        content = urlencode({**form, **sealed}).encode("ascii")
        endpoint = self._target.endpoint
        request = OutboundRequest(
            "POST",
            endpoint.base_url,
            "sign-in",
            content=content,
            headers={"content-type": "application/x-www-form-urlencoded"},
            credentials=endpoint.credentials,
            timeout_s=endpoint.timeouts.read_s,
        )
        try:
            return await self._transport.send(self._target, replace(request, urgency=Urgency.MANAGEMENT))
        except RequestFailed as failure:
            raise failure.cause from None
