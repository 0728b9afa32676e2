"""Sessions of people in the web app: cookies, lifetimes and what a session answers."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from steward.accounts.names import folded
from steward.accounts.passwords import Hashing
from steward.database.accounts import audit, people, sessions
from steward.database.engine.base import Engine, Tx
from steward.model.account import ROLE_SCOPES, Membership, Person, Scope
from steward.model.ids import OrgId, PersonId
from steward.model.refusals import InvalidCredentials, NotFound, Unauthenticated
from steward.model.sessions import Session
from steward.security.secrets import hash_value, new_value

_MOST_SESSIONS = 10
TOUCH_AFTER = timedelta(minutes=1)
_CSRF = b"steward csrf 1\x00"


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long a session lives without a call, and at most."""

    idle: timedelta
    absolute: timedelta


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session as answered, with the cookie that opens it."""

    cookie: str
    session: Session
    memberships: tuple[Membership, ...]


def cookie_name(web_origin: str) -> str:
    """`__Host-steward`, or `steward` where the web origin is plain http (on a loopback address)."""
    return "__Host-steward" if urlsplit(web_origin).scheme == "https" else "steward"


def cookie_hash(cookie: str) -> str:
    """The hash a session is kept under; the cookie itself is kept nowhere."""
    return hash_value(cookie).hex()


def csrf_token(cookie: str) -> str:
    """The token a page sends with every change; worked out from the cookie, so it is not kept."""
    return hashlib.sha256(_CSRF + cookie.encode("utf-8")).hexdigest()


def scopes_of(session: Session) -> frozenset[Scope]:
    """What the person may do in the chosen organisation; nothing when none is chosen."""
    return ROLE_SCOPES[session.chosen.role] if session.chosen else frozenset()


def ends(session: Session, lifetimes: Lifetimes) -> tuple[datetime, datetime]:
    """When the session ends unused, and when in any case."""
    expires_at = session.created_at + lifetimes.absolute
    return min(session.seen_at + lifetimes.idle, expires_at), expires_at


async def memberships(tx: Tx, person: PersonId) -> tuple[Membership, ...]:
    """The organisations a person is an active member of; opens the wall to all of theirs."""
    orgs = await people.organizations_of(tx, person)
    await tx.set_tenant(orgs)
    rows = [await people.membership(tx, org, person) for org in orgs]
    return tuple(membership for membership in rows if membership is not None and membership.active)


@dataclass(frozen=True, slots=True)
class VerifiedPassword:
    """A person whose password was right, the hash it was compared with, and a better one when due."""

    person: Person
    email_norm: str
    password_hash: str
    new_hash: str | None


async def verify(
    engine: Engine, now: datetime, hashing: Hashing, *, email: str, password: str
) -> VerifiedPassword:
    """Compares a password outside any transaction, with the same work whether or not there is such a person.

    Raises InvalidCredentials, and Unavailable when too many wait.
    """
    email_norm = folded(email)

    async def look(tx: Tx) -> people.Known | None:
        return await people.by_email(tx, email_norm)

    account = await engine.read(now, look, small=True)
    password_hash = account.password_hash if account is not None and account.person.active else None
    is_right = await hashing.verify(password, password_hash)
    if account is None or password_hash is None or not is_right:
        raise InvalidCredentials
    new_hash = await hashing.hash(password) if hashing.is_outdated(password_hash) else None
    return VerifiedPassword(account.person, email_norm, password_hash, new_hash)


async def sign_in(tx: Tx, verified: VerifiedPassword, *, address: str, agent: str) -> OpenedSession:
    """Opens a session; with exactly one organisation it is chosen. Ends the oldest beyond ten.

    Raises InvalidCredentials when the person was switched off or the password changed meanwhile.
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
    """Opens a session of a person who has proved who they are; `found` are their memberships."""
    cookie = new_value()
    session_hash = cookie_hash(cookie)
    await sessions.insert(tx, session_hash, person, org=org, address=address, agent=agent[:200])
    await sessions.keep_newest(tx, person, session_hash, max_sessions=_MOST_SESSIONS)
    for membership in memberships_of_person:
        entry = audit.Entry("person", "signed_in", actor=str(person))
        await audit.record(tx, membership.org, entry)
    return OpenedSession(cookie, await _written(tx, session_hash), memberships_of_person)


async def sign_out(tx: Tx, session: Session) -> None:
    """Ends this session."""
    await sessions.end(tx, session.session_hash)


async def choose(tx: Tx, session: Session, org: OrgId) -> OpenedSession:
    """Works in `org` from now on, under a new cookie. Raises NotFound for anything but an own one."""
    memberships_of_person = await memberships(tx, session.person.id)
    if org not in {membership.org for membership in memberships_of_person}:
        raise NotFound
    return await renew(tx, session, memberships_of_person, org=org)


async def renew(
    tx: Tx, session: Session, memberships_of_person: tuple[Membership, ...], *, org: OrgId | None
) -> OpenedSession:
    """The same session under a new cookie, working in `org`. Raises Unauthenticated when it has ended."""
    cookie = new_value()
    session_hash = cookie_hash(cookie)
    if await sessions.renew(tx, session.session_hash, session_hash, org) == 0:
        raise Unauthenticated
    return OpenedSession(cookie, await _written(tx, session_hash), memberships_of_person)


async def touch(tx: Tx, session: Session) -> None:
    """Extends the idle time and notes that the member was here."""
    await sessions.touch(tx, session.session_hash)
    if session.org is not None:
        await people.seen(tx, session.org, session.person.id)


async def _written(tx: Tx, session_hash: str) -> Session:
    session = await sessions.written(tx, session_hash)
    if session is None:
        raise Unauthenticated
    return session
