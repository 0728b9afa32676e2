"""The interface of a step: what it receives and returns, and the codec of its output.

A step reads earlier steps' outputs from JSON: a run that another worker continues after a crash has
nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

import msgspec

from steward.connectors.base.connector import AnyWriteOperation, PlannedChanges, Reader
from steward.model.change import Outcome, Proposal
from steward.model.connection import Connection
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.run import Counts, Mode
from steward.model.undo import UndoSource
from steward.outbound.web import WebReadClient

S = TypeVar("S")
R = TypeVar("R", bound="JsonRecord")


class StepFailed(Exception):
    """The step cannot be done: a code beside the run's `step_failed`, and plain words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class TooManyChanges(StepFailed):
    """The step found more changes than the automation's `limit`, so it proposes none.

    The only failure of a step whose code is also the run's own code.
    """

    def __init__(self, changes: int, limit: int) -> None:
        super().__init__(
            "too_many_changes",
            f"{changes} changes were found, more than the limit of {limit}. Nothing was changed. "
            "Check the reason, then raise the limit if they are wanted.",
        )
        self.changes = changes


class RecordTable(ABC, Generic[S]):
    """Store records in a step's output: a compact JSON table that names its fields once.

    Iterating decodes the records, in the table's order.
    """

    __slots__ = ("json",)

    def __init__(self, records: Iterable[S] = ()) -> None:
        self.json: JsonObject = self.encode(records)

    @classmethod
    def from_json(cls, table: JsonObject) -> Self:
        """Wraps a table of an earlier step without decoding it."""
        records = cls.__new__(cls)
        records.json = table
        return records

    def __iter__(self) -> Iterator[S]:
        return iter(self.decode(self.json))

    @staticmethod
    @abstractmethod
    def encode(records: Iterable[S]) -> JsonObject:
        """Returns the records as a table."""

    @staticmethod
    @abstractmethod
    def decode(table: JsonObject) -> Iterable[S]:
        """Returns the records of a table."""


class JsonRecord(msgspec.Struct, frozen=True):
    """A typed view of a JSON object: an automation's inputs, a step's output, a remembered value."""

    def to_json(self) -> JsonObject:
        """Returns the record as plain JSON."""
        json: JsonObject = plain_json(self)
        return json

    @classmethod
    def from_json(cls, value: JsonValue) -> Self:
        """Reads the record from JSON that passed a schema or that `to_json` wrote; ignores other fields."""
        return msgspec.convert(value, cls, dec_hook=_decode)


class StepOutput(JsonRecord, frozen=True):
    """The output of a step, for the steps after it and the run's summary."""

    def as_result(
        self,
        title: str | None = None,
        *,
        read: int = 0,
        matched: int = 0,
        message: str | None = None,
        proposals: Iterable[Proposal] = (),
        memory: Iterable["MemoryWrite"] = (),
    ) -> "StepResult":
        """Returns the step's result with this output; `title` replaces the plan's title of the step."""
        return StepResult(
            self.to_json(),
            counts=Counts(read=read, matched=matched),
            title=title,
            message=message,
            proposals=tuple(proposals),
            memory=tuple(memory),
        )


def plain_json(value: object) -> AnyJson:
    """Returns plain JSON of values that may hold records."""
    # Through its text, so that tuples become lists: a step's output is refused otherwise.
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_encode))


def _encode(value: object) -> JsonValue:
    if isinstance(value, RecordTable):
        return value.json
    raise NotImplementedError(f"a step's output cannot hold a {type(value).__name__}")


def _decode(kind: type[RecordTable[S]], value: JsonObject) -> RecordTable[S]:
    return kind.from_json(value)


@dataclass(frozen=True, slots=True)
class AccountAccess:
    """An open connection: its facts, its reads, and the changes that may be planned on it; no writer."""

    connection: Connection
    reader: Reader
    changes: Mapping[str, AnyWriteOperation]

    def plan(self, operation: str, commands: Sequence[object]) -> PlannedChanges:
        """Plans changes of this connection, in the order of the commands."""
        return self.changes[operation].plan(commands, integration_id=self.connection.integration_id)


@dataclass(frozen=True, slots=True)
class StoreAccess(AccountAccess):
    """The store an automation runs on."""

    @property
    def platform(self) -> str:
        """The store's connector id."""
        return self.connection.kind


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """The event that started a run, as a pointer to what the run reads again.

    `object_id` is the platform's id of the object as its reads give it; for a variation `parent_id` is its
    product's. `payload` is what the store sent; only imported workflows receive it.
    """

    topic: str
    object_type: str
    object_id: str
    parent_id: str | None = None
    id: str = ""
    occurred_at: datetime | None = None
    received_at: datetime | None = None
    payload: JsonObject | None = None


