"""Base class of Shopify Flow task types, with the call that a type runs on and its result."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from steward.model.answer import WriteAnswer
from steward.model.change import Proposal
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind
from steward.model.run import Counts
from steward.steps.base import StepContext, StoreAccess
from steward.steps.shopify_flow.environment import FlowVariables
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.items import Item
from steward.steps.workflow.step_types import (
    ItemFailed,
    RunEnvironment,
    SentItem,
    StepProblem,
    WorkflowStepFailed,
    unwrap,
)

ONWARD = "out:0"  # the port of every task that has but one


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A step as the file has it, for its type to examine.

    `config` is as the plan will keep it: texts with Liquid are `{expr, lang, chunks}`, other values literal.
    """

    name: str
    task: str
    config: JsonObject

    def literal(self, field_: str) -> JsonValue:
        """Returns a literal field; None for one that is absent or has Liquid in it."""
        value = self.config.get(field_)
        return None if is_liquid(value) else value


def is_liquid(value: object) -> bool:
    """Returns whether a stored field is a text with Liquid in it."""
    return isinstance(value, Mapping) and value.keys() == {"expr", "lang", "chunks"}


@dataclass(slots=True)
class FlowCall:
    """A run of a step: its environment, its config with every text rendered, and its run."""

    step: PlanStep
    environment: FlowVariables
    config: JsonObject
    evaluator: Evaluator
    scene: RunEnvironment

    @property
    def now(self) -> datetime:
        """When the step began."""
        return self.scene.now

    def value(self, field_: str) -> AnyJson:
        """Returns a field of the config, None if absent. Raises ItemFailed if its Liquid failed."""
        return unwrap(self.config.get(field_))

    def text(self, field_: str) -> str:
        """Returns a field that is a text, without blanks at its ends. Raises ItemFailed."""
        value = self.value(field_)
        return "" if value is None else str(value).strip()

    @property
    def context(self) -> StepContext:
        """The context of the step's run. Raises WorkflowStepFailed outside a run."""
        if self.scene.context is None:
            raise WorkflowStepFailed("This step reaches outside, which is not possible here.")
        return self.scene.context

    @property
    def store(self) -> StoreAccess:
        """The automation's store. Raises WorkflowStepFailed without one."""
        store = self.context.store
        if store is None:
            raise WorkflowStepFailed("This automation runs on no store. Choose one.")
        return store


@dataclass(slots=True)
class FlowResult:
    """The result of a step: its output, which later steps see under its alias, and the ports it leaves by.

    A for-each gives `elements`, for each of which its body runs. A change or send gives `proposals`: with
    none of them it has succeeded. `unknown` are paths below the output that only the real change tells, ""
    for all of it; they count in test runs alone. With `is_answered`, `answered_item` makes the output of the
    answer.
    """

    output: JsonValue = None
    ports: tuple[str, ...] = (ONWARD,)
    elements: tuple[JsonValue, ...] | None = None
    counts: Counts = field(default_factory=Counts)
    message: str | None = None
    proposals: tuple[Proposal, ...] = ()
    wait_until: datetime | None = None
    unknown: tuple[str, ...] = ()
    is_answered: bool = False


class FlowType(ABC):
    """A task type: its ids, label and variable in files, its kind, and how it runs."""

    tasks: tuple[str, ...] = ()
    label: str = ""  # Shopify Flow's label, the name of a step without one
    variable: str | None = None  # under what later steps see its output; a further one is `variable1`, …
    kind: StepKind = StepKind.DECIDE
    fields: frozenset[str] = frozenset()  # the config fields it reads
    versions: tuple[float, ...] = (0.1,)  # of the task in files
    stores: frozenset[str] | None = None  # connectors of stores it runs on; None: it needs no store
    connection_kinds: tuple[
        str, ...
    ] = ()  # the kinds of connection a person may bind it to, where not what it needs alone
    reads_store: bool = False  # whether its output tells of the store as it was, and is gone after a wait

    def operation(self, definition: TaskDefinition) -> str:
        """Returns the public name of what it does."""
        return self.tasks[0]

    def kind_of(self, definition: TaskDefinition) -> StepKind:
        """Returns the kind of step, which no data may decide."""
        return self.kind

    def title(self, definition: TaskDefinition) -> str:
        """Returns the title that people read."""
        return self.label or definition.name

    def variable_of(self, definition: TaskDefinition) -> str | None:
        """Returns the name under which later steps see its output."""
        return self.variable

    def ports(self, definition: TaskDefinition) -> tuple[str, ...]:
        """Returns the output ports in order."""
        return (ONWARD,)

    def answered_item(self, sent: SentItem, answer: WriteAnswer) -> Iterable[Item]:
        """Returns what the step hands on by the recorded answer to what it sent; pure."""
        return (sent.item,)

    def refusal(self, message: str, answer: WriteAnswer | None) -> ItemFailed:
        """Returns the failure of a change that was refused."""
        return ItemFailed(message)

    def required_connection(self, definition: TaskDefinition) -> str | None:
        """Returns the kind of connection: store, or one that a person binds (spreadsheet, teams)."""
        return None if self.stores is None else "store"

    def target(self, definition: TaskDefinition) -> JsonObject | None:
        """Returns where in a bound connection it reads or writes."""
        return None

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields what in the config cannot run, or runs otherwise than in Shopify Flow."""
        return ()

    @abstractmethod
    async def run(self, call: FlowCall) -> FlowResult:
        """Runs the step. Raises WorkflowStepFailed, ItemFailed, CodeStopped, UnknownInTest.

        A CallError of a reader passes through to the walk.
        """


__all__ = [
    "ONWARD",
    "FlowCall",
    "FlowResult",
    "FlowType",
    "ItemFailed",
    "StepProblem",
    "TaskDefinition",
    "WorkflowStepFailed",
    "is_liquid",
]
