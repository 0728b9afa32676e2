"""Calls of imported workflows to addresses without a connection: reads, and granted writes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urljoin, urlsplit, urlunsplit

from steward.model.ids import IntegrationId, OrgId
from steward.outbound.address import origin_of
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import (
    CallError,
    CallRefused,
    NotSent,
    OutcomeUnknown,
    PlatformUnavailable,
    Throttled,
    WrongAddress,
)
from steward.outbound.grant import WriteGrant
from steward.outbound.response import REDIRECT_STATUSES, RESPONSE_BYTES, PlatformResponse
from steward.outbound.transport import (
    CancelCheck,
    HttpTransport,
    OutboundRequest,
    RequestFailed,
    Target,
    throttled,
)

# The connection id of calls without a connection.
NO_CONNECTION = IntegrationId(0)
KIND = "web_request"
_RATE_LIMIT = RateLimit(max_concurrency=4)
TIMEOUTS = Timeouts()
MAX_REDIRECTS = 3
_RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
_RETRY_BACKOFF_S = (1.0, 4.0)
_WRITE_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def _target(transport: HttpTransport, org: OrgId, url: str) -> Target:
    """Returns the target of an address's host. Raises CallRefused for a disallowed address."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise CallRefused("an address must not contain a name or password")
    base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    rate_limit_key = f"web {org} {parts.netloc}"
    endpoint = PlatformEndpoint(KIND, base, None, TIMEOUTS, _RATE_LIMIT, rate_limit_key, public_only=True)
    return transport.target(org, NO_CONNECTION, endpoint)


def _redirect_target(url: str, target: str) -> str:
    """Returns a redirect's target on the same host, never from https to http. Raises WrongAddress."""
    try:
        following = urljoin(url, target)
        before, after = (origin_of(address, (), allows_http=True) for address in (url, following))
        if after == before or (after.host == before.host and after.scheme == "https"):
            return following
    except (CallRefused, ValueError):
        pass
    raise WrongAddress("The address leads to another host. Write the address it leads to into the step.")


class WebReadClient:
    """Reads for one organization's runs, only by GET, HEAD and GraphQL queries."""

    def __init__(
        self, transport: HttpTransport, org: OrgId, *, check_cancelled: CancelCheck | None = None
    ) -> None:
        self._check_cancelled = check_cancelled
        self._transport = transport
        self._org = org

    async def read(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        max_bytes: int = RESPONSE_BYTES,
    ) -> PlatformResponse:
        """Returns the response of any status; follows redirects within the same host.

        Raises CallError.
        """
        if method not in ("GET", "HEAD"):
            raise CallRefused("a read is a GET or HEAD")
        for _ in range(MAX_REDIRECTS + 1):
            request = OutboundRequest(
                method,
                url,
                "read",
                content=body,
                headers=headers,
                timeout_s=TIMEOUTS.read_s,
                max_bytes=max_bytes,
            )
            response = await self._send_with_retries(url, request)
            target = response.headers.get("location")
            if response.status not in REDIRECT_STATUSES or target is None:
                return response
            url = _redirect_target(url, target)
        raise WrongAddress("The address redirects too many times. Check it.")

    async def query(self, url: str, body: bytes, headers: Mapping[str, str]) -> PlatformResponse:
        """Sends a GraphQL query that the caller has checked to change nothing. Raises CallError."""
        return await self._send_with_retries(
            url,
            OutboundRequest("POST", url, "query", content=body, headers=headers, timeout_s=TIMEOUTS.read_s),
        )

    async def _send_with_retries(self, url: str, request: OutboundRequest) -> PlatformResponse:
        """Sends a read, and repeats it after temporary failures. Raises CallError."""
        target = _target(self._transport, self._org, url)
        error: CallError = PlatformUnavailable("The address did not respond.")
        for attempt in range(1, len(_RETRY_BACKOFF_S) + 2):
            try:
                attempt_request = replace(request, attempt=attempt, check_cancelled=self._check_cancelled)
                response = await self._transport.send(target, attempt_request)
            except RequestFailed as failure:
                error = failure.cause
                if not isinstance(error, PlatformUnavailable):
                    raise error from None
            else:
                if response.status not in _RETRY_STATUSES or attempt > len(_RETRY_BACKOFF_S):
                    return response
                error = throttled(response, self._transport.clock)
                if isinstance(error, Throttled) and error.wait_s > 60:
                    return response
            if attempt <= len(_RETRY_BACKOFF_S):
                await self._transport.clock.sleep(_RETRY_BACKOFF_S[attempt - 1])
        raise error


class WebWriteClient:
    """Sends the one request of a write whose intent is committed, at most once."""

    def __init__(self, transport: HttpTransport, grant: WriteGrant) -> None:
        self._transport = transport
        self._grant = grant
        self._used: set[str] = set()

    async def send(
        self,
        method: str,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        write_keys: Sequence[str],
        key: str,
    ) -> PlatformResponse:
        """Returns the response, even a refusal; follows no redirect. Raises NotSent, OutcomeUnknown."""
        try:
            self._grant.check(write_keys, key, connection=NO_CONNECTION)
            now = self._transport.clock.now()
            self._grant.check_time(now)
            if self._used & set(write_keys):
                raise CallRefused("this attempt of the write was sent already")
            if method not in _WRITE_METHODS:
                raise CallRefused("a send is a POST, PUT, PATCH or DELETE")
            target = _target(self._transport, self._grant.org, url)
        except CallRefused as refusal:
            raise NotSent(refusal) from None
        self._used |= set(write_keys)
        request = OutboundRequest(
            method,
            url,
            "http.send",
            content=body,
            headers={**headers, "idempotency-key": key},
            timeout_s=TIMEOUTS.write_s,
            max_wait_s=max((self._grant.send_by - now).total_seconds(), 0.0),
            write=True,
            check_allowed=self._grant.check_time,
        )
        try:
            response = await self._transport.send(target, request)
        except RequestFailed as failure:
            raise (NotSent if failure.not_sent else OutcomeUnknown)(failure.cause) from None
        if response.status == 429:
            raise NotSent(throttled(response, self._transport.clock))
        return response
