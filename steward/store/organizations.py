"""Organisations: their directory rows and their own; leaves who may change them to accounts/."""

from steward.model.account import Organization
from steward.model.ids import OrgId
from steward.store.engine import Row, Tx, at


def _organization(row: Row) -> Organization:
    return Organization(
        id=OrgId(row["org_id"]),
        name=row["name"],
        zone=row["zone"],
        automations_on=bool(row["automations_on"]),
        send_without_approval=bool(row["send_without_approval"]),
        created_at=at(row["created_at"]),
    )


async def enlist(tx: Tx, name: str, name_norm: str) -> OrgId | None:
    """A new organisation's id from the directory; None when the name is taken."""
    row = await tx.one(
        "INSERT INTO dir_orgs (name, name_norm)"
        " VALUES (:name, :name_norm)"
        " ON CONFLICT (name_norm) DO NOTHING"
        " RETURNING org_id",
        {"name": name, "name_norm": name_norm},
    )
    return None if row is None else OrgId(row["org_id"])


async def insert(tx: Tx, org: OrgId, organization: Organization) -> None:
    """Writes the organisation's own row."""
    await tx.execute(
        "INSERT INTO organizations (org_id, name, zone, automations_on, send_without_approval, created_at)"
        " VALUES (:org, :name, :zone, :automations_on, :send_without_approval, :now)",
        {
            "org": org,
            "name": organization.name,
            "zone": organization.zone,
            "automations_on": organization.automations_on,
            "send_without_approval": organization.send_without_approval,
        },
    )


async def get(tx: Tx, org: OrgId) -> Organization | None:
    """The organisation, or None."""
    row = await tx.one(
        "SELECT org_id, name, zone, automations_on, send_without_approval, created_at"
        " FROM organizations"
        " WHERE org_id = :org",
        {"org": org},
    )
    return None if row is None else _organization(row)


async def named(tx: Tx, name: str) -> OrgId | None:
    """The id of the organisation with exactly this name."""
    row = await tx.one("SELECT org_id FROM dir_orgs WHERE name = :name", {"name": name})
    return None if row is None else OrgId(row["org_id"])


async def every(tx: Tx) -> list[OrgId]:
    """The ids of all organisations, in order."""
    rows = await tx.all("SELECT org_id FROM dir_orgs ORDER BY org_id")
    return [OrgId(row["org_id"]) for row in rows]


async def switch(tx: Tx, org: OrgId, automations_on: bool) -> int:
    """Switches automations on or off; the number of organisations it found."""
    return await tx.execute(
        "UPDATE organizations SET automations_on = :automations_on WHERE org_id = :org",
        {"org": org, "automations_on": automations_on},
    )
