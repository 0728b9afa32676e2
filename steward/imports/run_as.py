"""Runs an import as an automation, which has its own plan from then on."""

from steward.automations import from_plan
from steward.automations.creation import CreatedAutomation
from steward.automations.from_plan import CreateWorkflowCommand
from steward.automations.rules import AutomationRules
from steward.database.engine.base import Tx
from steward.database.imports import records as imports
from steward.model.account import Actor
from steward.model.refusals import ValidationFailed


async def run_as(
    tx: Tx, actor: Actor, command: CreateWorkflowCommand, *, rules: AutomationRules
) -> CreatedAutomation:
    """Creates the automation. Raises NotFound, ValidationFailed, KeyReused, NotConnected."""
    record = await imports.get(tx, actor.org, command.import_id)
    if not record.supported or record.plan is None:
        message = (
            "Some steps of this import cannot run. Correct them where it comes from and import it again."
        )
        raise ValidationFailed(errors={"import_id": [message]})
    return await from_plan.create(tx, actor, command, source=record.source, plan=record.plan, rules=rules)
