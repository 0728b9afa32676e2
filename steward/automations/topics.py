"""Topics of store events in plain words, and whether an automation listens; subscriptions are events/'s."""

from collections.abc import Sequence
from dataclasses import replace

from steward.model.automation import Automation, AutomationState
from steward.model.trigger import EventTrigger, Listening, Trigger

# The canonical topics of connectors 8.
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
    "checkouts/create": "a checkout is begun",
    "fulfillments/create": "a fulfilment is made",
    "returns/request": "a return is asked for",
    "draft_orders/create": "a draft order is created",
    "collections/update": "a collection is changed",
    "locations/create": "a location is added",
}


def topic_words(topics: Sequence[str]) -> str:
    """The topics as a sentence: "When an order is created or an order is paid" (contract 2.3)."""
    words = [_WORDS.get(topic, f"the store sends {topic}") for topic in topics]
    listed = ", ".join(words[:-1])
    return f"When {listed} or {words[-1]}" if listed else f"When {words[-1]}"


def shown_trigger(automation: Automation) -> Trigger:
    """The trigger with its words and whether it listens: off while the automation is not active."""
    trigger = automation.trigger
    if not isinstance(trigger, EventTrigger):
        return trigger
    is_active = automation.state is AutomationState.ACTIVE
    return replace(
        trigger,
        words=topic_words(trigger.topics),
        listening=Listening.NOT_YET if is_active else Listening.OFF,
    )
