"""What a step that calls a workflow is: of the class, and with the needs, of the steps inside (imports 6).

The called workflow runs inside its step, without rows of its own. It may read anywhere; what it changes or
sends is proposed as the step's own, so nothing inside may come after it: that would have to wait for the
decision.
"""

from collections.abc import Sequence
from dataclasses import replace

from steward.imports.content import Unreadable
from steward.model.json import JsonObject
from steward.model.plan import Plan, PlanStep, StepKind

_ACTS = (StepKind.CHANGE, StepKind.SEND)


def with_called(step: PlanStep, plan: Plan) -> PlanStep:
    """The calling step as it is with this workflow inside. Raises Unreadable for one that cannot be."""
    inside = [
        one
        for one in plan.steps
        if one.origin is not None and not one.origin.disabled and one.origin.reachable
    ]
    origin = step.origin
    if origin is None:
        return step
    waiting = next((one.name for one in inside if one.kind is StepKind.WAIT), None)
    if waiting is not None:
        raise Unreadable(f"{waiting}: a called workflow does not wait here. Put its steps into this one.")
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


def _kind(inside: Sequence[PlanStep], plan: Plan) -> StepKind | None:
    acting = [one for one in inside if one.kind in _ACTS]
    for one in acting:
        behind = next((edge.target for edge in plan.edges if edge.source == one.name), None)
        if behind is not None:
            words = f"{behind}: in a called workflow nothing comes after a step that changes or sends."
            raise Unreadable(f"{words} Put its steps into this one.")
    kinds = {one.kind for one in acting}
    if len(kinds) > 1:
        names = f"{acting[0].name} and {acting[-1].name}"
        words = f"{names}: a called workflow changes a store or sends, not both. Put its steps into this one."
        raise Unreadable(words)
    reads = StepKind.READ if any(one.kind is StepKind.READ for one in inside) else None
    return next(iter(kinds), reads)


def _needs(inside: Sequence[PlanStep]) -> tuple[str | None, str | None]:
    """The one kind of connection it needs, and of a store which."""
    needing = [one for one in inside if one.origin is not None and one.origin.needs is not None]
    kinds = {one.origin.needs for one in needing if one.origin is not None}
    platforms = {one.operation.partition(".")[0] for one in needing if "store" in kinds}
    if len(kinds) > 1 or len(platforms) > 1:
        words = f"{needing[-1].name}: a called workflow uses one connection. Put its steps into this one."
        raise Unreadable(words)
    return next(iter(kinds), None), next(iter(platforms), None)


def _target(inside: Sequence[PlanStep]) -> JsonObject | None:
    """The one document its steps name; of a tab only where all name the same."""
    targets = [
        one.origin.target for one in inside if one.origin is not None and one.origin.target is not None
    ]
    documents = {target.get("spreadsheet_id") for target in targets}
    if len(documents) > 1:
        raise Unreadable("A called workflow uses one spreadsheet. Put its steps into this one.")
    if all(target == targets[0] for target in targets):
        return targets[0] if targets else None
    return {"spreadsheet_id": next(iter(documents), None), "sheet": None}
