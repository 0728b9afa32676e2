"""Connecting accounts by signing in (OAuth) in the browser; only the web app can."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from pydantic import Field

from steward.api.app import issued_keys
from steward.api.app.connections import vault_of
from steward.api.app.session import require_session
from steward.api.http.operation import (
    Access,
    ApiCall,
    EmptyResponse,
    Operation,
    Response,
    ResponseWithHeaders,
)
from steward.api.schema.fields import NameText, OpenObject, PlatformText, QueryParameters, RequestBody, Text
from steward.connections import connect as connecting
from steward.connections import sign_in
from steward.connections.sign_in import SignedIn, SignInExchange, SignInFailed
from steward.connectors.base.connector import Connector
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.ids import IntegrationId
from steward.model.refusals import NotConfigured, Refusal, ValidationFailed, WrongState

PAGE = "/connections"


class AccountSignInBody(RequestBody):
    """The kind and name of the account; `integration_id` signs that connection in again.

    `settings` names the person's own app, for a kind that has a `sign_in_schema`.
    """

    kind: PlatformText
    name: Annotated[NameText, Field(max_length=120)]
    integration_id: Annotated[int, Field(ge=1, le=9_007_199_254_740_991)] | None = None
    settings: OpenObject | None = None


class SignInResponse(msgspec.Struct):
    """The address to which the browser goes."""

    authorize_url: str


class CallbackQuery(QueryParameters):
    """The parameters of the OAuth redirect; only code, state and error are read."""

    code: Text | None = None
    state: Text | None = None
    error: Text | None = None
    scope: Text | None = None
    authuser: Text | None = None
    prompt: Text | None = None
    hd: Text | None = None
    iss: Text | None = None
    error_description: Text | None = None
    error_subtype: Text | None = None
    error_uri: Text | None = None
    session_state: Text | None = None
    client_info: Text | None = None


def kinds_with_sign_in(connectors: Mapping[str, Connector]) -> tuple[str, ...]:
    """Returns the kinds that a person can connect by signing in."""
    return tuple(kind for kind, connector in connectors.items() if connector.facts.capabilities.sign_in)


async def start(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /app/connections/sign-in` with the address to sign in at."""
    body: AccountSignInBody = call.body
    kinds = kinds_with_sign_in(call.context.vault.connectors)
    if body.kind not in kinds:
        message = f"Connected by sign-in are: {', '.join(kinds)}."
        raise ValidationFailed(errors={"kind": [message]})
    number = None if body.integration_id is None else IntegrationId(body.integration_id)
    address = await sign_in.start_sign_in(
        tx,
        call.actor,
        session_hash=require_session(call).session.session_hash,
        kind=body.kind,
        name=body.name,
        integration=number,
        apps=call.context.rules.sign_in,
        form=body.settings,
        vault=vault_of(call),
    )
    return SignInResponse(address)


async def prepare_finish(call: ApiCall) -> SignedIn | str:
    """Exchanges the code outside a transaction; returns the code of a failure."""
    query: CallbackQuery = call.query
    context = call.context
    if query.state is None:
        return "state"
    exchange = SignInExchange(context.engine, context.clock, vault_of(call), context.rules.sign_in)
    code = None if query.error is not None else query.code
    session = require_session(call).session.session_hash
    try:
        return await exchange.finish(call.actor, session, state=query.state, code=code)
    except SignInFailed as failure:
        return failure.code


async def finish(tx: Tx, call: ApiCall) -> ResponseWithHeaders:
    """Responds to `GET /app/connections/sign-in/callback` with a redirect to the page of connections."""
    outcome: Any = call.prepared
    if isinstance(outcome, str):
        return _redirect(call, failed=outcome)
    signed: SignedIn = outcome
    try:
        if signed.integration is None:
            connected = await connecting.connect(
                tx, call.actor, signed.name, checked=signed.checked, vault=vault_of(call)
            )
        else:
            connected = await connecting.reconnect(
                tx, call.actor, signed.integration, checked=signed.checked, vault=vault_of(call)
            )
    except Refusal:
        return _redirect(call, failed="exchange")
    return _redirect(call, connected=str(connected.connection.integration_id))


def _redirect(call: ApiCall, **query: str) -> ResponseWithHeaders:
    target = f"{call.context.rules.web_origin}{PAGE}?{urlencode(query)}"
    return ResponseWithHeaders(EmptyResponse(), status=303, headers=((b"location", target.encode("ascii")),))


OPERATIONS = (
    Operation(
        name="connections.begin_sign_in",
        method="POST",
        path="/app/connections/sign-in",
        access=Access.APP,
        role=Role.OWNER,
        function=start,
        body=AccountSignInBody,
        response=SignInResponse,
        summary="Begin to sign in to an account",
        refusals=(NotConfigured, WrongState),
        writes=True,
        small=True,
    ),
    Operation(
        name="connections.end_sign_in",
        method="GET",
        path="/app/connections/sign-in/callback",
        access=Access.APP,
        role=Role.OWNER,
        prepare=prepare_finish,
        function=finish,
        query=CallbackQuery,
        response=EmptyResponse,
        summary="Come back from an account's sign-in page",
        status=303,
        writes=True,
        seconds=25.0,
    ),
    *issued_keys.OPERATIONS,
)
RAW_OPERATIONS = issued_keys.RAW_OPERATIONS
