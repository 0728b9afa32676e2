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

# Seconds a read waits for the first byte of its response, at least, and may take after it.
_FIRST_BYTE_S = 60.0
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
    """Fixed secrets in headers and in the query, by name; each replaces what the request has there.

    `path` are beginnings of paths, each with the secret to insert after it in place of the marker of a
    removed one; `*` in a beginning stands for a marker. `body` are the secrets for the markers in a body,
    in the order of their first occurrence. `auth` is sent as HTTP Basic in addition.
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
    """An app's id and secret, exchanged at `token_url` for tokens sent in `header`; no refresh tokens.

    `parameters` are further fields of the exchange, such as a scope. With `has_basic_auth`, the id and the
    secret are sent in `Authorization` instead of the form (RFC 6749, 2.3.1).
    """

    client_id: str
    client_secret: Secret
    token_url: str
    header: str
    parameters: tuple[tuple[str, str], ...] = ()
    has_basic_auth: bool = False


class LeasedToken(Protocol):
    """A refresh token under a lease, so that no other process exchanges it; `store` stores its successor."""

    @property
    def current(self) -> Secret:
        """The newest token."""
        ...

    async def store(self, token: Secret) -> None:
        """Stores the token that the server issued in its place."""
        ...


TokenLease: TypeAlias = Callable[[], AbstractAsyncContextManager[LeasedToken]]


@dataclass(frozen=True, slots=True)
class UserSignIn:
    """A person's refresh token, exchanged at `token_url` with the app that they signed in to.

    Under `lease`, the newest token is exchanged and its successor stored.
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

    No redirect is followed, and logs contain only its host.
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
    """Seconds that a call may take: in total, to connect, to the first byte, and between bytes."""

    read_s: float = 20.0
    write_s: float = 30.0
    connect_s: float = 5.0
    first_byte_s: float = 60.0
    between_bytes_s: float = 15.0

    @classmethod
    def of_kind(cls, setting_s: float, *, write_s: float = 30.0, bounded: bool = False) -> Self:
        """Returns the timeouts of a kind of connection.

        A read waits 60 s for the first byte, or as long as the operator's setting if longer. `bounded` makes
        the operator's setting the limit of every call, for tests.
        """
        if bounded:
            return cls(read_s=setting_s, write_s=min(setting_s, write_s), first_byte_s=setting_s)
        first_byte_s = max(_FIRST_BYTE_S, setting_s)
        return cls(read_s=first_byte_s + _REST_S, write_s=write_s, first_byte_s=first_byte_s)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The limits of a connection's calls: how many may run at once and start within a minute.

    `slow_after_s`: one call at a time while the last response took longer. `failure_backoff_s`: how long no
    call starts after the first, second, third … failure in a row. `min_interval_s`: the time between the
    starts of two calls of one kind. `urgent_concurrency`: how many approved writes and management calls may
    run beside reads that use all of `max_concurrency`. `cost_budget`: the platform also counts calls by
    their query cost.
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

    `base_url` has no query; for a SecretUrl it is only scheme, host and port. Endpoints with the same
    `rate_limit_key` share one rate limiter: a connection's own, or that of an account that several
    connections use. `documents` are the GraphQL documents that may be sent. `result_hosts` are suffixes of
    the hosts where the platform stores large results, which are fetched without credentials. `public_only`:
    the address comes from a workflow and not from an operator, so the operator's private hosts are refused
    as well. `hosts`: each request has its whole address, on one of these hosts; `*.` before a name stands
    for every name below it.
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
        """The host without the port, as logs name it."""
        return urlsplit(self.base_url).hostname or ""
