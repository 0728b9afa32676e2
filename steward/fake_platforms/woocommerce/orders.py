"""Orders of the fake shop: list, get, create, update, delete."""

import hashlib
from collections.abc import Iterable
from typing import Any

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import blank, errors, stock
from steward.fake_platforms.woocommerce.arguments import Arg, coerced, validated
from steward.fake_platforms.woocommerce.listing import Listing, RouteResult
from steward.fake_platforms.woocommerce.shop import FakeShop

STATES: tuple[str, ...] = (
    "auto-draft",
    "pending",
    "processing",
    "on-hold",
    "completed",
    "cancelled",
    "refunded",
    "failed",
)
STATES += ("checkout-draft",)
_TAKES_STOCK = ("processing", "completed", "on-hold")
META = Arg("objects", inside={"id": Arg("integer", nullable=True), "key": Arg()})
ADDRESS = {name: Arg() for name in blank.address(email=False)} | {"email": Arg("email")}
_BILLING = ADDRESS | {"email": Arg("email", nullable=True)}
_LINE = {
    "id": Arg("integer"),
    "name": Arg(),
    "sku": Arg(),
    "product_id": Arg("any"),
    "variation_id": Arg("integer"),
    "quantity": Arg("integer"),
    "subtotal": Arg(),
    "total": Arg(),
}
ARGS: dict[str, Arg] = {
    "parent_id": Arg("integer"),
    "created_via": Arg(),
    "status": Arg("string", STATES),
    "currency": Arg(),
    "customer_id": Arg("integer"),
    "customer_note": Arg(),
    "billing": Arg("object", inside=_BILLING),
    "shipping": Arg("object", inside=ADDRESS),
    "payment_method": Arg(),
    "payment_method_title": Arg(),
    "transaction_id": Arg(),
    "meta_data": META,
    "line_items": Arg("objects", inside=_LINE),
    "shipping_lines": Arg("objects", inside={"total": Arg()}),
    "fee_lines": Arg("objects", inside={"total": Arg()}),
    "set_paid": Arg("boolean"),
}
_PLAIN: tuple[str, ...] = (
    "parent_id",
    "created_via",
    "currency",
    "customer_id",
    "customer_note",
    "payment_method",
)
_PLAIN += ("payment_method_title", "transaction_id")
_SORT = {
    "date": "date_created_gmt",
    "id": "id",
    "title": "number",
    "slug": "number",
    "modified": "date_modified_gmt",
}
_LIST = {
    "status": Arg("texts", ("any", "trash", *STATES)),
    "customer": Arg("integer"),
    "product": Arg("integer"),
    "dp": Arg("integer"),
}
_WORDS = {"pending": "Pending payment", "on-hold": "On hold"}


def find(shop: FakeShop, order_id: int, status: int) -> Row:
    """Returns the order. Raises ShopError with the given status."""
    if order_id not in shop.orders:
        raise errors.invalid_id("shop_order", status)
    return shop.orders[order_id]


def show(shop: FakeShop, row: Row) -> Row:
    """Returns an order as the shop answers it."""
    links = shop.links(f"orders/{row['id']}", collection="orders")
    href = f"{links['self'][0]['href']}/actions/email_templates"
    links["email_templates"] = [{"embeddable": True, "href": href}]
    if row["customer_id"]:
        links["customer"] = [{"href": f"{shop.url}/wp-json/wc/v3/customers/{row['customer_id']}"}]
    return {**row, "_links": links}


def listed(shop: FakeShop, query: Row) -> RouteResult:
    """Returns the list of orders, without the trash by default."""
    listing = Listing(_LIST, _SORT, "date", shop.zone, ("number", "billing"))
    arguments = listing.read(query)
    rows = _in_states(shop.orders.values(), set(arguments.get("status") or ["any"]))
    if "customer" in arguments:
        rows = [row for row in rows if row["customer_id"] == arguments["customer"]]
    if "product" in arguments:
        rows = [row for row in rows if _has_product(row, arguments["product"])]
    url = f"{shop.url}/wp-json/wc/v3/orders"
    return listing.respond(rows, arguments, query, url=url, show=lambda row: show(shop, row))


