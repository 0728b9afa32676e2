"""Converts Shopify's products, orders and customers to the common records; no I/O."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from steward.connectors.base.records import (
    Authorization,
    Customer,
    DraftOrder,
    Fulfilment,
    FulfilmentOrder,
    Order,
    OrderLine,
    Payment,
    Product,
    Refund,
    Risk,
    Variant,
)
from steward.connectors.shopify.responses import (
    Row,
    instant_of,
    list_of,
    money,
    nodes_of,
    number_of,
    row_of,
    sub,
    text,
    text_of,
    texts_of,
    whole,
)
from steward.outbound.errors import UnusableResponse

_PAYMENT = {
    "PENDING": Payment.PENDING,
    "EXPIRED": Payment.PENDING,
    "AUTHORIZED": Payment.AUTHORIZED,
    "PARTIALLY_PAID": Payment.PARTLY_PAID,
    "PAID": Payment.PAID,
    "PARTIALLY_REFUNDED": Payment.PARTLY_REFUNDED,
    "REFUNDED": Payment.REFUNDED,
    "VOIDED": Payment.VOIDED,
}
_FULFILMENT = {
    "FULFILLED": Fulfilment.FULFILLED,
    "FULFILLMENT_NOT_REQUIRED": Fulfilment.FULFILLED,
    "PARTIALLY_FULFILLED": Fulfilment.PARTIAL,
    "ON_HOLD": Fulfilment.ON_HOLD,
}
_PAID = (Payment.PAID, Payment.PARTLY_REFUNDED, Payment.REFUNDED)
_RISK = {
    "NONE": Risk.NONE,
    "LOW": Risk.LOW,
    "MEDIUM": Risk.MEDIUM,
    "HIGH": Risk.HIGH,
    "PENDING": Risk.PENDING,
}
_ORDER_OF_RISK = (Risk.PENDING, Risk.NONE, Risk.LOW, Risk.MEDIUM, Risk.HIGH)
_ITEM = "item:"


def stock_target(item: str, location: str | None) -> str:
    """Returns the target of a stock quantity: its inventory item, and the location if there is one."""
    return f"{_ITEM}{item}@{location}" if location else f"{_ITEM}{item}"


def item_and_location(target: str) -> tuple[str, str | None]:
    """Returns the inventory item of a `stock_target` and its location, None without one."""
    item, _, location = target.removeprefix(_ITEM).partition("@")
    return item, location or None


def is_item(target: str) -> bool:
    """Returns whether an id names an inventory item, as stock events do."""
    return target.startswith(_ITEM)


def variant_of(row: Row, *, domain: str, currency: str | None, location: str | None) -> Variant:
    """Returns a variant with the product fields it shows. Raises UnusableResponse."""
    item, product = row_of(row.get("inventoryItem")), row_of(row.get("product"))
    number, item_id, product_id = (number_of(source.get("id")) for source in (row, item, product))
    status, count = (
        text_of(product, "status").lower(),
        whole(sub(product, "resourcePublicationsCount"), "count"),
    )
    title = text(row, "title")
    return Variant(
        id=number,
        product_id=product_id,
        product_title=text_of(product, "title"),
        title="" if product.get("hasOnlyDefaultVariant") is True else title,
        sku=text(row, "sku"),
        barcode=text(row, "barcode"),
        price=money(row, "price"),
        compare_at=money(row, "compareAtPrice"),
        currency=currency,
        stock=_stock(row, item, location),
        tracked=item.get("tracked") is True,
        backorders_allowed=row.get("inventoryPolicy") == "CONTINUE",
        stock_target=stock_target(item_id, location),
        product_type=_kind(product),
        status=status,
        visible=status == "active" and bool(count),
        tags=tuple(sorted(texts_of(product, "tags"))),
        url=f"https://{domain}/admin/products/{product_id}/variants/{number}",
        regular_price=money(row, "price") or "",
        weight=_weight(item),
        cost=money(item, "unitCost", "amount"),
        categories=(text(product, "productType"),) if text(product, "productType") else (),
        vendor=text(product, "vendor") or None,
        modified_at=instant_of(row),
        item_id=item_id,
        location_id=location,
        created_at=instant_of(row, "createdAt"),
        country_of_origin=text(item, "countryCodeOfOrigin") or None,
        hs_code=text(item, "harmonizedSystemCode") or None,
        ships=item.get("requiresShipping") is not False,
    )


def product_of(
    row: Row,
    variants: Iterable[Variant],
    *,
    domain: str,
    currency: str | None,
    channels: Sequence[str] | None = None,
) -> Product:
    """Returns a product with its variants. Raises UnusableResponse.

    `channels` replaces those of the row when the row holds only some of them.
    """
    number, status = number_of(row.get("id"), "Product"), text_of(row, "status").lower()
    variant_tuple = tuple(variants)
    published_channels = tuple(channels) if channels is not None else channels_of(row)
    media, seo = sub(row, "featuredMedia"), sub(row, "seo")
    image = text(sub(media, "preview", "image"), "url")
    return Product(
        id=number,
        title=text_of(row, "title"),
        handle=text(row, "handle"),
        kind=_kind(row),
        status=status,
        visible=status == "active" and bool(published_channels),
        visibility=status,
        tags=tuple(sorted(texts_of(row, "tags"))),
        type=text(row, "productType") or None,
        vendor=text(row, "vendor") or None,
        description=text(row, "descriptionHtml"),
        images=(image,) if image else (),
        variants=variant_tuple,
        currency=currency,
        stock=None,
        tracked=False,
        backorders_allowed=False,
        categories=(text(row, "productType"),) if text(row, "productType") else (),
        sellable=_kind(row) in ("simple", "variable"),
        url=f"https://{domain}/admin/products/{number}",
        modified_at=instant_of(row),
        created_at=instant_of(row, "createdAt"),
        image_alts=(text(media, "alt"),) if image else (),
        category=text(sub(row, "category"), "fullName") or None,
        seo_title=text(seo, "title"),
        seo_description=text(seo, "description"),
        channels=published_channels,
    )


def channels_of(row: Row, name: str = "resourcePublicationsV2") -> tuple[str, ...]:
    """Returns the numbers of the channels a product is published on. Raises UnusableResponse."""
    return tuple(
        sorted(number_of(sub(publication, "publication").get("id")) for publication in nodes_of(row, name))
    )


def has_more(row: Row, name: str) -> bool:
    """Returns whether a connection within a row has more nodes than the row holds."""
    return sub(row, name, "pageInfo").get("hasNextPage") is True


def line_of(row: Row) -> OrderLine:
    """Returns one line of an order. Raises UnusableResponse."""
    product, variant = row.get("product"), row.get("variant")
    quantity = whole(row, "quantity")
    if quantity is None:
        raise UnusableResponse("a line has no quantity")
    extra = text(row, "variantTitle")
    return OrderLine(
        id=number_of(row.get("id")),
        product_id=number_of(row_of(product).get("id")) if product is not None else None,
        variant_id=number_of(row_of(variant).get("id")) if variant is not None else None,
        sku=text(row, "sku"),
        title=f"{text(row, 'title')}, {extra}" if extra else text(row, "title"),
        quantity=quantity,
        total=_shop_money(row, "discountedTotalSet"),
        open_quantity=whole(row, "unfulfilledQuantity"),
        ships=row.get("requiresShipping") is not False,
    )


def order_of(row: Row, lines: Iterable[OrderLine], *, domain: str) -> Order:
    """Returns an order with its lines; sums are in the store's currency. Raises UnusableResponse."""
    number = number_of(row.get("id"), "Order")
    payment = payment_of(row)
    fulfilment = _FULFILMENT.get(text(row, "displayFulfillmentStatus"), Fulfilment.UNFULFILLED)
    total, tax = Decimal(_shop_money(row, "totalPriceSet")), Decimal(_shop_money(row, "totalTaxSet"))
    paid = payment in _PAID or row.get("fullyPaid") is True
    cancelled, closed = instant_of(row, "cancelledAt"), instant_of(row, "closedAt")
    shipping, billing = sub(row, "shippingAddress"), sub(row, "billingAddress")
    customer = sub(row, "customer")
    risk, reasons = _risk(sub(row, "risk"))
    return Order(
        id=number,
        number=text_of(row, "name"),
        status=_order_status(row),
        paid=paid,
        fulfilled=fulfilment is Fulfilment.FULFILLED,
        cancelled_at=cancelled,
        total=str(total),
        currency=text_of(row, "currencyCode"),
        tags=tuple(sorted(texts_of(row, "tags"))),
        customer_id=number_of(customer.get("id")) if customer else None,
        lines=tuple(lines),
        created_at=instant_of(row, "createdAt"),
        modified_at=instant_of(row),
        url=f"https://{domain}/admin/orders/{number}",
        payment=payment,
        fulfilment=fulfilment,
        paid_at=_paid_at(row) if paid else None,
        fulfilled_at=_latest(row, "fulfillments", "createdAt")
        if fulfilment is Fulfilment.FULFILLED
        else None,
        closed_at=closed,
        customer_name=text(customer, "displayName") or text(shipping, "name") or text(billing, "name"),
        email=text(row, "email"),
        country=text(shipping, "countryCodeV2") or text(billing, "countryCodeV2") or None,
        net=str(total - tax),
        tax=str(tax),
        refunded=_shop_money(row, "totalRefundedSet"),
        refunds=refunds_of(row),
        discount_codes=texts_of(row, "discountCodes"),
        note=text(row, "note"),
        test=row.get("test") is True,
        risk=risk,
        risk_reasons=reasons,
        fulfilment_orders=_fulfilment_orders(row),
        authorizations=_authorizations(row),
        billing_country=text(billing, "countryCodeV2") or None,
        returning=row.get("returnStatus") in ("IN_PROGRESS", "RETURN_REQUESTED"),
        customer_first_name=_name(customer, "firstName"),
        customer_last_name=_name(customer, "lastName"),
    )


