"""Connecting stores and accounts; only the web app can."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import msgspec
from pydantic import Field

from steward.api.app.used_connections import UsedConnectionsResponse, find
from steward.api.http.operation import Access, ApiCall, Operation, PreparedIsStale, Response
from steward.api.schema.fields import NameText, OpenObject, PlatformText, RequestBody
from steward.api.v1.catalogue import ConnectionRecord, ConnectionsQuery, connection_record
from steward.automations import pauses
from steward.connections import account_check
from steward.connections import connect as connecting
from steward.connections.account_check import CheckedSettings
from steward.connections.connect import CheckedConnection, CheckReport
from steward.connections.vault import Vault, open_secrets
from steward.connectors.base.connector import ConnectionKind, Health, IssuesKeys
from steward.connectors.base.settings import ConnectionSecrets
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.events import subscription_sync
from steward.model.account import Role
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId
from steward.model.instants import wire_time
from steward.model.refusals import NotConnected, NotFound, WrongState
from steward.outbound.errors import CallError
from steward.security.envelope import CannotOpen

_UNSUBSCRIBE_SECONDS = 5.0


class KindRecord(msgspec.Struct):
    """A kind of connection, the schema of its settings form, and the sign-in provider, if any.

    `sign_in_ready`: the sign-in is configured by the operator, or needs no configuration. `issues_keys`: the
    shop issues keys on a page of its own; `no_keys_reason`: why it cannot deliver them to this installation.
    `receives`: what templates send to such a connection, of `message`, `table` and `file`.
    """

    kind: str
    title: str
    store: bool
    auth: list[str]
    settings_schema: Mapping[str, Any]
    receives: list[str]
    sign_in: str | None = None
    sign_in_schema: Mapping[str, Any] | None = None
    sign_in_ready: bool = False
    issues_keys: bool = False
    no_keys_reason: str | None = None


class KindsResponse(msgspec.Struct):
    """The kinds there are."""

    kinds: list[KindRecord]


class MessageRecord(msgspec.Struct):
    """A line of a check's report."""

    level: str
    message: str


class CheckRecord(msgspec.Struct):
    """The result of a check."""

    ok: bool
    checked_at: str
    messages: list[MessageRecord]


class ConnectedResponse(msgspec.Struct):
    """A connection with the report of its check."""

    connection: ConnectionRecord
    check: CheckRecord


class ConnectionResponse(msgspec.Struct):
    """A connection."""

    connection: ConnectionRecord


class ConnectBody(RequestBody):
    """A new connection."""

    kind: PlatformText
    name: Annotated[NameText, Field(max_length=120)]
    settings: OpenObject


class ReconnectBody(RequestBody):
    """New keys for the same account."""

    settings: OpenObject


class RenameBody(RequestBody):
    """Another name."""

    name: NameText


