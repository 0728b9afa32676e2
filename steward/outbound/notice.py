"""The right to post notices: to one address, only by POST, in one attempt of 15 seconds."""

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from steward.model.ids import OrgId
from steward.outbound.address import origin_of
from steward.outbound.call_queue import Urgency
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, SecretUrl, Timeouts
from steward.outbound.errors import CallRefused, WrongAddress
from steward.outbound.paths import url_of
from steward.outbound.response import PlatformResponse
from steward.outbound.transport import HttpTransport, OutboundRequest, RequestFailed, Target
from steward.telemetry.redact import Secret

_NOTICE_S = 15.0
NOTICE_RESPONSE_BYTES = 64 * 1024
_WEBHOOK_KIND = "webhook"
_WEBHOOK_RATE = RateLimit(max_concurrency=4)
_WEBHOOK_TIMEOUTS = Timeouts(read_s=_NOTICE_S, write_s=_NOTICE_S, first_byte_s=_NOTICE_S)
_REDIRECTS = range(300, 400)


def webhook_endpoint(org: OrgId, url: str) -> PlatformEndpoint:
    """Returns the endpoint of an organization's webhook, whose address is handled as a secret."""
    parts = urlsplit(url)
    base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    key = f"{_WEBHOOK_KIND} {org} {parts.netloc}"
    return PlatformEndpoint(
        _WEBHOOK_KIND, base, SecretUrl(Secret(url)), _WEBHOOK_TIMEOUTS, _WEBHOOK_RATE, key
    )


class NoticeHttp:
    """Posts only to the one path of the endpoint that it was created for."""

    def __init__(self, transport: HttpTransport, target: Target, path: str) -> None:
        self._transport = transport
        self._target = target
        self._url = url_of(target, path, None)
        if origin_of(self._url, target.private_hosts) != target.origin:
            raise CallRefused("a notice goes to the host of its route")

    async def post(
        self, content: bytes, headers: Mapping[str, str] | None = None, *, reads_response: bool = True
    ) -> PlatformResponse:
        """Sends one POST of JSON without retries and returns the response of any status.

        Without `reads_response`, the body of the response is discarded. A redirect is not followed. Raises
        CallError, also for a redirect.
        """
        request = OutboundRequest(
            "POST",
            self._url,
            "notice",
            content=content,
            headers={"content-type": "application/json", **(headers or {})},
            timeout_s=_NOTICE_S,
            max_wait_s=_NOTICE_S,
            max_bytes=NOTICE_RESPONSE_BYTES,
            discards_body=not reads_response,
            credentials=self._target.endpoint.credentials,
            urgency=Urgency.MANAGEMENT,
        )
        try:
            response = await self._transport.send(self._target, request)
        except RequestFailed as failure:
            raise failure.cause from None
        if response.status in _REDIRECTS:
            raise WrongAddress("The address leads elsewhere. Give the address it leads to.")
        return response
