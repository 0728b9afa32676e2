"""Shows and hides products: by visibility in a shop, by sales channels in a store that has them."""

from collections.abc import Sequence

from steward.connectors.base.commands import SetPublished, SetVisible
from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.records import Product
from steward.model.connection import Connection
from steward.model.json import AnyJson, JsonObject
from steward.model.refusals import FieldErrors
from steward.steps.base import JsonRecord, StepContext, StepFailed, StoreAccess

CHANNELS_INPUT: JsonObject = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 255},
    "uniqueItems": True,
    "minItems": 1,
    "maxItems": 20,
    "default": ["Online Store"],
    "description": "Sales channels by name (Shopify; not read on WooCommerce)",
}


class VisibilityInputs(JsonRecord, frozen=True):
    """The inputs of the templates that hide and show products."""

    threshold: int
    channels: tuple[str, ...]
    marker: str


def channel_errors(inputs: JsonObject, store: Connection | None) -> FieldErrors:
    """Rejects channels that the store did not have at the last check of its connection."""
    missing = _missing_channels(inputs, store) if store is not None else []
    if not missing:
        return {}
    return {"inputs.channels": [f"The store has no sales channel named {', '.join(missing)}."]}


def has_channels(store: Connection) -> bool:
    """Returns whether the platform sells through channels; on WooCommerce their names are not read."""
    return store.kind != "woocommerce"


def channels_of(context: StepContext) -> tuple[str, ...]:
    """Returns the ids of the channels that the input names; none on platforms without channels.

    Raises StepFailed `channel_missing`.
    """
    store = context.home.connection
    missing = _missing_channels(context.inputs, store)
    if missing:
        message = f"The store has no sales channel named {missing[0]}. Choose from those it has now."
        raise StepFailed("channel_missing", message)
    ids = _active_channels(store)
    return tuple(ids[name] for name in _names(context.inputs)) if has_channels(store) else ()


def change_message(context: StepContext, stock: int) -> str:
    """Returns the message beside the change: the stock, and the channels if there are any."""
    if not has_channels(context.home.connection):
        return f"Stock {stock}."
    return f"Stock {stock}. Channels: {', '.join(_names(context.inputs))}."


def is_shown(product: Product, channels: Sequence[str]) -> bool:
    """Returns whether people can see the product: on one of `channels`, or at all without channels."""
    return product.visible and (not channels or any(channel in product.channels for channel in channels))


def plan_visible(
    store: StoreAccess,
    product: Product,
    channels: Sequence[str],
    *,
    visible: bool,
    restore: str | None = None,
) -> PlannedChanges:
    """Plans to show or hide the product; `restore` is its visibility in a shop before it was hidden."""
    if has_channels(store.connection):
        return store.plan("product.set_published", [SetPublished(product, tuple(channels), visible)])
    return store.plan("product.set_visible", [SetVisible(product, visible, restore)])


def _missing_channels(inputs: JsonObject, store: Connection) -> list[str]:
    if not has_channels(store):
        return []
    return [name for name in _names(inputs) if name not in _active_channels(store)]


def _names(inputs: JsonObject) -> tuple[str, ...]:
    return VisibilityInputs.from_json(inputs).channels


def _active_channels(store: Connection) -> dict[str, str]:
    channels: AnyJson = store.facts.get("channels", [])
    return {name: channel_id for channel_id, name, is_active in channels if is_active}
