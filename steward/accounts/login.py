"""Logs a person in with an API credential."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from steward.accounts import failed_sign_ins
from steward.accounts.keys import KeyRing, refresh
from steward.accounts.names import folded
from steward.database.accounts import credentials, keys
from steward.database.accounts.credentials import LoginRecord
from steward.database.engine.base import Engine, Tx
from steward.model.account import Scope
from steward.model.ids import OrgId, PersonId, new_id
from steward.model.refusals import InvalidCredentials
from steward.security import secrets
from steward.security.tokens import LIFE_S

GRANTED = (Scope.READ, Scope.WRITE)
_NO_ORG = OrgId(0)
_NO_HASH = bytes(32)
_NO_PEPPER = bytes(secrets.PEPPER_BYTES)


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """The five values of a login; Basic authentication may yield two readings of client id and secret."""

    username: str
    email: str
    organization_name: str
    readings: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The result of a login: the token, and the organization and person it is for."""

    token: str
    expires_at: datetime
    org: OrgId
    organization_name: str
    person: PersonId
    email: str
    first_name: str
    last_name: str
    client_id: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible interpretation of the credentials, with its stored login record, if any."""

    client_id: str
    secret: str
    org: OrgId | None
    record: LoginRecord | None


async def login(engine: Engine, now: datetime, ring: KeyRing, request: LoginRequest) -> LoggedIn:
    """Issues a token for the person. Raises InvalidCredentials, whichever value is wrong.

    Each reading takes two queries, one HMAC and one comparison, whether or not its credential exists.
    Counting a failure takes one more statement, also for an unknown credential.
    """

    async def load(tx: Tx) -> tuple[list[_Candidate], str | None]:
        candidates = [
            await _candidate(tx, client_id, secret, request.email) for client_id, secret in request.readings
        ]
        return candidates, await keys.newest_signing(tx)

    candidates, newest = await engine.read(now, load, small=True)
    if newest != ring.kid:
        await refresh(engine, now, ring)
    matching = [candidate for candidate in candidates if _matches(candidate, request, ring)]
    chosen = next(iter(matching), None)
    if chosen is None or chosen.org is None or chosen.record is None:
        await _count_failure(engine, now, candidates)
        raise InvalidCredentials
    org, client_id = chosen.org, chosen.client_id

    async def note(tx: Tx) -> datetime:
        await credentials.record_login(tx, org, client_id)
        return tx.now  # the token's expiry is checked by this clock

    issued_at = await engine.write(now, note, org=org)
    return _issue_token(chosen.record, ring, org=org, client_id=client_id, now=issued_at)


async def _count_failure(engine: Engine, now: datetime, candidates: Sequence[_Candidate]) -> None:
    """Counts a failure for the credential that one of the readings names, or for the first reading."""
    known_client = next((candidate.client_id for candidate in candidates if candidate.org is not None), None)
    key = known_client or candidates[0].client_id
    await failed_sign_ins.count(engine, now, "credential", key, object_id=known_client)


async def _candidate(tx: Tx, client_id: str, secret: str, email: str) -> _Candidate:
    """Reads the login record of one reading, with the same two queries if the client id is unknown."""
    org = await credentials.organization_of(tx, client_id)
    await tx.set_tenant([org or _NO_ORG])
    record = await credentials.for_login(tx, org or _NO_ORG, client_id, folded(email))
    return _Candidate(client_id, secret, org, record)


def _matches(candidate: _Candidate, request: LoginRequest, ring: KeyRing) -> bool:
    """Returns whether the secret and all names are right, the credential enabled and the member active.

    Compares a secret even without a record, so that the response time does not reveal which is wrong.
    """
    record = candidate.record
    pepper = ring.pepper(record.pepper) if record else None
    secret_hash = bytes.fromhex(record.secret_hmac) if record and pepper else _NO_HASH
    is_secret = secrets.matches(candidate.secret, pepper or _NO_PEPPER, secret_hash)
    if record is None or pepper is None:
        return False
    checks = (
        is_secret,
        record.enabled,
        record.member_active,
        secrets.is_equal(folded(request.username), record.username_norm),
        secrets.is_equal(folded(request.organization_name), folded(record.organization_name)),
    )
    return all(checks)


def _issue_token(
    record: LoginRecord, ring: KeyRing, *, org: OrgId, client_id: str, now: datetime
) -> LoggedIn:
    """Returns a new token that is valid for an hour from `now`."""
    issued = int(now.timestamp())
    token = ring.signer.sign(
        person=record.person,
        org=org,
        client_id=client_id,
        scopes=[str(scope) for scope in GRANTED],
        epoch=record.epoch,
        jti=new_id(now),
        now=issued,
    )
    return LoggedIn(
        token=token,
        expires_at=datetime.fromtimestamp(issued + LIFE_S, UTC),
        org=org,
        organization_name=record.organization_name,
        person=record.person,
        email=record.email,
        first_name=record.first_name,
        last_name=record.last_name,
        client_id=client_id,
    )