class Memory(Protocol):
    """The automation's memory as it was when the step began; test runs read it as well."""

    async def all(self, space: str) -> Mapping[str, JsonValue]:
        """Returns everything remembered in one space."""
        ...

    async def of(self, automation: AutomationId, space: str) -> Mapping[str, JsonValue]:
        """Returns what another automation of the organization remembers in a space."""
        ...

    async def of_template(self, template_id: str, space: str) -> Mapping[str, JsonValue]:
        """Returns what all automations of a template remember; the latest value of each key."""
        ...


class FileRefused(Exception):
    """A file cannot be kept or is no longer there: plain words."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RunFiles(Protocol):
    """The files of a run's items, by the SHA-256 of their content."""

    async def put(self, content: bytes) -> str:
        """Stores a file durably and returns its hash. Raises FileRefused past a limit."""
        ...

    async def get(self, sha256: str) -> bytes:
        """Returns the content of a file of this run. Raises FileRefused for one that is not there."""
        ...


@dataclass(frozen=True, slots=True)
class StepContext:
    """Everything a step may see. `day` is the run's nominal local date.

    `accounts` holds the connections the inputs name and the automation's own `connections`, all connected
    when the run started; `reads` are the latter in their order. `outputs` is keyed by step name.
    """

    org: OrgId
    run_id: RunId
    automation_id: AutomationId
    mode: Mode
    inputs: JsonObject
    zone: str
    now: datetime
    day: date
    event: StoreEvent | None
    store: StoreAccess | None
    accounts: Mapping[IntegrationId, AccountAccess]
    outputs: Mapping[str, JsonValue]
    memory: Memory
    web: WebReadClient | None = None  # of imported workflows: addresses that are no connection
    reads: tuple[IntegrationId, ...] = ()
    automation_created_at: datetime | None = None
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)  # of earlier steps' proposals
    undo: UndoSource | None = None  # of an undo run

    @property
    def home(self) -> StoreAccess:
        """The store the automation runs on. Raises ValueError for an automation without one."""
        if self.store is None:
            raise ValueError("this automation runs on no store")
        return self.store

    def output(self, step: str, kind: type[R]) -> R:
        """Returns the output of an earlier step."""
        return kind.from_json(self.outputs[step])

    def memory_key(self, object_id: str) -> str:
        """Returns the key under which something about the store's object is remembered."""
        return f"{self.home.connection.integration_id}:{object_id}"

    def applied(self, step: str) -> list[bool]:
        """Returns for each change of an earlier step whether it was applied; in a test run, would be."""
        applied = (Outcome.APPLIED, *((Outcome.REFUSED_TEST,) if self.mode is Mode.TEST else ()))
        return [outcome in applied for outcome in self.outcomes.get(step, ())]

    def check_limit(self, changes: int) -> None:
        """Raises TooManyChanges when there are more `changes` than the input `limit`."""
        limit = self.inputs["limit"]
        if isinstance(limit, int) and changes > limit:
            raise TooManyChanges(changes, limit)


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """A value to remember; null forgets it. Key ≤ 200 characters, value ≤ 4 KiB of JSON.

    With a position, it is written once the step's proposal at that position (0 = first) has one of
    `outcomes`; without one, when the step succeeds. A guarded one is written only over the value `over`.
    Only live runs write.
    """

    space: str
    key: str
    value: JsonValue
    position: int | None = None
    outcomes: tuple[Outcome, ...] = (Outcome.APPLIED,)
    is_guarded: bool = False
    over: JsonValue = None

    def is_due(self, outcomes: Mapping[int, Outcome]) -> bool:
        """Returns whether to write it, given the outcomes of a succeeded step's proposals by position."""
        return self.position is None or outcomes.get(self.position) in self.outcomes

    def to_json(self) -> JsonValue:
        """Returns the write as stored with a step that waits for approval."""
        outcomes = [outcome.value for outcome in self.outcomes]
        guard = [self.over] if self.is_guarded else []
        return [self.space, self.key, self.value, self.position, outcomes, *guard]

    @classmethod
    def from_json(cls, fields: Sequence[AnyJson]) -> "MemoryWrite":
        """Reads what `to_json` wrote."""
        space, key, value, position, outcomes, *guard = fields
        due = tuple(Outcome(outcome) for outcome in outcomes)
        return cls(space, key, value, position, due, bool(guard), guard[0] if guard else None)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step. `output` is plain JSON and is recorded with the step.

    A step only proposes changes; the run holds, sends or refuses the proposals, and counts them. `title`
    replaces the plan's title in the step's row; `message` is shown beside it.
    """

    output: JsonValue
    counts: Counts = field(default_factory=Counts)
    title: str | None = None
    message: str | None = None
    proposals: tuple[Proposal, ...] = ()
    memory: tuple[MemoryWrite, ...] = ()
    item_of: tuple[int, ...] | None = None  # of a workflow's step: the item each proposal comes from
    known: Mapping[int, Outcome] = field(default_factory=dict)  # of proposals that nobody is asked about


# Raises StepFailed. A reader's CallError passes through: the run retries, sleeps, asks to reconnect or
# reports it.
StepFunction: TypeAlias = Callable[[StepContext], Awaitable[StepResult]]
