"""What a step type of an imported workflow is, and what it is given to run (imports 3.5, 6); the walk's
side, order, retries and what a failure does, is execute.py's."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any

from steward.model.change import Proposal
from steward.model.json import JsonObject
from steward.model.plan import OnError, Plan, PlanStep, StepKind
from steward.model.run import Counts, Mode
from steward.steps.base import StepContext
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import ExpressionContext
from steward.steps.workflow.items import Item, Items, Outputs, Source
from steward.steps.workflow.javascript.values import SCALARS
from steward.steps.workflow.javascript.values import UNDEFINED as UNDEFINED
from steward.steps.workflow.memory_budget import StepBudget

MAX_SUB_WORKFLOW_DEPTH = 5  # sub-workflows within sub-workflows (imports 6)


class WorkflowStepFailed(Exception):
    """The step fails as a whole, whatever its type does about single items."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ItemFailed(WorkflowStepFailed):
    """Something does not work: for one item when a type treats items one by one, else for the step."""


UNKNOWN_IN_TEST = "unknown_in_test"


class UnknownInTest(Exception):
    """A test run would have to know what only the real change tells (engine 10.2)."""


class FieldUse(Enum):
    """What a step type does with the fields of its items beside reading them by expressions."""

    READS = "fields"  # looks into them itself
    PASSES_ITEMS = "whole"  # hands items on as they are
    EXTENDS_ITEMS = "more"  # hands each on with fields of its own beside the item's
    REPLACES_ITEMS = "nothing"  # what it hands on has nothing of them


@dataclass(frozen=True, slots=True)
class FailedExpression:
    """A parameter whose expression failed; it fails only what reads it."""

    message: str


@dataclass(frozen=True, slots=True)
class UnjoinedText:
    """A text with expressions in it, its parts worked out one by one and not joined."""

    parts: tuple[Any, ...]
    typed: bool


