"""Describes topics of store events in plain words, and stores which topics start which automations."""

from collections.abc import Sequence
from dataclasses import replace

from steward.database.engine.base import Tx
from steward.database.events import subscriptions
from steward.model.automation import Automation, AutomationState
from steward.model.trigger import EventTrigger, Listening, Trigger

# Plain words for canonical topics (connectors/base/deliveries.py, TopicSpec).
_WORDS = {
    "orders/create": "an order is created",
    "orders/updated": "an order is changed",
    "orders/paid": "an order is paid",
    "orders/fulfilled": "an order is fulfilled",
    "orders/cancelled": "an order is cancelled",
    "orders/delete": "an order is deleted",
    "refunds/create": "a refund is made",
    "products/create": "a product is created",
    "products/update": "a product is changed",
    "products/delete": "a product is deleted",
    "inventory_levels/update": "a stock level changes",
    "variants/out_of_stock": "a variant goes out of stock",
    "variants/in_stock": "a variant is in stock again",
    "customers/create": "a customer is created",
    "customers/update": "a customer is changed",
    "customers/delete": "a customer is deleted",
    "customers/tags_added": "a customer is tagged",
    "discounts/create": "a discount is created",
    "discounts/update": "a discount is changed",
    "discounts/delete": "a discount is deleted",
    "checkouts/create": "a checkout is started",
    "fulfillments/create": "a fulfilment is made",
    "returns/request": "a return is requested",
    "draft_orders/create": "a draft order is created",
    "collections/update": "a collection is changed",
    "locations/create": "a location is added",
}


def _topic_words(topics: Sequence[str]) -> str:
    """Returns the topics as a sentence: "When an order is created or an order is paid"."""
    words = [_WORDS.get(topic, f"the store sends {topic}") for topic in topics]
    listed = ", ".join(words[:-1])
    return f"When {listed} or {words[-1]}" if listed else f"When {words[-1]}"


def shown_trigger(automation: Automation) -> Trigger:
    """Returns the trigger with its words and listening state, which is off unless active."""
    trigger = automation.trigger
    if not isinstance(trigger, EventTrigger):
        return trigger
    if automation.state is AutomationState.ACTIVE:
        # An automation that has just become active still has the listening state of before.
        listening = Listening.NOT_YET if trigger.listening is Listening.OFF else trigger.listening
        return replace(trigger, words=_topic_words(trigger.topics), listening=listening)
    return replace(trigger, words=_topic_words(trigger.topics), listening=Listening.OFF, reason=None)


async def update_subscription(tx: Tx, automation: Automation) -> None:
    """Starts or ends the subscription of a saved automation to its store's topics.

    Only writes rows: the `listen` task asks the store. Requires that queued runs are ended afterwards, so
    that no event starts a run of the automation after that.
    """
    trigger, integration = automation.trigger, automation.integration_id
    is_active = automation.state is AutomationState.ACTIVE
    if is_active and isinstance(trigger, EventTrigger) and integration is not None:
        await subscriptions.set_topics(
            tx, automation.org, automation.id, integration=integration, topics=trigger.topics
        )
    else:
        await subscriptions.clear_topics(tx, automation.org, automation.id)