def _in_states(rows: Iterable[Row], states: set[str]) -> list[Row]:
    if "any" in states:
        return [row for row in rows if row["status"] != "trash"]
    return [row for row in rows if row["status"] in states]


def _has_product(row: Row, product_id: int) -> bool:
    return any(order_line["product_id"] == product_id for order_line in row["line_items"])


def money(value: float) -> str:
    """Formats an amount with two decimals."""
    return f"{value:.2f}"


def _product_meant(shop: FakeShop, fields: Row) -> Row | None:
    """Returns the product or variation that a line names; null for an unknown one.

    The SKU takes precedence, then the variation, then the product. Raises ShopError when the line names
    nothing.
    """
    if fields.get("sku"):
        return next(shop.with_sku(str(fields["sku"])), None)
    number = fields.get("variation_id") or fields.get("product_id")
    if not number:
        message = "Product ID or SKU is required."
        raise errors.ShopError(400, "woocommerce_rest_required_product_reference", message)
    key = int(number) if isinstance(number, int | float) or str(number).isdigit() else 0
    return shop.variations.get(key) or shop.products.get(key)


def line(shop: FakeShop, fields: Row) -> Row:
    """Returns a new order line; an empty one for an unknown product."""
    sold = _product_meant(shop, fields)
    product = _product_fields(shop, sold)
    quantity = int(fields.get("quantity", 1))
    price = (stock.number(sold["price"]) or 0.0) if sold is not None else 0.0
    total = _amount(fields, "total", price * quantity)
    subtotal = max(_amount(fields, "subtotal", price * quantity), total)
    return {
        "id": shop.next_id("line"),
        "name": str(fields.get("name") or product["name"]),
        "product_id": product["product_id"],
        "variation_id": product["variation_id"],
        "quantity": quantity,
        "tax_class": "",
        "subtotal": money(subtotal),
        "subtotal_tax": "0.00",
        "total": money(total),
        "total_tax": "0.00",
        "taxes": [],
        "meta_data": [],
        "sku": product["sku"],
        "global_unique_id": product["global_unique_id"],
        "price": _unit(total, quantity),
        "image": {"id": product["image_id"], "src": ""},
        "parent_name": product["parent_name"],
    }


def _product_fields(shop: FakeShop, sold: Row | None) -> Row:
    """Returns the fields of a line that come from its product or variation."""
    if sold is None:
        unknown = {"name": "", "product_id": 0, "variation_id": 0, "parent_name": None}
        return unknown | {"sku": None, "global_unique_id": None, "image_id": 0}
    fields = {"name": sold["name"], "product_id": sold["id"], "variation_id": 0, "parent_name": None}
    fields |= {"sku": sold["sku"], "global_unique_id": sold["global_unique_id"], "image_id": ""}
    if sold["type"] == "variation":
        parent = shop.products[sold["parent_id"]]
        fields["name"] = f"{parent['name']} - {sold['name']}"
        fields |= {"product_id": parent["id"], "variation_id": sold["id"], "parent_name": parent["name"]}
    return fields


def _amount(fields: Row, name: str, otherwise: float) -> float:
    return (stock.number(str(fields[name])) or 0.0) if name in fields else otherwise


def _unit(total: float, quantity: int) -> float | int:
    unit = round(total / quantity, 6) if quantity else 0
    return int(unit) if unit == int(unit) else unit


def _set_lines(shop: FakeShop, row: Row, requested: list[Row]) -> None:
    """Stores lines: changes those with an id, and adds those without one each time."""
    lines: list[Row] = [dict(line) for line in row["line_items"]]
    for fields in requested:
        is_removed = _is_removal(fields)
        current_line = next((existing for existing in lines if existing["id"] == fields.get("id")), None)
        if current_line is None and (fields.get("id") or is_removed):
            message = "Order item ID provided is not associated with order."
            raise errors.ShopError(400, "woocommerce_rest_invalid_item_id", message)
        if current_line is None:
            lines.append(line(shop, fields))
        elif is_removed:
            lines.remove(current_line)
        else:
            _change_line(current_line, fields)
    row["line_items"] = lines


def _is_removal(fields: Row) -> bool:
    return fields.get("quantity") == 0 or None in (fields.get("product_id", 0), fields.get("name", ""))


