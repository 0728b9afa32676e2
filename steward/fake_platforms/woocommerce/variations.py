"""Variations of the fake shop's variable products."""

from urllib.parse import quote_plus

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import blank, errors, products, stock
from steward.fake_platforms.woocommerce.arguments import Arg, coerced, validated
from steward.fake_platforms.woocommerce.listing import (
    Listing,
    RouteResult,
    comma_separated,
    in_status,
    with_values,
)
from steward.fake_platforms.woocommerce.shop import FakeShop, slug

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


def find(shop: FakeShop, parent_id: int, variation_id: int) -> Row:
    """Returns the variation of that parent. Raises ShopError 404, on a write too."""
    row = shop.variations.get(variation_id)
    if row is None or row["parent_id"] != parent_id:
        raise errors.invalid_id("product_variation", 404)
    return row


def show(shop: FakeShop, row: Row) -> Row:
    """Returns a variation in the shop's form; stock managed by the parent shows as `parent`."""
    parent = shop.products[row["parent_id"]]
    resource = dict(row)
    if not row["manage_stock"] and parent["manage_stock"]:
        resource |= {"manage_stock": "parent", "stock_quantity": parent["stock_quantity"]}
        resource["stock_status"] = parent["stock_status"]
    up = f"products/{parent['id']}"
    path = f"{up}/variations/{row['id']}"
    resource["_links"] = shop.links(path, collection=f"{up}/variations", up=up)
    return resource


def listed(shop: FakeShop, parent_id: int, query: Row) -> RouteResult:
    """Returns the variations of one product; an empty list for an unknown product."""
    parent = shop.products.get(parent_id, {})
    rows = [shop.variations[variation_id] for variation_id in parent.get("variations", ())]
    return _page(shop, rows, query, path=f"products/{parent_id}/variations")


def listed_of_all(shop: FakeShop, query: Row) -> RouteResult:
    """Returns the variations of all products, which shops list from WooCommerce 10.3 on."""
    if shop.version < (10, 3):
        raise errors.no_route()
    return _page(shop, list(shop.variations.values()), query, path="variations")


def _page(shop: FakeShop, rows: list[Row], query: Row, *, path: str) -> RouteResult:
    listing = Listing(_LIST, _SORT, "date", shop.zone)
    arguments = listing.read(query)
    if arguments.get("sku"):
        skus = comma_separated(arguments["sku"])
        rows = [row for row in rows if row["sku"] in skus]
    if arguments.get("parent"):
        rows = [row for row in rows if row["parent_id"] in arguments["parent"]]
    rows = with_values(in_status(rows, arguments), arguments, ("on_sale", "stock_status"))
    url = f"{shop.url}/wp-json/wc/v3/{path}"
    return listing.respond(rows, arguments, query, url=url, show=lambda row: show(shop, row))


def _values(body: Row, *, loose: bool) -> Row:
    values = coerced(body, ARGS, fallback="draft") if loose else validated(body, ARGS)
    if "manage_stock" in values and values["manage_stock"] != "parent":
        values["manage_stock"] = validated(values, {"manage_stock": Arg("boolean")})["manage_stock"]
    return values


def _apply(shop: FakeShop, row: Row, values: Row) -> None:
    parent = shop.products[row["parent_id"]]
    products.set_common(shop, row, values, derived=_DERIVED)
    if "attributes" in values:
        row["attributes"] = [
            {
                "id": int(attribute.get("id") or 0),
                "name": str(attribute.get("name", "")),
                "slug": slug(str(attribute.get("name", ""))),
                "option": str(attribute.get("option", "")),
            }
            for attribute in values["attributes"]
        ]
    if "image" in values:
        row["image"] = products.images(shop, [values["image"]])[0] if values["image"] else None
    row["name"] = ", ".join(attribute["option"] for attribute in row["attributes"])
    chosen = "&".join(
        f"attribute_{attribute['slug']}={quote_plus(attribute['option'])}" for attribute in row["attributes"]
    )
    row["permalink"] = f"{parent['permalink']}?{chosen}"
    stock.derive(shop, row)


def create(shop: FakeShop, parent_id: int, body: Row, *, loose: bool = False) -> Row:
    """Creates a variation. Raises ShopError."""
    values = _values(body, loose=loose)
    parent = shop.products.get(parent_id)
    if parent is None:
        # The shop only looks for the parent when it sets attributes: without them it fails.
        if "attributes" not in values:
            raise errors.critical()
        message = "Cannot set attributes due to invalid parent product."
        raise errors.ShopError(404, "woocommerce_rest_product_variation_invalid_parent", message)
    shop.refuse_taken_sku(values.get("sku", ""), 0)
    row = blank.variation()
    row["id"], row["parent_id"] = shop.next_id("post"), parent_id
    shop.mark_created(row)
    _apply(shop, row, values)
    shop.variations[row["id"]] = row
    parent["variations"] = [*parent["variations"], row["id"]]
    stock.derive(shop, parent)
    shop.record_change("variation", row["id"], None, row, values)
    shop.record_event("product.created", row["id"])
    return show(shop, row)


def update(shop: FakeShop, parent_id: int, variation_id: int, body: Row, *, loose: bool = False) -> Row:
    """Changes a variation. Raises ShopError."""
    values = _values(body, loose=loose)
    row = find(shop, parent_id, variation_id)
    shop.refuse_taken_sku(values.get("sku", ""), variation_id)
    before, draft = dict(row), dict(row)
    _apply(shop, draft, values)
    row.update(draft)
    shop.mark_modified(row)
    stock.derive(shop, shop.products[parent_id])
    shop.record_change("variation", variation_id, before, row, values)
    shop.record_event("product.updated", variation_id)
    return show(shop, row)


def delete(shop: FakeShop, parent_id: int, variation_id: int, *, force: bool) -> Row:
    """Removes a variation permanently; answers 501 without force, as variations have no trash."""
    row = find(shop, parent_id, variation_id)
    if not force:
        raise errors.trash_unsupported("product_variation")
    resource = show(shop, row)
    parent = shop.products[parent_id]
    del shop.variations[variation_id]
    parent["variations"] = [other_id for other_id in parent["variations"] if other_id != variation_id]
    stock.derive(shop, parent)
    shop.record_change("variation", variation_id, row, None, ("status",))
    return resource
