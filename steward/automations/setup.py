"""Creates an automation from a template, inputs and a schedule."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steward.automations import checks
from steward.automations.checks import BY_SCHEDULE, RequestedTrigger, RequestErrors
from steward.automations.creation import CreatedAutomation, insert_automation, replayed, store_key
from steward.automations.rules import AutomationRules
from steward.database.accounts import connections, organizations
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.model.account import Actor, maker
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.connection import AutomationConnection, Connection
from steward.model.ids import AutomationId, IntegrationId, OrgId, new_id
from steward.model.json import JsonObject, JsonValue
from steward.model.refusals import ValidationFailed
from steward.model.schedule import MANUAL, Cadence, Schedule
from steward.model.trigger import ScheduleTrigger, Trigger, TriggerKind
from steward.scheduling.spread import spread_minutes
from steward.scheduling.zones import zone
from steward.templates.base import NamedConnection, SetupContext, Template

WORKFLOW_TEMPLATE = "imported-workflow"
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class CreateCommand:
    """A requested automation; `schedule` is as it was sent, with the API's field names.

    `parsed_schedule` is `schedule` as the request handler has already parsed it; None if it has not.
    """

    template_id: str
    name: str
    inputs: JsonObject
    schedule: JsonValue
    integration_id: IntegrationId | None = None
    connections: tuple[AutomationConnection, ...] = ()
    timezone: str | None = None
    trigger: RequestedTrigger = BY_SCHEDULE
    idempotency_key: str | None = None
    parsed_schedule: Schedule | None = None

    def request_sha256(self) -> str:
        """Returns the hash of the request; equal requests have equal hashes."""
        schedule = self.schedule
        if isinstance(schedule, Mapping):  # absent and null mean the same in a create
            schedule = {name: value for name, value in schedule.items() if value is not None}
        fields = [
            self.template_id,
            self.name,
            checks.with_whole_numbers(self.inputs),
            checks.with_whole_numbers(schedule),
            self.integration_id,
            [[connection.integration_id, connection.kind] for connection in self.connections],
            self.timezone,
            self.trigger.kind.value,
            list(self.trigger.topics),
        ]
        return hashlib.sha256(_ENCODER.encode(fields).encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class _Checked:
    """The parsed parts of a request; an invalid schedule is replaced by `manual`."""

    template: Template
    inputs: JsonObject
    schedule: Schedule
    trigger: Trigger


@dataclass(frozen=True, slots=True)
class _Environment:
    """The records that an automation refers to: its store and connections; and its time zone."""

    store: Connection | None
    connections_by_id: Mapping[IntegrationId, Connection]
    timezone: str


async def create(
    tx: Tx, actor: Actor, command: CreateCommand, *, rules: AutomationRules
) -> CreatedAutomation:
    """Sets up an automation.

    Raises ValidationFailed (all errors at once), KeyReused, NotConnected.
    """
    errors = RequestErrors()
    checked = _check_shapes(errors, command, rules)
    if not errors.errors_by_path and (replay := await replayed(tx, actor, command)) is not None:
        return replay
    if checked is None:
        raise ValidationFailed(errors=errors.errors_by_path)
    context = await _check_records(tx, actor, command, checked, errors=errors, rules=rules)
    automation = _build(tx, actor, command, checked, context=context, rules=rules)
    if (replay := await store_key(tx, actor, command, automation)) is not None:
        return replay
    return CreatedAutomation(await insert_automation(tx, actor, automation), replayed=False)


async def draft_automation(
    tx: Tx, actor: Actor, command: CreateCommand, *, rules: AutomationRules
) -> Automation:
    """Returns the automation that `create` would set up; stores nothing.

    Raises ValidationFailed (all errors at once), NotConnected.
    """
    errors = RequestErrors()
    checked = _check_shapes(errors, command, rules)
    if checked is None:
        raise ValidationFailed(errors=errors.errors_by_path)
    context = await _check_records(tx, actor, command, checked, errors=errors, rules=rules)
    return _build(tx, actor, command, checked, context=context, rules=rules)


def _check_shapes(errors: RequestErrors, command: CreateCommand, rules: AutomationRules) -> _Checked | None:
    template = rules.templates.get(command.template_id)
    is_event = command.trigger.kind is TriggerKind.EVENT
    schedule = checks.check_schedule(
        errors, command.schedule, is_event_started=is_event, parsed=command.parsed_schedule
    )
    if command.timezone is not None:
        checks.check_timezone(errors, command.timezone)
    if template is None or command.template_id == WORKFLOW_TEMPLATE:
        errors.add("template_id", "There is no such template. Use an id from the list of templates.")
        return None
    inputs = checks.check_inputs(errors, template, command.inputs)
    trigger = checks.check_trigger(errors, template, command.trigger)
    checks.check_home(errors, template, command.integration_id)
    checks.check_connection_list(errors, template, command.connections)
    return _Checked(template, inputs, schedule or MANUAL, trigger)


async def _check_records(
    tx: Tx,
    actor: Actor,
    command: CreateCommand,
    checked: _Checked,
    *,
    errors: RequestErrors,
    rules: AutomationRules,
) -> _Environment:
    """Checks the request against the organization's records. Raises ValidationFailed, then NotConnected."""
    template, are_inputs_valid = checked.template, not errors.touches("inputs")
    named = template.connections_of(checked.inputs) if are_inputs_valid else ()
    needed = _connections_needed(command, named)
    ids = {*needed["integration_id"], *needed["connections"]}
    ids |= {reference.integration_id for reference in named}
    connections_by_id = await connections.among(tx, actor.org, ids) if ids else {}
    store = checks.store_of(command.integration_id, connections_by_id)
    if not errors.touches("integration_id"):
        checks.check_store(
            errors, template.facts.platforms, store, is_named=command.integration_id is not None
        )
    checks.check_reads(errors, template, command.connections, connections_by_id)
    # A store that was refused is left out, so that its channels and topics raise no further errors.
    accepted_store = None if errors.touches("integration_id") else store
    if are_inputs_valid:
        others = await _automations_named(tx, actor.org, checked)
        checks.check_named(
            errors, template, checked.inputs, SetupContext(accepted_store, connections_by_id, others)
        )
    if not errors.touches("trigger"):
        checks.check_topics(errors, template, checked.trigger, accepted_store, rules=rules)
    timezone = command.timezone or await default_zone(tx, actor, store)
    checks.check_day(errors, checked.schedule, timezone, tx.now)
    errors.refuse()
    checks.refuse_unconnected(needed, connections_by_id)
    return _Environment(store, connections_by_id, timezone)


