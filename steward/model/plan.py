"""Plan, Step and Edge: the one tree that templates and imported workflows become."""

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from steward.model.json import JsonObject


class StepKind(StrEnum):
    """The public kind of a step (contract 3.3)."""

    READ = "read"
    DECIDE = "decide"
    CHANGE = "change"
    SEND = "send"
    WAIT = "wait"


class StepStatus(StrEnum):
    """How a step ended, or that it waits (contract 3.3)."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    REFUSED = "refused"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A named step; its class (pure, read, change, send, wait) is its kind's, never the plan's choice."""

    name: str
    title: str
    kind: StepKind
    operation: str
    config: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edge:
    """From one step's port to another step."""

    source: str
    port: str
    target: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in the order they run where that is fixed, and the edges between them."""

    steps: tuple[PlanStep, ...]
    edges: tuple[Edge, ...]

    def before(self, name: str) -> tuple[Edge, ...]:
        """The edges into the step `name`."""
        return tuple(edge for edge in self.edges if edge.target == name)

    def after(self, name: str) -> tuple[str, ...]:
        """The steps `name` comes directly after."""
        return tuple(edge.source for edge in self.before(name))


def in_line(steps: tuple[PlanStep, ...]) -> Plan:
    """A plan whose steps follow one another."""
    return Plan(steps, tuple(Edge(first.name, "out:0", second.name) for first, second in pairwise(steps)))
