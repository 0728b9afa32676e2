"""Products of the pretend shop: list, get, create, update, delete."""

from collections.abc import Iterable
from datetime import UTC

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce import blank, errors, stock, terms
from steward.fake_platforms.woocommerce.arguments import Arg, checked, moment, taken_loosely
from steward.fake_platforms.woocommerce.listing import Listing, Result
from steward.fake_platforms.woocommerce.shop import Shop, price_html, slug

STATES = ("draft", "pending", "private", "publish", "future", "auto-draft", "trash")
STOCK = ("instock", "outofstock", "onbackorder")
META = Arg("objects", inside={"id": Arg("integer", nullable=True), "key": Arg()})
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
    "meta_data": META,
}
ARGS: dict[str, Arg] = {
    "name": Arg(),
    "slug": Arg(),
    "type": Arg("string", ("simple", "grouped", "external", "variable")),
    "status": Arg("string", STATES),
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
# What an empty text becomes where the shop knows a list of words.
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


def find(shop: Shop, product_id: int, status: int) -> Row:
    """The product; raises ShopError with the given status."""
    if product_id not in shop.products:
        raise errors.invalid_id("product", status)
    return shop.products[product_id]


def show(shop: Shop, row: Row, *, edit: bool = False) -> Row:
    """A product as the shop answers it; an answer to a write carries two fields more (recorded)."""
    path = f"products/{row['id']}"
    shown = dict(row)
    # Variations in other states are not named here, and are in their own list all the same.
    live = [one for one in row["variations"] if shop.variations[one]["status"] in ("publish", "private")]
    shown["variations"] = live
    if edit:
        shown["permalink_template"] = f"{shop.url}/product/%pagename%/"
        shown["generated_slug"] = row["slug"] or slug(row["name"])
    else:
        for name in ("description", "short_description"):
            if row[name] and not row[name].startswith("<"):
                shown[name] = f"<p>{row[name]}</p>\n"
    shown["_links"] = shop.links(path, collection="products")
    return shown


def variation_as_product(shop: Shop, row: Row) -> Row:
    """A variation read on the product path or told by a webhook: the product's form (recorded)."""
    parent = shop.products[row["parent_id"]]
    shown = blank.product() | {name: value for name, value in row.items() if name != "image"}
    shown.pop("gallery_image_ids", None)
    shown["name"] = f"{parent['name']} - {row['name']}"
    shown["slug"] = slug(shown["name"])
    shown["price_html"] = price_html(row["price"])
    shown["total_sales"] = "0"
    shown["reviews_allowed"] = False
    up = f"products/{parent['id']}"
    shown["_links"] = shop.links(f"products/{row['id']}", collection="products", up=up)
    return shown


def _filtered(shop: Shop, asked: Row) -> Iterable[Row]:
    rows: Iterable[Row] = shop.products.values()
    if asked.get("sku"):
        wanted = {sku.strip() for sku in asked["sku"].split(",")}
        every = (*shop.products.values(), *shop.variations.values())
        rows = [row for row in every if row["sku"] in wanted]
    state = asked.get("status", "any")
    rows = [row for row in rows if (row["status"] != "trash" if state == "any" else row["status"] == state)]
    for name in ("type", "slug", "featured", "on_sale", "stock_status"):
        if name in asked:
            rows = [row for row in rows if row.get(name) == asked[name]]
    for name, column in (("category", "categories"), ("tag", "tags")):
        if asked.get(name):
            ids = {int(part) for part in asked[name].split(",") if part.strip().isdigit()}
            rows = [row for row in rows if any(term["id"] in ids for term in row.get(column, ()))]
    least, most = (stock.number(asked.get(name, "")) for name in ("min_price", "max_price"))
    if least is not None:
        rows = [row for row in rows if (stock.number(row["price"]) or 0.0) >= least]
    if most is not None:
        rows = [row for row in rows if (stock.number(row["price"]) or 0.0) <= most]
    return rows


def listed(shop: Shop, query: Row) -> Result:
    """The list of products; variations are in it only when asked for by SKU (recorded)."""
    listing = Listing(_LIST, _SORT, "date", shop.zone, ("name", "description", "sku"))
    asked = listing.read(query)

    def shown(row: Row) -> Row:
        return variation_as_product(shop, row) if row["type"] == "variation" else show(shop, row)

    url = f"{shop.url}/wp-json/wc/v3/products"
    return listing.answer(_filtered(shop, asked), asked, query, url=url, show=shown)


def get(shop: Shop, product_id: int) -> Row:
    """One product, or a variation in the product's form; raises ShopError 404."""
    if product_id in shop.variations:
        return variation_as_product(shop, shop.variations[product_id])
    return show(shop, find(shop, product_id, 404))


def _attributes(wanted: list[Row]) -> list[Row]:
    return [
        {
            "id": int(one.get("id") or 0),
            "name": str(one.get("name", "")),
            "slug": str(one.get("name", "")),
            "position": int(one.get("position", place)),
            "visible": bool(one.get("visible", False)),
            "variation": bool(one.get("variation", False)),
            "options": [str(option) for option in one.get("options", [])],
        }
        for place, one in enumerate(wanted)
    ]


def images(shop: Shop, wanted: list[Row]) -> list[Row]:
    """Images as stored; nothing is fetched."""
    local, gmt = shop.stamp()
    dates = {"date_created": local, "date_created_gmt": gmt, "date_modified": local, "date_modified_gmt": gmt}
    return [
        {
            "id": int(one.get("id") or shop.next_id("post")),
            **dates,
            "src": str(one.get("src", "")),
            "name": str(one.get("name", "")),
            "alt": str(one.get("alt", "")),
        }
        for one in wanted
    ]


def set_sale_dates(shop: Shop, row: Row, values: Row) -> None:
    """Keeps both forms of the sale's dates in step."""
    for name in ("date_on_sale_from", "date_on_sale_to"):
        for given in (name, f"{name}_gmt"):
            if values.get(given) is None:
                continue
            found = moment(values[given])
            if found is None:
                row[name] = row[f"{name}_gmt"] = None
            else:
                zone = None if found.tzinfo else (shop.zone if given == name else UTC)
                row[name], row[f"{name}_gmt"] = shop.stamp(found.replace(tzinfo=zone) if zone else found)


def set_common(shop: Shop, row: Row, values: Row, *, derived: set[str]) -> None:
    """Takes over what products and variations share; an emptied choice falls back to its default."""
    if values.get("catalog_visibility") == "":
        words = "Invalid catalog visibility option."
        raise errors.ShopError(400, "product_invalid_catalog_visibility", words)
    defaults = {name: _DEFAULTS[name] for name in _DEFAULTS.keys() & values.keys() if values[name] == ""}
    values = {**values, **defaults}
    for name, value in values.items():
        if name not in derived and not name.startswith("date_on_sale"):
            row[name] = value
    if "sku" in values:
        shop.refuse_taken_sku(values["sku"], row["id"])
        row["sku"] = values["sku"]
    if "dimensions" in values:
        row["dimensions"] = {**row["dimensions"], **{k: str(v) for k, v in values["dimensions"].items()}}
    set_sale_dates(shop, row, values)
    stock.set_prices(row, values)
    stock.set_stock(row, values)
    if "meta_data" in values:
        shop.merge_meta(row, values["meta_data"])


def _apply(shop: Shop, row: Row, values: Row) -> None:
    set_common(shop, row, values, derived=_DERIVED)
    for kind in ("tags", "categories"):
        if kind in values:
            row[kind] = terms.named(shop, kind, values[kind])
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


def _free_slug(shop: Shop, wanted: str) -> str:
    taken = {row["slug"] for row in shop.products.values()}
    number, free = 1, wanted
    while free in taken:
        number += 1
        free = f"{wanted}-{number}"
    return free


def _values(body: Row, *, loose: bool) -> Row:
    return taken_loosely(body, ARGS, fallback="draft") if loose else checked(body, ARGS)


def create(shop: Shop, body: Row, *, loose: bool = False) -> Row:
    """A new product; raises ShopError."""
    values = _values(body, loose=loose)
    shop.refuse_taken_sku(values.get("sku", ""), 0)
    row = blank.product()
    row["id"] = shop.next_id("post")
    shop.mark_created(row)
    _apply(shop, row, {"categories": [], **values})
    shop.products[row["id"]] = row
    shop.touch("product", row["id"], None, row, values)
    shop.tell("product.created", row["id"])
    return show(shop, row, edit=True)


def update(shop: Shop, product_id: int, body: Row, *, loose: bool = False) -> Row:
    """Changes a product; raises ShopError."""
    values = _values(body, loose=loose)
    if product_id in shop.variations:
        words = "To manipulate product variations you should use the "
        words += "/products/&lt;product_id&gt;/variations/&lt;id&gt; endpoint."
        raise errors.ShopError(404, "woocommerce_rest_invalid_product_id", words)
    row = find(shop, product_id, 400)
    shop.refuse_taken_sku(values.get("sku", ""), product_id)
    before, draft = dict(row), dict(row)
    _apply(shop, draft, values)
    row.update(draft)
    shop.mark_modified(row)
    shop.touch("product", product_id, before, row, values)
    shop.tell("product.updated", product_id)
    return show(shop, row, edit=True)


def delete(shop: Shop, product_id: int, *, force: bool) -> Row:
    """Trashes a product, or removes it for good; the answer shows the state before (recorded)."""
    row = find(shop, product_id, 404)
    shown = show(shop, row, edit=True)
    before = dict(row)
    if force:
        del shop.products[product_id]
        for one in row["variations"]:
            shop.variations.pop(one, None)
        shop.touch("product", product_id, before, None, ("status",))
        return shown
    if row["status"] == "trash":
        raise errors.already_trashed("product")
    row["status"] = "trash"
    for one in row["variations"]:
        shop.variations[one]["status"] = "trash"
    shop.mark_modified(row)
    shop.touch("product", product_id, before, row, ("status",))
    shop.tell("product.deleted", product_id)
    return shown
