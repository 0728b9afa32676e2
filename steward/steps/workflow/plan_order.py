"""Decides the order in which the steps of an n8n plan run.

It works depth first on a stack and has no side effects. The caller takes an execution, runs or replays it,
and settles it here; it settles a held one once everything else has run. See docs/design/imports-n8n.md#order.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from steward.model.plan import Plan, PlanEdge, PlanStep
from steward.steps.workflow.items import History, Items, Outputs, PastRun, Source


@dataclass(slots=True)
class Execution:
    """A run of a step, with its items by input and their sources.

    `iteration` numbers its row if the order sets it; otherwise the number follows from `run`.
    """

    step: PlanStep
    run: int
    inputs: list[Items]
    sources: list[Source | None]
    iteration: str | None = None


@dataclass(slots=True)
class _Arriving:
    """A step on the stack, or one waiting for inputs."""

    step: PlanStep
    inputs: dict[int, Items] = field(default_factory=dict)
    sources: dict[int, Source] = field(default_factory=dict)


class PlanOrder:
    """Decides which step runs next, starting with the trigger's items."""

    def __init__(self, plan: Plan, *, entry: str, items: Items, demands: Callable[[PlanStep], bool]) -> None:
        self.history: History = {}
        self._steps = {step.name: step for step in plan.steps}
        self._ports = {step.name: _ports(step) for step in plan.steps}
        self._after: dict[str, list[PlanEdge]] = {}
        self._connected: dict[str, set[int]] = {}
        for edge in plan.edges:
            if edge.target in self._steps:
                self._after.setdefault(edge.source, []).append(edge)
                self._connected.setdefault(edge.target, set()).add(edge.input)
        self._demands = demands
        self._stack: list[_Arriving] = []
        self._waiting: list[_Arriving] = []
        self._runs: dict[str, int] = {}
        self._ports[entry] = ("out:0",)
        self.history[entry] = [PastRun([items], [])]
        self._send_on(entry, 0, [items])

    def next(self) -> Execution | None:
        """Returns the next execution, or None if only held ones or missing inputs remain."""
        if not self._stack:
            return None
        arriving = self._stack.pop()
        step = arriving.step
        run = self._runs.get(step.name, 0)
        self._runs[step.name] = run + 1
        count = max(_inputs(step), 1)
        inputs = [arriving.inputs.get(index, []) for index in range(count)]
        sources = [arriving.sources.get(index) for index in range(count)]
        self.history.setdefault(step.name, []).append(PastRun(None, sources))
        return Execution(step, run, inputs, sources)

    def settle(self, execution: Execution, outputs: Outputs | None, error: str | None = None) -> None:
        """Accepts the outputs of an execution; None means that it failed and nothing follows."""
        past_run = self.history[execution.step.name][execution.run]
        past_run.outputs, past_run.error = outputs, error
        if outputs is not None:
            self._send_on(execution.step.name, execution.run, outputs)

    def start_waiting(self) -> bool:
        """Starts a waiting step with the inputs it has if none is on the stack.

        Returns whether a step can run.
        """
        ready = [arriving for arriving in self._waiting if not self._demands(arriving.step)]
        if self._stack or not ready:
            return bool(self._stack)
        names = {arriving.step.name for arriving in ready}
        first = next(
            (arriving for arriving in ready if not self._comes_after(arriving.step.name, names)), ready[0]
        )
        self._waiting.remove(first)
        self._stack.append(first)
        return True

    def starved(self) -> list[PlanStep]:
        """Returns the steps still waiting for an input."""
        return [arriving.step for arriving in self._waiting]

    def _comes_after(self, name: str, others: set[str]) -> bool:
        """Returns whether one of `others` precedes the step, ignoring cycles through the step itself."""
        seen, open_ = {name}, [name]
        while open_:
            current = open_.pop()
            for source, edges in self._after.items():
                if source not in seen and any(edge.target == current for edge in edges):
                    if source in others:
                        return True
                    seen.add(source)
                    open_.append(source)
        return False

    def _send_on(self, name: str, run: int, outputs: Outputs) -> None:
        ports = self._ports[name]
        arrived: list[tuple[PlanEdge, int]] = []
        for edge in self._after.get(name, ()):
            output = ports.index(edge.port) if edge.port in ports else -1
            if 0 <= output < len(outputs) and outputs[output]:
                arrived.append((edge, output))
        arrived.sort(key=lambda entry: entry[1])
        ready: list[_Arriving] = []
        for edge, output in arrived:
            arriving = self._arrive(edge, outputs[output], Source(name, output, run))
            if arriving is not None:
                ready.append(arriving)
        ready.sort(key=lambda entry: _height(entry.step))  # from top to bottom, then from left to right
        self._stack.extend(reversed(ready))

    def _arrive(self, edge: PlanEdge, items: Items, source: Source) -> _Arriving | None:
        """Returns the step if it can run now, or None while it waits for other inputs."""
        step = self._steps[edge.target]
        if _inputs(step) <= 1:
            return _Arriving(step, {0: items}, {0: source})
        waiting = next(
            (
                candidate
                for candidate in self._waiting
                if candidate.step is step and edge.input not in candidate.inputs
            ),
            None,
        )
        if waiting is None:
            waiting = _Arriving(step)
            self._waiting.append(waiting)
        waiting.inputs[edge.input] = items
        waiting.sources[edge.input] = source
        if len(waiting.inputs) <= max(self._connected[step.name]):
            return None  # n8n counts inputs up to the last connected one
        self._waiting.remove(waiting)
        return waiting


def _ports(step: PlanStep) -> tuple[str, ...]:
    return step.origin.ports if step.origin is not None else ("out:0",)


def _inputs(step: PlanStep) -> int:
    return step.origin.inputs if step.origin is not None else 1


def _height(step: PlanStep) -> tuple[float, float]:
    x, y = step.origin.position if step.origin is not None else (0.0, 0.0)
    return y, x
