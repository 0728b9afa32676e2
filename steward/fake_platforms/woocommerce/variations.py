"""Variations of the pretend shop's variable products."""

from urllib.parse import quote_plus

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import blank, errors, products, stock
from steward.fake_platforms.woocommerce.arguments import Arg, checked, taken_loosely
from steward.fake_platforms.woocommerce.listing import Listing, Result
from steward.fake_platforms.woocommerce.shop import Shop, slug

ARGS: dict[str, Arg] = {
    **products.PRICED,
    "status": Arg("string", ("draft", "pending", "private", "publish")),
    "manage_stock": Arg("any"),
    "image": Arg("object", inside=products.IMAGE),
}
_DERIVED = {"regular_price", "sale_price", "dimensions", "image", "attributes", "meta_data", "manage_stock"}
_DERIVED |= {"stock_quantity", "stock_status", "backorders", "low_stock_amount", "sku"}
_SORT = {
    "date": "date_created_gmt",
    "id": "id",
    "title": "name",
    "slug": "name",
    "modified": "date_modified_gmt",
    "menu_order": "menu_order",
}
_LIST = {
    "status": Arg("string", ("any", "future", "trash", "draft", "pending", "private", "publish")),
    "sku": Arg(),
    "on_sale": Arg("boolean"),
    "stock_status": Arg("string", products.STOCK),
    "parent": Arg("integers"),
}


def find(shop: Shop, parent_id: int, variation_id: int) -> Row:
    """The variation of that very parent; raises ShopError 404, on a write too (recorded)."""
    row = shop.variations.get(variation_id)
    if row is None or row["parent_id"] != parent_id:
        raise errors.invalid_id("product_variation", 404)
    return row


def show(shop: Shop, row: Row) -> Row:
    """A variation as the shop answers it; stock managed by the parent shows as `parent` (recorded)."""
    parent = shop.products[row["parent_id"]]
    shown = dict(row)
    if not row["manage_stock"] and parent["manage_stock"]:
        shown |= {"manage_stock": "parent", "stock_quantity": parent["stock_quantity"]}
        shown["stock_status"] = parent["stock_status"]
    up = f"products/{parent['id']}"
    path = f"{up}/variations/{row['id']}"
    shown["_links"] = shop.links(path, collection=f"{up}/variations", up=up)
    return shown


def listed(shop: Shop, parent_id: int, query: Row) -> Result:
    """The variations of one product. The parent is a filter: under an unknown one the list is empty."""
    parent = shop.products.get(parent_id, {})
    rows = [shop.variations[one] for one in parent.get("variations", ())]
    return _answer(shop, rows, query, path=f"products/{parent_id}/variations")


def listed_of_all(shop: Shop, query: Row) -> Result:
    """The variations of all products, which shops have from WooCommerce 10.3 on."""
    if shop.version < (10, 3):
        raise errors.no_route()
    return _answer(shop, list(shop.variations.values()), query, path="variations")


def _answer(shop: Shop, rows: list[Row], query: Row, *, path: str) -> Result:
    listing = Listing(_LIST, _SORT, "date", shop.zone)
    asked = listing.read(query)
    if asked.get("sku"):
        wanted = {sku.strip() for sku in asked["sku"].split(",")}
        rows = [row for row in rows if row["sku"] in wanted]
    if asked.get("parent"):
        rows = [row for row in rows if row["parent_id"] in asked["parent"]]
    state = asked.get("status", "any")
    rows = [row for row in rows if (row["status"] != "trash" if state == "any" else row["status"] == state)]
    for name in ("on_sale", "stock_status"):
        if name in asked:
            rows = [row for row in rows if row[name] == asked[name]]
    url = f"{shop.url}/wp-json/wc/v3/{path}"
    return listing.answer(rows, asked, query, url=url, show=lambda row: show(shop, row))


def _values(body: Row, *, loose: bool) -> Row:
    values = taken_loosely(body, ARGS, fallback="draft") if loose else checked(body, ARGS)
    if "manage_stock" in values and values["manage_stock"] != "parent":
        values["manage_stock"] = checked(values, {"manage_stock": Arg("boolean")})["manage_stock"]
    return values


def _apply(shop: Shop, row: Row, values: Row) -> None:
    parent = shop.products[row["parent_id"]]
    products.set_common(shop, row, values, derived=_DERIVED)
    if "attributes" in values:
        row["attributes"] = [
            {
                "id": int(one.get("id") or 0),
                "name": str(one.get("name", "")),
                "slug": slug(str(one.get("name", ""))),
                "option": str(one.get("option", "")),
            }
            for one in values["attributes"]
        ]
    if "image" in values:
        row["image"] = products.images(shop, [values["image"]])[0] if values["image"] else None
    row["name"] = ", ".join(one["option"] for one in row["attributes"])
    chosen = "&".join(f"attribute_{one['slug']}={quote_plus(one['option'])}" for one in row["attributes"])
    row["permalink"] = f"{parent['permalink']}?{chosen}"
    stock.derive(shop, row)


def create(shop: Shop, parent_id: int, body: Row, *, loose: bool = False) -> Row:
    """A new variation; raises ShopError."""
    values = _values(body, loose=loose)
    parent = shop.products.get(parent_id)
    if parent is None:
        # The shop looks for the parent where it sets attributes, and nowhere else: without them it fails.
        if "attributes" not in values:
            raise errors.critical()
        words = "Cannot set attributes due to invalid parent product."
        raise errors.ShopError(404, "woocommerce_rest_product_variation_invalid_parent", words)
    shop.refuse_taken_sku(values.get("sku", ""), 0)
    row = blank.variation()
    row["id"], row["parent_id"] = shop.next_id("post"), parent_id
    shop.mark_created(row)
    _apply(shop, row, values)
    shop.variations[row["id"]] = row
    parent["variations"] = [*parent["variations"], row["id"]]
    stock.derive(shop, parent)
    shop.touch("variation", row["id"], None, row, values)
    shop.tell("product.created", row["id"])
    return show(shop, row)


def update(shop: Shop, parent_id: int, variation_id: int, body: Row, *, loose: bool = False) -> Row:
    """Changes a variation; raises ShopError."""
    values = _values(body, loose=loose)
    row = find(shop, parent_id, variation_id)
    shop.refuse_taken_sku(values.get("sku", ""), variation_id)
    before, draft = dict(row), dict(row)
    _apply(shop, draft, values)
    row.update(draft)
    shop.mark_modified(row)
    stock.derive(shop, shop.products[parent_id])
    shop.touch("variation", variation_id, before, row, values)
    shop.tell("product.updated", variation_id)
    return show(shop, row)


def delete(shop: Shop, parent_id: int, variation_id: int, *, force: bool) -> Row:
    """Removes a variation for good; without force 501, for they know no trash."""
    row = find(shop, parent_id, variation_id)
    if not force:
        raise errors.trash_unsupported("product_variation")
    shown = show(shop, row)
    parent = shop.products[parent_id]
    del shop.variations[variation_id]
    parent["variations"] = [one for one in parent["variations"] if one != variation_id]
    stock.derive(shop, parent)
    shop.touch("variation", variation_id, row, None, ("status",))
    return shown
