"""Connecting a shop with keys that its own page issues; only the web app can."""

from typing import Annotated, Any

import msgspec
from pydantic import Field

from steward.api.app.connections import vault_of
from steward.api.app.session import require_session
from steward.api.http import envelope
from steward.api.http.body import read_bytes
from steward.api.http.context import AppContext
from steward.api.http.operation import (
    Access,
    ApiCall,
    EmptyResponse,
    Operation,
    RawOperation,
    RawRequest,
    Reply,
    Response,
)
from steward.api.schema.fields import NameText, RequestBody, Text
from steward.connections import issued_keys
from steward.connections.issued_keys import CALLBACK, KeyDelivery, ShopChoice
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.ids import IntegrationId
from steward.model.refusals import Malformed, WrongState

_MAX_BYTES = 4096


class ShopSignInBody(RequestBody):
    """The shop's address and the connection's name; `integration_id` reconnects that connection."""

    url: Annotated[Text, Field(min_length=1, max_length=500)]
    name: Annotated[NameText, Field(max_length=120)]
    integration_id: Annotated[int, Field(ge=1, le=9_007_199_254_740_991)] | None = None


class KeyPageResponse(msgspec.Struct):
    """The address of the shop's own page, to which the browser goes."""

    authorize_url: str


async def begin(tx: Tx, call: ApiCall) -> Response:
    """Responds to `POST /app/connections/woocommerce/authorize` with the page where the shop issues keys."""
    body: ShopSignInBody = call.body
    number = None if body.integration_id is None else IntegrationId(body.integration_id)
    address = await issued_keys.begin(
        tx,
        call.actor,
        ShopChoice(body.url, body.name, number),
        session_hash=require_session(call).session.session_hash,
        web_origin=call.context.rules.web_origin,
        vault=vault_of(call),
    )
    return KeyPageResponse(address)


async def deliver(raw_request: RawRequest, context: AppContext) -> Reply:
    """Handles `POST /app/connections/woocommerce/callback/{key_state}`, which carries the shop's keys.

    Raises NotFound for a state that is not open, Malformed, TooLarge, and ValidationFailed or NotConnected
    if the shop does not accept the keys.
    """
    content = await read_bytes(raw_request.receive, _MAX_BYTES)
    try:
        delivery = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Malformed from error
    keys = KeyDelivery(context.engine, context.clock, context.vault)
    await keys.take(raw_request.values[0], delivery)
    return envelope.accept(EmptyResponse(), 200)


OPERATIONS = (
    Operation(
        name="connections.begin_key_issue",
        method="POST",
        path="/app/connections/woocommerce/authorize",
        access=Access.APP,
        role=Role.OWNER,
        function=begin,
        body=ShopSignInBody,
        response=KeyPageResponse,
        summary="Begin to connect a shop by the keys it issues",
        refusals=(WrongState,),
        writes=True,
        small=True,
    ),
)
RAW_OPERATIONS = (RawOperation("POST", f"{CALLBACK}/{{key_state}}", deliver, "Take the keys a shop issued"),)
