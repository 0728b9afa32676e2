"""Orders, refunds and customers of a WooCommerce shop as the common records (connectors 2.2)."""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from steward.connectors.base.records import Customer, Fulfilment, Order, OrderLine, Payment, Refund
from steward.connectors.woocommerce.answers import Row, id_of, instant_of, text_of
from steward.outbound.errors import UnusableResponse
from steward.outbound.response import Decoded

# Orders and customers have no tags of their own: the list is kept in this metadata entry (templates 2).
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
    """An order. Raises UnusableResponse."""
    number, status = id_of(row), text_of(row, "status")
    total, tax = _money(row, "total"), _money(row, "total_tax")
    billing, shipping = _part(row, "billing"), _part(row, "shipping")
    refunds = tuple(
        Refund(id_of(each), str(abs(_money(each, "total"))), None) for each in _rows(row, "refunds")
    )
    refunded = sum((Decimal(each.amount) for each in refunds), Decimal(0))
    paid_at, done = instant_of(row, "date_paid_gmt"), status == "completed"
    person = customer_name(billing) or _text(billing, "company")
    ships = row.get("needs_processing") is not False
    customer = row.get("customer_id")
    return Order(
        id=number,
        number=_text(row, "number") or number,
        status=status,
        paid=paid_at is not None,
        fulfilled=done,
        cancelled_at=instant_of(row) if status == "cancelled" else None,
        total=str(total),
        currency=text_of(row, "currency"),
        tags=tags_of(row),
        customer_id=str(customer) if isinstance(customer, int) and customer > 0 else None,
        lines=tuple(_line(each, done=done, ships=ships) for each in _rows(row, "line_items")),
        created_at=instant_of(row, "date_created_gmt"),
        modified_at=instant_of(row),
        url=f"{base}/wp-admin/post.php?post={number}&action=edit",
        payment=_payment(status, paid=paid_at is not None, refunded=refunded, total=total),
        fulfilment=Fulfilment.FULFILLED if done else Fulfilment.UNFULFILLED,
        paid_at=paid_at,
        fulfilled_at=instant_of(row, "date_completed_gmt"),
        customer_name=person,
        email=_text(billing, "email"),
        country=_text(shipping, "country") or _text(billing, "country") or None,
        net=str(total - tax),
        tax=str(tax),
        refunded=str(refunded),
        refunds=refunds,
        discount_codes=tuple(_text(each, "code") for each in _rows(row, "coupon_lines")),
        note=_text(row, "customer_note"),
    )


def refund_of(row: Row) -> Refund:
    """A refund with its time. Raises UnusableResponse."""
    return Refund(id_of(row), str(abs(_money(row, "amount"))), instant_of(row, "date_created_gmt"))


def customer_of(row: Row, *, base: str) -> Customer:
    """A customer; what they bought is worked out from orders. Raises UnusableResponse."""
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
    """First and last name, joined."""
    return f"{_text(row, 'first_name')} {_text(row, 'last_name')}".strip()


def tags_of(row: Row) -> tuple[str, ...]:
    """The tags kept in metadata, sorted: text joined by commas, or a list as others may write it."""
    found: set[str] = set()
    for entry in _rows(row, "meta_data"):
        if entry.get("key") == TAGS_KEY:
            value = entry.get("value")
            listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
            found |= {each.strip() for each in listed if isinstance(each, str) and each.strip()}
    return tuple(sorted(found))


def _payment(status: str, *, paid: bool, refunded: Decimal, total: Decimal) -> Payment:
    """How far it is paid; an order in work without a payment time is one on delivery: promised."""
    if status == "refunded" or (paid and total > 0 and refunded >= total):
        return Payment.REFUNDED
    if paid:
        return Payment.PARTLY_REFUNDED if refunded > 0 else Payment.PAID
    if status in ("processing", "completed"):
        return Payment.AUTHORIZED
    return _UNPAID.get(status, Payment.PENDING)


def _line(row: Row, *, done: bool, ships: bool) -> OrderLine:
    product, variation = row.get("product_id"), row.get("variation_id")
    held = str(product) if isinstance(product, int) and product > 0 else None
    own = f"{held}/{variation}" if held and isinstance(variation, int) and variation > 0 else held
    quantity = row.get("quantity")
    if not isinstance(quantity, int | Decimal) or quantity != int(quantity):
        raise UnusableResponse("a line's quantity is not a whole number")
    return OrderLine(
        id=id_of(row),
        product_id=held,
        variant_id=own,
        sku=_text(row, "sku"),
        title=_text(row, "name"),
        quantity=int(quantity),
        total=str(_money(row, "total")),
        open_quantity=0 if done else int(quantity),
        ships=ships,
    )


def _money(row: Row, name: str) -> Decimal:
    value = row.get(name)
    try:
        amount = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite():
        raise UnusableResponse(f"{name} is no amount")
    return amount


def _rows(row: Row, name: str) -> Sequence[Row]:
    found = row.get(name)
    if not isinstance(found, list):
        raise UnusableResponse(f"{name} is not a list")
    return [_object(each) for each in found]


def _part(row: Row, name: str) -> Row:
    return _object(row.get(name))


def _object(value: Decoded) -> Row:
    if not isinstance(value, dict):
        raise UnusableResponse("an object was expected")
    return value


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""
