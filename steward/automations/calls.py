"""Checks the workflows that a person chooses for the steps that call one.

A chosen workflow is copied into the plan of the automation (docs/design/imports-called.md).
"""

from collections.abc import Mapping
from typing import Any

from steward.automations.checks import RequestErrors
from steward.database.engine.base import Tx
from steward.database.imports import records as imports
from steward.model import plan_json
from steward.model.called import BELOW, called_name, chosen_calls, open_calls, with_chosen
from steward.model.ids import OrgId
from steward.model.json import JsonObject
from steward.model.plan import Plan, PlanStep
from steward.model.plan_json import ChosenPlan
from steward.model.refusals import NotFound
from steward.steps.workflow.step_types import MAX_SUB_WORKFLOW_DEPTH

MAX_CALLS = 20
_MAX_LISTED = 100
_SOURCE = "workflow_tool"
_FIELD = "calls"


async def choose(
    tx: Tx,
    org: OrgId,
    errors: RequestErrors,
    plan: JsonObject,
    own_import: str | None,
    requested: Mapping[str, Any],
) -> JsonObject:
    """Returns the stored plan with the chosen workflows in it; adds errors by step.

    `requested` has an import for each path: the step's name, below a chosen workflow behind its caller's.
    """
    if len(requested) > MAX_CALLS:
        errors.add(_FIELD, f"Choose at most {MAX_CALLS} workflows.")
        return plan
    before, chosen = plan_json.chosen_in(plan), dict[str, ChosenPlan]()
    for path in sorted(requested, key=lambda path: path.count(BELOW)):
        import_id = _import_id(requested[path])
        words = _why_refused(plan, path, import_id, own_import, chosen)
        if words is None and import_id is not None:
            called_plan = before.get(path)
            if called_plan is None or called_plan.import_id != import_id:
                called_plan = await _plan_of(tx, org, import_id)
            words = (
                None
                if called_plan is not None
                else "This organization has no n8n import with this id that can run."
            )
            if called_plan is not None:
                chosen[path] = called_plan
        if words is not None:
            errors.add(f"{_FIELD}.{path}", words)
    for path, words in _refused(plan, chosen).items():
        errors.add(f"{_FIELD}.{path}", words)
    return plan_json.with_chosen(plan, chosen)


def _import_id(choice: Any) -> str | None:
    if not isinstance(choice, Mapping) or choice.keys() != {"import_id"}:
        return None
    return choice["import_id"] if isinstance(choice["import_id"], str) else None


def _why_refused(
    plan: JsonObject,
    path: str,
    import_id: str | None,
    own_import: str | None,
    chosen: Mapping[str, ChosenPlan],
) -> str | None:
    """Returns the error in the choice of an import, or None."""
    if import_id is None:
        return "Give import_id, and nothing else."
    if path not in open_calls(plan_json.from_json(plan_json.with_chosen(plan, chosen))):
        return "This workflow has no step of that name that calls another one."
    outer_imports = [part.import_id for outer, part in chosen.items() if path.startswith(outer + BELOW)]
    if import_id in (own_import, *outer_imports):
        return "This workflow would call itself endlessly. Choose another one."
    if path.count(BELOW) >= MAX_SUB_WORKFLOW_DEPTH:
        return f"Workflows call each other at most {MAX_SUB_WORKFLOW_DEPTH} deep."
    return None


async def _plan_of(tx: Tx, org: OrgId, import_id: str) -> ChosenPlan | None:
    try:
        record = await imports.get(tx, org, import_id)
    except NotFound:
        return None
    if record.source != _SOURCE or not record.supported or record.plan is None:
        return None
    return ChosenPlan(import_id, record.name, record.plan)


def _refused(plan: JsonObject, chosen: Mapping[str, ChosenPlan]) -> Mapping[str, str]:
    """Returns the reasons why workflows cannot run inside their steps, by path."""
    refused: dict[str, str] = {}
    plans = {path: plan_json.from_json(part.plan) for path, part in chosen.items()}
    with_chosen(plan_json.from_json(plan_json.with_chosen(plan, {})), plans, refused=refused)
    return refused


async def callable_steps(tx: Tx, org: OrgId, stored: JsonObject) -> list[JsonObject]:
    """Returns the steps that call a workflow of another file, with the chosen and the proposed one.

    `proposed` is the one import of the name that the file has for the called workflow; null when none or
    several have it.
    """
    plan, chosen = plan_json.from_json(stored), plan_json.chosen_in(stored)
    paths = list(chosen_calls(plan))
    if not paths:
        return []
    stored_imports = await imports.listed(
        tx, org, source=_SOURCE, supported=True, after=None, limit=_MAX_LISTED
    )
    steps: list[JsonObject] = []
    for path in paths:
        requested_name = called_name(_step_at(plan, path))
        matching = [
            record.id for record in stored_imports if record.name.casefold() == requested_name.casefold()
        ]
        part = chosen.get(path)
        steps.append(
            {
                "step": path,
                "workflow": requested_name,
                "import_id": None if part is None else part.import_id,
                "name": None if part is None else part.name,
                "proposed": matching[0] if len(matching) == 1 else None,
            }
        )
    return steps


def _step_at(plan: Plan, path: str) -> PlanStep:
    """Returns the step at a path of `chosen_calls`."""
    for step in plan.steps:
        if step.name == path:
            return step
        called = plan.inner.get(step.name)
        if called is not None and path.startswith(step.name + BELOW):
            return _step_at(called, path.removeprefix(step.name + BELOW))
    raise KeyError(path)
