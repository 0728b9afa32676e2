"""Builds the one request of an approved batch: a document with its variables; pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from steward.connectors.shopify import mutations
from steward.connectors.shopify.current import OBJECTS
from steward.connectors.shopify.responses import gid
from steward.model.change import Batch, Part
from steward.model.json import JsonObject, JsonValue
from steward.outbound.documents import Document

# Marks the hold as ours, so that the store itself rejects a second one.
HOLD_HANDLE = "steward"


@dataclass(frozen=True, slots=True)
class Request:
    """A document with its variables; `errors` names the list of refusals in its payload."""

    document: Document
    variables: JsonObject
    errors: str = "userErrors"

    @property
    def root(self) -> str:
        """The name of the payload."""
        return self.document.root_fields[0]


def request_of(batch: Batch) -> Request:
    """Returns the request of a batch, whose parts are of one operation."""
    return _REQUESTS[batch.parts[0].operation](batch)


def _prices(batch: Batch) -> Request:
    parts = batch.parts
    variants: list[JsonValue] = [
        {
            "id": gid("ProductVariant", part.target),
            "price": part.arguments["price"],
            "compareAtPrice": part.arguments["compare_at"],
        }
        for part in parts
    ]
    product = gid("Product", str(parts[0].arguments["product"]))
    return Request(mutations.SET_PRICES, {"product": product, "variants": variants})


def _stocks(batch: Batch) -> Request:
    quantities: list[JsonValue] = [
        {
            "inventoryItemId": gid("InventoryItem", str(part.arguments["item"])),
            "locationId": gid("Location", str(part.arguments["location"])),
            "quantity": part.arguments["quantity"],
            "changeFromQuantity": part.arguments["was"],
        }
        for part in batch.parts
    ]
    stock_input: JsonObject = {"name": "available", "reason": "correction", "quantities": quantities}
    return Request(mutations.SET_STOCK, {"key": batch.key, "input": stock_input})


def _tags(batch: Batch) -> Request:
    part = _only(batch)
    added = "add" in part.arguments
    tags = part.arguments["add" if added else "remove"]
    document = mutations.ADD_TAGS if added else mutations.REMOVE_TAGS
    return Request(document, {"id": gid(OBJECTS[part.operation], part.target), "tags": tags})


def _status(batch: Batch) -> Request:
    part = _only(batch)
    status = str(part.arguments["status"]).upper()
    return Request(mutations.SET_STATUS, {"product": {"id": gid("Product", part.target), "status": status}})


def _published(batch: Batch) -> Request:
    part = _only(batch)
    channels = part.arguments["channels"]
    listed = channels if isinstance(channels, Sequence) and not isinstance(channels, str) else ()
    publications: list[JsonValue] = [
        {"publicationId": gid("Publication", str(channel))} for channel in listed
    ]
    document = mutations.PUBLISH if part.arguments["published"] is True else mutations.UNPUBLISH
    return Request(document, {"id": gid("Product", part.target), "input": publications})


def _metafields(batch: Batch) -> Request:
    metafields: list[JsonValue] = [
        {
            "ownerId": part.arguments["owner"],
            "namespace": part.arguments["namespace"],
            "key": part.arguments["key"],
            "type": part.arguments["type"],
            "value": part.arguments["value"],
            # Without a digest in the arguments, only the value read before the write guards it: the later
            # write of an undo does not exist yet when the undo is planned, so it has no digest.
            **({"compareDigest": part.arguments["digest"]} if "digest" in part.arguments else {}),
        }
        for part in batch.parts
    ]
    return Request(mutations.SET_METAFIELDS, {"metafields": metafields})


def _order_note(batch: Batch) -> Request:
    part = _only(batch)
    note_input: JsonObject = {"id": gid("Order", part.target), "note": part.arguments["note"]}
    return Request(mutations.SET_ORDER_NOTE, {"input": note_input})


def _customer_note(batch: Batch) -> Request:
    part = _only(batch)
    note_input: JsonObject = {"id": gid("Customer", part.target), "note": part.arguments["note"]}
    return Request(mutations.SET_CUSTOMER_NOTE, {"input": note_input})


def _cancel(batch: Batch) -> Request:
    part = _only(batch)
    variables: JsonObject = {
        "id": gid("Order", part.target),
        "reason": str(part.arguments["reason"]).upper(),
        "restock": part.arguments["restock"],
        "notify": part.arguments["notify"],
    }
    return Request(mutations.CANCEL_ORDER, variables, errors="orderCancelUserErrors")


def _close(batch: Batch) -> Request:
    part = _only(batch)
    document = mutations.CLOSE_ORDER if part.arguments["closed"] is True else mutations.OPEN_ORDER
    return Request(document, {"id": gid("Order", part.target)})


def _hold(batch: Batch) -> Request:
    part = _only(batch)
    hold: JsonObject = {
        "reason": str(part.arguments["reason"]).upper(),
        "reasonNotes": part.arguments["notes"] or None,
        "notifyMerchant": False,
        "handle": HOLD_HANDLE,
    }
    return Request(mutations.HOLD, {"id": gid("FulfillmentOrder", part.target), "hold": hold})


def _release(batch: Batch) -> Request:
    part = _only(batch)
    listed = part.arguments["holds"]
    numbers = listed if isinstance(listed, list | tuple) else ()
    holds: list[JsonValue] = [gid("FulfillmentHold", str(hold)) for hold in numbers]
    return Request(mutations.RELEASE, {"id": gid("FulfillmentOrder", part.target), "holds": holds})


def _fields(batch: Batch) -> Request:
    """Sends only the fields that change: the store leaves the others."""
    part = _only(batch)
    document, name = _FIELD_DOCUMENTS[part.operation]
    return Request(document, {name: {**part.arguments, "id": gid(OBJECTS[part.operation], part.target)}})


def _capture(batch: Batch) -> Request:
    part = _only(batch)
    capture_input: JsonObject = {
        "id": gid("Order", part.target),
        "parentTransactionId": gid("OrderTransaction", str(part.arguments["transaction"])),
        "amount": part.arguments["amount"],
        "currency": part.arguments["currency"],
    }
    return Request(mutations.CAPTURE, {"input": capture_input})


def _refund(batch: Batch) -> Request:
    part = _only(batch)
    order, location = gid("Order", part.target), part.arguments["location"]
    location_id = gid("Location", str(location)) if location is not None else None
    lines = part.arguments["lines"]
    listed = lines if isinstance(lines, Sequence) and not isinstance(lines, str) else ()
    goods: list[JsonValue] = [
        {
            "lineItemId": gid("LineItem", str(line["id"])),
            "quantity": line["quantity"],
            "restockType": "RETURN" if location_id else "NO_RESTOCK",
            "locationId": location_id,
        }
        for line in listed
        if isinstance(line, Mapping)
    ]
    money: list[JsonValue] = []
    if part.arguments["amount"] is not None:
        money.append(
            {
                "orderId": order,
                "kind": "REFUND",
                "gateway": part.arguments["gateway"],
                "amount": part.arguments["amount"],
                "parentId": gid("OrderTransaction", str(part.arguments["transaction"])),
            }
        )
    refund_input: JsonObject = {
        "orderId": order,
        "note": part.arguments["note"] or None,
        "notify": part.arguments["notify"],
        "refundLineItems": goods,
        "transactions": money,
    }
    return Request(mutations.REFUND, {"key": batch.key, "input": refund_input})


def _redirect(batch: Batch) -> Request:
    part = _only(batch)
    redirect_input: JsonObject = {"path": part.target, "target": part.arguments["target"]}
    return Request(mutations.CREATE_REDIRECT, {"redirect": redirect_input})


def _set_redirect(batch: Batch) -> Request:
    part = _only(batch)
    redirect_input: JsonObject = {"path": part.target, "target": part.arguments["target"]}
    variables: JsonObject = {"id": gid("UrlRedirect", str(part.arguments["id"])), "redirect": redirect_input}
    return Request(mutations.SET_REDIRECT, variables)


def _delete_metafield(batch: Batch) -> Request:
    part = _only(batch)
    named: JsonObject = {
        "ownerId": part.arguments["owner"],
        "namespace": part.arguments["namespace"],
        "key": part.arguments["key"],
    }
    return Request(mutations.DELETE_METAFIELDS, {"metafields": [named]})


def _delete_redirect(batch: Batch) -> Request:
    part = _only(batch)
    return Request(mutations.DELETE_REDIRECT, {"id": gid("UrlRedirect", str(part.arguments["id"]))})


def _only(batch: Batch) -> Part:
    [part] = batch.parts
    return part


_FIELD_DOCUMENTS = {
    "product.set_fields": (mutations.SET_PRODUCT_FIELDS, "product"),
    "order.set_fields": (mutations.SET_ORDER_FIELDS, "input"),
    "customer.set_fields": (mutations.SET_CUSTOMER_FIELDS, "input"),
}
_REQUESTS: Mapping[str, Callable[[Batch], Request]] = {
    "variant.set_price": _prices,
    "inventory.set": _stocks,
    **dict.fromkeys((name for name in OBJECTS if name.endswith(".change_tags")), _tags),
    "product.set_tags": _tags,
    "order.set_tags": _tags,
    "customer.set_tags": _tags,
    "draft_order.set_tags": _tags,
    "product.set_status": _status,
    "product.set_published": _published,
    "metafield.set": _metafields,
    "order.set_note": _order_note,
    "customer.set_note": _customer_note,
    "order.cancel": _cancel,
    "order.close": _close,
    "fulfillment.hold": _hold,
    "order.capture": _capture,
    "refund.create": _refund,
    "redirect.create": _redirect,
    "redirect.set": _set_redirect,
    "metafield.delete": _delete_metafield,
    "redirect.delete": _delete_redirect,
    "fulfillment.release": _release,
    **dict.fromkeys(_FIELD_DOCUMENTS, _fields),
}
