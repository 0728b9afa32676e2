"""What a Shopify store's deliveries mean: which topics there are, and pointers to their objects; pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.connectors.base.deliveries import Derived, Event, StoredEvent, TopicSpec
from steward.connectors.shopify import documents
from steward.connectors.shopify.answers import Row, instant_of, number_of, text
from steward.connectors.shopify.objects import payment_of, stock_target
from steward.model.json import JsonObject, JsonValue
from steward.outbound.documents import Document
from steward.outbound.errors import UnusableResponse
from steward.outbound.response import parse_json

# The mark of an event that was read and not delivered: what became of the object has to be worked out.
CAUGHT_UP = "caught_up"


@dataclass(frozen=True, slots=True)
class Told:
    """How a native topic is asked for and read: which fields its body holds, and whose id is where."""

    canonical: str
    object_type: str
    fields: tuple[str, ...]
    id: str = "id"
    parent: str | None = None


_ORDER = ("id", "created_at", "updated_at", "cancelled_at", "financial_status", "fulfillment_status")
_PLAIN = ("id", "created_at", "updated_at")
_OF_ORDER = ("id", "order_id", "created_at", "updated_at")
_GLOBAL = ("admin_graphql_api_id", "created_at", "updated_at")
_LEVEL = ("inventory_item_id", "location_id", "available", "updated_at")
_VARIANT = ("id", "product_id", "inventory_item_id", "updated_at")

# In the order of connectors 8. The names on the left are values of the schema's own list.
TOLD: Mapping[str, Told] = {
    "ORDERS_CREATE": Told("orders/create", "order", _ORDER),
    "ORDERS_UPDATED": Told("orders/updated", "order", _ORDER),
    "ORDERS_PAID": Told("orders/paid", "order", _ORDER),
    "ORDERS_FULFILLED": Told("orders/fulfilled", "order", _ORDER),
    "ORDERS_CANCELLED": Told("orders/cancelled", "order", _ORDER),
    "ORDERS_DELETE": Told("orders/delete", "order", ("id",)),
    "REFUNDS_CREATE": Told("refunds/create", "refund", _OF_ORDER, parent="order_id"),
    "PRODUCTS_CREATE": Told("products/create", "product", (*_PLAIN, "variants.id")),
    "PRODUCTS_UPDATE": Told("products/update", "product", (*_PLAIN, "variants.id")),
    "PRODUCTS_DELETE": Told("products/delete", "product", ("id",)),
    "INVENTORY_LEVELS_UPDATE": Told("inventory_levels/update", "inventory", _LEVEL, id="inventory_item_id"),
    "VARIANTS_OUT_OF_STOCK": Told("variants/out_of_stock", "variant", _VARIANT, parent="product_id"),
    "VARIANTS_IN_STOCK": Told("variants/in_stock", "variant", _VARIANT, parent="product_id"),
    "CUSTOMERS_CREATE": Told("customers/create", "customer", _PLAIN),
    "CUSTOMERS_UPDATE": Told("customers/update", "customer", _PLAIN),
    "CUSTOMERS_DELETE": Told("customers/delete", "customer", ("id",)),
    "CUSTOMER_TAGS_ADDED": Told(
        "customers/tags_added", "customer", ("customerId", "tags", "occurredAt"), id="customerId"
    ),
    "DISCOUNTS_CREATE": Told("discounts/create", "discount", _GLOBAL, id="admin_graphql_api_id"),
    "DISCOUNTS_UPDATE": Told("discounts/update", "discount", _GLOBAL, id="admin_graphql_api_id"),
    "DISCOUNTS_DELETE": Told("discounts/delete", "discount", _GLOBAL, id="admin_graphql_api_id"),
    "CHECKOUTS_CREATE": Told("checkouts/create", "checkout", _PLAIN),
    "FULFILLMENTS_CREATE": Told("fulfillments/create", "fulfilment", _OF_ORDER, parent="order_id"),
    "RETURNS_REQUEST": Told("returns/request", "return", ("id", "order.id", "created_at")),
    "DRAFT_ORDERS_CREATE": Told("draft_orders/create", "draft_order", _PLAIN),
    "COLLECTIONS_UPDATE": Told("collections/update", "collection", ("id", "updated_at")),
    "LOCATIONS_CREATE": Told("locations/create", "location", _PLAIN),
}
TOPICS: Mapping[str, TopicSpec] = {told.canonical: TopicSpec((native,)) for native, told in TOLD.items()}
# Not offered to automations: the app was taken off the store, so its keys are looked at again.
UNINSTALLED = "APP_UNINSTALLED"
ASKED_FOR: Mapping[str, Told] = {**TOLD, UNINSTALLED: Told("app/uninstalled", "shop", ("id",))}


@dataclass(frozen=True, slots=True)
class Kind:
    """How objects of a type are read for events: by which document, under which name."""

    changed: Document
    root: str
    create: str
    update: str


KINDS: Mapping[str, Kind] = {
    "order": Kind(documents.CHANGED_ORDERS, "orders", "ORDERS_CREATE", "ORDERS_UPDATED"),
    "product": Kind(documents.CHANGED_PRODUCTS, "products", "PRODUCTS_CREATE", "PRODUCTS_UPDATE"),
    "customer": Kind(documents.CHANGED_CUSTOMERS, "customers", "CUSTOMERS_CREATE", "CUSTOMERS_UPDATE"),
}


def native_of(header: str) -> str:
    """The native topic a delivery's header names: `orders/create` is ORDERS_CREATE."""
    return header.strip().replace("/", "_").upper()


