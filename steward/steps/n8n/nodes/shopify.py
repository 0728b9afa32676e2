"""The node shopify: reads products and orders, naming their common fields as the REST API does."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from steward.connectors.base.queries import ORDERS, PRODUCTS, OrdersQuery, ProductsQuery
from steward.connectors.base.records import Customer, Fulfilment, Order, Payment, Product
from steward.model.json import AnyJson, JsonValue
from steward.steps.base import StoreAccess
from steward.steps.n8n.nodes.stores import READS, StoreNode, limit_of, operation_of
from steward.steps.n8n.store_fields import SHOPIFY
from steward.steps.workflow.external_calls import read_all
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    KnownFields,
    NodeDefinition,
    Params,
    StepProblem,
    is_expression,
)

_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "order": frozenset(("fields", "status", "createdAtMin", "createdAtMax", "updatedAtMin")),
    "product": frozenset(("fields", "updatedAtMin")),
}
_STATUSES: Final = frozenset(("any", "open"))
_PAYMENT: Final[Mapping[Payment, str]] = {
    Payment.ON_HOLD: "pending",
    Payment.PARTLY_PAID: "partially_paid",
    Payment.PARTLY_REFUNDED: "partially_refunded",
}
_FULFILMENT: Final[Mapping[Fulfilment, str]] = {
    Fulfilment.PARTIAL: "partial",
    Fulfilment.FULFILLED: "fulfilled",
}
# The fields output for each kind of object, with those of nested objects and of list elements.
KNOWN_FIELDS: Final[Mapping[str, KnownFields]] = {
    "order": {
        **dict.fromkeys(
            (
                *("id", "name", "order_number", "email", "total_price", "total_tax", "currency"),
                *("financial_status", "fulfillment_status", "tags", "note"),
                *("created_at", "updated_at", "cancelled_at"),
            )
        ),
        "customer": frozenset(("id", "first_name", "last_name")),
        "line_items": frozenset(("id", "product_id", "variant_id", "sku", "title", "quantity")),
    },
    "product": {
        **dict.fromkeys(
            (
                *("id", "title", "handle", "status", "vendor", "product_type", "tags", "body_html"),
                *("created_at", "updated_at"),
            )
        ),
        "variants": frozenset(
            (
                *("id", "product_id", "title", "sku", "barcode", "price", "compare_at_price"),
                "inventory_quantity",
            )
        ),
    },
    "customer": dict.fromkeys(
        (
            *("id", "email", "first_name", "last_name", "tags", "note"),
            *("orders_count", "total_spent", "currency", "updated_at"),
        )
    ),
}
# Fields of the REST API and its events, any of which the objects that a step outputs may lack: those that
# KNOWN_FIELDS has for no object, and those that it has for some.
LACKING_FIELDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        addresses admin_graphql_api_id app_id billing_address browser_ip buyer_accepts_marketing
        cancel_reason cart_token checkout_token client_details closed_at confirmation_number confirmed
        contact_email current_subtotal_price current_total_discounts current_total_price current_total_tax
        customer_locale default_address discount_allocations discount_applications discount_codes first_name
        fulfillable_quantity fulfillment_service fulfillments gift_card grams image images inventory_item_id
        inventory_policy landing_site last_name last_order_id last_order_name location_id note_attributes
        options order_status_url orders_count payment_gateway_names payment_terms phone po_number
        presentment_currency presentment_prices processed_at published_at published_scope referring_site
        refunds requires_shipping shipping_address shipping_lines source_name subtotal_price tax_lines
        taxable taxes_included template_suffix total_discount total_discounts total_line_items_price
        total_outstanding total_shipping_price_set total_spent total_tip_received total_weight variant_title
        verified_email weight
        """,
    )
) | {name for fields in KNOWN_FIELDS.values() for name in fields}


