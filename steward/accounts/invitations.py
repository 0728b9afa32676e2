"""Invites people into an organization through a link that is shown once, and accepts invitations."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from steward.accounts import attempts
from steward.accounts.names import folded
from steward.accounts.passwords import PasswordHasher
from steward.accounts.people import new_password_fault
from steward.accounts.sessions import OpenedSession, memberships, open_for
from steward.database.accounts import audit, invitations, members, organizations, people
from steward.database.accounts.invitations import Invitation
from steward.database.accounts.people import PersonWithPassword
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import links
from steward.model.account import Actor, Member, Organization, Role
from steward.model.ids import OrgId, PersonId
from steward.model.json import JsonObject
from steward.model.refusals import NotFound, Unavailable, ValidationFailed, WrongState
from steward.security.secrets import hash_value, new_value

_LIFE = timedelta(days=7)
_DAY = timedelta(days=1)
_MAILED_A_DAY: Final = 100
_PAGE = "/invitation"
ACCOUNT_EXISTS = (
    "There is an account with this e-mail address already. Give its password; the operator can set a new one."
)
INVALID = "This invitation is unknown, used or has expired. Ask an owner for a new link."


@dataclass(frozen=True, slots=True)
class InvitePerson:
    """An invitation to send; the owner's spelling of the names applies until the person accepts."""

    email: str
    role: Role
    first_name: str = ""
    last_name: str = ""


@dataclass(frozen=True, slots=True)
class IssuedInvitation:
    """The invited member and the link's token, of which only a hash is stored."""

    member: Member
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class AcceptInvitation:
    """The answer to an invitation: a password, and for a new account the names."""

    token: str
    password: str
    first_name: str | None = None
    last_name: str | None = None


@dataclass(frozen=True, slots=True)
class _InvitationOffer:
    """The invited e-mail address of a link, its account, if any, and the organization."""

    email: str
    account: PersonWithPassword | None
    organization: Organization


@dataclass(frozen=True, slots=True)
class PreparedAcceptance:
    """An acceptance with a checked password; `accept` requires that the account has not changed."""

    token_hash: str
    email_norm: str
    account: PersonWithPassword | None
    new_hash: str = ""
    first_name: str = ""
    last_name: str = ""


async def invite(tx: Tx, actor: Actor, command: InvitePerson) -> IssuedInvitation:
    """Invites a person for seven days and withdraws an earlier open invitation.

    Raises ValidationFailed (`email`) when the person has joined already.
    """
    entry = audit.AuditEntry("person", "person_invited", actor=str(actor.person))
    return await offer_membership(
        tx, actor.org, command, expires_at=tx.now + _LIFE, created_by=actor.person, entry=entry
    )


async def offer_membership(
    tx: Tx,
    org: OrgId,
    command: InvitePerson,
    *,
    expires_at: datetime,
    created_by: PersonId | None,
    entry: audit.AuditEntry,
) -> IssuedInvitation:
    """Creates an invitation with its audit entry and withdraws an earlier open one of the same address.

    `created_by` is None when the operator invites. Raises ValidationFailed (`email`) for a member who has
    joined.
    """
    await organizations.lock(tx, org)
    email_norm = folded(command.email)
    before = await members.by_email(tx, org, email_norm)
    if before is not None and before.has_joined:
        message = "This person is a member already. Change their role or bring them back instead."
        raise ValidationFailed(errors={"email": [message]})
    # Always a new person: the id of an existing account would reveal that there is one.
    person = (
        before.id
        if before is not None
        else await people.insert_invited(tx, email=command.email, reference=f"invited:{new_value()}")
    )
    await members.put_invited(
        tx,
        org,
        person,
        role=command.role,
        email_norm=email_norm,
        first_name=command.first_name,
        last_name=command.last_name,
    )
    await invitations.withdraw(tx, org, person)
    await links.withdraw(tx, org, person)
    token = new_value()
    await invitations.insert(
        tx, _hashed(token), org, person=person, created_by=created_by, expires_at=expires_at
    )
    detail: JsonObject = {"role": command.role}
    await audit.record(tx, org, replace(entry, object_kind="person", object_id=str(person), detail=detail))
    member = await members.get(tx, org, person)
    if member is None:
        raise LookupError("an invited person is a member")
    return IssuedInvitation(member, token, expires_at)


def link(web_origin: str, token: str) -> str:
    """Returns the address of the web app where an invitation is accepted; the token is in the fragment."""
    return f"{web_origin}{_PAGE}#token={token}"


async def invite_again(tx: Tx, actor: Actor, person: PersonId) -> IssuedInvitation:
    """Creates a new link for an invited person who has not joined; the former link becomes invalid.

    Raises NotFound, and WrongState when the person has joined.
    """
    member = await members.get(tx, actor.org, person)
    if member is None:
        raise NotFound
    if member.has_joined:
        raise WrongState("This person has joined already.")
    command = InvitePerson(member.email, member.role, member.first_name, member.last_name)
    return await invite(tx, actor, command)


async def may_mail(tx: Tx, org: OrgId) -> bool:
    """Returns whether the invitation just recorded may be mailed: at most 100 in 24 hours may."""
    return await audit.count_since(tx, org, "person_invited", tx.now - _DAY) <= _MAILED_A_DAY


