"""Signing in and out of the web app, choosing an organization."""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from pydantic import Field

from steward.accounts import attempts
from steward.accounts import sessions as accounts_sessions
from steward.accounts.names import folded
from steward.accounts.sessions import (
    OpenedSession,
    VerifiedPassword,
    cookie_name,
    csrf_token,
    ends,
    scopes_of,
)
from steward.api.http.authentication import lifetimes_of
from steward.api.http.context import ServiceContext
from steward.api.http.operation import Access, ApiCall, Client, EmptyResponse, Operation, ResponseWithHeaders
from steward.api.schema.fields import PasswordText, Positive, RequestBody, Text
from steward.database.accounts.attempt_limits import AttemptKind
from steward.database.engine.base import Tx
from steward.model.account import Membership, Scope, Session
from steward.model.ids import OrgId
from steward.model.instants import wire_time
from steward.model.refusals import InvalidCredentials, NotFound, RateLimited, Unauthenticated, Unavailable


class SignInBody(RequestBody):
    """The e-mail address and password of a person who signs in."""

    email: Annotated[Text, Field(min_length=1, max_length=320)]
    password: PasswordText


class ChooseBody(RequestBody):
    """The organization to work in."""

    organization_id: Positive


class UserWire(msgspec.Struct):
    """The person signed in."""

    id: int
    email: str
    username: str
    first_name: str
    last_name: str


class ChosenWire(msgspec.Struct):
    """The organization worked in."""

    id: int
    name: str
    role: str
    timezone: str
    automations_enabled: bool


class MembershipWire(msgspec.Struct):
    """An organization the person may choose."""

    id: int
    name: str
    role: str


class SessionWire(msgspec.Struct):
    """The person signed in, their organizations, scopes and CSRF token."""

    user: UserWire
    organization: ChosenWire | None
    organizations: list[MembershipWire]
    scopes: list[str]
    csrf_token: str
    idle_expires_at: str
    expires_at: str


class SessionResponse(msgspec.Struct):
    """A session in the form of the API."""

    session: SessionWire


async def count_sign_in(value: Any, client: Client, context: ServiceContext) -> None:
    """Counts a sign-in, separately from logins, before its fields are checked."""
    keys: dict[AttemptKind, str] = {"sign_in_address": client.address}
    email = value.get("email") if isinstance(value, dict) else None
    if isinstance(email, str) and email:
        keys["email"] = folded(email)
    await attempts.count(context.engine, context.clock.now(), keys, limit=context.rules.limit_login)


async def verify(call: ApiCall) -> VerifiedPassword:
    """Compares the password, in a thread. Raises InvalidCredentials, Unavailable."""
    context, body = call.context, call.body
    try:
        return await accounts_sessions.verify(
            context.engine, context.clock.now(), context.hashing, email=body.email, password=body.password
        )
    except InvalidCredentials:
        context.log.info("sign_in_failed", email=attempts.hashed(folded(body.email)))
        raise


async def post(tx: Tx, call: ApiCall) -> ResponseWithHeaders:
    """Signs in. Raises InvalidCredentials."""
    opened = await accounts_sessions.sign_in(
        tx, call.prepared, address=call.client.address, agent=call.client.agent
    )
    return response_with_session(call, opened)


async def get(tx: Tx, call: ApiCall) -> SessionResponse:
    """Responds to `GET /app/session` with the session of the request's cookie."""
    current = require_session(call)
    memberships = await accounts_sessions.memberships(tx, current.session.person.id)
    return SessionResponse(_wire(call, current.session, memberships, cookie=current.cookie))


async def delete(tx: Tx, call: ApiCall) -> ResponseWithHeaders:
    """Signs out; also without a session."""
    if call.session is not None:
        await accounts_sessions.sign_out(tx, call.session)
    return ResponseWithHeaders(EmptyResponse(), headers=(_set_cookie(call, "", expire=True),))


async def choose_organization(tx: Tx, call: ApiCall) -> ResponseWithHeaders:
    """Switches the session to another organization, with a new cookie. Raises NotFound."""
    opened = await accounts_sessions.choose(
        tx, require_session(call).session, OrgId(call.body.organization_id)
    )
    return response_with_session(call, opened)


@dataclass(frozen=True, slots=True)
class CurrentSession:
    """A session and its cookie."""

    session: Session
    cookie: str


def require_session(call: ApiCall) -> CurrentSession:
    """Returns the session and the cookie of the call. Raises Unauthenticated without them."""
    if call.session is None or call.client.cookie is None:
        raise Unauthenticated
    return CurrentSession(call.session, call.client.cookie)


def response_with_session(call: ApiCall, opened: OpenedSession) -> ResponseWithHeaders:
    """Returns the response with a new session and its cookie."""
    response = SessionResponse(_wire(call, opened.session, opened.memberships, cookie=opened.cookie))
    return ResponseWithHeaders(response, headers=(_set_cookie(call, opened.cookie),))


def _wire(
    call: ApiCall, session: Session, memberships: tuple[Membership, ...], *, cookie: str
) -> SessionWire:
    person, chosen = session.person, session.chosen
    idle_expires_at, expires_at = ends(session, lifetimes_of(call.context))
    organization = None
    if chosen is not None:
        organization = ChosenWire(
            chosen.org, chosen.organization_name, chosen.role, session.zone, session.automations_on
        )
    return SessionWire(
        user=UserWire(person.id, person.email, person.username, person.first_name, person.last_name),
        organization=organization,
        organizations=[
            MembershipWire(membership.org, membership.organization_name, membership.role)
            for membership in memberships
        ],
        scopes=[str(scope) for scope in Scope if scope in scopes_of(session)],
        csrf_token=csrf_token(cookie),
        idle_expires_at=wire_time(idle_expires_at),
        expires_at=wire_time(expires_at),
    )


def _set_cookie(call: ApiCall, value: str, *, expire: bool = False) -> tuple[bytes, bytes]:
    """Builds the Set-Cookie header; with `expire` it deletes the cookie."""
    name = cookie_name(call.context.rules.web_origin)
    parts = [f"{name}={value}", "Path=/", "HttpOnly", "SameSite=Lax"]
    if name.startswith("__Host-"):
        parts.append("Secure")
    if expire:
        parts.append("Max-Age=0")
    return b"set-cookie", "; ".join(parts).encode("ascii")


OPERATIONS = (
    Operation(
        name="session.create",
        method="POST",
        path="/app/session",
        access=Access.PUBLIC,
        attempt=count_sign_in,
        prepare=verify,
        function=post,
        body=SignInBody,
        body_limit=16 * 1024,
        body_values=1_000,
        response=SessionResponse,
        summary="Sign in",
        refusals=(InvalidCredentials, RateLimited, Unavailable),
        writes=True,
    ),
    Operation(
        name="session.get",
        method="GET",
        path="/app/session",
        access=Access.SESSION,
        function=get,
        response=SessionResponse,
        summary="Get the session",
        small=True,
    ),
    Operation(
        name="session.delete",
        method="DELETE",
        path="/app/session",
        access=Access.OPTIONAL_SESSION,
        function=delete,
        response=EmptyResponse,
        summary="Sign out",
        writes=True,
    ),
    Operation(
        name="session.choose_organization",
        method="POST",
        path="/app/session/organization",
        access=Access.SESSION,
        function=choose_organization,
        body=ChooseBody,
        response=SessionResponse,
        summary="Choose an organization",
        refusals=(NotFound,),
        writes=True,
    ),
)
