"""Erases people and organizations: deletes or anonymizes their rows and records it in the audit log."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from steward.accounts import people as accounts
from steward.accounts.attempts import hashed
from steward.accounts.members import LAST_OWNER
from steward.accounts.names import folded, folded_name
from steward.clock import Clock
from steward.database.accounts import audit, members, organizations, people
from steward.database.engine.base import Engine, Tx
from steward.database.operator import erasure as erasing
from steward.model.account import MemberState, Person, Role
from steward.model.ids import OrgId, PersonId
from steward.model.refusals import NotFound, WrongState

# Rows removed per transaction; few enough that the service can write in between.
ROWS = 1_000
_RUNS = 50


@dataclass(slots=True)
class ErasureReport:
    """The number of rows removed by table, and the subscriptions that still exist at the stores."""

    name: str
    removed: Counter[str] = field(default_factory=Counter)
    people: int = 0
    subscriptions: list[tuple[str, str]] = field(default_factory=list)


async def people_named(tx: Tx, id_or_email: str) -> list[Person]:
    """Returns the account with this id or e-mail address, then the open invitations of the same address.

    An invitation is a person of its own until it is accepted. Raises NotFound.
    """
    invited = [person for person in await people.invited(tx) if folded(person.email) == folded(id_or_email)]
    try:
        person = await accounts.resolve(tx, id_or_email)
    except NotFound:
        if not invited:
            raise
        return invited
    same = [other for other in await people.invited(tx) if folded(other.email) == folded(person.email)]
    return [person, *(other for other in same if other.id != person.id)]


async def erase_person(tx: Tx, person: Person) -> list[OrgId]:
    """Removes everything that identifies a person from their account and memberships.

    The id stays, so that records still distinguish people. Returns the person's organizations. Raises
    WrongState while the person is the last owner of an organization.
    """
    await people.lock(tx, person.id)
    orgs = await people.organizations_of(tx, person.id)
    await tx.set_tenant(orgs)
    for org in orgs:
        await organizations.lock(tx, org)
        await _check_owner_left(tx, org, person.id)
    await _anonymize(tx, person, orgs)
    for org in orgs:
        entry = audit.AuditEntry("operator", "person_erased", object_kind="person", object_id=str(person.id))
        await audit.record(tx, org, entry)
    return orgs


async def erase_organization(engine: Engine, clock: Clock, org: OrgId) -> ErasureReport:
    """Removes an organization's rows in small transactions; the service may be running.

    The directory entry remains under an anonymous name. The audit log remains, because it holds only ids.
    People who belong to no other organization are anonymized. After an interruption the call can be
    repeated.
    """
    erased = ErasureReport(_erased_name(org))

    async def close(tx: Tx) -> None:
        erased.subscriptions = await erasing.subscriptions_of(tx, org)
        await erasing.close(tx, org)

    await engine.write(clock.now(), close, org=org)
    while removed := await engine.write(clock.now(), lambda tx: erasing.remove_runs(tx, org, _RUNS), org=org):
        erased.removed["runs"] += removed
    for person in await engine.read(clock.now(), lambda tx: erasing.people_of(tx, org), org=org):
        erased.people += await engine.write(
            clock.now(), partial(_anonymize_unless_elsewhere, org=org, person=person), org=org
        )
    for table in erasing.TABLES:
        await _empty(engine, clock, org, table, erased)
    await engine.write(clock.now(), lambda tx: _finish(tx, org, erased), org=org)
    return erased


def _erased_name(org: OrgId) -> str:
    """Returns the name of an erased organization."""
    return f"Erased organization {org}"


async def _empty(engine: Engine, clock: Clock, org: OrgId, table: str, erased: ErasureReport) -> None:
    async def act(tx: Tx) -> int:
        return await erasing.remove_some(tx, org, table, ROWS)

    while removed := await engine.write(clock.now(), act, org=org):
        erased.removed[table] += removed


async def _anonymize_unless_elsewhere(tx: Tx, org: OrgId, person: PersonId) -> bool:
    """Anonymizes a person who belongs to no other organization; returns whether it did."""
    if await people.organizations_of(tx, person) != [org]:
        return False
    account = await people.get(tx, person)
    if account is None:
        return False
    await _anonymize(tx, account, [org])
    return True


async def _finish(tx: Tx, org: OrgId, erased: ErasureReport) -> None:
    await erasing.forget_calls(tx, org)
    await erasing.anonymize_organization(tx, org, erased.name, folded_name(erased.name))
    counts = {table: erased.removed[table] for table in ("automations", "runs", "approvals", "events")}
    entry = audit.AuditEntry(
        "operator",
        "organization_erased",
        object_kind="organization",
        object_id=str(org),
        detail={**counts, "people": erased.people},
    )
    await audit.record(tx, org, entry)


async def _check_owner_left(tx: Tx, org: OrgId, person: PersonId) -> None:
    member = await members.get(tx, org, person)
    is_owner = member is not None and member.role is Role.OWNER and member.state is MemberState.ACTIVE
    if is_owner and await members.owners(tx, org) == 1:
        organization = await organizations.get(tx, org)
        name = organization.name if organization is not None else str(org)
        raise WrongState(f"{name}: {LAST_OWNER} Or erase the organization.")


async def _anonymize(tx: Tx, person: Person, orgs: list[OrgId]) -> None:
    email_norm = folded(person.email)
    names = list(dict.fromkeys([person.email, email_norm]))
    if person.first_name and person.last_name:
        names.append(f"{person.first_name} {person.last_name}")
    for org in orgs:
        await erasing.anonymize_member(tx, org, person.id, email_norm=email_norm, names=names)
    await erasing.end_sign_ins(tx, person.id, hashed(email_norm))
    await erasing.anonymize_account(tx, person.id)
