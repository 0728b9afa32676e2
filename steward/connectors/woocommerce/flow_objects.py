"""Converts orders, products and customers to Shopify Flow's objects as far as their fields correspond.

The supported fields are known without a call; missing ones are never invented.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from steward.connectors.base.records import Customer, Fulfilment, Order, OrderLine, Payment, Product, Variant
from steward.model.json import JsonValue

_Getter = Callable[[Any], JsonValue]
_PAYMENT = {
    Payment.PENDING: "PENDING",
    Payment.ON_HOLD: "PENDING",
    Payment.AUTHORIZED: "PENDING",  # cash on delivery: no payment is reserved that could be captured
    Payment.PARTLY_PAID: "PARTIALLY_PAID",
    Payment.PAID: "PAID",
    Payment.PARTLY_REFUNDED: "PARTIALLY_REFUNDED",
    Payment.REFUNDED: "REFUNDED",
    Payment.VOIDED: "VOIDED",
}
_SENT = {
    Fulfilment.UNFULFILLED: "UNFULFILLED",
    Fulfilment.PARTIAL: "PARTIALLY_FULFILLED",
    Fulfilment.FULFILLED: "FULFILLED",
    Fulfilment.ON_HOLD: "ON_HOLD",
}
_STATUS = {"publish": "ACTIVE", "draft": "DRAFT", "pending": "DRAFT", "private": "ARCHIVED"}


def _moment(instant: datetime | None) -> JsonValue:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if instant is not None else None


def _bag(prefix: str, amount: Callable[[Order], str]) -> dict[str, _Getter]:
    return {
        f"{prefix}Set.shopMoney.amount": amount,
        f"{prefix}Set.shopMoney.currencyCode": lambda order: order.currency,
        prefix: amount,
    }


_LINE: Mapping[str, _Getter] = {
    "id": lambda line: line.id,
    "title": lambda line: line.title,
    "name": lambda line: line.title,
    "sku": lambda line: line.sku,
    "quantity": lambda line: line.quantity,
    "unfulfilledQuantity": lambda line: line.open_quantity,
    "requiresShipping": lambda line: line.ships,
    "product.id": lambda line: line.product_id,
    "variant.id": lambda line: line.variant_id,
}
_VARIANT: Mapping[str, _Getter] = {
    "id": lambda variant: variant.id,
    "title": lambda variant: variant.title or "Default Title",
    "displayName": lambda variant: variant.label,
    "sku": lambda variant: variant.sku,
    "barcode": lambda variant: variant.barcode,
    "price": lambda variant: variant.price,
    "compareAtPrice": lambda variant: variant.compare_at,
    "inventoryQuantity": lambda variant: variant.stock,
}
_FIELDS: Mapping[str, Mapping[str, _Getter]] = {
    "order": {
        "id": lambda order: order.id,
        "name": lambda order: f"#{order.number}",
        "email": lambda order: order.email,
        "note": lambda order: order.note,
        "createdAt": lambda order: _moment(order.created_at),
        "updatedAt": lambda order: _moment(order.modified_at),
        "cancelledAt": lambda order: _moment(order.cancelled_at),
        "currencyCode": lambda order: order.currency,
        "discountCodes": lambda order: list(order.discount_codes),
        "displayFinancialStatus": lambda order: _PAYMENT[order.payment],
        "displayFulfillmentStatus": lambda order: _SENT[order.fulfilment],
        "fullyPaid": lambda order: order.paid,
        "shippingAddress.countryCodeV2": lambda order: order.country,
        "customer.id": lambda order: order.customer_id,
        "customer.displayName": lambda order: order.customer_name,
        "customer.email": lambda order: order.email,
        **_bag("totalPrice", lambda order: order.total),
        **_bag("totalTax", lambda order: order.tax),
        **_bag("totalRefunded", lambda order: order.refunded),
    },
    "product": {
        "id": lambda product: product.id,
        "title": lambda product: product.title,
        "handle": lambda product: product.handle,
        "status": lambda product: _STATUS.get(product.status, product.status.upper()),
        "tags": lambda product: list(product.tags),
        "productType": lambda product: product.type or "",
        "descriptionHtml": lambda product: product.description,
        "createdAt": lambda product: _moment(product.created_at),
        "updatedAt": lambda product: _moment(product.modified_at),
        "totalInventory": lambda product: product.stock,
    },
    "customer": {
        "id": lambda customer: customer.id,
        "email": lambda customer: customer.email,
        "displayName": lambda customer: customer.name,
        "updatedAt": lambda customer: _moment(customer.modified_at),
    },
}
_LISTS: Mapping[str, tuple[str, Mapping[str, _Getter]]] = {
    "order": ("lineItems", _LINE),
    "product": ("variants", _VARIANT),
}
_OF_LISTS = frozenset(("first", "last", "size"))


def unsupported_paths(root: str, paths: Iterable[str]) -> list[str]:
    """Returns the paths, which start with the root, that correspond to no field of a shop."""
    return [path for path in paths if not _is_told(root, path.removeprefix(root).lstrip("."))]


def _is_told(root: str, below: str) -> bool:
    fields = _FIELDS.get(root)
    if fields is None:
        return False
    name, items = _LISTS.get(root, ("", {}))
    first, _, remaining_path = below.partition(".")
    if name and first == name:
        parts = [part for part in remaining_path.split(".") if part and part not in _OF_LISTS]
        return _within(".".join(parts), items)
    return _within(below, fields)


def _within(path: str, fields: Mapping[str, _Getter]) -> bool:
    """Returns whether a path leads to a value, or to an object with at least one existing value."""
    return not path or path in fields or any(name.startswith(f"{path}.") for name in fields)


def flow_object(record: Order | Product | Customer) -> dict[str, JsonValue]:
    """Returns the fields of a record that Shopify Flow can read; a guest has no customer."""
    root = "order" if isinstance(record, Order) else "product" if isinstance(record, Product) else "customer"
    tree = _tree(_FIELDS[root], record)
    if isinstance(record, Order):
        tree["lineItems"] = [_line(line) for line in record.lines]
        if record.customer_id is None:
            tree["customer"] = None
    elif isinstance(record, Product):
        tree["variants"] = [_variant(variant) for variant in record.variants]
    return tree


def _line(line: OrderLine) -> JsonValue:
    return _tree(_LINE, line)


def _variant(variant: Variant) -> JsonValue:
    return _tree(_VARIANT, variant)


def _tree(fields: Mapping[str, _Getter], record: Any) -> dict[str, JsonValue]:
    tree: dict[str, Any] = {}
    for path, value in fields.items():
        branch, (*names, last) = tree, path.split(".")
        for name in names:
            branch = branch.setdefault(name, {})
        branch[last] = value(record)
    return tree
