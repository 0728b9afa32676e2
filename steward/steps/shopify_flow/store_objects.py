"""The store objects that flow actions change, read by the ids in the flow just before the change."""

import re
from typing import TypeVar

from steward.connectors.base.queries import (
    CUSTOMER,
    DRAFT_ORDER,
    FIELDS,
    FLOW_OBJECT,
    METAFIELD,
    ORDER,
    PRODUCT,
    REDIRECT,
    VARIANT,
    VARIANTS,
    ById,
    FieldsQuery,
    FlowObjectQuery,
    MetafieldQuery,
    ProductsQuery,
    ReadOp,
    RedirectQuery,
)
from steward.connectors.base.records import (
    Customer,
    DraftOrder,
    Metafield,
    ObjectFields,
    Order,
    Product,
    Redirect,
    Variant,
)
from steward.model.json import AnyJson, JsonValue
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import StoreAccess
from steward.steps.workflow.external_calls import read_all
from steward.steps.workflow.step_types import ItemFailed

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741

_GID = re.compile(r"gid://shopify/([A-Za-z]{1,60})/([0-9]{1,20})(?:\?.*)?")
_WORDS = {
    "Order": "order",
    "Product": "product",
    "Customer": "customer",
    "DraftOrder": "draft order",
    "ProductVariant": "variant",
    "FulfillmentOrder": "fulfilment",
    "InventoryItem": "inventory item",
    "Location": "location",
    "Publication": "sales channel",
    "UrlRedirect": "redirect",
}


def kind_and_number(object_id: JsonValue) -> tuple[str, str]:
    """Splits a global id into its kind and number. Raises ItemFailed."""
    match = _GID.fullmatch(object_id.strip()) if isinstance(object_id, str) else None
    if match is None:
        raise ItemFailed(f"“{str(object_id)[:60]}” is not the id of an object of the store.")
    return match[1], match[2]


def number_of(object_id: JsonValue, kind: str) -> str:
    """Returns the number of an object, given by global id or as a number. Raises ItemFailed."""
    text = (
        str(object_id).strip() if isinstance(object_id, str | int) and not isinstance(object_id, bool) else ""
    )
    match = _GID.fullmatch(text)
    if match is not None and match[1] == kind:
        return match[2]
    if text.isascii() and text.isdigit() and len(text) <= 20:
        return text
    words = _WORDS.get(kind, kind)
    if not text:
        raise ItemFailed(f"The id of the {words} to change is empty: the flow has none at this place.")
    raise ItemFailed(f"“{text[:60]}” is not the id of a {words}.")


class StoreObjects:
    """Reads objects of one store for one step; does not catch a CallError after which to try again later."""

    def __init__(self, store: StoreAccess) -> None:
        self.store = store

    async def order(self, object_id: JsonValue) -> Order:
        """Returns an order. Raises ItemFailed."""
        return await self._read_one(ORDER, ById(number_of(object_id, "Order")), "order")

    async def product(self, object_id: JsonValue) -> Product:
        """Returns a product. Raises ItemFailed."""
        return await self._read_one(PRODUCT, ById(number_of(object_id, "Product")), "product")

    async def customer(self, object_id: JsonValue) -> Customer:
        """Returns a customer. Raises ItemFailed."""
        return await self._read_one(CUSTOMER, ById(number_of(object_id, "Customer")), "customer")

    async def draft(self, object_id: JsonValue) -> DraftOrder:
        """Returns a draft order. Raises ItemFailed."""
        return await self._read_one(DRAFT_ORDER, ById(number_of(object_id, "DraftOrder")), "draft order")

    async def variant(self, object_id: JsonValue) -> Variant:
        """Returns a variant. Raises ItemFailed."""
        return await self._read_one(VARIANT, ById(f"/{number_of(object_id, 'ProductVariant')}"), "variant")

    async def fields(self, kind: str, object_id: AnyJson) -> ObjectFields:
        """Returns the plain fields of a product, order or customer. Raises ItemFailed."""
        return await self._read_one(FIELDS, FieldsQuery(kind, number_of(object_id, kind)), _WORDS[kind])

    async def order_of_fulfilment(self, object_id: JsonValue) -> Order:
        """Returns the order that a fulfilment order belongs to. Raises ItemFailed."""
        number = number_of(object_id, "FulfillmentOrder")
        query = FlowObjectQuery("fulfillmentOrder", number, ("fulfillmentOrder.orderId",))
        fulfilment = await self._read_one(FLOW_OBJECT, query, "fulfilment")
        return await self.order(fulfilment.get("orderId"))

    async def holds(self, fulfilment: str) -> tuple[str, ...]:
        """Returns the ids of a fulfilment order's holds. Raises ItemFailed."""
        path = "fulfillmentOrder.fulfillmentHolds.id"
        fulfilment_order: AnyJson = await self._read_one(
            FLOW_OBJECT, FlowObjectQuery("fulfillmentOrder", fulfilment, (path,)), "fulfilment"
        )
        return tuple(
            number_of(hold.get("id"), "FulfillmentHold") for hold in fulfilment_order["fulfillmentHolds"]
        )

    async def stocked(self, item: JsonValue, location: JsonValue) -> Variant:
        """Returns the variant of an inventory item with its stock at a location. Raises ItemFailed."""
        number, location_id = number_of(item, "InventoryItem"), number_of(location, "Location")
        product = await self._read_one(PRODUCT, ById(f"item:{number}"), "inventory item")
        query = ProductsQuery(ids=(product.id,), location=location_id)
        for variant in await self._read_all(VARIANTS, query, "product"):
            if variant.item_id == number:
                return variant
        raise ItemFailed(f"The store has no stock of the inventory item {number}.")

    async def metafield(self, kind: str, number: str, namespace: str, key: str) -> Metafield | None:
        """Returns the current metafield, or None if the object has none. Raises ItemFailed."""
        metafields = await self._read_all(METAFIELD, MetafieldQuery(kind, number, namespace, key), "object")
        return metafields[0] if metafields else None

    async def redirect(self, path: str) -> Redirect | None:
        """Returns the redirect from a path, or None. Raises ItemFailed."""
        redirects = await self._read_all(REDIRECT, RedirectQuery(path), "redirect")
        return redirects[0] if redirects else None

    async def _read_one(self, op: ReadOp[P, I], query: P, words: str) -> I:
        records = await self._read_all(op, query, words)
        if not records:
            raise ItemFailed(f"The {words} to change is no longer in the store.")
        return records[0]

    async def _read_all(self, op: ReadOp[P, I], query: P, words: str) -> list[I]:
        try:
            return await read_all(self.store.reader.read(op, query))
        except ItemFailed as failure:
            if isinstance(failure.__cause__, RemoteNotFound):
                raise ItemFailed(f"The {words} to change is no longer in the store.") from None
            raise