def _change_line(order_line: Row, fields: Row) -> None:
    """Applies the requested fields to a line; a quantity alone leaves the total unchanged."""
    total = _amount(fields, "total", float(order_line["total"]))
    subtotal = max(_amount(fields, "subtotal", float(order_line["subtotal"])), total)
    quantity = int(fields["quantity"] if "quantity" in fields else order_line["quantity"])
    order_line |= {"quantity": quantity, "total": money(total), "subtotal": money(subtotal)}
    order_line["price"] = _unit(total, quantity)
    if fields.get("name"):
        order_line["name"] = str(fields["name"])


def _needs_processing(shop: FakeShop, row: Row) -> bool:
    """Returns whether a line has a product to ship: one that is not both virtual and downloadable."""
    sold = [
        shop.sellable(order_line["product_id"], order_line["variation_id"])
        for order_line in row["line_items"]
    ]
    return any(
        product is not None and not (product["virtual"] and product["downloadable"]) for product in sold
    )


def _paid_status(shop: FakeShop, row: Row) -> str:
    """Returns the status after payment; cash on delivery counts as paid once completed."""
    ships = row["payment_method"] != "cod" and _needs_processing(shop, row)
    return "processing" if ships else "completed"


def derive(shop: FakeShop, row: Row) -> None:
    """Sets totals, and the flags that say which actions the order allows."""
    parts = [*row["line_items"], *row["shipping_lines"], *row["fee_lines"]]
    total = sum((stock.number(line.get("total", "")) or 0.0) for line in parts)
    row["total"] = money(total)
    row["shipping_total"] = money(
        sum((stock.number(line.get("total", "")) or 0.0) for line in row["shipping_lines"])
    )
    row["is_editable"] = row["status"] in ("pending", "on-hold", "auto-draft")
    row["needs_payment"] = row["status"] in ("pending", "failed") and total > 0
    row["needs_processing"] = _needs_processing(shop, row)


def _reduce_stock(shop: FakeShop, row: Row) -> None:
    """Reduces stock once for each line, when the order becomes processing, completed or on hold."""
    for line in row["line_items"]:
        sold = shop.sellable(line["product_id"], line["variation_id"])
        is_reduced = any(entry["key"] == "_reduced_stock" for entry in line["meta_data"])
        if sold is not None and not is_reduced and stock.move_stock(shop, sold, -line["quantity"]):
            quantity_text = str(line["quantity"])
            entry = {"id": shop.next_id("meta"), "key": "_reduced_stock", "value": quantity_text}
            line["meta_data"] = [{**entry, "display_key": "_reduced_stock", "display_value": quantity_text}]


def _restore_stock(shop: FakeShop, row: Row) -> None:
    for line in row["line_items"]:
        sold = shop.sellable(line["product_id"], line["variation_id"])
        reductions = [entry for entry in line["meta_data"] if entry["key"] == "_reduced_stock"]
        if reductions and sold is not None:
            stock.move_stock(shop, sold, int(reductions[0]["value"]))
            line["meta_data"] = [entry for entry in line["meta_data"] if entry not in reductions]


def add_note(shop: FakeShop, order_id: int, text: str, *, customer_note: bool = False) -> Row:
    """Adds a note to an order."""
    local, gmt = shop.stamp()
    note = {"id": shop.next_id("comment"), "author": "WooCommerce", "date_created": local}
    note |= {"date_created_gmt": gmt, "note": text, "customer_note": customer_note}
    shop.notes.setdefault(order_id, []).append(note)
    return note


def set_status(shop: FakeShop, row: Row, status: str, *, noted: bool = True) -> None:
    """Sets the status of an order with its dates, stock and note."""
    old, row["status"] = row["status"], status
    local, gmt = shop.stamp()
    if status in (_paid_status(shop, row), "completed") and not row["date_paid_gmt"]:
        row["date_paid"], row["date_paid_gmt"] = local, gmt
    if status == "completed" and old != "completed":
        row["date_completed"], row["date_completed_gmt"] = local, gmt
    if status in _TAKES_STOCK:
        _reduce_stock(shop, row)
    elif status in ("cancelled", "pending"):
        _restore_stock(shop, row)
    if noted and old != status:
        names = [_WORDS.get(state, state.capitalize()) for state in (old, status)]
        add_note(shop, row["id"], f"Order status changed from {names[0]} to {names[1]}.")


