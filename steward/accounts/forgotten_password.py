"""Resets a forgotten password through a mailed link that works once."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from steward.accounts import attempts
from steward.accounts.names import folded
from steward.accounts.passwords import PasswordHasher
from steward.accounts.people import new_password_fault
from steward.accounts.sessions import memberships
from steward.database.accounts import attempt_limits, audit, password_resets, people, sessions
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import links
from steward.model.account import Membership, Person
from steward.model.ids import OrgId, PersonId
from steward.model.refusals import RateLimited, ValidationFailed
from steward.security.secrets import hash_value, new_value

_LIFE: Final = timedelta(hours=1)
_REQUESTS_PER_ADDRESS: Final = 3
_REQUESTS_PER_SOURCE: Final = 10
_ADDRESS_WINDOW_MS = 60 * 60 * 1000
INVALID = "This link is unknown, used or has expired. Ask for a new one."
# Used for an address without an account, so that the same statements run.
_NOBODY = PersonId(0)


@dataclass(frozen=True, slots=True)
class ResetLink:
    """A new link and its recipient; only a hash of the token is stored."""

    person: Person
    membership: Membership
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class PreparedReset:
    """The hash of a new password, and the link that permits it."""

    token_hash: str
    person: PersonId
    new_hash: str


@dataclass(frozen=True, slots=True)
class ResetDone:
    """The person whose password was set, and their memberships."""

    person: Person
    memberships: tuple[Membership, ...]


async def count_request(engine: Engine, now: datetime, address: str) -> None:
    """Counts a request from a network address. Raises RateLimited after ten in a minute."""
    await attempts.count(engine, now, {"reset_source": address}, limit=_REQUESTS_PER_SOURCE)


async def request(tx: Tx, email: str) -> ResetLink | None:
    """Creates a link if an active account of a member has this e-mail address; returns None otherwise.

    The same statements run in both cases. Raises RateLimited after three requests for one e-mail address
    in an hour.
    """
    email_norm = folded(email)
    wait = await attempt_limits.attempt(
        tx, {"reset_email": attempts.hashed(email_norm)}, _REQUESTS_PER_ADDRESS, window_ms=_ADDRESS_WINDOW_MS
    )
    if wait is not None:
        raise RateLimited(retry_after=wait)
    account = await people.by_email(tx, email_norm)
    person = account.person if account is not None and account.person.active else None
    membership = await _first_membership(tx, _NOBODY if person is None else person.id)
    token, expires_at = new_value(), tx.now + _LIFE
    if person is None or membership is None:
        await password_resets.insert(tx, _hashed(token), _NOBODY, expires_at=expires_at)
        return None
    await password_resets.insert(tx, _hashed(token), person.id, expires_at=expires_at)
    return ResetLink(person, membership, token, expires_at)


async def _first_membership(tx: Tx, person: PersonId) -> Membership | None:
    """Returns the person's first active membership; makes at least one query, even for _NOBODY."""
    orgs = await people.organizations_of(tx, person) or [OrgId(0)]
    await tx.set_tenant(orgs)
    for org in orgs:
        membership = await people.membership(tx, org, person)
        if membership is not None and membership.active:
            return membership
    return None


async def prepare(
    engine: Engine, now: datetime, hashing: PasswordHasher, *, token: str, new_password: str
) -> PreparedReset:
    """Looks up the link, then checks and hashes the password with no transaction open.

    Raises ValidationFailed (`token`, `new_password`), and Unavailable when too many passwords wait.
    """
    token_hash = _hashed(token)

    async def load(tx: Tx) -> tuple[people.PersonWithPassword | None, tuple[Membership, ...]]:
        person = await password_resets.by_token(tx, token_hash)
        if person is None:
            return None, ()
        return await people.with_password(tx, person), await memberships(tx, person)

    account, joined = await engine.read(now, load)
    if account is None or not account.person.active:
        raise ValidationFailed(INVALID, errors={"token": [INVALID]})
    names = [membership.organization_name for membership in joined]
    fault = new_password_fault(new_password, account.person.email, names)
    if fault is not None:
        raise ValidationFailed(errors={"new_password": [fault]})
    return PreparedReset(token_hash, account.person.id, await hashing.hash(new_password))


async def reset(tx: Tx, prepared: PreparedReset) -> ResetDone:
    """Sets the new password, ends every session of the person and invalidates their other links.

    Raises ValidationFailed (`token`) when the link was used or the account disabled since `prepare`.
    """
    await people.lock(tx, prepared.person)
    account = await people.with_password(tx, prepared.person)
    is_used = await password_resets.use(tx, prepared.token_hash, prepared.person)
    if account is None or not account.person.active or not is_used:
        raise ValidationFailed(INVALID, errors={"token": [INVALID]})
    await people.set_password_hash(tx, prepared.person, prepared.new_hash)
    await sessions.end_of_person(tx, prepared.person)
    joined = await memberships(tx, prepared.person)
    who = str(prepared.person)
    for membership in joined:
        await links.withdraw(tx, membership.org, prepared.person)
        entry = audit.AuditEntry("person", "password_reset", actor=who, object_kind="person", object_id=who)
        await audit.record(tx, membership.org, entry)
    return ResetDone(account.person, joined)


def _hashed(token: str) -> str:
    return hash_value(token).hex()
