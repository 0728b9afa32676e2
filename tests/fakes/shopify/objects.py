"""Resolves the fields of stored rows: what is kept is answered, what is worked out is worked out here."""

import hashlib
from collections.abc import Callable
from typing import Any

from tests.fakes.shopify.goods import Goods, Row, number

Field = Callable[[Goods, Row, dict[str, Any]], Any]


def available(goods: Goods, item: str, location: str | None = None) -> int:
    """Available quantity at one location, or over those that are active."""
    return sum(
        level["available"]
        for level in goods.owned(item)
        if (level["location"] == location if location else goods.rows[level["location"]]["isActive"])
    )


def level_of(goods: Goods, item: str, location: str) -> Row | None:
    """The stock of an item at a location."""
    for level in goods.owned(item):
        if level["location"] == location:
            return level
    return None


def variants_of(goods: Goods, product: str) -> list[Row]:
    """The variants of a product."""
    return goods.owned(product)


def published(goods: Goods, product: Row) -> list[Row]:
    """Where a product is sold, as resource publications."""
    return [
        {"publication": goods.rows[publication_id], "isPublished": True}
        for publication_id in product["publications"]
    ]


def metafield(goods: Goods, owner: Row, arguments: dict[str, Any]) -> Row | None:
    """A metafield of an object."""
    for row in goods.of("Metafield"):
        if (row["owner"], row["namespace"], row["key"]) == (
            owner["id"],
            arguments.get("namespace"),
            arguments["key"],
        ):
            return row
    return None


def digest_of(value: str) -> str:
    """What a metafield is compared by."""
    return hashlib.sha256(value.encode()).hexdigest()


def refunded(goods: Goods, order: Row) -> Row:
    """The sum of an order's refunds."""
    total = sum(
        float(earlier_refund["totalRefundedSet"]["shopMoney"]["amount"])
        for earlier_refund in order["refunds"]
    )
    return goods.money(f"{total:.2f}")


def holds_of(row: Row) -> list[Row]:
    """The holds of a fulfilment order: each handle with a number made of it."""
    number = row["id"].rpartition("/")[2]
    return [
        {
            "id": f"gid://shopify/FulfillmentHold/{number}{sum(handle.encode()):04}",
            "handle": handle,
            "reason": "OTHER",
            "heldByRequestingApp": handle == "steward",
        }
        for handle in row["holds"]
    ]


FIELDS: dict[tuple[str, str], Field] = {
    ("Product", "hasOnlyDefaultVariant"): lambda goods, row, _: (
        [variant["title"] for variant in variants_of(goods, row["id"])] == ["Default Title"]
    ),
    ("Product", "resourcePublicationsV2"): lambda goods, row, _: published(goods, row),
    ("Product", "resourcePublicationsCount"): lambda goods, row, _: {"count": len(row["publications"])},
    ("Product", "variants"): lambda goods, row, _: variants_of(goods, row["id"]),
    ("Product", "metafield"): metafield,
    ("ProductVariant", "metafield"): metafield,
    ("Order", "metafield"): metafield,
    ("Customer", "metafield"): metafield,
    ("ProductVariant", "product"): lambda goods, row, _: goods.rows[row["product"]],
    ("ProductVariant", "inventoryItem"): lambda goods, row, _: goods.rows[row["item"]],
    ("ProductVariant", "inventoryQuantity"): lambda goods, row, _: available(goods, row["item"]),
    ("InventoryItem", "inventoryLevel"): lambda goods, row, arguments: level_of(
        goods, row["id"], arguments["locationId"]
    ),
    ("InventoryItem", "variants"): lambda goods, row, _: [
        variant for variant in goods.of("ProductVariant") if variant["item"] == row["id"]
    ],
    ("InventoryLevel", "quantities"): lambda goods, row, arguments: [
        {"name": name, "quantity": row["available"]} for name in arguments["names"]
    ],
    ("Order", "customer"): lambda goods, row, _: goods.rows[row["customer"]] if row["customer"] else None,
    ("Order", "closed"): lambda goods, row, _: row["closedAt"] is not None,
    ("Order", "fullyPaid"): lambda goods, row, _: row["displayFinancialStatus"] == "PAID",
    ("Order", "capturable"): lambda goods, row, _: row["displayFinancialStatus"] == "AUTHORIZED",
    ("Order", "totalRefundedSet"): lambda goods, row, _: refunded(goods, row),
    ("Order", "fulfillmentOrders"): lambda goods, row, _: [
        goods.rows[order_id] for order_id in row["fulfillmentOrders"]
    ],
    ("Order", "totalPrice"): lambda goods, row, _: row["totalPriceSet"]["shopMoney"]["amount"],
    ("Product", "collections"): lambda goods, row, _: [
        goods.rows[collection_id] for collection_id in row.get("collections", ())
    ],
    ("Product", "totalInventory"): lambda goods, row, _: sum(
        available(goods, variant["item"]) for variant in variants_of(goods, row["id"])
    ),
    ("FulfillmentOrder", "fulfillmentHolds"): lambda goods, row, _: holds_of(row),
    ("FulfillmentOrder", "orderId"): lambda goods, row, _: row["order"],
    ("LineItem", "product"): lambda goods, row, _: goods.rows.get(row["product"]),
    ("LineItem", "variant"): lambda goods, row, _: goods.rows.get(row["variant"]),
    ("OrderTransaction", "order"): lambda goods, row, _: goods.rows[row["order"]],
    ("Metafield", "compareDigest"): lambda goods, row, _: digest_of(row["value"]),
}

# What may be searched for, by root field.
SEARCHED: dict[str, dict[str, Callable[[Goods, Row], Any]]] = {
    "products": {
        "updated_at": lambda goods, row: row["updatedAt"],
        "status": lambda goods, row: row["status"],
        "tag": lambda goods, row: row["tags"],
    },
    "productVariants": {
        "updated_at": lambda goods, row: row["updatedAt"],
        "product_ids": lambda goods, row: number(goods.rows[row["product"]]),
        "product_status": lambda goods, row: goods.rows[row["product"]]["status"],
        "tag": lambda goods, row: goods.rows[row["product"]]["tags"],
        "sku": lambda goods, row: row["sku"] or "",
    },
    "orders": {
        "created_at": lambda goods, row: row["createdAt"],
        "updated_at": lambda goods, row: row["updatedAt"],
        "fulfillment_status": lambda goods, row: row["displayFulfillmentStatus"].lower(),
        "tag": lambda goods, row: row["tags"],
        "customer_id": lambda goods, row: number(goods.rows[row["customer"]]) if row["customer"] else "",
        "status": lambda goods, row: (
            "cancelled" if row["cancelledAt"] else "closed" if row["closedAt"] else "open"
        ),
    },
    "customers": {
        "updated_at": lambda goods, row: row["updatedAt"],
        "tag": lambda goods, row: row["tags"],
    },
    "urlRedirects": {"path": lambda goods, row: row["path"]},
}
