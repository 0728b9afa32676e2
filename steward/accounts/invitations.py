"""Invites people into an organisation and lets them accept: by a link shown once (contract 6.2, 6.6)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.accounts import attempts
from steward.accounts.names import folded
from steward.accounts.passwords import Hashing
from steward.accounts.people import new_password_fault
from steward.accounts.sessions import Opened, memberships, open_for
from steward.model.account import Actor, Member, Organization, Role
from steward.model.ids import OrgId, PersonId
from steward.model.refusals import Unavailable, ValidationFailed
from steward.security.secrets import hash_value, new_value
from steward.store import audit, invitations, members, organizations, people
from steward.store.engine import Engine, Tx
from steward.store.invitations import Invitation
from steward.store.people import Known

LIFE = timedelta(days=7)
INVALID = "This invitation is unknown, used or has expired. Ask an owner for a new link."


@dataclass(frozen=True, slots=True)
class InviteAsk:
    """Who is invited; the names are the owner's words until the person accepts."""

    email: str
    role: Role
    first_name: str = ""
    last_name: str = ""


@dataclass(frozen=True, slots=True)
class Invited:
    """The invited member and the token of the link, which is kept nowhere."""

    member: Member
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class AcceptAsk:
    """What the invited person gives: names for a new account, always a password."""

    token: str
    password: str
    first_name: str | None = None
    last_name: str | None = None


@dataclass(frozen=True, slots=True)
class Accepting:
    """An acceptance whose password was compared or hashed; the account must still be as it was found."""

    token_hash: str
    known: Known
    new_hash: str | None
    first_name: str
    last_name: str


async def invite(tx: Tx, actor: Actor, ask: InviteAsk) -> Invited:
    """Invites a person for seven days; an earlier open invitation of theirs ends.

    Raises ValidationFailed (`email`) for somebody who is a member already (contract 6.6).
    """
    await organizations.lock(tx, actor.org)
    email_norm = folded(ask.email)
    person = await _account(tx, ask.email, email_norm)
    before = await members.get(tx, actor.org, person)
    if before is not None and before.has_joined:
        words = "This person is a member already. Change their role or bring them back instead."
        raise ValidationFailed(errors={"email": [words]})
    await members.put_invited(
        tx,
        actor.org,
        person,
        role=ask.role,
        email_norm=email_norm,
        first_name=ask.first_name,
        last_name=ask.last_name,
    )
    await invitations.withdraw(tx, actor.org, person)
    token, expires_at = new_value(), tx.now + LIFE
    await invitations.insert(
        tx, _hashed(token), actor.org, person=person, created_by=actor.person, expires_at=expires_at
    )
    entry = audit.Entry(
        "person",
        "person_invited",
        actor=str(actor.person),
        object_kind="person",
        object_id=str(person),
        detail={"role": ask.role},
    )
    await audit.record(tx, actor.org, entry)
    member = await members.get(tx, actor.org, person)
    if member is None:
        raise LookupError("an invited person is a member")
    return Invited(member, token, expires_at)


async def _account(tx: Tx, email: str, email_norm: str) -> PersonId:
    """The account of an address, made when there is none; its first acceptance gives it a password."""
    known = await people.by_email(tx, email_norm)
    if known is not None:
        return known.person.id
    made = await people.insert(
        tx, email=email, email_norm=email_norm, username="", first_name="", last_name="", unclaimed=True
    )
    if made is None:  # made by another transaction between the two statements
        raise Unavailable(retry_after=1)
    return made


async def prepare_acceptance(
    engine: Engine, now: datetime, hashing: Hashing, ask: AcceptAsk, *, most_attempts: int
) -> Accepting:
    """Looks the link up and compares or hashes the password, with no transaction open.

    Raises ValidationFailed (`token`, `password`, `first_name`, `last_name`), Unavailable, and RateLimited:
    the password of an existing account counts like a sign-in with its address.
    """
    token_hash = _hashed(ask.token)

    async def look(tx: Tx) -> tuple[Known, Organization] | None:
        invitation = await invitations.by_token(tx, token_hash)
        return None if invitation is None else await _offered(tx, invitation)

    offered = await engine.read(now, look)
    if offered is None:
        raise ValidationFailed(INVALID, errors={"token": [INVALID]})
    known, organization = offered
    if known.unclaimed:
        _check_new(ask, known, organization)
        new_hash = await hashing.hash(ask.password)
        return Accepting(token_hash, known, new_hash, ask.first_name or "", ask.last_name or "")
    await attempts.count(engine, now, {"email": folded(known.person.email)}, most=most_attempts)
    if not await hashing.verify(ask.password, known.password_hash):
        words = "There is an account with this e-mail address already. Give its password."
        if known.password_hash is None:
            words = "The account with this e-mail address has no password yet. Ask the operator to set one."
        raise ValidationFailed(errors={"password": [words]})
    return Accepting(token_hash, known, None, known.person.first_name, known.person.last_name)


async def accept(tx: Tx, accepting: Accepting, *, address: str, agent: str) -> Opened:
    """Makes the invited person a member and signs them in there.

    Raises ValidationFailed (`token`) when the link was used or withdrawn meanwhile, Unavailable when the
    account was changed meanwhile.
    """
    invitation = await invitations.by_token(tx, accepting.token_hash)
    if invitation is None or not await invitations.use(tx, accepting.token_hash):
        raise ValidationFailed(INVALID, errors={"token": [INVALID]})
    await people.lock(tx, invitation.person)
    known = await people.known(tx, invitation.person)
    if known != accepting.known:
        raise Unavailable(retry_after=1)
    if accepting.new_hash is not None:
        username = f"{accepting.first_name} {accepting.last_name}"
        await people.set_password_hash(tx, invitation.person, accepting.new_hash)
        await people.rename(
            tx,
            invitation.person,
            username=username,
            first_name=accepting.first_name,
            last_name=accepting.last_name,
        )
    await tx.enter([invitation.org])
    await _join(tx, invitation)
    found = await memberships(tx, invitation.person)
    return await open_for(tx, invitation.person, found, org=invitation.org, address=address, agent=agent)


async def _join(tx: Tx, invitation: Invitation) -> None:
    org: OrgId = invitation.org
    person = await people.get(tx, invitation.person)
    if person is None:
        raise LookupError("an invitation names a person")
    await members.join(
        tx, org, person, email_norm=folded(person.email), username_norm=folded(person.username)
    )
    entry = audit.Entry(
        "person",
        "invitation_accepted",
        actor=str(person.id),
        object_kind="person",
        object_id=str(person.id),
    )
    await audit.record(tx, org, entry)


async def _offered(tx: Tx, invitation: Invitation) -> tuple[Known, Organization] | None:
    """The account and the organisation of a link; None for an account that was switched off."""
    await tx.enter([invitation.org])
    known = await people.known(tx, invitation.person)
    organization = await organizations.get(tx, invitation.org)
    if known is None or not known.person.active or organization is None:
        return None
    return known, organization


def _check_new(ask: AcceptAsk, known: Known, organization: Organization) -> None:
    faults: dict[str, list[str]] = {}
    for field, given in (("first_name", ask.first_name), ("last_name", ask.last_name)):
        if not given:
            faults[field] = ["This field is required for a new account."]
        elif not given.isprintable():
            faults[field] = ["Leave out characters that cannot be seen."]
    fault = new_password_fault(ask.password, known.person.email, [organization.name])
    if fault is not None:
        faults["password"] = [fault]
    if faults:
        raise ValidationFailed(errors=faults)


def _hashed(token: str) -> str:
    return hash_value(token).hex()
