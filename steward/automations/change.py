"""Updates an automation under its version: a field of the request replaces the whole field."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steward.automations import calls, checks, coming, due, from_plan, history, topics, workflows
from steward.automations.bindings import accounts_of, bindings_of, check_bound
from steward.automations.checks import RequestedTrigger, RequestErrors
from steward.automations.due import LockedAutomation
from steward.automations.platforms import check_platform, lacking, platforms_of
from steward.automations.rules import AutomationRules
from steward.database.accounts import connections
from steward.database.automations import plans
from steward.database.automations import records as automations
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.model import plan_json
from steward.model.account import Actor
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.connection import AutomationConnection, Connection
from steward.model.ids import AutomationId, IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan
from steward.model.refusals import StaleVersion, WrongState
from steward.model.schedule import Cadence
from steward.model.trigger import EventTrigger, Trigger, TriggerKind
from steward.run_queue import ending
from steward.templates.base import SetupContext, Template


@dataclass(frozen=True, slots=True)
class UpdateCommand:
    """The fields of an update that were given; None: not given.

    Every field but `integration_id` is never null on the wire; a null `integration_id` is
    `has_integration` with None.
    """

    automation: AutomationId
    version: int
    name: str | None = None
    inputs: JsonObject | None = None
    schedule: JsonValue = None
    timezone: str | None = None
    integration_id: IntegrationId | None = None
    has_integration: bool = False
    connections: tuple[AutomationConnection, ...] | None = None
    trigger: RequestedTrigger | None = None
    template_version: int | None = None
    bindings: JsonObject | None = None
    accounts: JsonObject | None = None
    calls: JsonObject | None = None
    send_mode: str | None = None

    @property
    def changes_home(self) -> bool:
        """Whether it says what the automation runs on or reads."""
        return self.has_integration or self.connections is not None

    @property
    def changes_events(self) -> bool:
        """Whether it says which events start the automation, or what store they come from."""
        return self.trigger is not None or self.has_integration


async def update(tx: Tx, actor: Actor, command: UpdateCommand, *, rules: AutomationRules) -> Automation:
    """Changes an automation under the version last read.

    Raises NotFound, ValidationFailed, StaleVersion, WrongState (archived), NotConnected.
    """
    locked = await due.lock(tx, actor.org, command.automation)
    before = locked.automation
    faults = RequestErrors()
    changed = _check_shapes(faults, command, before, rules)
    faults.refuse()
    check_version(before, command.version)
    if before.state is AutomationState.ARCHIVED:
        raise WrongState("This automation is archived. Restore it before you change it.")
    changed = await _check_world(tx, command, before, changed, rules=rules)
    plan = None
    if before.kind is AutomationKind.WORKFLOW:
        plan = await _check_calls(tx, command, before)
        changed = await _check_workflow(tx, command, before, changed, plan, rules=rules)
    if changed == before and plan is None:
        return before
    after = replace(changed, state=_state(before, changed), version=before.version + 1, updated_at=tx.now)
    if changed.bindings != before.bindings or plan is not None:
        after = replace(after, plan_version=after.version)
    return await _write(tx, actor, locked, after, plan, rules=rules)


def check_version(automation: Automation, version: int | None) -> None:
    """Raises StaleVersion with what is current when another version was read."""
    if version is not None and version != automation.version:
        raise StaleVersion(data={"occurrence": None, "automation": automation})


async def _write(
    tx: Tx,
    actor: Actor,
    locked: LockedAutomation,
    after: Automation,
    plan: JsonObject | None,
    *,
    rules: AutomationRules,
) -> Automation:
    before = locked.automation
    begins_anew = _start_of(before) != _start_of(after)
    if begins_anew:
        locked = await due.decide_due(tx, locked, rules=rules)
        await coming.drop_for_change(tx, locked, after)
    if await automations.save(tx, before.org, after, was=before.version) == 0:
        current = await automations.get(tx, before.org, before.id)
        raise StaleVersion(data={"occurrence": None, "automation": current})
    await history.note(tx, actor, after, action=HistoryAction.CHANGED, fields=history.edits(before, after))
    if after.plan_version != before.plan_version:
        await _supersede(tx, after, plan)
    if begins_anew or before.integration_id != after.integration_id:
        await topics.follow(tx, after)
    if begins_anew:
        locked = await due.begin_slots(tx, LockedAutomation(after, locked.timing), slots_after=tx.now)
        return locked.automation
    return after


async def _supersede(tx: Tx, after: Automation, plan: JsonObject | None) -> None:
    """Stores the plan as it is bound now, `plan` if it is another; what is asked on an earlier one ends."""
    stored_plan = await plans.newest(tx, after.org, after.id)
    if stored_plan is not None and after.plan_version is not None:
        version, fresh_plan = after.plan_version, stored_plan.plan if plan is None else plan
        await workflows.keep_plan(tx, after.org, after.id, version, fresh_plan, after.bindings)
    await ending.end_queued(tx, after.org, after.id, how=ending.SUPERSEDED)
    await ending.end_waiting(tx, after.org, after.id, how=ending.SUPERSEDED)


def _start_of(automation: Automation) -> tuple[object, ...]:
    """Returns what the slots depend on: when a part of it changes, they begin again (R15)."""
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


def _check_shapes(
    faults: RequestErrors, command: UpdateCommand, before: Automation, rules: AutomationRules
) -> Automation:
    """Checks the shapes of the given fields, all faults at once; returns the requested automation."""
    template = rules.templates.get(before.template_id)
    changed = before if command.name is None else replace(before, name=command.name)
    changed = _check_start(faults, command, changed, template)
    if command.timezone is not None:
        checks.check_timezone(faults, command.timezone)
        changed = replace(changed, timezone=command.timezone)
    if before.kind is AutomationKind.WORKFLOW:
        return _check_workflow_shapes(faults, command, changed)
    own_fields = (
        ("bindings", command.bindings),
        ("accounts", command.accounts),
        ("calls", command.calls),
        ("send_mode", command.send_mode),
    )
    for name, field_value in own_fields:
        if field_value is not None:
            faults.add(name, "Only automations of imported workflows have this.")
    if template is None:
        _refuse_template_fields(faults, command)
        return changed
    return _check_template_shapes(faults, command, before, changed, template)


def _refuse_template_fields(faults: RequestErrors, command: UpdateCommand) -> None:
    for name, is_given in (
        ("inputs", command.inputs is not None),
        ("template_version", command.template_version is not None),
        ("integration_id", command.has_integration),
        ("connections", command.connections is not None),
    ):
        if is_given:
            faults.add(name, "The template of this automation is no longer offered.")


def _check_template_shapes(
    faults: RequestErrors, command: UpdateCommand, before: Automation, changed: Automation, template: Template
) -> Automation:
    if command.template_version is not None and command.template_version != template.facts.template_version:
        faults.add("template_version", f"The newest version is {template.facts.template_version}.")
    changed = replace(changed, template_version=command.template_version or before.template_version)
    if command.inputs is not None or changed.template_version != before.template_version:
        given_inputs = before.inputs if command.inputs is None else command.inputs
        changed = replace(changed, inputs=checks.check_inputs(faults, template, given_inputs))
    if command.has_integration:
        checks.check_home(faults, template, command.integration_id)
        changed = replace(changed, integration_id=command.integration_id)
    if command.connections is not None:
        checks.check_connection_list(faults, template, command.connections)
        changed = replace(changed, connections=command.connections)
    return changed


def _check_workflow_shapes(faults: RequestErrors, command: UpdateCommand, changed: Automation) -> Automation:
    """Reports fields that a workflow does not have; returns it with the requested store."""
    if command.inputs:
        faults.add("inputs", "An imported workflow has no inputs.")
    if command.connections:
        faults.add("connections", "An imported workflow takes no connections; bind its steps.")
    if command.template_version not in (None, 1):
        faults.add("template_version", "The newest version is 1.")
    if command.has_integration:
        changed = replace(changed, integration_id=command.integration_id)
    return changed


def _check_start(
    faults: RequestErrors, command: UpdateCommand, changed: Automation, template: Template | None
) -> Automation:
    """Schedule and trigger, which must fit each other (schedule.md R12)."""
    if command.trigger is not None:
        trigger = _check_trigger(faults, command.trigger, changed, template)
        if trigger.to_json() != changed.trigger.to_json():
            changed = replace(changed, trigger=trigger)
    is_event = changed.trigger.kind is TriggerKind.EVENT
    if command.schedule is not None:
        schedule = checks.check_schedule(faults, command.schedule, is_event_started=is_event)
        changed = changed if schedule is None else replace(changed, schedule=schedule)
    elif is_event and changed.schedule.cadence is not Cadence.MANUAL:
        faults.add("schedule.cadence", "Choose manual: store events start this automation, not a schedule.")
    return changed


def _check_trigger(
    faults: RequestErrors, requested: RequestedTrigger, automation: Automation, template: Template | None
) -> Trigger:
    """Returns the trigger as asked for; the automation's when its template is no longer offered."""
    if automation.kind is AutomationKind.WORKFLOW:
        return from_plan.trigger_of(faults, requested)
    if template is None:
        faults.add("trigger", "The template of this automation is no longer offered.")
        return automation.trigger
    return checks.check_trigger(faults, template, requested)


