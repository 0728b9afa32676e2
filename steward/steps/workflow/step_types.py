"""The base of the step types of imported workflows, with their call and result.

execute.py runs them: order, retries and failures. See docs/design/imports-n8n.md#node-types.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from steward.model.change import Proposal
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import OnError, Plan, PlanStep, StepKind
from steward.model.run import Counts, Mode
from steward.model.write_response import WriteResponse
from steward.steps.base import RunFiles, StepContext
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import ExpressionContext, VariableValues
from steward.steps.workflow.items import BinaryReference, Item, Items, Outputs, Source
from steward.steps.workflow.javascript.values import SCALARS
from steward.steps.workflow.javascript.values import UNDEFINED as UNDEFINED
from steward.steps.workflow.memory_budget import StepBudget
from steward.steps.workflow.static_data import StaticData

MAX_SUB_WORKFLOW_DEPTH = 5  # nested sub-workflows


class WorkflowStepFailed(Exception):
    """Raised if a step fails as a whole, however its type handles single items."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ItemFailed(WorkflowStepFailed):
    """Raised if one item fails, if the type handles items one by one; otherwise the step fails.

    `error` is the value of the field `error` in a tolerated item: the message, or an object.
    """

    def __init__(self, message: str, error: JsonObject | None = None) -> None:
        super().__init__(message)
        self.error: JsonValue = message if error is None else error


UNKNOWN_IN_TEST = "unknown_in_test"


class UnknownInTest(Exception):
    """Raised in a test run for data that only a real change would return."""


class FieldUse(Enum):
    """How a step type uses its items' fields, apart from expressions."""

    READS = "fields"  # reads the fields itself
    PASSES_ITEMS = "whole"  # passes items on unchanged
    EXTENDS_ITEMS = "more"  # passes each item on with more fields
    REPLACES_ITEMS = "nothing"  # its output has none of their fields


# The known fields of a step's items, with those of nested objects or list elements; None means all of them.
KnownFields: TypeAlias = Mapping[str, frozenset[str] | None]


@dataclass(frozen=True, slots=True)
class FailedExpression:
    """A parameter whose expression failed; only code that reads it fails."""

    message: str


@dataclass(frozen=True, slots=True)
class UnjoinedText:
    """A text with expressions whose parts are evaluated but not joined."""

    parts: tuple[AnyJson, ...]
    typed: bool


