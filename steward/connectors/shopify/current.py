"""The values Shopify's writes are compared with: read before a write, after one, and out of an echo."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from steward.connectors.base.connector import CurrentValue, WriteOperation
from steward.connectors.base.queries import FieldsQuery, MetafieldQuery
from steward.connectors.base.records import Metafield, ObjectFields, Payment, Redirect
from steward.connectors.base.store_operation import read_back
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.shopify import documents
from steward.connectors.shopify.answers import (
    Row,
    gid,
    kind_of,
    list_of,
    money,
    nodes_of,
    number_of,
    quoted,
    row_of,
    sub,
    text,
    texts_of,
)
from steward.connectors.shopify.objects import available_of, channels_of, item_and_location, payment_of
from steward.connectors.shopify.paging import Asking
from steward.model.change import Part
from steward.model.json import JsonValue
from steward.outbound.documents import Document
from steward.outbound.errors import CallError, RemoteNotFound

Value = dict[str, JsonValue]

# The kind of object each operation is about, where it is one object's own value.
OBJECTS: Mapping[str, str] = {
    "product.set_status": "Product",
    "product.set_tags": "Product",
    "order.set_tags": "Order",
    "customer.set_tags": "Customer",
    "draft_order.set_tags": "DraftOrder",
    "order.set_note": "Order",
    "customer.set_note": "Customer",
    "order.cancel": "Order",
    "order.close": "Order",
    "order.capture": "Order",
    "refund.create": "Order",
    "fulfillment.hold": "FulfillmentOrder",
    "fulfillment.release": "FulfillmentOrder",
    "product.change_tags": "Product",
    "order.change_tags": "Order",
    "customer.change_tags": "Customer",
    "draft_order.change_tags": "DraftOrder",
    "product.set_fields": "Product",
    "order.set_fields": "Order",
    "customer.set_fields": "Customer",
}
# The plain fields that may be set, by the kind of object; the documents have exactly these.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "Product": ("title", "vendor", "productType", "handle", "templateSuffix"),
    "Order": ("email", "phone", "poNumber"),
    "Customer": ("firstName", "lastName", "locale", "taxExempt"),
}
FLAGS = frozenset({"taxExempt"})
_LABELS = {"Product": "title", "Order": "name", "Customer": "displayName"}
_PAID = (Payment.PAID, Payment.PARTLY_REFUNDED, Payment.REFUNDED)
_BY_IDS = 10
_PRICES = 250


def value_of(operation: str, row: Row) -> Value:
    """The value an operation changes, out of its object or an echo of it. Raises UnusableResponse."""
    return _VALUES[operation](row)


def price_of(row: Row) -> Value:
    """A variant's prices. Raises UnusableResponse."""
    return {"price": money(row, "price"), "compare_at": money(row, "compareAtPrice")}


def channel_value(row: Row, asked: Sequence[JsonValue]) -> Value:
    """On which of the asked channels a product is. Raises UnusableResponse."""
    on = channels_of(row)
    return {"on": sorted(str(each) for each in asked if str(each) in on)}


def refund_value(row: Row) -> Value:
    """What was given back on an order: how often and how much. Raises UnusableResponse."""
    refunded = money(row, "totalRefundedSet", "shopMoney", "amount") or "0"
    return {"refunds": len(list_of(row, "refunds")), "refunded": refunded}


def _cancelled(row: Row) -> Value:
    return {
        "cancelled": row.get("cancelledAt") is not None,
        "payment": payment_of(row).value,
    }


def _captured(row: Row) -> Value:
    """Taken is what is paid: an authorization that ran out, or was given up, can be taken no more either."""
    return {"capturable": row.get("capturable") is True, "paid": payment_of(row) in _PAID}


def _tags(row: Row) -> Value:
    return {"tags": sorted(texts_of(row, "tags"))}


def tag_value(row: Row, part: Part) -> Value:
    """Whether an object has the one tag a part is about. Raises UnusableResponse."""
    [wanted] = named_tags(part)
    return {"has": any(tag.casefold() == wanted.casefold() for tag in texts_of(row, "tags"))}


