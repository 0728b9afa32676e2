"""Sessions of people in the web app: sign-in, cookies, lifetimes and the chosen organization."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from steward.accounts import failed_sign_ins
from steward.accounts.names import folded
from steward.accounts.passwords import PasswordHasher
from steward.database.accounts import audit, people, sessions
from steward.database.engine.base import Engine, Tx
from steward.model.account import ROLE_SCOPES, Membership, Person, Scope, Session
from steward.model.ids import OrgId, PersonId
from steward.model.refusals import InvalidCredentials, NotFound, Unauthenticated
from steward.security.secrets import hash_value, new_value

_MAX_SESSIONS = 10
TOUCH_AFTER = timedelta(minutes=1)
_CSRF = b"steward csrf 1\x00"


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The longest time that a session lasts without a call (`idle`) and in total (`absolute`)."""

    idle: timedelta
    absolute: timedelta


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session with its cookie and the person's memberships."""

    cookie: str
    session: Session
    memberships: tuple[Membership, ...]


def cookie_name(web_origin: str) -> str:
    """Returns `__Host-steward`, or `steward` when the web origin is plain http (on a loopback address)."""
    return "__Host-steward" if urlsplit(web_origin).scheme == "https" else "steward"


def cookie_hash(cookie: str) -> str:
    """Returns the hash under which a session is stored; the cookie itself is not stored."""
    return hash_value(cookie).hex()


def csrf_token(cookie: str) -> str:
    """Returns the CSRF token of a session; it is derived from the cookie, so it is not stored."""
    return hashlib.sha256(_CSRF + cookie.encode("utf-8")).hexdigest()


def scopes_of(session: Session) -> frozenset[Scope]:
    """Returns the scopes of the person's role in the chosen organization; none when none is chosen."""
    return ROLE_SCOPES[session.chosen.role] if session.chosen else frozenset()


def ends(session: Session, lifetimes: Lifetimes) -> tuple[datetime, datetime]:
    """Returns when the session ends if it stays unused, and when it ends in any case."""
    expires_at = session.created_at + lifetimes.absolute
    return min(session.seen_at + lifetimes.idle, expires_at), expires_at


async def memberships(tx: Tx, person: PersonId) -> tuple[Membership, ...]:
    """Returns a person's active memberships; sets the tenant context to all their organizations."""
    orgs = await people.organizations_of(tx, person)
    await tx.set_tenant(orgs)
    rows = [await people.membership(tx, org, person) for org in orgs]
    return tuple(membership for membership in rows if membership is not None and membership.active)


@dataclass(frozen=True, slots=True)
class VerifiedPassword:
    """A person with the right password, the hash it matched, and a new hash if that is outdated."""

    person: Person
    email_norm: str
    password_hash: str
    new_hash: str | None


async def verify(
    engine: Engine, now: datetime, hashing: PasswordHasher, *, email: str, password: str
) -> VerifiedPassword:
    """Compares a password outside any transaction, with the same work for any address; counts failures.

    Raises InvalidCredentials, and Unavailable when too many wait.
    """
    email_norm = folded(email)

    async def load(tx: Tx) -> people.PersonWithPassword | None:
        return await people.by_email(tx, email_norm)

    account = await engine.read(now, load, small=True)
    password_hash = account.password_hash if account is not None and account.person.active else None
    is_right = await hashing.verify(password, password_hash)
    if account is None or password_hash is None or not is_right:
        object_id = None if account is None else str(account.person.id)
        await failed_sign_ins.count(engine, now, "person", email_norm, object_id=object_id)
        raise InvalidCredentials
    new_hash = await hashing.hash(password) if hashing.is_outdated(password_hash) else None
    return VerifiedPassword(account.person, email_norm, password_hash, new_hash)


async def sign_in(tx: Tx, verified: VerifiedPassword, *, address: str, agent: str) -> OpenedSession:
    """Opens a session and ends the oldest ones beyond ten; chooses the organization if there is only one.

    Raises InvalidCredentials when the account was disabled or the password changed since `verify`.
    """
    account = await people.by_email(tx, verified.email_norm)
    if account is None or not account.person.active or account.password_hash != verified.password_hash:
        raise InvalidCredentials
    person = account.person
    if verified.new_hash is not None:
        await people.set_password_hash(tx, person.id, verified.new_hash)
    memberships_of_person = await memberships(tx, person.id)
    org = memberships_of_person[0].org if len(memberships_of_person) == 1 else None
    return await open_for(tx, person.id, memberships_of_person, org=org, address=address, agent=agent)


async def open_for(
    tx: Tx,
    person: PersonId,
    memberships_of_person: tuple[Membership, ...],
    *,
    org: OrgId | None,
    address: str,
    agent: str,
) -> OpenedSession:
    """Opens a session for an authenticated person, and ends the oldest ones beyond ten."""
    cookie = new_value()
    session_hash = cookie_hash(cookie)
    await sessions.insert(tx, session_hash, person, org=org, address=address, agent=agent[:200])
    await sessions.keep_newest(tx, person, session_hash, max_sessions=_MAX_SESSIONS)
    for membership in memberships_of_person:
        entry = audit.AuditEntry("person", "signed_in", actor=str(person))
        await audit.record(tx, membership.org, entry)
    return OpenedSession(cookie, await _written(tx, session_hash), memberships_of_person)


async def sign_out(tx: Tx, session: Session) -> None:
    """Ends this session."""
    await sessions.end(tx, session.session_hash)


async def choose(tx: Tx, session: Session, org: OrgId) -> OpenedSession:
    """Chooses `org` for the session and renews its cookie. Raises NotFound unless the person is a member."""
    memberships_of_person = await memberships(tx, session.person.id)
    if org not in {membership.org for membership in memberships_of_person}:
        raise NotFound
    return await renew(tx, session, memberships_of_person, org=org)


async def renew(
    tx: Tx, session: Session, memberships_of_person: tuple[Membership, ...], *, org: OrgId | None
) -> OpenedSession:
    """Gives the session a new cookie and the chosen `org`. Raises Unauthenticated when it has ended."""
    cookie = new_value()
    session_hash = cookie_hash(cookie)
    if await sessions.renew(tx, session.session_hash, session_hash, org) == 0:
        raise Unauthenticated
    return OpenedSession(cookie, await _written(tx, session_hash), memberships_of_person)


async def touch(tx: Tx, session: Session) -> None:
    """Extends the idle time and records when the member was last seen."""
    await sessions.touch(tx, session.session_hash)
    if session.org is not None:
        await people.record_seen(tx, session.org, session.person.id)


async def _written(tx: Tx, session_hash: str) -> Session:
    session = await sessions.written(tx, session_hash)
    if session is None:
        raise Unauthenticated
    return session
