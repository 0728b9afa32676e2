"""Converts orders, refunds and customers of a WooCommerce shop to the common records."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from steward.connectors.base.records import Customer, Fulfilment, Order, OrderLine, Payment, Refund
from steward.connectors.woocommerce.responses import Row, id_of, instant_of, text_of
from steward.outbound.errors import UnusableResponse
from steward.outbound.response import Decoded

# Orders and customers have no tags of their own: this metadata entry holds the list.
TAGS_KEY = "steward_tags"
DRAFTS = frozenset({"auto-draft", "checkout-draft", "trash"})
OPEN = ("pending", "processing", "on-hold")
ORDER_FIELDS = (
    "id,number,status,currency,date_created_gmt,date_modified_gmt,date_paid_gmt,date_completed_gmt,total,"
    "total_tax,customer_id,billing,shipping,customer_note,meta_data,line_items,coupon_lines,refunds,"
    "needs_processing"
)
REFUND_FIELDS = "id,amount,reason,date_created_gmt"
CUSTOMER_FIELDS = "id,email,first_name,last_name,username,meta_data,date_modified_gmt"
_UNPAID = {"on-hold": Payment.ON_HOLD, "cancelled": Payment.VOIDED, "failed": Payment.VOIDED}


def order_of(row: Row, *, base: str) -> Order:
    """Returns an order. Raises UnusableResponse."""
    number, status = id_of(row), text_of(row, "status")
    total, tax = _money(row, "total"), _money(row, "total_tax")
    billing, shipping = _part(row, "billing"), _part(row, "shipping")
    refunds = tuple(
        Refund(id_of(part), str(abs(_money(part, "total"))), None) for part in _rows(row, "refunds")
    )
    refunded = sum((Decimal(part.amount) for part in refunds), Decimal(0))
    paid_at, done = instant_of(row, "date_paid_gmt"), status == "completed"
    is_paid = paid_at is not None
    person = customer_name(billing) or _text(billing, "company")
    ships = row.get("needs_processing") is not False
    return Order(
        id=number,
        number=_text(row, "number") or number,
        status=status,
        paid=is_paid,
        fulfilled=done,
        cancelled_at=instant_of(row) if status == "cancelled" else None,
        total=str(total),
        currency=text_of(row, "currency"),
        tags=tags_of(row),
        customer_id=_reference(row, "customer_id"),
        lines=tuple(_line(part, done=done, ships=ships) for part in _rows(row, "line_items")),
        created_at=instant_of(row, "date_created_gmt"),
        modified_at=instant_of(row),
        url=f"{base}/wp-admin/post.php?post={number}&action=edit",
        payment=_payment(status, paid=is_paid, refunded=refunded, total=total),
        fulfilment=Fulfilment.FULFILLED if done else Fulfilment.UNFULFILLED,
        paid_at=paid_at,
        fulfilled_at=instant_of(row, "date_completed_gmt"),
        customer_name=person,
        email=_text(billing, "email"),
        country=_country(shipping, billing),
        net=str(total - tax),
        tax=str(tax),
        refunded=str(refunded),
        refunds=refunds,
        discount_codes=tuple(_text(part, "code") for part in _rows(row, "coupon_lines")),
        note=_text(row, "customer_note"),
    )


def refund_of(row: Row) -> Refund:
    """Returns a refund with its time. Raises UnusableResponse."""
    return Refund(id_of(row), str(abs(_money(row, "amount"))), instant_of(row, "date_created_gmt"))


def customer_of(row: Row, *, base: str) -> Customer:
    """Returns a customer without totals, which have to be read from orders. Raises UnusableResponse."""
    number = id_of(row)
    return Customer(
        id=number,
        email=text_of(row, "email"),
        name=customer_name(row) or _text(row, "username"),
        tags=tags_of(row),
        orders_count=None,
        spent=None,
        modified_at=instant_of(row),
        url=f"{base}/wp-admin/user-edit.php?user_id={number}",
    )


def customer_name(row: Row) -> str:
    """Returns first and last name, joined."""
    return f"{_text(row, 'first_name')} {_text(row, 'last_name')}".strip()


def tags_of(row: Row) -> tuple[str, ...]:
    """Returns the tags stored in metadata, sorted; reads comma-separated text and lists."""
    tags: set[str] = set()
    for entry in _rows(row, "meta_data"):
        if entry.get("key") == TAGS_KEY:
            value = entry.get("value")
            listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
            tags |= {tag.strip() for tag in listed if isinstance(tag, str) and tag.strip()}
    return tuple(sorted(tags))


def _payment(status: str, *, paid: bool, refunded: Decimal, total: Decimal) -> Payment:
    """Returns the payment state; an open order without a payment time is paid on delivery."""
    if status == "refunded" or (paid and total > 0 and refunded >= total):
        return Payment.REFUNDED
    if paid:
        return Payment.PARTLY_REFUNDED if refunded > 0 else Payment.PAID
    if status in ("processing", "completed"):
        return Payment.AUTHORIZED
    return _UNPAID.get(status, Payment.PENDING)


def _line(row: Row, *, done: bool, ships: bool) -> OrderLine:
    product_id, variation_id = _reference(row, "product_id"), _reference(row, "variation_id")
    variant_id = f"{product_id}/{variation_id}" if product_id and variation_id else product_id
    quantity = row.get("quantity")
    if not isinstance(quantity, int | Decimal) or quantity != int(quantity):
        raise UnusableResponse("a line's quantity is not a whole number")
    return OrderLine(
        id=id_of(row),
        product_id=product_id,
        variant_id=variant_id,
        sku=_text(row, "sku"),
        title=_text(row, "name"),
        quantity=int(quantity),
        total=str(_money(row, "total")),
        open_quantity=0 if done else int(quantity),
        ships=ships,
    )


def _reference(row: Row, name: str) -> str | None:
    """Returns the id of another object, or null: the shop writes 0 for none."""
    value = row.get(name)
    return str(value) if isinstance(value, int) and value > 0 else None


def _country(shipping: Row, billing: Row) -> str | None:
    return _text(shipping, "country") or _text(billing, "country") or None


def _money(row: Row, name: str) -> Decimal:
    value = row.get(name)
    try:
        amount = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite():
        raise UnusableResponse(f"{name} is not an amount")
    return amount


def _rows(row: Row, name: str) -> Sequence[Row]:
    items = row.get(name)
    if not isinstance(items, list):
        raise UnusableResponse(f"{name} is not a list")
    return [_object(item) for item in items]


def _part(row: Row, name: str) -> Row:
    return _object(row.get(name))


def _object(value: Decoded) -> Row:
    if not isinstance(value, dict):
        raise UnusableResponse("an object was expected")
    return value


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""
