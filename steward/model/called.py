"""Called workflows: their effect on the calling step, and those that a person chose.

A called workflow runs inside its step, without rows of its own. It may read anywhere. What it changes or
sends is proposed as the step's own, so nothing inside may follow that: it would have to wait for the
decision.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from steward.model.json import JsonObject
from steward.model.plan import Plan, PlanStep, StepKind

_CALLING: Final = "executeWorkflow"
BELOW: Final = " › "  # between the names of a step and of a step in the workflow that it calls
_ACTS = (StepKind.CHANGE, StepKind.SEND)


class CannotBeCalled(Exception):
    """Raised for a workflow that cannot run inside a step; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def with_called(step: PlanStep, plan: Plan) -> PlanStep:
    """Returns the calling step with the kind and needs of its workflow. Raises CannotBeCalled."""
    origin = step.origin
    if origin is None:
        return step
    inside = plan.running()
    _check_no_wait(inside)
    kind = _kind(inside, plan) or step.kind
    needs, platform = _needs(inside)
    return replace(
        step,
        kind=kind,
        operation=f"{platform}.{step.operation}" if platform is not None else step.operation,
        origin=replace(
            origin,
            needs=needs,
            target=_target(inside) if needs not in (None, "store") else None,
            retry=None if kind in _ACTS else origin.retry,
        ),
    )


def with_chosen(
    plan: Plan, chosen: Mapping[str, Plan], above: str = "", *, refused: dict[str, str] | None = None
) -> Plan:
    """Returns the plan with the workflows chosen for its steps, by each step's path.

    Leaves out a workflow that cannot run inside its step, and adds the reason to `refused`.
    """
    steps: list[PlanStep] = []
    inner = dict(plan.inner)
    for step in plan.steps:
        path = above + step.name
        if is_open(step, plan) and path in chosen:
            below = with_chosen(chosen[path], chosen, path + BELOW, refused=refused)
            called = replace(below, is_chosen=True)
            try:
                steps.append(with_called(step, called))
            except CannotBeCalled as error:
                steps.append(step)
                if refused is not None:
                    refused[path] = error.message
            else:
                inner[step.name] = called
        else:
            steps.append(step)
    return replace(plan, steps=tuple(steps), inner=inner)


def is_open(step: PlanStep, plan: Plan) -> bool:
    """Returns whether the step calls a workflow that its file does not contain."""
    origin = step.origin
    return (
        origin is not None
        and origin.source_type == _CALLING
        and origin.supported
        and step.name not in plan.inner
    )


def open_calls(plan: Plan, above: str = "") -> Iterator[str]:
    """Yields the paths of running steps whose call has no chosen workflow, in plan order."""
    for step in plan.running():
        called = plan.inner.get(step.name)
        if is_open(step, plan):
            yield above + step.name
        elif called is not None and called.is_chosen:
            yield from open_calls(called, above + step.name + BELOW)


def chosen_calls(plan: Plan, above: str = "") -> Iterator[str]:
    """Yields the paths of running steps whose workflow a person chooses or has chosen."""
    for step in plan.running():
        called = plan.inner.get(step.name)
        if is_open(step, plan) or (called is not None and called.is_chosen):
            yield above + step.name
        if called is not None and called.is_chosen:
            yield from chosen_calls(called, above + step.name + BELOW)


def called_name(step: PlanStep) -> str:
    """Returns the name of the workflow that a step calls, else its id; empty if the file has neither."""
    workflow = step.config.get("workflowId")
    if isinstance(workflow, Mapping):
        workflow = workflow.get("cachedResultName") or workflow.get("value")
    return workflow if isinstance(workflow, str) else ""


def _check_no_wait(inside: Sequence[PlanStep]) -> None:
    for inner_step in inside:
        if inner_step.kind is StepKind.WAIT:
            message = f"{inner_step.name}: a called workflow does not wait here."
            raise CannotBeCalled(f"{message} Put its steps into this one.")


def _check_nothing_follows(acting: Sequence[PlanStep], plan: Plan) -> None:
    for inner_step in acting:
        follower = next((edge.target for edge in plan.edges if edge.source == inner_step.name), None)
        if follower is not None:
            message = f"{follower}: in a called workflow nothing comes after a step that changes or sends."
            raise CannotBeCalled(f"{message} Put its steps into this one.")


def _kind(inside: Sequence[PlanStep], plan: Plan) -> StepKind | None:
    acting = [inner_step for inner_step in inside if inner_step.kind in _ACTS]
    _check_nothing_follows(acting, plan)
    kinds = {inner_step.kind for inner_step in acting}
    if len(kinds) > 1:
        names = f"{acting[0].name} and {acting[-1].name}"
        message = (
            f"{names}: a called workflow changes a store or sends, not both. Put its steps into this one."
        )
        raise CannotBeCalled(message)
    reads = StepKind.READ if any(inner_step.kind is StepKind.READ for inner_step in inside) else None
    return next(iter(kinds), reads)


def _needs(inside: Sequence[PlanStep]) -> tuple[str | None, str | None]:
    """Returns the one kind of connection that the steps need, and the platform if it is a store."""
    needing = [
        inner_step
        for inner_step in inside
        if inner_step.origin is not None and inner_step.origin.needs is not None
    ]
    kinds = {inner_step.origin.needs for inner_step in needing if inner_step.origin is not None}
    platforms = {inner_step.operation.partition(".")[0] for inner_step in needing if "store" in kinds}
    if len(kinds) > 1 or len(platforms) > 1:
        message = f"{needing[-1].name}: a called workflow uses one connection. Put its steps into this one."
        raise CannotBeCalled(message)
    return next(iter(kinds), None), next(iter(platforms), None)


def _target(inside: Sequence[PlanStep]) -> JsonObject | None:
    """Returns the one document that the steps name, with its tab only if all steps name the same."""
    targets = [
        inner_step.origin.target
        for inner_step in inside
        if inner_step.origin is not None and inner_step.origin.target is not None
    ]
    documents = {target.get("spreadsheet_id") for target in targets}
    if len(documents) > 1:
        raise CannotBeCalled("A called workflow uses one spreadsheet. Put its steps into this one.")
    if all(target == targets[0] for target in targets):
        return targets[0] if targets else None
    return {"spreadsheet_id": next(iter(documents), None), "sheet": None}
