"""Update under a version: a given field replaces the whole field; pause and the like are lifecycle.py's."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steward.automations import checks, coming, due, from_plan, history, topics, workflows
from steward.automations.bindings import check_bindings
from steward.automations.checks import Faults, TriggerAsk
from steward.automations.due import Locked
from steward.automations.platforms import check_platform, lacking, platforms_of
from steward.automations.rules import AutomationRules
from steward.database.accounts import connections
from steward.database.automations import plans
from steward.database.automations import records as automations
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.model import kept_plan
from steward.model.account import Actor
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.connection import AutomationConnection, Connection
from steward.model.ids import AutomationId, IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan
from steward.model.refusals import StaleVersion, WrongState
from steward.model.schedule import Cadence
from steward.model.trigger import EventTrigger, TriggerKind
from steward.run_queue import ending
from steward.templates.base import SetupContext, Template


@dataclass(frozen=True, slots=True)
class UpdateAsk:
    """The fields of an update that were given (contract 2.2); None: not given.

    Every field but `integration_id` is never null on the wire; a null `integration_id` is
    `is_integration_given` with None.
    """

    automation: AutomationId
    version: int
    name: str | None = None
    inputs: JsonObject | None = None
    schedule: JsonValue = None
    timezone: str | None = None
    integration_id: IntegrationId | None = None
    is_integration_given: bool = False
    connections: tuple[AutomationConnection, ...] | None = None
    trigger: TriggerAsk | None = None
    template_version: int | None = None
    bindings: JsonObject | None = None
    send_mode: str | None = None

    @property
    def changes_home(self) -> bool:
        """Whether it says what the automation runs on or reads."""
        return self.is_integration_given or self.connections is not None


async def update(tx: Tx, actor: Actor, ask: UpdateAsk, *, rules: AutomationRules) -> Automation:
    """Changes an automation under the version last read (contract 2.2, 4.1).

    Raises NotFound, ValidationFailed, StaleVersion, WrongState (archived), NotConnected.
    """
    locked = await due.lock(tx, actor.org, ask.automation)
    before = locked.automation
    faults = Faults()
    wanted = _check_shapes(faults, ask, before, rules)
    faults.refuse()
    check_version(before, ask.version)
    if before.state is AutomationState.ARCHIVED:
        raise WrongState("This automation is archived. Restore it before you change it.")
    wanted = await _check_world(tx, ask, before, wanted, rules=rules)
    if before.kind is AutomationKind.WORKFLOW:
        wanted = await _check_workflow(tx, ask, before, wanted, rules=rules)
    if wanted == before:
        return before
    after = replace(wanted, state=_state(before, wanted), version=before.version + 1, updated_at=tx.now)
    if wanted.bindings != before.bindings:
        after = replace(after, plan_version=after.version)
    return await _write(tx, actor, locked, after, rules=rules)


def check_version(automation: Automation, version: int | None) -> None:
    """Raises StaleVersion with what is current when another version was read (interface 2.1)."""
    if version is not None and version != automation.version:
        raise StaleVersion(data={"occurrence": None, "automation": automation})


async def _write(
    tx: Tx, actor: Actor, locked: Locked, after: Automation, *, rules: AutomationRules
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
        await _supersede(tx, after)
    if begins_anew or before.integration_id != after.integration_id:
        await topics.follow(tx, after)
    if begins_anew:
        locked = await due.begin_slots(tx, Locked(after, locked.timing), slots_after=tx.now)
        return locked.automation
    return after


async def _supersede(tx: Tx, after: Automation) -> None:
    """The plan as it is bound now; what was asked or queued on an earlier one ends (engine 12, 15)."""
    kept = await plans.newest(tx, after.org, after.id)
    if kept is not None and after.plan_version is not None:
        version = after.plan_version
        await workflows.keep_plan(tx, after.org, after.id, version, kept.plan, after.bindings)
    await ending.end_queued(tx, after.org, after.id, how=ending.SUPERSEDED)
    await ending.end_waiting(tx, after.org, after.id, how=ending.SUPERSEDED)


def _start_of(automation: Automation) -> tuple[object, ...]:
    """What its slots follow from: when any of it changes, they begin anew (R15)."""
    return automation.state, automation.schedule, automation.timezone, automation.trigger.to_kept()


def _state(before: Automation, wanted: Automation) -> AutomationState:
    """The state after an update (contract 4.1)."""
    is_manual = wanted.schedule.cadence is Cadence.MANUAL
    is_event = isinstance(wanted.trigger, EventTrigger)
    if before.state is AutomationState.DRAFT and not is_manual:
        return AutomationState.ACTIVE
    if before.state is AutomationState.ACTIVE and is_manual and not is_event:
        return AutomationState.DRAFT
    return before.state


def _check_shapes(faults: Faults, ask: UpdateAsk, before: Automation, rules: AutomationRules) -> Automation:
    """The automation as asked for, by the shapes of the given fields; all faults at once."""
    template = rules.templates.get(before.template_id)
    wanted = before if ask.name is None else replace(before, name=ask.name)
    wanted = _check_start(faults, ask, wanted, template)
    if ask.timezone is not None:
        checks.check_timezone(faults, ask.timezone)
        wanted = replace(wanted, timezone=ask.timezone)
    if before.kind is AutomationKind.TEMPLATE:
        for name, given in (("bindings", ask.bindings), ("send_mode", ask.send_mode)):
            if given is not None:
                faults.add(name, "Only automations of imported workflows have this.")
    if before.kind is AutomationKind.WORKFLOW:
        return _check_workflow_shapes(faults, ask, wanted)
    if template is None:
        for name, is_given in (
            ("inputs", ask.inputs is not None),
            ("template_version", ask.template_version is not None),
            ("integration_id", ask.is_integration_given),
            ("connections", ask.connections is not None),
        ):
            if is_given:
                faults.add(name, "The template of this automation is no longer offered.")
        return wanted
    if ask.template_version is not None and ask.template_version != template.facts.template_version:
        faults.add("template_version", f"The newest version is {template.facts.template_version}.")
    wanted = replace(wanted, template_version=ask.template_version or before.template_version)
    if ask.inputs is not None or wanted.template_version != before.template_version:
        given_inputs = before.inputs if ask.inputs is None else ask.inputs
        wanted = replace(wanted, inputs=checks.check_inputs(faults, template, given_inputs))
    if ask.is_integration_given:
        checks.check_home(faults, template, ask.integration_id)
        wanted = replace(wanted, integration_id=ask.integration_id)
    if ask.connections is not None:
        checks.check_connection_list(faults, template, ask.connections)
        wanted = replace(wanted, connections=ask.connections)
    return wanted


def _check_workflow_shapes(faults: Faults, ask: UpdateAsk, wanted: Automation) -> Automation:
    """A workflow has no inputs, no template's version, and reads no connections but its bindings."""
    if ask.inputs:
        faults.add("inputs", "An imported workflow has no inputs.")
    if ask.connections:
        faults.add("connections", "An imported workflow takes no connections; bind its steps.")
    if ask.template_version not in (None, 1):
        faults.add("template_version", "The newest version is 1.")
    if ask.is_integration_given:
        wanted = replace(wanted, integration_id=ask.integration_id)
    return wanted


