"""Applies each mutation to the fake store, with the refusals that the platform's schema names."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from steward.fake_platforms.exchange import FakeChange
from tests.fakes.shopify.goods import Goods, Row, stamp
from tests.fakes.shopify.objects import digest_of, holds_of, level_of, metafield, variants_of


@dataclass
class Write:
    """One mutation under way: what it touched, and which topics it causes."""

    goods: Goods
    touched: list[FakeChange] = field(default_factory=list)
    caused: list[tuple[str, Row]] = field(default_factory=list)

    def change(self, row: Row, topic: str | None = None, **fields: Any) -> None:
        """Writes fields of a row; what is so already is no change."""
        before = {name: row.get(name) for name in fields}
        if before == fields:
            return
        self.goods.touch(row, **fields)
        self.touched.append(FakeChange(row["__typename"], row["id"], tuple(fields), before, dict(fields)))
        if topic is not None:
            self.caused.append((topic, row))


def refusal(path: list[str] | None, message: str, code: str | None = None, **more: Any) -> Row:
    """One entry of userErrors."""
    return {"field": path, "message": message, "code": code, **more}


def variants_bulk_update(write: Write, arguments: dict[str, Any]) -> Row:
    """Prices of variants; with partial updates the good ones are kept."""
    product, errors, done = write.goods.rows.get(arguments["productId"]), [], []
    if product is None:
        words = "Product does not exist"
        return {
            "productVariants": None,
            "userErrors": [refusal(["productId"], words, "PRODUCT_DOES_NOT_EXIST")],
        }
    variants = {row["id"]: row for row in variants_of(write.goods, product["id"])}
    for index, change in enumerate(arguments["variants"]):
        path = ["variants", str(index)]
        row = variants.get(change["id"])
        if row is None:
            errors.append(
                refusal([*path, "id"], "Product variant does not exist", "PRODUCT_VARIANT_DOES_NOT_EXIST")
            )
            continue
        wrong = [
            name
            for name in ("price", "compareAtPrice")
            if name in change and not _is_amount(change[name], name)
        ]
        if wrong:
            errors.append(
                refusal([*path, wrong[0]], "must be greater than or equal to 0", "GREATER_THAN_OR_EQUAL_TO")
            )
            continue
        done.append((row, {name: change[name] for name in ("price", "compareAtPrice") if name in change}))
    if errors and not arguments.get("allowPartialUpdates"):
        done = []
    for row, fields in done:
        write.change(row, **{name: _amount(value) for name, value in fields.items()})
    if done:
        write.caused.append(("PRODUCTS_UPDATE", product))
    return {"product": product, "productVariants": [row for row, _ in done], "userErrors": errors}


def _is_amount(value: Any, name: str) -> bool:
    if value is None:
        return name == "compareAtPrice"
    try:
        return Decimal(str(value)) >= 0
    except InvalidOperation:
        return False


def _amount(value: Any) -> str | None:
    return None if value is None else f"{Decimal(str(value)):.2f}"


def set_quantities(write: Write, arguments: dict[str, Any]) -> Row:
    """All quantities or none: each only where it still is what it is changed from."""
    errors, accepted = [], []
    for index, quantity_input in enumerate(arguments["input"]["quantities"]):
        path = ["input", "quantities", str(index)]
        level = level_of(write.goods, quantity_input["inventoryItemId"], quantity_input["locationId"])
        if "changeFromQuantity" not in quantity_input:
            errors.append(
                refusal([*path, "changeFromQuantity"], "must be given", "COMPARE_QUANTITY_REQUIRED")
            )
        elif quantity_input["inventoryItemId"] not in write.goods.rows:
            errors.append(refusal([*path, "inventoryItemId"], "could not be found", "INVALID_INVENTORY_ITEM"))
        elif level is None:
            errors.append(refusal([*path, "locationId"], "could not be found", "INVALID_LOCATION"))
        elif quantity_input["quantity"] > 1_000_000_000:
            errors.append(refusal([*path, "quantity"], "is too high", "INVALID_QUANTITY_TOO_HIGH"))
        elif (
            quantity_input["changeFromQuantity"] is not None
            and quantity_input["changeFromQuantity"] != level["available"]
        ):
            words = "The changeFromQuantity argument no longer matches the persisted quantity."
            errors.append(refusal([*path, "changeFromQuantity"], words, "CHANGE_FROM_QUANTITY_STALE"))
        else:
            accepted.append((level, quantity_input["quantity"]))
    if errors:
        return {"inventoryAdjustmentGroup": None, "userErrors": errors}
    changes = []
    for level, quantity in accepted:
        delta = quantity - level["available"]
        write.change(level, "INVENTORY_LEVELS_UPDATE", available=quantity)
        goods = write.goods
        change = {"name": "available", "delta": delta, "quantityAfterChange": quantity}
        changes.append(
            {**change, "item": goods.rows[level["item"]], "location": goods.rows[level["location"]]}
        )
    group = {
        "createdAt": stamp(write.goods.now()),
        "reason": arguments["input"]["reason"],
        "changes": changes,
    }
    return {"inventoryAdjustmentGroup": group, "userErrors": []}


def add_tags(write: Write, arguments: dict[str, Any]) -> Row:
    """Tags are kept once, without regard to case."""
    return _tagged(write, arguments["id"], lambda held: [*held, *_missing(held, arguments["tags"])])


def remove_tags(write: Write, arguments: dict[str, Any]) -> Row:
    """Tags are taken off without regard to case."""
    gone = {tag.casefold() for tag in arguments["tags"]}
    return _tagged(write, arguments["id"], lambda held: [tag for tag in held if tag.casefold() not in gone])


def _missing(held: list[str], tags: list[str]) -> list[str]:
    present = {tag.casefold() for tag in held}
    return [tag for tag in tags if tag.casefold() not in present]


def _tagged(write: Write, number: str, change: Callable[[list[str]], list[str]]) -> Row:
    row = write.goods.rows.get(number)
    if row is None or "tags" not in row:
        return {"node": None, "userErrors": [refusal(["id"], "Resource does not exist")]}
    topics = {"Product": "PRODUCTS_UPDATE", "Order": "ORDERS_UPDATED", "Customer": "CUSTOMERS_UPDATE"}
    write.change(row, topics.get(row["__typename"]), tags=change(row["tags"]))
    return {"node": row, "userErrors": []}


def update_product(write: Write, arguments: dict[str, Any]) -> Row:
    """The fields that are named; others are left alone."""
    return _updated(write, arguments["product"], "product", "PRODUCTS_UPDATE")


def update_order(write: Write, arguments: dict[str, Any]) -> Row:
    """The fields that are named."""
    return _updated(write, arguments["input"], "order", "ORDERS_UPDATED")


def update_customer(write: Write, arguments: dict[str, Any]) -> Row:
    """The fields that are named."""
    return _updated(write, arguments["input"], "customer", "CUSTOMERS_UPDATE")


def _updated(write: Write, fields: Row, name: str, topic: str) -> Row:
    row = write.goods.rows.get(fields["id"])
    if row is None:
        return {name: None, "userErrors": [refusal(["id"], f"{name.capitalize()} does not exist")]}
    write.change(
        row, topic, **{field_name: value for field_name, value in fields.items() if field_name != "id"}
    )
    return {name: row, "userErrors": []}


def publish(write: Write, arguments: dict[str, Any]) -> Row:
    """Onto channels."""
    return _published(write, arguments, lambda held, channels: sorted({*held, *channels}))


def unpublish(write: Write, arguments: dict[str, Any]) -> Row:
    """Off channels."""
    return _published(
        write, arguments, lambda held, channels: [channel for channel in held if channel not in channels]
    )


def _published(write: Write, arguments: dict[str, Any], change: Callable[[Any, Any], list[str]]) -> Row:
    row, channels = (
        write.goods.rows.get(arguments["id"]),
        [entry["publicationId"] for entry in arguments["input"]],
    )
    if row is None:
        return {"publishable": None, "userErrors": [refusal(["id"], "Resource does not exist")]}
    if any(channel not in write.goods.rows for channel in channels):
        return {"publishable": row, "userErrors": [refusal(["input", "0"], "Publication does not exist")]}
    write.change(row, "PRODUCTS_UPDATE", publications=change(row["publications"], channels))
    return {"publishable": row, "userErrors": []}


def set_metafields(write: Write, arguments: dict[str, Any]) -> Row:
    """All or none; a digest that is given must be the present one, null: there must be none."""
    errors, goods = [], write.goods
    for index, entry in enumerate(arguments["metafields"]):
        owner = goods.rows.get(entry["ownerId"])
        held = metafield(goods, owner, entry) if owner is not None else None
        if owner is None:
            words = "Owner does not exist."
            errors.append(
                refusal(["metafields", str(index), "ownerId"], words, "INVALID", elementIndex=index)
            )
        elif "compareDigest" in entry and entry["compareDigest"] != (
            digest_of(held["value"]) if held else None
        ):
            words = "The resource has been updated since it was loaded."
            errors.append(refusal(["metafields", str(index)], words, "STALE_OBJECT", elementIndex=index))
    if errors:
        return {"metafields": None, "userErrors": errors}
    done = []
    for entry in arguments["metafields"]:
        held = metafield(goods, goods.rows[entry["ownerId"]], entry)
        if held is None:
            names = {name: entry[name] for name in ("namespace", "key", "type")}
            held = goods.make("Metafield", owner=entry["ownerId"], value=None, **names)
        write.change(held, value=entry["value"])
        done.append(held)
    return {"metafields": done, "userErrors": []}


def cancel_order(write: Write, arguments: dict[str, Any]) -> Row:
    """Returns a job that is done at once here, which the response does not say."""
    row = write.goods.rows.get(arguments["orderId"])
    if row is None or row["cancelledAt"] is not None:
        code = "NOT_FOUND" if row is None else "INVALID"
        return {
            "job": None,
            "orderCancelUserErrors": [refusal(["orderId"], "cannot be cancelled", code)],
            "userErrors": [],
        }
    if arguments["restock"]:
        for line in row["lineItems"]:
            variant = write.goods.rows.get(line["variant"])
            levels = write.goods.owned(variant["item"]) if variant else []
            for level in levels[:1]:
                write.change(
                    level, "INVENTORY_LEVELS_UPDATE", available=level["available"] + line["quantity"]
                )
    write.change(row, "ORDERS_CANCELLED", cancelledAt=stamp(write.goods.now()))
    return {
        "job": {"id": "gid://shopify/Job/1", "done": False},
        "orderCancelUserErrors": [],
        "userErrors": [],
    }


def close_order(write: Write, arguments: dict[str, Any]) -> Row:
    """Into the archive."""
    return _closed(write, arguments, stamp(write.goods.now()))


def open_order(write: Write, arguments: dict[str, Any]) -> Row:
    """Out of the archive."""
    return _closed(write, arguments, None)


def _closed(write: Write, arguments: dict[str, Any], moment: str | None) -> Row:
    row = write.goods.rows.get(arguments["input"]["id"])
    if row is None:
        return {"order": None, "userErrors": [refusal(["id"], "Order does not exist")]}
    write.change(row, "ORDERS_UPDATED", closedAt=moment)
    return {"order": row, "userErrors": []}


def hold(write: Write, arguments: dict[str, Any]) -> Row:
    """A hold; one handle of an app once."""
    row, requested_hold = write.goods.rows.get(arguments["id"]), arguments["fulfillmentHold"]
    if row is None:
        words = "Fulfillment order not found"
        return {
            "fulfillmentOrder": None,
            "userErrors": [refusal(["id"], words, "FULFILLMENT_ORDER_NOT_FOUND")],
        }
    if requested_hold.get("handle") in row["holds"]:
        words, code = (
            "The handle provided for the fulfillment hold is already in use",
            "DUPLICATE_FULFILLMENT_HOLD_HANDLE",
        )
        return {"fulfillmentOrder": row, "userErrors": [refusal(["fulfillmentHold", "handle"], words, code)]}
    if row["status"] not in ("OPEN", "SCHEDULED", "ON_HOLD"):
        return {
            "fulfillmentOrder": row,
            "userErrors": [refusal(["id"], "cannot be held", "INVALID_FULFILLMENT_ORDER_STATUS")],
        }
    write.change(row, status="ON_HOLD", holds=[*row["holds"], requested_hold.get("handle")])
    order = write.goods.rows[row["order"]]
    order["displayFulfillmentStatus"] = "ON_HOLD"
    return {"fulfillmentOrder": row, "userErrors": []}


def release(write: Write, arguments: dict[str, Any]) -> Row:
    """The holds that are named end, or all."""
    row = write.goods.rows.get(arguments["id"])
    if row is None or row["status"] != "ON_HOLD":
        words, code = "Fulfillment order is not on hold", "INVALID_FULFILLMENT_ORDER_STATUS"
        code = "FULFILLMENT_ORDER_NOT_FOUND" if row is None else code
        return {"fulfillmentOrder": row, "userErrors": [refusal(["id"], words, code)]}
    ended = {
        active_hold["handle"]
        for active_hold in holds_of(row)
        if active_hold["id"] in (arguments.get("holdIds") or [active_hold["id"]])
    }
    remaining = [handle for handle in row["holds"] if handle not in ended]
    write.change(row, status="ON_HOLD" if remaining else "OPEN", holds=remaining)
    write.goods.rows[row["order"]]["displayFulfillmentStatus"] = "ON_HOLD" if remaining else "UNFULFILLED"
    return {"fulfillmentOrder": row, "userErrors": []}


def capture(write: Write, arguments: dict[str, Any]) -> Row:
    """Takes what was reserved."""
    capture_input = arguments["input"]
    row = write.goods.rows.get(capture_input["id"])
    if row is None or row["displayFinancialStatus"] != "AUTHORIZED":
        return {"transaction": None, "userErrors": [refusal(["id"], "Order cannot be captured")]}
    transaction = write.goods.make(
        "OrderTransaction",
        kind="CAPTURE",
        status="SUCCESS",
        processedAt=stamp(write.goods.now()),
        gateway="bogus",
        amountSet=write.goods.money(str(capture_input["amount"])),
        order=row["id"],
    )
    held = [*row["transactions"], transaction]
    write.change(row, "ORDERS_PAID", displayFinancialStatus="PAID", transactions=held)
    return {"transaction": transaction, "userErrors": []}


def refund(write: Write, arguments: dict[str, Any]) -> Row:
    """Gives back; never more than was paid."""
    refund_input = arguments["input"]
    row = write.goods.rows.get(refund_input["orderId"])
    if row is None:
        return {"refund": None, "order": None, "userErrors": [refusal(["orderId"], "Order does not exist")]}
    amount = sum(Decimal(str(transaction["amount"])) for transaction in refund_input["transactions"])
    before = sum(
        Decimal(earlier_refund["totalRefundedSet"]["shopMoney"]["amount"])
        for earlier_refund in row["refunds"]
    )
    if before + amount > Decimal(row["totalPriceSet"]["shopMoney"]["amount"]):
        return {"refund": None, "order": row, "userErrors": [refusal(["transactions"], "more than was paid")]}
    new_refund = write.goods.make("Refund", totalRefundedSet=write.goods.money(f"{amount:.2f}"))
    write.change(row, "REFUNDS_CREATE", refunds=[*row["refunds"], new_refund])
    return {"refund": new_refund, "order": row, "userErrors": []}


def make_redirect(write: Write, arguments: dict[str, Any]) -> Row:
    """A path is kept once."""
    redirect = arguments["urlRedirect"]
    if any(row["path"] == redirect["path"] for row in write.goods.of("UrlRedirect")):
        words = "Path has already been taken"
        return {"urlRedirect": None, "userErrors": [refusal(["urlRedirect", "path"], words, None)]}
    row = write.goods.make("UrlRedirect", path=redirect["path"], target=None)
    write.change(row, target=redirect["target"])
    return {"urlRedirect": row, "userErrors": []}


def delete_redirect(write: Write, arguments: dict[str, Any]) -> Row:
    """A redirect that is there goes."""
    row = write.goods.rows.get(arguments["id"])
    if row is None:
        words = "Redirect does not exist"
        return {"deletedUrlRedirectId": None, "userErrors": [refusal(["id"], words, "DOES_NOT_EXIST")]}
    write.change(row, target=None)
    del write.goods.rows[row["id"]]
    return {"deletedUrlRedirectId": row["id"], "userErrors": []}


def delete_metafields(write: Write, arguments: dict[str, Any]) -> Row:
    """Names each metafield that went; null for one that was not there."""
    deleted: list[Row | None] = []
    for entry in arguments["metafields"]:
        owner = write.goods.rows.get(entry["ownerId"])
        held = metafield(write.goods, owner, entry) if owner is not None else None
        if held is None:
            deleted.append(None)
            continue
        write.change(held, value=None)
        del write.goods.rows[held["id"]]
        deleted.append(dict(entry))
    return {"deletedMetafields": deleted, "userErrors": []}


def set_redirect(write: Write, arguments: dict[str, Any]) -> Row:
    """Another target for a path that is there."""
    row = write.goods.rows.get(arguments["id"])
    if row is None:
        words = "Redirect does not exist"
        return {"urlRedirect": None, "userErrors": [refusal(["id"], words, "DOES_NOT_EXIST")]}
    write.change(row, **arguments["urlRedirect"])
    return {"urlRedirect": row, "userErrors": []}


MUTATIONS: dict[str, Callable[[Write, dict[str, Any]], Row]] = {
    "productVariantsBulkUpdate": variants_bulk_update,
    "inventorySetQuantities": set_quantities,
    "tagsAdd": add_tags,
    "tagsRemove": remove_tags,
    "productUpdate": update_product,
    "publishablePublish": publish,
    "publishableUnpublish": unpublish,
    "metafieldsSet": set_metafields,
    "orderUpdate": update_order,
    "customerUpdate": update_customer,
    "orderCancel": cancel_order,
    "orderClose": close_order,
    "orderOpen": open_order,
    "fulfillmentOrderHold": hold,
    "orderCapture": capture,
    "refundCreate": refund,
    "urlRedirectCreate": make_redirect,
    "urlRedirectUpdate": set_redirect,
    "urlRedirectDelete": delete_redirect,
    "metafieldsDelete": delete_metafields,
    "fulfillmentOrderReleaseHold": release,
}
# Refused without a key (docs/design/connectors.md#shopify, docs/design/connectors.md#tests).
KEYED = frozenset({"inventorySetQuantities", "refundCreate"})
