"""The interface of a connector: facts, reads, write operations and checks.

writing.py has the interface that sends writes. `docs/design/connectors.md#interface` describes both.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from steward.connectors.base.deliveries import EventSource, TopicSpec
from steward.connectors.base.options import Options
from steward.connectors.base.queries import (
    ReadOp,
    RecordPage,
)
from steward.connectors.base.settings import ConnectionSecrets, ConnectionSettings
from steward.connectors.base.writing import WriteOutcome, Writer
from steward.model.change import Action, Part, Proposal, Recovery
from steward.model.connection import Auth
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import Inverse, LookUpResult
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import (
    CallError,
)
from steward.telemetry.redact import Secret

A = TypeVar("A", contravariant=True)
P = TypeVar("P")
I = TypeVar("I")  # noqa: E741


class ConnectionKind(StrEnum):
    """The kind of a connection: a store that automations run on, or an account."""

    STORE = "store"
    ACCOUNT = "account"


class Receivable(StrEnum):
    """A kind of content that a step can send to a connection."""

    MESSAGE = "message"
    TABLE = "table"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a connector; steps, templates and forms choose connections by them.

    `receives` are the kinds of content that a step can send to it. With `sign_in`, a person can sign in
    instead of entering a key.
    """

    reads: bool = False
    writes: bool = False
    receives: frozenset[Receivable] = frozenset()
    sends_events: bool = False
    sign_in: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """Constants of a connector, checked when it is loaded.

    `sign_in_scopes` are the scopes that a person who signs in is asked for; `sign_in_provider` is the
    provider where the operator's app is registered. With `sign_in_schema`, people use an app of their own;
    it is the schema of the form that describes the app.
    """

    id: str
    title: str
    kind: ConnectionKind
    auth: tuple[Auth, ...]
    rate_limit: RateLimit
    timeouts: Timeouts
    settings_schema: JsonObject
    capabilities: Capabilities
    versions: tuple[str, ...] = ()
    sign_in_scopes: str = ""
    sign_in_provider: str = ""
    sign_in_schema: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class HealthWarning:
    """A finding of a check that does not stop the connection."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class AccountResource:
    """A channel, location, spreadsheet or tab of an account."""

    id: str
    name: str
    active: bool = True


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a check; `ok` false always comes with `error`."""

    ok: bool
    account_label: str | None = None
    name: str | None = None
    domain: str | None = None
    zone: str | None = None
    currency: str | None = None
    channels: tuple[AccountResource, ...] = ()
    locations: tuple[AccountResource, ...] = ()
    rights: tuple[str, ...] = ()
    missing_rights: tuple[str, ...] = ()
    version: str | None = None
    warnings: tuple[HealthWarning, ...] = ()
    error: CallError | None = None
    error_field: str | None = None
    facts: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Destination:
    """A channel, spreadsheet, tab or folder of an account that a step can name."""

    id: str
    kind: str
    name: str
    parent: str | None = None
    writable: bool = True


class Guard(StrEnum):
    """How a change since the value was read is detected."""

    COMPARE_AND_SWAP = "compare_and_swap"
    REREAD = "reread"


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """The reason why one object cannot be changed; `item` is the platform's id of the object."""

    item: str
    code: str
    message: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """The result of `plan`: changes in the order of the commands, problems, and ids of unchanged objects."""

    proposals: tuple[Proposal, ...]
    problems: tuple[ItemProblem, ...]
    unchanged: tuple[str, ...] = ()