def read_event(event: StoredEvent) -> Event:
    """The pointer in a stored body; over the cap there is none and the id is null.

    Raises UnusableResponse.
    """
    told = ASKED_FOR.get(event.native)
    if told is None:
        raise UnusableResponse("a delivery of an unknown topic")
    if event.body is None:
        return Event(event.native, told.object_type, None)
    row = parse_json(event.body)
    if not isinstance(row, dict):
        raise UnusableResponse("a delivery is an object")
    number = number_of(row.get(told.id))
    parent = number_of(row[told.parent]) if told.parent is not None and row.get(told.parent) else None
    own = stock_target(number, None) if told.object_type == "inventory" else number
    modified = instant_of(row, "updated_at") or instant_of(row, "occurredAt")
    return Event(
        native=event.native,
        object_type=told.object_type,
        object_id=own,
        parent_id=parent,
        modified_at=modified,
        occurred_at=modified or event.received_at,
        created_at=instant_of(row, "created_at"),
        objects=_objects(told.object_type, number, row, parent),
        payload=_plain(row),
    )


def changed_event(object_type: str, row: Row, *, since: datetime | None) -> Event:
    """An object read by `changed`, as the event a delivery would have been. Raises UnusableResponse."""
    kind, number = KINDS[object_type], number_of(row.get("id"))
    created, modified = instant_of(row, "createdAt"), instant_of(row)
    is_new = since is not None and created is not None and created > since
    # Kept as a delivery's body is: `read_event` reads it back.
    payload: dict[str, JsonValue] = {
        "id": int(number),
        "created_at": text(row, "createdAt"),
        "updated_at": text(row, "updatedAt"),
        CAUGHT_UP: True,
        **(_state_read(row) if object_type == "order" else {}),
    }
    return Event(
        native=kind.create if is_new else kind.update,
        object_type=object_type,
        object_id=number,
        modified_at=modified,
        occurred_at=modified,
        created_at=created,
        objects=((object_type, number),),
        payload=payload,
    )


