"""Updates an automation under its version: a field of the request replaces the whole field."""

from dataclasses import replace

from steward.automations import coming, due, history, next_runs, topics
from steward.automations.checks import RequestErrors, check_version
from steward.automations.due_slots import LockedAutomation
from steward.automations.rules import AutomationRules
from steward.automations.updates.referenced_records import check_records
from steward.automations.updates.update_command import UpdateCommand, check_shapes
from steward.automations.updates.workflow import PlanChange, check_plan, check_workflow, supersede
from steward.database.automations import records as automations
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.model.account import Actor
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.refusals import StaleVersion, WrongState
from steward.model.schedule import Cadence
from steward.model.trigger import EventTrigger


async def update(tx: Tx, actor: Actor, command: UpdateCommand, *, rules: AutomationRules) -> Automation:
    """Changes an automation under the version last read.

    Raises NotFound, ValidationFailed, StaleVersion, WrongState (archived), NotConnected.
    """
    locked = await next_runs.lock(tx, actor.org, command.automation)
    before = locked.automation
    errors = RequestErrors()
    changed = check_shapes(errors, command, before, rules)
    errors.refuse()
    check_version(before, command.version)
    if before.state is AutomationState.ARCHIVED:
        raise WrongState("This automation is archived. Restore it before you change it.")
    changed = await check_records(tx, command, before, changed, rules=rules)
    plan_change = None
    if before.kind is AutomationKind.WORKFLOW:
        plan_change = await check_plan(tx, command, before)
        plan = None if plan_change is None else plan_change.plan
        changed = await check_workflow(tx, command, before, changed, plan, rules=rules)
    if changed == before and plan_change is None:
        return before
    after = replace(changed, state=_state(before, changed), version=before.version + 1, updated_at=tx.now)
    if changed.bindings != before.bindings or plan_change is not None:
        after = replace(after, plan_version=after.version)
    return await _write(tx, actor, locked, after, plan_change, rules=rules)


async def _write(
    tx: Tx,
    actor: Actor,
    locked: LockedAutomation,
    after: Automation,
    plan_change: PlanChange | None,
    *,
    rules: AutomationRules,
) -> Automation:
    before = locked.automation
    edits = history.edits(before, after) + ([] if plan_change is None else plan_change.edits)
    begins_anew = _start_of(before) != _start_of(after)
    if begins_anew:
        locked = await due.decide_due(tx, locked, rules=rules)
        await coming.drop_for_change(tx, locked, after)
    if await automations.save(tx, before.org, after, expected_version=before.version) == 0:
        current = await automations.get(tx, before.org, before.id)
        raise StaleVersion(data={"occurrence": None, "automation": current})
    await history.add_entry(tx, actor, after, action=HistoryAction.CHANGED, fields=edits)
    if after.plan_version != before.plan_version:
        await supersede(tx, after, None if plan_change is None else plan_change.plan)
    if begins_anew or before.integration_id != after.integration_id:
        await topics.update_subscription(tx, after)
    if begins_anew:
        locked = await next_runs.begin_slots(tx, LockedAutomation(after, locked.timing), slots_after=tx.now)
        return locked.automation
    return after


def _start_of(automation: Automation) -> tuple[object, ...]:
    """Returns the fields that slots depend on: if one changes, the slots begin again.

    See docs/design/schedule.md#slot-rules, R15.
    """
    return automation.state, automation.schedule, automation.timezone, automation.trigger.to_json()


def _state(before: Automation, changed: Automation) -> AutomationState:
    """Returns the state after an update."""
    is_manual = changed.schedule.cadence is Cadence.MANUAL
    is_event = isinstance(changed.trigger, EventTrigger)
    if before.state is AutomationState.DRAFT and not is_manual:
        return AutomationState.ACTIVE
    if before.state is AutomationState.ACTIVE and is_manual and not is_event:
        return AutomationState.DRAFT
    return before.state