def _connections_needed(
    command: CreateCommand, named: Iterable[NamedConnection]
) -> dict[str, list[IntegrationId]]:
    """Returns the connections the request names, by the path of the field."""
    return {
        "integration_id": [] if command.integration_id is None else [command.integration_id],
        "connections": [connection.integration_id for connection in command.connections],
        **{reference.path: [reference.integration_id] for reference in named},
    }


async def _automations_named(tx: Tx, org: OrgId, checked: _Checked) -> Mapping[AutomationId, Automation]:
    """Returns the other automations that the inputs name."""
    ids = checked.template.automations_of(checked.inputs)
    return await automations.among(tx, org, ids) if ids else {}


async def default_zone(tx: Tx, actor: Actor, store: Connection | None) -> str:
    """Returns the store's zone, else the organization's, else UTC."""
    if store is not None and store.zone is not None and zone(store.zone) is not None:
        return store.zone
    organization = await organizations.get(tx, actor.org)
    return organization.zone if organization is not None and zone(organization.zone) is not None else "UTC"


def _build(
    tx: Tx,
    actor: Actor,
    command: CreateCommand,
    checked: _Checked,
    *,
    context: _Environment,
    rules: AutomationRules,
) -> Automation:
    automation_id = AutomationId(new_id(tx.now))
    # An automation with an event trigger is created as a draft; resuming it starts its events.
    starts = checked.schedule.cadence is not Cadence.MANUAL and isinstance(checked.trigger, ScheduleTrigger)
    return Automation(
        org=actor.org,
        id=automation_id,
        version=1,
        kind=AutomationKind.TEMPLATE,
        import_id=None,
        template_id=checked.template.template_id,
        template_version=checked.template.facts.template_version,
        source=None,
        platform=None if context.store is None else context.store.kind,
        integration_id=command.integration_id,
        store_label=checks.label_of(context.store, command.connections, context.connections_by_id),
        name=command.name,
        state=AutomationState.ACTIVE if starts else AutomationState.DRAFT,
        paused_by=None,
        paused_reason=None,
        inputs=checked.inputs,
        schedule=checked.schedule,
        timezone=context.timezone,
        spread_minutes=spread_minutes(automation_id, rules.spread_max),
        trigger=checked.trigger,
        connections=command.connections,
        bindings={},
        send_mode=None,
        plan_version=None,
        next_run_at=None,
        last_run_at=None,
        consecutive_failures=0,
        created_at=tx.now,
        updated_at=tx.now,
        maker=maker(actor),
    )
