"""The step graph (plan) of templates and imported workflows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from steward.model.json import JsonObject

# What a step may be bound to, and what it may need: closed lists that do not depend on the registered
# connectors.
BOUND_KINDS = ("spreadsheet", "teams")
STEP_NEEDS = ("store", *BOUND_KINDS)


class StepKind(StrEnum):
    """The public kind of a step."""

    READ = "read"
    DECIDE = "decide"
    CHANGE = "change"
    SEND = "send"
    WAIT = "wait"


class StepStatus(StrEnum):
    """The state of a step that ended or waits."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    REFUSED = "refused"
    HELD = "held"


class OnError(StrEnum):
    """The effect of an imported step's failure."""

    STOP = "stop"
    PASS_INPUT = "pass_input"
    ERROR_OUTPUT = "error_output"


class DataMode(StrEnum):
    """The kind of data that an imported plan's steps pass on."""

    ITEMS = "items"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failing read or pure step is tried, and the pauses between the tries."""

    tries: int
    wait_ms: int


@dataclass(frozen=True, slots=True)
class StepSource:
    """The original of an imported step in its file, with the tool's settings of the step.

    `ports` names its outputs by number, with the error output last, if it has one. `account` is the file's
    data about the account that the step signs in to, without secrets.
    """

    source_type: str
    source_version: float
    needs: str | None = None
    target: JsonObject | None = None
    account: JsonObject | None = None
    alias: str | None = None
    on_error: OnError = OnError.STOP
    retry: Retry | None = None
    once: bool = False
    always_output: bool = False
    disabled: bool = False
    supported: bool = True
    reachable: bool = True
    inputs: int = 1
    ports: tuple[str, ...] = ("out:0",)
    position: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A named step; its class (pure, read, change, send, wait) follows from its kind, not from the plan."""

    name: str
    title: str
    kind: StepKind
    operation: str
    config: JsonObject = field(default_factory=dict)
    origin: StepSource | None = None


@dataclass(frozen=True, slots=True)
class PlanEdge:
    """An edge from a step's port to another step's input."""

    source: str
    port: str
    target: str
    input: int = 0


class StartFieldType(StrEnum):
    """The type of a value that a run is started with."""

    TEXT = "text"
    LONG_TEXT = "long_text"
    NUMBER = "number"
    EMAIL = "email"
    DATE = "date"
    CHOICE = "choice"  # one of `options`
    CHOICES = "choices"  # a list of some of `options`
    JSON = "json"
    FILE = "file"
    FILES = "files"  # several files of one field: `name_0`, `name_1`


@dataclass(frozen=True, slots=True)
class StartField:
    """A value that a run is started with: its path in the payload, and its type.

    The path of a file is its name among the uploaded files; `label` is its field in a form's values.
    `default` is the value passed on if the payload leaves the field out.
    """

    path: tuple[str, ...]
    label: str
    type: StartFieldType = StartFieldType.TEXT
    required: bool = False
    options: tuple[str, ...] = ()
    default: str | float | None = None

    @property
    def name(self) -> str:
        """The path as one text."""
        return ".".join(self.path)

    @property
    def is_file(self) -> bool:
        """Whether it is a file, which is sent beside the payload."""
        return self.type in (StartFieldType.FILE, StartFieldType.FILES)


# The parts of a webhook's call beside its body, which a payload can give.
CALL_PARTS = ("query", "params", "headers", "webhookUrl", "jwtPayload")


@dataclass(frozen=True, slots=True)
class PlanTrigger:
    """The proposed start of a file's workflow; `name` is the step at which its edges begin.

    `fields` are the fields of its form.
    """

    name: str
    kind: str  # manual, schedule or event
    schedule: JsonObject | None = None
    topics: tuple[str, ...] = ()
    replaced: str | None = None
    position: tuple[float, float] = (0.0, 0.0)
    fields: tuple[StartField, ...] = ()
    picks: tuple[str, ...] | None = None  # the fields that a called workflow receives; None: all
    tells_time: bool = True  # whether a schedule passes on its time; older ones pass on an empty item
    submitted_in_utc: bool = False  # whether a form tells its time in UTC, not in the workflow's time zone


