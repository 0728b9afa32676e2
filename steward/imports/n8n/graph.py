"""The shape of a plan: what a run can reach, in which order, where it turns in circles."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan, PlanEdge, PlanStep, StepKind
from steward.steps.workflow.repeats import cycles

LOOP = "splitInBatches"


def arranged(plan: Plan, *, by_port: bool = False) -> Plan:
    """The plan with its steps in the order they would run, those no trigger reaches last and marked.

    `by_port`: what one output leads to comes before what the next does, wherever it stands.
    """
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


def _order(plan: Plan, entry: str, *, by_port: bool) -> list[str]:
    """Depth first from the trigger, topmost first, each step where it is first met."""
    positions = {step.name: (step.origin.place if step.origin else (0.0, 0.0)) for step in plan.steps}
    after = _ranked_targets(plan, by_port=by_port)
    ordered: list[str] = []
    seen = {entry}
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
            elif target in seen:
                continue
            seen.add(target)
            stack.append(target)
    return ordered


def _ranked_targets(plan: Plan, *, by_port: bool) -> dict[str, list[tuple[int, str]]]:
    """The steps each step leads to, with the rank of the port; all ranks are 0 unless `by_port`."""
    ports = {step.name: step.origin.ports for step in plan.steps if step.origin is not None and by_port}
    after: dict[str, list[tuple[int, str]]] = {}
    for edge in plan.edges:
        source_ports = ports.get(edge.source, ())
        rank = source_ports.index(edge.port) if edge.port in source_ports else 0
        after.setdefault(edge.source, []).append((rank, edge.target))
    return after


def findings(plan: Plan) -> list[Finding]:
    """Circles without a loop step, and reads beside changes whose field they read."""
    cycles = [
        Finding(
            name,
            FindingLevel.WARNING,
            "cyclic",
            "The workflow goes in a circle here without a loop step. It runs until its conditions end it, "
            "at most 10,000 steps in all; check that they do.",
        )
        for name in _circles(plan)
    ]
    return cycles + reads_beside(plan)


def _circles(plan: Plan) -> list[str]:
    """The first step of every circle that no loop step closes."""
    loops = {step.name for step in plan.steps if step.origin and step.origin.source_type == LOOP}
    all_cycles = cycles(
        _targets_by_source(
            edge for edge in plan.edges if edge.source not in loops and edge.target not in loops
        )
    )
    first = {step.name: number for number, step in enumerate(plan.steps)}
    return sorted(
        (min(circle, key=lambda name: first.get(name, 0)) for circle in all_cycles), key=first.__getitem__
    )


def _targets_by_source(edges: Iterable[PlanEdge]) -> dict[str, list[str]]:
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    return targets


def _reach(after: dict[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    stack = list(after.get(start, ()))
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            stack += after.get(current, ())
    return seen


def reads_beside(plan: Plan) -> list[Finding]:
    """Reads in another branch than a change of the same kind of object."""
    after = _targets_by_source(plan.edges)
    changes = [step for step in plan.steps if step.kind is StepKind.CHANGE]
    reach = lru_cache(maxsize=None)(lambda name: _reach(after, name))
    notes: list[Finding] = []
    for read in plan.steps:
        if read.kind is not StepKind.READ:
            continue
        beside = [
            change.name
            for change in changes
            if _same_object(change, read)
            and read.name not in reach(change.name)
            and change.name not in reach(read.name)
        ]
        if beside:
            words = f"It reads while the changes of “{beside[0]}” wait for approval, and sees the store "
            words += "as it is. Place it after them."
            notes.append(Finding(read.name, FindingLevel.NOTE, "reads_before_approval", words))
    return notes


def _same_object(change: PlanStep, read: PlanStep) -> bool:
    return change.operation.split(".")[:2] == read.operation.split(".")[:2]


def order_shows(plan: Plan) -> bool:
    """Whether the order of branches can be seen: a join, or more than one step with an effect."""
    effects = sum(step.kind in (StepKind.CHANGE, StepKind.SEND) for step in plan.steps)
    joins = any(step.origin is not None and step.origin.inputs > 1 for step in plan.steps)
    return joins or effects > 1


def softened(plan: Plan, findings_: Iterable[Finding]) -> list[Finding]:
    """An error of a step that is disabled or not reached is a warning."""
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
