"""Compares the order of a flow's steps with a recursive model.

See docs/design/imports-shopify-flow.md#execution and docs/design/approvals.md#held-changes.
"""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from steward.model.plan import Plan, PlanEdge, PlanStep, StepKind, StepSource
from steward.steps.shopify_flow.order import LOOP, FlowExecution, FlowOrder
from steward.steps.workflow.items import Item, Outputs

PORTS = {"plain": ("out:0",), "branch": ("true", "false"), "loop": (LOOP, "after")}
Walk = list[tuple[str, tuple[int, ...]]]


@st.composite
def flows(draw: st.DrawFn) -> tuple[Plan, dict[str, Outputs]]:
    """Draws an acyclic flow and the output of each of its steps."""
    count = draw(st.integers(1, 7))
    steps, edges, outputs = [], [], dict[str, Outputs]()
    for number in range(count):
        name, kind = f"s{number}", draw(st.sampled_from(sorted(PORTS)))
        location = (float(draw(st.integers(0, 2))), float(draw(st.integers(0, 2))))
        steps.append(
            PlanStep(
                name,
                name,
                StepKind.DECIDE,
                kind,
                {},
                StepSource(kind, 1.0, ports=PORTS[kind], position=location),
            )
        )
        item = Item({"value": name})
        if kind == "loop":
            outputs[name] = [[item] * draw(st.integers(0, 3)), [item]]
        elif kind == "branch":
            outputs[name] = draw(st.sampled_from([[[item], []], [[], [item]]]))
        else:
            outputs[name] = draw(st.sampled_from([[[item]], [[item]], [[]]]))
        for before in range(number):
            if draw(st.integers(0, 2)) == 0:
                port = draw(st.sampled_from(PORTS[steps[before].operation]))
                edges.append(PlanEdge(f"s{before}", port, name))
        if draw(st.integers(0, 2)) == 0 or number == 0:
            edges.append(PlanEdge("trigger", "out:0", name))
    return Plan(tuple(steps), tuple(edges)), outputs


def _height(step: PlanStep) -> tuple[float, float]:
    assert step.origin is not None
    return step.origin.position[1], step.origin.position[0]


def modelled(plan: Plan, outputs: dict[str, Outputs], without: frozenset[str] = frozenset()) -> Walk:
    """Returns the executed steps in order, without those that follow the steps in `without`."""

    def targets(name: str, port: str | None) -> list[str]:
        edges = [edge for edge in plan.edges if edge.source == name and port in (None, edge.port)]
        return [step.name for step in sorted((plan.step(edge.target) for edge in edges), key=_height)]

    def visit(name: str, path: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield name, path
        if name in without:
            return
        for port, items in zip(PORTS[plan.step(name).operation], outputs[name], strict=True):
            rounds = [(*path, number) for number in range(1, len(items) + 1)] if port == LOOP else [path]
            for below in rounds if items else []:
                for target in targets(name, port):
                    yield from visit(target, below)

    return [item for name in targets("trigger", None) for item in visit(name, ())]


def walked(
    order: FlowOrder, outputs: dict[str, Outputs], held: frozenset[str]
) -> tuple[Walk, list[FlowExecution]]:
    """Runs until only held executions are left; returns the executed steps and the held executions."""
    run: Walk = []
    waiting: list[FlowExecution] = []
    while (execution := order.next()) is not None:
        run.append((execution.step.name, execution.path))
        if execution.step.name in held:
            waiting.append(execution)
        else:
            order.settle(execution, outputs[execution.step.name])
    return run, waiting


@given(flows())
def test_one_branch_is_finished_before_the_next_begins(random_plan: tuple[Plan, dict[str, Outputs]]) -> None:
    """Finishes one branch before the next begins.

    See docs/design/imports-shopify-flow.md#execution.
    """
    plan, outputs = random_plan
    order = FlowOrder(plan, entry="trigger")
    run, _ = walked(order, outputs, frozenset())
    assert run == modelled(plan, outputs)


@given(flows(), st.sets(st.integers(0, 6)))
def test_steps_that_do_not_follow_a_held_step_run(
    random_plan: tuple[Plan, dict[str, Outputs]], numbers: set[int]
) -> None:
    """Runs all steps that follow no held one; after the held ones settle, every step ran once.

    See docs/design/approvals.md#held-changes.
    """
    plan, outputs = random_plan
    held = frozenset(f"s{number}" for number in numbers)
    order = FlowOrder(plan, entry="trigger")
    run, waiting = walked(order, outputs, held)
    assert run == modelled(plan, outputs, without=held)
    while waiting:
        for execution in reversed(waiting):
            order.settle(execution, outputs[execution.step.name])
        more, waiting = walked(order, outputs, held)
        run += more
    assert sorted(run) == sorted(modelled(plan, outputs))


@given(flows())
def test_each_execution_has_a_unique_iteration(random_plan: tuple[Plan, dict[str, Outputs]]) -> None:
    """Gives each execution its own iteration number, which begins with those of the enclosing loops.

    See docs/design/api/runs.md#step.
    """
    plan, outputs = random_plan
    order = FlowOrder(plan, entry="trigger")
    keys: set[tuple[str, str | None]] = set()
    while (execution := order.next()) is not None:
        key = (execution.step.name, execution.iteration)
        assert key not in keys
        keys.add(key)
        assert f"{execution.iteration}.".startswith("".join(f"{number}." for number in execution.path))
        order.settle(execution, outputs[execution.step.name])
