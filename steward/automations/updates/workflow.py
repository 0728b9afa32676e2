"""Checks an update of a workflow: bindings, accounts, calls, variables, store. Stores its new plan."""

from dataclasses import dataclass, replace

from steward.automations import (
    calls,
    checks,
    history,
    workflow_checks,
    workflows,
)
from steward.automations.bindings import accounts_of, bindings_of, check_bound
from steward.automations.checks import RequestErrors
from steward.automations.platforms import check_platform, platforms_of, unsupported_parts
from steward.automations.rules import AutomationRules
from steward.automations.updates.update_command import UpdateCommand
from steward.database.automations import plans
from steward.database.automations.history import FieldEdit
from steward.database.engine.base import Tx
from steward.model import plan_json
from steward.model.automation import Automation
from steward.model.connection import Connection
from steward.model.json import JsonObject
from steward.model.plan import Plan
from steward.run_queue import ending


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A plan with other called workflows or values of variables, and the values that differ."""

    plan: JsonObject
    edits: list[FieldEdit]


async def check_plan(tx: Tx, command: UpdateCommand, before: Automation) -> PlanChange | None:
    """Returns the plan with other called workflows or values; None if it stays. Raises ValidationFailed."""
    if command.calls is None and command.variables is None:
        return None
    stored_plan = await plans.newest(tx, before.org, before.id)
    if stored_plan is None:
        return None
    errors, plan = RequestErrors(), stored_plan.plan
    if command.calls is not None:
        plan = await calls.choose(tx, before.org, errors, plan, before.import_id, command.calls)
    plan = workflow_checks.with_variables(errors, plan, command.variables)
    errors.refuse()
    edits = history.value_edits(plan_json.values_in(stored_plan.plan), plan_json.values_in(plan))
    is_same = workflows.chosen_imports(plan) == workflows.chosen_imports(stored_plan.plan)
    return None if is_same and not edits else PlanChange(plan, edits)


async def check_workflow(
    tx: Tx,
    command: UpdateCommand,
    before: Automation,
    changed: Automation,
    stored_plan: JsonObject | None,
    *,
    rules: AutomationRules,
) -> Automation:
    """Checks an update's bindings, store, topics and send mode; returns the automation with them.

    Raises ValidationFailed, NotConnected.
    """
    errors = RequestErrors()
    plan = await _newest_plan(tx, before) if stored_plan is None else plan_json.from_json(stored_plan)
    requested = (command.bindings or {}, command.accounts or {})
    connections_by_id = await workflows.connections_of(
        tx, before.org, [before.bindings, *requested], changed.integration_id
    )
    store = checks.store_of(changed.integration_id, connections_by_id)
    is_moved = _is_moved(command, before)
    if is_moved:
        _check_workflow_store(errors, plan, before, changed, store)
    if command.changes_events:
        workflow_checks.check_topics(errors, changed.trigger, store, rules)
    bindings = check_bound(errors, plan, *requested, connections_by_id)
    bindings = {**_untouched(command, before), **bindings}
    if _starts_sending(command, before):
        missing = workflows.unconfigured(plan, bindings, store, connections_by_id)
        is_ready = not missing and not plan.unset_variables()
        await workflow_checks.check_sending(tx, before.org, errors, is_ready=is_ready)
    errors.refuse()
    if is_moved and changed.integration_id is not None:
        checks.refuse_unconnected({"integration_id": [changed.integration_id]}, connections_by_id)
    changed = changed if store is None else replace(changed, store_label=store.name)
    return replace(changed, bindings=bindings, send_mode=command.send_mode or before.send_mode)


def _untouched(command: UpdateCommand, before: Automation) -> JsonObject:
    """Returns the connections of steps that the update does not name."""
    untouched: JsonObject = {}
    if command.bindings is None:
        untouched = {**untouched, **bindings_of(before.bindings)}
    if command.accounts is None:
        accounts = accounts_of(before.bindings)
        untouched = {**untouched, **{name: before.bindings[name] for name in accounts}}
    return untouched


def _starts_sending(command: UpdateCommand, before: Automation) -> bool:
    return command.send_mode == "send" and before.send_mode != "send"


def _is_moved(command: UpdateCommand, before: Automation) -> bool:
    return command.has_integration and command.integration_id != before.integration_id


def _check_workflow_store(
    errors: RequestErrors, plan: Plan, before: Automation, changed: Automation, store: Connection | None
) -> None:
    """Checks that the workflow can run on the other store."""
    platforms = platforms_of(plan) or (() if before.platform is None else (before.platform,))
    if changed.integration_id is None or not platforms:
        errors.add("integration_id", "The store of this workflow can be replaced, but not added or removed.")
    elif store is not None and unsupported_parts(plan, store.kind):
        check_platform(errors, plan, store)
    else:
        checks.check_store(errors, platforms, store, is_named=True)


async def _newest_plan(tx: Tx, automation: Automation) -> Plan:
    stored_plan = await plans.newest(tx, automation.org, automation.id)
    return Plan((), ()) if stored_plan is None else plan_json.from_json(stored_plan.plan)


async def supersede(tx: Tx, after: Automation, plan: JsonObject | None) -> None:
    """Stores the automation's plan, or `plan` in its place, with the current bindings as `plan_version`.

    Ends queued runs and runs that wait for approval as superseded.
    """
    stored_plan = await plans.newest(tx, after.org, after.id)
    if stored_plan is not None and after.plan_version is not None:
        version, fresh_plan = after.plan_version, stored_plan.plan if plan is None else plan
        await workflows.store_plan(tx, after.org, after.id, version, fresh_plan, after.bindings)
    await ending.end_queued(tx, after.org, after.id, ending=ending.SUPERSEDED)
    await ending.end_waiting(tx, after.org, after.id, ending=ending.SUPERSEDED)
