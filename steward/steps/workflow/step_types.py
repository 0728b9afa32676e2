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
from steward.steps.workflow.expressions.views import World
from steward.steps.workflow.items import Item, Items, Outputs, Source
from steward.steps.workflow.javascript.values import SCALARS
from steward.steps.workflow.javascript.values import UNDEFINED as UNDEFINED
from steward.steps.workflow.memory_budget import Gathered

TOO_DEEP = 5  # sub-workflows within sub-workflows (imports 6)


class StepBroke(Exception):
    """The step fails as a whole, whatever its type does about single items."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ItemFailed(StepBroke):
    """Something does not work: for one item when a type treats items one by one, else for the step."""


UNKNOWN_IN_TEST = "unknown_in_test"


class UnknownInTest(Exception):
    """A test run would have to know what only the real change tells (engine 10.2)."""


class Takes(Enum):
    """What a step type does with the fields of its items beside reading them by expressions."""

    FIELDS = "fields"  # looks into them itself
    WHOLE = "whole"  # hands items on as they are
    MORE = "more"  # hands each on with fields of its own beside the item's
    NOTHING = "nothing"  # what it hands on has nothing of them


@dataclass(frozen=True, slots=True)
class Failed:
    """A parameter whose expression failed; it fails only what reads it."""

    message: str


@dataclass(frozen=True, slots=True)
class Chunks:
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
        here: Any = self._tree
        for part in path.split("."):
            if isinstance(here, Failed):
                raise ItemFailed(here.message)
            here = _below(here, part)
            if here is _NOTHING:
                return default
        return sound(here)

    def text(self, path: str, default: str = "") -> str:
        """A parameter that is a text; what is not there is the default."""
        value = self.get(path, default)
        return default if value is None or value is UNDEFINED else str(value)

    def flag(self, path: str, default: bool = False) -> bool:
        """A parameter that is a switch."""
        return bool(self.get(path, default))

    def rows(self, path: str) -> list["Params"]:
        """The parameter's list of objects, each to be read by itself."""
        here: Any = self._tree
        for part in path.split("."):
            if isinstance(here, Failed):
                raise ItemFailed(here.message)
            here = _below(here, part)
        if isinstance(here, Failed):
            raise ItemFailed(here.message)
        return [Params(one) for one in here if isinstance(one, Mapping)] if isinstance(here, list) else []

    def has(self, name: str) -> bool:
        """Whether the parameter is given."""
        return name in self._tree

    @property
    def tree(self) -> Mapping[str, Any]:
        """All of it, failures as they are."""
        return self._tree


_NOTHING = object()


def _below(here: Any, part: str) -> Any:
    if type(here) is dict or isinstance(here, Mapping):
        return here.get(part, _NOTHING)
    if isinstance(here, list) and part.isdigit() and int(part) < len(here):
        return here[int(part)]
    return _NOTHING


def sound(value: Any) -> Any:
    """The value itself. Raises ItemFailed where an expression in it failed."""
    if type(value) in SCALARS:
        return value
    if isinstance(value, Failed):
        raise ItemFailed(value.message)
    if isinstance(value, Mapping):
        for one in value.values():
            sound(one)
    elif isinstance(value, list):
        for one in value:
            sound(one)
    return value


@dataclass(slots=True)
class Call:
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
    look: Callable[[Iterable[str] | None], World]
    scene: "Scene"
    sleep: Callable[[float], Awaitable[None]]
    memory: dict[str, Any] = field(default_factory=dict)
    gathered: Gathered = field(default_factory=Gathered)

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
class Scene:
    """The run around a step: its time, seed and zone, the connections it may read, and inner plans."""

    zone: str
    now: datetime
    seed: str
    mode: Mode
    workflow_id: str = ""
    active: bool = True  # whether it is switched on, as its expressions see it
    context: StepContext | None = None
    binding: Callable[[str], JsonObject | None] = lambda name: None
    plan: Callable[[str], Plan | None] = lambda name: None
    inner: "Callable[[str, Plan, Items], Awaitable[Called]] | None" = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Called:
    """What a called workflow gave: the items of its last step, and what its steps propose.

    `item_of` says for each proposal which of the items it makes true, -1: none of them.
    """

    items: Items
    proposals: tuple[Proposal, ...] = ()
    item_of: tuple[int, ...] = ()
    counts: Counts = field(default_factory=Counts)