async def prepare_acceptance(
    engine: Engine, now: datetime, hashing: PasswordHasher, command: AcceptInvitation, *, max_attempts: int
) -> PreparedAcceptance:
    """Looks up the link and compares or hashes the password, with no transaction open.

    The person who made the link may hold it too. So unless the password is right for the account, or valid
    for a new one, the response does not reveal whether the address has an account. Raises ValidationFailed
    (`token`, `password`, `first_name`, `last_name`), Unavailable, and RateLimited: an attempt counts as a
    sign-in.
    """
    token_hash = _hashed(command.token)

    async def load(tx: Tx) -> _InvitationOffer | None:
        invitation = await invitations.by_token(tx, token_hash)
        return None if invitation is None else await _offered(tx, invitation)

    offer = await engine.read(now, load)
    if offer is None:
        raise ValidationFailed(INVALID, errors={"token": [INVALID]})
    email_norm, account = folded(offer.email), offer.account
    await attempts.count(engine, now, {"email": email_norm}, limit=max_attempts)
    is_theirs = await hashing.verify(command.password, None if account is None else account.password_hash)
    if is_theirs and account is not None:
        if not account.person.active:
            raise ValidationFailed(INVALID, errors={"token": [INVALID]})
        return PreparedAcceptance(token_hash, email_norm, account)
    _check_new(command, offer)
    if account is not None:
        raise ValidationFailed(errors={"password": [ACCOUNT_EXISTS]})
    new_hash = await hashing.hash(command.password)
    return PreparedAcceptance(
        token_hash, email_norm, None, new_hash, command.first_name or "", command.last_name or ""
    )


async def accept(tx: Tx, accepting: PreparedAcceptance, *, address: str, agent: str) -> OpenedSession:
    """Makes the invited person a member of the organization and signs them in to it.

    Raises ValidationFailed (`token`) when the link was used or withdrawn since `prepare_acceptance`, and
    Unavailable when the account was created or changed since.
    """
    invitation = await invitations.by_token(tx, accepting.token_hash)
    if invitation is None or not await invitations.use(tx, accepting.token_hash):
        raise ValidationFailed(INVALID, errors={"token": [INVALID]})
    await people.lock_email(tx, accepting.email_norm)
    if accepting.account is not None:
        await people.lock(tx, accepting.account.person.id)
    if await people.by_email(tx, accepting.email_norm) != accepting.account:
        raise Unavailable(retry_after=1)
    await tx.set_tenant([invitation.org])
    await organizations.lock(tx, invitation.org)
    await links.withdraw(tx, invitation.org, invitation.person)
    if accepting.account is None:
        await _make_account(tx, invitation.person, accepting)
        person = invitation.person
    else:
        person = accepting.account.person.id
        await _hand_over(tx, invitation, person)
    await _join(tx, invitation, person)
    organizations_of_person = await memberships(tx, person)
    return await open_for(
        tx, person, organizations_of_person, org=invitation.org, address=address, agent=agent
    )


async def _make_account(tx: Tx, person: PersonId, accepting: PreparedAcceptance) -> None:
    await people.claim(tx, person, email_norm=accepting.email_norm)
    await people.set_password_hash(tx, person, accepting.new_hash)
    await people.rename(
        tx,
        person,
        username=f"{accepting.first_name} {accepting.last_name}",
        first_name=accepting.first_name,
        last_name=accepting.last_name,
    )


async def _hand_over(tx: Tx, invitation: Invitation, account: PersonId) -> None:
    """Replaces the invited person with the account, unless they are the same.

    Raises ValidationFailed (`token`) when the account has since become a member by other means.
    """
    invited, org = invitation.person, invitation.org
    if account == invited:
        return
    if await members.get(tx, org, account) is not None:
        raise ValidationFailed(INVALID, errors={"token": [INVALID]})
    await members.hand_over(tx, org, invited=invited, account=account)
    await invitations.hand_over(tx, org, invited=invited, account=account)
    await people.remove_invited(tx, invited)


async def _join(tx: Tx, invitation: Invitation, account: PersonId) -> None:
    """Makes the account a member, as the invitation says, and records it in the audit log."""
    org: OrgId = invitation.org
    person = await people.get(tx, account)
    if person is None:
        raise LookupError("an invitation leads to a person")
    await members.join(
        tx, org, person, email_norm=folded(person.email), username_norm=folded(person.username)
    )
    entry = audit.AuditEntry(
        "person",
        "invitation_accepted",
        actor=str(person.id),
        object_kind="person",
        object_id=str(person.id),
        detail={} if account == invitation.person else {"invited_as": str(invitation.person)},
    )
    await audit.record(tx, org, entry)


async def _offered(tx: Tx, invitation: Invitation) -> _InvitationOffer | None:
    """Returns the offer of an open link; None when its invitation is no longer valid."""
    await tx.set_tenant([invitation.org])
    invited = await members.get(tx, invitation.org, invitation.person)
    organization = await organizations.get(tx, invitation.org)
    if invited is None or organization is None:
        return None
    return _InvitationOffer(invited.email, await people.by_email(tx, folded(invited.email)), organization)


def _check_new(command: AcceptInvitation, offer: _InvitationOffer) -> None:
    faults: dict[str, list[str]] = {}
    for field, name in (("first_name", command.first_name), ("last_name", command.last_name)):
        if not name:
            faults[field] = ["This field is required for a new account."]
        elif not name.isprintable():
            faults[field] = ["Remove the invisible characters."]
    fault = new_password_fault(command.password, offer.email, [offer.organization.name])
    if fault is not None:
        faults["password"] = [fault]
    if faults:
        raise ValidationFailed(errors=faults)


def _hashed(token: str) -> str:
    return hash_value(token).hex()
