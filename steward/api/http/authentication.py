"""Authenticates tokens and sessions and applies scopes, roles, CSRF checks and rate limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from steward.accounts import sessions as accounts_sessions
from steward.accounts.keys import may_refresh, refresh
from steward.accounts.rate_limits import CallCounters, Window, limit_reached
from steward.accounts.sessions import Lifetimes, cookie_hash, csrf_token
from steward.api.http.context import EndpointRules, ServiceContext
from steward.api.http.operation import Access, Operation
from steward.database.accounts import credentials, sessions
from steward.database.engine.base import Tx
from steward.model.account import ROLE_SCOPES, TOKEN_SCOPES, Actor, CreatedVia, Role, Session
from steward.model.ids import OrgId, PersonId
from steward.model.refusals import (
    CsrfFailed,
    Forbidden,
    NotConfigured,
    Refusal,
    Unauthenticated,
)
from steward.security.secrets import is_equal
from steward.security.tokens import SKEW_S, BadToken, TokenClaims

_SWITCHED_OFF = "Automations are switched off for this organisation"
_NOT_FOR_TOKENS = "This operation is not part of the Automations API."
_NOT_IN_SCOPE = "A token cannot do this. An approver or owner can do it in the web app."
_NOT_IN_ROLE = "Your role does not allow this. Ask an owner of the organization."
_NO_ORGANIZATION = "Choose an organization first."

_RANKS = {Role.MEMBER: 0, Role.APPROVER: 1, Role.OWNER: 2}
_ALL_ROLES = tuple(Role)


@dataclass(slots=True)
class RouteMatch:
    """The operation that a request's path and method lead to, before its caller is known.

    `methods` are the operations of the path (empty for an unknown path), `values` its path values. `refusal`
    and `csrf_refusal` are the refusals of routing and of the CSRF check, raised later in their order.
    """

    operation: Operation | None
    methods: Mapping[str, Operation]
    values: tuple[str, ...]
    is_api: bool
    refusal: Refusal | None
    csrf_refusal: Refusal | None


@dataclass(slots=True)
class AuthenticatedCaller:
    """An authenticated caller, with the session if it is one of the web app."""

    actor: Actor | None
    session: Session | None
    now: datetime | None = None  # by the database's clock, if there is a session


def bearer(headers: Mapping[bytes, bytes], *, several: bool) -> str | None:
    """Returns the token of the Authorization header; None without the header.

    Raises Unauthenticated for `several` such headers and for any other kind of authorization.
    """
    header = headers.get(b"authorization")
    if header is None:
        return None
    kind, _, token = header.decode("latin-1").partition(" ")
    if several or kind.lower() != "bearer":
        raise Unauthenticated
    return token


def cookie(headers: Mapping[bytes, bytes], name: str) -> str | None:
    """Returns the session cookie's value, or None."""
    header = headers.get(b"cookie")
    if header is None:
        return None
    for part in header.decode("latin-1").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name and value:
            return value
    return None


def csrf_fault(
    headers: Mapping[bytes, bytes], web_origin: str, cookie_value: str | None
) -> CsrfFailed | None:
    """Returns the CSRF refusal of a write call from the web app; None when the call passes the check.

    Without a cookie only the origin of the call is checked.
    """
    origin = headers.get(b"origin")
    if origin is not None and origin.decode("latin-1") != web_origin:
        return CsrfFailed()
    site = headers.get(b"sec-fetch-site")
    if site is not None and site != b"same-origin":
        return CsrfFailed()
    if cookie_value is not None:
        sent = headers.get(b"x-csrf-token", b"").decode("latin-1")
        if not is_equal(sent, csrf_token(cookie_value)):
            return CsrfFailed()
    return None


async def verify(context: ServiceContext, token: str) -> TokenClaims:
    """Checks a token's signature and returns its claims; the caller checks its times.

    Raises NotConfigured and Unauthenticated.
    """
    if not context.rules.api_access:
        raise NotConfigured
    try:
        return context.keys.verifier.verify(token)
    except BadToken as bad_token:
        now = context.clock.now()
        if bad_token.reason != "key" or not may_refresh(context.keys, now):
            raise Unauthenticated(token_sent=True) from None
    # Another process may have made a new key since this one read them.
    await refresh(context.engine, now, context.keys)
    try:
        return context.keys.verifier.verify(token)
    except BadToken:
        raise Unauthenticated(token_sent=True) from None


async def admit_token(
    tx: Tx, context: ServiceContext, windows: CallCounters | None, *, claims: TokenClaims, match: RouteMatch
) -> AuthenticatedCaller:
    """Authenticates the caller of a token by the current credential and membership.

    Counts the call against the rate limits. Raises Unauthenticated, Forbidden, RateLimited and the refusal
    of routing.
    """
    rules = context.rules
    operation = match.operation
    is_counted = _is_scoped(operation) and match.is_api and match.refusal is None
    org, person = OrgId(claims.org), PersonId(claims.person)
    credential = await credentials.token_state(
        tx,
        org,
        person,
        client=claims.client_id,
        epoch=claims.epoch,
        since=claims.iat - SKEW_S,
        until=claims.exp,
        max_person=rules.limit_person if is_counted else 0,
        max_org=rules.limit_organization,
    )
    if credential is None or not credential.is_valid:
        raise Unauthenticated(token_sent=True)
    if not credential.automations_on:
        raise Forbidden(_SWITCHED_OFF)
    _authorize_token(match)
    _count_token_call(tx, windows, rules, claims, over=credential.exceeded_limit is not None)
    return AuthenticatedCaller(_token_actor(org, person, claims.client_id), None)


