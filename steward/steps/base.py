"""What a step is given and what it hands back; leaves journaling, approval and sending to runs/.

A step reads what earlier steps produced from their outputs, which are JSON: a run continued by another
worker after a crash has nothing else (engine 10).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Protocol, TypeAlias

from steward.connectors.base.connector import ChangeOp, Reader
from steward.model.change import Outcome, Proposal
from steward.model.connection import Connection
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId
from steward.model.json import JsonObject, JsonValue
from steward.model.run import Counts, Mode
from steward.outbound.web import WebReads


class StepFailed(Exception):
    """The step cannot be done: its code (beside the run's `step_failed`) and plain words (templates 3)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class TooManyChanges(StepFailed):
    """More changes than the automation's `limit`: nothing is proposed (templates E11).

    The only failure of a step whose code is the run's own code too.
    """

    def __init__(self, found: int, limit: int) -> None:
        super().__init__(
            "too_many_changes",
            f"{found} changes were found, more than the limit of {limit}. Nothing was changed. "
            "Check the reason, then raise the limit if they are wanted.",
        )
        self.found = found


@dataclass(frozen=True, slots=True)
class AccountAccess:
    """One opened connection: what it is, its reads, and what may be planned on it; never a writer."""

    connection: Connection
    reader: Reader
    changes: Mapping[str, ChangeOp[Any]]


@dataclass(frozen=True, slots=True)
class StoreAccess(AccountAccess):
    """The store an automation runs on."""

    @property
    def platform(self) -> str:
        """The store's connector id."""
        return self.connection.kind


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """The event a run came from, as a pointer: what to read again (connectors 1 rule 6).

    `object_id` is the platform's id of the object as its reads give it; for a variation `parent_id` is its
    product's. `payload` is what the store sent, for imported workflows alone (contract 2.11).
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
    """The automation's memory as it was when the step began; read in test runs as well."""

    async def all(self, space: str) -> Mapping[str, JsonValue]:
        """Everything remembered in one space."""
        ...

    async def of(self, automation: AutomationId, space: str) -> Mapping[str, JsonValue]:
        """What another automation of the organisation remembers in a space."""
        ...

    async def of_template(self, template_id: str, space: str) -> Mapping[str, JsonValue]:
        """What all the organisation's automations of a template remember; of one key the latest value."""
        ...


@dataclass(frozen=True, slots=True)
class StepContext:
    """All a step may see. `day` is the run's nominal local date (templates E16).

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
    web: WebReads | None = None  # of imported workflows: addresses no connection stands for
    reads: tuple[IntegrationId, ...] = ()
    automation_created_at: datetime | None = None  # when the automation was made
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)  # of what earlier steps proposed

    @property
    def home(self) -> StoreAccess:
        """The store the automation runs on. Raises ValueError for one that runs on none."""
        if self.store is None:
            raise ValueError("this automation runs on no store")
        return self.store

    def memory_key(self, number: str) -> str:
        """The key under which something of the store's object with this id is remembered."""
        return f"{self.home.connection.integration_id}:{number}"

    def applied(self, step: str) -> list[bool]:
        """Of each change an earlier step proposed whether it was made; in a test run: would have been."""
        made = (Outcome.APPLIED, *((Outcome.REFUSED_TEST,) if self.mode is Mode.TEST else ()))
        return [outcome in made for outcome in self.outcomes.get(step, ())]

    def check_limit(self, found: int) -> None:
        """Raises TooManyChanges when `found` changes are more than the input `limit` (E11)."""
        limit = self.inputs["limit"]
        if isinstance(limit, int) and found > limit:
            raise TooManyChanges(found, limit)


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """One value to remember; `value` null forgets it. Key ≤ 200 characters, value ≤ 4 KiB of JSON.

    With a position: written only once the step's proposal at that position (0 = first) has one of
    `outcomes`. Without: when the step succeeded. Live runs only (templates 1).
    """

    space: str
    key: str
    value: JsonValue
    position: int | None = None
    outcomes: tuple[Outcome, ...] = (Outcome.APPLIED,)

    def is_due(self, outcomes: Mapping[int, Outcome]) -> bool:
        """Whether it is to be written, by the outcomes of the step's proposals; the step has succeeded
        when it has no position."""
        return self.position is None or outcomes.get(self.position) in self.outcomes

    def to_json(self) -> JsonValue:
        """As journaled with a held step."""
        return [self.space, self.key, self.value, self.position, [outcome.value for outcome in self.outcomes]]

    @classmethod
    def from_json(cls, kept: Sequence[Any]) -> "MemoryWrite":
        """From the journal."""
        space, key, value, position, outcomes = kept
        return cls(space, key, value, position, tuple(Outcome(outcome) for outcome in outcomes))


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step hands back. `output` is plain JSON and is journaled; a step that proposes also says
    what follows from it alone: the walker holds, sends or refuses the proposals, and counts them.

    `title` replaces the plan's title in the step's row; `message` stands beside it.
    """

    output: JsonValue
    counts: Counts = field(default_factory=Counts)
    title: str | None = None
    message: str | None = None
    proposals: tuple[Proposal, ...] = ()
    memory: tuple[MemoryWrite, ...] = ()
    item_of: tuple[int, ...] | None = None  # a workflow's step: the item each proposal makes true


# A step's function. Raises StepFailed; a CallError of a reader passes through, for the walker to put right
# (wait, sleep, reconnect) or to put into words.
StepFunction: TypeAlias = Callable[[StepContext], Awaitable[StepResult]]
