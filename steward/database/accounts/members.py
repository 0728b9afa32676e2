"""The members of one organization as its owners see and change them; accounts/ has the rules."""

from datetime import datetime

from steward.database.engine.base import Row, Tx, from_ms, from_ms_or_none
from steward.model.account import Member, MemberState, Person, Role
from steward.model.ids import OrgId, PersonId

_MEMBER = (
    "SELECT m.person_id, m.role, m.active, m.invited, m.account_active, m.email_norm, m.first_name,"
    " m.last_name, m.added_at, m.last_seen_at, p.email, p.username, p.first_name AS own_first_name,"
    " p.last_name AS own_last_name,"
    " EXISTS (SELECT 1 FROM invitations AS i WHERE i.org_id = :org AND i.person_id = m.person_id"
    " AND i.used_at IS NULL) AS awaited"
    " FROM members AS m JOIN people AS p ON p.person_id = m.person_id"
    " WHERE m.org_id = :org"
)


def _member(row: Row) -> Member:
    """Returns a member; for one who has not joined, only the invitation's data and not the account's."""
    is_invited = bool(row["invited"])
    if is_invited:
        state = MemberState.INVITED if row["awaited"] else MemberState.DEACTIVATED
    else:
        is_active = row["active"] and row["account_active"]
        state = MemberState.ACTIVE if is_active else MemberState.DEACTIVATED
    return Member(
        id=PersonId(row["person_id"]),
        email=row["email_norm"] if is_invited else row["email"],
        username="" if is_invited else row["username"],
        first_name=row["first_name"] if is_invited else row["own_first_name"],
        last_name=row["last_name"] if is_invited else row["own_last_name"],
        role=Role(row["role"]),
        state=state,
        has_joined=not is_invited,
        added_at=from_ms(row["added_at"]),
        last_seen_at=from_ms_or_none(row["last_seen_at"]),
    )


async def get(tx: Tx, org: OrgId, person: PersonId) -> Member | None:
    """Returns the member, or None."""
    row = await tx.first(f"{_MEMBER} AND m.person_id = :person", {"org": org, "person": person})
    return None if row is None else _member(row)


async def by_email(tx: Tx, org: OrgId, email_norm: str) -> Member | None:
    """Returns the member with this normalized e-mail address, preferring one who has joined."""
    row = await tx.first(
        f"{_MEMBER} AND m.email_norm = :email_norm ORDER BY m.invited, m.person_id LIMIT 1",
        {"org": org, "email_norm": email_norm},
    )
    return None if row is None else _member(row)


async def find(tx: Tx, org: OrgId, *, after: tuple[datetime, PersonId] | None, limit: int) -> list[Member]:
    """Returns a page of members, newest first, those after the key `after`."""
    args: dict[str, object] = {"org": org, "limit": limit}
    where = ""
    if after is not None:
        where = " AND (m.added_at, m.person_id) < (:added_at, :person)"
        args |= {"added_at": after[0], "person": after[1]}
    rows = await tx.all(f"{_MEMBER}{where} ORDER BY m.added_at DESC, m.person_id DESC LIMIT :limit", args)
    return [_member(row) for row in rows]


async def put_invited(
    tx: Tx, org: OrgId, person: PersonId, *, role: Role, email_norm: str, first_name: str, last_name: str
) -> None:
    """Makes the person a member who has not joined yet, or stores the data of a newer invitation."""
    await tx.execute(
        "INSERT INTO members (org_id, person_id, role, active, invited, account_active, email_norm,"
        " username_norm, first_name, last_name, added_at)"
        " VALUES (:org, :person, :role, :active, :invited, :account_active, :email_norm,"
        " '', :first_name, :last_name, :now)"
        " ON CONFLICT (org_id, person_id) DO UPDATE SET role = excluded.role,"
        " first_name = excluded.first_name, last_name = excluded.last_name WHERE members.invited",
        {
            "org": org,
            "person": person,
            "role": role,
            "active": False,
            "invited": True,
            "account_active": True,
            "email_norm": email_norm,
            "first_name": first_name,
            "last_name": last_name,
        },
    )


async def hand_over(tx: Tx, org: OrgId, *, invited: PersonId, account: PersonId) -> None:
    """Moves an invited person's membership to the account that they have."""
    await tx.execute(
        "UPDATE members SET person_id = :account"
        " WHERE org_id = :org AND person_id = :invited AND members.invited",
        {"org": org, "invited": invited, "account": account},
    )


async def remove_invited(tx: Tx, org: OrgId, person: PersonId) -> None:
    """Removes an invited person who has not joined."""
    await tx.execute(
        "DELETE FROM members WHERE org_id = :org AND person_id = :person AND invited",
        {"org": org, "person": person},
    )


async def join(tx: Tx, org: OrgId, person: Person, *, email_norm: str, username_norm: str) -> None:
    """Makes an invited member an active one, with the account's own names."""
    await tx.execute(
        "UPDATE members SET active = :active, invited = :invited, account_active = :account_active,"
        " email_norm = :email_norm, username_norm = :username_norm, first_name = :first_name,"
        " last_name = :last_name, last_seen_at = :now"
        " WHERE org_id = :org AND person_id = :person",
        {
            "org": org,
            "person": person.id,
            "active": True,
            "invited": False,
            "account_active": person.active,
            "email_norm": email_norm,
            "username_norm": username_norm,
            "first_name": person.first_name,
            "last_name": person.last_name,
        },
    )


async def set_role(tx: Tx, org: OrgId, person: PersonId, role: Role) -> None:
    """Writes a member's role."""
    await tx.execute(
        "UPDATE members SET role = :role WHERE org_id = :org AND person_id = :person",
        {"org": org, "person": person, "role": role},
    )


async def set_active(tx: Tx, org: OrgId, person: PersonId, active: bool) -> None:
    """Ends or restores a membership."""
    await tx.execute(
        "UPDATE members SET active = :active WHERE org_id = :org AND person_id = :person",
        {"org": org, "person": person, "active": active},
    )


async def owners(tx: Tx, org: OrgId) -> int:
    """Returns the number of people who can act as an owner now; requires the organization's lock."""
    row = await tx.first(
        "SELECT count(*) AS found FROM members"
        " WHERE org_id = :org AND role = :role AND active AND account_active",
        {"org": org, "role": Role.OWNER},
    )
    return int(row["found"]) if row is not None else 0


async def has_joined_owner(tx: Tx, org: OrgId) -> bool:
    """Returns whether any owner has joined, even if they were disabled since."""
    row = await tx.first(
        "SELECT 1 AS one FROM members WHERE org_id = :org AND role = :role AND NOT invited LIMIT 1",
        {"org": org, "role": Role.OWNER},
    )
    return row is not None


async def invited_owners(tx: Tx, org: OrgId) -> list[Member]:
    """Returns the owners who were invited and have not joined, newest first."""
    rows = await tx.all(
        f"{_MEMBER} AND m.role = :role AND m.invited ORDER BY m.added_at DESC, m.person_id DESC",
        {"org": org, "role": Role.OWNER},
    )
    return [_member(row) for row in rows]


async def is_open(tx: Tx, org: OrgId, person: PersonId) -> bool:
    """Returns whether the membership is active, whatever the state of the account."""
    row = await tx.first(
        "SELECT active FROM members WHERE org_id = :org AND person_id = :person",
        {"org": org, "person": person},
    )
    return row is not None and bool(row["active"])
