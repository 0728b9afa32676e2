"""Spreadsheets, tabs and channels that an account offers: read live and cached for five minutes."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from math import ceil

from steward.clock import Clock
from steward.connections.vault import Vault, open_secrets
from steward.connectors.base.connector import Destination
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.database.accounts import connections
from steward.database.engine.base import Engine, Tx
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId
from steward.model.refusals import NotConnected, Unavailable
from steward.outbound import errors
from steward.outbound.call_queue import Urgency
from steward.security.envelope import CannotOpen

_CACHE_SECONDS = 300.0
_SILENT_SECONDS = 10.0
_MAX_CACHED = 1000
_Key = tuple[OrgId, IntegrationId, int, str | None]


@dataclass(slots=True)
class DestinationCache:
    """Recently read destinations, by organization, connection, its version and the requested parent."""

    entries: OrderedDict[_Key, tuple[float, tuple[Destination, ...]]] = field(default_factory=OrderedDict)
    silent_s: float = _SILENT_SECONDS  # seconds to wait for an account

    def get(self, key: _Key, now: float) -> tuple[Destination, ...] | None:
        """Returns destinations that were read at most five minutes ago; None if there are none."""
        cached = self.entries.get(key)
        if cached is None or now - cached[0] >= _CACHE_SECONDS:
            return None
        return cached[1]

    def put(self, key: _Key, now: float, destinations: tuple[Destination, ...]) -> None:
        """Stores destinations and removes the oldest entries beyond the limit."""
        self.entries.pop(key, None)
        self.entries[key] = now, destinations
        while len(self.entries) > _MAX_CACHED:
            self.entries.popitem(last=False)


@dataclass(frozen=True, slots=True)
class DestinationReader:
    """Reads destinations from accounts and caches them."""

    engine: Engine
    clock: Clock
    vault: Vault
    cache: DestinationCache

    async def destinations(
        self, org: OrgId, integration: IntegrationId, *, parent: str | None
    ) -> tuple[Destination, ...]:
        """Returns the destinations under `parent`; none for an id that is not the organization's.

        Raises NotConnected, also when the account refuses, and Unavailable when it does not answer within
        ten seconds.
        """
        load = partial(_opened, vault=self.vault, org=org, integration=integration)
        opened = await self.engine.read(self.clock.now(), load, org=org)
        if opened is None:
            return ()
        connection, secrets = opened
        key = org, integration, connection.version, parent
        lately = self.cache.get(key, self.clock.monotonic())
        if lately is not None:
            return lately
        destinations = tuple(await self._ask(connection, secrets, parent))
        self.cache.put(key, self.clock.monotonic(), destinations)
        return destinations

    async def _ask(
        self, connection: Connection, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        connector = self.vault.connectors.get(connection.kind)
        if connector is None:
            return []
        try:
            link = connector.endpoint(secrets)
            http = self.vault.outbound.read_client(
                connection.org, connection.integration_id, link, urgency=Urgency.MANAGEMENT
            )
            async with asyncio.timeout(self.cache.silent_s):
                return await connector.destinations(http, secrets, parent)
        except TimeoutError as error:
            raise Unavailable(f"{connection.name} does not answer now.", retry_after=10) from error
        except errors.Throttled as error:
            wait = max(1, ceil(error.wait_s))
            raise Unavailable(f"{connection.name} asks for a pause.", retry_after=wait) from error
        except (errors.PlatformUnavailable, errors.UnusableResponse) as error:
            raise Unavailable(f"{connection.name}: {error.message}", retry_after=10) from error
        except (errors.CallError, BadSettings) as error:
            raise NotConnected(f"{connection.name} cannot be reached: {error}", errors={}) from error


async def _opened(
    tx: Tx, *, vault: Vault, org: OrgId, integration: IntegrationId
) -> tuple[Connection, ConnectionSecrets] | None:
    connection = await connections.get(tx, org, integration)
    if connection is None:
        return None
    if connection.state is not ConnectionState.CONNECTED:
        message = f"{connection.name} is not connected. Reconnect it in the web app."
        raise NotConnected(message, errors={})
    try:
        return connection, await open_secrets(tx, vault, connection)
    except CannotOpen as error:
        message = f"The keys of {connection.name} cannot be opened. Reconnect it in the web app."
        raise NotConnected(message, errors={}) from error
