"""Connections of an organization, their sealed secrets and the organization's data keys."""

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Json, PerEngine, Row, Tx, from_ms, from_ms_or_none
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import IntegrationId, OrgId

_CHECK_BATCH = 10
_CHECKS = PerEngine(
    "SELECT org_id, integration_id FROM connections WHERE state = 'connected' AND check_at <= {now}"
    " ORDER BY check_at LIMIT :most",
    "SELECT org_id, integration_id FROM queue_connection_checks(:most)",
)
_COLUMNS = (
    "org_id, integration_id, kind, is_store, name, domain, zone, currency, state, auth, account_label, facts,"
    " version, connected_at, last_ok_at, checked_at, last_error"
)


@dataclass(frozen=True, slots=True)
class SealedField:
    """An encrypted secret of a connection."""

    field: str
    version: int
    key_no: int
    sealed: bytes
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DataKey:
    """A data key of an organization, wrapped by a key-encryption key."""

    key_no: int
    wrapped: bytes
    kek_id: str


async def new_integration_id(tx: Tx, org: OrgId) -> IntegrationId:
    """Assigns the next number, unique in the deployment and never reused."""
    row = await tx.first(
        "INSERT INTO dir_integrations (org_id) VALUES (:org) RETURNING integration_id", {"org": org}
    )
    assert row is not None
    return IntegrationId(row["integration_id"])


async def get(tx: Tx, org: OrgId, integration: IntegrationId) -> Connection | None:
    """Returns the connection, or None when the organization does not have it."""
    row = await tx.first(
        f"SELECT {_COLUMNS} FROM connections WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )
    return _connection(row) if row else None


async def among(
    tx: Tx, org: OrgId, integrations: Collection[IntegrationId]
) -> dict[IntegrationId, Connection]:
    """Returns the connections with these ids that the organization has, by id."""
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM connections WHERE org_id = :org AND integration_id IN (:integrations)",
        {"org": org, "integrations": list(integrations)},
    )
    return {IntegrationId(row["integration_id"]): _connection(row) for row in rows}


async def find(
    tx: Tx,
    org: OrgId,
    *,
    kind: str | None = None,
    states: Collection[ConnectionState] = tuple(ConnectionState),
    stores_only: bool = False,
    after: IntegrationId | None = None,
    limit: int = 1000,
) -> list[Connection]:
    """Returns a page of connections in ascending order of their ids, those after the id `after`."""
    where = ["org_id = :org", "state IN (:states)"]
    args: dict[str, object] = {"org": org, "states": list(states), "limit": limit}
    if ConnectionState.CONNECTED not in states:  # few have; lets the planner use an index
        where.append("state <> 'connected'")
    if kind is not None:
        where.append("kind = :kind")
        args["kind"] = kind
    if stores_only:
        where.append("is_store")
    if after is not None:
        where.append("integration_id > :after")
        args["after"] = after
    rows = await tx.all(
        f"SELECT {_COLUMNS} FROM connections WHERE {' AND '.join(where)}"
        " ORDER BY integration_id LIMIT :limit",
        args,
    )
    return [_connection(row) for row in rows]


async def connected_by_kind(tx: Tx, org: OrgId) -> Counter[str]:
    """Counts the organization's connected stores and accounts by kind."""
    rows = await tx.all(
        "SELECT kind, count(*) AS many FROM connections WHERE org_id = :org AND state = 'connected'"
        " GROUP BY kind",
        {"org": org},
    )
    return Counter({row["kind"]: row["many"] for row in rows})


async def insert(tx: Tx, org: OrgId, connection: Connection, *, subject: str) -> bool:
    """Stores a new connection. Returns False when the organization already has one to the same `subject`."""
    touched = await tx.execute(
        f"INSERT INTO connections ({_COLUMNS}, granted, subject)"
        " VALUES (:org, :integration, :kind, :is_store, :name, :domain, :zone, :currency, :state, :auth,"
        " :label, :facts, :version, :connected_at, :last_ok_at, :checked_at, :last_error, '[]', :subject)"
        " ON CONFLICT (org_id, kind, subject) DO NOTHING",
        _args(org, connection) | {"subject": subject},
    )
    return touched == 1


async def save(tx: Tx, org: OrgId, connection: Connection, *, expected_version: int) -> bool:
    """Writes a connection over `expected_version`; returns False when another call has changed it."""
    touched = await tx.execute(
        "UPDATE connections SET name = :name, domain = :domain, zone = :zone, currency = :currency,"
        " state = :state, account_label = :label, facts = :facts, version = :version,"
        " connected_at = :connected_at, last_ok_at = :last_ok_at, checked_at = :checked_at,"
        " last_error = :last_error"
        " WHERE org_id = :org AND integration_id = :integration AND version = :expected",
        _args(org, connection) | {"expected": expected_version},
    )
    return touched == 1


