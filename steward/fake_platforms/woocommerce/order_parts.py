"""Notes and refunds of the fake shop's orders."""

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import errors, orders, stock
from steward.fake_platforms.woocommerce.arguments import Arg, validated
from steward.fake_platforms.woocommerce.listing import Listing, RouteResult, only_fields
from steward.fake_platforms.woocommerce.shop import FakeShop

_NOTE = {"note": Arg(), "customer_note": Arg("boolean"), "added_by_user": Arg("boolean")}
_REFUND = {
    "amount": Arg(),
    "reason": Arg(),
    "meta_data": Arg("objects"),
    "line_items": Arg("objects"),
    "api_refund": Arg("boolean"),
    "api_restock": Arg("boolean"),
}
_SORT = {"date": "date_created_gmt", "id": "id", "modified": "date_created_gmt"}


def _linked(shop: FakeShop, order_id: int, part: str, row: Row) -> Row:
    up = f"orders/{order_id}"
    fields = {name: value for name, value in row.items() if name != "order_id"}
    links = shop.links(f"{up}/{part}/{row['id']}", collection=f"{up}/{part}", up=up, allow=("GET", "DELETE"))
    return {**fields, "_links": links}


def notes_listed(shop: FakeShop, order_id: int, query: Row) -> RouteResult:
    """Returns all notes of an order, newest first, without pages."""
    orders.find(shop, order_id, 404)
    arguments = validated(query, {"type": Arg("string", ("any", "customer", "internal"))})
    customer_flags = {"customer": (True,), "internal": (False,)}.get(
        arguments.get("type", "any"), (True, False)
    )
    rows = [note for note in shop.notes.get(order_id, []) if note["customer_note"] in customer_flags]
    rows.sort(key=lambda note: str(note["date_created_gmt"]), reverse=True)
    resources = [_linked(shop, order_id, "notes", note) for note in rows]
    return RouteResult(200, [only_fields(row, query.get("_fields"), keep_links=False) for row in resources])


def note_by_id(shop: FakeShop, order_id: int, note_id: int) -> Row:
    """Returns one note. Raises ShopError 404."""
    _noted(shop, order_id)
    for note in shop.notes.get(order_id, []):
        if note["id"] == note_id:
            return _linked(shop, order_id, "notes", note)
    raise errors.ShopError(404, "woocommerce_rest_invalid_id", "Invalid resource ID.")


def _noted(shop: FakeShop, order_id: int) -> None:
    """Raises ShopError 404 for an unknown order, with a code other than that of the list of notes."""
    if order_id not in shop.orders:
        raise errors.ShopError(404, "woocommerce_rest_order_invalid_id", "Invalid order ID.")


def create_note(shop: FakeShop, order_id: int, body: Row) -> Row:
    """Creates a note, which neither changes the order's modification time nor sends a webhook."""
    values = validated(body, _NOTE, required=("note",))
    _noted(shop, order_id)
    customer_note = bool(values.get("customer_note", False))
    note = orders.add_note(shop, order_id, values["note"], customer_note=customer_note)
    shop.record_change("order_note", note["id"], None, note, ("note", "customer_note"))
    return _linked(shop, order_id, "notes", note)


def delete_note(shop: FakeShop, order_id: int, note_id: int, *, force: bool) -> Row:
    """Removes a note permanently; answers 501 without force."""
    if not force:
        raise errors.trash_unsupported("Webhooks")
    resource = note_by_id(shop, order_id, note_id)
    shop.notes[order_id] = [note for note in shop.notes[order_id] if note["id"] != note_id]
    shop.record_change("order_note", note_id, resource, None, ("note",))
    return resource


