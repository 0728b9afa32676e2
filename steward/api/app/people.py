"""People of an organization, invitations and one's own password over HTTP."""

from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, Field

from steward.accounts import attempts, invitations, members, own_password
from steward.accounts.invitations import AcceptInvitation, InvitePerson, IssuedInvitation, PreparedAcceptance
from steward.accounts.own_password import PasswordRenewal
from steward.accounts.people import is_email
from steward.api.app.session import SessionResponse, require_session, response_with_session
from steward.api.http.context import ServiceContext
from steward.api.http.operation import Access, ApiCall, Client, Operation, Response, ResponseWithHeaders
from steward.api.schema.fields import (
    FromJson,
    NameText,
    PageQuery,
    PasswordText,
    RequestBody,
    Text,
    field_error,
)
from steward.database.accounts import members as rows
from steward.database.accounts.attempt_limits import AttemptKind
from steward.database.engine.base import Tx, from_ms, ms
from steward.database.notifications import receivers
from steward.model.account import Member, Role
from steward.model.ids import PersonId
from steward.model.instants import wire_time, wire_time_or_none
from steward.model.refusals import NotFound, WrongState
from steward.notifications import account_mails

_LONGEST_EMAIL = 320


def _email(value: str) -> str:
    if not is_email(value.strip()):
        raise field_error("Give an e-mail address.")
    return value.strip()


EmailText = Annotated[Text, Field(max_length=_LONGEST_EMAIL), AfterValidator(_email)]


class InviteBody(RequestBody):
    """The person to invite and their role; names are optional."""

    email: EmailText
    role: Annotated[Role, FromJson]
    first_name: NameText | None = None
    last_name: NameText | None = None


class RoleBody(RequestBody):
    """Another role."""

    role: Annotated[Role, FromJson]


class PasswordBody(RequestBody):
    """The current and the new password."""

    current_password: PasswordText
    new_password: PasswordText


class AcceptBody(RequestBody):
    """The link's token; names for a new account, an existing one gives its password."""

    token: Annotated[Text, Field(min_length=1, max_length=200)]
    password: PasswordText
    first_name: NameText | None = None
    last_name: NameText | None = None


class PersonRecord(msgspec.Struct):
    """A member of the organization, or an invited person."""

    id: int
    email: str
    username: str
    first_name: str
    last_name: str
    role: str
    state: str
    last_seen_at: str | None
    mail_refused: bool


class PersonResponse(msgspec.Struct):
    """A person."""

    person: PersonRecord


class PeopleResponse(msgspec.Struct):
    """A page of people."""

    people: list[PersonRecord]
    next_cursor: str | None


class InvitedResponse(msgspec.Struct):
    """The invited person and the link, which is shown this once, and whether it is mailed too."""

    person: PersonRecord
    invite_url: str
    invite_expires_at: str
    mailed: bool


def record(member: Member, *, mail_refused: bool = False) -> PersonRecord:
    """Returns the API record of the person; `mail_refused` if their mail server refuses mail."""
    return PersonRecord(
        id=member.id,
        email=member.email,
        username=member.username,
        first_name=member.first_name,
        last_name=member.last_name,
        role=member.role,
        state=member.state,
        last_seen_at=wire_time_or_none(member.last_seen_at),
        mail_refused=mail_refused,
    )


async def _response(tx: Tx, call: ApiCall, member: Member) -> PersonResponse:
    refusing = await receivers.refusing(tx, call.actor.org, [member.id])
    return PersonResponse(record(member, mail_refused=bool(refusing)))


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /app/people` with the people, newest first."""
    query: PageQuery = call.query
    key: list[Any] | None = call.page_start()
    after = (from_ms(int(key[0])), PersonId(int(key[1]))) if key else None
    rows_found = await rows.find(tx, call.actor.org, after=after, limit=query.limit + 1)
    page = rows_found[: query.limit]
    more = None
    if len(rows_found) > len(page):
        more = call.next_cursor([ms(page[-1].added_at), page[-1].id])
    refusing = await receivers.refusing(tx, call.actor.org, [member.id for member in page])
    return PeopleResponse([record(member, mail_refused=member.id in refusing) for member in page], more)


async def invite(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /app/people` with a link valid for seven days, mailed if a mail server is set."""
    body: InviteBody = call.body
    command = InvitePerson(body.email, body.role, body.first_name or "", body.last_name or "")
    return await _invited(tx, call, await invitations.invite(tx, call.actor, command))


async def invite_again(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /app/people/{userId}/invite-again` with a new link. The old link ends."""
    return await _invited(tx, call, await invitations.invite_again(tx, call.actor, _person(call)))


async def _invited(tx: Tx, call: ApiCall, invited: IssuedInvitation) -> InvitedResponse:
    rules = call.context.rules
    url = invitations.link(rules.web_origin, invited.token)
    is_mailed = rules.mail and await invitations.may_mail(tx, call.actor.org)
    if is_mailed:
        await account_mails.send_invitation(tx, call.context.vault, call.actor, invited, url=url)
    return InvitedResponse(record(invited.member), url, wire_time(invited.expires_at), is_mailed)


async def change_role(tx: Tx, call: ApiCall) -> Response:
    """Handles `PATCH /app/people/{userId}`."""
    body: RoleBody = call.body
    return await _response(tx, call, await members.change_role(tx, call.actor, _person(call), role=body.role))