async def due_for_check(tx: Tx) -> list[tuple[OrgId, IntegrationId]]:
    """Returns connections of all organizations that are due for a check."""
    rows = await tx.all(_CHECKS, {"most": _CHECK_BATCH})
    return [(OrgId(row["org_id"]), IntegrationId(row["integration_id"])) for row in rows]


async def check_next(tx: Tx, org: OrgId, integration: IntegrationId, check_at: datetime) -> None:
    """Sets when the connection is checked next."""
    await tx.execute(
        "UPDATE connections SET check_at = :at WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration, "at": check_at},
    )


async def check_soon(tx: Tx, org: OrgId, integrations: Collection[IntegrationId]) -> None:
    """Makes the connections due at the next check, unless they are due already."""
    for integration in sorted(integrations):
        await tx.execute(
            "UPDATE connections SET check_at = :now"
            " WHERE org_id = :org AND integration_id = :integration AND check_at > :now",
            {"org": org, "integration": integration, "now": tx.now},
        )


async def lease_token(tx: Tx, org: OrgId, integration: IntegrationId, *, lease: str, until: datetime) -> bool:
    """Takes the lease on a connection's refresh token; returns False while another process has it."""
    touched = await tx.execute(
        "UPDATE connections SET token_lease = :lease, token_leased_until = :until"
        " WHERE org_id = :org AND integration_id = :integration"
        " AND (token_leased_until IS NULL OR token_leased_until <= {now})",
        {"org": org, "integration": integration, "lease": lease, "until": until},
    )
    return touched == 1


async def release_token(tx: Tx, org: OrgId, integration: IntegrationId, *, lease: str) -> bool:
    """Ends a lease; returns False when it has expired and another process holds it."""
    touched = await tx.execute(
        "UPDATE connections SET token_lease = NULL, token_leased_until = NULL"
        " WHERE org_id = :org AND integration_id = :integration AND token_lease = :lease",
        {"org": org, "integration": integration, "lease": lease},
    )
    return touched == 1


