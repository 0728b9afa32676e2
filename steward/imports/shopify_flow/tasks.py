"""Triggers of flows with their objects and the store's topics; names of other tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_ADMIN: Final = "shopify::admin::"
FLOW: Final = "shopify::flow::"
SCHEDULED: Final = "shopify::flow::scheduled_time"
SHOP: Final = "shop"  # the root every flow has


@dataclass(frozen=True, slots=True)
class FlowTrigger:
    """A trigger: what Shopify Flow calls it, the objects it brings, the topics that equal it.

    `wider` says what else starts it where no topic is quite the same. Of the values Shopify Flow hands over
    beside its objects, `paths_by_value` has those found at a path of the objects, `lost` those that no store
    event carries.
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

# Names of tasks on the left, as in files behind `shopify::admin::`.
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
    """Returns the trigger of an id; None: it has no counterpart here."""
    return TRIGGERS.get(task.removeprefix(_ADMIN)) if task.startswith(_ADMIN) else None


def is_message(task: str) -> bool:
    """Returns whether the name of an unsupported task says that it sends a message."""
    name = task.rpartition("::")[2]
    words = ("mail", "message", "sms", "slack", "notification", "alert")
    return name.startswith(("send_", "post_")) and any(word in name for word in words)


def label_of(task: str) -> str:
    """Returns a label made of an id: `shopify::admin::add_order_tags` is “Add order tags”."""
    words = task.rpartition("::")[2].replace("_", " ").strip()
    return (words[:1].upper() + words[1:]) or "Step"


def camel(name: str) -> str:
    """Returns the variable of a name: “Get order data” is getOrderData."""
    words = "".join(sign if sign.isalnum() else " " for sign in name).split()
    return "".join(word.capitalize() if index else word.lower() for index, word in enumerate(words))
