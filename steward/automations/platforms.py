"""Decides which stores an imported plan runs on, and which of a flow's steps they do not support."""

from steward.automations.checks import PLATFORM_NAMES, RequestErrors, check_store
from steward.model import plan_json
from steward.model.connection import Connection
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import DataMode, Plan, PlanStep
from steward.steps.shopify_flow.hydrate import UNREAD
from steward.steps.shopify_flow.types import FLOW_TYPES
from steward.templates.parts.messages import STORES

_MAX_NAMED = 5  # steps in one refusal


def platforms_of(plan: Plan) -> tuple[str, ...]:
    """Returns the store platforms a plan can run on; empty when it needs no store."""
    if plan.mode is DataMode.ENVIRONMENT:
        if not _is_on_store(plan):
            return ()
        return tuple(platform for platform in STORES if not unsupported_parts(plan, platform))
    platforms = {
        step.operation.partition(".")[0]
        for step in plan_json.needed(plan)
        if step.origin is not None and step.origin.needs == "store"
    }
    return tuple(sorted(platforms))


def _is_on_store(plan: Plan) -> bool:
    """Returns whether a flow reads or changes anything of a store."""
    if plan.variables:
        return True
    return any(_supported_stores(step.origin.source_type) for step in _steps(plan) if step.origin)


def unsupported_parts(plan: Plan, platform: str) -> list[Finding]:
    """Returns errors for the parts of a flow that a platform does not support; none for other plans."""
    if plan.mode is not DataMode.ENVIRONMENT:
        return []
    name = PLATFORM_NAMES.get(platform, platform)
    findings = []
    for step in _steps(plan):
        stores = _supported_stores(step.origin.source_type) if step.origin is not None else None
        if stores is not None and platform not in stores:
            message = f"It has no counterpart in {name}. Run it on another store, or remove the step."
            findings.append(Finding(step.name, FindingLevel.ERROR, "node_type", message))
    paths = _unsupported_paths(plan, platform)
    if paths:
        named = ", ".join(f"“{path[:80]}”" for path in paths[:_MAX_NAMED])
        more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
        message = f"It uses {named}{more}, which cannot be read from {name}. Run it on another store."
        findings.append(Finding(None, FindingLevel.ERROR, "parameter", message))
    return findings


def check_chosen_store(
    errors: RequestErrors, plan: Plan, store: Connection | None, *, is_chosen: bool, is_by_event: bool
) -> None:
    """Checks the store of a new workflow, which is chosen when its plan or its trigger needs one."""
    platforms = platforms_of(plan)
    names = [PLATFORM_NAMES.get(platform, platform) for platform in platforms]
    needs_store = bool(platforms) or is_by_event
    if len(platforms) > 1 and plan.mode is not DataMode.ENVIRONMENT:
        message = f"Its steps use {' and '.join(names)}, but a workflow can run on only one store."
        errors.add("integration_id", message)
    elif needs_store and not is_chosen:
        errors.add("integration_id", "Choose the store it runs on.")
    elif is_chosen and not needs_store:
        errors.add("integration_id", "No step of this workflow needs a store. Leave integration_id out.")
    elif store is not None and store.kind in STORES and unsupported_parts(plan, store.kind):
        check_platform(errors, plan, store)
    else:
        check_store(errors, platforms or STORES, store, is_named=needs_store)


def check_platform(errors: RequestErrors, plan: Plan, store: Connection) -> None:
    """Checks that a flow's steps have counterparts on the store's platform; reports those that have none."""
    findings = unsupported_parts(plan, store.kind)
    names = [f"“{finding.step}”" for finding in findings if finding.step is not None]
    if names:
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        message = f"These steps have no counterpart in {PLATFORM_NAMES.get(store.kind, store.kind)}: "
        errors.add("integration_id", f"{message}{', '.join(names[:_MAX_NAMED])}{more}.")
    for finding in findings:
        if finding.step is None:
            errors.add("integration_id", finding.message)


def _steps(plan: Plan) -> list[PlanStep]:
    return [
        step
        for step in plan.steps
        if step.origin is not None and step.origin.reachable and not step.origin.disabled
    ]


def _supported_stores(task: str) -> frozenset[str] | None:
    kind = FLOW_TYPES.get(task)
    return None if kind is None else kind.stores


def _unsupported_paths(plan: Plan, platform: str) -> list[str]:
    """Returns the paths that a flow reads and that the platform's objects do not have."""
    aliases = {step.origin.alias for step in plan.steps if step.origin is not None}
    unread_paths = UNREAD.get(platform)
    if unread_paths is None:
        return []
    return [
        path
        for variable in plan.variables
        if variable.root not in aliases
        for path in unread_paths(variable.root, variable.paths)
    ]
