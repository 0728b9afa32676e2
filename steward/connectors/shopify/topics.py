"""The topics of a Shopify store's deliveries, and the events they report; pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from steward.connectors.base.deliveries import DerivedTopics, Event, StoredEvent, TopicSpec
from steward.connectors.shopify import documents
from steward.connectors.shopify.objects import payment_of, stock_target
from steward.connectors.shopify.responses import Row, instant_of, number_of, text
from steward.model.json import JsonObject, JsonValue
from steward.outbound.documents import Document
from steward.outbound.errors import UnusableResponse
from steward.outbound.response import parse_json

# Marks an event that catch-up read: the object's changes must be computed.
_CAUGHT_UP = "caught_up"


@dataclass(frozen=True, slots=True)
class _TopicSource:
    """How a native topic is subscribed to and read: the fields of its body, and the location of the ids."""

    canonical: str
    object_type: str
    fields: tuple[str, ...]
    id: str = "id"
    parent: str | None = None


_STATE_FIELDS = ("cancelled_at", "financial_status", "fulfillment_status")
_ORDER = ("id", "created_at", "updated_at", *_STATE_FIELDS)
_PLAIN = ("id", "created_at", "updated_at")
_OF_ORDER = ("id", "order_id", "created_at", "updated_at")
_GLOBAL = ("admin_graphql_api_id", "created_at", "updated_at")
_LEVEL = ("inventory_item_id", "location_id", "available", "updated_at")
_VARIANT = ("id", "product_id", "inventory_item_id", "updated_at")

# In the order of docs/design/connectors.md#topics; the keys are values of the schema's enum.
TOPIC_SOURCES: Mapping[str, _TopicSource] = {
    "ORDERS_CREATE": _TopicSource("orders/create", "order", _ORDER),
    "ORDERS_UPDATED": _TopicSource("orders/updated", "order", _ORDER),
    "ORDERS_PAID": _TopicSource("orders/paid", "order", _ORDER),
    "ORDERS_FULFILLED": _TopicSource("orders/fulfilled", "order", _ORDER),
    "ORDERS_CANCELLED": _TopicSource("orders/cancelled", "order", _ORDER),
    "ORDERS_DELETE": _TopicSource("orders/delete", "order", ("id",)),
    "REFUNDS_CREATE": _TopicSource("refunds/create", "refund", _OF_ORDER, parent="order_id"),
    "PRODUCTS_CREATE": _TopicSource("products/create", "product", (*_PLAIN, "variants.id")),
    "PRODUCTS_UPDATE": _TopicSource("products/update", "product", (*_PLAIN, "variants.id")),
    "PRODUCTS_DELETE": _TopicSource("products/delete", "product", ("id",)),
    "INVENTORY_LEVELS_UPDATE": _TopicSource(
        "inventory_levels/update", "inventory", _LEVEL, id="inventory_item_id"
    ),
    "VARIANTS_OUT_OF_STOCK": _TopicSource("variants/out_of_stock", "variant", _VARIANT, parent="product_id"),
    "VARIANTS_IN_STOCK": _TopicSource("variants/in_stock", "variant", _VARIANT, parent="product_id"),
    "CUSTOMERS_CREATE": _TopicSource("customers/create", "customer", _PLAIN),
    "CUSTOMERS_UPDATE": _TopicSource("customers/update", "customer", _PLAIN),
    "CUSTOMERS_DELETE": _TopicSource("customers/delete", "customer", ("id",)),
    "CUSTOMER_TAGS_ADDED": _TopicSource(
        "customers/tags_added", "customer", ("customerId", "tags", "occurredAt"), id="customerId"
    ),
    "DISCOUNTS_CREATE": _TopicSource("discounts/create", "discount", _GLOBAL, id="admin_graphql_api_id"),
    "DISCOUNTS_UPDATE": _TopicSource("discounts/update", "discount", _GLOBAL, id="admin_graphql_api_id"),
    "DISCOUNTS_DELETE": _TopicSource("discounts/delete", "discount", _GLOBAL, id="admin_graphql_api_id"),
    "CHECKOUTS_CREATE": _TopicSource("checkouts/create", "checkout", _PLAIN),
    "FULFILLMENTS_CREATE": _TopicSource("fulfillments/create", "fulfilment", _OF_ORDER, parent="order_id"),
    "RETURNS_REQUEST": _TopicSource("returns/request", "return", ("id", "order.id", "created_at")),
    "DRAFT_ORDERS_CREATE": _TopicSource("draft_orders/create", "draft_order", _PLAIN),
    "COLLECTIONS_UPDATE": _TopicSource("collections/update", "collection", ("id", "updated_at")),
    "LOCATIONS_CREATE": _TopicSource("locations/create", "location", _PLAIN),
}
TOPICS: Mapping[str, TopicSpec] = {
    source.canonical: TopicSpec((native,)) for native, source in TOPIC_SOURCES.items()
}
# Not offered to automations: it reports that the app was uninstalled, so the keys are checked.
UNINSTALLED = "APP_UNINSTALLED"
SUBSCRIBABLE_TOPICS: Mapping[str, _TopicSource] = {
    **TOPIC_SOURCES,
    UNINSTALLED: _TopicSource("app/uninstalled", "shop", ("id",)),
}


@dataclass(frozen=True, slots=True)
class _EventObject:
    """The document that reads objects of a type for events, and their name."""

    changed: Document
    root: str
    create: str
    update: str


EVENT_OBJECTS: Mapping[str, _EventObject] = {
    "order": _EventObject(documents.CHANGED_ORDERS, "orders", "ORDERS_CREATE", "ORDERS_UPDATED"),
    "product": _EventObject(documents.CHANGED_PRODUCTS, "products", "PRODUCTS_CREATE", "PRODUCTS_UPDATE"),
    "customer": _EventObject(
        documents.CHANGED_CUSTOMERS, "customers", "CUSTOMERS_CREATE", "CUSTOMERS_UPDATE"
    ),
}


def native_of(header: str) -> str:
    """Returns the native topic in a delivery's header: `orders/create` is ORDERS_CREATE."""
    return header.strip().replace("/", "_").upper()


