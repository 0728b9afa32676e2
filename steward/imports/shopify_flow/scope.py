"""Computes which names each step of a flow can use: earlier outputs and loop items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from steward.model.plan import PlanEdge, PlanStep
from steward.steps.workflow.repeats import cycles

_LOOP_BODY: Final = "loop_body"
_LISTED: Final = frozenset(("count", "sum"))  # with fetched objects, the outputs that expire at a wait


@dataclass(slots=True)
class StepScope:
    """The names that a step can use. `items` maps loop items to their lists, in Shopify Flow's syntax.

    `earlier` and `lasting` are bit sets of earlier steps, and of those whose output is still usable.
    """

    items: Mapping[str, str] = field(default_factory=dict)
    earlier: int = 0
    lasting: int = 0


@dataclass(slots=True)
class Scopes:
    """The scopes of a flow's steps, and the first step of each cycle."""

    steps: Sequence[PlanStep]
    of: dict[str, StepScope]
    circles: list[str]
    variables: dict[str, str]  # by alias: the step's name
    positions: Mapping[str, int]

    def runs_before(self, step: str, other: str) -> bool:
        """Returns whether `other` runs before `step`."""
        return bool(self.of[step].earlier >> self.positions[other] & 1)

    def can_use_output(self, step: str, other: str) -> bool:
        """Returns whether `step` can use the output of `other`, which may expire at a wait between them."""
        return bool(self.of[step].lasting >> self.positions[other] & 1)

    def spelled(self, step: str, path: str) -> str:
        """Returns a path with loop items expressed as members of their lists."""
        head, dot, members = path.partition(".")
        listed = self.of[step].items.get(head)
        return path if listed is None else f"{listed}{dot}{members}"


def scopes_of(steps: Sequence[PlanStep], edges: Sequence[PlanEdge], trigger: str) -> Scopes:
    """Computes the scope of each step from those of the steps before it."""
    positions = {step.name: index for index, step in enumerate(steps)}
    scopes = Scopes(
        steps,
        {name: StepScope() for name in positions},
        _circles(edges, positions),
        {step.origin.alias: step.name for step in steps if step.origin is not None and step.origin.alias},
        positions,
    )
    expiring_outputs = sum(1 << positions[step.name] for step in steps if _is_gone_after_wait(step))
    for edge in _edges_in_order(edges, positions, trigger):
        _propagate(scopes, edge, positions, expiring_outputs)
    return scopes


def _circles(edges: Sequence[PlanEdge], positions: Mapping[str, int]) -> list[str]:
    """Returns the first step of every cycle, in step order."""
    after: dict[str, list[str]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)

    def position_of(name: str) -> int:
        return positions.get(name, 0)

    return sorted((min(circle, key=position_of) for circle in cycles(after)), key=position_of)


def _edges_in_order(
    edges: Sequence[PlanEdge], positions: Mapping[str, int], trigger: str
) -> Iterator[PlanEdge]:
    """Yields the edges in topological order, without those on or after a cycle."""
    after: dict[str, list[PlanEdge]] = {}
    pending: dict[str, int] = dict.fromkeys(positions, 0)
    for edge in edges:
        after.setdefault(edge.source, []).append(edge)
        pending[edge.target] += 1
    ready = [trigger, *(name for name, count in pending.items() if not count)]
    visited: set[str] = set()
    while ready:
        name = ready.pop()
        if name in visited:
            continue
        visited.add(name)
        for edge in after.get(name, ()):
            yield edge
            pending[edge.target] -= 1
            if not pending[edge.target]:
                ready.append(edge.target)


def _is_gone_after_wait(step: PlanStep) -> bool:
    """Returns whether the step's output expires at a wait."""
    task = step.origin.source_type if step.origin is not None else ""
    return task.rpartition("::")[2] in _LISTED or "::fetch::" in task


def _propagate(scopes: Scopes, edge: PlanEdge, positions: Mapping[str, int], expiring_outputs: int) -> None:
    """Extends the scope of an edge's target by the scope and output of its source."""
    to = scopes.of[edge.target]
    if edge.source not in positions:
        return
    scope, step = scopes.of[edge.source], scopes.steps[positions[edge.source]]
    source_bit = 1 << positions[edge.source]
    to.earlier |= scope.earlier | source_bit
    lasting = scope.lasting | source_bit
    to.lasting |= lasting & ~expiring_outputs if step.operation == "wait" else lasting
    items = scope.items
    if edge.port == _LOOP_BODY:
        name, path = step.config.get("item"), step.config.get("list")
        if isinstance(name, str) and isinstance(path, str):
            items = {**items, name: scopes.spelled(edge.source, path)}
    if items is not to.items:
        to.items = items if not to.items else {**items, **to.items}