def _apply(shop: FakeShop, row: Row, values: Row) -> None:
    _refuse_unknown_customer(shop, values.get("customer_id"))
    if "line_items" in values:
        _set_lines(shop, row, values["line_items"])
    for name in _PLAIN:
        if name in values:
            row[name] = values[name]
    for name in ("billing", "shipping"):
        row[name] = _changed_address(row[name], values.get(name, {}))
    for name in ("shipping_lines", "fee_lines"):
        if name in values:
            row[name] = [{"id": shop.next_id("line"), **line} for line in values[name]]
    if "meta_data" in values:
        shop.merge_meta(row, values["meta_data"])


def _refuse_unknown_customer(shop: FakeShop, customer_id: int | None) -> None:
    if customer_id and customer_id not in shop.customers:
        raise errors.ShopError(400, "woocommerce_rest_invalid_customer_id", "Customer ID is invalid.")


def _changed_address(address: Row, changes: Row) -> Row:
    return {**address, **{name: value for name, value in changes.items() if name in address}}


def _values(body: Row, *, loose: bool) -> Row:
    if not loose:
        return validated(body, ARGS)
    values = coerced(body, ARGS, fallback="pending")
    return values | ({"status": "trash"} if body.get("status") == "trash" else {})


def create(shop: FakeShop, body: Row, *, loose: bool = False) -> Row:
    """Creates an order, even if an equal one exists. Raises ShopError."""
    values = _values(body, loose=loose)
    row = blank.order()
    shop.mark_created(row)
    _apply(shop, row, values)
    row["id"] = shop.next_id("post")
    row["number"] = str(row["id"])
    secret = hashlib.sha256(f"{shop.url} order {row['id']}".encode()).hexdigest()[:13]
    row["order_key"] = f"wc_order_{secret}"
    pay = f"{shop.url}/checkout/order-pay/{row['id']}/?pay_for_order=true&key={row['order_key']}"
    row["payment_url"] = pay
    shop.orders[row["id"]] = row
    status = values.get("status") or "pending"
    if values.get("set_paid") and status in ("pending", "on-hold", "failed", "cancelled"):
        status = _paid_status(shop, row)
    shop.record_change("order", row["id"], None, {**row, "status": status}, _written(values))
    shop.record_event("order.created", row["id"])
    shop.record_event("order.updated", row["id"])
    set_status(shop, row, status)
    derive(shop, row)
    return show(shop, row)


def _written(values: Row) -> Iterable[Any]:
    return [name for name in values if name != "set_paid"]


def update(shop: FakeShop, order_id: int, body: Row, *, loose: bool = False) -> Row:
    """Changes an order; if orders are posts, metadata alone does not change its modification time."""
    values = _values(body, loose=loose)
    row = find(shop, order_id, 400)
    before, draft = dict(row), dict(row)
    _apply(shop, draft, values)
    row.update(draft)
    status = values.get("status") or None
    if values.get("set_paid"):
        derive(shop, row)
        is_open = (status or row["status"]) in ("pending", "failed")
        status = _paid_status(shop, row) if is_open and float(row["total"]) > 0 else status
    shop.record_change(
        "order", order_id, before, {**row, "status": status or row["status"]}, _written(values)
    )
    shop.record_event("order.updated", order_id)
    if status is not None:
        set_status(shop, row, status)
    derive(shop, row)
    if shop.orders_in_own_tables or set(values) - {"meta_data"}:
        shop.mark_modified(row)
    return show(shop, row)


def delete(shop: FakeShop, order_id: int, *, force: bool) -> Row:
    """Trashes an order, or removes it permanently; if orders are posts, also sends product.deleted."""
    row = find(shop, order_id, 404)
    resource, before = show(shop, dict(row)), dict(row)
    if force:
        del shop.orders[order_id]
        shop.record_change("order", order_id, before, None, ("status",))
        return resource
    if row["status"] == "trash":
        raise errors.already_trashed("shop_order")
    row["status"] = "trash"
    shop.mark_modified(row)
    shop.record_change("order", order_id, before, row, ("status",))
    shop.record_event("order.deleted", order_id)
    if not shop.orders_in_own_tables:
        shop.record_event("product.deleted", order_id)
    return resource
