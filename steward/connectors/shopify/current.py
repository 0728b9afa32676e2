"""The values that Shopify's writes are compared with: before a write, after one, and in a response."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from steward.connectors.base.connector import AnyWriteOperation, CurrentValue
from steward.connectors.base.queries import FieldsQuery, MetafieldQuery
from steward.connectors.base.records import Metafield, ObjectFields, Payment, Redirect
from steward.connectors.base.store_operation import read_back
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.shopify import documents
from steward.connectors.shopify.objects import available_of, channels_of, item_and_location, payment_of
from steward.connectors.shopify.paging import StoreQueries
from steward.connectors.shopify.responses import (
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
from steward.model.change import Part
from steward.model.json import JsonValue
from steward.outbound.documents import Document
from steward.outbound.errors import CallError, RemoteNotFound

Value = dict[str, JsonValue]

# The kind of object that each operation changes, if its value is a field of one object.
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
# The plain fields that can be set, by the kind of object; the documents list exactly these.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "Product": ("title", "vendor", "productType", "handle", "templateSuffix"),
    "Order": ("email", "phone", "poNumber"),
    "Customer": ("firstName", "lastName", "locale", "taxExempt"),
}
FLAGS = frozenset({"taxExempt"})
_LABELS = {"Product": "title", "Order": "name", "Customer": "displayName"}
_PAID = (Payment.PAID, Payment.PARTLY_REFUNDED, Payment.REFUNDED)
_OBJECTS_PER_CALL = 10
_PRICES_PER_CALL = 250


def value_of(operation: str, row: Row) -> Value:
    """Returns the value an operation changes, from its object or a response. Raises UnusableResponse."""
    return _VALUES[operation](row)


def price_of(row: Row) -> Value:
    """Returns a variant's prices. Raises UnusableResponse."""
    return {"price": money(row, "price"), "compare_at": money(row, "compareAtPrice")}


def channel_value(row: Row, channels: Sequence[JsonValue]) -> Value:
    """Returns which of `channels` a product is published on. Raises UnusableResponse."""
    on = channels_of(row)
    return {"on": sorted(str(channel) for channel in channels if str(channel) in on)}


def refund_value(row: Row) -> Value:
    """Returns the number and the sum of an order's refunds. Raises UnusableResponse."""
    refunded = money(row, "totalRefundedSet", "shopMoney", "amount") or "0"
    return {"refunds": len(list_of(row, "refunds")), "refunded": refunded}


def _cancelled(row: Row) -> Value:
    return {
        "cancelled": row.get("cancelledAt") is not None,
        "payment": payment_of(row).value,
    }


def _captured(row: Row) -> Value:
    """Returns whether the payment of an order can be captured, and whether it is paid.

    A paid order counts as captured; an expired or voided authorization cannot be captured.
    """
    return {"capturable": row.get("capturable") is True, "paid": payment_of(row) in _PAID}


def _tags(row: Row) -> Value:
    return {"tags": sorted(texts_of(row, "tags"))}


def tag_value(row: Row, part: Part) -> Value:
    """Returns whether an object has the one tag of a part. Raises UnusableResponse."""
    [expected_tag] = _named_tags(part)
    return {"has": any(tag.casefold() == expected_tag.casefold() for tag in texts_of(row, "tags"))}


def _named_tags(part: Part) -> Sequence[str]:
    """Returns the tags that a part adds or removes."""
    listed = part.arguments.get("add", part.arguments.get("remove"))
    return [str(tag) for tag in listed] if isinstance(listed, list | tuple) else []


def _note(row: Row) -> Value:
    return {"note": text(row, "note")}


def _status(row: Row) -> str:
    return (text(row, "sending") or text(row, "status")).lower()


def _holds(row: Row) -> Value:
    """Returns the numbers of all holds, no matter who placed them. Raises UnusableResponse."""
    return {"holds": sorted(number_of(row_of(hold).get("id")) for hold in list_of(row, "fulfillmentHolds"))}


