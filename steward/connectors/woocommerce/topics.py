"""Reads the deliveries of a WooCommerce shop as events and derives their topics.

See `docs/design/connectors.md#topics`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from steward.connectors.base.deliveries import DerivedTopics, Event, StoredEvent, TopicSpec
from steward.connectors.woocommerce.responses import Row, instant_of
from steward.model.json import JsonObject, JsonValue
from steward.outbound.errors import UnusableResponse
from steward.outbound.response import parse_json

_MAX_STORED_REFUNDS = 50
ORDER, PRODUCT, VARIATION = "order", "product", "variation"
_ORDERS, _PRODUCTS = (ORDER,), (PRODUCT,)

# The order in which the topics of one delivery are matched, as in docs/design/connectors.md#topics.
TOPICS: Mapping[str, TopicSpec] = {
    "orders/create": TopicSpec(("order.created",)),
    "orders/updated": TopicSpec(("order.updated",)),
    "orders/paid": TopicSpec(("order.created", "order.updated"), derived=True, snapshot_types=_ORDERS),
    "orders/fulfilled": TopicSpec(("order.updated",), derived=True, snapshot_types=_ORDERS),
    "orders/cancelled": TopicSpec(("order.updated",), derived=True, snapshot_types=_ORDERS),
    "orders/delete": TopicSpec(("order.deleted",)),
    "refunds/create": TopicSpec(("order.updated",), derived=True, snapshot_types=_ORDERS),
    "products/create": TopicSpec(("product.created",)),
    "products/update": TopicSpec(("product.updated",)),
    "products/delete": TopicSpec(("product.deleted",), derived=True, snapshot_types=_PRODUCTS),
    "inventory_levels/update": TopicSpec(("product.updated",), derived=True, snapshot_types=_PRODUCTS),
    "variants/out_of_stock": TopicSpec(("product.updated",), derived=True, snapshot_types=_PRODUCTS),
    "variants/in_stock": TopicSpec(("product.updated",), derived=True, snapshot_types=_PRODUCTS),
    "customers/create": TopicSpec(("customer.created",)),
    "customers/update": TopicSpec(("customer.updated",)),
    "customers/delete": TopicSpec(("customer.deleted",)),
    "discounts/create": TopicSpec(("coupon.created",)),
    "discounts/update": TopicSpec(("coupon.updated",)),
    "discounts/delete": TopicSpec(("coupon.deleted",)),
}
_NATIVE = {
    spec.native[0]: name
    for name, spec in TOPICS.items()
    if not spec.derived and len(spec.native) == 1
}  # fmt: skip


def read_event(event: StoredEvent) -> Event:
    """Returns the event of a stored delivery. Raises UnusableResponse.

    A body over the size limit is not stored, so its event has no object id.
    """
    kind = event.native.partition(".")[0]
    if event.body is None:
        return Event(event.native, kind, None)
    decoded = parse_json(event.body)
    if not isinstance(decoded, dict):
        raise UnusableResponse("a delivery is an object")
    return event_of(event.native, decoded)


def event_of(native: str, row: Row) -> Event:
    """Returns a delivery's body, or an object that `changed` read, as an event. Raises UnusableResponse."""
    number = row.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise UnusableResponse("a delivery has no id")
    kind, object_id = native.partition(".")[0], str(number)
    parent_number = row.get("parent_id")
    parent = (
        str(parent_number)
        if kind == PRODUCT and isinstance(parent_number, int) and parent_number > 0
        else None
    )
    if row.get("type") == VARIATION and parent is not None:
        kind, object_id = VARIATION, f"{parent}/{object_id}"
    modified = instant_of(row)
    return Event(
        native=native,
        object_type=kind,
        object_id=object_id,
        parent_id=parent if kind == VARIATION else None,
        modified_at=modified,
        occurred_at=modified,
        created_at=instant_of(row, "date_created_gmt"),
        objects=_objects(kind, object_id),
        payload=_json_of(row),
    )


def _objects(kind: str, object_id: str) -> tuple[tuple[str, str], ...]:
    """Returns the object's references as its changes record them: a simple product is its own variant."""
    if kind == PRODUCT:
        return (("product", object_id), ("variant", object_id), ("inventory", object_id))
    if kind == VARIATION:
        return (("variant", object_id), ("inventory", object_id))
    return ((kind, object_id),)


def derive(event: Event, seen: JsonObject | None, *, since: datetime | None) -> DerivedTopics:
    """Returns the canonical topics of an event, and the state to store for the next one."""
    if event.native == "product.deleted":
        # A shop that stores orders as posts also sends this for a trashed order, with the order's id.
        is_product = seen is not None
        return (
            DerivedTopics(("products/delete",), forget=True)
            if is_product
            else DerivedTopics((), dropped="unknown_object")
        )
    names = [_NATIVE[event.native]] if event.native in _NATIVE else []
    if event.native.endswith(".deleted"):
        return DerivedTopics(tuple(names), forget=True)
    if event.object_type not in (ORDER, PRODUCT, VARIATION) or _is_older(event, seen):
        return DerivedTopics(tuple(names))
    return _compared(event, seen or {}, names, is_new=_is_created_since(event, since))