async def deactivate(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/people/{userId}/deactivate`. Deactivates the person in this organization only."""
    return await _response(tx, call, await members.deactivate(tx, call.actor, _person(call)))


async def activate(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/people/{userId}/activate`."""
    return await _response(tx, call, await members.activate(tx, call.actor, _person(call)))


async def mail_again(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/people/{userId}/mail-again`: resumes mail to a person whose server refused it.

    For one's own mail, an accepted test mail has the same effect.
    """
    person = _person(call)
    member = await rows.get(tx, call.actor.org, person)
    if member is None:
        raise NotFound
    await receivers.forget_refusals(tx, call.actor.org, [person])
    return await _response(tx, call, member)


async def prepare_password(call: ApiCall) -> PasswordRenewal:
    """Compares the current password and hashes the new one, in threads."""
    context, body = call.context, call.body
    return await own_password.prepare(
        context.engine,
        context.clock.now(),
        context.hashing,
        session=require_session(call).session,
        current=body.current_password,
        new=body.new_password,
        max_attempts=context.rules.limit_login,
    )


async def change_password(tx: Tx, call: ApiCall) -> ResponseWithHeaders:
    """Handles `POST /app/password`. Ends the person's other sessions; this one gets a new cookie."""
    renewed: PasswordRenewal = call.prepared
    return response_with_session(call, await own_password.change(tx, require_session(call).session, renewed))


async def count_acceptance(value: Any, client: Client, context: ServiceContext) -> None:
    """Counts an acceptance like a sign-in from its address."""
    now = context.clock.now()
    keys: dict[AttemptKind, str] = {"sign_in_address": client.address}
    await attempts.count(context.engine, now, keys, limit=context.rules.limit_login)


async def prepare_acceptance(call: ApiCall) -> PreparedAcceptance:
    """Looks up the link; compares the password of an account or hashes that of a new one."""
    context, body = call.context, call.body
    return await invitations.prepare_acceptance(
        context.engine,
        context.clock.now(),
        context.hashing,
        AcceptInvitation(body.token, body.password, body.first_name, body.last_name),
        max_attempts=context.rules.limit_login,
    )


async def accept(tx: Tx, call: ApiCall) -> ResponseWithHeaders:
    """Handles `POST /app/invitations/accept`. Signs the person in, in the organization of the invitation."""
    accepting: PreparedAcceptance = call.prepared
    opened = await invitations.accept(tx, accepting, address=call.client.address, agent=call.client.agent)
    return response_with_session(call, opened)


def _person(call: ApiCall) -> PersonId:
    return PersonId(int(call.ids["user_id"]))


OPERATIONS = (
    Operation(
        name="people.list",
        method="GET",
        path="/app/people",
        access=Access.APP,
        role=Role.MEMBER,
        function=find,
        query=PageQuery,
        response=PeopleResponse,
        summary="List people",
    ),
    Operation(
        name="people.invite",
        method="POST",
        path="/app/people",
        access=Access.APP,
        role=Role.OWNER,
        function=invite,
        body=InviteBody,
        response=InvitedResponse,
        summary="Invite a person",
        status=201,
        writes=True,
        wakes=("deliver_email",),
    ),
    Operation(
        name="people.invite_again",
        method="POST",
        path="/app/people/{user_id}/invite-again",
        access=Access.APP,
        role=Role.OWNER,
        function=invite_again,
        response=InvitedResponse,
        summary="Make a new link for an invited person",
        refusals=(WrongState,),
        writes=True,
        wakes=("deliver_email",),
    ),
    Operation(
        name="people.update",
        method="PATCH",
        path="/app/people/{user_id}",
        access=Access.APP,
        role=Role.OWNER,
        function=change_role,
        body=RoleBody,
        response=PersonResponse,
        summary="Change a person's role",
        refusals=(WrongState,),
        writes=True,
    ),
    Operation(
        name="people.mail_again",
        method="POST",
        path="/app/people/{user_id}/mail-again",
        access=Access.APP,
        role=Role.OWNER,
        function=mail_again,
        response=PersonResponse,
        summary="Send mail again to a person whose mail was refused",
        writes=True,
    ),
    Operation(
        name="people.deactivate",
        method="POST",
        path="/app/people/{user_id}/deactivate",
        access=Access.APP,
        role=Role.OWNER,
        function=deactivate,
        response=PersonResponse,
        summary="End a person's membership",
        refusals=(WrongState,),
        writes=True,
    ),
    Operation(
        name="people.activate",
        method="POST",
        path="/app/people/{user_id}/activate",
        access=Access.APP,
        role=Role.OWNER,
        function=activate,
        response=PersonResponse,
        summary="Restore a person's membership",
        refusals=(WrongState,),
        writes=True,
    ),
    Operation(
        name="password.change",
        method="POST",
        path="/app/password",
        access=Access.SESSION,
        prepare=prepare_password,
        function=change_password,
        body=PasswordBody,
        body_limit=16 * 1024,
        body_values=1_000,
        response=SessionResponse,
        summary="Change one's own password",
        writes=True,
    ),
    Operation(
        name="invitations.accept",
        method="POST",
        path="/app/invitations/accept",
        access=Access.PUBLIC,
        attempt=count_acceptance,
        prepare=prepare_acceptance,
        function=accept,
        body=AcceptBody,
        body_limit=16 * 1024,
        body_values=1_000,
        response=SessionResponse,
        summary="Accept an invitation",
        writes=True,
    ),
)