@dataclass(frozen=True, slots=True)
class Patched:
    """A metafield that a flow reads as the field `handle` of objects of a type."""

    type: str
    handle: str
    namespace: str
    key: str


@dataclass(frozen=True, slots=True)
class Variable:
    """Paths below one root that are read when a flow starts, and the query that reads them.

    Paths begin with the root. `query` is shown to people; the query that is sent is built from the paths
    again.
    """

    root: str
    paths: tuple[str, ...]
    query: str
    patched: tuple[Patched, ...] = ()


@dataclass(frozen=True, slots=True)
class N8nVariable:
    """A variable of n8n that a workflow reads by its name, such as `$env.SHOP`.

    One that is not required has a fallback wherever it is read.
    """

    name: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in the order in which they run, if that is fixed, and the edges between them.

    Only imported plans have the fields after `edges`.
    """

    steps: tuple[PlanStep, ...]
    edges: tuple[PlanEdge, ...]
    source: str | None = None
    source_sha256: str | None = None
    name: str = ""
    timezone: str | None = None
    mode: DataMode | None = None
    triggers: tuple[PlanTrigger, ...] = ()
    variables: tuple[Variable, ...] = ()
    inner: Mapping[str, "Plan"] = field(default_factory=dict)  # called workflows, by the step that calls them
    is_chosen: bool = False  # whether a person chose this workflow for the step that calls it
    n8n_variables: tuple[N8nVariable, ...] = ()  # those that its own running steps read
    values: Mapping[str, str] = field(default_factory=dict)  # of variables of n8n, by name
    _into: Mapping[str, tuple[PlanEdge, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        into: dict[str, tuple[PlanEdge, ...]] = {}
        for edge in self.edges:
            into[edge.target] = (*into.get(edge.target, ()), edge)
        object.__setattr__(self, "_into", into)

    def before(self, name: str) -> tuple[PlanEdge, ...]:
        """Returns the edges into the step `name`."""
        return self._into.get(name, ())

    def after(self, name: str) -> tuple[str, ...]:
        """Returns the names of the steps directly before `name`."""
        return tuple(edge.source for edge in self.before(name))

    def step(self, name: str) -> PlanStep:
        """Returns the step `name`. Raises KeyError."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def running(self) -> list[PlanStep]:
        """Returns the steps that a run reaches and that are enabled, whether or not they can run."""
        return [
            step
            for step in self.steps
            if step.origin is not None and step.origin.reachable and not step.origin.disabled
        ]

    def all_n8n_variables(self) -> tuple[N8nVariable, ...]:
        """Returns the variables of n8n that the workflow and those that it calls read, by name."""
        required = {variable.name: variable.is_required for variable in self.n8n_variables}
        for step in self.running():
            called = self.inner.get(step.name)
            for variable in called.all_n8n_variables() if called is not None else ():
                required[variable.name] = required.get(variable.name, False) or variable.is_required
        return tuple(N8nVariable(name, is_required) for name, is_required in sorted(required.items()))

    def unset_variables(self) -> tuple[str, ...]:
        """Returns the names of the variables of n8n that need a value and have none."""
        return tuple(
            variable.name
            for variable in self.all_n8n_variables()
            if variable.is_required and variable.name not in self.values
        )

    def entry(self) -> PlanTrigger | None:
        """Returns the trigger at which a run begins: the proposed one, which is first."""
        return self.triggers[0] if self.triggers else None


def in_line(steps: tuple[PlanStep, ...]) -> Plan:
    """Returns a plan whose steps follow one another."""
    return Plan(steps, tuple(PlanEdge(first.name, "out:0", second.name) for first, second in pairwise(steps)))
