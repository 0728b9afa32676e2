"""API credentials, and the one query that decides whether a token is still valid."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from steward.database.engine.base import PerEngine, Row, Tx, from_ms, from_ms_or_none
from steward.model.account import Credential
from steward.model.ids import OrgId, PersonId

_CREDENTIAL = "org_id, client_id, label, enabled, epoch, created_at, rotated_at, last_login_at"


class TokenState(NamedTuple):
    """The state that decides whether a token is valid; read on every call, never cached."""

    is_valid: bool
    automations_on: bool
    exceeded_limit: Literal["person", "org"] | None


@dataclass(frozen=True, slots=True)
class LoginRecord:
    """The stored values that a login is compared with."""

    secret_hmac: str
    pepper: str
    enabled: bool
    epoch: int
    organization_name: str
    person: PersonId
    username_norm: str
    email: str
    first_name: str
    last_name: str
    member_active: bool


def _credential(row: Row) -> Credential:
    return Credential(
        client_id=row["client_id"],
        org=OrgId(row["org_id"]),
        label=row["label"],
        enabled=bool(row["enabled"]),
        epoch=row["epoch"],
        created_at=from_ms(row["created_at"]),
        rotated_at=from_ms_or_none(row["rotated_at"]),
        last_login_at=from_ms_or_none(row["last_login_at"]),
    )


_TOKEN_STATE = PerEngine(
    sqlite=(
        "SELECT c.enabled AND c.epoch = :epoch AND m.active AND m.account_active"
        " AND :now < :until * 1000 AND :since * 1000 <= :now AS is_valid,"
        " o.automations_on, NULL AS exceeded_limit"
        " FROM credentials AS c"
        " JOIN members AS m ON m.org_id = c.org_id AND m.person_id = :person"
        " JOIN organizations AS o ON o.org_id = c.org_id"
        " WHERE c.org_id = :org AND c.client_id = :client"
    ),
    postgresql=(
        "SELECT is_valid, automations_on, exceeded_limit"
        " FROM steward_authenticate_token(:org, :person, :client, :epoch, :since, :until, :max_person,"
        " :max_org,"
        " :test_now)"
    ),
)


async def token_state(
    tx: Tx,
    org: OrgId,
    person: PersonId,
    *,
    client: str,
    epoch: int,
    since: int,
    until: int,
    max_person: int,
    max_org: int,
) -> TokenState | None:
    """Returns the states of a token's credential, member and organization, and whether it is in time.

    The token is valid from `since` to before `until`, in seconds since 1970 by the database's clock.

    Only for `engine.read(small=True)`: on PostgreSQL it also sets the tenant context of the connection and
    counts the call (unless `max_person` is 0); SQLite counts in memory.
    """
    row = await tx.first(
        _TOKEN_STATE,
        {
            "org": org,
            "person": person,
            "client": client,
            "epoch": epoch,
            "since": since,
            "until": until,
            "max_person": max_person,
            "max_org": max_org,
            "test_now": tx.test_now,
        },
    )
    if row is None:
        return None
    return TokenState(bool(row["is_valid"]), bool(row["automations_on"]), row["exceeded_limit"])


async def organization_of(tx: Tx, client_id: str) -> OrgId | None:
    """Returns the organization a client id belongs to."""
    row = await tx.first("SELECT org_id FROM dir_clients WHERE client_id = :client", {"client": client_id})
    return None if row is None else OrgId(row["org_id"])


async def for_login(tx: Tx, org: OrgId, client_id: str, email_norm: str) -> LoginRecord | None:
    """Returns the credential with the member who has this e-mail address; None when either is missing."""
    row = await tx.first(
        "SELECT c.secret_hmac, c.pepper, c.enabled, c.epoch, o.name, m.person_id, m.username_norm, p.email,"
        " m.first_name, m.last_name, m.active, m.account_active"
        " FROM credentials AS c"
        " JOIN organizations AS o ON o.org_id = c.org_id"
        " JOIN members AS m ON m.org_id = c.org_id AND m.email_norm = :email_norm"
        " JOIN people AS p ON p.person_id = m.person_id"
        " WHERE c.org_id = :org AND c.client_id = :client",
        {"org": org, "client": client_id, "email_norm": email_norm},
    )
    if row is None:
        return None
    return LoginRecord(
        secret_hmac=row["secret_hmac"],
        pepper=row["pepper"],
        enabled=bool(row["enabled"]),
        epoch=row["epoch"],
        organization_name=row["name"],
        person=PersonId(row["person_id"]),
        username_norm=row["username_norm"],
        email=row["email"],
        first_name=row["first_name"],
        last_name=row["last_name"],
        member_active=bool(row["active"]) and bool(row["account_active"]),
    )


async def record_login(tx: Tx, org: OrgId, client_id: str) -> None:
    """Records when the credential was last used to log in."""
    await tx.execute(
        "UPDATE credentials SET last_login_at = :now WHERE org_id = :org AND client_id = :client",
        {"org": org, "client": client_id},
    )


async def insert(tx: Tx, org: OrgId, client_id: str, *, secret_hmac: str, pepper: str, label: str) -> None:
    """Inserts an enabled credential of epoch 1, and its entry in the directory."""
    await tx.execute(
        "INSERT INTO dir_clients (client_id, org_id) VALUES (:client, :org)",
        {"client": client_id, "org": org},
    )
    await tx.execute(
        "INSERT INTO credentials (org_id, client_id, secret_hmac, pepper, enabled, epoch, label, created_at)"
        " VALUES (:org, :client, :secret_hmac, :pepper, :enabled, 1, :label, :now)",
        {
            "org": org,
            "client": client_id,
            "secret_hmac": secret_hmac,
            "pepper": pepper,
            "enabled": True,
            "label": label,
        },
    )


async def get(tx: Tx, org: OrgId, client_id: str) -> Credential | None:
    """Returns the credential, or None."""
    row = await tx.first(
        f"SELECT {_CREDENTIAL} FROM credentials WHERE org_id = :org AND client_id = :client",
        {"org": org, "client": client_id},
    )
    return None if row is None else _credential(row)


async def every(tx: Tx, org: OrgId) -> list[Credential]:
    """Returns the organization's credentials, oldest first."""
    rows = await tx.all(
        f"SELECT {_CREDENTIAL} FROM credentials WHERE org_id = :org ORDER BY created_at, client_id",
        {"org": org},
    )
    return [_credential(row) for row in rows]


async def set_secret(tx: Tx, org: OrgId, client_id: str, *, secret_hmac: str, pepper: str) -> int:
    """Sets a new secret for the client id, which ends all earlier tokens. Returns the rows changed."""
    return await tx.execute(
        "UPDATE credentials"
        " SET secret_hmac = :secret_hmac, pepper = :pepper, epoch = epoch + 1, rotated_at = :now"
        " WHERE org_id = :org AND client_id = :client",
        {"org": org, "client": client_id, "secret_hmac": secret_hmac, "pepper": pepper},
    )


async def set_enabled(tx: Tx, org: OrgId, client_id: str, enabled: bool) -> int:
    """Enables or disables the credential; ends the tokens issued so far."""
    return await tx.execute(
        "UPDATE credentials SET enabled = :enabled, epoch = epoch + 1"
        " WHERE org_id = :org AND client_id = :client",
        {"org": org, "client": client_id, "enabled": enabled},
    )