def read_event(event: StoredEvent) -> Event:
    """Returns the event of a stored body; a body over the cap is not stored and its event has no id.

    Raises UnusableResponse.
    """
    source = SUBSCRIBABLE_TOPICS.get(event.native)
    if source is None:
        raise UnusableResponse("a delivery of an unknown topic")
    if event.body is None:
        return Event(event.native, source.object_type, None)
    row = parse_json(event.body)
    if not isinstance(row, dict):
        raise UnusableResponse("a delivery is an object")
    number = number_of(row.get(source.id))
    parent = number_of(row[source.parent]) if source.parent is not None and row.get(source.parent) else None
    object_id = stock_target(number, None) if source.object_type == "inventory" else number
    modified = instant_of(row, "updated_at") or instant_of(row, "occurredAt")
    return Event(
        native=event.native,
        object_type=source.object_type,
        object_id=object_id,
        parent_id=parent,
        modified_at=modified,
        occurred_at=modified or event.received_at,
        created_at=instant_of(row, "created_at"),
        objects=_objects(source.object_type, number, row, parent),
        payload=_scalars(row),
    )


def changed_event(object_type: str, row: Row, *, since: datetime | None) -> Event:
    """Returns an object that `changed` read as the event a delivery would report. Raises UnusableResponse."""
    kind, number = EVENT_OBJECTS[object_type], number_of(row.get("id"))
    created, modified = instant_of(row, "createdAt"), instant_of(row)
    is_new = since is not None and created is not None and created > since
    # In the form of a delivery's body, which `read_event` reads.
    payload: dict[str, JsonValue] = {
        "id": int(number),
        "created_at": text(row, "createdAt"),
        "updated_at": text(row, "updatedAt"),
        _CAUGHT_UP: True,
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
    awaited_topics: Collection[str],
) -> DerivedTopics:
    """Returns the canonical topics: the native one, and for caught-up objects also the computed ones."""
    source = TOPIC_SOURCES.get(event.native)
    if source is None:
        return DerivedTopics((), dropped=None if event.native in SUBSCRIBABLE_TOPICS else "unknown_topic")
    if event.native.endswith("_DELETE"):
        return DerivedTopics((source.canonical,), forget=True)
    topics, snapshot = [source.canonical], remembered(event)
    if event.payload.get(_CAUGHT_UP) is True and event.native == EVENT_OBJECTS[event.object_type].create:
        topics.append(TOPIC_SOURCES[EVENT_OBJECTS[event.object_type].update].canonical)
    if snapshot is not None:
        before = _states_before(event, seen, since)
        reached, snapshot = _followed(
            event, snapshot, before, is_older=_is_older(event, seen_at), awaited_topics=awaited_topics
        )
        topics += reached
    return DerivedTopics(tuple(name for name in TOPICS if name in topics), seen=snapshot)


