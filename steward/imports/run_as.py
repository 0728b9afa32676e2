"""Runs an import as an automation: a plan of its own, kept with it from then on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.automations import from_plan
from steward.automations.checks import BY_SCHEDULE, TriggerAsk
from steward.automations.from_plan import WorkflowAsk
from steward.automations.rules import AutomationRules
from steward.automations.setup import Created
from steward.database.engine.base import Tx
from steward.database.imports import records as imports
from steward.model.account import Actor
from steward.model.ids import IntegrationId
from steward.model.json import JsonValue
from steward.model.refusals import ValidationFailed


@dataclass(frozen=True, slots=True)
class RunAsAsk:
    """An automation of an import as asked for."""

    import_id: str
    name: str
    schedule: JsonValue
    integration_id: IntegrationId | None = None
    timezone: str | None = None
    trigger: TriggerAsk = BY_SCHEDULE
    bindings: Mapping[str, Any] = field(default_factory=dict)
    accounts: Mapping[str, Any] = field(default_factory=dict)
    calls: Mapping[str, Any] = field(default_factory=dict)
    send_mode: str = "ask"
    idempotency_key: str | None = None


async def run_as(tx: Tx, actor: Actor, ask: RunAsAsk, *, rules: AutomationRules) -> Created:
    """Sets up the automation. Raises NotFound, ValidationFailed, KeyReused, NotConnected."""
    record = await imports.get(tx, actor.org, ask.import_id)
    if not record.supported or record.plan is None:
        words = "Some steps of this import cannot run. Correct them where it comes from and import it again."
        raise ValidationFailed(errors={"import_id": [words]})
    command = WorkflowAsk(
        import_id=record.id,
        source=record.source,
        plan=record.plan,
        name=ask.name,
        schedule=ask.schedule,
        integration_id=ask.integration_id,
        timezone=ask.timezone,
        trigger=ask.trigger,
        bindings=ask.bindings,
        accounts=ask.accounts,
        calls=ask.calls,
        send_mode=ask.send_mode,
        idempotency_key=ask.idempotency_key,
    )
    return await from_plan.create(tx, actor, command, rules=rules)