def _check_start(faults: Faults, ask: UpdateAsk, wanted: Automation, template: Template | None) -> Automation:
    """Schedule and trigger, which must fit each other (schedule.md R12)."""
    if ask.trigger is not None and wanted.kind is AutomationKind.WORKFLOW:
        trigger = from_plan.trigger_of(faults, ask.trigger)
        wanted = wanted if trigger.to_kept() == wanted.trigger.to_kept() else replace(wanted, trigger=trigger)
    elif ask.trigger is not None and template is None:
        faults.add("trigger", "The template of this automation is no longer offered.")
    elif ask.trigger is not None and template is not None:
        trigger = checks.check_trigger(faults, template, ask.trigger)
        if trigger.to_kept() != wanted.trigger.to_kept():
            wanted = replace(wanted, trigger=trigger)
    is_event = wanted.trigger.kind is TriggerKind.EVENT
    if ask.schedule is not None:
        schedule = checks.check_schedule(faults, ask.schedule, is_event_started=is_event)
        wanted = wanted if schedule is None else replace(wanted, schedule=schedule)
    elif is_event and wanted.schedule.cadence is not Cadence.MANUAL:
        faults.add("schedule.cadence", "Choose manual: store events start this automation, not a schedule.")
    return wanted


async def _check_world(
    tx: Tx, ask: UpdateAsk, before: Automation, wanted: Automation, *, rules: AutomationRules
) -> Automation:
    """What the organisation's records say about the given fields. Raises ValidationFailed, NotConnected."""
    faults = Faults()
    template = rules.templates.get(before.template_id)
    if (wanted.schedule, wanted.timezone) != (before.schedule, before.timezone):
        checks.check_day(faults, wanted.schedule, wanted.timezone, tx.now)  # R11
    if template is None:
        faults.refuse()
        return wanted
    known = await _known(tx, wanted, template)
    store = None if wanted.integration_id is None else known.get(wanted.integration_id)
    needed: dict[str, list[IntegrationId]] = {}
    if ask.is_integration_given and wanted.integration_id is not None:
        platforms = (before.platform,) if before.platform is not None else template.facts.platforms
        checks.check_store(faults, platforms, store, is_named=True)
        needed["integration_id"] = [wanted.integration_id]
    # As at set-up: what cannot be run on has no channels or topics to find fault with.
    fitting = None if faults.touches("integration_id") else store
    if ask.connections is not None:
        checks.check_reads(faults, template, ask.connections, known)
        needed["connections"] = [one.integration_id for one in ask.connections]
    if ask.inputs is not None or ask.changes_home or ask.template_version is not None:
        beside = template.automations_of(wanted.inputs)
        others = await automations.among(tx, before.org, beside) if beside else {}
        named = checks.check_named(faults, template, wanted.inputs, SetupContext(fitting, known, others))
        if ask.inputs is not None:
            needed |= {path: [one] for path, one in named.items()}
    if ask.trigger is not None or ask.is_integration_given:
        checks.check_topics(faults, template, wanted.trigger, fitting, rules=rules)
    faults.refuse()
    checks.refuse_unconnected(_changed(needed, before, wanted), known)
    if ask.changes_home:
        label = checks.label_of(store, wanted.connections, known)
        if (wanted.integration_id, wanted.connections) != (before.integration_id, before.connections):
            wanted = replace(wanted, store_label=label)
    return wanted


