"""The interface of a step: its context, its result, and the codec of its output.

Steps read earlier outputs from JSON, because a worker that resumes a run after a crash has only the stored
output.
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
    """Raised when a step cannot be completed; its code is shown with the run's `step_failed`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class TooManyChanges(StepFailed):
    """Raised when a step finds more changes than the automation's `limit`; the step then proposes none.

    It is the only step failure whose code is also the run's own code.
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
        """Wraps the table of an earlier step without decoding it."""
        records = cls.__new__(cls)
        records.json = table
        return records

    def __iter__(self) -> Iterator[S]:
        return iter(self.decode(self.json))

    @staticmethod
    @abstractmethod
    def encode(records: Iterable[S]) -> JsonObject:
        """Encodes the records as a table."""

    @staticmethod
    @abstractmethod
    def decode(table: JsonObject) -> Iterable[S]:
        """Decodes the records of a table."""


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
    """The output of a step, which later steps and the run's summary read."""

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
    """Returns the values as plain JSON; they may contain records."""
    # Goes through JSON text so that tuples become lists; a step's output may not hold tuples.
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_encode))


def _encode(value: object) -> JsonValue:
    if isinstance(value, RecordTable):
        return value.json
    raise NotImplementedError(f"a step's output cannot hold a {type(value).__name__}")


def _decode(kind: type[RecordTable[S]], value: JsonObject) -> RecordTable[S]:
    return kind.from_json(value)


@dataclass(frozen=True, slots=True)
class AccountAccess:
    """An open connection that a step may read and plan changes on; it cannot write."""

    connection: Connection
    reader: Reader
    changes: Mapping[str, AnyWriteOperation]

    def plan(self, operation: str, commands: Sequence[object]) -> PlannedChanges:
        """Plans changes on this connection, in the order of the commands."""
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
    """The event that started a run, as a pointer to the object that the run reads again.

    `object_id` is the id that the platform's reads return; for a variation, `parent_id` is the id of its
    product. `payload` is what the store sent; only imported workflows receive it.
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
    """A snapshot of the automation's memory, taken when the step begins; test runs read it as well."""

    async def all(self, space: str) -> Mapping[str, JsonValue]:
        """Returns all remembered values of a space."""
        ...

    async def of(self, automation: AutomationId, space: str) -> Mapping[str, JsonValue]:
        """Returns the values that another automation of the organization remembers in a space."""
        ...

    async def of_template(self, template_id: str, space: str) -> Mapping[str, JsonValue]:
        """Returns the values that all automations of a template remember; for each key the latest one."""
        ...


class FileRefused(Exception):
    """Raised with a message for the user when a file cannot be stored or is no longer available."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RunFiles(Protocol):
    """The files attached to a run's items, by the SHA-256 of their content."""

    async def put(self, content: bytes) -> str:
        """Stores a file durably and returns its hash. Raises FileRefused when it exceeds a limit."""
        ...

    async def get(self, sha256: str) -> bytes:
        """Returns the content of a file of this run. Raises FileRefused when the file is missing."""
        ...


@dataclass(frozen=True, slots=True)
class StepContext:
    """Everything a step may see. `day` is the run's nominal local date.

    `accounts` holds the connections named by the inputs and the automation's own `connections`, all opened
    when the run started; `reads` lists the latter in order. `outputs` is keyed by step name.
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
    web: WebReadClient | None = None  # set for imported workflows; reads addresses outside any connection
    reads: tuple[IntegrationId, ...] = ()
    automation_created_at: datetime | None = None
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)  # by earlier step
    undo: UndoSource | None = None  # set for an undo run

    @property
    def home(self) -> StoreAccess:
        """The store the automation runs on. Raises ValueError when the automation has no store."""
        if self.store is None:
            raise ValueError("this automation runs on no store")
        return self.store

    def output(self, step: str, kind: type[R]) -> R:
        """Returns the output of an earlier step."""
        return kind.from_json(self.outputs[step])

    def memory_key(self, object_id: str) -> str:
        """Returns the memory key for an object of the store."""
        return f"{self.home.connection.integration_id}:{object_id}"

    def applied(self, step: str) -> list[bool]:
        """Returns for each change of an earlier step whether it was, or would be, applied."""
        applied = (Outcome.APPLIED, *((Outcome.REFUSED_TEST,) if self.mode is Mode.TEST else ()))
        return [outcome in applied for outcome in self.outcomes.get(step, ())]

    def check_limit(self, changes: int) -> None:
        """Raises TooManyChanges when the number of changes exceeds the input `limit`."""
        limit = self.inputs["limit"]
        if isinstance(limit, int) and changes > limit:
            raise TooManyChanges(changes, limit)


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """A value to remember; null forgets it. Key ≤ 200 characters, value ≤ 4 KiB of JSON.

    With a position, it is written once the step's proposal at that position (0 = first) has one of
    `outcomes`; without one, when the step succeeds. A guarded write replaces only the value `over`. Only live
    runs write.
    """

    space: str
    key: str
    value: JsonValue
    position: int | None = None
    outcomes: tuple[Outcome, ...] = (Outcome.APPLIED,)
    is_guarded: bool = False
    over: JsonValue = None

    def is_due(self, outcomes: Mapping[int, Outcome]) -> bool:
        """Returns whether to write the value, given the outcomes of the step's proposals by position."""
        return self.position is None or outcomes.get(self.position) in self.outcomes

    def to_json(self) -> JsonValue:
        """Returns the write as stored with a step that waits for approval."""
        outcomes = [outcome.value for outcome in self.outcomes]
        guard = [self.over] if self.is_guarded else []
        return [self.space, self.key, self.value, self.position, outcomes, *guard]

    @classmethod
    def from_json(cls, fields: Sequence[AnyJson]) -> "MemoryWrite":
        """Reads a write that `to_json` stored."""
        space, key, value, position, outcomes, *guard = fields
        due = tuple(Outcome(outcome) for outcome in outcomes)
        return cls(space, key, value, position, due, bool(guard), guard[0] if guard else None)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step. `output` is plain JSON and is stored with the step.

    A step only proposes changes; the run holds, sends or refuses them, and counts them. `title` replaces the
    step's title in the plan; `message` is shown beside it.
    """

    output: JsonValue
    counts: Counts = field(default_factory=Counts)
    title: str | None = None
    message: str | None = None
    proposals: tuple[Proposal, ...] = ()
    memory: tuple[MemoryWrite, ...] = ()
    item_of: tuple[int, ...] | None = None  # for workflow steps: each proposal's item
    known: Mapping[int, Outcome] = field(default_factory=dict)  # outcomes that need no decision


# A step function raises StepFailed. It lets a reader's CallError through: the run then retries, sleeps, asks
# to reconnect or reports it.
StepFunction: TypeAlias = Callable[[StepContext], Awaitable[StepResult]]