async def _check_world(
    tx: Tx, command: UpdateCommand, before: Automation, changed: Automation, *, rules: AutomationRules
) -> Automation:
    """Checks the given fields against the organization's records. Raises ValidationFailed, NotConnected."""
    faults = RequestErrors()
    template = rules.templates.get(before.template_id)
    if (changed.schedule, changed.timezone) != (before.schedule, before.timezone):
        checks.check_day(faults, changed.schedule, changed.timezone, tx.now)  # R11
    if template is None:
        faults.refuse()
        return changed
    connections_by_id = await _connections_of(tx, changed, template)
    store = checks.store_of(changed.integration_id, connections_by_id)
    needed: dict[str, list[IntegrationId]] = {}
    if command.has_integration and changed.integration_id is not None:
        checks.check_store(faults, _platforms_of(before, template), store, is_named=True)
        needed["integration_id"] = [changed.integration_id]
    # As at set-up: what cannot be run on has no channels or topics to find fault with.
    fitting = None if faults.touches("integration_id") else store
    if command.connections is not None:
        checks.check_reads(faults, template, command.connections, connections_by_id)
        needed["connections"] = [connection.integration_id for connection in command.connections]
    needed |= await _check_named(tx, faults, command, changed, template, fitting, connections_by_id)
    if command.changes_events:
        checks.check_topics(faults, template, changed.trigger, fitting, rules=rules)
    faults.refuse()
    checks.refuse_unconnected(_changed(needed, before, changed), connections_by_id)
    if (changed.integration_id, changed.connections) != (before.integration_id, before.connections):
        label = checks.label_of(store, changed.connections, connections_by_id)
        changed = replace(changed, store_label=label)
    return changed


