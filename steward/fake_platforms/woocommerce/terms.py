"""Tags and categories of the fake shop."""

import html
import re
from collections import Counter
from collections.abc import Iterator

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce.arguments import Arg, validated
from steward.fake_platforms.woocommerce.errors import ShopError, trash_unsupported
from steward.fake_platforms.woocommerce.listing import Listing, RouteResult
from steward.fake_platforms.woocommerce.shop import FakeShop, slug

_TEXTS = {"name": Arg(), "slug": Arg(), "description": Arg()}
ARGS: dict[str, dict[str, Arg]] = {
    "tags": _TEXTS,
    "categories": {
        **_TEXTS,
        "parent": Arg("integer"),
        "display": Arg("string", ("default", "products", "subcategories", "both")),
        "menu_order": Arg("integer"),
    },
}
_SORT = {"id": "id", "name": "name", "slug": "slug", "description": "description", "count": "count"}
_LIST = {"hide_empty": Arg("boolean"), "parent": Arg("integer"), "product": Arg("integer"), "slug": Arg()}


def find(shop: FakeShop, kind: str, term_id: int) -> Row:
    """Returns the term. Raises ShopError 404."""
    if term_id not in shop.terms[kind]:
        raise ShopError(404, "woocommerce_rest_term_invalid", "Resource does not exist.")
    return shop.terms[kind][term_id]


def counts(shop: FakeShop, kind: str) -> Counter[int]:
    """Counts the published products of each term."""
    product_counts: Counter[int] = Counter()
    for product in shop.products.values():
        if product["status"] == "publish":
            product_counts.update(term["id"] for term in product[kind])
    return product_counts


def show(shop: FakeShop, kind: str, term: Row, count: int) -> Row:
    """Returns a term in the shop's form."""
    path = f"products/{kind}/{term['id']}"
    links = shop.links(path, collection=f"products/{kind}")
    return {**term, "count": count, "_links": links}


def show_one(shop: FakeShop, kind: str, term: Row) -> Row:
    """Returns a term with its count."""
    return show(shop, kind, term, counts(shop, kind)[term["id"]])


def listed(shop: FakeShop, kind: str, query: Row) -> RouteResult:
    """Returns the list of terms, by name by default."""
    listing = Listing(_LIST, _SORT, "name", shop.zone)
    arguments = listing.read(query)
    url = f"{shop.url}/wp-json/wc/v3/products/{kind}"
    return listing.respond(
        _filtered(shop, kind, arguments),
        arguments,
        query,
        url=url,
        show=lambda row: show(shop, kind, row, row["count"]),
    )


def _filtered(shop: FakeShop, kind: str, arguments: Row) -> Iterator[Row]:
    """Yields the terms that match the list's filters, with their counts."""
    product_counts = counts(shop, kind)
    listed_ids = set(shop.terms[kind])
    if "product" in arguments:
        product = shop.products.get(arguments["product"], {})
        listed_ids &= {term["id"] for term in product.get(kind, [])}
    for term_id, term in shop.terms[kind].items():
        row = {**term, "count": product_counts[term_id]}
        if term_id in listed_ids and _is_selected(row, arguments):
            yield row


def _is_selected(row: Row, arguments: Row) -> bool:
    if arguments.get("hide_empty") and not row["count"]:
        return False
    if "parent" in arguments and row.get("parent", 0) != arguments["parent"]:
        return False
    return not arguments.get("slug") or row["slug"] in arguments["slug"].split(",")


_UNCLOSED = re.compile(r"<[^>]*?(?:(?=<)|>|$)")
_SCRIPTS = re.compile(r"<(script|style)[^>]*?>.*?</\1>", re.IGNORECASE | re.DOTALL)
_OCTET = re.compile(r"%[0-9a-fA-F]{2}")
_AMPERSAND = re.compile(r"&(?!(?:[A-Za-z]{2,8}[0-9]{0,2}|#0*[0-9]{1,7}|#[xX]0*[0-9A-Fa-f]{1,6});)")