class WriteOperation(Protocol[A]):
    """An operation that plans changes.

    Its functions are pure: no I/O, no clock (`docs/design/connectors.md#change-operations`).
    """

    @property
    def name(self) -> str:
        """A stable name that plans, imports and tests use."""
        ...

    @property
    def action(self) -> Action:
        """The action that is shown for changes of this operation."""
        ...

    @property
    def recovery(self) -> Recovery:
        """The idempotency class of the operation; of several classes the weakest."""
        ...

    def recovery_of(self, part: Part) -> Recovery:
        """Returns the idempotency class of one part: appended rows with a key column are marked."""
        ...

    @property
    def guard(self) -> Guard:
        """How a change since the value was read is detected."""
        ...

    def plan(self, commands: Sequence[A], *, integration_id: IntegrationId) -> PlannedChanges:
        """Returns the changes of the commands; reports bad values per object and drops unchanged objects.

        Deterministic: the same commands give the same proposals in the same order. Never raises for a
        value.
        """
        ...

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """Returns the value after the write, for test runs, and the paths that cannot be predicted."""
        ...

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Groups `parts`, all of this operation, into requests; keeps their order."""
        ...

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Returns whether two values are equal: money by decimal value, tags as sets, text exactly."""
        ...

    def inverse(self, part: Part) -> Inverse:
        """Returns the inverse of a part, or why there is none; called when a change is proposed."""
        ...

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Splits a value of a part (before, after or as read) into the single values it consists of.

        The names are the same for each value of the part. Parts of one connection that share a name set the
        same value; `same` compares two values of one name.
        """
        ...


# An operation chosen by its name: only the code that creates its command knows the command's type.
AnyWriteOperation: TypeAlias = WriteOperation[Any]


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """The current value of a part's object; `is_gone` when the object no longer exists.

    `modified_at` is the object's own time, which shows whether it was changed after a write.
    """

    part: Part
    value: JsonValue
    is_gone: bool = False
    modified_at: datetime | None = None


class Reader(Protocol):
    """Reads of one connection; it cannot send anything else."""

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Yields pages in the order of ids. Raises CallError; a page that cannot be read fails the run."""
        ...

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Returns the current values before a write, in the order of `parts`. Raises CallError."""
        ...

    async def confirm(self, part: Part) -> WriteOutcome:
        """Reconciles an unknown write: applied = as expected, not_sent = as before, else conflict.

        The outcome stays unknown for operations that cannot be read back and while the account does not
        respond.
        """
        ...

    async def find_marker(self, part: Part, key: str) -> bool:
        """Returns whether the marker of a `marked` part with the write key `key` exists. Raises CallError."""
        ...

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Looks up the inverse of each part whose inverse is `NeedsLookUp`, in the order of the undo.

        With `is_overwritten`, a newer part of the same run is undone before, so that the current value
        differs. Returns the parts of each inverse, or the reason why there are none. Raises CallError.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwnApp:
    """A person's own app at an OAuth 2 server, as described in the form of a sign-in."""

    client_id: str
    client_secret: Secret
    authorize_url: str
    token_url: str
    scope: str
    has_basic_auth: bool


@runtime_checkable
class SignsInWithOwnApp(Protocol):
    """A connector whose accounts people sign in to with an app of their own."""

    def own_app(self, form: JsonObject) -> OwnApp:
        """Returns the app described in the form. Raises BadSettings."""
        ...

    def signed_in(
        self, form: JsonObject, *, access_token: Secret, refresh_token: Secret | None
    ) -> ConnectionSettings:
        """Returns the settings after a sign-in; without a refresh token the access token does not expire."""
        ...


@runtime_checkable
class IssuesKeys(Protocol):
    """A connector whose shops issue keys to Steward on a page of their own."""

    def no_keys_reason(self, origin: str) -> str | None:
        """Returns why a shop cannot send keys to a web app at this origin, in words; null when it can."""
        ...

    def key_page(self, form: JsonObject, *, state: str, return_url: str, callback_url: str) -> str:
        """Returns the address of the shop's page where its owner grants the keys. Raises BadSettings."""
        ...

    def issued_settings(self, form: JsonObject, delivery: JsonObject) -> JsonObject:
        """Returns the settings form with the keys that the shop delivered. Raises BadSettings."""
        ...


class Connector(Protocol):
    """The interface to a platform."""

    title: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        ...

    @property
    def facts(self) -> ConnectorFacts:
        """The connector's constants."""
        ...

    @property
    def reads(self) -> Mapping[str, ReadOp[Any, Any]]:
        """Its queries by name."""
        ...

    @property
    def writes(self) -> Mapping[str, AnyWriteOperation]:
        """Its write operations by name."""
        ...

    @property
    def topics(self) -> Mapping[str, TopicSpec]:
        """Canonical topic → how the platform reports it; empty without events."""
        ...

    @property
    def events(self) -> EventSource | None:
        """The source of subscriptions and deliveries; null for a platform without events."""
        ...

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates the connection form. Raises BadSettings."""
        ...

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint of this connection's calls.

        Raises BadSettings when its settings are no longer usable.
        """
        ...

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> Reader:
        """Returns a reader with a client that only sends reads."""
        ...

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> Writer:
        """Returns a writer; only runs/writes/apply.py can create its client."""
        ...

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Checks whether the connection works and which rights it has; never raises CallError."""
        ...

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Lists spreadsheets, tabs or channels; empty if the platform has none. Raises CallError."""
        ...


def merge_proposals(proposals: Sequence[Proposal], *, action: Action, message: str | None = None) -> Proposal:
    """Merges the proposals of several operations for one object into one change; keeps the order of parts.

    Raises ValueError when they are not for one object and connection.
    """
    first = proposals[0]
    if any(
        (proposal.object, proposal.integration_id) != (first.object, first.integration_id)
        for proposal in proposals
    ):
        raise ValueError("only changes of one object can stand together")
    return Proposal(
        object=first.object,
        action=action,
        fields=tuple(field for proposal in proposals for field in proposal.fields),
        parts=tuple(part for proposal in proposals for part in proposal.parts),
        integration_id=first.integration_id,
        message=message or first.message,
    )
