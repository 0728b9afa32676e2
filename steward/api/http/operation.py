"""The types of the operations table: an endpoint and its dependencies."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeAlias

import msgspec

from steward.api.http.context import AppContext
from steward.api.http.paging import opened_cursor, sealed_cursor
from steward.api.schema.fields import EmptyBody, QueryParameters, RequestBody
from steward.database.engine.base import Tx
from steward.model.account import Actor, Role, Scope, Session
from steward.model.json import JsonValue
from steward.model.refusals import Refusal, ValidationFailed

MIB = 1024 * 1024


@dataclass(slots=True)
class ApiCall:
    """An accepted call: its caller, path values, and validated query and body.

    `session` is None for callers with a token; `client` is the origin of the request. `actor` is the caller;
    operations of Access.SESSION and Access.PUBLIC may have none and must not read it then.
    """

    operation: "Operation"
    context: AppContext
    path: str
    ids: Mapping[str, str]
    query: Any
    body: Any
    client_of: "Callable[[], Client]"
    caller: Actor | None
    session: Session | None = None
    prepared: Any = None
    size: int = 0  # bytes of the request's body, at most

    @property
    def client(self) -> "Client":
        """The origin of the request, computed when it is first needed."""
        return self.client_of()

    @property
    def actor(self) -> Actor:
        """The authenticated person in the organization. Raises LookupError without one."""
        if self.caller is None:
            raise LookupError(f"{self.operation.path} has no actor")
        return self.caller

    def page_start(self) -> list[JsonValue] | None:
        """Returns the sort key of the previous page's last row, or None on the first page.

        Raises ValidationFailed (`errors.cursor`) for a cursor of another organization, path, filter or sort.
        """
        if self.query.cursor is None:
            return None
        key = opened_cursor(self.context.keys.cursor, self._listed(), self.query.cursor)
        if key is None:
            message = "Take the cursor from the page before, with the same filters."
            raise ValidationFailed(errors={"cursor": [message]})
        return key

    def next_cursor(self, key: Sequence[JsonValue]) -> str:
        """Returns the cursor that continues after the row with this sort key."""
        return sealed_cursor(self.context.keys.cursor, self._listed(), key)

    def _listed(self) -> JsonValue:
        """Returns the list that a cursor belongs to: its organization, path and filters."""
        return [self.actor.org, self.path, self.query.model_dump(mode="json", exclude={"limit", "cursor"})]


@dataclass(frozen=True, slots=True)
class Client:
    """The origin of a request: IP address, user agent and session cookie."""

    address: str
    agent: str
    cookie: str | None


@dataclass(frozen=True, slots=True)
class ResponseWithHeaders:
    """A response with another status or more headers than its operation's, such as a replay."""

    data: msgspec.Struct
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


def replayed(response: msgspec.Struct) -> ResponseWithHeaders:
    """Returns the response to a repeated request: 200 and `Idempotent-Replayed: true`."""
    return ResponseWithHeaders(response, headers=((b"idempotent-replayed", b"true"),))


class PreparedIsStale(Exception):
    """Raised when data that `prepare` read has changed; the handler retries once, then responds with 503."""


Response: TypeAlias = msgspec.Struct | ResponseWithHeaders


class Endpoint(Protocol):
    """An endpoint: reads or writes in its transaction and returns the response's `data`."""

    def __call__(self, tx: Tx, call: ApiCall, /) -> Awaitable[Response]: ...


class CommittingEndpoint(Protocol):
    """An endpoint that commits itself: in a batch with other calls, or to log the outcome."""

    def __call__(self, call: ApiCall, /) -> Awaitable[Response]: ...


class Prepare(Protocol):
    """Work outside the database before the transaction."""

    def __call__(self, call: ApiCall, /) -> Awaitable[object]: ...


class Attempt(Protocol):
    """Counts an attempt after its body was parsed and before its fields are checked."""

    def __call__(self, value: Any, client: Client, context: AppContext, /) -> Awaitable[None]: ...


class Access(Enum):
    """The kinds of callers that may use an operation, before scopes and roles."""

    API = "api"  # a token, or a session with an organization chosen; only under /v1/automations
    APP = "app"  # a session with an organization chosen
    SESSION = "session"  # a session, organization or not
    OPTIONAL_SESSION = "optional_session"  # a session, or none
    PUBLIC = "public"  # no authentication


class EmptyResponse(msgspec.Struct):
    """A response without content: `data` is `{}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A row of the table of operations.

    `name` is `noun.verb`, the operation's id in the OpenAPI document: unique, and never changed after a
    release. `repeats` says that a call may be sent again although it has neither key nor version.

    `scope` is needed under /v1/automations, `role` (at least) under /app. A row with `writes` runs in
    `engine.write`, or, with `committing` in place of `function`, makes its write itself. `small` promises
    that it reads a few rows by key or index. `current` turns the records in a refusal's `data` into their
    public form. `wakes` names the hints the worker gets after the commit.
    """

    name: str
    method: str
    path: str
    function: Endpoint | None = None
    committing: CommittingEndpoint | None = None
    response: type[msgspec.Struct]
    summary: str
    scope: Scope | None = None
    role: Role | None = None
    access: Access = Access.API
    query: type[QueryParameters] | None = None
    body: type[RequestBody] = EmptyBody
    refusals: tuple[type[Refusal], ...] = ()
    status: int = 200
    writes: bool = False
    repeats: bool = False
    small: bool = False
    prepare: Prepare | None = None
    attempt: Attempt | None = None
    wakes: tuple[str, ...] = ()
    current: Callable[[ApiCall, Mapping[str, object]], Mapping[str, object]] | None = None
    body_limit: int = MIB
    body_values: int = 50_000
    seconds: float = 10.0
    is_small_read: bool = field(init=False)  # served in the transaction that authenticates the caller

    def __post_init__(self) -> None:
        small_read = self.small and not self.writes and self.prepare is None
        object.__setattr__(self, "is_small_read", small_read)


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request of an operation outside the envelope's rules, its body not yet read."""

    path: str
    values: tuple[str, ...]
    headers: Sequence[tuple[bytes, bytes]]
    query_string: bytes
    address: str
    receive: Callable[[], Awaitable[Mapping[str, Any]]]
    request_id: str

    def header(self, name: bytes) -> str | None:
        """Returns the header `name` (lower case), or None; several are joined by commas."""
        values = [value for key, value in self.headers if key == name]
        return b", ".join(values).decode("latin-1") if values else None


@dataclass(slots=True)  # creating a frozen one takes twice as long
class Reply:
    """A response as it is sent."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    has_own_headers: bool = False  # otherwise the headers of a JSON response are added


class RawEndpoint(Protocol):
    """An endpoint outside the envelope's rules (login, health, store events)."""

    def __call__(self, raw_request: RawRequest, context: AppContext, /) -> Awaitable[Reply]: ...


@dataclass(frozen=True, slots=True)
class RawOperation:
    """A row without caller, scope or limits: its function does everything, refusals still get an envelope."""

    method: str
    path: str
    function: RawEndpoint
    summary: str
