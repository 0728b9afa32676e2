"""Connects, checks, reconnects, renames and disconnects stores and accounts."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from steward.connections import vault as vaults
from steward.connections.account_check import CheckedSettings, bad_settings, check_opened_account
from steward.connections.vault import Vault
from steward.connectors.base.connector import ConnectionKind, Health
from steward.connectors.base.settings import IDENTITY, ConnectionSecrets, ConnectionSettings
from steward.database.accounts import audit, connections
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.database.events import endpoints, subscriptions
from steward.database.notifications import facts
from steward.model.account import Actor
from steward.model.connection import Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonObject, JsonValue
from steward.model.refusals import NotFound, StaleVersion, WrongState
from steward.outbound.errors import (
    Unauthorized,
    WrongAddress,
    WrongResponder,
)
from steward.scheduling import zones
from steward.security.envelope import CannotOpen
from steward.telemetry.redact import Secret

# The interval of the regular checks of a connection.
CHECK_EVERY = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class CheckMessage:
    """A line of the report of a check."""

    level: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check, in words."""

    ok: bool
    checked_at: datetime
    messages: tuple[CheckMessage, ...]


@dataclass(frozen=True, slots=True)
class CheckedConnection:
    """A connection with the report of its check."""

    connection: Connection
    check: CheckReport


async def connect(
    tx: Tx, actor: Actor, name: str, *, checked: CheckedSettings, vault: Vault
) -> CheckedConnection:
    """Stores a new connection whose settings were checked.

    Raises ValidationFailed when the account is connected already.
    """
    names = _identities(checked.settings.subject, checked.health.facts)
    for other in await connections.find(tx, actor.org, kind=checked.kind):
        if names & _identities(other.facts.get("subject"), other.facts):
            message = (
                f"This is connected already, as {other.name} (number {other.integration_id})."
                if other.state is ConnectionState.CONNECTED
                else f"This was {other.name} (number {other.integration_id}). Reconnect that one."
            )
            raise bad_settings({next(iter(checked.settings.plain), ""): [message]})
    integration = await connections.new_integration_id(tx, actor.org)
    connector = vault.connectors[checked.kind]
    connection = _with_health(
        Connection(
            org=actor.org,
            integration_id=integration,
            kind=checked.kind,
            is_store=connector.facts.kind is ConnectionKind.STORE,
            name=name,
            domain=checked.settings.domain,
            zone=None,
            currency=None,
            state=ConnectionState.CONNECTED,
            auth=checked.settings.auth,
            account_label=None,
            facts={},
            version=1,
            connected_at=tx.now,
            last_ok_at=None,
            checked_at=None,
            last_error=None,
        ),
        checked.health,
        settings=checked.settings,
        now=tx.now,
    )
    subject = str(checked.health.facts.get(IDENTITY, checked.settings.subject))
    if not await connections.insert(tx, actor.org, connection, subject=subject):
        message = "This was connected in the meantime. Reload the page."  # by another request in the meantime
        raise bad_settings({next(iter(checked.settings.plain), ""): [message]})
    await vaults.replace_secrets(
        tx, vault, actor.org, integration=integration, version=1, secrets=checked.settings.sealed
    )
    await connections.check_next(tx, actor.org, integration, tx.now + CHECK_EVERY)
    await _note(tx, actor, "connected", connection)
    return CheckedConnection(connection, report(checked.health, checked.checked_at))


def _identities(subject: object, facts: JsonObject) -> set[object]:
    """Returns the identities of an account: from its settings, and from its own response if it gave one."""
    return {subject, facts.get(IDENTITY, subject)}


async def reconnect(
    tx: Tx, actor: Actor, integration: IntegrationId, *, checked: CheckedSettings, vault: Vault
) -> CheckedConnection:
    """Gives a connection new keys for the same account.

    Raises NotFound, WrongState (connected), ValidationFailed (another account than before), StaleVersion.
    """
    before = await _get(tx, actor.org, integration)
    if before.state is ConnectionState.CONNECTED:
        raise WrongState("This connection is connected. Disconnect it first to give it other keys.")
    names = _identities(checked.settings.subject, checked.health.facts)
    if not names & _identities(before.facts.get("subject"), before.facts):
        message = "This leads to another account than before. Connect that one as a new connection."
        raise bad_settings({next(iter(checked.settings.plain), ""): [message]})
    version = before.version + 1
    after = _with_health(
        replace(before, state=ConnectionState.CONNECTED, connected_at=tx.now, version=version),
        checked.health,
        settings=checked.settings,
        now=tx.now,
    )
    await subscriptions.schedule_check_if_listening(tx, actor.org, integration)
    await _save(tx, after, expected_version=before.version)
    replaced_secrets = await _replaced_secrets(tx, vault, before)
    await vaults.replace_secrets(
        tx, vault, actor.org, integration=integration, version=version, secrets=checked.settings.sealed
    )
    until = tx.now + vaults.REPLACED_SECRET_VALID_FOR
    await vaults.add_secrets(
        tx, vault, actor.org, integration=integration, version=version, secrets=replaced_secrets, until=until
    )
    await endpoints.close(tx, actor.org, integration)  # its key was replaced with the others
    await connections.check_next(tx, actor.org, integration, tx.now + CHECK_EVERY)
    await _note(tx, actor, "reconnected", after)
    return CheckedConnection(after, report(checked.health, checked.checked_at))


