"""Short-lived tokens of accounts and apps: one exchange at a time, cached for 80 % of their lifetime."""

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import quote_plus, urlencode

import jwt

from steward.clock import Clock
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.endpoint import (
    ClientCredentials,
    LeasedToken,
    ServiceAccount,
    TokenExchange,
    TokenLease,
    UserSignIn,
)
from steward.outbound.errors import CallRefused, PlatformUnavailable, Unauthorized, UnusableResponse
from steward.outbound.response import Decoded, PlatformResponse
from steward.security.rsa_keys import load_rsa_key
from steward.telemetry.redact import Secret, SecretRegister

_MAX_TOKENS = 1_000
_EXCHANGE_S = 60.0  # for an exchange under a lease, which lasts longer
_MAX_LIFETIME_S = 24 * 3600
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_REFUSED = {
    ServiceAccount: "The sign-in of the service account was refused. Its key may have been removed.",
    ClientCredentials: "The store did not accept the app's client id and secret. The app may not be"
    " installed in this store, or its secret was changed.",
    UserSignIn: "The sign-in is no longer accepted. It may have been revoked. Sign in again.",
}
Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[PlatformResponse]]
_UNNAMED_LIFETIME_S = 3600  # for a token whose response has no lifetime (RFC 6749, 5.1)


class RefreshTokens(Protocol):
    """The interface to the stored refresh tokens of connections."""

    def leased(self, org: OrgId, integration: IntegrationId) -> AbstractAsyncContextManager[LeasedToken]:
        """Leases the newest token of a connection."""
        ...


@dataclass(slots=True)
class _Token:
    value: Secret
    valid_until: float  # by the monotonic clock
    refresh_token: Secret | None = None


def _lifetime(response: Mapping[str, Decoded]) -> int | None:
    """Returns the seconds that a token is valid; None if the lifetime is not a number."""
    lifetime_s = response.get("expires_in", _UNNAMED_LIFETIME_S)
    if isinstance(lifetime_s, str) and lifetime_s.isdecimal():
        return int(lifetime_s)
    return lifetime_s if isinstance(lifetime_s, int) and not isinstance(lifetime_s, bool) else None


class TokenCache:
    """Caches tokens by account or app, and exchanges a new one after 80 % of their lifetime."""

    def __init__(self, clock: Clock, register: SecretRegister) -> None:
        self._clock = clock
        self._register = register
        self._tokens: OrderedDict[TokenExchange, _Token] = OrderedDict()
        self._locks: dict[TokenExchange, asyncio.Lock] = {}
        self._exchanges: set[asyncio.Future[_Token]] = set()

    async def get(self, account: TokenExchange, post: Post) -> Secret:
        """Returns a valid token of `account`; without a cached one, calls `post(token_url, body, headers)`.

        An exchange under a lease continues even if the caller stops waiting. Raises Unauthorized,
        PlatformUnavailable, UnusableResponse.
        """
        lock = self._locks.setdefault(account, asyncio.Lock())
        async with lock:
            cached = self._tokens.get(account)
            if cached is not None and self._clock.monotonic() < cached.valid_until:
                return cached.value
            if isinstance(account, UserSignIn) and account.lease is not None:
                exchange = asyncio.ensure_future(self._exchange_leased(account, post, account.lease))
                self._exchanges.add(exchange)
                exchange.add_done_callback(self._exchanges.discard)
                token = await asyncio.shield(exchange)
            else:
                token = await self._exchange(account, post)
            self._tokens[account] = token
            self._tokens.move_to_end(account)
        while len(self._tokens) > _MAX_TOKENS:
            oldest, _ = self._tokens.popitem(last=False)
            self._locks.pop(oldest, None)
        return token.value

    def forget(self, account: TokenExchange) -> None:
        """Drops a token that the platform no longer accepts."""
        self._tokens.pop(account, None)

    async def _exchange_leased(self, account: UserSignIn, post: Post, lease: TokenLease) -> _Token:
        """Exchanges the newest refresh token under its lease; stores its successor."""
        async with lease() as leased:
            async with asyncio.timeout(_EXCHANGE_S):
                token = await self._exchange(replace(account, refresh_token=leased.current), post)
            new = token.refresh_token
            if new is not None and new.reveal() != leased.current.reveal():
                await leased.store(new)
                self._tokens[replace(account, refresh_token=new)] = token
        return token

    async def _exchange(self, account: TokenExchange, post: Post) -> _Token:
        """Exchanges the account's secrets for a token.

        Raises Unauthorized, PlatformUnavailable, UnusableResponse, CallRefused (an unusable private key).
        """
        form, headers = self._form(account), {}
        if not isinstance(account, ServiceAccount) and account.has_basic_auth:
            pair = f"{quote_plus(form.pop('client_id'))}:{quote_plus(form.pop('client_secret'))}"
            headers = {"authorization": "Basic " + base64.b64encode(pair.encode()).decode("ascii")}
            self._register.add(pair)
        response = await post(account.token_url, urlencode(form).encode("ascii"), headers)
        if response.status in (400, 401, 403):
            raise Unauthorized(
                _REFUSED[type(account)],
                platform_text=response.quote(response.body.decode("utf-8", "replace")),
            )
        if not response.ok:
            raise PlatformUnavailable("The sign-in address of the account does not answer as it should.")
        decoded = response.json()
        if not isinstance(decoded, dict):
            raise UnusableResponse("the sign-in gave no object")
        token, lifetime_s = decoded.get("access_token"), _lifetime(decoded)
        if not isinstance(token, str) or not token or lifetime_s is None or lifetime_s < 1:
            raise UnusableResponse("the sign-in gave no token")
        self._register.add(token)
        refresh = decoded.get("refresh_token")
        new = Secret(refresh) if isinstance(refresh, str) and refresh else None
        if new is not None:
            self._register.add(new)
        valid_until = self._clock.monotonic() + 0.8 * min(lifetime_s, _MAX_LIFETIME_S)
        return _Token(Secret(token), valid_until, new)

    def _form(self, account: TokenExchange) -> dict[str, str]:
        if isinstance(account, ServiceAccount):
            return {"grant_type": _GRANT, "assertion": self._assertion(account)}
        if isinstance(account, UserSignIn):
            return {
                "grant_type": "refresh_token",
                "refresh_token": account.refresh_token.reveal(),
                "client_id": account.client_id,
                "client_secret": account.client_secret.reveal(),
            }
        return {
            "grant_type": "client_credentials",
            "client_id": account.client_id,
            "client_secret": account.client_secret.reveal(),
            **dict(account.parameters),
        }

    def _assertion(self, account: ServiceAccount) -> str:
        """Returns the signed assertion of a service account (RFC 7523)."""
        now = int(self._clock.now().timestamp())
        claims: dict[str, object] = {
            "iss": account.email,
            "scope": " ".join(account.scopes),
            "aud": account.token_url,
            "iat": now,
            "exp": now + 3600,
        }
        headers = {"kid": account.key_id} if account.key_id else None
        try:
            return jwt.encode(claims, load_rsa_key(account.private_key.reveal()), "RS256", headers)
        except (ValueError, TypeError, jwt.PyJWTError):
            raise CallRefused("the key of the service account cannot sign") from None
