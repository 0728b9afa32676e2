"""What every connector offers: facts, reads, plannable changes, checks; leaves sending to writing.py."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from steward.connectors.base.deliveries import EventSource, TopicSpec
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
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, Timeouts
from steward.outbound.errors import (
    CallError,
)

A = TypeVar("A", contravariant=True)
P = TypeVar("P")
I = TypeVar("I")  # noqa: E741


class ConnectionKind(StrEnum):
    """Whether automations can run on the connection."""

    STORE = "store"
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """Constants of a connector, checked when it loads."""

    id: str
    title: str
    kind: ConnectionKind
    auth: tuple[Auth, ...]
    rate_limit: RateLimit
    timeouts: Timeouts
    settings_schema: JsonObject
    versions: tuple[str, ...] = ()
    max_event_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HealthWarning:
    """Something a check found that does not stop the connection."""

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
    """What a check found (connectors 2); `ok` false always comes with `error`."""

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
    """A place of an account that a step can name (contract 3.8)."""

    id: str
    kind: str
    name: str
    parent: str | None = None
    writable: bool = True


class Guard(StrEnum):
    """How a value changed meanwhile is noticed."""

    COMPARE_AND_SWAP = "compare_and_swap"
    REREAD = "reread"


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """Why one item cannot be changed; `item` is the platform's id of the object."""

    item: str
    code: str
    message: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """What `plan` worked out: changes in the order of the asks, problems beside them, no-ops dropped."""

    proposals: tuple[Proposal, ...]
    problems: tuple[ItemProblem, ...]
    unchanged: tuple[str, ...] = ()


class WriteOperation(Protocol[A]):
    """A change that may be planned; pure: no I/O, no clock (connectors 2.1)."""

    @property
    def name(self) -> str:
        """Stable: plans, imports and tests use it."""
        ...

    @property
    def action(self) -> Action:
        """As in contract 3.4."""
        ...

    @property
    def recovery(self) -> Recovery:
        """How an interrupted write is settled (engine 11.3); of several ways the weakest."""
        ...

    def recovery_of(self, part: Part) -> Recovery:
        """How an interrupted write of this part is settled: appended rows with a key column are marked."""
        ...

    @property
    def guard(self) -> Guard:
        """How a value changed meanwhile is noticed."""
        ...

    @property
    def reversible(self) -> bool:
        """Whether a later change can put it back."""
        ...

    def plan(self, commands: Sequence[A], *, integration_id: IntegrationId) -> PlannedChanges:
        """Refuses bad values per item, drops what is already so, makes before from what was read.

        Deterministic: the same asks give the same proposals in the same order. Never raises for a value.
        """
        ...

    def predict(self, before: JsonValue, arguments: JsonObject) -> tuple[JsonValue, tuple[str, ...]]:
        """For test runs: the value after, and the paths that cannot be foretold."""
        ...

    def group(self, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
        """Which of `parts` (all of this operation) may share one request; keeps their order."""
        ...

    def same(self, expected: JsonValue, actual: JsonValue) -> bool:
        """Equality of values: money by decimal value, tags as sets, text exactly."""
        ...


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """The value of a part's object as it is now; `gone` when it no longer exists.

    `modified_at` is the object's own time, which tells whether a write then moved it (connectors 9.5).
    """

    part: Part
    value: JsonValue
    is_gone: bool = False
    modified_at: datetime | None = None


class Reader(Protocol):
    """Reads of one connection; can emit nothing but reads."""

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Pages in the order of ids. Raises CallError; a page that cannot be read ends the run (E10)."""
        ...

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """The re-read before the write (engine 11.2 step 2), in the order of `parts`. Raises CallError."""
        ...

    async def confirm(self, part: Part) -> WriteOutcome:
        """Settles an unknown write: applied = as wanted, not_sent = as before, else conflict; unknown for
        operations that cannot be read back and while the account does not answer."""
        ...

    async def find_marker(self, part: Part, key: str) -> bool:
        """Whether the marker of a `marked` part sent under the effect `key` is found. Raises CallError."""
        ...


class Connector(Protocol):
    """One platform."""

    @property
    def facts(self) -> ConnectorFacts:
        """Constants."""
        ...

    @property
    def reads(self) -> Mapping[str, ReadOp[Any, Any]]:
        """Its reads by name."""
        ...

    @property
    def writes(self) -> Mapping[str, WriteOperation[Any]]:
        """What may be planned, by name."""
        ...

    @property
    def topics(self) -> Mapping[str, TopicSpec]:
        """Canonical topic → how the platform tells it (connectors 8); empty without events."""
        ...

    @property
    def events(self) -> EventSource | None:
        """Subscriptions and deliveries; null for a platform without events."""
        ...

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Checks the connecting form. Raises BadSettings."""
        ...

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Where this connection's calls go. Raises BadSettings when its settings are no longer usable."""
        ...

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> Reader:
        """A reader over a client that lets only reads through."""
        ...

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> Writer:
        """A writer; only runs/apply.py can make the client for it."""
        ...

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Whether the connection works and what it may do; never raises CallError."""
        ...

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Spreadsheets, tabs, channels; empty where the platform has none. Raises CallError."""
        ...


def merge_proposals(proposals: Sequence[Proposal], *, action: Action, message: str | None = None) -> Proposal:
    """One change of one object out of several operations' proposals, parts in their order (connectors 2.1).

    Raises ValueError when they are not of one object and connection.
    """
    first = proposals[0]
    if any((each.object, each.integration_id) != (first.object, first.integration_id) for each in proposals):
        raise ValueError("only changes of one object can stand together")
    return Proposal(
        object=first.object,
        action=action,
        fields=tuple(field for each in proposals for field in each.fields),
        parts=tuple(part for each in proposals for part in each.parts),
        integration_id=first.integration_id,
        reversible=all(each.reversible for each in proposals),
        message=message or first.message,
    )
