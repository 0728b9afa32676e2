"""The target of a connection's calls: address, credentials, rate limit and timeouts; no sockets."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, Self, TypeAlias
from urllib.parse import urlsplit

from steward.outbound.documents import DocumentRegistry
from steward.outbound.query_cost import CostBudget
from steward.telemetry.redact import Secret

# Seconds a read may take after the first byte of its response.
_REST_S = 30.0


@dataclass(frozen=True, slots=True)
class Basic:
    """HTTP Basic authentication."""

    user: Secret
    password: Secret


@dataclass(frozen=True, slots=True)
class Bearer:
    """A fixed token in `Authorization`."""

    token: Secret


@dataclass(frozen=True, slots=True)
class HeaderSecret:
    """A fixed token in a header that the platform defines."""

    header: str
    value: Secret


@dataclass(frozen=True, slots=True)
class PlacedSecrets:
    """Fixed secrets in headers and in the query, by name; each replaces what a request has there.

    `path` are beginnings of a path, each with the secret that follows it where a request has the marker of a
    removed one; `*` in a beginning stands for a marker. `body` are the secrets of the markers in a body, in
    the order in which they come first. `auth` is sent as HTTP Basic beside them.
    """

    headers: tuple[tuple[str, Secret], ...] = ()
    query: tuple[tuple[str, Secret], ...] = ()
    path: tuple[tuple[str, Secret], ...] = ()
    body: tuple[Secret, ...] = ()
    auth: Basic | None = None


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A key that signs an assertion (RS256), exchanged for short-lived tokens at `token_url`."""

    email: str
    private_key: Secret
    key_id: str | None
    token_url: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """An app's id and secret, exchanged at `token_url` for tokens sent in `header`, without refresh tokens.

    `parameters` are further fields of the exchange, such as a scope. `has_basic_auth`: the id and the secret
    are sent in `Authorization` and not in the form (RFC 6749, 2.3.1).
    """

    client_id: str
    client_secret: Secret
    token_url: str
    header: str
    parameters: tuple[tuple[str, str], ...] = ()
    has_basic_auth: bool = False


class LeasedToken(Protocol):
    """A refresh token that nobody else exchanges meanwhile; `keep` stores the one that replaces it."""

    @property
    def current(self) -> Secret:
        """The newest token."""
        ...

    async def keep(self, token: Secret) -> None:
        """Stores the token that the server gave in place of it."""
        ...


TokenLease: TypeAlias = Callable[[], AbstractAsyncContextManager[LeasedToken]]


@dataclass(frozen=True, slots=True)
class UserSignIn:
    """A person's refresh token, exchanged at `token_url` with the app they signed in to.

    Under `lease` the newest token is exchanged, and the one that replaces it is kept.
    """

    client_id: str
    client_secret: Secret
    refresh_token: Secret
    token_url: str
    has_basic_auth: bool = False
    lease: TokenLease | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SecretUrl:
    """A URL that is itself the secret, as with Teams.

    no redirect is followed and logs hold its host alone.
    """

    url: Secret


@dataclass(frozen=True, slots=True)
class UnsignedRequest:
    """A request just before it is sent, for a signer; header names are in lower case."""

    method: str
    url: str
    headers: Mapping[str, str]
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class RequestSigner:
    """A secret that is never sent: `sign` returns the headers that authenticate a request."""

    secret: Secret
    sign: Callable[[str, UnsignedRequest], Mapping[str, str]]


TokenExchange: TypeAlias = ServiceAccount | ClientCredentials | UserSignIn
Credentials: TypeAlias = (
    Basic | Bearer | HeaderSecret | PlacedSecrets | TokenExchange | SecretUrl | RequestSigner | None
)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds a call may take: in all, to connect, to the first byte of the response, and between bytes."""

    read_s: float = 20.0
    write_s: float = 30.0
    connect_s: float = 5.0
    first_byte_s: float = 60.0
    between_bytes_s: float = 15.0

    @classmethod
    def of_kind(
        cls, setting_s: float, *, first_byte_s: float = 60.0, write_s: float = 30.0, bounded: bool = False
    ) -> Self:
        """Returns the timeouts of a kind of connection.

        the longer of `first_byte_s` and the operator's setting counts.

        `bounded` makes the operator's setting the limit of every call, as tests need it.
        """
        if bounded:
            return cls(read_s=setting_s, write_s=min(setting_s, write_s), first_byte_s=setting_s)
        first_byte_s = max(first_byte_s, setting_s)
        return cls(read_s=first_byte_s + _REST_S, write_s=write_s, first_byte_s=first_byte_s)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The limits of a connection's calls: how many may run at once and start within a minute.

    `slow_after_s`: one call at a time while the last response took longer. `failure_backoff_s`: how long
    nothing starts after the first, second, third … failure in a row. `min_interval_s`: between the starts of
    two calls of one kind. `urgent_concurrency`: how many approved writes and management calls may run beside
    reads that use all of `max_concurrency`. `cost_budget`: the platform also counts calls by their query
    cost.
    """

    max_concurrency: int = 4
    urgent_concurrency: int = 0
    reads_per_minute: int | None = None
    writes_per_minute: int | None = None
    max_concurrent_writes: int | None = None
    slow_after_s: float | None = None
    failure_backoff_s: tuple[float, ...] = ()
    min_interval_s: float | None = None
    cost_budget: CostBudget | None = None


@dataclass(frozen=True, slots=True)
class PlatformEndpoint:
    """The target of a connection's calls; built by its connector, held by the client.

    `base_url` has no query; for a SecretUrl it is scheme, host and port alone. `rate_limit_key` names what
    shares one rate limiter: the connection, or an account that several connections use. `documents` are the
    GraphQL documents that may be sent. `result_hosts` are suffixes of the hosts where the platform stores
    large results, which are fetched without credentials. `public_only`: the address comes from a workflow and
    not from an operator, so the operator's private hosts are refused as well. `hosts`: a request names its
    whole address, on one of these hosts; `*.` before a name stands for every name below it.
    """

    connector: str
    base_url: str
    credentials: Credentials
    timeouts: Timeouts
    rate_limit: RateLimit
    rate_limit_key: str
    documents: DocumentRegistry | None = None
    result_hosts: tuple[str, ...] = ()
    public_only: bool = False
    hosts: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """The host alone, as logs name it."""
        return urlsplit(self.base_url).hostname or ""