def _name(row: Row, name: str) -> str | None:
    return text(row, name) or None


def _shop_money(row: Row, name: str) -> str:
    """Returns an amount in the store's currency."""
    return money(row, name, "shopMoney", "amount") or "0"


def _order_status(row: Row) -> str:
    if instant_of(row, "cancelledAt"):
        return "cancelled"
    return "closed" if row.get("closed") is True else "open"


def _fulfilment_orders(row: Row) -> tuple[FulfilmentOrder, ...]:
    return tuple(
        FulfilmentOrder(number_of(fulfilment_row.get("id")), text(fulfilment_row, "status").lower())
        for fulfilment_row in nodes_of(row, "fulfillmentOrders")
    )


def payment_of(row: Row) -> Payment:
    """Returns the payment state of an order; an expired authorization counts as none."""
    return _PAYMENT.get(text(row, "displayFinancialStatus"), Payment.PENDING)


def refunds_of(row: Row) -> tuple[Refund, ...]:
    """Returns the refunds of an order, each with its time. Raises UnusableResponse."""
    rows = [row_of(refund_row) for refund_row in list_of(row, "refunds")]
    return tuple(
        Refund(
            number_of(refund_row.get("id")),
            _shop_money(refund_row, "totalRefundedSet"),
            instant_of(refund_row, "createdAt"),
        )
        for refund_row in rows
    )


