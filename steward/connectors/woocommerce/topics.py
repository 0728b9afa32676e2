"""What a WooCommerce shop's deliveries mean: pointers to objects, and the topics worked out; pure."""

from collections.abc import Mapping
from datetime import UTC, datetime

from steward.connectors.base.deliveries import Derived, Event, StoredEvent, TopicSpec
from steward.connectors.woocommerce.answers import Row, instant_of
from steward.model.json import JsonObject, JsonValue
from steward.outbound.errors import UnusableResponse
from steward.outbound.response import parse_json

MAX_STORED_REFUNDS = 50
ORDER, PRODUCT, VARIATION = "order", "product", "variation"
_ORDERS, _PRODUCTS = (ORDER,), (PRODUCT,)

# In the order of connectors 8: topics of one delivery are offered so.
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
    """The pointer in a stored body; over the cap there is none and the id is null.

    Raises UnusableResponse.
    """
    kind = event.native.partition(".")[0]
    if event.body is None:
        return Event(event.native, kind, None)
    decoded = parse_json(event.body)
    if not isinstance(decoded, dict):
        raise UnusableResponse("a delivery is an object")
    return event_of(event.native, decoded)


def event_of(native: str, row: Row) -> Event:
    """A delivery's body, or an object read by `changed`, as a pointer. Raises UnusableResponse."""
    number = row.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise UnusableResponse("a delivery has no id")
    kind, own = native.partition(".")[0], str(number)
    above = row.get("parent_id")
    parent = str(above) if kind == PRODUCT and isinstance(above, int) and above > 0 else None
    if row.get("type") == VARIATION and parent is not None:
        kind, own = VARIATION, f"{parent}/{own}"
    modified = instant_of(row)
    return Event(
        native=native,
        object_type=kind,
        object_id=own,
        parent_id=parent if kind == VARIATION else None,
        modified_at=modified,
        occurred_at=modified,
        created_at=instant_of(row, "date_created_gmt"),
        objects=_objects(kind, own),
        payload=_plain(row),
    )


def _objects(kind: str, own: str) -> tuple[tuple[str, str], ...]:
    """How changes of the same object are named (ObjectRef): a simple product is its own variant."""
    if kind == PRODUCT:
        return (("product", own), ("variant", own), ("inventory", own))
    if kind == VARIATION:
        return (("variant", own), ("inventory", own))
    return ((kind, own),)


def derive(event: Event, seen: JsonObject | None, *, since: datetime | None) -> Derived:
    """The canonical topics of an event (connectors 8, D1 to D7, rules 1 to 4)."""
    if event.native == "product.deleted":
        # Trashing an order stored as a post says so too, with the order's id (recorded).
        if seen is None:
            return Derived((), dropped="unknown_object")
        return Derived(("products/delete",), forget=True)
    native = _NATIVE.get(event.native)
    found = [native] if native is not None else []
    if event.native.endswith(".deleted"):
        return Derived(tuple(found), forget=True)
    if event.object_type not in (ORDER, PRODUCT, VARIATION) or _is_older(event, seen):
        return Derived(tuple(found))
    # The first sight of an object is no transition, unless it came into being while listening.
    # The shop tells whole seconds.
    begun = None if since is None else since.replace(microsecond=0)
    is_new = begun is not None and event.created_at is not None and event.created_at >= begun
    state = _order_state(event) if event.object_type == ORDER else _stock_state(event)
    before = seen or {}
    known = {name: name in before or is_new for name in state}
    if event.object_type == ORDER:
        found += _order_topics(state, before, known)
    else:
        found += _stock_topics(state, before, known)
    after = {**before, **state, **_time(event)}
    return Derived(tuple(name for name in TOPICS if name in found), seen=after)


def remembered(event: Event) -> JsonObject | None:
    """What the first fill keeps of an object; null for types nothing is derived from."""
    if event.object_type == ORDER:
        return {**_order_state(event), **_time(event)}
    if event.object_type in (PRODUCT, VARIATION):
        return {**_stock_state(event), **_time(event)}
    return None


def _order_state(event: Event) -> dict[str, JsonValue]:
    """What D1 to D4 compare. A new order's own delivery tells of payment alone: the `order.updated` that
    always comes with it carries the rest."""
    row = event.payload
    state: dict[str, JsonValue] = {"paid": isinstance(row.get("date_paid_gmt"), str)}
    if event.native == "order.updated":
        state["status"] = str(row.get("status", ""))
        state["refunds"] = _refunds(row)
    return state


def _order_topics(
    state: Mapping[str, JsonValue], before: Mapping[str, JsonValue], known: Mapping[str, bool]
) -> list[str]:
    found: list[str] = []
    if known["paid"] and state["paid"] is True and before.get("paid") is not True:
        found.append("orders/paid")
    status = state.get("status")
    if known.get("status") and status != before.get("status"):
        found += {"completed": ["orders/fulfilled"], "cancelled": ["orders/cancelled"]}.get(str(status), [])
    if known.get("refunds") and _has_fresh(state.get("refunds"), before.get("refunds")):
        found.append("refunds/create")
    return found


def _stock_state(event: Event) -> dict[str, JsonValue]:
    """What D5 and D6 compare: the number where it is kept, the word for all that can be sold."""
    row = event.payload
    state: dict[str, JsonValue] = {}
    if row.get("manage_stock") is True:
        quantity = row.get("stock_quantity")
        state["quantity"] = quantity if isinstance(quantity, int) else None
    if row.get("type") != "variable" and isinstance(row.get("stock_status"), str):
        state["stock_status"] = row["stock_status"]
    return state


def _stock_topics(
    state: Mapping[str, JsonValue], before: Mapping[str, JsonValue], known: Mapping[str, bool]
) -> list[str]:
    found: list[str] = []
    if known.get("quantity") and state["quantity"] != before.get("quantity"):
        found.append("inventory_levels/update")
    status, was = state.get("stock_status"), before.get("stock_status")
    if known.get("stock_status") and status != was:
        if status == "outofstock":
            found.append("variants/out_of_stock")
        elif was == "outofstock":
            found.append("variants/in_stock")
    return found


def _refunds(row: Mapping[str, JsonValue]) -> list[JsonValue]:
    """The newest refund ids; they rise."""
    listed = row.get("refunds")
    rows = listed if isinstance(listed, list | tuple) else []
    ids = [one.get("id") for one in rows if isinstance(one, Mapping)]
    numbers = sorted({one for one in ids if isinstance(one, int) and not isinstance(one, bool)})
    return [*numbers[-MAX_STORED_REFUNDS:]]


def _has_fresh(now: JsonValue, before: JsonValue) -> bool:
    """Whether a refund is newer than all that was kept: one taken back does not make old ones new."""
    seen = [one for one in before if isinstance(one, int)] if isinstance(before, list | tuple) else []
    newest = max(seen, default=0)
    return isinstance(now, list | tuple) and any(isinstance(one, int) and one > newest for one in now)


def _is_older(event: Event, seen: JsonObject | None) -> bool:
    at = (seen or {}).get("at")
    if not isinstance(at, str) or event.modified_at is None:
        return False
    return event.modified_at < datetime.fromisoformat(at)


def _time(event: Event) -> dict[str, JsonValue]:
    return {} if event.modified_at is None else {"at": event.modified_at.astimezone(UTC).isoformat()}


def _plain(row: Row) -> JsonObject:
    """The body as a plan keeps it: fractions as exact text."""

    def plain(value: object) -> JsonValue:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list):
            return [plain(each) for each in value]
        if value is None or isinstance(value, bool | int | str):
            return value
        return format(value, "f")

    return {name: plain(value) for name, value in row.items()}