class Params:
    """A step's parameters for one item, with expressions evaluated."""

    __slots__ = ("_tree",)

    def __init__(self, tree: JsonObject) -> None:
        self._tree = tree

    def get(self, path: str, default: AnyJson = None) -> AnyJson:
        """Returns the value at a dotted path, or `default` if it is absent. Raises ItemFailed."""
        value: JsonValue = self._tree
        for part in path.split("."):
            if isinstance(value, FailedExpression):
                raise ItemFailed(value.message)
            value = _member(value, part)
            if value is _ABSENT:
                return default
        return unwrap(value)

    def text(self, path: str, default: str = "") -> str:
        """Returns a parameter as text."""
        value = self.get(path, default)
        return default if value is None or value is UNDEFINED else str(value)

    def flag(self, path: str, default: bool = False) -> bool:
        """Returns a parameter as a boolean."""
        return bool(self.get(path, default))

    def rows(self, path: str) -> list["Params"]:
        """Returns a parameter that is a list of objects."""
        value: JsonValue = self._tree
        for part in path.split("."):
            if isinstance(value, FailedExpression):
                raise ItemFailed(value.message)
            value = _member(value, part)
        if isinstance(value, FailedExpression):
            raise ItemFailed(value.message)
        return [Params(row) for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []

    def has(self, name: str) -> bool:
        """Returns whether the parameter is present."""
        return name in self._tree

    @property
    def tree(self) -> Mapping[str, AnyJson]:
        """All parameters, including failed expressions."""
        return self._tree


_ABSENT = object()


def _member(value: JsonValue, part: str) -> AnyJson:
    if type(value) is dict or isinstance(value, Mapping):
        return value.get(part, _ABSENT)
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return _ABSENT


def unwrap(value: JsonValue) -> JsonValue:
    """Returns the value, or raises ItemFailed if it contains a failed expression."""
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
    """A run of a step: its items, its parameters for each item, and the resources it may use.

    `expression_context` returns the data that scripts can read of the named steps; `memory` holds what the
    step stored at its earlier executions in this run, which only loops use.
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
    memory: dict[str, AnyJson] = field(default_factory=dict)
    budget: StepBudget = field(default_factory=StepBudget)

    @property
    def items(self) -> Items:
        """The items of the first input."""
        return self.inputs[0]

    @property
    def on_error(self) -> OnError:
        """What happens if the step or an item fails."""
        return self.step.origin.on_error if self.step.origin is not None else OnError.STOP

    @property
    def first(self) -> Params:
        """The parameters for the first item."""
        return self.params(0)


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """The run around a step: time, seed and zone, connections, files and sub-workflows."""

    zone: str
    now: datetime
    seed: str
    mode: Mode
    workflow_id: str = ""
    active: bool = True  # as expressions see it
    context: StepContext | None = None
    binding: Callable[[str], JsonObject | None] = lambda name: None
    sub_workflow: Callable[[str], Plan | None] = lambda name: None
    run_sub_workflow: "Callable[[str, Plan, Items], Awaitable[SubWorkflowResult]] | None" = None
    depth: int = 0
    files: RunFiles | None = None
    written_files: dict[str, BinaryReference] = field(default_factory=dict)  # by path on n8n's disk
    static_data: StaticData = field(default_factory=StaticData)
    marks: tuple[str, ...] = ()  # valid texts of this run's markers of removed keys
    variables: VariableValues | None = None  # of n8n; None where no workflow reads them


@dataclass(frozen=True, slots=True)
class ResponseUse:
    """How an output item is derived from the response to a send: the step type and its settings.

    If `is_needed`, there is no item without the response; otherwise the item stays as planned.
    """

    source_type: str
    settings: JsonObject
    is_needed: bool = True


@dataclass(frozen=True, slots=True)
class SentItem:
    """An item whose write is done, as `run` planned it, with the settings stored for its response."""

    item: Item
    settings: JsonObject


@dataclass(frozen=True, slots=True)
class SubWorkflowResult:
    """The result of a sub-workflow: the items of its last step, and the proposals of all its steps.

    `item_of` holds, for each proposal, the index of the resulting item, or -1. `response_uses`
    says how items are derived from a response, by index.
    """

    items: Items
    proposals: tuple[Proposal, ...] = ()
    item_of: tuple[int, ...] = ()
    counts: Counts = field(default_factory=Counts)
    response_uses: Mapping[int, ResponseUse] = field(default_factory=dict)


@dataclass(slots=True)
class NodeResult:
    """The result of a step: its outputs, the proposals of a change or send, and the end of a wait.

    `item_of` holds, for each proposal, the index of the resulting item in output 0.
    `response_uses` says how items of output 0 are derived from the response to their proposal, by index.
    """

    outputs: Outputs
    counts: Counts = field(default_factory=Counts)
    message: str | None = None
    proposals: tuple[Proposal, ...] = ()
    item_of: tuple[int, ...] = ()
    wait_until: datetime | None = None
    unknown: tuple[str, ...] | None = None
    response_uses: Mapping[int, ResponseUse] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepProblem:
    """A problem found when importing a node; becomes a Finding of its step.

    `is_operation`: the operation itself does not run, so that its settings are not reported beside it.
    """

    level: str
    code: str
    message: str
    is_operation: bool = False


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """A node as in the file, with raw parameters, in which text that begins with `=` is an expression."""

    name: str
    version: float
    parameters: JsonObject
    credentials: tuple[str, ...] = ()

    def get(self, path: str, default: AnyJson = None) -> AnyJson:
        """Returns the raw value at a dotted path."""
        value: JsonValue = self.parameters
        for part in path.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    def file_name(self, path: str) -> str:
        """Returns the file name in a parameter, or n8n's default, `data`."""
        return str(self.get(path) or "data")

    def literal(self, path: str, default: JsonValue = None) -> AnyJson:
        """Returns the value at a dotted path, or the default if it is absent or an expression."""
        value = self.get(path, default)
        return default if is_expression(value) else value


def is_expression(value: object) -> bool:
    """Returns whether a raw parameter is an expression: text that begins with `=`."""
    return isinstance(value, str) and value.startswith("=")


class StepType(ABC):
    """A step type: its n8n names, versions and parameters, its kind, and how it runs."""

    types: tuple[str, ...] = ()
    versions: tuple[float, ...] = (1,)
    refused_versions: tuple[float, ...] = ()  # n8n has them, and they do not run here
    kind: StepKind = StepKind.DECIDE
    parameters: frozenset[str] = frozenset()
    # the parameters that not every version reads, with the first that does and the first that no longer does
    version_parameters: Mapping[str, tuple[float, float]] = MappingProxyType({})
    version_defaults: Mapping[str, JsonValue] = MappingProxyType({})  # values of those that change nothing
    options: frozenset[str] | None = None  # allowed names in `options`; None if it checks them itself
    knows_all_parameters: bool = False  # whether n8n has no others in these versions
    choices: Mapping[str, frozenset[str]] = MappingProxyType({})  # allowed literal values, by parameter
    per_item: bool = True  # evaluates parameters for every item, not only for the first
    stateful: bool = False  # depends on its earlier executions, so it runs again instead of being replayed
    field_use: FieldUse = FieldUse.READS
    account_parameters: frozenset[str] = frozenset()  # whose keys the bound account supplies
    unjoined_parameters: tuple[str, ...] = ()  # received as UnjoinedText

    def operation(self, node: NodeDefinition) -> str:
        """Returns the public name of its operation. See docs/design/api/imports.md#plan."""
        return self.types[0]

    def kind_of(self, node: NodeDefinition) -> StepKind:
        """Returns its kind."""
        return self.kind

    def title(self, node: NodeDefinition) -> str:
        """Returns its title in plain words."""
        return node.name

    def ports(self, node: NodeDefinition) -> tuple[str, ...]:
        """Returns the names of its outputs in order."""
        return ("out:0",)

    def unfilled_outputs(self, node: NodeDefinition) -> Mapping[str, str]:
        """Returns the outputs that are empty here but not in n8n: an error's message by port."""
        return {}

    def inputs(self, node: NodeDefinition) -> int:
        """Returns the number of its inputs."""
        return 1

    def demands_all(self, step: PlanStep) -> bool:
        """Returns whether it runs only once all of its inputs have arrived."""
        return False

    def field_use_of(self, step: PlanStep) -> FieldUse:
        """Returns how it uses its items' fields."""
        return self.field_use

    def stored_parameters(self, node: NodeDefinition) -> JsonObject:
        """Returns its parameters for the plan; texts that n8n evaluates begin with `=`."""
        return node.parameters

    def reads_dates(self, version: float) -> bool:
        """Returns whether it distinguishes JavaScript dates from their ISO text."""
        return False

    def required_connection(self, node: NodeDefinition) -> str | None:
        """Returns the kind of connection that it needs, or None.

        `store` is the automation's own; all others are connector ids, and a person binds them.
        """
        return None

    def account(self, node: NodeDefinition) -> JsonObject | None:
        """Returns the file's data about the account that it signs in to, without any secret."""
        return None

    def target(self, node: NodeDefinition) -> JsonObject | None:
        """Returns the place in the connection that it reads or writes."""
        return None

    def lacks_response(self, node: NodeDefinition) -> bool:
        """Returns whether n8n outputs a response of this step that is not available here."""
        return False

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the names of the item files that it requires.

        A name given by an expression is that expression.
        """
        return ()

    def known_fields(self, node: NodeDefinition) -> KnownFields | None:
        """Returns the fields that its items have here if n8n would output more, else None."""
        return None

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields the settings that cannot run or that run differently from n8n."""
        return ()

    def items_of_response(self, sent: SentItem, response: WriteResponse) -> Iterable[Item]:
        """Returns the items that the recorded response turns a sent item into. Raises ItemFailed.

        It must have no side effects, since it is called again after an interruption. It is called for items
        for which `run` stored settings (`ItemProposals.add_plan`); others stay as planned. An item without
        pairing gets that of the sent item.
        """
        return (sent.item,)

    def refusal(self, message: str, response: WriteResponse | None) -> ItemFailed:
        """Returns the failure of an item whose change was refused, from its recorded response."""
        return ItemFailed(message)

    def keeps_files(self, call: StepCall) -> bool:
        """Returns whether output items without files get those of the items they came from."""
        return self.field_use in (FieldUse.PASSES_ITEMS, FieldUse.EXTENDS_ITEMS)

    @abstractmethod
    async def run(self, call: StepCall) -> NodeResult:
        """Runs the step and returns its outputs. Raises ItemFailed if it fails as a whole."""


def for_each_item(call: StepCall, convert: Callable[[int, Item], Iterable[Item]]) -> NodeResult:
    """Converts the items one by one and handles failed items by the step's `on_error`."""
    out: Items = []
    failed: Items = []
    for index, item in enumerate(call.items):
        try:
            out += convert(index, item)
        except ItemFailed as failure:
            if call.on_error is OnError.STOP:
                raise
            if call.on_error is OnError.PASS_INPUT:
                out.append(Item({"error": failure.error}, ((index, 0),), failure.message))
            else:
                failed.append(error_item(item, index, failure.message, failure.error))
    return NodeResult([out, failed] if call.on_error is OnError.ERROR_OUTPUT else [out])


def error_item(item: Item, index: int, message: str, error: JsonValue = None) -> Item:
    """Returns a failed item for the error output, with the message or `error`."""
    error_value = message if error is None else error
    return Item({**item.json, "error": error_value}, ((index, 0),), message, binary=item.binary)


def error_result(call: StepCall, message: str) -> NodeResult:
    """Returns a single error item, for a tolerated failure of the whole step."""
    item = Item({"error": message}, None, message)
    if call.on_error is OnError.PASS_INPUT:
        return NodeResult([[item]])
    return NodeResult([[], [item]])


def paired_with(index: int) -> tuple[tuple[int, int], ...]:
    """Returns the pairing with the item at `index` of the first input."""
    return ((index, 0),)


def paired_with_all(inputs: Sequence[Items]) -> tuple[tuple[int, int], ...]:
    """Returns the pairing with every item of every input."""
    return tuple((index, number) for number, items in enumerate(inputs) for index in range(len(items)))
