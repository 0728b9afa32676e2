"""Accounts of HTTP APIs, for requests of imported workflows: credentials and the hosts they are for."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, cast

from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    ConnectionKind,
    ConnectorFacts,
    Destination,
    Health,
    HealthWarning,
    OwnApp,
)
from steward.connectors.base.deliveries import EventSource, TopicSpec
from steward.connectors.base.options import Options
from steward.connectors.base.queries import HTTP, HttpQuery, ReadOp, RecordPage
from steward.connectors.base.requests import RequestWriter, SendRequestOperation
from steward.connectors.base.send_once import SendOnceReader
from steward.connectors.base.settings import ConnectionSecrets, ConnectionSettings
from steward.connectors.http_api.settings import (
    SCHEMA,
    SIGN_IN_SCHEMA,
    SIGN_INS,
    credentials_of,
    own_app_of,
    settings_of,
    signed_in_settings,
)
from steward.model.connection import NO_SIGN_IN, Auth
from steward.model.json import JsonObject
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import (
    CallError,
    CallRefused,
    PlatformUnavailable,
    Unauthorized,
    WrongAddress,
)
from steward.outbound.hosts import listing_of, unlisted_words, with_scheme
from steward.outbound.response import PlatformResponse
from steward.telemetry.redact import Secret

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741
_RATE_LIMIT = RateLimit(max_concurrency=4, urgent_concurrency=1)
SEND = SendRequestOperation("http_api.send")


@dataclass(frozen=True, slots=True)
class HttpApiReader(SendOnceReader):
    """Reads whole addresses on the account's hosts."""

    http: ReadClient

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Yields the one response. Raises CallError; KeyError for any other read."""
        if op.name != HTTP.name:
            raise KeyError(op.name)
        return cast("AsyncIterator[RecordPage[I]]", self._response(cast("HttpQuery", params)))

    async def _response(self, query: HttpQuery) -> AsyncIterator[RecordPage[PlatformResponse]]:
        response = await self.http.fetch(
            query.method, query.url, dict(query.headers), query.content, max_bytes=query.max_bytes
        )
        yield RecordPage((response,))


class HttpApiConnector:
    """Connects accounts of HTTP APIs; sends the key only to the connection's hosts."""

    topics: Mapping[str, TopicSpec] = {}
    events: EventSource | None = None
    title: ClassVar[str] = "HTTP API"
    capabilities: ClassVar[Capabilities] = Capabilities(reads=True, writes=True, sign_in=True)
    reads: Mapping[str, ReadOp[Any, Any]] = {HTTP.name: HTTP}
    writes: Mapping[str, AnyWriteOperation] = {SEND.name: SEND}

    def __init__(self, options: Options) -> None:
        self._private_hosts = options.private_hosts
        self._timeouts = Timeouts.of_kind(options.read_s, bounded=options.bounded)
        self.facts = ConnectorFacts(
            "http_api",
            self.title,
            ConnectionKind.ACCOUNT,
            (Auth.KEY, Auth.USER_SIGN_IN),
            _RATE_LIMIT,
            self._timeouts,
            SCHEMA,
            self.capabilities,
            sign_in_schema=SIGN_IN_SCHEMA,
        )

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        return cls(options)

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates the hosts and one sign-in. Raises BadSettings."""
        return settings_of(form, self._private_hosts)

    def own_app(self, form: JsonObject) -> OwnApp:
        """Returns the app described in the form of a sign-in. Raises BadSettings."""
        return own_app_of(form, self._private_hosts)

    def signed_in(
        self, form: JsonObject, *, access_token: Secret, refresh_token: Secret | None
    ) -> ConnectionSettings:
        """Returns the settings after a sign-in; without a refresh token the access token does not expire."""
        return signed_in_settings(
            form, self._private_hosts, access_token=access_token, refresh_token=refresh_token
        )

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint at the first host; requests name one of the hosts.

        Raises BadSettings, and CallRefused for a host that the operator does not list any more.
        """
        hosts = tuple(secrets.plain["hosts"].split())
        listing = listing_of(hosts[0])
        if listing is not None and listing not in self._private_hosts:
            raise CallRefused("a private host is called where the operator lists it", unlisted_words(listing))
        host = with_scheme(hosts[0])
        base = host if "://" in host else f"https://{host.removeprefix('*.')}"
        proof = credentials_of(secrets.plain, secrets.sealed)
        scope = f"http_api {secrets.integration_id}"
        return PlatformEndpoint("http_api", base, proof, self._timeouts, _RATE_LIMIT, scope, hosts=hosts)

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> HttpApiReader:
        """Returns a reader for the account's hosts."""
        return HttpApiReader(http)

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> RequestWriter:
        """Returns a writer for the account's hosts."""
        return RequestWriter(http.send_request)

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Makes the test request; without one, only tries a sign-in that obtains a token."""
        plain, label = secrets.plain, secrets.plain["hosts"][:200]
        test_url, sign_in = plain.get("test_url"), plain["sign_in"]
        if test_url is None and sign_in not in ("client_credentials", "refresh_token"):
            return _healthy(label, _UNTRIED_HOST if sign_in == NO_SIGN_IN else _UNTRIED_KEY)
        error = await self._tried(http, secrets, test_url)
        if error is None:
            return _healthy(label)
        named = SIGN_INS[sign_in][-1] if isinstance(error, Unauthorized) else "test_url" if test_url else None
        return Health(ok=False, account_label=label, error=error, error_field=named)

    async def _tried(
        self, http: ManagementClient, secrets: ConnectionSecrets, test_url: str | None
    ) -> CallError | None:
        """Returns the error of the test request, or of a request that only obtains a token."""
        try:
            response = await http.fetch(test_url or self.endpoint(secrets).base_url)
        except CallError as error:
            return error
        return None if test_url is None else _error_of(response, secrets.plain["sign_in"])

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns an empty list: a request names its own address."""
        return []


_UNTRIED_KEY = HealthWarning(
    "not_tried", "The key was not tried, as no address to try it with was given. The first run will show."
)
_UNTRIED_HOST = HealthWarning(
    "not_tried", "Nothing was called, as no address to try was given. The first run will show."
)


def _healthy(label: str, *warnings: HealthWarning) -> Health:
    return Health(ok=True, account_label=label, name=label, rights=("read", "write"), warnings=warnings)


def _error_of(response: PlatformResponse, sign_in: str) -> CallError | None:
    if response.status in (401, 403):
        if sign_in == NO_SIGN_IN:
            words = f"The address asks for a sign-in (status {response.status}). Choose one."
            return WrongAddress(words)
        return Unauthorized(f"The account did not accept the key (status {response.status}).")
    if response.status >= 500:
        return PlatformUnavailable(f"The address to try it with answers with status {response.status}.")
    if not response.ok:
        return WrongAddress(f"The address to try it with answers with status {response.status}.")
    return None


CONNECTOR = HttpApiConnector
