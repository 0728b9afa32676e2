"""A forgotten password over HTTP: a link by mail, and the new password it sets."""

from typing import Annotated, Any

from pydantic import Field

from steward.accounts import attempts, forgotten_password
from steward.accounts.forgotten_password import PreparedReset
from steward.api.app.people import EmailText
from steward.api.http.context import ServiceContext
from steward.api.http.operation import Access, ApiCall, Client, EmptyResponse, Operation, Response
from steward.api.schema.fields import PasswordText, RequestBody, Text
from steward.database.accounts.attempt_limits import AttemptKind
from steward.database.engine.base import Tx
from steward.model.refusals import NotConfigured
from steward.notifications import account_mails

_NO_MAIL = "This installation sends no mail. Ask the operator to set a new password."


class ForgotBody(RequestBody):
    """The e-mail address of a person who forgot the password."""

    email: EmailText


class ResetBody(RequestBody):
    """The link's token and the new password."""

    token: Annotated[Text, Field(min_length=1, max_length=200)]
    new_password: PasswordText


async def count_forgotten(value: Any, client: Client, context: ServiceContext) -> None:
    """Counts a request of one source. Raises NotConfigured without a mail server, RateLimited."""
    if not context.rules.mail:
        raise NotConfigured(_NO_MAIL)
    await forgotten_password.count_request(context.engine, context.clock.now(), client.address)


async def forgot(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/password/forgot` in the same way whether or not the account exists."""
    body: ForgotBody = call.body
    link = await forgotten_password.request(tx, body.email)
    await account_mails.send_reset_link(
        tx, call.context.vault, link, web_origin=call.context.rules.web_origin
    )
    return EmptyResponse()


async def count_reset(value: Any, client: Client, context: ServiceContext) -> None:
    """Counts a new password like a sign-in from its address."""
    keys: dict[AttemptKind, str] = {"sign_in_address": client.address}
    await attempts.count(context.engine, context.clock.now(), keys, limit=context.rules.limit_login)


async def prepare_reset(call: ApiCall) -> PreparedReset:
    """Looks up the link and hashes the new password."""
    body, context = call.body, call.context
    return await forgotten_password.prepare(
        context.engine,
        context.clock.now(),
        context.hashing,
        token=body.token,
        new_password=body.new_password,
    )


async def reset(tx: Tx, call: ApiCall) -> Response:
    """Handles `POST /app/password/reset`. Ends all sessions of the person and signs nobody in."""
    done = await forgotten_password.reset(tx, call.prepared)
    if call.context.rules.mail:
        await account_mails.send_password_changed(
            tx, call.context.vault, done, web_origin=call.context.rules.web_origin
        )
    return EmptyResponse()


OPERATIONS = (
    Operation(
        name="password.forgot",
        method="POST",
        path="/app/password/forgot",
        access=Access.PUBLIC,
        attempt=count_forgotten,
        function=forgot,
        body=ForgotBody,
        body_limit=16 * 1024,
        body_values=1_000,
        response=EmptyResponse,
        summary="Ask for a link that sets a new password",
        refusals=(NotConfigured,),
        writes=True,
        wakes=("deliver_email",),
    ),
    Operation(
        name="password.reset",
        method="POST",
        path="/app/password/reset",
        access=Access.PUBLIC,
        attempt=count_reset,
        prepare=prepare_reset,
        function=reset,
        body=ResetBody,
        body_limit=16 * 1024,
        body_values=1_000,
        response=EmptyResponse,
        summary="Set a new password by a link",
        writes=True,
        wakes=("deliver_email",),
    ),
)