def _platforms_of(automation: Automation, template: Template) -> tuple[str, ...]:
    return template.facts.platforms if automation.platform is None else (automation.platform,)


async def _check_named(
    tx: Tx,
    faults: RequestErrors,
    command: UpdateCommand,
    changed: Automation,
    template: Template,
    store: Connection | None,
    connections_by_id: Mapping[IntegrationId, Connection],
) -> dict[str, list[IntegrationId]]:
    """Checks what the inputs name, and returns the connections that given inputs name, by path."""
    if command.inputs is None and not command.changes_home and command.template_version is None:
        return {}
    beside = template.automations_of(changed.inputs)
    others = await automations.among(tx, changed.org, beside) if beside else {}
    context = SetupContext(store, connections_by_id, others)
    named = checks.check_named(faults, template, changed.inputs, context)
    return {} if command.inputs is None else {path: [integration] for path, integration in named.items()}


async def _check_calls(tx: Tx, command: UpdateCommand, before: Automation) -> JsonObject | None:
    """Returns the plan with other called workflows; None if those stay. Raises ValidationFailed."""
    stored_plan = await plans.newest(tx, before.org, before.id)
    if command.calls is None or stored_plan is None:
        return None
    faults = RequestErrors()
    plan = await calls.choose(tx, before.org, faults, stored_plan.plan, before.import_id, command.calls)
    faults.refuse()
    is_same = workflows.chosen_imports(plan) == workflows.chosen_imports(stored_plan.plan)
    return None if is_same else plan