def remembered(event: Event) -> JsonObject | None:
    """Returns the states of an order to store: those reported by their own topic, or that need not be."""
    if event.object_type != "order":
        return None
    if event.payload.get(_CAUGHT_UP) is True:
        return {name: event.payload.get(name) is True for name in _STATES}
    return _state_told(event.payload)


_STATES: Mapping[str, str] = {
    "paid": "orders/paid",
    "fulfilled": "orders/fulfilled",
    "cancelled": "orders/cancelled",
}


def _is_older(event: Event, seen_at: datetime | None) -> bool:
    return event.modified_at is not None and seen_at is not None and event.modified_at < seen_at


def _states_before(event: Event, seen: JsonObject | None, since: datetime | None) -> JsonObject:
    """Returns the last stored state of an order; one created after `since` began with no state reached."""
    is_new = since is not None and event.created_at is not None and event.created_at >= since
    return {**(dict.fromkeys(_STATES, False) if is_new else {}), **(seen or {})}


def _followed(
    event: Event, state: JsonObject, before: JsonObject, *, is_older: bool, awaited_topics: Collection[str]
) -> tuple[list[str], JsonObject]:
    """Returns the topics of states that were reached but not delivered, and the order's state to store.

    A state counts as reported by its own topic's delivery. When another topic's delivery reports it, it waits
    for its own topic while that is listened to; catch-up finds it when that delivery was lost.
    """
    snapshot = dict(before) if is_older else {**before, **state}
    reached: list[str] = []
    for name, topic in _STATES.items():
        if TOPIC_SOURCES[event.native].canonical == topic:
            snapshot[name] = True
        elif not is_older and state[name] is True and before.get(name) is False:
            if event.payload.get(_CAUGHT_UP) is True:
                reached.append(topic)
            elif topic in awaited_topics:
                snapshot[name] = False
    return reached, snapshot


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
    """Returns the references under which changes of the same object are recorded."""
    if object_type == "inventory":
        location_row = row.get("location_id")
        location_id = number_of(location_row) if location_row is not None else None
        return (("inventory", stock_target(number, location_id)),)
    reference = (object_type, number)
    if object_type == "product":
        variants = row.get("variants")
        listed = variants if isinstance(variants, list) else []
        return (
            reference,
            *(("variant", number_of(variant.get("id"))) for variant in listed if isinstance(variant, dict)),
        )
    return (reference, ("product", parent)) if object_type == "variant" and parent else (reference,)


def _scalars(row: Row) -> dict[str, JsonValue]:
    """Returns the values of a body that are neither objects nor lists."""
    return {
        name: value for name, value in row.items() if value is None or isinstance(value, str | int | bool)
    }


def fields_of_topic(topic: str) -> frozenset[str] | None:
    """Returns the fields that every event of a canonical topic has; None for a topic of no Shopify store.

    What was missed and is read later has no states of the object.
    """
    for source in TOPIC_SOURCES.values():
        if source.canonical == topic:
            return frozenset(name for name in source.fields if "." not in name and name not in _STATE_FIELDS)
    return None


def listed(natives: Sequence[str]) -> list[tuple[str, _TopicSource]]:
    """Returns the known topics of `natives`."""
    return [(native, TOPIC_SOURCES[native]) for native in natives if native in TOPIC_SOURCES]
