"""Creates a workflow automation from a plan, a schedule and bindings."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.automations import calls, checks, creation, setup, workflows
from steward.automations.bindings import check_bound
from steward.automations.checks import BY_SCHEDULE, RequestedTrigger, RequestErrors
from steward.automations.creation import CreatedAutomation
from steward.automations.platforms import check_chosen_store
from steward.automations.rules import AutomationRules
from steward.automations.setup import WORKFLOW_TEMPLATE
from steward.automations.workflow_checks import check_sending, check_topics, trigger_of, with_variables
from steward.database.engine.base import Tx
from steward.model import plan_json
from steward.model.account import Actor, maker
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.connection import Connection
from steward.model.ids import AutomationId, IntegrationId, new_id
from steward.model.json import JsonObject, JsonValue
from steward.model.schedule import MANUAL, Cadence, Schedule
from steward.model.trigger import ScheduleTrigger, Trigger, TriggerKind
from steward.scheduling.spread import spread_minutes


@dataclass(frozen=True, slots=True)
class CreateWorkflowCommand:
    """Requests an automation that runs the plan of an import."""

    import_id: str
    name: str
    schedule: JsonValue
    integration_id: IntegrationId | None = None
    timezone: str | None = None
    trigger: RequestedTrigger = BY_SCHEDULE
    bindings: Mapping[str, Any] = field(default_factory=dict)
    accounts: Mapping[str, Any] = field(default_factory=dict)
    calls: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    send_mode: str = "ask"
    idempotency_key: str | None = None

    def request_sha256(self) -> str:
        """Returns the hash of the request; equal requests have equal hashes."""
        schedule = self.schedule
        if isinstance(schedule, Mapping):
            schedule = {name: value for name, value in schedule.items() if value is not None}
        fields = checks.with_whole_numbers(
            [
                "workflow",
                self.import_id,
                self.name,
                schedule,
                self.integration_id,
                self.timezone,
                self.trigger.kind.value,
                list(self.trigger.topics),
                dict(self.bindings),
                dict(self.accounts),
                self.send_mode,
                *([dict(self.calls)] if self.calls else []),
                *([{"variables": dict(self.variables)}] if self.variables else []),
            ]
        )
        text = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


async def create(
    tx: Tx,
    actor: Actor,
    command: CreateWorkflowCommand,
    *,
    source: str,
    plan: JsonObject,
    rules: AutomationRules,
) -> CreatedAutomation:
    """Sets up a workflow automation that runs `plan`, which is stored with it; `source` names its tool.

    Raises ValidationFailed (all errors at once), KeyReused, NotConnected.
    """
    errors = RequestErrors()
    is_event = command.trigger.kind is TriggerKind.EVENT
    schedule = checks.check_schedule(errors, command.schedule, is_event_started=is_event) or MANUAL
    if command.timezone is not None:
        checks.check_timezone(errors, command.timezone)
    trigger = trigger_of(errors, command.trigger)
    if not errors.errors_by_path and (replay := await creation.replayed(tx, actor, command)) is not None:
        return replay
    stored_plan = await calls.choose(tx, actor.org, errors, plan, command.import_id, command.calls)
    stored_plan = with_variables(errors, stored_plan, command.variables)
    steps = plan_json.from_json(stored_plan)
    connections_by_id = await workflows.connections_of(
        tx, actor.org, [command.bindings, command.accounts], command.integration_id
    )
    store = checks.store_of(command.integration_id, connections_by_id)
    is_by_event = command.trigger.kind is TriggerKind.EVENT
    check_chosen_store(
        errors, steps, store, is_chosen=command.integration_id is not None, is_by_event=is_by_event
    )
    check_topics(errors, trigger, store, rules)
    bindings = check_bound(errors, steps, command.bindings, command.accounts, connections_by_id)
    timezone = command.timezone or await setup.default_zone(tx, actor, store)
    checks.check_day(errors, schedule, timezone, tx.now)
    if command.send_mode == "send":
        missing = workflows.unconfigured(steps, bindings, store, connections_by_id)
        await check_sending(tx, actor.org, errors, is_ready=not missing and not steps.unset_variables())
    errors.refuse()
    if command.integration_id is not None:
        checks.refuse_unconnected({"integration_id": [command.integration_id]}, connections_by_id)
    automation = _build(tx, actor, command, source, schedule, trigger, store, bindings, timezone, rules)
    if (replay := await creation.store_key(tx, actor, command, automation)) is not None:
        return replay
    inserted = await creation.insert_automation(tx, actor, automation)
    await workflows.store_plan(tx, actor.org, automation.id, 1, stored_plan, bindings)
    return CreatedAutomation(inserted, replayed=False)


def _build(
    tx: Tx,
    actor: Actor,
    command: CreateWorkflowCommand,
    source: str,
    schedule: Schedule,
    trigger: Trigger,
    store: Connection | None,
    bindings: JsonObject,
    timezone: str,
    rules: AutomationRules,
) -> Automation:
    automation_id = AutomationId(new_id(tx.now))
    starts = schedule.cadence is not Cadence.MANUAL and isinstance(trigger, ScheduleTrigger)
    return Automation(
        org=actor.org,
        id=automation_id,
        version=1,
        kind=AutomationKind.WORKFLOW,
        import_id=command.import_id,
        template_id=WORKFLOW_TEMPLATE,
        template_version=1,
        source=source,
        platform=None if store is None else store.kind,
        integration_id=command.integration_id,
        store_label="" if store is None else store.name,
        name=command.name,
        state=AutomationState.ACTIVE if starts else AutomationState.DRAFT,
        paused_by=None,
        paused_reason=None,
        inputs={},
        schedule=schedule,
        timezone=timezone,
        spread_minutes=spread_minutes(automation_id, rules.spread_max),
        trigger=trigger,
        connections=(),
        bindings=bindings,
        send_mode=command.send_mode,
        plan_version=1,
        next_run_at=None,
        last_run_at=None,
        consecutive_failures=0,
        created_at=tx.now,
        updated_at=tx.now,
        maker=maker(actor),
    )
