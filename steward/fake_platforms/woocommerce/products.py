"""Products of the fake shop: list, get, create, update, delete."""

from collections.abc import Iterable
from datetime import UTC

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import blank, errors, stock, terms
from steward.fake_platforms.woocommerce.arguments import Arg, coerced, moment, validated
from steward.fake_platforms.woocommerce.listing import (
    Listing,
    RouteResult,
    comma_separated,
    in_status,
    with_values,
)
from steward.fake_platforms.woocommerce.shop import FakeShop, price_html, slug

_STATES = ("draft", "pending", "private", "publish", "future", "auto-draft", "trash")
STOCK = ("instock", "outofstock", "onbackorder")
_META = Arg("objects", inside={"id": Arg("integer", nullable=True), "key": Arg()})
_TERM = Arg("objects", inside={"id": Arg("integer", nullable=True), "name": Arg()})
IMAGE = {"id": Arg("integer", nullable=True), "src": Arg(), "name": Arg(), "alt": Arg()}
_ATTRIBUTE = {
    "id": Arg("integer"),
    "name": Arg(),
    "position": Arg("integer"),
    "visible": Arg("boolean"),
    "variation": Arg("boolean"),
    "option": Arg(),
    "options": Arg("texts"),
}
PRICED: dict[str, Arg] = {
    "description": Arg(),
    "sku": Arg(),
    "global_unique_id": Arg(),
    "regular_price": Arg(),
    "sale_price": Arg(),
    "date_on_sale_from": Arg("text date", nullable=True),
    "date_on_sale_from_gmt": Arg("text date", nullable=True),
    "date_on_sale_to": Arg("text date", nullable=True),
    "date_on_sale_to_gmt": Arg("text date", nullable=True),
    "virtual": Arg("boolean"),
    "downloadable": Arg("boolean"),
    "download_limit": Arg("integer"),
    "download_expiry": Arg("integer"),
    "tax_status": Arg("string", ("taxable", "shipping", "none")),
    "tax_class": Arg(),
    "stock_quantity": Arg("integer"),
    "stock_status": Arg("string", STOCK),
    "backorders": Arg("string", ("no", "notify", "yes")),
    "low_stock_amount": Arg("integer", nullable=True),
    "weight": Arg(),
    "dimensions": Arg("object", inside={"length": Arg(), "width": Arg(), "height": Arg()}),
    "shipping_class": Arg(),
    "attributes": Arg("objects", inside=_ATTRIBUTE),
    "menu_order": Arg("integer"),
    "meta_data": _META,
}
ARGS: dict[str, Arg] = {
    "name": Arg(),
    "slug": Arg(),
    "type": Arg("string", ("simple", "grouped", "external", "variable")),
    "status": Arg("string", _STATES),
    "featured": Arg("boolean"),
    "catalog_visibility": Arg("string", ("visible", "catalog", "search", "hidden")),
    "short_description": Arg(),
    "external_url": Arg(),
    "button_text": Arg(),
    "manage_stock": Arg("boolean"),
    "sold_individually": Arg("boolean"),
    "reviews_allowed": Arg("boolean"),
    "post_password": Arg(),
    "upsell_ids": Arg("integers"),
    "cross_sell_ids": Arg("integers"),
    "parent_id": Arg("integer"),
    "purchase_note": Arg(),
    "categories": _TERM,
    "tags": _TERM,
    "images": Arg("objects", inside=IMAGE),
    "default_attributes": Arg("objects"),
    **PRICED,
}
# The value that replaces an empty text in fields with a fixed list of words.
_DEFAULTS = {"status": "draft", "type": "simple", "stock_status": "instock", "tax_status": "taxable"}
_DEFAULTS |= {"backorders": "no"}
_DERIVED = {"regular_price", "sale_price", "dimensions", "categories", "tags", "images", "attributes"}
_DERIVED |= {"meta_data"}
_DERIVED |= {"manage_stock", "stock_quantity", "stock_status", "backorders", "low_stock_amount", "sku"}
_SORT = {
    "date": "date_created_gmt",
    "id": "id",
    "title": "name",
    "slug": "slug",
    "modified": "date_modified_gmt",
    "menu_order": "menu_order",
    "popularity": "total_sales",
    "rating": "average_rating",
    "price": "price",
    "sales": "total_sales",
}
_LIST = {
    "status": Arg("string", ("any", "future", "trash", "draft", "pending", "private", "publish")),
    "type": Arg("string", ("simple", "grouped", "external", "variable")),
    "sku": Arg(),
    "slug": Arg(),
    "featured": Arg("boolean"),
    "category": Arg(),
    "tag": Arg(),
    "on_sale": Arg("boolean"),
    "stock_status": Arg("string", STOCK),
    "min_price": Arg(),
    "max_price": Arg(),
}


def find(shop: FakeShop, product_id: int, status: int) -> Row:
    """Returns the product. Raises ShopError with the given status."""
    if product_id not in shop.products:
        raise errors.invalid_id("product", status)
    return shop.products[product_id]


