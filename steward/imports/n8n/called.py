"""What a step that calls a workflow is: of the class, and with the needs, of the steps inside.

The called workflow runs inside its step, without rows of its own. It may read anywhere; what it changes or
sends is proposed as the step's own, so nothing inside may come after it: that would have to wait for the
decision.
"""

from collections.abc import Sequence
from dataclasses import replace

from steward.imports.content import Unreadable
from steward.imports.reach import running
from steward.model.json import JsonObject
from steward.model.plan import Plan, PlanStep, StepKind

_ACTS = (StepKind.CHANGE, StepKind.SEND)


def with_called(step: PlanStep, plan: Plan) -> PlanStep:
    """The calling step as it is with this workflow inside. Raises Unreadable for one that cannot be."""
    origin = step.origin
    if origin is None:
        return step
    inside = running(plan)
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


def _check_no_wait(inside: Sequence[PlanStep]) -> None:
    for inner_step in inside:
        if inner_step.kind is StepKind.WAIT:
            words = f"{inner_step.name}: a called workflow does not wait here."
            raise Unreadable(f"{words} Put its steps into this one.")


def _check_nothing_follows(acting: Sequence[PlanStep], plan: Plan) -> None:
    for inner_step in acting:
        follower = next((edge.target for edge in plan.edges if edge.source == inner_step.name), None)
        if follower is not None:
            words = f"{follower}: in a called workflow nothing comes after a step that changes or sends."
            raise Unreadable(f"{words} Put its steps into this one.")


def _kind(inside: Sequence[PlanStep], plan: Plan) -> StepKind | None:
    acting = [inner_step for inner_step in inside if inner_step.kind in _ACTS]
    _check_nothing_follows(acting, plan)
    kinds = {inner_step.kind for inner_step in acting}
    if len(kinds) > 1:
        names = f"{acting[0].name} and {acting[-1].name}"
        words = f"{names}: a called workflow changes a store or sends, not both. Put its steps into this one."
        raise Unreadable(words)
    reads = StepKind.READ if any(inner_step.kind is StepKind.READ for inner_step in inside) else None
    return next(iter(kinds), reads)


def _needs(inside: Sequence[PlanStep]) -> tuple[str | None, str | None]:
    """The one kind of connection it needs, and of a store which."""
    needing = [
        inner_step
        for inner_step in inside
        if inner_step.origin is not None and inner_step.origin.needs is not None
    ]
    kinds = {inner_step.origin.needs for inner_step in needing if inner_step.origin is not None}
    platforms = {inner_step.operation.partition(".")[0] for inner_step in needing if "store" in kinds}
    if len(kinds) > 1 or len(platforms) > 1:
        words = f"{needing[-1].name}: a called workflow uses one connection. Put its steps into this one."
        raise Unreadable(words)
    return next(iter(kinds), None), next(iter(platforms), None)


def _target(inside: Sequence[PlanStep]) -> JsonObject | None:
    """The one document its steps name; of a tab only where all name the same."""
    targets = [
        inner_step.origin.target
        for inner_step in inside
        if inner_step.origin is not None and inner_step.origin.target is not None
    ]
    documents = {target.get("spreadsheet_id") for target in targets}
    if len(documents) > 1:
        raise Unreadable("A called workflow uses one spreadsheet. Put its steps into this one.")
    if all(target == targets[0] for target in targets):
        return targets[0] if targets else None
    return {"spreadsheet_id": next(iter(documents), None), "sheet": None}