async def _replaced_secrets(tx: Tx, vault: Vault, before: Connection) -> dict[str, Secret]:
    """Returns the former secrets that stay valid for a while after new keys are given.

    They are the secrets that signed events, and the event address, by which old subscriptions are found.
    """
    connector = vault.connectors.get(before.kind)
    if connector is None or connector.events is None:
        return {}
    try:
        sealed = (await vaults.open_secrets(tx, vault, before)).sealed
    except CannotOpen:  # CannotOpen: new keys solve that
        return {}
    names = (vaults.EVENT_KEY, *connector.events.signing_settings)
    return {f"{name}{vaults.REPLACED_SUFFIX}": sealed[name] for name in names if name in sealed}


async def check_again(vault: Vault, connection: Connection, secrets: ConnectionSecrets) -> Health:
    """Checks a connection with its current keys; stores nothing."""
    connector = vault.connectors[connection.kind]
    return await check_opened_account(
        vault, connection.org, connector, secrets, integration=connection.integration_id
    )


async def record_check(
    tx: Tx, org: OrgId, integration: IntegrationId, *, health: Health, lasting: bool = False
) -> CheckedConnection:
    """Stores the result of a check: success restores the connection, a bad key requires a reconnect.

    A web page or a redirect in place of a response requires a reconnect only when it is `lasting`.

    Raises NotFound, WrongState (disconnected), StaleVersion.
    """
    before = await _get(tx, org, integration)
    if before.state is ConnectionState.DISCONNECTED:
        raise WrongState("This connection is disconnected. Reconnect it first.")
    if health.ok:
        state = ConnectionState.CONNECTED
    elif isinstance(health.error, WrongResponder) and not lasting:
        state = before.state
    elif isinstance(health.error, Unauthorized | WrongAddress):
        state = ConnectionState.NEEDS_RECONNECTING
    else:
        state = before.state
    changed = replace(before, state=state, version=before.version + 1)
    after = _with_health(changed, health, settings=None, now=tx.now)
    if after.state is not before.state:
        await subscriptions.schedule_check_if_listening(tx, org, integration)
    await _save(tx, after, expected_version=before.version)
    if after.state is ConnectionState.NEEDS_RECONNECTING and after.state is not before.state:
        await facts.connection_lost(tx, after)
    await connections.check_next(tx, org, integration, tx.now + CHECK_EVERY)
    return CheckedConnection(after, report(health, tx.now))


async def rename(tx: Tx, actor: Actor, integration: IntegrationId, name: str) -> Connection:
    """Renames a connection; automations that run on it follow. Raises NotFound, StaleVersion."""
    before = await _get(tx, actor.org, integration)
    after = replace(before, name=name, version=before.version + 1)
    await _save(tx, after, expected_version=before.version)
    await automations.relabel(tx, actor.org, integration, name)
    return after


async def disconnect(tx: Tx, actor: Actor, integration: IntegrationId) -> Connection:
    """Ends a connection and erases its keys; the caller has paused its automations in the same transaction.

    Raises NotFound, WrongState (already disconnected), StaleVersion.
    """
    before = await _get(tx, actor.org, integration)
    if before.state is ConnectionState.DISCONNECTED:
        raise WrongState("This connection is disconnected already.")
    after = replace(before, state=ConnectionState.DISCONNECTED, version=before.version + 1)
    await subscriptions.schedule_check_if_listening(tx, actor.org, integration)
    await _save(tx, after, expected_version=before.version)
    await connections.erase_secrets(tx, actor.org, integration)
    await endpoints.close(tx, actor.org, integration)
    await _note(tx, actor, "disconnected", after)
    return after


async def _note(tx: Tx, actor: Actor, action: str, connection: Connection) -> None:
    number, detail = str(connection.integration_id), {"kind": connection.kind}
    await audit.by_person(tx, actor, action, object_kind="connection", object_id=number, detail=detail)


async def _get(tx: Tx, org: OrgId, integration: IntegrationId) -> Connection:
    connection = await connections.get(tx, org, integration)
    if connection is None:
        raise NotFound
    return connection


async def _save(tx: Tx, after: Connection, *, expected_version: int) -> None:
    if not await connections.save(tx, after.org, after, expected_version=expected_version):
        raise StaleVersion("The connection was changed in the meantime. Reload the page.")


def _with_health(
    connection: Connection, health: Health, *, settings: ConnectionSettings | None, now: datetime
) -> Connection:
    """Returns the connection with a check's result; a failed check keeps the facts of the last good one."""
    facts: dict[str, JsonValue] = dict(connection.facts)
    if settings is not None:
        facts |= {"settings": dict(settings.plain), "subject": settings.subject}
    connection = replace(
        connection,
        facts=facts,
        domain=health.domain or connection.domain,
        zone=health.zone if health.zone and zones.zone(health.zone) else connection.zone,
        currency=health.currency or connection.currency,
        account_label=health.account_label or connection.account_label,
        checked_at=now,
    )
    if not health.ok:
        return replace(connection, last_error=_error_text(health))
    facts |= health.facts
    facts |= {
        "rights": list(health.rights),
        "missing_rights": list(health.missing_rights),
        "channels": [[entry.id, entry.name, entry.active] for entry in health.channels],
        "locations": [[entry.id, entry.name, entry.active] for entry in health.locations],
    }
    return replace(connection, facts=facts, last_ok_at=now, last_error=None)


def _error_text(health: Health) -> str | None:
    return None if health.error is None else health.error.message[:300]


def report(health: Health, checked_at: datetime) -> CheckReport:
    """Returns the check in words: what works, what is missing and what failed."""
    lines: list[CheckMessage] = []
    if health.ok:
        label = health.account_label or health.name or health.domain
        lines.append(CheckMessage("ok", f"Connected to {label}." if label else "Connected."))
    elif health.error is not None:
        lines.append(CheckMessage("error", health.error.message))
    lines += [CheckMessage("warning", warned.message) for warned in health.warnings]
    return CheckReport(health.ok, checked_at, tuple(lines))
