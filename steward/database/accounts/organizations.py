"""Organizations: their directory entries and their own rows; accounts/ decides who may change them."""

from steward.database.engine.base import PerEngine, Row, Tx, from_ms
from steward.model.account import Organization
from steward.model.ids import OrgId

# If two organizations take one name at the same time, the second sees the first. SQLite has only one writer.
_HOLD_NAMES = PerEngine(sqlite="SELECT 1", postgresql="LOCK TABLE dir_orgs IN SHARE ROW EXCLUSIVE MODE")


def _organization(row: Row) -> Organization:
    return Organization(
        id=OrgId(row["org_id"]),
        name=row["name"],
        zone=row["zone"],
        automations_on=bool(row["automations_on"]),
        send_without_approval=bool(row["send_without_approval"]),
        created_at=from_ms(row["created_at"]),
    )


async def enlist(tx: Tx, name: str, name_norm: str) -> OrgId | None:
    """Registers the name in the directory and returns the new id; None when the name is taken."""
    row = await tx.first(
        "INSERT INTO dir_orgs (name, name_norm)"
        " VALUES (:name, :name_norm)"
        " ON CONFLICT (name_norm) DO NOTHING"
        " RETURNING org_id",
        {"name": name, "name_norm": name_norm},
    )
    return None if row is None else OrgId(row["org_id"])


async def insert(tx: Tx, org: OrgId, organization: Organization) -> None:
    """Inserts the organization's own row."""
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
    """Returns the organization, or None."""
    row = await tx.first(
        "SELECT org_id, name, zone, automations_on, send_without_approval, created_at"
        " FROM organizations"
        " WHERE org_id = :org",
        {"org": org},
    )
    return None if row is None else _organization(row)


async def named(tx: Tx, name: str) -> OrgId | None:
    """Returns the id of the organization with exactly this name, or None."""
    row = await tx.first("SELECT org_id FROM dir_orgs WHERE name = :name", {"name": name})
    return None if row is None else OrgId(row["org_id"])


async def every(tx: Tx) -> list[OrgId]:
    """Returns the ids of all organizations, in order."""
    rows = await tx.all("SELECT org_id FROM dir_orgs ORDER BY org_id")
    return [OrgId(row["org_id"]) for row in rows]


async def switch(tx: Tx, org: OrgId, automations_on: bool) -> int:
    """Switches automations on or off. Returns the number of organizations changed."""
    return await tx.execute(
        "UPDATE organizations SET automations_on = :automations_on WHERE org_id = :org",
        {"org": org, "automations_on": automations_on},
    )


async def lock(tx: Tx, org: OrgId) -> None:
    """Waits for other changes of the organization's people and settings, and blocks later ones."""
    await tx.first("SELECT org_id FROM organizations WHERE org_id = :org {for_update}", {"org": org})


async def rename(tx: Tx, org: OrgId, name: str, name_norm: str) -> bool:
    """Stores another name in the directory and the organization's own row; returns False when it is taken."""
    await tx.execute(_HOLD_NAMES)
    touched = await tx.execute(
        "UPDATE dir_orgs SET name = :name, name_norm = :name_norm WHERE org_id = :org"
        " AND NOT EXISTS (SELECT 1 FROM dir_orgs AS d WHERE d.name_norm = :name_norm AND d.org_id <> :org)",
        {"org": org, "name": name, "name_norm": name_norm},
    )
    if touched == 0:
        return False
    await tx.execute("UPDATE organizations SET name = :name WHERE org_id = :org", {"org": org, "name": name})
    return True


async def save_settings(tx: Tx, org: OrgId, *, zone: str, send_without_approval: bool) -> None:
    """Stores the settings that an owner can change, except the name."""
    await tx.execute(
        "UPDATE organizations SET zone = :zone, send_without_approval = :send WHERE org_id = :org",
        {"org": org, "zone": zone, "send": send_without_approval},
    )