def customer_of(row: Row, *, domain: str) -> Customer:
    """Returns a customer. Raises UnusableResponse."""
    number = number_of(row.get("id"), "Customer")
    return Customer(
        id=number,
        email=text(sub(row, "defaultEmailAddress"), "emailAddress"),
        name=text(row, "displayName"),
        tags=tuple(sorted(texts_of(row, "tags"))),
        orders_count=whole(row, "numberOfOrders"),
        spent=money(row, "amountSpent", "amount"),
        modified_at=instant_of(row),
        url=f"https://{domain}/admin/customers/{number}",
        note=text(row, "note"),
        currency=text(sub(row, "amountSpent"), "currencyCode") or None,
        first_name=_name(row, "firstName"),
        last_name=_name(row, "lastName"),
    )


def draft_of(row: Row, *, domain: str) -> DraftOrder:
    """Returns a draft order. Raises UnusableResponse."""
    number = number_of(row.get("id"), "DraftOrder")
    return DraftOrder(
        number,
        text_of(row, "name"),
        text_of(row, "status").lower(),
        tuple(sorted(texts_of(row, "tags"))),
        f"https://{domain}/admin/draft_orders/{number}",
    )


def _kind(product: Row) -> str:
    if product.get("isGiftCard") is True:
        return "gift_card"
    if product.get("hasVariantsThatRequiresComponents") is True:
        return "bundle"
    return "simple" if product.get("hasOnlyDefaultVariant") is True else "variable"