def named_tags(part: Part) -> Sequence[str]:
    """The tags a part puts on or takes off."""
    listed = part.arguments.get("add", part.arguments.get("remove"))
    return [str(tag) for tag in listed] if isinstance(listed, list | tuple) else []


def _note(row: Row) -> Value:
    return {"note": text(row, "note")}


def _status(row: Row) -> str:
    return (text(row, "sending") or text(row, "status")).lower()


def _holds(row: Row) -> Value:
    """The numbers of the holds there are, whoever made them. Raises UnusableResponse."""
    return {"holds": sorted(number_of(row_of(each).get("id")) for each in list_of(row, "fulfillmentHolds"))}


def _fields(row: Row) -> Value:
    """Every plain field of the object there is; a text that is not set is an empty one."""
    names = FIELDS.get(kind_of(row), ())
    return {name: row[name] is True if name in FLAGS else text(row, name) for name in names if name in row}


_VALUES: Mapping[str, Callable[[Row], Value]] = {
    "variant.set_price": price_of,
    "product.set_status": lambda row: {"status": text(row, "status").lower()},
    "product.set_tags": _tags,
    "order.set_tags": _tags,
    "customer.set_tags": _tags,
    "draft_order.set_tags": _tags,
    "order.set_note": _note,
    "customer.set_note": _note,
    "order.cancel": _cancelled,
    "order.close": lambda row: {"closed": row.get("closed") is True},
    "order.capture": _captured,
    "refund.create": refund_value,
    "fulfillment.hold": lambda row: {"status": _status(row)},
    "fulfillment.release": _holds,
    "product.set_fields": _fields,
    "order.set_fields": _fields,
    "customer.set_fields": _fields,
}


async def values(ask: Asking, parts: Sequence[Part]) -> list[CurrentValue]:
    """Each part's value as it is now, in the order of `parts`. Raises CallError."""
    found: dict[int, CurrentValue] = {}
    by_operation: dict[str, list[int]] = {}
    for at, part in enumerate(parts):
        by_operation.setdefault(part.operation, []).append(at)
    for operation, places in by_operation.items():
        own = [parts[at] for at in places]
        read = await _of_operation(ask, operation, own)
        found |= dict(zip(places, read, strict=True))
    return [found[at] for at in range(len(parts))]


async def _of_operation(ask: Asking, operation: str, parts: Sequence[Part]) -> list[CurrentValue]:
    if operation == "variant.set_price":
        rows = await _rows(ask, documents.CURRENT_PRICES, "ProductVariant", parts, most=_PRICES)
        return [_current(part, rows.get(part.target), price_of) for part in parts]
    if operation == "inventory.set":
        return await _stocks(ask, parts)
    if operation == "product.set_published":
        return [await _channels(ask, part) for part in parts]
    if operation == "metafield.set":
        return [await _metafield(ask, part) for part in parts]
    if operation in ("redirect.create", "redirect.set"):
        return [await _redirect(ask, part) for part in parts]
    document = documents.CURRENT_FIELDS if operation.endswith(".set_fields") else documents.CURRENT
    rows = await _rows(ask, document, OBJECTS[operation], parts, most=_BY_IDS)
    if operation.endswith(".change_tags"):
        return [_current(part, rows.get(part.target), partial(tag_value, part=part)) for part in parts]
    return [_current(part, rows.get(part.target), _VALUES[operation]) for part in parts]


async def confirm(ask: Asking, part: Part, op: WriteOperation[Any]) -> WriteOutcome:
    """Reads the value back: as wanted, as before, or something else; unknown while unreadable."""
    try:
        [now] = await values(ask, [part])
    except CallError as error:
        return WriteOutcome.of_error(WriteState.UNKNOWN, error)
    return read_back(op, now)


def _current(part: Part, row: Row | None, value: Callable[[Row], Value]) -> CurrentValue:
    return CurrentValue(part, None, is_gone=True) if row is None else CurrentValue(part, value(row))


async def _rows(
    ask: Asking, document: Document, kind: str, parts: Sequence[Part], *, most: int
) -> dict[str, Row]:
    ids = list(dict.fromkeys(gid(kind, part.target) for part in parts))
    rows: dict[str, Row] = {}
    async for page in ask.nodes(document, ids, most):
        rows |= {number_of(row.get("id"), kind): row for row in page}
    return rows


