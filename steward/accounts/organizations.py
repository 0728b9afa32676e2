"""Organizations: operators create them and switch their automations, owners change their settings."""

from dataclasses import dataclass, replace

from steward.accounts.names import folded_name
from steward.database.accounts import audit, organizations
from steward.database.engine.base import Tx
from steward.model.account import Actor, Organization
from steward.model.ids import OrgId
from steward.model.refusals import NotFound, ValidationFailed
from steward.scheduling import zones

_LONGEST_NAME = 200
_CHANGEABLE = ("name", "zone", "send_without_approval")


@dataclass(frozen=True, slots=True)
class CreateOrganization:
    """A new organization."""

    name: str
    zone: str = "UTC"
    automations_on: bool = True


@dataclass(frozen=True, slots=True)
class ChangeOrganization:
    """An owner's change of settings; None keeps a setting."""

    name: str | None = None
    zone: str | None = None
    send_without_approval: bool | None = None


async def create(tx: Tx, command: CreateOrganization) -> Organization:
    """Creates an organization.

    Raises ValidationFailed for an unusable or taken name and for an unknown time zone.
    """
    name = command.name.strip()
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ValidationFailed(f"Give a name of 1 to {_LONGEST_NAME} characters.", errors={"name": []})
    if zones.zone(command.zone) is None:
        raise ValidationFailed(f"“{command.zone}”: {zones.NO_SUCH_ZONE}", errors={"timezone": []})
    org = await organizations.enlist(tx, name, folded_name(name))
    if org is None:
        raise ValidationFailed("An organization of this name exists already.", errors={"name": []})
    await tx.set_tenant([org])
    organization = Organization(
        id=org,
        name=name,
        zone=command.zone,
        automations_on=command.automations_on,
        send_without_approval=True,  # On by default
        created_at=tx.now,
    )
    await organizations.insert(tx, org, organization)
    await audit.record(tx, org, _entry("organization_created", org))
    return organization


async def switch(tx: Tx, org: OrgId, automations_on: bool) -> Organization:
    """Switches the organization's automations on or off, from the next call on. Raises NotFound."""
    await tx.set_tenant([org])
    organization = await organizations.get(tx, org)
    if organization is None or await organizations.switch(tx, org, automations_on) == 0:
        raise NotFound(f"There is no organization {org}.")
    action = "automations_switched_on" if automations_on else "automations_switched_off"
    await audit.record(tx, org, _entry(action, org))
    return replace(organization, automations_on=automations_on)


async def get(tx: Tx, org: OrgId) -> Organization:
    """Returns the organization. Raises NotFound."""
    organization = await organizations.get(tx, org)
    if organization is None:
        raise NotFound
    return organization


async def change(tx: Tx, actor: Actor, command: ChangeOrganization) -> Organization:
    """Changes an organization's settings; automations keep the zone they were created with.

    Raises NotFound, and ValidationFailed for a name that is in use or an unknown zone.
    """
    await organizations.lock(tx, actor.org)
    before = await get(tx, actor.org)
    sent = {field: getattr(command, field) for field in _CHANGEABLE}
    after = replace(before, **{field: value for field, value in sent.items() if value is not None})
    await _check_settings(tx, before, after)
    changed = [field for field in _CHANGEABLE if getattr(after, field) != getattr(before, field)]
    if changed:
        await organizations.save_settings(
            tx, actor.org, zone=after.zone, send_without_approval=after.send_without_approval
        )
        entry = audit.AuditEntry(
            "person",
            "organization_changed",
            actor=str(actor.person),
            object_kind="organization",
            object_id=str(actor.org),
            # The record outlives the organization, so it does not hold its name.
            detail={field: field == "name" or getattr(after, field) for field in changed},
        )
        await audit.record(tx, actor.org, entry)
    return after


async def _check_settings(tx: Tx, before: Organization, after: Organization) -> None:
    """Stores a new name and raises ValidationFailed with every fault of the settings."""
    faults: dict[str, list[str]] = {}
    if zones.zone(after.zone) is None and after.zone != before.zone:
        faults["timezone"] = [zones.NO_SUCH_ZONE]
    if not after.name.isprintable():
        faults["name"] = ["Remove the invisible characters."]
    elif after.name != before.name and not await organizations.rename(
        tx, before.id, after.name, folded_name(after.name)
    ):
        faults["name"] = ["Another organization of this service has this name. Choose another."]
    if faults:
        raise ValidationFailed(errors=faults)


async def resolve(tx: Tx, id_or_name: str) -> OrgId:
    """Returns the organization that an operator names by its id or exact name. Raises NotFound."""
    named = await organizations.named(tx, id_or_name)
    if named is not None:
        return named
    if id_or_name.isascii() and id_or_name.isdigit():
        org = OrgId(int(id_or_name))
        await tx.set_tenant([org])
        if await organizations.get(tx, org) is not None:
            return org
    raise NotFound(f"There is no organization {id_or_name!r}. Give its id or its exact name.")


async def every(tx: Tx) -> list[Organization]:
    """Returns all organizations, in order of their creation."""
    orgs = await organizations.every(tx)
    await tx.set_tenant(orgs)
    rows = [await organizations.get(tx, org) for org in orgs]
    return [organization for organization in rows if organization is not None]


def _entry(action: str, org: OrgId) -> audit.AuditEntry:
    return audit.AuditEntry("operator", action, object_kind="organization", object_id=str(org))
