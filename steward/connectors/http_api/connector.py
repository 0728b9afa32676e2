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
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import CallError, PlatformUnavailable, Unauthorized, WrongAddress
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
    capabilities: ClassVar[Capabilities] = Capabilities(reads=True, writes=True, sign_in=True)
    reads: Mapping[str, ReadOp[Any, Any]] = {HTTP.name: HTTP}
    writes: Mapping[str, AnyWriteOperation] = {SEND.name: SEND}

    def __init__(self, options: Options) -> None:
        self._private_hosts = options.private_hosts
        self._timeouts = Timeouts.of_kind(options.read_s, bounded=options.bounded)
        self.facts = ConnectorFacts(
            "http_api",
            "HTTP API",
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
        """Returns the endpoint at the first host; requests name one of the hosts. Raises BadSettings."""
        hosts = tuple(secrets.plain["hosts"].split())
        first = hosts[0].removeprefix("*.")
        base = f"{'http' if first in self._private_hosts else 'https'}://{first}"
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
        plain = secrets.plain
        label, test_url = plain["hosts"], plain.get("test_url")
        field = SIGN_INS[plain["sign_in"]][-1]
        if test_url is None and plain["sign_in"] not in ("client_credentials", "refresh_token"):
            return _healthy(label, was_tried=False)
        try:
            response = await http.fetch(test_url or self.endpoint(secrets).base_url)
        except CallError as error:
            named = field if isinstance(error, Unauthorized) else "test_url" if test_url else None
            return Health(ok=False, account_label=label, error=error, error_field=named)
        fault = None if test_url is None else _error_of(response)
        if fault is not None:
            named = field if isinstance(fault, Unauthorized) else "test_url"
            return Health(ok=False, account_label=label, error=fault, error_field=named)
        return _healthy(label, was_tried=True)

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns an empty list: a request names its own address."""
        return []


def _healthy(label: str, *, was_tried: bool) -> Health:
    warning = HealthWarning(
        "not_tried", "The key was not tried, as no address to try it with was given. The first run will show."
    )
    return Health(
        ok=True,
        account_label=label[:200],
        name=label[:200],
        rights=("read", "write"),
        warnings=() if was_tried else (warning,),
    )


def _error_of(response: PlatformResponse) -> CallError | None:
    if response.status in (401, 403):
        return Unauthorized(f"The account did not accept the key (status {response.status}).")
    if response.status >= 500:
        return PlatformUnavailable(f"The address to try it with answers with status {response.status}.")
    if not response.ok:
        return WrongAddress(f"The address to try it with answers with status {response.status}.")
    return None


CONNECTOR = HttpApiConnector