def show(shop: FakeShop, row: Row, *, edit: bool = False) -> Row:
    """Returns a product in the shop's form; a response to a write has two additional fields."""
    path = f"products/{row['id']}"
    resource = dict(row)
    # Variations in other states are not listed here, but are in their own list.
    live = [
        variation_id
        for variation_id in row["variations"]
        if shop.variations[variation_id]["status"] in ("publish", "private")
    ]
    resource["variations"] = live
    if edit:
        resource["permalink_template"] = f"{shop.url}/product/%pagename%/"
        resource["generated_slug"] = row["slug"] or slug(row["name"])
    else:
        for name in ("description", "short_description"):
            if row[name] and not row[name].startswith("<"):
                resource[name] = f"<p>{row[name]}</p>\n"
    resource["_links"] = shop.links(path, collection="products")
    return resource


def _variation_as_product(shop: FakeShop, row: Row) -> Row:
    """Returns a variation in the product's form, as product paths and webhooks show it."""
    parent = shop.products[row["parent_id"]]
    resource = blank.product() | {name: value for name, value in row.items() if name != "image"}
    resource.pop("gallery_image_ids", None)
    resource["name"] = f"{parent['name']} - {row['name']}"
    resource["slug"] = slug(resource["name"])
    resource["price_html"] = price_html(row["price"])
    resource["total_sales"] = "0"
    resource["reviews_allowed"] = False
    up = f"products/{parent['id']}"
    resource["_links"] = shop.links(f"products/{row['id']}", collection="products", up=up)
    return resource


def _filtered(shop: FakeShop, arguments: Row) -> Iterable[Row]:
    rows: Iterable[Row] = shop.products.values()
    if arguments.get("sku"):
        skus = comma_separated(arguments["sku"])
        every = (*shop.products.values(), *shop.variations.values())
        rows = [row for row in every if row["sku"] in skus]
    names = ("type", "slug", "featured", "on_sale", "stock_status")
    rows = with_values(in_status(rows, arguments), arguments, names)
    for name, column in (("category", "categories"), ("tag", "tags")):
        if arguments.get(name):
            rows = _with_terms(rows, column, arguments[name])
    min_price, max_price = (stock.number(arguments.get(name, "")) for name in ("min_price", "max_price"))
    return [row for row in rows if _is_between(stock.number(row["price"]) or 0.0, min_price, max_price)]


def _with_terms(rows: Iterable[Row], column: str, ids_text: str) -> list[Row]:
    ids = {int(part) for part in comma_separated(ids_text) if part.isdigit()}
    return [row for row in rows if any(term["id"] in ids for term in row.get(column, ()))]


def _is_between(price: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is None or price >= minimum) and (maximum is None or price <= maximum)


def listed(shop: FakeShop, query: Row) -> RouteResult:
    """Returns the list of products, which contains variations only when requested by SKU."""
    listing = Listing(_LIST, _SORT, "date", shop.zone, ("name", "description", "sku"))
    arguments = listing.read(query)

    def show_any(row: Row) -> Row:
        return _variation_as_product(shop, row) if row["type"] == "variation" else show(shop, row)

    url = f"{shop.url}/wp-json/wc/v3/products"
    return listing.respond(_filtered(shop, arguments), arguments, query, url=url, show=show_any)


def get(shop: FakeShop, product_id: int) -> Row:
    """Returns one product, or a variation in the product's form. Raises ShopError 404."""
    if product_id in shop.variations:
        return _variation_as_product(shop, shop.variations[product_id])
    return show(shop, find(shop, product_id, 404))


def _attributes(requested: list[Row]) -> list[Row]:
    return [
        {
            "id": int(attribute.get("id") or 0),
            "name": str(attribute.get("name", "")),
            "slug": str(attribute.get("name", "")),
            "position": int(attribute.get("position", index)),
            "visible": bool(attribute.get("visible", False)),
            "variation": bool(attribute.get("variation", False)),
            "options": [str(option) for option in attribute.get("options", [])],
        }
        for index, attribute in enumerate(requested)
    ]


def images(shop: FakeShop, requested: list[Row]) -> list[Row]:
    """Returns images as stored; nothing is fetched."""
    local, gmt = shop.stamp()
    dates = {"date_created": local, "date_created_gmt": gmt, "date_modified": local, "date_modified_gmt": gmt}
    return [
        {
            "id": int(image.get("id") or shop.next_id("post")),
            **dates,
            "src": str(image.get("src", "")),
            "name": str(image.get("name", "")),
            "alt": str(image.get("alt", "")),
        }
        for image in requested
    ]


