"""Checks the trigger, topics and variables of a workflow, and whether it may send without approval."""

from collections.abc import Mapping

from steward.automations import checks
from steward.automations.checks import RequestedTrigger, RequestErrors
from steward.automations.rules import AutomationRules
from steward.database.accounts import organizations
from steward.database.engine.base import Tx
from steward.model import plan_json
from steward.model.connection import Connection
from steward.model.ids import OrgId
from steward.model.json import JsonObject
from steward.model.trigger import EventTrigger, ScheduleTrigger, Trigger, TriggerKind


def trigger_of(errors: RequestErrors, requested: RequestedTrigger) -> Trigger:
    """Returns the trigger, checked by its shape only."""
    if requested.kind is TriggerKind.SCHEDULE:
        if requested.topics:
            errors.add("trigger.topics", "Only a trigger of kind event has topics. Leave them out.")
        return ScheduleTrigger()
    if not 1 <= len(requested.topics) <= checks.MAX_TOPICS:
        errors.add("trigger.topics", f"Name 1 to {checks.MAX_TOPICS} topics.")
    if len(set(requested.topics)) != len(requested.topics):
        errors.add("trigger.topics", "Name each topic once.")
    for index, topic in enumerate(requested.topics):
        if not 1 <= len(topic) <= checks.LONGEST_TOPIC:
            errors.add(f"trigger.topics.{index}", f"A topic has 1 to {checks.LONGEST_TOPIC} characters.")
    return EventTrigger(requested.topics)


def check_topics(
    errors: RequestErrors, trigger: Trigger, store: Connection | None, rules: AutomationRules
) -> None:
    """Checks that the store can send each topic."""
    if not isinstance(trigger, EventTrigger) or store is None:
        return
    for topic in trigger.topics:
        if topic not in rules.topics_of(store):
            errors.add("trigger.topics", f"{store.name} cannot send {topic}.")


def with_variables(
    errors: RequestErrors, stored_plan: JsonObject, requested: Mapping[str, str] | None
) -> JsonObject:
    """Returns the stored plan with the requested values of the variables of n8n that it reads.

    None keeps the values of those that it still reads. Adds errors for names of other variables.
    """
    names = {variable.name for variable in plan_json.from_json(stored_plan).all_n8n_variables()}
    values = plan_json.values_in(stored_plan) if requested is None else requested
    for name in (requested or {}).keys() - names:
        errors.add(f"variables.{name}", "This workflow reads no variable of that name.")
    return plan_json.with_values(
        stored_plan, {name: value for name, value in values.items() if name in names}
    )


async def check_sending(tx: Tx, org: OrgId, errors: RequestErrors, *, is_ready: bool) -> None:
    """Checks that sends need no approval in this organization and that all steps are connected."""
    organization = await organizations.get(tx, org)
    if organization is None or not organization.send_without_approval:
        message = "This organization requires approval for every message."
        errors.add("send_mode", f"{message} Set send_mode to ask.")
    elif not is_ready:
        message = "Some steps still have no connection, or some variables no value."
        errors.add("send_mode", f"{message} Set send_mode to ask, and change it later.")
