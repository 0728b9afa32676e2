"""Refresh tokens that a server replaces with each use: exchanged by one process at a time, and stored.

A server may end the whole sign-in when a token is used again, so a lease on the connection is held from
reading a token until its successor is stored. See docs/design/imports-accounts.md#refresh-tokens.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from steward.clock import Clock
from steward.connections import vault as vaults
from steward.connections.vault import Vault
from steward.connectors.base.settings import ConnectionSettings
from steward.database.accounts import connections
from steward.database.engine.base import Engine, Tx
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.endpoint import LeasedToken
from steward.outbound.errors import CallRefused, PlatformUnavailable
from steward.security.envelope import CannotOpen
from steward.telemetry.log import Log
from steward.telemetry.redact import Secret

FIELD = "refresh_token"
LEASE = timedelta(seconds=90)  # longer than an exchange can take
_AGAIN_S = 0.5


@dataclass(slots=True)
class TriedToken:
    """The refresh token of settings being checked; replaced when the server issues a new one."""

    current: Secret

    @asynccontextmanager
    async def leased(self) -> AsyncIterator[LeasedToken]:
        """Yields itself: no other process has the token yet."""
        yield self

    async def store(self, token: Secret) -> None:
        """Remembers the new token."""
        self.current = token


def with_latest(settings: ConnectionSettings, tried: TriedToken | None) -> ConnectionSettings:
    """Returns the settings with the latest refresh token of the check."""
    if tried is None:
        return settings
    return replace(settings, sealed={**settings.sealed, FIELD: tried.current})


@dataclass(slots=True)
class _LeasedToken:
    """A token under a lease; `store` stores its successor and ends the lease in one transaction."""

    tokens: "StoredRefreshTokens"
    org: OrgId
    integration: IntegrationId
    lease: str
    version: int
    current: Secret
    is_leased: bool = True

    async def store(self, token: Secret) -> None:
        """Stores the new token in place of the old one."""
        tokens = self.tokens
        work = partial(
            _store,
            vault=tokens.vault,
            org=self.org,
            integration=self.integration,
            lease=self.lease,
            version=self.version,
            token=token,
        )
        was_stored = await tokens.engine.write(tokens.clock.now(), work, org=self.org)
        self.is_leased = False
        if not was_stored:
            tokens.log.warning("refresh_token_not_kept", org=self.org, integration=self.integration)


@dataclass(frozen=True, slots=True)
class StoredRefreshTokens:
    """The refresh tokens of stored connections (`RefreshTokens` of outbound)."""

    engine: Engine
    clock: Clock
    vault: Vault
    log: Log

    @asynccontextmanager
    async def leased(self, org: OrgId, integration: IntegrationId) -> AsyncIterator[LeasedToken]:
        """Yields the newest token; no other process can exchange it in the meantime.

        Raises CallRefused without a token, PlatformUnavailable when another process does not release the
        lease.
        """
        token = await self._leased_token(org, integration)
        try:
            yield token
        finally:
            if token.is_leased:
                release = partial(
                    connections.release_token, org=org, integration=integration, lease=token.lease
                )
                await self.engine.write(self.clock.now(), release, org=org)

    async def _leased_token(self, org: OrgId, integration: IntegrationId) -> _LeasedToken:
        lease, ends_at = secrets.token_hex(12), self.clock.now() + LEASE
        while True:
            take = partial(_take, vault=self.vault, org=org, integration=integration, lease=lease)
            holds_lease = await self.engine.write(self.clock.now(), take, org=org)
            if holds_lease is not None:
                version, token = holds_lease
                return _LeasedToken(self, org, integration, lease, version, token)
            if self.clock.now() > ends_at + timedelta(seconds=_AGAIN_S):
                raise PlatformUnavailable("Another process is refreshing the sign-in of this account.")
            await self.clock.sleep(_AGAIN_S)


async def _take(
    tx: Tx, *, vault: Vault, org: OrgId, integration: IntegrationId, lease: str
) -> tuple[int, Secret] | None:
    """Takes the lease and reads the token; returns None while another process has it. Raises CallRefused."""
    was_taken = await connections.lease_token(tx, org, integration, lease=lease, until=tx.now + LEASE)
    if not was_taken and await connections.get(tx, org, integration) is not None:
        return None
    for field in await connections.secrets(tx, org, integration):
        if field.field == FIELD:
            try:
                return field.version, await vaults.open_field(tx, vault, org, integration, field)
            except CannotOpen as error:
                raise CallRefused("the sign-in of the connection cannot be opened") from error
    raise CallRefused("the connection has no sign-in any more")


async def _store(
    tx: Tx,
    *,
    vault: Vault,
    org: OrgId,
    integration: IntegrationId,
    lease: str,
    version: int,
    token: Secret,
) -> bool:
    """Stores a token if the lease still holds and the connection's keys were not replaced."""
    if not await connections.release_token(tx, org=org, integration=integration, lease=lease):
        return False
    current = {field.field: field.version for field in await connections.secrets(tx, org, integration)}
    if current.get(FIELD) != version:
        return False
    await vaults.add_secrets(tx, vault, org, integration=integration, version=version, secrets={FIELD: token})
    return True
