"""The order of a flow's steps: depth first, running the body of a for-each once per element.

The caller takes an execution, runs it or replays it from the journal, and settles it here; it settles a held
one once everything else has run. The outputs decide what follows: a port without items starts nothing, a port
with an item starts its targets once, and a loop body starts once per item. The order has no side effects.
"""

from dataclasses import dataclass

from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan, PlanEdge, PlanStep
from steward.steps.workflow.items import Item, Outputs
from steward.steps.workflow.plan_order import Execution
from steward.steps.workflow.repeats import repeating_steps

LOOP = "loop_body"


@dataclass(frozen=True, slots=True)
class ExecutionPath:
    """The path to an execution, last step first, with each step's output or the element of its loop."""

    step: str
    item: Item
    before: "ExecutionPath | None"
    of_loop: bool = False

    @property
    def value(self) -> JsonValue:
        """The step's output, or the loop's element."""
        return self.item.json.get("value")


@dataclass(slots=True)
class FlowExecution(Execution):
    """A run of a step, with the path to it and the current element number, from 1, of each loop."""

    trail: ExecutionPath | None = None
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Arrival:
    step: PlanStep
    trail: ExecutionPath | None
    path: tuple[int, ...]


class FlowOrder:
    """Determines which step runs next, starting from the trigger."""

    def __init__(self, plan: Plan, *, entry: str, trigger_values: JsonObject | None = None) -> None:
        """Starts with the trigger's targets; `trigger_values` are the values that the trigger outputs."""
        self._steps = {step.name: step for step in plan.steps}
        self._after: dict[str, list[PlanEdge]] = {}
        for edge in plan.edges:
            if edge.target in self._steps:
                self._after.setdefault(edge.source, []).append(edge)
        self._repeating = repeating_steps(plan)
        self._runs: dict[str, int] = {}
        self._arrivals: dict[tuple[str, tuple[int, ...]], int] = {}
        self._stack: list[_Arrival] = []
        trail = ExecutionPath(entry, Item({"value": trigger_values or {}}), None)
        self._push([self._targets(entry, None, trail, ())])

    def next(self) -> FlowExecution | None:
        """Returns the next execution, or None if only held ones remain."""
        if not self._stack:
            return None
        arriving = self._stack.pop()
        name = arriving.step.name
        run = self._runs[name] = self._runs.get(name, 0) + 1
        position = (name, arriving.path)
        arrival = self._arrivals[position] = self._arrivals.get(position, 0) + 1
        numbers = (*arriving.path, arrival) if name in self._repeating else arriving.path
        return FlowExecution(
            step=arriving.step,
            run=run - 1,
            inputs=[],
            sources=[],
            iteration=".".join(map(str, numbers)),
            trail=arriving.trail,
            path=arriving.path,
        )

    def settle(self, execution: Execution, outputs: Outputs | None, error: str | None = None) -> None:
        """Records the execution's outputs; None means that it failed and nothing follows."""
        if outputs is None or not isinstance(execution, FlowExecution):
            return
        name, path, groups = execution.step.name, execution.path, []
        for port, items in zip(_ports(execution.step), outputs, strict=False):
            if port == LOOP:
                for number, item in enumerate(items, start=1):
                    trail = ExecutionPath(name, item, execution.trail, of_loop=True)
                    groups.append(self._targets(name, port, trail, (*path, number)))
            elif items:
                groups.append(self._targets(name, port, ExecutionPath(name, items[0], execution.trail), path))
        self._push(groups)

    def start_waiting(self) -> bool:
        """Returns False: steps of a flow never wait for a second input."""
        return False

    def starved(self) -> list[PlanStep]:
        """Returns no steps: steps of a flow never wait for a second input."""
        return []

    def _targets(
        self, name: str, port: str | None, trail: ExecutionPath | None, path: tuple[int, ...]
    ) -> list[_Arrival]:
        """Returns the targets of a port, or of all ports, from top to bottom and left to right."""
        edges = (edge for edge in self._after.get(name, ()) if port is None or edge.port == port)
        steps = sorted((self._steps[edge.target] for edge in edges), key=_canvas_position)
        return [_Arrival(step, trail, path) for step in steps]

    def _push(self, groups: list[list[_Arrival]]) -> None:
        for group in reversed(groups):
            self._stack.extend(reversed(group))


def _ports(step: PlanStep) -> tuple[str, ...]:
    return step.origin.ports if step.origin is not None else ()


def _canvas_position(step: PlanStep) -> tuple[float, float]:
    x, y = step.origin.position if step.origin is not None else (0.0, 0.0)
    return y, x
