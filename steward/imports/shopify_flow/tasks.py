"""Triggers of flows with their objects and the store's topics; names of other tasks (imports 8.3, 10)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ADMIN: Final = "shopify::admin::"
FLOW: Final = "shopify::flow::"
SCHEDULED: Final = "shopify::flow::scheduled_time"
SHOP: Final = "shop"  # the root every flow has


@dataclass(frozen=True, slots=True)
class Started:
    """A trigger: what the origin calls it, the objects it brings, the topics that equal it.

    `wider` says what else starts it where no topic is quite the same. Of the values the origin hands over
    beside its objects, `told` are those that stand at a path of them, `lost` those no store event carries.
    """

    label: str
    roots: tuple[str, ...]
    topics: tuple[str, ...]
    wider: str = ""
    lost: tuple[str, ...] = ()
    told: Mapping[str, str] = field(default_factory=dict)


_STATUS = "It starts at every change of a product, whatever changed; its conditions are looked at each time."
_RISK = "It starts at every change of an order; its conditions are looked at each time."
_ORDER, _PRODUCT, _CUSTOMER = ("order",), ("product",), ("customer",)

# Names of tasks on the left, as in files behind `shopify::admin::`.
TRIGGERS: Final[Mapping[str, Started]] = {
    "order_created": Started("Order created", _ORDER, ("orders/create",)),
    "order_paid": Started("Order paid", _ORDER, ("orders/paid",)),
    "order_fulfilled": Started("Order fulfilled", _ORDER, ("orders/fulfilled",)),
    "order_cancelled": Started("Order canceled", _ORDER, ("orders/cancelled",)),
    "order_updated": Started("Order updated", _ORDER, ("orders/updated",)),
    "order_risk_analyzed": Started(
        "Order risk analyzed",
        _ORDER,
        ("orders/updated",),
        wider=_RISK,
        told={"orderRiskLevel": "order.riskLevel"},
    ),
    "refund_created": Started("Refund created", ("refund", "order"), ("refunds/create",)),
    "draft_order_created": Started("Draft order created", ("draftOrder",), ("draft_orders/create",)),
    "product_added": Started("Product added to store", _PRODUCT, ("products/create",)),
    "product_created": Started("Product created", _PRODUCT, ("products/create",)),
    "product_updated": Started("Product updated", _PRODUCT, ("products/update",)),
    "product_status_updated": Started(
        "Product status updated", _PRODUCT, ("products/update",), wider=_STATUS, lost=("oldStatus",)
    ),
    "product_variant_out_of_stock": Started(
        "Product variant out of stock", ("productVariant", "product"), ("variants/out_of_stock",)
    ),
    "product_variant_back_in_stock": Started(
        "Product variant back in stock", ("productVariant", "product"), ("variants/in_stock",)
    ),
    "customer_created": Started("Customer created", _CUSTOMER, ("customers/create",)),
    "customer_updated": Started("Customer updated", _CUSTOMER, ("customers/update",)),
    "customer_tags_added": Started(
        "Customer tags added", _CUSTOMER, ("customers/tags_added",), lost=("addedTags",)
    ),
    "fulfillment_created": Started("Fulfillment created", ("fulfillment", "order"), ("fulfillments/create",)),
    "return_requested": Started("Return requested", ("return",), ("returns/request",)),
    "collection_updated": Started("Collection updated", ("collection",), ("collections/update",)),
    "location_created": Started("Location created", ("location",), ("locations/create",)),
}


def started_by(task: str) -> Started | None:
    """The trigger of an id; None: it has no counterpart here."""
    return TRIGGERS.get(task.removeprefix(ADMIN)) if task.startswith(ADMIN) else None


def is_message(task: str) -> bool:
    """Whether a task that is not known here sends a message of some other service or of the store."""
    name = task.rpartition("::")[2]
    words = ("mail", "message", "sms", "slack", "notification", "alert")
    return name.startswith(("send_", "post_")) and any(word in name for word in words)


def label_of(task: str) -> str:
    """A label made of an id: `shopify::admin::add_order_tags` is “Add order tags”."""
    words = task.rpartition("::")[2].replace("_", " ").strip()
    return (words[:1].upper() + words[1:]) or "Step"


def camel(name: str) -> str:
    """The variable of a name: “Get order data” is getOrderData."""
    words = "".join(sign if sign.isalnum() else " " for sign in name).split()
    return "".join(word.capitalize() if place else word.lower() for place, word in enumerate(words))