def _set_sale_dates(shop: FakeShop, row: Row, values: Row) -> None:
    """Sets both forms of the sale's dates."""
    for name in ("date_on_sale_from", "date_on_sale_to"):
        for field in (name, f"{name}_gmt"):
            if values.get(field) is None:
                continue
            instant = moment(values[field])
            if instant is None:
                row[name] = row[f"{name}_gmt"] = None
            else:
                zone = None if instant.tzinfo else (shop.zone if field == name else UTC)
                row[name], row[f"{name}_gmt"] = shop.stamp(instant.replace(tzinfo=zone) if zone else instant)


def _with_defaults(values: Row) -> Row:
    """Returns the values with defaults for empty choices. Raises ShopError for an empty visibility."""
    if values.get("catalog_visibility") == "":
        message = "Invalid catalog visibility option."
        raise errors.ShopError(400, "product_invalid_catalog_visibility", message)
    defaults = {name: _DEFAULTS[name] for name in _DEFAULTS.keys() & values.keys() if values[name] == ""}
    return {**values, **defaults}


def set_common(shop: FakeShop, row: Row, values: Row, *, derived: set[str]) -> None:
    """Sets the fields that products and variations share; an empty choice gets its default."""
    values = _with_defaults(values)
    for name, value in values.items():
        if name not in derived and not name.startswith("date_on_sale"):
            row[name] = value
    if "sku" in values:
        shop.refuse_taken_sku(values["sku"], row["id"])
        row["sku"] = values["sku"]
    if "dimensions" in values:
        row["dimensions"] = {**row["dimensions"], **{k: str(v) for k, v in values["dimensions"].items()}}
    _set_sale_dates(shop, row, values)
    stock.set_prices(row, values)
    stock.set_stock(row, values)
    if "meta_data" in values:
        shop.merge_meta(row, values["meta_data"])


def _apply(shop: FakeShop, row: Row, values: Row) -> None:
    set_common(shop, row, values, derived=_DERIVED)
    for kind in ("tags", "categories"):
        if kind in values:
            row[kind] = terms.resolve(shop, kind, values[kind])
    if "attributes" in values:
        row["attributes"] = _attributes(values["attributes"])
    if "images" in values:
        row["images"] = images(shop, values["images"])
    live = row["status"] not in ("draft", "pending", "auto-draft")
    if live and not row["slug"]:
        row["slug"] = _free_slug(shop, slug(row["name"]) or f"product-{row['id']}")
    by_number = f"{shop.url}/?post_type=product&p={row['id']}"
    row["permalink"] = f"{shop.url}/product/{row['slug']}/" if live else by_number
    stock.derive(shop, row)


def _free_slug(shop: FakeShop, stem: str) -> str:
    used_slugs = {row["slug"] for row in shop.products.values()}
    number, free = 1, stem
    while free in used_slugs:
        number += 1
        free = f"{stem}-{number}"
    return free


def _values(body: Row, *, loose: bool) -> Row:
    return coerced(body, ARGS, fallback="draft") if loose else validated(body, ARGS)


def create(shop: FakeShop, body: Row, *, loose: bool = False) -> Row:
    """Creates a product. Raises ShopError."""
    values = _values(body, loose=loose)
    shop.refuse_taken_sku(values.get("sku", ""), 0)
    row = blank.product()
    row["id"] = shop.next_id("post")
    shop.mark_created(row)
    _apply(shop, row, {"categories": [], **values})
    shop.products[row["id"]] = row
    shop.record_change("product", row["id"], None, row, values)
    shop.record_event("product.created", row["id"])
    return show(shop, row, edit=True)


def update(shop: FakeShop, product_id: int, body: Row, *, loose: bool = False) -> Row:
    """Changes a product. Raises ShopError."""
    values = _values(body, loose=loose)
    if product_id in shop.variations:
        message = "To manipulate product variations you should use the "
        message += "/products/&lt;product_id&gt;/variations/&lt;id&gt; endpoint."
        raise errors.ShopError(404, "woocommerce_rest_invalid_product_id", message)
    row = find(shop, product_id, 400)
    shop.refuse_taken_sku(values.get("sku", ""), product_id)
    before, draft = dict(row), dict(row)
    _apply(shop, draft, values)
    row.update(draft)
    shop.mark_modified(row)
    shop.record_change("product", product_id, before, row, values)
    shop.record_event("product.updated", product_id)
    return show(shop, row, edit=True)


def delete(shop: FakeShop, product_id: int, *, force: bool) -> Row:
    """Trashes a product, or removes it permanently; the response shows the state before."""
    row = find(shop, product_id, 404)
    resource = show(shop, row, edit=True)
    before = dict(row)
    if force:
        del shop.products[product_id]
        for variation_id in row["variations"]:
            shop.variations.pop(variation_id, None)
        shop.record_change("product", product_id, before, None, ("status",))
        return resource
    if row["status"] == "trash":
        raise errors.already_trashed("product")
    row["status"] = "trash"
    for variation_id in row["variations"]:
        shop.variations[variation_id]["status"] = "trash"
    shop.mark_modified(row)
    shop.record_change("product", product_id, before, row, ("status",))
    shop.record_event("product.deleted", product_id)
    return resource
