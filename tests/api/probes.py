"""Operations that exist only in tests and exercise the request handler's rules apart from any endpoint."""

from typing import Annotated, Any

import msgspec
from pydantic import Field

from steward.api.http.operation import (
    Access,
    ApiCall,
    EmptyResponse,
    Operation,
    PreparedIsStale,
    ResponseWithHeaders,
    replayed,
)
from steward.api.schema.fields import (
    CommaList,
    CommentText,
    Flag,
    IdempotencyKey,
    IdText,
    Int64,
    NameText,
    Number,
    OpenObject,
    PageQuery,
    QueryFlag,
    QueryInt,
    RequestBody,
    Text,
    Timestamp,
    Unique,
)
from steward.database.engine.base import Tx
from steward.model.account import Role, Scope
from steward.model.instants import wire_time
from steward.model.refusals import StaleVersion, WrongState

READ, WRITE, APPROVE = Scope.READ, Scope.WRITE, Scope.APPROVE


class Echo(msgspec.Struct):
    """Returns to the caller what the operation received."""

    echo: Any


class Inner(RequestBody):
    """Is a typed object inside a body."""

    kind: Text
    count: Int64 | None = None


class EchoBody(RequestBody):
    """Has one field of every type that bodies use."""

    whole: Int64 | None = None
    number: Number | None = None
    flag: Flag | None = None
    text: Text | None = None
    name: NameText | None = None
    comment: CommentText | None = None
    id: IdText | None = None
    at: Timestamp | None = None
    key: IdempotencyKey | None = None
    inputs: OpenObject | None = None
    inner: Inner | None = None
    items: Annotated[list[Inner], Field(max_length=2)] | None = None
    days: Annotated[list[Annotated[Int64, Field(ge=1, le=7)]], Field(max_length=7), Unique] | None = None


class EchoQuery(PageQuery):
    """Has one parameter of every type that queries use."""

    number: QueryInt | None = None
    flag: QueryFlag | None = None
    words: Annotated[list[str], CommaList] | None = None
    at: Timestamp | None = None


async def read(tx: Tx, call: ApiCall) -> Echo:
    """Answers the query, the ids of the path, the position the page starts after and a next cursor."""
    query = call.query.model_dump(mode="json", exclude_none=True)
    return Echo(
        {"query": query, "after": call.page_start(), "next": call.next_cursor(["ä", 5]), "ids": call.ids}
    )


async def write(tx: Tx, call: ApiCall) -> Echo:
    """Answers the body of the request."""
    body = call.body.model_dump(exclude_none=True)
    if "at" in body:
        body["at"] = wire_time(body["at"])
    return Echo(body)


async def replay(tx: Tx, call: ApiCall) -> ResponseWithHeaders:
    """Answers an empty object with the header of a replayed request."""
    return replayed(EmptyResponse())


async def stale(tx: Tx, call: ApiCall) -> EmptyResponse:
    """Raises StaleVersion with data for the operation's `current` to convert."""
    raise StaleVersion(data={"occurrence": None, "automation": tx.now})


async def break_down(tx: Tx, call: ApiCall) -> EmptyResponse:
    """Raises an unexpected error, as a bug would."""
    raise ZeroDivisionError("the secret of the bug")


async def refuse(tx: Tx, call: ApiCall) -> EmptyResponse:
    """Raises WrongState."""
    raise WrongState


async def prepare(call: ApiCall) -> int:
    """Computes a value before the transaction."""
    call.context.wake("prepared")
    return 42


async def prepared(tx: Tx, call: ApiCall) -> Echo:
    """Answers the value that `prepare` computed."""
    return Echo(call.prepared)


async def outdated(tx: Tx, call: ApiCall) -> Echo:
    """Raises PreparedIsStale each time it is called."""
    raise PreparedIsStale


async def linger(call: ApiCall) -> None:
    """Sleeps for an hour, which is longer than the operation may take."""
    await call.context.clock.sleep(3600)


def _row(method: str, name: str, function: Any, **more: Any) -> Operation:
    more = {"scope": READ if method == "GET" else WRITE, "response": Echo, **more}
    return Operation(
        name=f"probes.{method}_{name}",
        method=method,
        path=f"/v1/automations/probe/{name}",
        function=function,
        summary=name,
        **more,
    )


PROBES = [
    _row("GET", "small", read, query=EchoQuery, small=True),
    _row("GET", "far", read, query=EchoQuery),
    _row("GET", "named/{probe_id}", read, query=EchoQuery, small=True),
    _row("GET", "templates/{template_id}", read, query=EchoQuery, small=True),
    _row("POST", "echo", write, body=EchoBody, writes=True, status=201),
    _row("POST", "named/{probe_id}", write, body=EchoBody, writes=True),
    _row("POST", "few", write, body=EchoBody, body_values=10, body_limit=300),
    _row("POST", "empty", replay, response=EmptyResponse, writes=True),
    _row(
        "POST",
        "stale",
        stale,
        response=EmptyResponse,
        writes=True,
        current=lambda call, data: {**data, "automation": wire_time(data["automation"])},
    ),
    _row("POST", "bug", break_down, response=EmptyResponse, writes=True),
    _row("GET", "bug", break_down, response=EmptyResponse, small=True),
    _row("POST", "refuse", refuse, response=EmptyResponse, writes=True, wakes=("ready",)),
    _row("POST", "wake", replay, response=EmptyResponse, writes=True, wakes=("ready",)),
    _row("POST", "prepared", prepared, prepare=prepare),
    _row("POST", "outdated", outdated, prepare=prepare),
    _row("POST", "slow", prepared, prepare=linger, seconds=0.01),
    _row("POST", "approve/{approval_id}", replay, response=EmptyResponse, scope=APPROVE, writes=True),
    Operation(
        name="probes.own",
        method="POST",
        path="/app/probe",
        access=Access.APP,
        role=Role.OWNER,
        function=replay,
        response=EmptyResponse,
        summary="An owner's operation",
        writes=True,
    ),
]
