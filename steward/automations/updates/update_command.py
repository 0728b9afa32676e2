"""Defines the fields of an update and checks their shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steward.automations import checks, workflow_checks
from steward.automations.checks import RequestedTrigger, RequestErrors
from steward.automations.rules import AutomationRules
from steward.model.automation import Automation, AutomationKind
from steward.model.connection import AutomationConnection
from steward.model.ids import AutomationId, IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.schedule import Cadence
from steward.model.trigger import Trigger, TriggerKind
from steward.scheduling.shape import NOT_BY_EVENTS
from steward.templates.base import Template


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
    variables: Mapping[str, str] | None = None
    send_mode: str | None = None

    @property
    def changes_home(self) -> bool:
        """Whether it sets the store or the connections."""
        return self.has_integration or self.connections is not None

    @property
    def changes_events(self) -> bool:
        """Whether it sets the events that start the automation, or the store that sends them."""
        return self.trigger is not None or self.has_integration


def check_shapes(
    errors: RequestErrors, command: UpdateCommand, before: Automation, rules: AutomationRules
) -> Automation:
    """Checks the shapes of the given fields, adding all errors; returns the requested automation."""
    template = rules.templates.get(before.template_id)
    changed = before if command.name is None else replace(before, name=command.name)
    changed = _check_start(errors, command, changed, template)
    if command.timezone is not None:
        checks.check_timezone(errors, command.timezone)
        changed = replace(changed, timezone=command.timezone)
    if before.kind is AutomationKind.WORKFLOW:
        return _check_workflow_shapes(errors, command, changed)
    own_fields = (
        ("bindings", command.bindings),
        ("accounts", command.accounts),
        ("calls", command.calls),
        ("variables", command.variables),
        ("send_mode", command.send_mode),
    )
    for name, field_value in own_fields:
        if field_value is not None:
            errors.add(name, "Only automations of imported workflows have this field.")
    if template is None:
        _refuse_template_fields(errors, command)
        return changed
    return _check_template_shapes(errors, command, before, changed, template)


def _refuse_template_fields(errors: RequestErrors, command: UpdateCommand) -> None:
    for name, is_given in (
        ("inputs", command.inputs is not None),
        ("template_version", command.template_version is not None),
        ("integration_id", command.has_integration),
        ("connections", command.connections is not None),
    ):
        if is_given:
            errors.add(name, "The template of this automation is no longer offered.")


def _check_template_shapes(
    errors: RequestErrors, command: UpdateCommand, before: Automation, changed: Automation, template: Template
) -> Automation:
    if command.template_version is not None and command.template_version != template.facts.template_version:
        errors.add(
            "template_version",
            f"The newest version of this template is {template.facts.template_version}. Send that number.",
        )
    changed = replace(changed, template_version=command.template_version or before.template_version)
    if command.inputs is not None or changed.template_version != before.template_version:
        given_inputs = before.inputs if command.inputs is None else command.inputs
        changed = replace(changed, inputs=checks.check_inputs(errors, template, given_inputs))
    if command.has_integration:
        checks.check_home(errors, template, command.integration_id)
        changed = replace(changed, integration_id=command.integration_id)
    if command.connections is not None:
        checks.check_connection_list(errors, template, command.connections)
        changed = replace(changed, connections=command.connections)
    return changed


def _check_workflow_shapes(errors: RequestErrors, command: UpdateCommand, changed: Automation) -> Automation:
    """Reports fields that a workflow does not have; returns it with the requested store."""
    if command.inputs:
        errors.add("inputs", "An imported workflow has no inputs.")
    if command.connections:
        errors.add("connections", "An imported workflow has no connections. Bind its steps instead.")
    if command.template_version not in (None, 1):
        errors.add("template_version", "The only version of an imported workflow is 1.")
    if command.has_integration:
        changed = replace(changed, integration_id=command.integration_id)
    return changed


def _check_start(
    errors: RequestErrors, command: UpdateCommand, changed: Automation, template: Template | None
) -> Automation:
    """Returns the automation with the requested schedule and trigger; adds errors if they do not fit.

    See docs/design/schedule.md#slot-rules, R12.
    """
    if command.trigger is not None:
        trigger = _check_trigger(errors, command.trigger, changed, template)
        if trigger.to_json() != changed.trigger.to_json():
            changed = replace(changed, trigger=trigger)
    is_event = changed.trigger.kind is TriggerKind.EVENT
    if command.schedule is not None:
        schedule = checks.check_schedule(errors, command.schedule, is_event_started=is_event)
        changed = changed if schedule is None else replace(changed, schedule=schedule)
    elif is_event and changed.schedule.cadence is not Cadence.MANUAL:
        errors.add("schedule.cadence", NOT_BY_EVENTS)
    return changed


def _check_trigger(
    errors: RequestErrors, requested: RequestedTrigger, automation: Automation, template: Template | None
) -> Trigger:
    """Returns the requested trigger; the automation's own if its template is no longer offered."""
    if automation.kind is AutomationKind.WORKFLOW:
        return workflow_checks.trigger_of(errors, requested)
    if template is None:
        errors.add("trigger", "The template of this automation is no longer offered.")
        return automation.trigger
    return checks.check_trigger(errors, template, requested)
