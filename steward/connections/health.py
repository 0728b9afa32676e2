"""Checks connections regularly, so that a broken one is noticed before a run needs it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from steward.clock import Clock
from steward.connections import connect as connecting
from steward.connections.connect import CHECK_EVERY
from steward.connections.vault import Vault, open_secrets
from steward.connectors.base.connector import Health
from steward.connectors.base.settings import ConnectionSecrets
from steward.database.accounts import connections
from steward.database.engine.base import Engine, Tx
from steward.model.connection import Connection
from steward.model.ids import IntegrationId, OrgId
from steward.model.refusals import NotFound, StaleVersion, WrongState
from steward.outbound.errors import CallError, PlatformUnavailable, Unauthorized, WrongAddress, WrongResponder
from steward.scheduling.words import local_words
from steward.security.envelope import CannotOpen
from steward.telemetry.log import Log

_AGAIN = timedelta(seconds=60)
_SILENT_AGAIN = timedelta(minutes=10)
_SILENT_FOR = timedelta(hours=24)
_OTHER_FOR = timedelta(hours=1)
_DOUBTED = "doubted_at"
_OTHER_SINCE = "answered_by_other_since"
_MARKS = frozenset({_DOUBTED, _OTHER_SINCE})


@dataclass(frozen=True, slots=True)
class ConnectionChecks:
    """The dependencies of the checks of connections."""

    engine: Engine
    clock: Clock
    vault: Vault
    log: Log


async def check_due(checks: ConnectionChecks) -> bool:
    """Checks the connections that are due, one after the other. Returns whether there were any."""
    due = await checks.engine.read(checks.clock.now(), connections.due_for_check)
    for org, integration in due:
        await check(checks, org, integration)
    return bool(due)


async def check(checks: ConnectionChecks, org: OrgId, integration: IntegrationId) -> None:
    """Checks one account and stores the result; refused keys count only after a second refusal."""
    engine, clock = checks.engine, checks.clock
    claim = partial(_claim_check, vault=checks.vault, org=org, integration=integration)
    try:
        opened = await engine.write(clock.now(), claim, org=org)
    except CannotOpen as error:
        checks.log.error("connection_not_opened", error, org=org, integration=integration)
        return
    if opened is None:
        return
    connection, secrets = opened
    health = await connecting.check_again(checks.vault, connection, secrets)
    try:
        await engine.write(clock.now(), partial(_record_result, was=connection, health=health), org=org)
    except (NotFound, StaleVersion, WrongState):
        return  # The connection was changed in the meantime; the next check takes place as scheduled.


async def _claim_check(
    tx: Tx, *, vault: Vault, org: OrgId, integration: IntegrationId
) -> tuple[Connection, ConnectionSecrets] | None:
    """Schedules the next check and returns the opened connection; None when it no longer exists.

    The check is scheduled first, so that a connection that cannot be opened is not retried in a loop.
    """
    await connections.check_next(tx, org, integration, tx.now + CHECK_EVERY)
    connection = await connections.get(tx, org, integration)
    return None if connection is None else (connection, await open_secrets(tx, vault, connection))


async def _record_result(tx: Tx, *, was: Connection, health: Health) -> None:
    org, integration = was.org, was.integration_id
    refused = not health.ok and isinstance(health.error, Unauthorized | WrongAddress)
    if refused and health.error is not None and await _is_doubted(tx, was, health.error):
        return
    recorded = await connecting.record_check(
        tx, org, integration, health=_worded(was, health, tx.now), lasting=True
    )
    if not health.ok and not refused:
        await connections.check_next(tx, org, integration, tx.now + _SILENT_AGAIN)
    if health.ok:
        await _clear_marks(tx, recorded.connection)


async def _clear_marks(tx: Tx, connection: Connection) -> None:
    """Removes the marks of earlier refusals after a good response."""
    if _MARKS & connection.facts.keys():
        facts = {name: value for name, value in connection.facts.items() if name not in _MARKS}
        after = replace(connection, facts=facts, version=connection.version + 1)
        await connections.save(tx, connection.org, after, expected_version=connection.version)


def _worded(was: Connection, health: Health, now: datetime) -> Health:
    """Adds the start of an outage to the error message once it has lasted a day."""
    since = was.last_ok_at or was.connected_at
    refused = isinstance(health.error, Unauthorized | WrongAddress)
    if health.ok or health.error is None or refused or now - since < _SILENT_FOR:
        return health
    message = f"It has not answered well since {local_words(since, UTC)} UTC. {health.error.message}"
    return replace(health, error=PlatformUnavailable(message))


async def _is_doubted(tx: Tx, was: Connection, error: CallError) -> bool:
    """Records since when the account has refused; returns whether that is too short a time to act on.

    A refused key counts after a minute. Another responder in front of the account, such as a security
    plug-in or a maintenance page, often goes away and counts after an hour. Raises StaleVersion.
    """
    by_other = isinstance(error, WrongResponder)
    mark, patience = (_OTHER_SINCE, _OTHER_FOR) if by_other else (_DOUBTED, _AGAIN)
    since = _since(was, mark) or tx.now
    if tx.now - since >= patience:
        return False
    facts = {name: value for name, value in was.facts.items() if name not in _MARKS}
    last_error = error.message[:300] if by_other else was.last_error
    noted = {**facts, mark: since.isoformat()}
    after = replace(was, facts=noted, last_error=last_error, version=was.version + 1)
    if not await connections.save(tx, was.org, after, expected_version=was.version):
        raise StaleVersion
    again = min(tx.now + _SILENT_AGAIN, since + patience)
    await connections.check_next(tx, was.org, was.integration_id, again)
    return True


def _since(connection: Connection, mark: str) -> datetime | None:
    facts: Mapping[str, object] = connection.facts
    since = facts.get(mark)
    return datetime.fromisoformat(since) if isinstance(since, str) else None
