"""The base class of Shopify Flow task types, and the call and result of a step."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from steward.model.change import Proposal
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import PlanStep, StepKind
from steward.model.run import Counts
from steward.model.write_response import WriteResponse
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

ONWARD = "out:0"  # the port of tasks that have only one


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A step as it is in the file, for its type to examine.

    `config` has the form stored in the plan: texts with Liquid are `{expr, lang, chunks}`, other values
    literal.
    """

    name: str
    task: str
    config: JsonObject

    def literal(self, field_: str) -> JsonValue:
        """Returns a literal field, or None if it is absent or contains Liquid."""
        value = self.config.get(field_)
        return None if is_liquid(value) else value


def is_liquid(value: object) -> bool:
    """Returns whether a stored field is a text that contains Liquid."""
    return isinstance(value, Mapping) and value.keys() == {"expr", "lang", "chunks"}


@dataclass(slots=True)
class FlowCall:
    """A run of a step: its environment, its config with all texts rendered, and the run around it."""

    step: PlanStep
    environment: FlowVariables
    config: JsonObject
    evaluator: Evaluator
    run_environment: RunEnvironment

    @property
    def now(self) -> datetime:
        """The time at which the step began."""
        return self.run_environment.now

    def value(self, field_: str) -> AnyJson:
        """Returns a field of the config, or None. Raises ItemFailed if its Liquid failed."""
        return unwrap(self.config.get(field_))

    def text(self, field_: str) -> str:
        """Returns a text field without surrounding white space. Raises ItemFailed."""
        value = self.value(field_)
        return "" if value is None else str(value).strip()

    @property
    def context(self) -> StepContext:
        """The context of the step's run. Raises WorkflowStepFailed outside a run."""
        if self.run_environment.context is None:
            raise WorkflowStepFailed("This step reaches outside, which is not possible here.")
        return self.run_environment.context

    @property
    def store(self) -> StoreAccess:
        """The automation's store. Raises WorkflowStepFailed without one."""
        store = self.context.store
        if store is None:
            raise WorkflowStepFailed("This automation runs on no store. Choose one.")
        return store


@dataclass(slots=True)
class FlowResult:
    """The result of a step: its output, which later steps see under its alias, and the ports to follow.

    A for-each returns the `elements` for which its body runs. A change or send returns `proposals`; without
    any it has succeeded. `unknown` lists paths below the output, "" for all of it, that only a real change
    would fill; it matters only in test runs. With `uses_response`, `items_of_response` derives the output
    from the response.
    """

    output: JsonValue = None
    ports: tuple[str, ...] = (ONWARD,)
    elements: tuple[JsonValue, ...] | None = None
    counts: Counts = field(default_factory=Counts)
    message: str | None = None
    proposals: tuple[Proposal, ...] = ()
    wait_until: datetime | None = None
    unknown: tuple[str, ...] = ()
    uses_response: bool = False


class FlowType(ABC):
    """A task type: its ids, label, alias and kind, and how it runs."""

    tasks: tuple[str, ...] = ()
    label: str = ""  # Shopify Flow's label; names a step that has no name
    variable: str | None = None  # the alias of its output; further ones are `variable1`, …
    kind: StepKind = StepKind.DECIDE
    fields: frozenset[str] = frozenset()  # the config fields that it reads
    versions: tuple[float, ...] = (0.1,)  # of the task in exported files
    stores: frozenset[str] | None = None  # store connectors it runs on; None if it needs no store
    connection_kinds: tuple[
        str, ...
    ] = ()  # kinds of connection that may be bound instead of the required one
    reads_store: bool = False  # whether its output reflects the store and expires at a wait

    def operation(self, definition: TaskDefinition) -> str:
        """Returns the public name of the operation."""
        return self.tasks[0]

    def kind_of(self, definition: TaskDefinition) -> StepKind:
        """Returns the kind of step, which must not depend on data."""
        return self.kind

    def title(self, definition: TaskDefinition) -> str:
        """Returns the title shown to people."""
        return self.label or definition.name

    def variable_of(self, definition: TaskDefinition) -> str | None:
        """Returns the alias under which later steps see its output."""
        return self.variable

    def ports(self, definition: TaskDefinition) -> tuple[str, ...]:
        """Returns the output ports in order."""
        return (ONWARD,)

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns the step's output, derived from the recorded response to what it sent.

        It has no side effects.
        """
        return (sent.item,)

    def refusal(self, message: str, response: WriteResponse | None) -> ItemFailed:
        """Returns the failure of a change that was refused."""
        return ItemFailed(message)

    def required_connection(self, definition: TaskDefinition) -> str | None:
        """Returns the required kind of connection: store, or one that a person binds (spreadsheet, teams)."""
        return None if self.stores is None else "store"

    def target(self, definition: TaskDefinition) -> JsonObject | None:
        """Returns the place in a bound connection that it reads or writes."""
        return None

    def check(self, definition: TaskDefinition) -> Iterable[StepProblem]:
        """Yields settings that cannot run, or run differently from Shopify Flow."""
        return ()

    @abstractmethod
    async def run(self, call: FlowCall) -> FlowResult:
        """Runs the step. Raises WorkflowStepFailed, ItemFailed, CodeStopped, UnknownInTest.

        A reader's CallError passes through to the walk.
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
