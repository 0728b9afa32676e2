"""Tags and categories of the pretend shop."""

import html
import re
from collections import Counter
from collections.abc import Iterable

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce.arguments import Arg, checked
from steward.fake_platforms.woocommerce.errors import ShopError, trash_unsupported
from steward.fake_platforms.woocommerce.listing import Listing, Result
from steward.fake_platforms.woocommerce.shop import Shop, slug

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


def find(shop: Shop, kind: str, term_id: int) -> Row:
    """The term; raises ShopError 404."""
    if term_id not in shop.terms[kind]:
        raise ShopError(404, "woocommerce_rest_term_invalid", "Resource does not exist.")
    return shop.terms[kind][term_id]


def counts(shop: Shop, kind: str) -> Counter[int]:
    """How many published products carry each term."""
    seen: Counter[int] = Counter()
    for product in shop.products.values():
        if product["status"] == "publish":
            seen.update(term["id"] for term in product[kind])
    return seen


def show(shop: Shop, kind: str, term: Row, count: int) -> Row:
    """A term as the shop answers it."""
    path = f"products/{kind}/{term['id']}"
    links = shop.links(path, collection=f"products/{kind}")
    return {**term, "count": count, "_links": links}


def show_one(shop: Shop, kind: str, term: Row) -> Row:
    """A term with its count looked up."""
    return show(shop, kind, term, counts(shop, kind)[term["id"]])


def listed(shop: Shop, kind: str, query: Row) -> Result:
    """The list of terms, by name unless asked otherwise."""
    seen = counts(shop, kind)
    listing = Listing(_LIST, _SORT, "name", shop.zone)
    asked = listing.read(query)
    rows: Iterable[Row] = ({**term, "count": seen[term["id"]]} for term in shop.terms[kind].values())
    if asked.get("hide_empty"):
        rows = (row for row in rows if row["count"])
    if "parent" in asked:
        rows = (row for row in rows if row.get("parent", 0) == asked["parent"])
    if "product" in asked:
        carried = {term["id"] for term in shop.products.get(asked["product"], {}).get(kind, [])}
        rows = (row for row in rows if row["id"] in carried)
    if asked.get("slug"):
        rows = (row for row in rows if row["slug"] in asked["slug"].split(","))
    url = f"{shop.url}/wp-json/wc/v3/products/{kind}"
    return listing.answer(rows, asked, query, url=url, show=lambda row: show(shop, kind, row, row["count"]))


_UNCLOSED = re.compile(r"<[^>]*?(?:(?=<)|>|$)")
_SCRIPTS = re.compile(r"<(script|style)[^>]*?>.*?</\1>", re.IGNORECASE | re.DOTALL)
_OCTET = re.compile(r"%[0-9a-fA-F]{2}")
_AMPERSAND = re.compile(r"&(?!(?:[A-Za-z]{2,8}[0-9]{0,2}|#0*[0-9]{1,7}|#[xX]0*[0-9A-Fa-f]{1,6});)")


def kept_name(shop: Shop, name: str) -> str:
    """A name as WordPress stores it: without markup and escaped bytes, one blank at a time, with entities.

    Where the database holds no characters of four bytes, they are left out.
    """
    kept = _UNCLOSED.sub(lambda found: found[0] if ">" in found[0] else html.escape(found[0]), name)
    kept = re.sub(r"<(?!\s)[^>]*>", "", _SCRIPTS.sub("", kept))
    kept = re.sub(r"[\r\n\t ]+", " ", kept).strip()
    while _OCTET.search(kept):
        kept = re.sub(r" +", " ", _OCTET.sub("", kept)).strip()
    if not shop.holds_four_bytes:
        kept = re.sub("[\U00010000-\U0010ffff]", "", kept).strip()
    return _AMPERSAND.sub("&amp;", kept).replace("<", "&lt;").replace(">", "&gt;")


def _same_name(shop: Shop, kind: str, name: str) -> Row | None:
    folded = kept_name(shop, name).casefold()
    return next((t for t in shop.terms[kind].values() if t["name"].casefold() == folded), None)


def _refuse_empty(shop: Shop, name: str) -> None:
    if not kept_name(shop, name):
        raise ShopError(400, "empty_term_name", "A name is required for this term.")


def _exists(term: Row) -> ShopError:
    words = "A term with the name provided already exists in this taxonomy."
    return ShopError(400, "term_exists", words, {"resource_id": term["id"]})


def add(shop: Shop, kind: str, values: Row) -> Row:
    """Stores a new term, its name as WordPress keeps it."""
    row: Row = {"id": shop.next_id("term"), "name": kept_name(shop, values["name"])}
    row["slug"] = values.get("slug") or slug(html.unescape(row["name"])) or str(row["id"])
    if kind == "categories":
        row["parent"] = values.get("parent", 0)
    row["description"] = values.get("description", "")
    if kind == "categories":
        row |= {"display": values.get("display", "default"), "image": None, "menu_order": 0}
    shop.terms[kind][row["id"]] = row
    return row


def create(shop: Shop, kind: str, body: Row) -> Row:
    """A new term; raises ShopError `term_exists` when the name is taken, whatever its case."""
    values = checked(body, ARGS[kind], required=("name",))
    _refuse_empty(shop, values["name"])
    taken = _same_name(shop, kind, values["name"])
    if taken is not None:
        raise _exists(taken)
    row = add(shop, kind, values)
    shop.touch(_word(kind), row["id"], None, row, values)
    return row


def update(shop: Shop, kind: str, term_id: int, body: Row) -> Row:
    """Changes a term; raises ShopError."""
    term, values = find(shop, kind, term_id), checked(body, ARGS[kind])
    taken = _same_name(shop, kind, values["name"]) if values.get("name") else None
    if taken is not None and taken is not term:
        raise _exists(taken)
    before = dict(term)
    if "name" in values:
        _refuse_empty(shop, values["name"])
        values["name"] = kept_name(shop, values["name"])
    term.update(values)
    shop.touch(_word(kind), term_id, before, term, values)
    return term


def delete(shop: Shop, kind: str, term_id: int, *, force: bool) -> Row:
    """Removes a term for good, from the products too; without force 501, for there is no trash."""
    term = find(shop, kind, term_id)
    if not force:
        raise trash_unsupported("Resource")
    shown = show_one(shop, kind, term)
    del shop.terms[kind][term_id]
    for product in shop.products.values():
        product[kind] = [held for held in product[kind] if held["id"] != term_id]
    shop.touch(_word(kind), term_id, term, None, ("name",))
    return shown


def named(shop: Shop, kind: str, wanted: list[Row]) -> list[Row]:
    """The terms a product is given, by id or by name; an unknown name is made, an unknown id left out."""
    found: dict[int, Row] = {}
    for ask in wanted:
        if ask.get("id"):
            term = shop.terms[kind].get(int(ask["id"]))
        elif ask.get("name") and kept_name(shop, str(ask["name"])):
            term = _same_name(shop, kind, str(ask["name"])) or add(shop, kind, {"name": str(ask["name"])})
        else:
            continue
        if term is not None:
            found[term["id"]] = {name: term[name] for name in ("id", "name", "slug")}
    if not found and kind == "categories":
        plain = _same_name(shop, kind, "Uncategorized") or add(shop, kind, {"name": "Uncategorized"})
        return [{name: plain[name] for name in ("id", "name", "slug")}]
    return list(found.values())


def _word(kind: str) -> str:
    return {"tags": "tag", "categories": "category"}[kind]
