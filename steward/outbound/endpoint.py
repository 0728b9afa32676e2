"""What a connection's calls are bound to: address, proof of identity, pace and timeouts; no sockets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from steward.outbound.documents import DocumentRegistry
from steward.outbound.query_cost import CostBudget
from steward.telemetry.redact import Secret

# How long a read may take after the first byte of its answer.
REST_S = 30.0


@dataclass(frozen=True, slots=True)
class Basic:
    """HTTP Basic."""

    user: Secret
    password: Secret


@dataclass(frozen=True, slots=True)
class Bearer:
    """A fixed token in `Authorization`."""

    token: Secret


@dataclass(frozen=True, slots=True)
class HeaderSecret:
    """A fixed token in a header of the platform's own."""

    header: str
    value: Secret


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A key that is exchanged for short-lived tokens by a signed assertion (RS256) at `token_url`."""

    email: str
    private_key: Secret
    key_id: str | None
    token_url: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """An app's id and secret that are exchanged at `token_url` for tokens sent in `header`; no refresh."""

    client_id: str
    client_secret: Secret
    token_url: str
    header: str


@dataclass(frozen=True, slots=True)
class UserSignIn:
    """A person's refresh token that is exchanged at `token_url`, with the app they signed in to."""

    client_id: str
    client_secret: Secret
    refresh_token: Secret
    token_url: str


@dataclass(frozen=True, slots=True)
class SecretUrl:
    """The whole address is the secret, as with Teams: no redirect is followed, only its host is logged."""

    url: Secret


@dataclass(frozen=True, slots=True)
class UnsignedRequest:
    """A request as it is about to leave: what a signer signs; `headers` in lower case."""

    method: str
    url: str
    headers: Mapping[str, str]
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class RequestSigner:
    """A secret that never leaves: `sign` makes of it and of a request the headers that prove who asks."""

    secret: Secret
    sign: Callable[[str, UnsignedRequest], Mapping[str, str]]


TokenExchange: TypeAlias = ServiceAccount | ClientCredentials | UserSignIn
Credentials: TypeAlias = Basic | Bearer | HeaderSecret | TokenExchange | SecretUrl | RequestSigner | None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds a call may take: in all, to connect, to the first byte of its answer, and between bytes."""

    read_s: float = 20.0
    write_s: float = 30.0
    connect_s: float = 5.0
    first_byte_s: float = 60.0
    between_bytes_s: float = 15.0

    @classmethod
    def of_kind(
        cls, setting_s: float, *, first_byte_s: float = 60.0, write_s: float = 30.0, bounded: bool = False
    ) -> Self:
        """The timeouts of a kind of connection: its own `first_byte_s`, or the operator's if that is longer.

        `bounded` makes the operator's setting the limit of every call, as tests need it.
        """
        if bounded:
            return cls(read_s=setting_s, write_s=min(setting_s, write_s), first_byte_s=setting_s)
        first_byte_s = max(first_byte_s, setting_s)
        return cls(read_s=first_byte_s + REST_S, write_s=write_s, first_byte_s=first_byte_s)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many calls of a connection may run at once and start within a minute (connectors 7).

    `slow_after_s`: one at a time while the last answer took longer. `after_failure_s`: how long nothing
    starts after the first, second, third … failure in a row. `seconds_apart`: between starts of a kind.
    `urgent_places`: how many approved writes and upkeep calls may run beside reads that fill all places.
    `points`: the platform counts calls by their cost as well.
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
    """Where a connection's calls go and how: made by its connector, kept by the client.

    `base` has no query; for an AddressSecret it is scheme, host and port alone.
    `pace_key` is what shares one pace: the connection, or an account several connections use.
    `documents` are all that may be asked of a platform that is asked by documents; `result_hosts` suffixes
    of the hosts where it leaves large results, which are fetched without any secret. `public_only`: it goes
    where no operator sent it, so the operator's private hosts are as closed to it as any other private one.
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

    @property
    def host(self) -> str:
        """The host alone, as logs name it."""
        return urlsplit(self.base_url).hostname or ""