async def _stocks(ask: Asking, parts: Sequence[Part]) -> list[CurrentValue]:
    """Available at the location each number is written at; an item not stocked there is gone from it."""
    wanted: dict[str, list[str]] = {}
    for part in parts:
        item, location = item_and_location(part.target)
        wanted.setdefault(location or "", []).append(gid("InventoryItem", item))
    levels: dict[str, int | None] = {}
    for location, ids in wanted.items():
        where = gid("Location", location)
        async for page in ask.nodes(documents.CURRENT_STOCK, ids, _PRICES, location=where):
            for row in page:
                level = row.get("inventoryLevel")
                if level is not None:
                    name = f"{number_of(row.get('id'))}@{location}"
                    levels[name] = available_of(row_of(level))
    found = []
    for part in parts:
        item, location = item_and_location(part.target)
        quantity = levels.get(f"{item}@{location}")
        found.append(CurrentValue(part, {"quantity": quantity}, is_gone=quantity is None))
    return found


async def _channels(ask: Asking, part: Part) -> CurrentValue:
    data = await ask.told(documents.PRODUCT_CHANNELS, {"id": gid("Product", part.target)})
    found = data.get("product")
    if found is None:
        return CurrentValue(part, None, is_gone=True)
    return CurrentValue(part, channel_value(row_of(found), asked_of(part)))


async def metafield(ask: Asking, wanted: MetafieldQuery) -> Metafield | None:
    """A metafield as it is now; None when the object has none of that name.

    Raises CallError, RemoteNotFound.
    """
    return await _metafield_of(ask, gid(wanted.kind, wanted.id), wanted.namespace, wanted.key)


async def _metafield_of(
    ask: Asking, owner: JsonValue, namespace: JsonValue, key: JsonValue
) -> Metafield | None:
    data = await ask.told(documents.METAFIELD, {"id": owner, "namespace": namespace, "key": key})
    if data.get("node") is None:
        raise RemoteNotFound
    found = sub(data, "node", "metafield")
    if not found:
        return None
    space, name, kind, value = (text(found, each) for each in ("namespace", "key", "type", "value"))
    return Metafield(space, name, kind, value, text(found, "compareDigest") or None)


async def _metafield(ask: Asking, part: Part) -> CurrentValue:
    at = part.arguments
    try:
        found = await _metafield_of(ask, at["owner"], at["namespace"], at["key"])
    except RemoteNotFound:
        return CurrentValue(part, None, is_gone=True)
    return CurrentValue(part, {"value": found.value if found is not None else None})


async def redirect(ask: Asking, path: str) -> Redirect | None:
    """Where a path leads; None when nowhere. Raises CallError."""
    data = await ask.told(documents.REDIRECTS, {"query": f"path:{quoted(path)}"})
    rows = [row for row in nodes_of(data, "urlRedirects") if row.get("path") == path]
    return Redirect(number_of(rows[0].get("id")), path, text(rows[0], "target")) if rows else None


async def _redirect(ask: Asking, part: Part) -> CurrentValue:
    found = await redirect(ask, part.target)
    if part.operation == "redirect.set" and (found is None or found.id != part.arguments["id"]):
        return CurrentValue(part, None, is_gone=True)
    return CurrentValue(part, {"target": found.target if found is not None else None})


async def fields(ask: Asking, wanted: FieldsQuery, domain: str) -> ObjectFields:
    """The plain fields of an object as they are now. Raises CallError, RemoteNotFound."""
    if wanted.kind not in FIELDS:
        raise RemoteNotFound
    async for rows in ask.nodes(documents.CURRENT_FIELDS, [gid(wanted.kind, wanted.id)], 1):
        for row in rows:
            label = text(row, _LABELS[wanted.kind])
            url = f"https://{domain}/admin/{wanted.kind.lower()}s/{wanted.id}"
            return ObjectFields(wanted.kind, wanted.id, label or wanted.id, _fields(row), url)
    raise RemoteNotFound


def asked_of(part: Part) -> Sequence[JsonValue]:
    """The channels a part is about."""
    channels = part.arguments.get("channels")
    return channels if isinstance(channels, Sequence) and not isinstance(channels, str) else ()
