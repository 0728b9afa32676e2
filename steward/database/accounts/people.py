"""People and their memberships; accounts/ handles passwords and decides who may change whom."""

from dataclasses import dataclass

from steward.database.engine.base import PerEngine, Row, Tx
from steward.model.account import Membership, Person, Role
from steward.model.ids import OrgId, PersonId

_PERSON = "person_id, email, username, first_name, last_name, active"
_PERSON_WITH_PASSWORD = f"{_PERSON}, password_hash, unclaimed"


@dataclass(frozen=True, slots=True)
class PersonWithPassword:
    """A person and the hash of their password, if any.

    `unclaimed` marks an invited person who has not accepted yet and has no account's address.
    """

    person: Person
    password_hash: str | None
    unclaimed: bool = False


def _person(row: Row) -> Person:
    return Person(
        id=PersonId(row["person_id"]),
        email=row["email"],
        username=row["username"],
        first_name=row["first_name"],
        last_name=row["last_name"],
        active=bool(row["active"]),
    )


def _with_password(row: Row) -> PersonWithPassword:
    return PersonWithPassword(_person(row), row["password_hash"], bool(row["unclaimed"]))


async def insert(
    tx: Tx,
    *,
    email: str,
    email_norm: str,
    username: str,
    first_name: str,
    last_name: str,
    unclaimed: bool = False,
) -> PersonId | None:
    """Inserts a person and returns the id; None when the e-mail address is taken."""
    row = await tx.first(
        "INSERT INTO people"
        " (email, email_norm, username, first_name, last_name, active, unclaimed, created_at)"
        " VALUES (:email, :email_norm, :username, :first_name, :last_name, :active, :unclaimed, :now)"
        " ON CONFLICT (email_norm) DO NOTHING"
        " RETURNING person_id",
        {
            "email": email,
            "email_norm": email_norm,
            "username": username,
            "first_name": first_name,
            "last_name": last_name,
            "active": True,
            "unclaimed": unclaimed,
        },
    )
    return None if row is None else PersonId(row["person_id"])


async def insert_invited(tx: Tx, *, email: str, reference: str) -> PersonId:
    """Inserts an invited person and returns the id, without showing whether the address has an account.

    `reference` is stored in place of the normalized address, and contains no @.
    """
    person = await insert(
        tx, email=email, email_norm=reference, username="", first_name="", last_name="", unclaimed=True
    )
    if person is None:
        raise LookupError("a reference is random")
    return person


async def lock_email(tx: Tx, email_norm: str) -> None:
    """Waits for others who create an account with this address, and blocks later ones."""
    await tx.first(
        PerEngine(
            sqlite="SELECT :email_norm AS locked",
            postgresql="SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtextextended(:email_norm, 0))",
        ),
        {"email_norm": email_norm},
    )


async def get(tx: Tx, person: PersonId) -> Person | None:
    """Returns the person, or None."""
    row = await tx.first(f"SELECT {_PERSON} FROM people WHERE person_id = :person", {"person": person})
    return None if row is None else _person(row)


async def by_email(tx: Tx, email_norm: str) -> PersonWithPassword | None:
    """Returns the person with this normalized e-mail address."""
    row = await tx.first(
        f"SELECT {_PERSON_WITH_PASSWORD} FROM people WHERE email_norm = :email_norm",
        {"email_norm": email_norm},
    )
    return None if row is None else _with_password(row)


async def with_password(tx: Tx, person: PersonId) -> PersonWithPassword | None:
    """Returns the person with the hash of their password, or None."""
    row = await tx.first(
        f"SELECT {_PERSON_WITH_PASSWORD} FROM people WHERE person_id = :person", {"person": person}
    )
    return None if row is None else _with_password(row)


async def invited(tx: Tx) -> list[Person]:
    """Returns everyone who was invited to any organization and has not accepted."""
    rows = await tx.all(f"SELECT {_PERSON} FROM people WHERE unclaimed ORDER BY person_id")
    return [_person(row) for row in rows]


async def has_accounts(tx: Tx) -> bool:
    """Returns whether any account exists; invitations count only once they are accepted."""
    return await tx.first("SELECT 1 AS one FROM people WHERE NOT unclaimed LIMIT 1") is not None