def _compared(event: Event, before: JsonObject, native: list[str], *, is_new: bool) -> DerivedTopics:
    """Returns the native topics, and the topics derived from the changed state.

    An object seen for the first time has no transition, unless it was created after listening began.
    """
    is_order = event.object_type == ORDER
    state = _order_state(event) if is_order else _stock_state(event)
    comparable = {name: name in before or is_new for name in state}
    names = native + (_order_topics if is_order else _stock_topics)(state, before, comparable)
    after = {**before, **state, **_time(event)}
    return DerivedTopics(tuple(name for name in TOPICS if name in names), seen=after)


def _is_created_since(event: Event, since: datetime | None) -> bool:
    """Compares whole seconds, as the shop writes them."""
    if since is None or event.created_at is None:
        return False
    return event.created_at >= since.replace(microsecond=0)


def remembered(event: Event) -> JsonObject | None:
    """Returns the state to store for an object at the initial read; null if no topic derives from it."""
    if event.object_type == ORDER:
        return {**_order_state(event), **_time(event)}
    if event.object_type in (PRODUCT, VARIATION):
        return {**_stock_state(event), **_time(event)}
    return None


def _order_state(event: Event) -> dict[str, JsonValue]:
    """Returns the fields of an order that derived topics compare.

    The delivery of a new order reports only the payment: the `order.updated` that always accompanies it
    reports the rest.
    """
    row = event.payload
    state: dict[str, JsonValue] = {"paid": isinstance(row.get("date_paid_gmt"), str)}
    if event.native == "order.updated":
        state["status"] = str(row.get("status", ""))
        state["refunds"] = _refunds(row)
    return state


def _order_topics(
    state: Mapping[str, JsonValue], before: Mapping[str, JsonValue], comparable: Mapping[str, bool]
) -> list[str]:
    names: list[str] = []
    if comparable["paid"] and state["paid"] is True and before.get("paid") is not True:
        names.append("orders/paid")
    status = state.get("status")
    if comparable.get("status") and status != before.get("status"):
        names += {"completed": ["orders/fulfilled"], "cancelled": ["orders/cancelled"]}.get(str(status), [])
    if comparable.get("refunds") and _has_fresh(state.get("refunds"), before.get("refunds")):
        names.append("refunds/create")
    return names


def _stock_state(event: Event) -> dict[str, JsonValue]:
    """Returns the fields of a product that derived topics compare.

    These are the quantity if stock is managed, and the stock status of anything that can be sold.
    """
    row = event.payload
    state: dict[str, JsonValue] = {}
    if row.get("manage_stock") is True:
        quantity = row.get("stock_quantity")
        state["quantity"] = quantity if isinstance(quantity, int) else None
    if row.get("type") != "variable" and isinstance(row.get("stock_status"), str):
        state["stock_status"] = row["stock_status"]
    return state


def _stock_topics(
    state: Mapping[str, JsonValue], before: Mapping[str, JsonValue], comparable: Mapping[str, bool]
) -> list[str]:
    names: list[str] = []
    if comparable.get("quantity") and state["quantity"] != before.get("quantity"):
        names.append("inventory_levels/update")
    status, previous_status = state.get("stock_status"), before.get("stock_status")
    if comparable.get("stock_status") and status != previous_status:
        if status == "outofstock":
            names.append("variants/out_of_stock")
        elif previous_status == "outofstock":
            names.append("variants/in_stock")
    return names


def _refunds(row: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Returns the newest refund ids, ascending."""
    listed = row.get("refunds")
    rows = listed if isinstance(listed, list | tuple) else []
    ids = [refund.get("id") for refund in rows if isinstance(refund, Mapping)]
    numbers = sorted({refund for refund in ids if isinstance(refund, int) and not isinstance(refund, bool)})
    return [*numbers[-_MAX_STORED_REFUNDS:]]


def _has_fresh(current: JsonValue, before: JsonValue) -> bool:
    """Returns whether a refund is newer than all stored ones; removing a refund makes no old one new."""
    seen_version = (
        [refund_id for refund_id in before if isinstance(refund_id, int)]
        if isinstance(before, list | tuple)
        else []
    )
    newest = max(seen_version, default=0)
    return isinstance(current, list | tuple) and any(
        isinstance(refund_id, int) and refund_id > newest for refund_id in current
    )


def _is_older(event: Event, seen: JsonObject | None) -> bool:
    seen_at = (seen or {}).get("at")
    if not isinstance(seen_at, str) or event.modified_at is None:
        return False
    return event.modified_at < datetime.fromisoformat(seen_at)


def _time(event: Event) -> dict[str, JsonValue]:
    return {} if event.modified_at is None else {"at": event.modified_at.astimezone(UTC).isoformat()}


def _json_of(row: Row) -> JsonObject:
    """Returns the body as plain JSON: its own fractions as exact text, nested ones as numbers."""

    def plain(value: object, *, is_part: bool = True) -> JsonValue:
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        if value is None or isinstance(value, bool | int | str):
            return value
        return float(format(value, "f")) if is_part else format(value, "f")

    return {name: plain(value, is_part=False) for name, value in row.items()}