def _stock(row: Row, item: Row, location: str | None) -> int | None:
    """Returns the available stock, at `location` or summed over the active locations."""
    if item.get("tracked") is not True:
        return None
    if location is None:
        return whole(row, "inventoryQuantity")
    level = item.get("inventoryLevel")
    return None if level is None else available_of(row_of(level))


def available_of(level: Row) -> int | None:
    """Returns the available quantity of an inventory level. Raises UnusableResponse."""
    rows = [row_of(quantity_row) for quantity_row in list_of(level, "quantities")]
    return whole(rows[0], "quantity") if rows else None


def _weight(item: Row) -> str | None:
    value = sub(item, "measurement", "weight").get("value")
    return None if value is None else str(value)


def _risk(summary: Row) -> tuple[Risk, tuple[str, ...]]:
    """Returns the highest level of all providers, and the facts that count against the order."""
    rows = [row_of(assessment) for assessment in list_of(summary, "assessments")] if summary else []
    if not rows:
        return Risk.PENDING, ()
    levels = [_RISK.get(text(assessment, "riskLevel"), Risk.PENDING) for assessment in rows]
    facts = [row_of(fact) for assessment in rows for fact in list_of(assessment, "facts")]
    against = tuple(text(fact, "description") for fact in facts if fact.get("sentiment") == "NEGATIVE")
    return max(levels, key=_ORDER_OF_RISK.index), against


def _authorizations(row: Row) -> tuple[Authorization, ...]:
    """Returns payments that are reserved and not captured; none when the order cannot be captured."""
    if row.get("capturable") is not True:
        return ()
    rows = [row_of(transaction) for transaction in list_of(row, "transactions")]
    return tuple(
        Authorization(
            number_of(transaction.get("id")),
            money(transaction, "amountSet", "shopMoney", "amount") or "0",
            text(transaction, "gateway"),
        )
        for transaction in rows
        if transaction.get("kind") == "AUTHORIZATION" and transaction.get("status") == "SUCCESS"
    )


def _paid_at(row: Row) -> datetime | None:
    rows = [row_of(transaction) for transaction in list_of(row, "transactions")]
    paid = [
        transaction
        for transaction in rows
        if transaction.get("kind") in ("SALE", "CAPTURE") and transaction.get("status") == "SUCCESS"
    ]
    times = [
        instant for transaction in paid if (instant := instant_of(transaction, "processedAt")) is not None
    ]
    return max(times) if times else instant_of(row, "processedAt")


def _latest(row: Row, name: str, time: str) -> datetime | None:
    times = [
        instant for entry in list_of(row, name) if (instant := instant_of(row_of(entry), time)) is not None
    ]
    return max(times) if times else None
