"""Sets up an installation: creates its first organization and invites that organization's owner."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.accounts import invitations, organizations
from steward.accounts.invitations import InvitePerson
from steward.accounts.organizations import CreateOrganization
from steward.accounts.people import is_email
from steward.database.accounts import audit, members, people
from steward.database.accounts import invitations as invitation_rows
from steward.database.accounts import organizations as organization_rows
from steward.database.engine.base import Tx
from steward.model.account import Organization, Role
from steward.model.ids import OrgId
from steward.model.refusals import ValidationFailed, WrongState

_LINK_LIFE = timedelta(hours=24)
EXISTS = (
    "An organization exists already, and nothing was changed. For a new set-up link while it has no owner:"
    " steward init --again --org NAME."
)
_HAS_OWNER = "This organization has an owner. Owners invite further people in the web app, under People."


@dataclass(frozen=True, slots=True)
class FirstOwner:
    """The first owner of an organization; the names may be empty until the link is used."""

    email: str
    first_name: str = ""
    last_name: str = ""


@dataclass(frozen=True, slots=True)
class SetUpOffer:
    """An organization and the token of its set-up link, of which only a hash is stored."""

    organization: Organization
    email: str
    token: str
    expires_at: datetime


async def set_up(tx: Tx, organization: CreateOrganization, owner: FirstOwner) -> SetUpOffer:
    """Creates the first organization and invites its owner.

    Raises WrongState when an organization exists, and ValidationFailed (`name`, `timezone`, `email`).
    """
    if await organization_rows.every(tx):
        raise WrongState(EXISTS)
    created = await organizations.create(tx, organization)
    return await _offer(tx, created, owner)


async def offer_again(tx: Tx, org: OrgId, owner: FirstOwner | None) -> SetUpOffer:
    """Withdraws the open set-up link of an organization without an owner and creates a new one.

    Without `owner`, the new link is for the person invited before. Raises WrongState when an owner has
    joined, and ValidationFailed (`email`) for an invalid address or when nobody was invited before.
    """
    await tx.set_tenant([org])
    await organization_rows.lock(tx, org)
    if await members.has_joined_owner(tx, org):
        raise WrongState(_HAS_OWNER)
    for invited in await members.invited_owners(tx, org):
        owner = owner or FirstOwner(invited.email, invited.first_name, invited.last_name)
        await invitation_rows.withdraw(tx, org, invited.id)
        await members.remove_invited(tx, org, invited.id)
        await people.remove_invited(tx, invited.id)
    if owner is None:
        raise ValidationFailed("Nobody was invited as owner yet: give --email.", errors={"email": []})
    return await _offer(tx, await organizations.get(tx, org), owner)


async def _offer(tx: Tx, organization: Organization, owner: FirstOwner) -> SetUpOffer:
    if not is_email(owner.email):
        raise ValidationFailed(f"{owner.email!r} is not an e-mail address.", errors={"email": []})
    invited = await invitations.offer_membership(
        tx,
        organization.id,
        InvitePerson(owner.email, Role.OWNER, owner.first_name, owner.last_name),
        expires_at=tx.now + _LINK_LIFE,
        created_by=None,
        entry=audit.AuditEntry("operator", "person_invited"),
    )
    return SetUpOffer(organization, owner.email, invited.token, invited.expires_at)
