"""Opens connections for runs: readers for every run, writers only for runs/writes/apply.py."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from steward.clock import Clock
from steward.connections.refresh_tokens import StoredRefreshTokens
from steward.connections.vault import Vault, open_secrets
from steward.connectors.base.connector import AnyWriteOperation, Connector, Reader, Receivable
from steward.connectors.base.requests import RequestWriter
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.connectors.web_request.connector import CHANGES
from steward.database.accounts import connections
from steward.database.engine.base import Engine, Tx
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import OrgId
from steward.model.refusals import NotConnected
from steward.outbound import web
from steward.outbound.call_queue import Urgency
from steward.outbound.errors import CallRefused
from steward.outbound.grant import WriteGrant
from steward.outbound.transport import CancelCheck
from steward.outbound.web import WebReadClient
from steward.security.envelope import CannotOpen
from steward.telemetry.log import Log


def keep_refresh_tokens(engine: Engine, clock: Clock, vault: Vault, log: Log) -> None:
    """Makes clients exchange refresh tokens of stored connections one at a time and store the new ones."""
    vault.outbound.transport.refresh_tokens = StoredRefreshTokens(engine, clock, vault, log)


@dataclass(frozen=True, slots=True)
class RunAccess:
    """The access of runs to the organization's stores and accounts (`ConnectionAccess` of runs)."""

    engine: Engine
    clock: Clock
    vault: Vault

    async def reader(
        self,
        org: OrgId,
        connection: Connection,
        *,
        urgency: Urgency = Urgency.READ,
        check_cancelled: CancelCheck | None = None,
    ) -> Reader:
        """Returns a reader, which can only read. Raises NotConnected."""
        connector, secrets = await self._open(org, connection)
        try:
            link = connector.endpoint(secrets)
            http = self.vault.outbound.read_client(
                org, connection.integration_id, link, urgency=urgency, check_cancelled=check_cancelled
            )
            return connector.reader(http, secrets)
        except (BadSettings, CallRefused) as error:
            raise NotConnected(f"{connection.name} cannot be reached: {error}", errors={}) from error

    async def writer(self, org: OrgId, connection: Connection, grant: WriteGrant) -> Any:
        """Returns a writer bound to `grant`; only runs/writes/apply.py calls it. Raises NotConnected."""
        if connection.kind == web.KIND:
            return RequestWriter(self.vault.outbound.web_write_client(grant).send)
        connector, secrets = await self._open(org, connection)
        try:
            link = connector.endpoint(secrets)
            http = self.vault.outbound.write_client(grant, connection.integration_id, link)
            return connector.writer(http, secrets)
        except (BadSettings, CallRefused) as error:
            raise NotConnected(f"{connection.name} cannot be reached: {error}", errors={}) from error

    def changes(self, kind: str) -> Mapping[str, AnyWriteOperation]:
        """Returns the plannable changes of a kind of connection."""
        return CHANGES if kind == web.KIND else self.vault.connectors[kind].writes

    def receives_messages(self, kind: str) -> bool:
        """Returns whether writes to this kind of connection are messages to people."""
        return kind != web.KIND and Receivable.MESSAGE in self.vault.connectors[kind].capabilities.receives

    def web(self, org: OrgId, *, check_cancelled: CancelCheck | None = None) -> WebReadClient:
        """Returns a client for addresses without a connection, which imported workflows call."""
        return self.vault.outbound.web_read_client(org, check_cancelled=check_cancelled)

    async def _open(self, org: OrgId, connection: Connection) -> tuple[Connector, ConnectionSecrets]:
        """Returns the connector and the current secrets of a connection. Raises NotConnected."""
        load = partial(_current, vault=self.vault, connection=connection)
        try:
            secrets = await self.engine.read(self.clock.now(), load, org=org)
        except CannotOpen as error:
            message = f"The keys of {connection.name} cannot be opened. Reconnect it in the web app."
            raise NotConnected(message, errors={}) from error
        return self.vault.connectors[connection.kind], secrets


async def _current(tx: Tx, *, vault: Vault, connection: Connection) -> ConnectionSecrets:
    current = await connections.get(tx, connection.org, connection.integration_id)
    if current is None or current.state is not ConnectionState.CONNECTED:
        raise NotConnected(f"{connection.name} is not connected. Reconnect it in the web app.", errors={})
    return await open_secrets(tx, vault, current)