def _is_scoped(operation: Operation | None) -> bool:
    return operation is not None and operation.scope in TOKEN_SCOPES


def _authorize_token(match: RouteMatch) -> None:
    """Raises the first of: a path of the web app, unknown route, missing scope."""
    if not match.is_api:
        raise Forbidden(_NOT_FOR_TOKENS)
    if match.refusal is not None:
        raise match.refusal
    if not _is_scoped(match.operation):
        raise Forbidden(_NOT_IN_SCOPE, needed_scope=match.operation.scope if match.operation else None)


def _count_token_call(
    tx: Tx, windows: CallCounters | None, rules: EndpointRules, claims: TokenClaims, *, over: bool
) -> None:
    """Counts the call in memory or, without `windows`, refuses it if the database found it over the limit."""
    if windows is not None:
        limits: tuple[tuple[Window, int], ...] = (
            (("person", claims.org, claims.person), rules.limit_person),
            (("org", claims.org, 0), rules.limit_organization),
        )
        over = not windows.take(tx.now, limits)
    if over:
        raise limit_reached(tx.now)


@lru_cache(maxsize=1024)
def _token_actor(org: OrgId, person: PersonId, client_id: str) -> Actor:
    return Actor(org, person, TOKEN_SCOPES, CreatedVia.API_TOKEN, client_id)


async def admit_session(
    tx: Tx, context: ServiceContext, windows: CallCounters | None, *, cookie_value: str, match: RouteMatch
) -> AuthenticatedCaller:
    """Authenticates the caller of a session cookie and counts the call against the web app's rate limit.

    Raises Unauthenticated, Forbidden, CsrfFailed, RateLimited and the refusal of routing.
    """
    rules, operation = context.rules, match.operation
    is_counted = operation is not None and match.refusal is None and match.csrf_refusal is None
    lifetimes = lifetimes_of(context)
    found_session = await sessions.session_state(
        tx,
        cookie_hash(cookie_value),
        needed=None if operation is None else _roles(operation),
        idle=lifetimes.idle,
        life=lifetimes.absolute,
        max_calls=rules.limit_web if is_counted else 0,
    )
    if found_session is None:
        raise Unauthenticated
    session = found_session.session
    _authorize_session(session, match)
    if windows is not None:
        over = not windows.take(tx.now, ((("web", 0, int(session.person.id)), rules.limit_web),))
    else:
        over = bool(found_session.is_over_limit)
    if over:
        raise limit_reached(tx.now)
    return AuthenticatedCaller(_web_actor(session), session, found_session.now)


def _authorize_session(session: Session, match: RouteMatch) -> None:
    """Raises the first of: no organization, unknown route, missing scope or role, failed CSRF check."""
    operation = match.operation
    if operation is None or operation.access in (Access.API, Access.APP):
        _within_organization(session)
    if match.refusal is not None:
        raise match.refusal
    if operation is not None:
        _in_role(session, operation)
    if match.csrf_refusal is not None:
        raise match.csrf_refusal


def lifetimes_of(context: ServiceContext) -> Lifetimes:
    """Returns how long sessions live, from the settings."""
    rules = context.rules
    return Lifetimes(timedelta(minutes=rules.session_idle_minutes), timedelta(hours=rules.session_hours))


def touched(caller: AuthenticatedCaller, headers: Mapping[bytes, bytes]) -> Session | None:
    """Returns the session if this call has to extend its idle time, else None.

    Polls never extend it, and other calls at most once a minute.
    """
    if caller.session is None or caller.now is None or headers.get(b"x-steward-poll") == b"1":
        return None
    is_due = caller.now - caller.session.seen_at >= accounts_sessions.TOUCH_AFTER
    return caller.session if is_due else None


def _within_organization(session: Session) -> None:
    if session.chosen is None:
        raise Forbidden(_NO_ORGANIZATION)
    if not session.automations_on:
        raise Forbidden(_SWITCHED_OFF)


def _in_role(session: Session, operation: Operation) -> None:
    role = session.chosen.role if session.chosen else None
    if operation.scope is not None and (role is None or operation.scope not in ROLE_SCOPES[role]):
        raise Forbidden(_NOT_IN_ROLE, needed_scope=operation.scope)
    if operation.role is not None and (role is None or _RANKS[role] < _RANKS[operation.role]):
        raise Forbidden(_NOT_IN_ROLE)


def _roles(operation: Operation) -> tuple[Role, ...] | None:
    """Returns the roles that may call an operation; None when it needs only a session."""
    if operation.scope is not None:
        return tuple(role for role in _ALL_ROLES if operation.scope in ROLE_SCOPES[role])
    if operation.role is not None:
        needed = _RANKS[operation.role]
        return tuple(role for role in _ALL_ROLES if _RANKS[role] >= needed)
    return (
        None
        if operation.access is Access.SESSION or operation.access is Access.OPTIONAL_SESSION
        else _ALL_ROLES
    )


def _web_actor(session: Session) -> Actor | None:
    if session.chosen is None or session.org is None:
        return None
    role = session.chosen.role
    return Actor(
        session.org,
        session.person.id,
        ROLE_SCOPES[role],
        CreatedVia.UI,
        role=role,
        session_hash=session.session_hash,
    )