def _fields(row: Row) -> Value:
    """Returns every plain field of the object; an unset text is empty."""
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


async def values(queries: StoreQueries, parts: Sequence[Part]) -> list[CurrentValue]:
    """Returns the current value of each part, in the order of `parts`. Raises CallError."""
    current_values: dict[int, CurrentValue] = {}
    by_operation: dict[str, list[int]] = {}
    for index, part in enumerate(parts):
        by_operation.setdefault(part.operation, []).append(index)
    for operation, indexes in by_operation.items():
        operation_parts = [parts[index] for index in indexes]
        operation_values = await _of_operation(queries, operation, operation_parts)
        current_values |= dict(zip(indexes, operation_values, strict=True))
    return [current_values[index] for index in range(len(parts))]


async def _of_operation(queries: StoreQueries, operation: str, parts: Sequence[Part]) -> list[CurrentValue]:
    read_one = _READ_ONE_BY_ONE.get(operation)
    if read_one is not None:
        return [await read_one(queries, part) for part in parts]
    if operation == "inventory.set":
        return await _stocks(queries, parts)
    if operation == "variant.set_price":
        rows = await _rows(
            queries, documents.CURRENT_PRICES, "ProductVariant", parts, page_size=_PRICES_PER_CALL
        )
        return [_current(part, rows.get(part.target), price_of) for part in parts]
    document = documents.CURRENT_FIELDS if operation.endswith(".set_fields") else documents.CURRENT
    rows = await _rows(queries, document, OBJECTS[operation], parts, page_size=_OBJECTS_PER_CALL)
    if operation.endswith(".change_tags"):
        return [_current(part, rows.get(part.target), partial(tag_value, part=part)) for part in parts]
    return [_current(part, rows.get(part.target), _VALUES[operation]) for part in parts]


async def confirm(queries: StoreQueries, part: Part, op: AnyWriteOperation) -> WriteOutcome:
    """Reads the value back: as expected, as before, or something else; unknown while unreadable."""
    try:
        [now] = await values(queries, [part])
    except CallError as error:
        return WriteOutcome.of_error(WriteState.UNKNOWN, error)
    return read_back(op, now)


def _current(part: Part, row: Row | None, value: Callable[[Row], Value]) -> CurrentValue:
    return CurrentValue(part, None, is_gone=True) if row is None else CurrentValue(part, value(row))


async def _rows(
    queries: StoreQueries, document: Document, kind: str, parts: Sequence[Part], *, page_size: int
) -> dict[str, Row]:
    ids = list(dict.fromkeys(gid(kind, part.target) for part in parts))
    rows: dict[str, Row] = {}
    async for page in queries.nodes(document, ids, page_size):
        rows |= {number_of(row.get("id"), kind): row for row in page}
    return rows


async def _stocks(queries: StoreQueries, parts: Sequence[Part]) -> list[CurrentValue]:
    """Returns the stock at the location each part writes; an item not stocked there counts as deleted."""
    items_by_location: dict[str, list[str]] = {}
    for part in parts:
        item, location = item_and_location(part.target)
        items_by_location.setdefault(location or "", []).append(gid("InventoryItem", item))
    levels: dict[str, int | None] = {}
    for location, ids in items_by_location.items():
        location_id = gid("Location", location)
        async for page in queries.nodes(documents.CURRENT_STOCK, ids, _PRICES_PER_CALL, location=location_id):
            for row in page:
                level = row.get("inventoryLevel")
                if level is not None:
                    name = f"{number_of(row.get('id'))}@{location}"
                    levels[name] = available_of(row_of(level))
    current_values = []
    for part in parts:
        item, location = item_and_location(part.target)
        quantity = levels.get(f"{item}@{location}")
        current_values.append(CurrentValue(part, {"quantity": quantity}, is_gone=quantity is None))
    return current_values