async def secrets(tx: Tx, org: OrgId, integration: IntegrationId) -> list[SealedField]:
    """Returns the connection's sealed secrets."""
    rows = await tx.all(
        "SELECT field, version, key_no, sealed, expires_at FROM connection_secrets"
        " WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )
    return [_sealed_field(row) for row in rows]


async def put_secret(tx: Tx, org: OrgId, integration: IntegrationId, *, sealed: SealedField) -> None:
    """Stores a sealed secret in place of the earlier one."""
    await tx.execute(
        "INSERT INTO connection_secrets"
        " (org_id, integration_id, field, version, key_no, sealed, expires_at)"
        " VALUES (:org, :integration, :field, :version, :key_no, :sealed, :expires_at)"
        " ON CONFLICT (org_id, integration_id, field) DO UPDATE SET version = excluded.version,"
        " key_no = excluded.key_no, sealed = excluded.sealed, expires_at = excluded.expires_at",
        {
            "org": org,
            "integration": integration,
            "field": sealed.field,
            "version": sealed.version,
            "key_no": sealed.key_no,
            "sealed": sealed.sealed,
            "expires_at": sealed.expires_at,
        },
    )


async def erase_secrets(tx: Tx, org: OrgId, integration: IntegrationId) -> None:
    """Erases the connection's secrets."""
    await tx.execute(
        "DELETE FROM connection_secrets WHERE org_id = :org AND integration_id = :integration",
        {"org": org, "integration": integration},
    )


async def erase_some(tx: Tx, org: OrgId, integration: IntegrationId, fields: Collection[str]) -> None:
    """Erases these secrets of the connection."""
    await tx.execute(
        "DELETE FROM connection_secrets WHERE org_id = :org AND integration_id = :integration"
        " AND field IN (:fields)",
        {"org": org, "integration": integration, "fields": list(fields)},
    )


async def data_key(tx: Tx, org: OrgId, key_no: int | None = None) -> DataKey | None:
    """Returns the organization's data key `key_no`; without a number, the newest that is not retired."""
    which = "key_no = :key_no" if key_no is not None else "retired_at IS NULL"
    args: dict[str, object] = {"org": org}
    if key_no is not None:
        args["key_no"] = key_no
    row = await tx.first(
        f"SELECT key_no, wrapped, kek_id FROM org_keys WHERE org_id = :org AND {which}"
        " ORDER BY key_no DESC LIMIT 1",
        args,
    )
    return DataKey(row["key_no"], bytes(row["wrapped"]), row["kek_id"]) if row else None


async def put_data_key(tx: Tx, org: OrgId, key: DataKey) -> None:
    """Stores a data key; replaces one of the same number with its rewrapped form."""
    await tx.execute(
        "INSERT INTO org_keys (org_id, key_no, wrapped, kek_id, created_at)"
        " VALUES (:org, :key_no, :wrapped, :kek, :now)"
        " ON CONFLICT (org_id, key_no) DO UPDATE SET wrapped = excluded.wrapped, kek_id = excluded.kek_id",
        {"org": org, "key_no": key.key_no, "wrapped": key.wrapped, "kek": key.kek_id},
    )


async def data_keys(tx: Tx, org: OrgId) -> list[DataKey]:
    """Returns every data key of the organization, retired ones too, oldest first."""
    rows = await tx.all(
        "SELECT key_no, wrapped, kek_id FROM org_keys WHERE org_id = :org ORDER BY key_no", {"org": org}
    )
    return [DataKey(row["key_no"], bytes(row["wrapped"]), row["kek_id"]) for row in rows]


async def retire_data_keys(tx: Tx, org: OrgId, *, current: int) -> None:
    """Retires every data key but `current`: retired keys still open secrets, but seal none."""
    await tx.execute(
        "UPDATE org_keys SET retired_at = :now"
        " WHERE org_id = :org AND key_no <> :current AND retired_at IS NULL",
        {"org": org, "current": current},
    )


async def sealed_under_others(tx: Tx, org: OrgId, number: int) -> list[tuple[IntegrationId, SealedField]]:
    """Returns the organization's secrets that are sealed with a data key other than `number`."""
    rows = await tx.all(
        "SELECT integration_id, field, version, key_no, sealed, expires_at FROM connection_secrets"
        " WHERE org_id = :org AND key_no <> :number ORDER BY integration_id, field",
        {"org": org, "number": number},
    )
    return [(IntegrationId(row["integration_id"]), _sealed_field(row)) for row in rows]


async def reseal(
    tx: Tx, org: OrgId, integration: IntegrationId, *, before: SealedField, after: SealedField
) -> int:
    """Stores a resealed secret; returns 0 when it was replaced since it was read."""
    return await tx.execute(
        "UPDATE connection_secrets SET sealed = :sealed, key_no = :key_no"
        " WHERE org_id = :org AND integration_id = :integration AND field = :field"
        " AND version = :version AND key_no = :was",
        {
            "org": org,
            "integration": integration,
            "field": before.field,
            "version": before.version,
            "was": before.key_no,
            "key_no": after.key_no,
            "sealed": after.sealed,
        },
    )


def _args(org: OrgId, connection: Connection) -> dict[str, object]:
    return {
        "org": org,
        "integration": connection.integration_id,
        "kind": connection.kind,
        "is_store": connection.is_store,
        "name": connection.name,
        "domain": connection.domain,
        "zone": connection.zone,
        "currency": connection.currency,
        "state": connection.state,
        "auth": connection.auth,
        "label": connection.account_label,
        "facts": Json(connection.facts),
        "version": connection.version,
        "connected_at": connection.connected_at,
        "last_ok_at": connection.last_ok_at,
        "checked_at": connection.checked_at,
        "last_error": connection.last_error,
    }


def _sealed_field(row: Row) -> SealedField:
    expires_at = from_ms_or_none(row["expires_at"])
    return SealedField(row["field"], row["version"], row["key_no"], bytes(row["sealed"]), expires_at)


def _connection(row: Row) -> Connection:
    return Connection(
        org=OrgId(row["org_id"]),
        integration_id=IntegrationId(row["integration_id"]),
        kind=row["kind"],
        is_store=bool(row["is_store"]),
        name=row["name"],
        domain=row["domain"],
        zone=row["zone"],
        currency=row["currency"],
        state=ConnectionState(row["state"]),
        auth=Auth(row["auth"]),
        account_label=row["account_label"],
        facts=json.loads(row["facts"]),
        version=row["version"],
        connected_at=from_ms(row["connected_at"]),
        last_ok_at=from_ms_or_none(row["last_ok_at"]),
        checked_at=from_ms_or_none(row["checked_at"]),
        last_error=row["last_error"],
    )
