"""Changes a person's own password; comparison and hashing happen outside the transaction."""

from dataclasses import dataclass
from datetime import datetime

from steward.accounts import attempts
from steward.accounts.names import folded
from steward.accounts.passwords import PasswordHasher
from steward.accounts.people import new_password_fault
from steward.accounts.sessions import OpenedSession, memberships, renew
from steward.database.accounts import audit, people, sessions
from steward.database.engine.base import Engine, Tx
from steward.model.account import Membership, Session
from steward.model.refusals import Unauthenticated, Unavailable, ValidationFailed


@dataclass(frozen=True, slots=True)
class PasswordRenewal:
    """The hash that the current password was compared with, and the hash of the new one."""

    before: str | None
    after: str


async def prepare(
    engine: Engine,
    now: datetime,
    hashing: PasswordHasher,
    *,
    session: Session,
    current: str,
    new: str,
    max_attempts: int,
) -> PasswordRenewal:
    """Compares the current password and hashes the new one.

    Each attempt counts as a sign-in with the person's e-mail address. Raises ValidationFailed
    (`current_password`, `new_password`), RateLimited, Unavailable (too many passwords wait), Unauthenticated.
    """
    person = session.person
    await attempts.count(engine, now, {"email": folded(person.email)}, limit=max_attempts)

    async def load(tx: Tx) -> tuple[people.PersonWithPassword | None, tuple[Membership, ...]]:
        return await people.with_password(tx, person.id), await memberships(tx, person.id)

    account, memberships_of_person = await engine.read(now, load)
    if account is None:
        raise Unauthenticated
    faults: dict[str, list[str]] = {}
    if not await hashing.verify(current, account.password_hash):
        faults["current_password"] = ["This is not your password."]
    fault = new_password_fault(
        new, person.email, [membership.organization_name for membership in memberships_of_person]
    )
    if fault is not None:
        faults["new_password"] = [fault]
    if faults:
        raise ValidationFailed(errors=faults)
    return PasswordRenewal(account.password_hash, await hashing.hash(new))


async def change(tx: Tx, session: Session, renewed: PasswordRenewal) -> OpenedSession:
    """Stores the new password, ends the person's other sessions and renews this one.

    Raises Unavailable when the password has changed since `prepare`, Unauthenticated when the session ended.
    """
    person = session.person.id
    await people.lock(tx, person)
    account = await people.with_password(tx, person)
    if account is None or account.password_hash != renewed.before:
        raise Unavailable(retry_after=1)
    await people.set_password_hash(tx, person, renewed.after)
    await sessions.end_of_person(tx, person, kept_session=session.session_hash)
    memberships_of_person = await memberships(tx, person)
    for membership in memberships_of_person:
        entry = audit.AuditEntry(
            "person", "password_changed", actor=str(person), object_kind="person", object_id=str(person)
        )
        await audit.record(tx, membership.org, entry)
    return await renew(tx, session, memberships_of_person, org=session.org)