async def kinds(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/connections/kinds` with every kind and the schema of its settings."""
    connectors = sorted(call.context.vault.connectors.items())
    return KindsResponse(
        [
            KindRecord(
                kind,
                connector.facts.title,
                connector.facts.kind is ConnectionKind.STORE,
                [str(auth) for auth in connector.facts.auth],
                connector.facts.settings_schema,
                sorted(str(content) for content in connector.facts.capabilities.receives),
                connector.facts.sign_in_provider.capitalize() or None,
                connector.facts.sign_in_schema,
                connector.facts.sign_in_schema is not None
                or connector.facts.sign_in_provider in call.context.rules.sign_in.providers,
                isinstance(connector, IssuesKeys),
                connector.no_keys_reason(call.context.rules.web_origin)
                if isinstance(connector, IssuesKeys)
                else None,
            )
            for kind, connector in connectors
        ]
    )


async def prepare_connect(call: ApiCall) -> CheckedSettings:
    """Checks the settings against the account, with no transaction open."""
    body: ConnectBody = call.body
    return await account_check.check_settings(
        vault_of(call), call.actor.org, body.kind, submitted=body.settings, now=call.context.clock.now()
    )


async def connect(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/connections`. Stores the connection once it is checked."""
    body: ConnectBody = call.body
    checked: CheckedSettings = call.prepared
    return _connected(
        await connecting.connect(tx, call.actor, body.name, checked=checked, vault=vault_of(call))
    )


async def prepare_reconnect(call: ApiCall) -> CheckedSettings:
    """Checks the new settings against the account."""
    body: ReconnectBody = call.body
    context = call.context
    load = partial(_get, org=call.actor.org, integration=_integration(call))
    before = await context.engine.read(context.clock.now(), load, org=call.actor.org)
    return await account_check.check_settings(
        vault_of(call), call.actor.org, before.kind, submitted=body.settings, now=context.clock.now()
    )


async def reconnect(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/connections/{integrationId}/reconnect`. Gives the same account new keys."""
    checked: CheckedSettings = call.prepared
    integration = _integration(call)
    return _connected(
        await connecting.reconnect(tx, call.actor, integration, checked=checked, vault=vault_of(call))
    )


async def prepare_check(call: ApiCall) -> tuple[int, Health]:
    """Checks the account outside a transaction; returns the connection's version beside the result."""
    context, vault = call.context, vault_of(call)

    async def load(tx: Tx) -> tuple[Connection, ConnectionSecrets]:
        connection = await _get(tx, org=call.actor.org, integration=_integration(call))
        if connection.state is ConnectionState.DISCONNECTED:
            raise WrongState("This connection is disconnected. Reconnect it first.")
        return connection, await open_secrets(tx, vault, connection)

    connection, opened = await context.engine.read(context.clock.now(), load, org=call.actor.org)
    return connection.version, await connecting.check_again(vault, connection, opened)


async def check(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/connections/{integrationId}/check`.

    The status is 200 also if the check fails.
    """
    version, health = call.prepared
    integration = _integration(call)
    before = await _get(tx, org=call.actor.org, integration=integration)
    if before.version != version:
        raise PreparedIsStale
    return _connected(await connecting.record_check(tx, call.actor.org, integration, health=health))


async def rename(tx: Tx, call: ApiCall) -> Response:
    """Handles `PATCH /app/connections/{integrationId}`. Renames the connection for its automations too."""
    body: RenameBody = call.body
    renamed = await connecting.rename(tx, call.actor, _integration(call), body.name)
    return ConnectionResponse(connection_record(renamed))


async def unsubscribe(call: ApiCall) -> None:
    """Ends the store's event subscriptions before its keys are erased.

    A store that does not respond is disconnected anyway: its event address is closed.
    """
    context = call.context
    vault: Vault = context.vault
    integration = _integration(call)

    async def load(tx: Tx) -> tuple[Connection, ConnectionSecrets] | None:
        connection = await connections.get(tx, call.actor.org, integration)
        if connection is None or connection.state is ConnectionState.DISCONNECTED:
            return None
        return connection, await open_secrets(tx, vault, connection)

    try:
        opened = await context.engine.read(context.clock.now(), load, org=call.actor.org)
        if opened is not None:
            async with asyncio.timeout(_UNSUBSCRIBE_SECONDS):
                await subscription_sync.unsubscribe(vault, *opened, base_url=context.rules.base_url)
    except (CallError, CannotOpen, TimeoutError):
        context.log.info("store_not_unsubscribed", org=call.actor.org, integration=integration)


async def disconnect(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/connections/{integrationId}/disconnect`.

    Erases the keys and pauses the connection's automations.
    """
    integration = _integration(call)
    before = await _get(tx, org=call.actor.org, integration=integration)
    rules, reason = call.context.automation_rules, f"{before.name} was disconnected."
    # The lock order is schedules, listeners, connections.
    await pauses.pause_for_connection(tx, call.actor.org, integration, reason=reason, rules=rules)
    ended = await connecting.disconnect(tx, call.actor, integration)
    return ConnectionResponse(connection_record(ended))


async def _get(tx: Tx, *, org: OrgId, integration: IntegrationId) -> Connection:
    connection = await connections.get(tx, org, integration)
    if connection is None:
        raise NotFound
    return connection


def _integration(call: ApiCall) -> IntegrationId:
    return IntegrationId(int(call.ids["integration_id"]))


def vault_of(call: ApiCall) -> Vault:
    """Returns the vault that opens a connection's credentials."""
    vault: Vault = call.context.vault
    return vault


def _connected(connected: CheckedConnection) -> ConnectedResponse:
    return ConnectedResponse(connection_record(connected.connection), _check(connected.check))


def _check(check: CheckReport) -> CheckRecord:
    lines = [MessageRecord(line.level, line.message) for line in check.messages]
    return CheckRecord(check.ok, wire_time(check.checked_at), lines)


OPERATIONS = (
    Operation(
        name="connections.list_kinds",
        method="GET",
        path="/app/connections/kinds",
        access=Access.APP,
        role=Role.MEMBER,
        function=kinds,
        response=KindsResponse,
        summary="List kinds of connections",
        small=True,
    ),
    Operation(
        name="connections.list_used",
        method="GET",
        path="/app/connections",
        access=Access.APP,
        role=Role.MEMBER,
        function=find,
        query=ConnectionsQuery,
        response=UsedConnectionsResponse,
        summary="List connections and how many automations need each",
    ),
    Operation(
        name="connections.create",
        method="POST",
        path="/app/connections",
        access=Access.APP,
        role=Role.OWNER,
        prepare=prepare_connect,
        function=connect,
        body=ConnectBody,
        response=ConnectedResponse,
        summary="Connect a store or account",
        status=201,
        refusals=(NotConnected,),
        writes=True,
        seconds=25.0,
    ),
    Operation(
        name="connections.check",
        method="POST",
        path="/app/connections/{integration_id}/check",
        access=Access.APP,
        role=Role.OWNER,
        prepare=prepare_check,
        function=check,
        response=ConnectedResponse,
        summary="Check a connection",
        refusals=(WrongState,),
        writes=True,
        seconds=25.0,
    ),
    Operation(
        name="connections.rename",
        method="PATCH",
        path="/app/connections/{integration_id}",
        access=Access.APP,
        role=Role.OWNER,
        function=rename,
        body=RenameBody,
        response=ConnectionResponse,
        summary="Rename a connection",
        writes=True,
    ),
    Operation(
        name="connections.reconnect",
        method="POST",
        path="/app/connections/{integration_id}/reconnect",
        access=Access.APP,
        role=Role.OWNER,
        prepare=prepare_reconnect,
        function=reconnect,
        body=ReconnectBody,
        response=ConnectedResponse,
        summary="Reconnect a store or account",
        refusals=(NotConnected, WrongState),
        writes=True,
        seconds=25.0,
    ),
    Operation(
        name="connections.disconnect",
        method="POST",
        path="/app/connections/{integration_id}/disconnect",
        access=Access.APP,
        role=Role.OWNER,
        prepare=unsubscribe,
        function=disconnect,
        response=ConnectionResponse,
        summary="Disconnect a store or account",
        refusals=(WrongState,),
        writes=True,
    ),
)