def derive(
    event: Event,
    seen: JsonObject | None,
    *,
    since: datetime | None,
    seen_at: datetime | None,
    heard: Collection[str],
) -> Derived:
    """The native topic is the canonical one; of what was read, not delivered, the others are worked out."""
    told = TOLD.get(event.native)
    if told is None:
        return Derived((), dropped=None if event.native in ASKED_FOR else "unknown_topic")
    if event.native.endswith("_DELETE"):
        return Derived((told.canonical,), forget=True)
    topics, kept = [told.canonical], remembered(event)
    if event.payload.get(CAUGHT_UP) is True and event.native == KINDS[event.object_type].create:
        topics.append(TOLD[KINDS[event.object_type].update].canonical)
    if kept is not None:
        is_new = since is not None and event.created_at is not None and event.created_at >= since
        is_older = event.modified_at is not None and seen_at is not None and event.modified_at < seen_at
        before: JsonObject = {name: False for name in _STATES if is_new} | dict(seen or {})
        reached, kept = _followed(event, kept, before, is_older=is_older, heard=heard)
        topics += reached
    return Derived(tuple(name for name in TOPICS if name in topics), seen=kept)


def remembered(event: Event) -> JsonObject | None:
    """What is kept of an order: the states whose own topics have been told, or need not be any more."""
    if event.object_type != "order":
        return None
    if event.payload.get(CAUGHT_UP) is True:
        return {name: event.payload.get(name) is True for name in _STATES}
    return _state_told(event.payload)


_STATES: Mapping[str, str] = {
    "paid": "orders/paid",
    "fulfilled": "orders/fulfilled",
    "cancelled": "orders/cancelled",
}


def _followed(
    event: Event, state: JsonObject, before: JsonObject, *, is_older: bool, heard: Collection[str]
) -> tuple[list[str], JsonObject]:
    """Returns the topics of states that were reached but not delivered, and what to keep of the order.

    A state counts as told by its own topic's delivery. Told by a delivery of another topic, it waits for its
    own as long as that is listened to: catch-up finds it when that was lost.
    """
    kept = dict(before) if is_older else {**before, **state}
    reached: list[str] = []
    for name, topic in _STATES.items():
        if TOLD[event.native].canonical == topic:
            kept[name] = True
        elif not is_older and state[name] is True and before.get(name) is False:
            if event.payload.get(CAUGHT_UP) is True:
                reached.append(topic)
            elif topic in heard:
                kept[name] = False
    return reached, kept


def _state_read(row: Row) -> dict[str, JsonValue]:
    return {
        "paid": payment_of(row).value in ("paid", "partly_refunded", "refunded"),
        "fulfilled": text(row, "displayFulfillmentStatus") == "FULFILLED",
        "cancelled": row.get("cancelledAt") is not None,
    }


def _state_told(payload: JsonObject) -> JsonObject | None:
    if "financial_status" not in payload:
        return None
    return {
        "paid": payload.get("financial_status") in ("paid", "partially_refunded", "refunded"),
        "fulfilled": payload.get("fulfillment_status") == "fulfilled",
        "cancelled": payload.get("cancelled_at") is not None,
    }


def _objects(object_type: str, number: str, row: Row, parent: str | None) -> tuple[tuple[str, str], ...]:
    """How changes of the same object are named (ObjectRef)."""
    if object_type == "inventory":
        location = row.get("location_id")
        place = number_of(location) if location is not None else None
        return (("inventory", stock_target(number, place)),)
    own = (object_type, number)
    if object_type == "product":
        variants = row.get("variants")
        listed = variants if isinstance(variants, list) else []
        return (own, *(("variant", number_of(each.get("id"))) for each in listed if isinstance(each, dict)))
    return (own, ("product", parent)) if object_type == "variant" and parent else (own,)


def _plain(row: Row) -> dict[str, JsonValue]:
    """The values of a body that are no objects or lists."""
    return {
        name: value for name, value in row.items() if value is None or isinstance(value, str | int | bool)
    }


def listed(natives: Sequence[str]) -> list[tuple[str, Told]]:
    """The topics of a list that are told here."""
    return [(native, TOLD[native]) for native in natives if native in TOLD]
