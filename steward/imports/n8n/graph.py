"""The shape of a plan: which steps a run reaches, in which order, and where it loops."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from steward.model.finding import Finding, FindingLevel
from steward.model.json import JsonValue
from steward.model.plan import Plan, PlanEdge, PlanStep, PlanTrigger, StepKind
from steward.steps.workflow.expressions import template
from steward.steps.workflow.repeats import cycles

LOOP = "splitInBatches"


def arranged(plan: Plan, *, by_port: bool = False, start: str | None = None) -> Plan:
    """Returns the plan with its steps in run order; steps that the start does not reach come last.

    With `by_port`, the steps after one output come before those after the next, whatever their position.
    `start` names the trigger that a run begins at; by default it is the one that reaches most steps.
    """
    plan = replace(plan, triggers=tuple(_ranked_triggers(plan, start)))
    entry = plan.entry()
    order = _order(plan, entry.name, by_port=by_port) if entry is not None else []
    reached = set(order)
    places = {name: number for number, name in enumerate(order)}
    steps = [
        replace(step, origin=replace(step.origin, reachable=step.name in reached)) if step.origin else step
        for step in plan.steps
    ]
    steps.sort(key=lambda step: places.get(step.name, len(places)))
    return replace(plan, steps=tuple(steps))


_PREFERENCE = {"schedule": 0, "event": 1, "manual": 2}


def _ranked_triggers(plan: Plan, start: str | None) -> list[PlanTrigger]:
    """Returns the triggers, best one first.

    The best is `start`, else the one that reaches most steps; ties go to a trigger that steps refer to by
    name, then to a schedule, then to a store event, then to a trigger that a start by hand replaces here, and
    last to a start by hand.
    """
    if len(plan.triggers) < 2:
        return list(plan.triggers)
    after = targets_by_source(plan.edges)
    enabled = {step.name for step in plan.steps if step.origin is not None and not step.origin.disabled}
    referenced = _names_referenced(plan)

    def rank(trigger: PlanTrigger) -> tuple[bool, int, bool, int, bool]:
        reached = len(reach_from(after, trigger.name) & enabled)
        return (
            trigger.name != start,
            -reached,
            trigger.name not in referenced,
            _PREFERENCE.get(trigger.kind, len(_PREFERENCE)),
            trigger.kind == "manual" and trigger.replaced is None,
        )

    return sorted(plan.triggers, key=rank)


def _names_referenced(plan: Plan) -> set[str]:
    """Returns the names by which steps refer to each other in expressions and scripts."""
    names: set[str] = set()
    stack: list[JsonValue] = [step.config for step in plan.steps]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            names |= template.names_in([value])[0] or set()
        elif isinstance(value, Mapping):
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return names


def _order(plan: Plan, entry: str, *, by_port: bool) -> list[str]:
    """Returns the steps reached from the trigger, depth first and from top to bottom."""
    positions = {step.name: (step.origin.position if step.origin else (0.0, 0.0)) for step in plan.steps}
    after = _ranked_targets(plan, by_port=by_port)
    ordered: list[str] = []
    visited = {entry}
    stack = [entry]
    while stack:
        current = stack.pop()
        if current != entry:
            ordered.append(current)
        ranked = sorted(
            after.get(current, ()),
            key=lambda edge_: (edge_[0], positions[edge_[1]][1], positions[edge_[1]][0]),
        )
        targets = dict.fromkeys(target for _, target in ranked)
        for target in reversed(targets):
            if target in stack:
                stack.remove(target)
            elif target in visited:
                continue
            visited.add(target)
            stack.append(target)
    return ordered


def _ranked_targets(plan: Plan, *, by_port: bool) -> dict[str, list[tuple[int, str]]]:
    """Returns the targets of each step, ranked by port; all ranks are 0 unless `by_port`."""
    ports = {step.name: step.origin.ports for step in plan.steps if step.origin is not None and by_port}
    after: dict[str, list[tuple[int, str]]] = {}
    for edge in plan.edges:
        source_ports = ports.get(edge.source, ())
        rank = source_ports.index(edge.port) if edge.port in source_ports else 0
        after.setdefault(edge.source, []).append((rank, edge.target))
    return after


def first_step(steps: Sequence[PlanStep], edges: Iterable[PlanEdge]) -> str | None:
    """Returns the step that a workflow without a trigger begins at, or None if all are disabled.

    Among the steps without a predecessor it is the one that reaches most steps, then the topmost, then the
    leftmost.
    """
    edges = list(edges)
    after, targets = targets_by_source(edges), {edge.target for edge in edges}
    enabled = [step for step in steps if step.origin is not None and not step.origin.disabled]
    roots = [step for step in enabled if step.name not in targets] or enabled

    def rank(step: PlanStep) -> tuple[int, float, float]:
        x, y = step.origin.position if step.origin is not None else (0.0, 0.0)
        return -len(reach_from(after, step.name)), y, x

    return min(roots, key=rank).name if roots else None


def findings(plan: Plan) -> list[Finding]:
    """Returns warnings of cycles without a loop step, and notes on reads beside changes."""
    cycles = [
        Finding(
            name,
            FindingLevel.WARNING,
            "cyclic",
            "The workflow goes in a circle here without a loop step. "
            "Check that its conditions end it; a run does at most 10,000 steps.",
        )
        for name in _circles(plan)
    ]
    return cycles + reads_beside(plan)


def _circles(plan: Plan) -> list[str]:
    """Returns the first step of every cycle that contains no loop step."""
    loops = {step.name for step in plan.steps if step.origin and step.origin.source_type == LOOP}
    all_cycles = cycles(
        targets_by_source(
            edge for edge in plan.edges if edge.source not in loops and edge.target not in loops
        )
    )
    first = {step.name: number for number, step in enumerate(plan.steps)}
    return sorted(
        (min(circle, key=lambda name: first.get(name, 0)) for circle in all_cycles), key=first.__getitem__
    )


def targets_by_source(edges: Iterable[PlanEdge]) -> dict[str, list[str]]:
    """Returns the names of the steps that follow each step."""
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    return targets


def reach_from(after: dict[str, list[str]], start: str) -> set[str]:
    """Returns the names of all steps that follow `start`, given the result of `targets_by_source`."""
    reached: set[str] = set()
    stack = list(after.get(start, ()))
    while stack:
        current = stack.pop()
        if current not in reached:
            reached.add(current)
            stack += after.get(current, ())
    return reached


def start_outputs(edges: Sequence[PlanEdge], start: str) -> list[str]:
    """Returns the connected outputs of a trigger, the one that leads to most steps first."""
    after = targets_by_source(edges)
    reached: dict[str, set[str]] = {}
    for edge in edges:
        if edge.source == start:
            reached.setdefault(edge.port, set()).update((edge.target, *reach_from(after, edge.target)))
    return sorted(reached, key=lambda port: -len(reached[port]))


def reads_beside(plan: Plan) -> list[Finding]:
    """Returns notes on reads in another branch than a change of the same kind of object."""
    after = targets_by_source(plan.edges)
    changes = [step for step in plan.steps if step.kind is StepKind.CHANGE]
    reach = lru_cache(maxsize=None)(lambda name: reach_from(after, name))
    notes: list[Finding] = []
    for read in plan.steps:
        if read.kind is not StepKind.READ:
            continue
        unordered_changes = [
            change.name
            for change in changes
            if _same_object(change, read)
            and read.name not in reach(change.name)
            and change.name not in reach(read.name)
        ]
        if unordered_changes:
            message = (
                f"It reads the store while the changes of “{unordered_changes[0]}” still wait for approval. "
            )
            message += f"If it should see them, place it behind “{unordered_changes[0]}”."
            notes.append(Finding(read.name, FindingLevel.NOTE, "reads_before_approval", message))
    return notes


def _same_object(change: PlanStep, read: PlanStep) -> bool:
    return change.operation.split(".")[:2] == read.operation.split(".")[:2]


def order_matters(plan: Plan) -> bool:
    """Returns whether the order of branches matters: the plan has a join or several steps with effects."""
    effects = sum(step.kind in (StepKind.CHANGE, StepKind.SEND) for step in plan.steps)
    joins = any(step.origin is not None and step.origin.inputs > 1 for step in plan.steps)
    return joins or effects > 1


def softened(plan: Plan, findings_: Iterable[Finding]) -> list[Finding]:
    """Returns the findings with errors of disabled or unreached steps turned into warnings."""
    idle = {
        step.name
        for step in plan.steps
        if step.origin and (step.origin.disabled or not step.origin.reachable)
    }
    return [
        replace(finding, level=FindingLevel.WARNING)
        if finding.step in idle and finding.level is FindingLevel.ERROR
        else finding
        for finding in findings_
    ]