class ShopifyNode(StoreNode):
    """Reads products by title and orders newest first, as the REST API lists them."""

    types = ("shopify",)
    platform = "shopify"
    fields = SHOPIFY
    resources = frozenset(("product", "order"))
    default_resource = "order"

    def known_fields(self, node: NodeDefinition) -> KnownFields | None:
        """Returns the fields of the objects that it reads; None for changes, which pass fields on."""
        if operation_of(node) not in READS:
            return None
        fields = KNOWN_FIELDS.get(self.resource_of(node), {})
        chosen = node.get("options.fields")
        if not isinstance(chosen, str) or not chosen or is_expression(chosen):
            return fields
        return {name: fields[name] for name in _names_in(chosen) if name in fields}

    def read_problems(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported filters, and a warning that not every field is read."""
        if operation_of(node) not in READS:
            return
        message = (
            "It reads the most common fields of the object, not all of them. Check what later steps use."
        )
        yield StepProblem("warning", "parameter", message)
        options = node.get("options", {})
        known_options = _OPTIONS.get(self.resource_of(node), frozenset())
        for name in options if isinstance(options, Mapping) else ():
            if name not in known_options:
                message = f"Its filter “{str(name)[:40]}” is not supported. Filter in a separate step."
                yield StepProblem("error", "parameter", message)
        status = node.literal("options.status", "open")
        if status not in _STATUSES:
            message = f"It reads orders that are “{str(status)[:40]}”, which is not supported."
            yield StepProblem("error", "parameter", f"{message} Read all, and filter in a separate step.")
        chosen = node.literal("options.fields", "")
        fields = KNOWN_FIELDS.get(self.resource_of(node), {})
        for name in _names_in(str(chosen)):
            if name not in fields:
                message = f"It reads the field “{name[:40]}”, which is not read here. Do without that field."
                yield StepProblem("error", "parameter", message)

    async def read(self, params: Params, store: StoreAccess) -> list[dict[str, JsonValue]]:
        """Reads one object or a list. Raises ItemFailed."""
        resource = params.text("resource", self.default_resource)
        is_one = params.text("operation", "get") == "get"
        limit = 1 if is_one else limit_of(params)
        number = js.text(params.get(f"{resource}Id", "")).strip()
        if is_one and not number:
            raise ItemFailed("The id of the object to read is empty.")
        ids = (number,) if is_one else None
        read_objects = _read_products if resource == "product" else _read_orders
        objects = await read_objects(params, store, ids)
        names = _names_in(params.text("options.fields"))
        if names:
            objects = [{name: record[name] for name in record if name in names} for record in objects]
        return objects[:limit]


async def _read_products(
    params: Params, store: StoreAccess, ids: tuple[str, ...] | None
) -> list[dict[str, JsonValue]]:
    query = ProductsQuery(ids=ids, modified_after=_instant(params, "updatedAtMin"))
    records = await read_all(store.reader.read(PRODUCTS, query))
    return [product_fields(record) for record in sorted(records, key=lambda record: record.title.casefold())]


async def _read_orders(
    params: Params, store: StoreAccess, ids: tuple[str, ...] | None
) -> list[dict[str, JsonValue]]:
    status = params.text("options.status", "open")
    if status not in _STATUSES:
        raise ItemFailed(f"Orders that are “{status[:40]}” cannot be read here.")
    query = OrdersQuery(
        ids=ids,
        created_after=_instant(params, "createdAtMin"),
        created_before=_instant(params, "createdAtMax"),
        modified_after=_instant(params, "updatedAtMin"),
        open_only=ids is None and status == "open",
    )
    records = await read_all(store.reader.read(ORDERS, query))
    newest_first = sorted(records, key=_creation_order, reverse=True)
    return [order_fields(record) for record in newest_first]


def _creation_order(order: Order) -> tuple[float, int]:
    created = order.created_at.timestamp() if order.created_at is not None else 0.0
    return created, int(order.id) if order.id.isdigit() else 0


def _instant(params: Params, name: str) -> datetime | None:
    text = params.text(f"options.{name}")
    instant = js_dates.parse(text, UTC)
    if text and instant is None:
        raise ItemFailed(f"“{text[:40]}” is not a time. Write it as 2026-05-01T00:00:00.")
    return instant


def _names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _number(value: str | None) -> int | str | None:
    return int(value) if value is not None and value.isdigit() else value


def product_fields(product: Product) -> dict[str, AnyJson]:
    """Returns a product in the REST API's form, as far as its fields are read."""
    return {
        "id": _number(product.id),
        "title": product.title,
        "handle": product.handle,
        "status": product.status.lower(),
        "vendor": product.vendor,
        "product_type": product.type or "",
        "tags": ", ".join(product.tags),
        "body_html": product.description,
        "created_at": product.created_at and js_dates.utc_iso(product.created_at),
        "updated_at": product.modified_at and js_dates.utc_iso(product.modified_at),
        "variants": [
            {
                "id": _number(variant.id),
                "product_id": _number(variant.product_id),
                "title": variant.title,
                "sku": variant.sku,
                "barcode": variant.barcode,
                "price": variant.price,
                "compare_at_price": variant.compare_at,
                "inventory_quantity": variant.stock,
            }
            for variant in product.variants
        ],
    }


def order_fields(order: Order) -> dict[str, AnyJson]:
    """Returns an order in the REST API's form, as far as its fields are read."""
    return {
        "id": _number(order.id),
        "name": order.number,
        "order_number": _number(order.number.lstrip("#")),
        "email": order.email,
        "total_price": order.total,
        "total_tax": order.tax,
        "currency": order.currency,
        "financial_status": _PAYMENT.get(order.payment, str(order.payment)),
        "fulfillment_status": _FULFILMENT.get(order.fulfilment),
        "tags": ", ".join(order.tags),
        "note": order.note,
        "created_at": order.created_at and js_dates.utc_iso(order.created_at),
        "updated_at": order.modified_at and js_dates.utc_iso(order.modified_at),
        "cancelled_at": order.cancelled_at and js_dates.utc_iso(order.cancelled_at),
        "customer": {
            "id": _number(order.customer_id),
            "first_name": order.customer_first_name,
            "last_name": order.customer_last_name,
        }
        if order.customer_id
        else None,
        "line_items": [
            {
                "id": _number(line.id),
                "product_id": _number(line.product_id),
                "variant_id": _number(line.variant_id),
                "sku": line.sku,
                "title": line.title,
                "quantity": line.quantity,
            }
            for line in order.lines
        ],
    }


def customer_fields(customer: Customer) -> dict[str, AnyJson]:
    """Returns a customer in the REST API's form, as far as its fields are read."""
    return {
        "id": _number(customer.id),
        "email": customer.email or None,
        "first_name": customer.first_name,
        "last_name": customer.last_name,
        "tags": ", ".join(customer.tags),
        "note": customer.note or None,
        "orders_count": customer.orders_count,
        "total_spent": customer.spent,
        "currency": customer.currency,
        "updated_at": customer.modified_at and js_dates.utc_iso(customer.modified_at),
    }
