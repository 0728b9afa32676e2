"""Creates people, sets their passwords, enables and disables them, adds them to organizations."""

import re
from dataclasses import dataclass, replace

from steward.accounts.names import folded
from steward.accounts.sessions import memberships
from steward.database.accounts import audit, invitations, members, organizations, people, sessions
from steward.database.engine.base import Tx
from steward.database.notifications import links
from steward.model.account import Membership, Person, Role
from steward.model.ids import OrgId, PersonId
from steward.model.refusals import NotFound, ValidationFailed
from steward.security.passwords import problem_with

_EMAIL = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}")
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class CreatePerson:
    """A new account, with a password that was hashed before the transaction."""

    email: str
    first_name: str
    last_name: str
    username: str | None = None
    password_hash: str | None = None


async def create(tx: Tx, command: CreatePerson) -> Person:
    """Creates an account. Raises ValidationFailed for an invalid or taken e-mail address, or a bad name."""
    email = command.email.strip()
    if not is_email(email):
        raise ValidationFailed(f"{email!r} is not an e-mail address.", errors={"email": []})
    first_name, last_name = _name(command.first_name, "first_name"), _name(command.last_name, "last_name")
    username = _name(command.username or f"{first_name} {last_name}", "username")
    await people.lock_email(tx, folded(email))
    person = await people.insert(
        tx,
        email=email,
        email_norm=folded(email),
        username=username,
        first_name=first_name,
        last_name=last_name,
    )
    if person is None:
        raise ValidationFailed("A person with this e-mail address exists already.", errors={"email": []})
    if command.password_hash is not None:
        await people.set_password_hash(tx, person, command.password_hash)
    return Person(person, email, username, first_name, last_name, True)


async def set_password(tx: Tx, person: Person, password_hash: str) -> None:
    """Sets a password and ends the person's sessions."""
    await people.set_password_hash(tx, person.id, password_hash)
    await sessions.end_of_person(tx, person.id)
    await _record(tx, person.id, "password_set")


async def set_active(tx: Tx, person: Person, active: bool) -> Person:
    """Enables or disables an account everywhere; once disabled, tokens and sessions end."""
    orgs = await people.organizations_of(tx, person.id)
    await tx.set_tenant(orgs)
    await people.set_active(tx, person.id, active)
    for org in orgs:
        await people.copy_active(tx, org, person.id, active)
    if not active:
        await sessions.end_of_person(tx, person.id)
    await _record(tx, person.id, "person_activated" if active else "person_deactivated")
    return replace(person, active=active)


async def add_to_organization(tx: Tx, person: Person, org: OrgId, role: Role) -> None:
    """Makes the person an active member with this role, or changes the role."""
    await tx.set_tenant([org])
    await organizations.lock(tx, org)
    before = await people.membership(tx, org, person.id)
    await _end_invitation(tx, org, folded(person.email))
    await people.put_member(
        tx, org, person, role=role, email_norm=folded(person.email), username_norm=folded(person.username)
    )
    action = "role_changed" if before else "member_added"
    await audit.record(
        tx,
        org,
        audit.AuditEntry(
            "operator", action, object_kind="person", object_id=str(person.id), detail={"role": role}
        ),
    )


async def _end_invitation(tx: Tx, org: OrgId, email_norm: str) -> None:
    """Withdraws the open invitation of an address whose person becomes a member without using it."""
    invited = await members.by_email(tx, org, email_norm)
    if invited is not None and not invited.has_joined:
        await invitations.withdraw(tx, org, invited.id)
        await links.withdraw(tx, org, invited.id)
        await members.remove_invited(tx, org, invited.id)
        await people.remove_invited(tx, invited.id)


async def resolve(tx: Tx, id_or_email: str) -> Person:
    """Returns the person that an operator names by id or e-mail address. Raises NotFound."""
    account = await people.by_email(tx, folded(id_or_email))
    if account is not None:
        return account.person
    if id_or_email.isascii() and id_or_email.isdigit():
        by_id = await people.with_password(tx, PersonId(int(id_or_email)))
        if by_id is not None and not by_id.unclaimed:
            return by_id.person
    raise NotFound(f"There is no person {id_or_email!r}. Give their id or e-mail address.")


async def organizations_of(tx: Tx, person: PersonId) -> tuple[Membership, ...]:
    """Returns the person's active memberships."""
    return await memberships(tx, person)


def is_email(text: str) -> bool:
    """Returns whether a text has the form of an e-mail address."""
    return _EMAIL.fullmatch(text) is not None and text.isprintable()


def check_password(password: str, email: str, organization_names: list[str]) -> None:
    """Raises ValidationFailed for a password that is too short, common or holds a name."""
    fault = new_password_fault(password, email, organization_names)
    if fault is not None:
        raise ValidationFailed(fault, errors={"password": [fault]})


def new_password_fault(password: str, email: str, organization_names: list[str]) -> str | None:
    """Returns the fault of a new password in words; None when it has none."""
    return problem_with(password, refused_words=[email.partition("@")[0], *organization_names])


def _name(text: str, field: str) -> str:
    name = text.strip()
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ValidationFailed(
            f"Give 1 to {_LONGEST_NAME} characters for {field.replace('_', ' ')}.", errors={field: []}
        )
    return name


async def _record(tx: Tx, person: PersonId, action: str) -> None:
    orgs = await people.organizations_of(tx, person)
    await tx.set_tenant(orgs)
    for org in orgs:
        entry = audit.AuditEntry("operator", action, object_kind="person", object_id=str(person))
        await audit.record(tx, org, entry)
