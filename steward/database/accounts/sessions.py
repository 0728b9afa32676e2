"""Sessions of people in the web app, found by the hash of their cookie; accounts/ has the lifetimes."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from steward.database.engine.base import PerEngine, Row, Tx, from_ms
from steward.model.account import Membership, Person, Role, Session
from steward.model.ids import OrgId, PersonId

_MILLISECOND = timedelta(milliseconds=1)
_NO_LIMIT_MS = 1 << 52
_LIVE_SESSION = (
    "SELECT s.person_id, p.email, p.username, p.first_name, p.last_name, m.org_id,"
    " s.created_at, s.seen_at, o.name AS organization_name, o.zone, o.automations_on, m.role,"
    " 0 AS is_over_limit,"
    " CAST(:now AS bigint) AS present"
    " FROM sessions AS s"
    " JOIN people AS p ON p.person_id = s.person_id"
    " LEFT JOIN members AS m ON m.org_id = s.org_id AND m.person_id = s.person_id AND m.active"
    " LEFT JOIN organizations AS o ON o.org_id = m.org_id"
    " WHERE s.session_hash = :hash AND p.active"
    " AND s.seen_at > CAST(:now AS bigint) - CAST(:idle AS bigint)"
    " AND s.created_at > CAST(:now AS bigint) - CAST(:life AS bigint)"
)
_AUTHENTICATE = (
    "SELECT person_id, email, username, first_name, last_name, org_id, created_at, seen_at,"
    " organization_name, zone, automations_on, role, is_over_limit, present"
    " FROM steward_authenticate_session(:hash, :needed, :idle, :life, :most, :test_now)"
)
_SESSION_STATE = PerEngine(sqlite=_LIVE_SESSION, postgresql=_AUTHENTICATE)


@dataclass(frozen=True, slots=True)
class SessionState:
    """A live session, whether this call exceeds the person's limit (PostgreSQL only), and the time."""

    session: Session
    is_over_limit: bool
    now: datetime


def _state(row: Row, session_hash: str) -> SessionState:
    org = None if row["org_id"] is None else OrgId(row["org_id"])
    chosen = None
    if org is not None:
        chosen = Membership(org, row["organization_name"], Role(row["role"]), True)
    person = Person(
        id=PersonId(row["person_id"]),
        email=row["email"],
        username=row["username"],
        first_name=row["first_name"],
        last_name=row["last_name"],
        active=True,
    )
    session = Session(
        session_hash=session_hash,
        person=person,
        org=org,
        chosen=chosen,
        automations_on=bool(row["automations_on"]),
        zone=row["zone"] or "UTC",
        created_at=from_ms(row["created_at"]),
        seen_at=from_ms(row["seen_at"]),
    )
    return SessionState(session, bool(row["is_over_limit"]), from_ms(row["present"]))


async def session_state(
    tx: Tx,
    session_hash: str,
    *,
    needed: Collection[Role] | None,
    idle: timedelta,
    life: timedelta,
    max_calls: int,
) -> SessionState | None:
    """Returns the session of a cookie with its person and organization; None when it has ended.

    It ends when it is unused for `idle`, and `life` after it was opened, by the database's clock.

    Only for `engine.read(small=True)`: on PostgreSQL it also sets the tenant context of the connection, and
    counts the call when the role is among `needed` (None: always; `max_calls` 0: never); SQLite counts in
    memory.
    """
    row = await tx.first(
        _SESSION_STATE,
        {
            "hash": session_hash,
            "needed": None if needed is None else [str(role) for role in needed],
            "idle": idle // _MILLISECOND,
            "life": life // _MILLISECOND,
            "most": max_calls,
            "test_now": tx.test_now,
        },
    )
    return None if row is None else _state(row, session_hash)


async def written(tx: Tx, session_hash: str) -> Session | None:
    """Returns the session that this transaction has just written, in its tenant context."""
    row = await tx.first(_LIVE_SESSION, {"hash": session_hash, "idle": _NO_LIMIT_MS, "life": _NO_LIMIT_MS})
    return None if row is None else _state(row, session_hash).session


async def insert(
    tx: Tx, session_hash: str, person: PersonId, *, org: OrgId | None, address: str, agent: str
) -> None:
    """Inserts a session, last seen now."""
    await tx.execute(
        "INSERT INTO sessions (session_hash, person_id, org_id, created_at, seen_at, ip_text, agent)"
        " VALUES (:hash, :person, :org, :now, :now, :address, :agent)",
        {"hash": session_hash, "person": person, "org": org, "address": address, "agent": agent},
    )


async def renew(tx: Tx, old_hash: str, new_hash: str, org: OrgId | None) -> int:
    """Moves the session to a new cookie and this organization; returns the number of rows changed."""
    return await tx.execute(
        "UPDATE sessions SET session_hash = :new, org_id = :org, seen_at = :now WHERE session_hash = :old",
        {"new": new_hash, "old": old_hash, "org": org},
    )


async def touch(tx: Tx, session_hash: str) -> None:
    """Extends the idle time."""
    await tx.execute("UPDATE sessions SET seen_at = :now WHERE session_hash = :hash", {"hash": session_hash})


async def end(tx: Tx, session_hash: str) -> int:
    """Ends one session."""
    return await tx.execute("DELETE FROM sessions WHERE session_hash = :hash", {"hash": session_hash})


async def end_all(tx: Tx) -> int:
    """Ends every session of every person."""
    return await tx.execute("DELETE FROM sessions")


async def end_of_person(tx: Tx, person: PersonId, *, kept_session: str = "") -> int:
    """Ends a person's sessions, or all but one."""
    return await tx.execute(
        "DELETE FROM sessions WHERE person_id = :person AND session_hash <> :but",
        {"person": person, "but": kept_session},
    )


async def end_within(tx: Tx, org: OrgId, person: PersonId) -> int:
    """Ends a person's sessions in which this organization is chosen."""
    return await tx.execute(
        "DELETE FROM sessions WHERE person_id = :person AND org_id = :org", {"person": person, "org": org}
    )


async def keep_newest(tx: Tx, person: PersonId, newest: str, *, max_sessions: int) -> None:
    """Ends the person's oldest sessions beyond `max_sessions`, but never the one just opened."""
    await tx.execute(
        "DELETE FROM sessions"
        " WHERE person_id = :person AND session_hash <> :newest"
        " AND session_hash NOT IN (SELECT s.session_hash FROM sessions AS s"
        " WHERE s.person_id = :person AND s.session_hash <> :newest"
        " ORDER BY s.created_at DESC, s.session_hash LIMIT :others)",
        {"person": person, "newest": newest, "others": max_sessions - 1},
    )
