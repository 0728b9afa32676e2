"""Webhooks of the fake shop; deliveries.py sends them."""

import re

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import errors
from steward.fake_platforms.woocommerce.arguments import Arg, coerced, validated
from steward.fake_platforms.woocommerce.listing import Listing, RouteResult
from steward.fake_platforms.woocommerce.shop import FakeShop

PING = "ping"
_STATES = ("active", "paused", "disabled")
ARGS = {
    "name": Arg(),
    "status": Arg("string", _STATES),
    "topic": Arg(),
    "secret": Arg(),
    "delivery_url": Arg(),
}
HOOKS: dict[str, list[str]] = {
    "coupon.created": ["woocommerce_process_shop_coupon_meta", "woocommerce_new_coupon"],
    "coupon.updated": ["woocommerce_process_shop_coupon_meta", "woocommerce_update_coupon"],
    "coupon.deleted": ["wp_trash_post"],
    "coupon.restored": ["untrashed_post"],
    "customer.created": ["user_register", "woocommerce_created_customer", "woocommerce_new_customer"],
    "customer.updated": ["profile_update", "woocommerce_update_customer"],
    "customer.deleted": ["delete_user"],
    "customer.restored": [],
    "order.created": ["woocommerce_new_order"],
    "order.updated": ["woocommerce_update_order", "woocommerce_order_refunded"],
    "order.deleted": ["wp_trash_post", "woocommerce_trash_order"],
    "order.restored": ["untrashed_post", "woocommerce_untrash_order"],
    "product.created": [
        "woocommerce_process_product_meta",
        "woocommerce_new_product",
        "woocommerce_new_product_variation",
    ],
    "product.updated": [
        "woocommerce_process_product_meta",
        "woocommerce_update_product",
        "woocommerce_update_product_variation",
    ],
    "product.deleted": ["wp_trash_post"],
    "product.restored": ["untrashed_post"],
}
_SORT = {"date": "date_created_gmt", "id": "id", "title": "name"}
_LIST = {"status": Arg("string", ("all", *_STATES))}


def find(shop: FakeShop, webhook_id: int, status: int) -> Row:
    """Returns the webhook. Raises ShopError with WooCommerce's message for each method."""
    if webhook_id not in shop.webhooks:
        raise errors.invalid_id("shop_webhook", status)
    return shop.webhooks[webhook_id]


def get(shop: FakeShop, webhook_id: int) -> Row:
    """Returns one webhook; raises ShopError 404 "ID is invalid." for an unknown one."""
    if webhook_id not in shop.webhooks:
        code = "woocommerce_rest_shop_webhook_invalid_id"
        raise errors.ShopError(404, code, "ID is invalid.")
    return show(shop, shop.webhooks[webhook_id])


def show(shop: FakeShop, row: Row) -> Row:
    """Returns a webhook in the shop's form: without its secret or a count of failures."""
    return {**row, "_links": shop.links(f"webhooks/{row['id']}", collection="webhooks")}


def listed(shop: FakeShop, query: Row) -> RouteResult:
    """Returns the list of webhooks."""
    listing = Listing(_LIST, _SORT, "date", shop.zone)
    arguments = listing.read(query)
    state = arguments.get("status", "all")
    rows = [row for row in shop.webhooks.values() if state in ("all", row["status"])]
    url = f"{shop.url}/wp-json/wc/v3/webhooks"
    return listing.respond(rows, arguments, query, url=url, show=lambda row: show(shop, row))


def _refuse_bad(values: Row, *, new: bool) -> None:
    """Raises ShopError for invalid values; a change ignores fields that are sent empty."""
    if (new or values.get("topic")) and values.get("topic") not in HOOKS:
        code = "woocommerce_rest_shop_webhook_invalid_topic"
        raise errors.ShopError(400, code, "Webhook topic is required and must be valid.")
    is_address = re.match(r"https?://[^/\s\[\]]+", values.get("delivery_url", ""))
    if (new or values.get("delivery_url")) and not is_address:
        message = "Webhook delivery URL must be a valid URL starting with http:// or https://."
        raise errors.ShopError(400, "woocommerce_rest_shop_webhook_invalid_delivery_url", message)
    if not new and values.get("status") and values["status"] not in _STATES:
        code = "woocommerce_rest_shop_webhook_invalid_status"
        raise errors.ShopError(400, code, "Webhook status must be valid.")


def _set_topic(row: Row, topic: str) -> None:
    row["topic"] = topic
    row["resource"], _, row["event"] = topic.partition(".")
    row["hooks"] = list(HOOKS[topic])


def _recorded_names(values: Row) -> list[str]:
    return [name for name in values if name != "secret"]


def create(shop: FakeShop, body: Row, *, loose: bool = False) -> Row:
    """Creates a webhook, even a duplicate; sends a ping before the response. Raises ShopError."""
    required = ("topic", "delivery_url")
    values = coerced(body, ARGS, fallback="active") if loose else validated(body, ARGS, required=required)
    _refuse_bad(values, new=True)
    local, gmt = shop.stamp()
    named = shop.now().strftime("Webhook created on %b %d, %Y @ %I:%M %p")
    row: Row = {"id": shop.next_id("webhook"), "name": values.get("name") or named}
    # Whatever status is requested: a webhook can only be paused later.
    row["status"] = "active"
    _set_topic(row, values["topic"])
    row |= {"delivery_url": values["delivery_url"], "date_created": local, "date_created_gmt": gmt}
    # The first ping that succeeds sets the modification time (webhooks_manage recording).
    row |= {"date_modified": None, "date_modified_gmt": None}
    shop.webhooks[row["id"]] = row
    shop.webhook_secrets[row["id"]] = values.get("secret") or f"chosen-by-the-shop-{row['id']}"
    shop.record_change("webhook", row["id"], None, row, _recorded_names(values))
    shop.record_event(PING, row["id"])
    return show(shop, dict(row))


def update(shop: FakeShop, webhook_id: int, body: Row, *, loose: bool = False) -> Row:
    """Changes a webhook; a new address and activation send a ping; the failure count stays."""
    if loose and body.get("status") not in (None, "", *_STATES):
        _refuse_bad({"status": body["status"]}, new=False)
    values = coerced(body, ARGS, fallback="") if loose else validated(body, ARGS)
    row = find(shop, webhook_id, 400)
    _refuse_bad(values, new=False)
    before = dict(row)
    _set_values(shop, row, values)
    shop.mark_modified(row)
    shop.record_change("webhook", webhook_id, before, row, _recorded_names(values))
    enabled = row["status"] == "active" and before["status"] != "active"
    if enabled or row["delivery_url"] != before["delivery_url"]:
        shop.record_event(PING, webhook_id)
    return show(shop, row)


def _set_values(shop: FakeShop, row: Row, values: Row) -> None:
    for name in ("name", "status", "delivery_url"):
        if values.get(name):
            row[name] = values[name]
    if values.get("topic"):
        _set_topic(row, values["topic"])
    if values.get("secret"):
        shop.webhook_secrets[row["id"]] = values["secret"]


def delete(shop: FakeShop, webhook_id: int, *, force: bool) -> Row:
    """Removes a webhook permanently; answers 501 without force, as webhooks have no trash."""
    if not force:
        raise errors.trash_unsupported("Webhooks")
    row = find(shop, webhook_id, 404)
    resource = show(shop, row)
    del shop.webhooks[webhook_id]
    shop.webhook_secrets.pop(webhook_id, None)
    shop.webhook_failures.pop(webhook_id, None)
    shop.record_change("webhook", webhook_id, row, None, ("status",))
    return resource