async def _check_workflow(
    tx: Tx,
    command: UpdateCommand,
    before: Automation,
    changed: Automation,
    stored_plan: JsonObject | None,
    *,
    rules: AutomationRules,
) -> Automation:
    """Bindings, store, topics and send mode of a workflow. Raises ValidationFailed, NotConnected."""
    faults = RequestErrors()
    plan = await _newest_plan(tx, before) if stored_plan is None else plan_json.from_json(stored_plan)
    requested = (command.bindings or {}, command.accounts or {})
    connections_by_id = await workflows.connections_of(
        tx, before.org, [before.bindings, *requested], changed.integration_id
    )
    store = checks.store_of(changed.integration_id, connections_by_id)
    is_moved = _is_moved(command, before)
    if is_moved:
        _check_workflow_store(faults, plan, before, changed, store)
    if command.changes_events:
        from_plan.check_topics(faults, changed.trigger, store, rules)
    bindings = check_bound(faults, plan, *requested, connections_by_id)
    bindings = {**_untouched(command, before), **bindings}
    if _starts_sending(command, before):
        missing = workflows.unconfigured(plan, bindings, store, connections_by_id)
        await from_plan.check_sending(tx, before.org, faults, is_ready=not missing)
    faults.refuse()
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
    faults: RequestErrors, plan: Plan, before: Automation, changed: Automation, store: Connection | None
) -> None:
    """Checks that the workflow can run on the other store."""
    platforms = platforms_of(plan) or (() if before.platform is None else (before.platform,))
    if changed.integration_id is None or not platforms:
        faults.add("integration_id", "What this workflow runs on cannot be taken away or added.")
    elif store is not None and lacking(plan, store.kind):
        check_platform(faults, plan, store)
    else:
        checks.check_store(faults, platforms, store, is_named=True)


async def _newest_plan(tx: Tx, automation: Automation) -> Plan:
    stored_plan = await plans.newest(tx, automation.org, automation.id)
    return Plan((), ()) if stored_plan is None else plan_json.from_json(stored_plan.plan)


def _changed(
    needed: Mapping[str, list[IntegrationId]], before: Automation, changed: Automation
) -> dict[str, list[IntegrationId]]:
    """Returns the connections named by those fields whose values differ from before.

    A body that changes nothing answers 200, also while a store is not connected.
    """
    same = {
        "integration_id": changed.integration_id == before.integration_id,
        "connections": changed.connections == before.connections,
        "inputs": changed.inputs == before.inputs,
    }
    return {path: ids for path, ids in needed.items() if not same[path.partition(".")[0]]}


async def _connections_of(
    tx: Tx, changed: Automation, template: Template
) -> Mapping[IntegrationId, Connection]:
    ids = {connection.integration_id for connection in changed.connections}
    ids |= {named.integration_id for named in template.connections_of(changed.inputs)}
    ids |= set() if changed.integration_id is None else {changed.integration_id}
    return await connections.among(tx, changed.org, ids) if ids else {}
