"""Showing and hiding products: by visibility in a shop, by sales channels where a store has those (E14).

Leaves which products, and their marks, to the templates.
"""

from collections.abc import Sequence
from typing import Any

from steward.connectors.base.commands import SetPublished, SetVisible
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Product
from steward.model.connection import Connection
from steward.model.json import JsonObject
from steward.steps.base import StepContext, StepFailed, StoreAccess

CHANNELS_INPUT: JsonObject = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 255},
    "uniqueItems": True,
    "minItems": 1,
    "maxItems": 20,
    "default": ["Online Store"],
    "description": "Sales channels by name (Shopify; not read on WooCommerce)",
}


def missing_channels(inputs: JsonObject, store: Connection) -> list[str]:
    """Named channels the store does not have, by its last check; a shop without channels lacks none."""
    return [] if not has_channels(store) else [name for name in _named(inputs) if name not in _known(store)]


def has_channels(store: Connection) -> bool:
    """Whether the platform sells through channels; WooCommerce does not, and the names are not read."""
    return store.kind != "woocommerce"


def channels_of(at: StepContext) -> tuple[str, ...]:
    """The ids of the channels that the input names; none where there are no channels.

    Raises StepFailed `channel_missing` (templates 5.4).
    """
    store = at.home.connection
    missing = missing_channels(at.inputs, store)
    if missing:
        words = f"The store has no sales channel named {missing[0]}. Choose from those it has now."
        raise StepFailed("channel_missing", words)
    return tuple(_known(store)[name] for name in _named(at.inputs)) if has_channels(store) else ()


def beside(at: StepContext, stock: int) -> str:
    """What stands beside the change: the stock, and the channels where there are any."""
    if not has_channels(at.home.connection):
        return f"Stock {stock}."
    return f"Stock {stock}. Channels: {', '.join(_named(at.inputs))}."


def is_shown(product: Product, channels: Sequence[str]) -> bool:
    """Whether people see it: on one of `channels`, or at all where there are no channels."""
    return product.visible and (not channels or any(each in product.channels for each in channels))


def is_shown_everywhere(product: Product, channels: Sequence[str]) -> bool:
    """Whether nothing is left to show: it is on all of `channels`, or visible where there are none."""
    return product.visible and all(each in product.channels for each in channels)


def plan_visible(
    store: StoreAccess,
    product: Product,
    channels: Sequence[str],
    *,
    visible: bool,
    restore: str | None = None,
) -> PlannedChanges:
    """The change that shows or hides it; `restore` is the visibility a shop had before it was hidden."""
    number = store.connection.integration_id
    if has_channels(store.connection):
        publish = SetPublished(product, tuple(channels), visible)
        return store.changes["product.set_published"].plan([publish], integration_id=number)
    show = SetVisible(product, visible, restore)
    return store.changes["product.set_visible"].plan([show], integration_id=number)


def _named(inputs: JsonObject) -> list[str]:
    given: Any = inputs["channels"]
    return list(given)


def _known(store: Connection) -> dict[str, str]:
    found: Any = store.facts.get("channels", [])
    return {name: number for number, name, is_active in found if is_active}