@dataclass(slots=True)
class Result:
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
class Problem:
    """What importing a step finds: a Finding's code, level and words, before it has a step."""

    level: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A step as its file has it, for its type to look at: raw parameters, `=` texts being expressions."""

    name: str
    version: float
    parameters: JsonObject
    credentials: tuple[str, ...] = ()

    def get(self, path: str, default: Any = None) -> Any:
        """The raw value at a dotted path."""
        here: Any = self.parameters
        for part in path.split("."):
            if not isinstance(here, Mapping) or part not in here:
                return default
            here = here[part]
        return here

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
    known: frozenset[str] = frozenset()
    options: frozenset[str] | None = None  # the names its `options` may have; None: it looks at them itself
    choices: Mapping[str, frozenset[str]] = MappingProxyType(
        {}
    )  # what a parameter may be when it is no expression
    per_item: bool = True  # whether its parameters are worked out for every item, or for the first alone
    stateful: bool = False  # whether a run depends on its earlier runs: it is run again, not replayed
    takes_of: Takes = Takes.FIELDS
    raw: tuple[str, ...] = ()  # parameters whose chunks it joins by itself: Chunks in place of their text

    def operation(self, asked: Asked) -> str:
        """The public name of what it does (contract 3.6)."""
        return self.types[0]

    def kind_of(self, asked: Asked) -> StepKind:
        """Its class by what it does."""
        return self.kind

    def title(self, asked: Asked) -> str:
        """Plain words."""
        return asked.name

    def ports(self, asked: Asked) -> tuple[str, ...]:
        """Its own outputs by number."""
        return ("out:0",)

    def inputs(self, asked: Asked) -> int:
        """How many inputs it has."""
        return 1

    def demands_all(self, step: PlanStep) -> bool:
        """Whether it never runs on part of its inputs."""
        return False

    def takes(self, step: PlanStep) -> Takes:
        """What it does with the fields of its items."""
        return self.takes_of

    def needs(self, asked: Asked) -> str | None:
        """The kind of connection: store, spreadsheet or teams."""
        return None

    def target(self, asked: Asked) -> JsonObject | None:
        """Where in the connection it reads or writes (interface 2.7)."""
        return None

    def check(self, asked: Asked) -> Iterable[Problem]:
        """What of the step's settings cannot run, or runs otherwise."""
        return ()

    @abstractmethod
    async def run(self, call: Call) -> Result:
        """The step's outputs. Raises ItemFailed when it fails as a whole."""


def each(call: Call, one: Callable[[int, Item], Iterable[Item]]) -> Result:
    """Treats the items one by one; what fails goes where the step's `on_error` says (imports 3.5)."""
    out: Items = []
    failed: Items = []
    for place, item in enumerate(call.items):
        try:
            out += one(place, item)
        except ItemFailed as failure:
            if call.on_error is OnError.STOP:
                raise
            if call.on_error is OnError.PASS_INPUT:
                out.append(Item({"error": failure.message}, ((place, 0),), failure.message))
            else:
                failed.append(error_item(item, place, failure.message))
    return Result([out, failed] if call.on_error is OnError.ERROR_OUTPUT else [out])


def error_item(item: Item, place: int, message: str) -> Item:
    """A failed item as the error output has it."""
    return Item({**item.json, "error": message}, ((place, 0),), message)


def tolerated(call: Call, message: str) -> Result:
    """One error item in place of all, for types that say so of a failure of the whole."""
    item = Item({"error": message}, None, message)
    if call.on_error is OnError.PASS_INPUT:
        return Result([[item]])
    return Result([[], [item]])


def same(place: int) -> tuple[tuple[int, int], ...]:
    """Paired with the item at `place` of the first input."""
    return ((place, 0),)


def all_of(inputs: Sequence[Items]) -> tuple[tuple[int, int], ...]:
    """Paired with every item of every input."""
    return tuple((place, number) for number, items in enumerate(inputs) for place in range(len(items)))