async def _channels(queries: StoreQueries, part: Part) -> CurrentValue:
    data = await queries.execute(documents.PRODUCT_CHANNELS, {"id": gid("Product", part.target)})
    product = data.get("product")
    if product is None:
        return CurrentValue(part, None, is_gone=True)
    return CurrentValue(part, channel_value(row_of(product), channels_of_part(part)))


async def metafield(queries: StoreQueries, query: MetafieldQuery) -> Metafield | None:
    """Returns the current metafield; None when the object has none of that name.

    Raises CallError, RemoteNotFound.
    """
    return await _metafield_of(queries, gid(query.kind, query.id), query.namespace, query.key)


async def _metafield_of(
    queries: StoreQueries, owner: JsonValue, namespace: JsonValue, key: JsonValue
) -> Metafield | None:
    data = await queries.execute(documents.METAFIELD, {"id": owner, "namespace": namespace, "key": key})
    if data.get("node") is None:
        raise RemoteNotFound
    stored = sub(data, "node", "metafield")
    if not stored:
        return None
    space, name, kind, value = (text(stored, field) for field in ("namespace", "key", "type", "value"))
    return Metafield(space, name, kind, value, text(stored, "compareDigest") or None)


async def metafield_of_part(queries: StoreQueries, part: Part) -> Metafield | None:
    """Returns the metafield that a part sets. Raises CallError, RemoteNotFound."""
    named = part.arguments
    return await _metafield_of(queries, named["owner"], named["namespace"], named["key"])


async def _metafield(queries: StoreQueries, part: Part) -> CurrentValue:
    try:
        stored = await metafield_of_part(queries, part)
    except RemoteNotFound:
        return CurrentValue(part, None, is_gone=True)
    return CurrentValue(part, {"value": stored.value if stored is not None else None})


async def redirect(queries: StoreQueries, path: str) -> Redirect | None:
    """Returns the redirect of a path; None when there is none. Raises CallError."""
    data = await queries.execute(documents.REDIRECTS, {"query": f"path:{quoted(path)}"})
    rows = [row for row in nodes_of(data, "urlRedirects") if row.get("path") == path]
    return Redirect(number_of(rows[0].get("id")), path, text(rows[0], "target")) if rows else None


async def _redirect(queries: StoreQueries, part: Part) -> CurrentValue:
    stored = await redirect(queries, part.target)
    if part.operation == "redirect.set" and (stored is None or stored.id != part.arguments["id"]):
        return CurrentValue(part, None, is_gone=True)
    if part.operation == "redirect.delete" and stored is not None and stored.id != part.arguments["id"]:
        return CurrentValue(part, None, is_gone=True)
    return CurrentValue(part, {"target": stored.target if stored is not None else None})


async def fields(queries: StoreQueries, query: FieldsQuery, domain: str) -> ObjectFields:
    """Returns the current plain fields of an object. Raises CallError, RemoteNotFound."""
    if query.kind not in FIELDS:
        raise RemoteNotFound
    async for rows in queries.nodes(documents.CURRENT_FIELDS, [gid(query.kind, query.id)], 1):
        for row in rows:
            label = text(row, _LABELS[query.kind])
            url = f"https://{domain}/admin/{query.kind.lower()}s/{query.id}"
            return ObjectFields(query.kind, query.id, label or query.id, _fields(row), url)
    raise RemoteNotFound


def channels_of_part(part: Part) -> Sequence[JsonValue]:
    """Returns the channels a part is about."""
    channels = part.arguments.get("channels")
    return channels if isinstance(channels, Sequence) and not isinstance(channels, str) else ()


_READ_ONE_BY_ONE: Mapping[str, Callable[[StoreQueries, Part], Awaitable[CurrentValue]]] = {
    "product.set_published": _channels,
    "metafield.set": _metafield,
    "metafield.delete": _metafield,
    "redirect.create": _redirect,
    "redirect.set": _redirect,
    "redirect.delete": _redirect,
}