def _refund_row(shop: FakeShop, order_id: int, amount: str, values: Row) -> Row:
    local, gmt = shop.stamp()
    meta = {"id": shop.next_id("meta"), "key": "_refund_type", "value": "partial"}
    return {
        "id": shop.next_id("post"),
        "order_id": order_id,
        "date_created": local,
        "date_created_gmt": gmt,
        "amount": amount,
        "reason": values.get("reason", ""),
        "refunded_by": 1,
        "refunded_payment": bool(values.get("api_refund", True)),
        "meta_data": [meta],
        "line_items": [],
        "shipping_lines": [],
        "tax_lines": [],
        "fee_lines": [],
    }


def refunds_listed(shop: FakeShop, order_id: int, query: Row) -> RouteResult:
    """Returns the refunds of an order; an empty list for an unknown order."""
    listing = Listing({}, _SORT, "date", shop.zone)
    arguments = listing.read(query)
    rows = [row for row in shop.refunds.values() if row["order_id"] == order_id]
    url = f"{shop.url}/wp-json/wc/v3/orders/{order_id}/refunds"
    return listing.respond(
        rows, arguments, query, url=url, show=lambda r: _linked(shop, order_id, "refunds", r)
    )


def refund_by_id(shop: FakeShop, order_id: int, refund_id: int) -> Row:
    """Returns one refund. Raises ShopError: 404 for an unknown one, 500 for another order's."""
    row = shop.refunds.get(refund_id)
    if row is None and refund_id not in shop.orders:
        raise errors.invalid_id("shop_order_refund", 404)
    if order_id not in shop.orders:
        raise errors.refund_refused("invalid_order_id", "Invalid order ID.", 404)
    if row is None or row["order_id"] != order_id:
        raise errors.refund_refused("invalid_order_refund_id", "Invalid order refund ID.", 404)
    return _linked(shop, order_id, "refunds", row)


def _noted_on_order(order: Row, refund: Row, amount: float) -> None:
    entry = {"id": refund["id"], "reason": refund["reason"], "total": f"-{orders.money(amount)}"}
    order["refunds"] = [*order["refunds"], {**entry, "total_tax": "0.00"}]


def create_refund(shop: FakeShop, order_id: int, body: Row) -> Row:
    """Creates a refund; a refund that is too high is 500 and leaves an empty one, as in WooCommerce."""
    values = validated(body, _REFUND)
    order = shop.orders.get(order_id)
    if order is None:
        raise errors.refund_refused("invalid_order_id", "Invalid order ID.", 404)
    before = dict(order)
    amount = stock.number(values.get("amount", "")) or 0.0
    refundable = float(order["total"]) + sum(float(held["total"]) for held in order["refunds"])
    if amount < 0:
        message = "Refund amount must be greater than zero."
        raise errors.refund_refused("invalid_order_refund", message, 400)
    if amount > round(refundable, 2):
        ghost = _refund_row(shop, order_id, "0.00", {})
        _noted_on_order(order, ghost, 0.0)
        shop.record_change("order", order_id, before, order, ("refunds",))
        raise errors.refund_refused("cannot_create_order_refund", "Invalid refund amount.", 500)
    row = _refund_row(shop, order_id, orders.money(amount), values)
    if "meta_data" in values:
        shop.merge_meta(row, values["meta_data"])
    shop.refunds[row["id"]] = row
    _noted_on_order(order, row, amount)
    if round(refundable - amount, 2) <= 0:
        orders.set_status(shop, order, "refunded")
    shop.mark_modified(order)
    shop.record_change("refund", row["id"], None, row, [name for name in values if name in row])
    shop.record_event("order.updated", order_id)
    return _linked(shop, order_id, "refunds", row)


def delete_refund(shop: FakeShop, order_id: int, refund_id: int, *, force: bool) -> Row:
    """Removes a refund permanently; answers 501 without force."""
    resource = refund_by_id(shop, order_id, refund_id)
    if not force:
        raise errors.trash_unsupported("Refunds")
    del shop.refunds[refund_id]
    order = shop.orders[order_id]
    order["refunds"] = [held for held in order["refunds"] if held["id"] != refund_id]
    shop.record_change("refund", refund_id, resource, None, ("amount",))
    return resource