async def lock(tx: Tx, person: PersonId) -> None:
    """Waits for other changes of the account, and blocks later ones."""
    await tx.first("SELECT person_id FROM people WHERE person_id = :person {for_update}", {"person": person})


async def set_password_hash(tx: Tx, person: PersonId, password_hash: str) -> None:
    """Stores a new hash of the person's password."""
    await tx.execute(
        "UPDATE people SET password_hash = :password_hash, password_changed_at = :now"
        " WHERE person_id = :person",
        {"person": person, "password_hash": password_hash},
    )


async def claim(tx: Tx, person: PersonId, *, email_norm: str) -> None:
    """Makes an invited person an account with this address; requires the lock of `lock_email`."""
    await tx.execute(
        "UPDATE people SET email_norm = :email_norm, unclaimed = :unclaimed"
        " WHERE person_id = :person AND unclaimed",
        {"person": person, "email_norm": email_norm, "unclaimed": False},
    )


async def remove_invited(tx: Tx, person: PersonId) -> None:
    """Removes an invited person who is no longer a member of any organization."""
    if not await organizations_of(tx, person):
        await tx.execute("DELETE FROM people WHERE person_id = :person AND unclaimed", {"person": person})


async def rename(tx: Tx, person: PersonId, *, username: str, first_name: str, last_name: str) -> None:
    """Stores the names of an account."""
    await tx.execute(
        "UPDATE people SET username = :username, first_name = :first_name, last_name = :last_name"
        " WHERE person_id = :person",
        {"person": person, "username": username, "first_name": first_name, "last_name": last_name},
    )


async def set_active(tx: Tx, person: PersonId, active: bool) -> None:
    """Marks only the account; `copy_active` copies the mark to its memberships."""
    await tx.execute(
        "UPDATE people SET active = :active WHERE person_id = :person", {"person": person, "active": active}
    )


async def copy_active(tx: Tx, org: OrgId, person: PersonId, active: bool) -> None:
    """Copies the state of the account into one membership, where logins and calls read it."""
    await tx.execute(
        "UPDATE members SET account_active = :active WHERE org_id = :org AND person_id = :person",
        {"org": org, "person": person, "active": active},
    )


async def organizations_of(tx: Tx, person: PersonId) -> list[OrgId]:
    """Returns the ids of the organizations a person belongs or belonged to, in order."""
    rows = await tx.all(
        PerEngine(
            sqlite="SELECT org_id FROM members WHERE person_id = :person ORDER BY org_id",
            postgresql="SELECT org_id FROM queue_person_orgs(:person)",
        ),
        {"person": person},
    )
    return [OrgId(row["org_id"]) for row in rows]


async def membership(tx: Tx, org: OrgId, person: PersonId) -> Membership | None:
    """Returns a person's membership of an organization, or None."""
    row = await tx.first(
        "SELECT m.org_id, o.name, m.role, m.active"
        " FROM members AS m"
        " JOIN organizations AS o ON o.org_id = m.org_id"
        " WHERE m.org_id = :org AND m.person_id = :person",
        {"org": org, "person": person},
    )
    if row is None:
        return None
    return Membership(OrgId(row["org_id"]), row["name"], Role(row["role"]), bool(row["active"]))


async def put_member(
    tx: Tx, org: OrgId, person: Person, *, role: Role, email_norm: str, username_norm: str
) -> None:
    """Makes the person an active member with this role, or changes a member's role."""
    await tx.execute(
        "INSERT INTO members (org_id, person_id, role, active, account_active, email_norm, username_norm,"
        " first_name, last_name, added_at)"
        " VALUES (:org, :person, :role, :active, :account_active, :email_norm, :username_norm,"
        " :first_name, :last_name, :now)"
        " ON CONFLICT (org_id, person_id) DO UPDATE SET role = excluded.role, active = excluded.active,"
        " invited = excluded.invited",
        {
            "org": org,
            "person": person.id,
            "role": role,
            "active": True,
            "account_active": person.active,
            "email_norm": email_norm,
            "username_norm": username_norm,
            "first_name": person.first_name,
            "last_name": person.last_name,
        },
    )


async def record_seen(tx: Tx, org: OrgId, person: PersonId) -> None:
    """Records that a member used the service."""
    await tx.execute(
        "UPDATE members SET last_seen_at = :now WHERE org_id = :org AND person_id = :person",
        {"org": org, "person": person},
    )