async def _check_workflow(
    tx: Tx, ask: UpdateAsk, before: Automation, wanted: Automation, *, rules: AutomationRules
) -> Automation:
    """Bindings, store, topics and send mode of a workflow. Raises ValidationFailed, NotConnected."""
    faults = Faults()
    kept = await plans.newest(tx, before.org, before.id)
    plan = Plan((), ()) if kept is None else kept_plan.from_kept(kept.plan)
    bindings = before.bindings if ask.bindings is None else ask.bindings
    ids = workflows.integrations_in(bindings)
    ids |= set() if wanted.integration_id is None else {wanted.integration_id}
    known = await connections.among(tx, before.org, ids) if ids else {}
    store = None if wanted.integration_id is None else known.get(wanted.integration_id)
    if ask.is_integration_given and wanted.integration_id != before.integration_id:
        platforms = platforms_of(plan) or (() if before.platform is None else (before.platform,))
        if wanted.integration_id is None or not platforms:
            faults.add("integration_id", "What this workflow runs on cannot be taken away or added.")
        elif store is not None and lacking(plan, store.kind):
            check_platform(faults, plan, store)
        else:
            checks.check_store(faults, platforms, store, is_named=True)
    if isinstance(wanted.trigger, EventTrigger) and (ask.trigger is not None or ask.is_integration_given):
        from_plan.check_topics(faults, wanted.trigger, store, rules)
    if ask.bindings is not None:
        bindings = check_bindings(faults, plan, ask.bindings, known)
    mode = ask.send_mode or before.send_mode
    missing = workflows.unconfigured(plan, bindings, store, known)
    if ask.send_mode == "send" and before.send_mode != "send":
        await from_plan.check_sending(tx, before.org, faults, is_ready=not missing)
    faults.refuse()
    if ask.is_integration_given and wanted.integration_id not in (None, before.integration_id):
        checks.refuse_unconnected({"integration_id": [wanted.integration_id]}, known)
    label = wanted.store_label if store is None else store.name
    return replace(wanted, bindings=bindings, send_mode=mode, store_label=label)


def _changed(
    needed: Mapping[str, list[IntegrationId]], before: Automation, wanted: Automation
) -> dict[str, list[IntegrationId]]:
    """Of the connections the given fields name, those of fields that really change.

    A body that changes nothing answers 200 (contract 2.2), also while a store is not connected.
    """
    same = {
        "integration_id": wanted.integration_id == before.integration_id,
        "connections": wanted.connections == before.connections,
        "inputs": wanted.inputs == before.inputs,
    }
    return {path: ids for path, ids in needed.items() if not same[path.partition(".")[0]]}


async def _known(tx: Tx, wanted: Automation, template: Template) -> Mapping[IntegrationId, Connection]:
    ids = {one.integration_id for one in wanted.connections}
    ids |= {named.integration_id for named in template.connections_of(wanted.inputs)}
    ids |= set() if wanted.integration_id is None else {wanted.integration_id}
    return await connections.among(tx, wanted.org, ids) if ids else {}
