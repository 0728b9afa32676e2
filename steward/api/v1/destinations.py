"""Destinations of a connection over HTTP: where a step can write."""

import hashlib
from typing import Annotated

import msgspec
from pydantic import Field

from steward.api.http.operation import ApiCall, Operation, Response
from steward.api.schema.fields import PageQuery, QueryInt, SearchText, Text
from steward.api.schema.responses import Cursor, DestinationKindStr
from steward.connections.destinations import DestinationReader
from steward.connectors.base.connector import Destination
from steward.database.engine.base import Tx
from steward.model.account import Scope
from steward.model.ids import IntegrationId
from steward.model.refusals import NotConnected

# A cursor has at most 512 characters, so it holds only the first characters of a name.
_NAME_IN_CURSOR = 40


class DestinationsQuery(PageQuery):
    """Query parameters: the connection, the parent and a part of the name."""

    integration_id: QueryInt
    q: SearchText | None = None
    parent: Annotated[Text, Field(max_length=256)] | None = None


class TargetRecord(msgspec.Struct):
    """The spreadsheet and sheet a step writes to."""

    spreadsheet_id: str | None
    sheet: str | None


class DestinationRecord(msgspec.Struct):
    """A spreadsheet, tab, channel or folder a step can write to."""

    id: str
    kind: DestinationKindStr
    name: str
    parent: str | None
    writable: bool
    target: TargetRecord | None


class DestinationsResponse(msgspec.Struct):
    """A page of destinations."""

    destinations: list[DestinationRecord]
    next_cursor: Cursor | None


async def prepare(call: ApiCall) -> tuple[Destination, ...]:
    """Checks the cursor, then reads the destinations from the account, outside of a transaction."""
    query: DestinationsQuery = call.query
    call.page_start()
    context = call.context
    account = DestinationReader(context.engine, context.clock, context.vault, context.destinations)
    return await account.destinations(
        call.actor.org, IntegrationId(query.integration_id), parent=query.parent
    )


async def find(tx: Tx, call: ApiCall) -> Response:
    """Responds to `GET /v1/automations/destinations` with the destinations by name."""
    query: DestinationsQuery = call.query
    last = call.page_start()
    read: tuple[Destination, ...] = call.prepared
    search_text = query.q.casefold() if query.q else ""
    matching = sorted(
        (destination for destination in read if search_text in destination.name.casefold()), key=_sort_key
    )
    if last is not None:
        matching = [
            destination
            for destination in matching
            if _sort_key(destination) > tuple(str(part) for part in last)
        ]
    page = matching[: query.limit]
    more = call.next_cursor(_sort_key(page[-1])) if len(matching) > len(page) else None
    return DestinationsResponse([record(destination) for destination in page], more)


def record(destination: Destination) -> DestinationRecord:
    """Returns the API record of the destination."""
    target = None
    if destination.kind == "spreadsheet":
        target = TargetRecord(destination.id, None)
    elif destination.kind == "tab":
        target = TargetRecord(destination.parent, destination.id)
    return DestinationRecord(
        id=destination.id,
        kind=destination.kind,
        name=destination.name,
        parent=destination.parent,
        writable=destination.writable,
        target=target,
    )


def _sort_key(destination: Destination) -> tuple[str, str]:
    """Returns a destination's sort key: its name, then its id."""
    identity = f"{destination.kind}/{destination.parent}/{destination.id}"
    digest = hashlib.sha256(identity.encode("utf-8")).hexdigest()[:16]
    return destination.name.casefold()[:_NAME_IN_CURSOR], digest


OPERATIONS = (
    Operation(
        name="destinations.list",
        method="GET",
        path="/v1/automations/destinations",
        scope=Scope.READ,
        prepare=prepare,
        function=find,
        query=DestinationsQuery,
        response=DestinationsResponse,
        summary="List destinations",
        refusals=(NotConnected,),
        seconds=15.0,
    ),
)