class Params:
    """A step's parameters for one item, expressions worked out."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = tree

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path; `default` when the parameter is absent. Raises ItemFailed."""
        value: Any = self._tree
        for part in path.split("."):
            if isinstance(value, FailedExpression):
                raise ItemFailed(value.message)
            value = _member(value, part)
            if value is _ABSENT:
                return default
        return unwrap(value)

    def text(self, path: str, default: str = "") -> str:
        """A parameter that is a text; what is not there is the default."""
        value = self.get(path, default)
        return default if value is None or value is UNDEFINED else str(value)

    def flag(self, path: str, default: bool = False) -> bool:
        """A parameter that is a switch."""
        return bool(self.get(path, default))

    def rows(self, path: str) -> list["Params"]:
        """The parameter's list of objects, each to be read by itself."""
        value: Any = self._tree
        for part in path.split("."):
            if isinstance(value, FailedExpression):
                raise ItemFailed(value.message)
            value = _member(value, part)
        if isinstance(value, FailedExpression):
            raise ItemFailed(value.message)
        return [Params(row) for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []

    def has(self, name: str) -> bool:
        """Whether the parameter is given."""
        return name in self._tree

    @property
    def tree(self) -> Mapping[str, Any]:
        """All of it, failures as they are."""
        return self._tree


_ABSENT = object()


def _member(value: Any, part: str) -> Any:
    if type(value) is dict or isinstance(value, Mapping):
        return value.get(part, _ABSENT)
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return _ABSENT


def unwrap(value: Any) -> Any:
    """The value itself. Raises ItemFailed where an expression in it failed."""
    if type(value) in SCALARS:
        return value
    if isinstance(value, FailedExpression):
        raise ItemFailed(value.message)
    if isinstance(value, Mapping):
        for member in value.values():
            unwrap(member)
    elif isinstance(value, list):
        for member in value:
            unwrap(member)
    return value


@dataclass(slots=True)
class StepCall:
    """One run of a step: its items, its parameters for each of them, and what it may use.

    `look` gives what scripts look at, the steps named among it; `memory` is what the step kept at its
    earlier runs of this run, which only loops have.
    """

    step: PlanStep
    version: float
    run: int
    inputs: Sequence[Items]
    sources: Sequence[Source | None]
    params: Callable[[int], Params]
    evaluator: Evaluator
    expression_context: Callable[[Iterable[str] | None], ExpressionContext]
    environment: "RunEnvironment"
    sleep: Callable[[float], Awaitable[None]]
    memory: dict[str, Any] = field(default_factory=dict)
    budget: StepBudget = field(default_factory=StepBudget)

    @property
    def items(self) -> Items:
        """The items of the first input."""
        return self.inputs[0]

    @property
    def on_error(self) -> OnError:
        """What a failure does."""
        return self.step.origin.on_error if self.step.origin is not None else OnError.STOP

    @property
    def first(self) -> Params:
        """The parameters as the first item gives them."""
        return self.params(0)


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """The run around a step: its time, seed and zone, the connections it may read, and inner plans."""

    zone: str
    now: datetime
    seed: str
    mode: Mode
    workflow_id: str = ""
    active: bool = True  # whether it is switched on, as its expressions see it
    context: StepContext | None = None
    binding: Callable[[str], JsonObject | None] = lambda name: None
    sub_workflow: Callable[[str], Plan | None] = lambda name: None
    run_sub_workflow: "Callable[[str, Plan, Items], Awaitable[SubWorkflowResult]] | None" = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class SubWorkflowResult:
    """What a called workflow gave: the items of its last step, and what its steps propose.

    `item_of` says for each proposal which of the items it makes true, -1: none of them.
    """

    items: Items
    proposals: tuple[Proposal, ...] = ()
    item_of: tuple[int, ...] = ()
    counts: Counts = field(default_factory=Counts)


@dataclass(slots=True)
class NodeResult:
    """What a step gives: outputs; for a change or send what it proposes, for a wait until when.

    `item_of` says for each proposal which item of output 0 it makes true.
    """

    outputs: Outputs
    counts: Counts = field(default_factory=Counts)
    message: str | None = None
    proposals: tuple[Proposal, ...] = ()
    item_of: tuple[int, ...] = ()
    wait_until: datetime | None = None
    unknown: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StepProblem:
    """What importing a step finds: a Finding's code, level and words, before it has a step."""

    level: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """A step as its file has it, for its type to look at: raw parameters, `=` texts being expressions."""

    name: str
    version: float
    parameters: JsonObject
    credentials: tuple[str, ...] = ()

    def get(self, path: str, default: Any = None) -> Any:
        """The raw value at a dotted path."""
        value: Any = self.parameters
        for part in path.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    def literal(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path, the default also when an expression decides it."""
        value = self.get(path, default)
        return default if is_expression(value) else value


def is_expression(value: object) -> bool:
    """Whether a raw parameter is an expression: text that begins with `=`."""
    return isinstance(value, str) and value.startswith("=")


class StepType(ABC):
    """A node type of the tool: its names, versions and parameters, its class, and how it runs."""

    types: tuple[str, ...] = ()
    versions: tuple[float, ...] = (1,)
    kind: StepKind = StepKind.DECIDE
    parameters: frozenset[str] = frozenset()
    options: frozenset[str] | None = None  # the names its `options` may have; None: it looks at them itself
    choices: Mapping[str, frozenset[str]] = MappingProxyType(
        {}
    )  # what a parameter may be when it is no expression
    per_item: bool = True  # whether its parameters are worked out for every item, or for the first alone
    stateful: bool = False  # whether a run depends on its earlier runs: it is run again, not replayed
    field_use: FieldUse = FieldUse.READS
    unjoined_parameters: tuple[
        str, ...
    ] = ()  # parameters whose chunks it joins by itself: Chunks in place of their text

    def operation(self, node: NodeDefinition) -> str:
        """The public name of what it does (contract 3.6)."""
        return self.types[0]

    def kind_of(self, node: NodeDefinition) -> StepKind:
        """Its class by what it does."""
        return self.kind

    def title(self, node: NodeDefinition) -> str:
        """Plain words."""
        return node.name

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Its own outputs by number."""
        return ("out:0",)

    def inputs(self, node: NodeDefinition) -> int:
        """How many inputs it has."""
        return 1

    def demands_all(self, step: PlanStep) -> bool:
        """Whether it never runs on part of its inputs."""
        return False

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """What it does with the fields of its items."""
        return self.field_use

    def required_connection(self, node: NodeDefinition) -> str | None:
        """The kind of connection: store, spreadsheet or teams."""
        return None

    def target(self, node: NodeDefinition) -> JsonObject | None:
        """Where in the connection it reads or writes (interface 2.7)."""
        return None

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """What of the step's settings cannot run, or runs otherwise."""
        return ()

    @abstractmethod
    async def run(self, call: StepCall) -> NodeResult:
        """The step's outputs. Raises ItemFailed when it fails as a whole."""


def for_each_item(call: StepCall, convert: Callable[[int, Item], Iterable[Item]]) -> NodeResult:
    """Treats the items one by one; what fails goes where the step's `on_error` says (imports 3.5)."""
    out: Items = []
    failed: Items = []
    for index, item in enumerate(call.items):
        try:
            out += convert(index, item)
        except ItemFailed as failure:
            if call.on_error is OnError.STOP:
                raise
            if call.on_error is OnError.PASS_INPUT:
                out.append(Item({"error": failure.message}, ((index, 0),), failure.message))
            else:
                failed.append(error_item(item, index, failure.message))
    return NodeResult([out, failed] if call.on_error is OnError.ERROR_OUTPUT else [out])


def error_item(item: Item, index: int, message: str) -> Item:
    """A failed item as the error output has it."""
    return Item({**item.json, "error": message}, ((index, 0),), message)


def error_result(call: StepCall, message: str) -> NodeResult:
    """One error item in place of all, for types that say so of a failure of the whole."""
    item = Item({"error": message}, None, message)
    if call.on_error is OnError.PASS_INPUT:
        return NodeResult([[item]])
    return NodeResult([[], [item]])


def paired_with(index: int) -> tuple[tuple[int, int], ...]:
    """Paired with the item at `place` of the first input."""
    return ((index, 0),)


def paired_with_all(inputs: Sequence[Items]) -> tuple[tuple[int, int], ...]:
    """Paired with every item of every input."""
    return tuple((index, number) for number, items in enumerate(inputs) for index in range(len(items)))
