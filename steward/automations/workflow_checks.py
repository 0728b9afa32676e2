"""Checks of what a workflow's plan needs: its store, its trigger, and whether it may send."""

from steward.automations import checks
from steward.automations.checks import RequestedTrigger, RequestErrors
from steward.automations.rules import AutomationRules
from steward.database.accounts import organizations
from steward.database.engine.base import Tx
from steward.model.connection import Connection
from steward.model.ids import OrgId
from steward.model.trigger import EventTrigger, ScheduleTrigger, Trigger, TriggerKind


def trigger_of(faults: RequestErrors, requested: RequestedTrigger) -> Trigger:
    """Returns the trigger, checked by its shape only."""
    if requested.kind is TriggerKind.SCHEDULE:
        if requested.topics:
            faults.add("trigger.topics", "Topics belong to a trigger of kind event.")
        return ScheduleTrigger()
    if not 1 <= len(requested.topics) <= checks.MAX_TOPICS:
        faults.add("trigger.topics", f"Name 1 to {checks.MAX_TOPICS} topics.")
    if len(set(requested.topics)) != len(requested.topics):
        faults.add("trigger.topics", "Name each topic once.")
    for index, topic in enumerate(requested.topics):
        if not 1 <= len(topic) <= checks.LONGEST_TOPIC:
            faults.add(f"trigger.topics.{index}", f"A topic has 1 to {checks.LONGEST_TOPIC} characters.")
    return EventTrigger(requested.topics)


def check_topics(
    faults: RequestErrors, trigger: Trigger, store: Connection | None, rules: AutomationRules
) -> None:
    """Checks that the store can send each topic."""
    if not isinstance(trigger, EventTrigger) or store is None:
        return
    for topic in trigger.topics:
        if topic not in rules.topics_of(store):
            faults.add("trigger.topics", f"{store.name} cannot send {topic}.")


async def check_sending(tx: Tx, org: OrgId, faults: RequestErrors, *, is_ready: bool) -> None:
    """Checks that sends need no approval in this organization and that all steps are connected."""
    organization = await organizations.get(tx, org)
    if organization is None or not organization.send_without_approval:
        faults.add("send_mode", "This organization sends nothing without approval. Choose ask.")
    elif not is_ready:
        faults.add("send_mode", "Steps are still without a connection. Choose ask, and change it later.")
