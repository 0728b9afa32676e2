"""Webhooks of the pretend shop: keeping them; sending is left to deliveries.py."""

import re

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import errors
from steward.fake_platforms.woocommerce.arguments import Arg, checked, taken_loosely
from steward.fake_platforms.woocommerce.listing import Listing, Result
from steward.fake_platforms.woocommerce.shop import Shop

PING = "ping"
STATES = ("active", "paused", "disabled")
ARGS = {
    "name": Arg(),
    "status": Arg("string", STATES),
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
_LIST = {"status": Arg("string", ("all", *STATES))}


def find(shop: Shop, webhook_id: int, status: int) -> Row:
    """The webhook; raises ShopError, in the words the recording has for each method."""
    if webhook_id not in shop.webhooks:
        raise errors.invalid_id("shop_webhook", status)
    return shop.webhooks[webhook_id]


def get(shop: Shop, webhook_id: int) -> Row:
    """One webhook; a read of an unknown one says "ID is invalid." with 404 (recorded)."""
    if webhook_id not in shop.webhooks:
        code = "woocommerce_rest_shop_webhook_invalid_id"
        raise errors.ShopError(404, code, "ID is invalid.")
    return show(shop, shop.webhooks[webhook_id])


def show(shop: Shop, row: Row) -> Row:
    """A webhook as the shop answers it: never with its secret, nor with a count of failures (recorded)."""
    return {**row, "_links": shop.links(f"webhooks/{row['id']}", collection="webhooks")}


def listed(shop: Shop, query: Row) -> Result:
    """The list of webhooks."""
    listing = Listing(_LIST, _SORT, "date", shop.zone)
    asked = listing.read(query)
    state = asked.get("status", "all")
    rows = [row for row in shop.webhooks.values() if state in ("all", row["status"])]
    url = f"{shop.url}/wp-json/wc/v3/webhooks"
    return listing.answer(rows, asked, query, url=url, show=lambda row: show(shop, row))


def _refuse_bad(values: Row, *, new: bool) -> None:
    """Raises ShopError for what a webhook cannot have; a change leaves alone what it names empty."""
    if (new or values.get("topic")) and values.get("topic") not in HOOKS:
        code = "woocommerce_rest_shop_webhook_invalid_topic"
        raise errors.ShopError(400, code, "Webhook topic is required and must be valid.")
    is_address = re.match(r"https?://[^/\s\[\]]+", values.get("delivery_url", ""))
    if (new or values.get("delivery_url")) and not is_address:
        words = "Webhook delivery URL must be a valid URL starting with http:// or https://."
        raise errors.ShopError(400, "woocommerce_rest_shop_webhook_invalid_delivery_url", words)
    if not new and values.get("status") and values["status"] not in STATES:
        code = "woocommerce_rest_shop_webhook_invalid_status"
        raise errors.ShopError(400, code, "Webhook status must be valid.")


def _set_topic(row: Row, topic: str) -> None:
    row["topic"] = topic
    row["resource"], _, row["event"] = topic.partition(".")
    row["hooks"] = list(HOOKS[topic])


def create(shop: Shop, body: Row, *, loose: bool = False) -> Row:
    """A new webhook, doubles included; a ping goes out before the answer (recorded); raises ShopError."""
    required = ("topic", "delivery_url")
    values = taken_loosely(body, ARGS, fallback="active") if loose else checked(body, ARGS, required=required)
    _refuse_bad(values, new=True)
    local, gmt = shop.stamp()
    named = shop.now().strftime("Webhook created on %b %d, %Y @ %I:%M %p")
    row: Row = {"id": shop.next_id("webhook"), "name": values.get("name") or named}
    # Whatever status is asked for: a webhook is paused only later.
    row["status"] = "active"
    _set_topic(row, values["topic"])
    row |= {"delivery_url": values["delivery_url"], "date_created": local, "date_created_gmt": gmt}
    # The first ping that is answered well sets the modified time (webhooks_manage recording).
    row |= {"date_modified": None, "date_modified_gmt": None}
    shop.webhooks[row["id"]] = row
    shop.webhook_secrets[row["id"]] = values.get("secret") or f"chosen-by-the-shop-{row['id']}"
    shop.touch("webhook", row["id"], None, row, [name for name in values if name != "secret"])
    shop.tell(PING, row["id"])
    return show(shop, dict(row))


def update(shop: Shop, webhook_id: int, body: Row, *, loose: bool = False) -> Row:
    """Changes a webhook; a new address and enabling it send a ping; the failure count stays (recorded)."""
    if loose and body.get("status") not in (None, "", *STATES):
        _refuse_bad({"status": body["status"]}, new=False)
    values = taken_loosely(body, ARGS, fallback="") if loose else checked(body, ARGS)
    row = find(shop, webhook_id, 400)
    _refuse_bad(values, new=False)
    before = dict(row)
    for name in ("name", "status", "delivery_url"):
        if values.get(name):
            row[name] = values[name]
    if values.get("topic"):
        _set_topic(row, values["topic"])
    if values.get("secret"):
        shop.webhook_secrets[webhook_id] = values["secret"]
    shop.mark_modified(row)
    shop.touch("webhook", webhook_id, before, row, [name for name in values if name != "secret"])
    enabled = row["status"] == "active" and before["status"] != "active"
    if enabled or row["delivery_url"] != before["delivery_url"]:
        shop.tell(PING, webhook_id)
    return show(shop, row)


def delete(shop: Shop, webhook_id: int, *, force: bool) -> Row:
    """Removes a webhook for good; without force 501, for they know no trash."""
    if not force:
        raise errors.trash_unsupported("Webhooks")
    row = find(shop, webhook_id, 404)
    shown = show(shop, row)
    del shop.webhooks[webhook_id]
    shop.webhook_secrets.pop(webhook_id, None)
    shop.webhook_failures.pop(webhook_id, None)
    shop.touch("webhook", webhook_id, row, None, ("status",))
    return shown
