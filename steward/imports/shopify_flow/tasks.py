"""The triggers of flows with their objects and store topics, and the labels of other tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_ADMIN: Final = "shopify::admin::"
FLOW: Final = "shopify::flow::"
SCHEDULED: Final = "shopify::flow::scheduled_time"
SHOP: Final = "shop"  # the root object that every flow has


@dataclass(frozen=True, slots=True)
class FlowTrigger:
    """A trigger: Shopify Flow's label, its objects, and the store topics that correspond to it.

    `wider` says what else starts it if no topic corresponds exactly. Among the values that Shopify Flow
    provides beside the objects, `paths_by_value` maps those found in the objects to their paths, and `lost`
    lists those that no store event contains.
    """

    label: str
    roots: tuple[str, ...]
    topics: tuple[str, ...]
    wider: str = ""
    lost: tuple[str, ...] = ()
    paths_by_value: Mapping[str, str] = field(default_factory=dict)


_STATUS = "It starts whenever a product changes, whatever changed; its conditions are checked each time."
_RISK = "It starts whenever an order changes; its conditions are checked each time."
_ORDER, _PRODUCT, _CUSTOMER = ("order",), ("product",), ("customer",)

# By task id without the prefix `shopify::admin::`.
TRIGGERS: Final[Mapping[str, FlowTrigger]] = {
    "order_created": FlowTrigger("Order created", _ORDER, ("orders/create",)),
    "order_paid": FlowTrigger("Order paid", _ORDER, ("orders/paid",)),
    "order_fulfilled": FlowTrigger("Order fulfilled", _ORDER, ("orders/fulfilled",)),
    "order_cancelled": FlowTrigger("Order canceled", _ORDER, ("orders/cancelled",)),
    "order_updated": FlowTrigger("Order updated", _ORDER, ("orders/updated",)),
    "order_risk_analyzed": FlowTrigger(
        "Order risk analyzed",
        _ORDER,
        ("orders/updated",),
        wider=_RISK,
        paths_by_value={"orderRiskLevel": "order.riskLevel"},
    ),
    "refund_created": FlowTrigger("Refund created", ("refund", "order"), ("refunds/create",)),
    "draft_order_created": FlowTrigger("Draft order created", ("draftOrder",), ("draft_orders/create",)),
    "product_added": FlowTrigger("Product added to store", _PRODUCT, ("products/create",)),
    "product_created": FlowTrigger("Product created", _PRODUCT, ("products/create",)),
    "product_updated": FlowTrigger("Product updated", _PRODUCT, ("products/update",)),
    "product_status_updated": FlowTrigger(
        "Product status updated", _PRODUCT, ("products/update",), wider=_STATUS, lost=("oldStatus",)
    ),
    "product_variant_out_of_stock": FlowTrigger(
        "Product variant out of stock", ("productVariant", "product"), ("variants/out_of_stock",)
    ),
    "product_variant_back_in_stock": FlowTrigger(
        "Product variant back in stock", ("productVariant", "product"), ("variants/in_stock",)
    ),
    "customer_created": FlowTrigger("Customer created", _CUSTOMER, ("customers/create",)),
    "customer_updated": FlowTrigger("Customer updated", _CUSTOMER, ("customers/update",)),
    "customer_tags_added": FlowTrigger(
        "Customer tags added", _CUSTOMER, ("customers/tags_added",), lost=("addedTags",)
    ),
    "fulfillment_created": FlowTrigger(
        "Fulfillment created", ("fulfillment", "order"), ("fulfillments/create",)
    ),
    "return_requested": FlowTrigger("Return requested", ("return",), ("returns/request",)),
    "collection_updated": FlowTrigger("Collection updated", ("collection",), ("collections/update",)),
    "location_created": FlowTrigger("Location created", ("location",), ("locations/create",)),
}


def started_by(task: str) -> FlowTrigger | None:
    """Returns the trigger for a task id, or None if it has no counterpart here."""
    return TRIGGERS.get(task.removeprefix(_ADMIN)) if task.startswith(_ADMIN) else None


def is_message(task: str) -> bool:
    """Returns whether an unsupported task sends a message, judged by its name."""
    name = task.rpartition("::")[2]
    words = ("mail", "message", "sms", "slack", "notification", "alert")
    return name.startswith(("send_", "post_")) and any(word in name for word in words)


def label_of(task: str) -> str:
    """Derives a label from an id: `shopify::admin::add_order_tags` becomes “Add order tags”."""
    words = task.rpartition("::")[2].replace("_", " ").strip()
    return (words[:1].upper() + words[1:]) or "Step"


def camel(name: str) -> str:
    """Derives a variable from a name: “Get order data” becomes getOrderData."""
    words = "".join(sign if sign.isalnum() else " " for sign in name).split()
    return "".join(word.capitalize() if index else word.lower() for index, word in enumerate(words))