def _stored_name(shop: FakeShop, name: str) -> str:
    """Returns a name as WordPress stores it: no markup or escaped bytes, single blanks, entities.

    Leaves out characters of four bytes if the database does not support them.
    """
    text = _UNCLOSED.sub(lambda match: match[0] if ">" in match[0] else html.escape(match[0]), name)
    text = re.sub(r"<(?!\s)[^>]*>", "", _SCRIPTS.sub("", text))
    text = re.sub(r"[\r\n\t ]+", " ", text).strip()
    while _OCTET.search(text):
        text = re.sub(r" +", " ", _OCTET.sub("", text)).strip()
    if not shop.holds_four_bytes:
        text = re.sub("[\U00010000-\U0010ffff]", "", text).strip()
    return _AMPERSAND.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def _same_name(shop: FakeShop, kind: str, name: str) -> Row | None:
    folded = _stored_name(shop, name).casefold()
    return next((t for t in shop.terms[kind].values() if t["name"].casefold() == folded), None)


def _refuse_empty(shop: FakeShop, name: str) -> None:
    if not _stored_name(shop, name):
        raise ShopError(400, "empty_term_name", "A name is required for this term.")


def _exists(term: Row) -> ShopError:
    message = "A term with the name provided already exists in this taxonomy."
    return ShopError(400, "term_exists", message, {"resource_id": term["id"]})


def add(shop: FakeShop, kind: str, values: Row) -> Row:
    """Stores a new term, with its name as WordPress stores it."""
    row: Row = {"id": shop.next_id("term"), "name": _stored_name(shop, values["name"])}
    row["slug"] = values.get("slug") or slug(html.unescape(row["name"])) or str(row["id"])
    if kind == "categories":
        row["parent"] = values.get("parent", 0)
    row["description"] = values.get("description", "")
    if kind == "categories":
        row |= {"display": values.get("display", "default"), "image": None, "menu_order": 0}
    shop.terms[kind][row["id"]] = row
    return row


def create(shop: FakeShop, kind: str, body: Row) -> Row:
    """Creates a term. Raises ShopError `term_exists` when the name is in use, ignoring case."""
    values = validated(body, ARGS[kind], required=("name",))
    _refuse_empty(shop, values["name"])
    existing = _same_name(shop, kind, values["name"])
    if existing is not None:
        raise _exists(existing)
    row = add(shop, kind, values)
    shop.record_change(_word(kind), row["id"], None, row, values)
    return row


def update(shop: FakeShop, kind: str, term_id: int, body: Row) -> Row:
    """Changes a term. Raises ShopError."""
    term, values = find(shop, kind, term_id), validated(body, ARGS[kind])
    existing = _same_name(shop, kind, values["name"]) if values.get("name") else None
    if existing is not None and existing is not term:
        raise _exists(existing)
    before = dict(term)
    if "name" in values:
        _refuse_empty(shop, values["name"])
        values["name"] = _stored_name(shop, values["name"])
    term.update(values)
    shop.record_change(_word(kind), term_id, before, term, values)
    return term


def delete(shop: FakeShop, kind: str, term_id: int, *, force: bool) -> Row:
    """Removes a term permanently, from products too; answers 501 without force."""
    term = find(shop, kind, term_id)
    if not force:
        raise trash_unsupported("Resource")
    resource = show_one(shop, kind, term)
    del shop.terms[kind][term_id]
    for product in shop.products.values():
        product[kind] = [product_term for product_term in product[kind] if product_term["id"] != term_id]
    shop.record_change(_word(kind), term_id, term, None, ("name",))
    return resource


def resolve(shop: FakeShop, kind: str, requested: list[Row]) -> list[Row]:
    """Returns a product's terms by id or name; creates unknown names and leaves out unknown ids."""
    resolved: dict[int, Row] = {}
    for fields in requested:
        term = _requested_term(shop, kind, fields)
        if term is not None:
            resolved[term["id"]] = _reference(term)
    if not resolved and kind == "categories":
        return [_reference(_term_named(shop, kind, "Uncategorized"))]
    return list(resolved.values())


def _requested_term(shop: FakeShop, kind: str, fields: Row) -> Row | None:
    if fields.get("id"):
        return shop.terms[kind].get(int(fields["id"]))
    name = str(fields.get("name") or "")
    return _term_named(shop, kind, name) if _stored_name(shop, name) else None


def _term_named(shop: FakeShop, kind: str, name: str) -> Row:
    """Returns the term with that name; creates it if there is none."""
    return _same_name(shop, kind, name) or add(shop, kind, {"name": name})


def _reference(term: Row) -> Row:
    return {name: term[name] for name in ("id", "name", "slug")}


def _word(kind: str) -> str:
    return {"tags": "tag", "categories": "category"}[kind]
