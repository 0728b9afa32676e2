"""Seals and opens the secrets of connections under the organization's data key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.connections.rotation import context_of_field
from steward.connectors.base.connector import Connector
from steward.connectors.base.settings import ConnectionSecrets
from steward.database.accounts import connections
from steward.database.accounts.connections import DataKey, SealedField
from steward.database.engine.base import Tx
from steward.model.connection import Connection
from steward.model.ids import IntegrationId, OrgId
from steward.outbound.client import Outbound
from steward.security.envelope import (
    CannotOpen,
    MasterKey,
    SealContext,
    new_data_key,
    open_sealed,
    seal,
    unwrap,
    wrap,
)
from steward.telemetry.redact import Secret, SecretRegister

# The names under which secrets created for a store's events are sealed beside its keys.
EVENT_KEY, EVENT_SECRET = "event_key", "event_secret"
# A replaced secret stays valid for two hours.
REPLACED_SUFFIX = "_before"
REPLACED_SECRET_VALID_FOR = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class Vault:
    """The dependencies of opening a connection; built once by app.py."""

    masters: Sequence[MasterKey]
    connectors: Mapping[str, Connector]
    outbound: Outbound
    register: SecretRegister


async def replace_secrets(
    tx: Tx,
    vault: Vault,
    org: OrgId,
    *,
    integration: IntegrationId,
    version: int,
    secrets: Mapping[str, Secret],
) -> None:
    """Seals secrets of a connection and stores them in place of all former ones, even the event address."""
    await connections.erase_secrets(tx, org, integration)
    await add_secrets(tx, vault, org, integration=integration, version=version, secrets=secrets)


async def add_secrets(
    tx: Tx,
    vault: Vault,
    org: OrgId,
    *,
    integration: IntegrationId,
    version: int,
    secrets: Mapping[str, Secret],
    until: datetime | None = None,
) -> None:
    """Seals more secrets of a connection and adds them to the stored ones, valid to `until` at most."""
    key_no, data_key = await _data_key(tx, vault, org)
    for field, secret in secrets.items():
        context = SealContext(org, integration, field, version, key_no)
        value = seal(secret.reveal().encode("utf-8"), data_key, context)
        field_to_store = SealedField(field, version, key_no, value, until)
        await connections.put_secret(tx, org, integration, sealed=field_to_store)


async def open_secrets(tx: Tx, vault: Vault, connection: Connection) -> ConnectionSecrets:
    """Opens a connection for its connector and registers its secrets for redaction.

    Raises CannotOpen when no master key opens them.
    """
    org, integration = connection.org, connection.integration_id
    opened: dict[str, Secret] = {}
    for field in await connections.secrets(tx, org, integration):
        if field.expires_at is not None and field.expires_at <= tx.now:
            continue
        if await connections.data_key(tx, org, field.key_no) is not None:
            opened[field.field] = await open_field(tx, vault, org, integration, field)
    vault.register.add(*opened.values())
    account_facts = connection.currency, connection.zone, connection.facts
    return ConnectionSecrets(integration, plain(connection), opened, *account_facts)


async def open_field(
    tx: Tx, vault: Vault, org: OrgId, integration: IntegrationId, field: SealedField
) -> Secret:
    """Opens one secret of a connection. Raises CannotOpen."""
    data_key = await opening_key(tx, vault, org, field.key_no)
    context = SealContext(org, integration, field.field, field.version, field.key_no)
    return Secret(open_sealed(field.sealed, data_key, context).decode("utf-8"))


def plain(connection: Connection) -> dict[str, str]:
    """Returns the settings that are not secret, as last submitted."""
    settings = connection.facts.get("settings")
    return {name: str(value) for name, value in settings.items()} if isinstance(settings, Mapping) else {}


async def seal_text(tx: Tx, vault: Vault, org: OrgId, *, field: str, text: str) -> tuple[int, bytes]:
    """Seals a text that belongs to no connection; returns the data key's number and the sealed text."""
    return await seal_bytes(tx, vault, org, field=field, value=text.encode("utf-8"))


async def seal_bytes(tx: Tx, vault: Vault, org: OrgId, *, field: str, value: bytes) -> tuple[int, bytes]:
    """Seals bytes like `seal_text`."""
    key_no, data_key = await _data_key(tx, vault, org)
    return key_no, seal(value, data_key, context_of_field(org, field, key_no))


async def open_text(tx: Tx, vault: Vault, org: OrgId, *, field: str, key_no: int, sealed: bytes) -> str:
    """Opens a text that `seal_text` sealed. Raises CannotOpen."""
    data_key = await opening_key(tx, vault, org, key_no)
    return open_sealed(sealed, data_key, context_of_field(org, field, key_no)).decode("utf-8")


async def sealing_key(tx: Tx, vault: Vault, org: OrgId) -> tuple[int, bytes]:
    """Returns the number and content of the current data key."""
    return await _data_key(tx, vault, org)


async def opening_key(tx: Tx, vault: Vault, org: OrgId, key_no: int) -> bytes:
    """Returns the data key with this number. Raises CannotOpen."""
    wrapped = await connections.data_key(tx, org, key_no)
    if wrapped is None:
        raise CannotOpen
    return unwrap(wrapped.wrapped, vault.masters, org_id=org, key_no=wrapped.key_no)


async def _data_key(tx: Tx, vault: Vault, org: OrgId) -> tuple[int, bytes]:
    """Returns the organization's newest data key; creates one when there is none."""
    newest = await connections.data_key(tx, org)
    if newest is not None:
        return newest.key_no, unwrap(newest.wrapped, vault.masters, org_id=org, key_no=newest.key_no)
    data_key = new_data_key()
    wrapped = wrap(data_key, vault.masters, org_id=org, key_no=1)
    await connections.put_data_key(tx, org, DataKey(1, wrapped, vault.masters[0].id))
    return 1, data_key
