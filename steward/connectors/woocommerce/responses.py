"""Converts WooCommerce's responses: its errors to the common errors, its products to records."""

import html
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

from steward.connectors.base.records import Product, Variant
from steward.connectors.woocommerce.bodies import decoded_of, page_error
from steward.outbound.errors import (
    CallError,
    Invalid,
    MissingRight,
    PlatformUnavailable,
    RemoteNotFound,
    Unauthorized,
    UnusableResponse,
    WrongAddress,
    WrongResponder,
)
from steward.outbound.response import Decoded, PlatformResponse

Row: TypeAlias = dict[str, Decoded]

PRODUCT_FIELDS = (
    "id,name,slug,type,status,catalog_visibility,virtual,description,sku,global_unique_id,price,"
    "regular_price,sale_price,date_on_sale_from_gmt,date_on_sale_to_gmt,manage_stock,stock_quantity,backorders_allowed,"
    "weight,categories,tags,images,variations,parent_id,date_created_gmt,date_modified_gmt"
)
VARIATION_FIELDS = (
    "id,name,status,virtual,sku,global_unique_id,regular_price,sale_price,date_on_sale_from_gmt,"
    "date_on_sale_to_gmt,manage_stock,stock_quantity,backorders_allowed,weight,date_created_gmt,"
    "date_modified_gmt"
)
_SELLABLE = frozenset({"simple", "variable"})


def error_of(response: PlatformResponse, *, write: bool) -> CallError:
    """Returns the common error of a response other than 2xx. See `docs/design/connectors.md#errors`."""
    error = _worded_error(response, write=write)
    error.status, error.attempts = response.status, response.attempts
    return error


def _worded_error(response: PlatformResponse, *, write: bool) -> CallError:
    body = _object(response)
    code = body.get("code") if body else None
    text = _message(response, body)
    if response.status >= 500:
        return _failure(response, code, text)
    if 300 <= response.status < 400 or not isinstance(code, str):
        return page_error(response) or _foreign_error(response, text, write=write)
    if response.status in (401, 403):
        return _rights_error(response.status, code, text, write=write)
    return _refusal(response, code, text, body)


def _refusal(response: PlatformResponse, code: str, text: str, body: Row | None) -> CallError:
    if code == "rest_no_route":
        return WrongAddress("There is no WooCommerce at this address.", platform_text=text)
    if is_gone(code) or response.status == 404:
        return RemoteNotFound(platform_text=text)
    too_many = response.status == 413
    message = "The shop takes at most 100 items in one call." if too_many else None
    return Invalid([] if too_many else _params(body), message, platform_text=text)


def _message(response: PlatformResponse, body: Row | None) -> str:
    return response.quote(
        str(body.get("message", "")) if body else response.body[:300].decode("utf-8", "replace")
    )


def _foreign_error(response: PlatformResponse, text: str, *, write: bool) -> CallError:
    """Returns the error of a response whose wording is not WooCommerce's."""
    if response.status == 401 or (response.status == 403 and not write):
        return Unauthorized(platform_text=text)
    return WrongAddress(platform_text=text)


def _rights_error(status: int, code: str, text: str, *, write: bool) -> CallError:
    # The shop answers a wrong secret and a missing right with the same code. The object was read with this
    # key before the write, so on a write the right is missing.
    if status == 403 or (code == "woocommerce_rest_authentication_error" and write):
        return MissingRight("change this shop" if write else "read this shop", platform_text=text)
    return Unauthorized(
        "The shop did not accept the key. It may be wrong or revoked, or a proxy in front of the shop"
        " hides from WordPress that the call came over https.",
        platform_text=text,
    )


def is_gone(code: str) -> bool:
    """Returns whether an error code says that the object does not exist."""
    return code.endswith("_invalid_id") or code == "woocommerce_rest_invalid_product_id"


def error_code(response: PlatformResponse) -> tuple[str | None, Row]:
    """Returns `code` and `data` of a WordPress error; null and an empty object for other responses."""
    body = _object(response) or {}
    code, data = body.get("code"), body.get("data")
    return (code if isinstance(code, str) else None), (data if isinstance(data, dict) else {})


def rows_of(response: PlatformResponse) -> list[Row]:
    """Returns the rows of a response with a list. Raises UnusableResponse, or the response's error."""
    if not response.ok:
        raise error_of(response, write=False)
    decoded = decoded_of(response)
    if not isinstance(decoded, list):
        raise UnusableResponse("a list was expected")
    return [_row(item) for item in decoded]


def row_of(response: PlatformResponse) -> Row:
    """Returns the JSON object of a response. Raises UnusableResponse, or the response's error."""
    if not response.ok:
        raise error_of(response, write=False)
    return _row(decoded_of(response))


def id_of(row: Row) -> str:
    """Returns the object's id as text. Raises UnusableResponse."""
    value = row.get("id")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UnusableResponse("an object has no id")
    return str(value)


def text_of(row: Row, name: str) -> str:
    """Returns a required text. Raises UnusableResponse."""
    value = row.get(name)
    if not isinstance(value, str):
        raise UnusableResponse(f"{name} is not text")
    return value


def quantity_of(row: Row) -> int | None:
    """Returns the stock; null when it is not managed. Raises UnusableResponse for a fraction."""
    value = row.get("stock_quantity")
    if row.get("manage_stock") is False or value is None:
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnusableResponse("stock_quantity is not a whole number")
    return value


def names_of(row: Row, name: str) -> tuple[tuple[str, str], ...]:
    """Returns (name, id) of each term of a list such as `tags`, by name. Raises UnusableResponse."""
    term_rows = row.get(name)
    if not isinstance(term_rows, list):
        raise UnusableResponse(f"{name} is not a list")
    terms = [_row(item) for item in term_rows]
    # WordPress stores the names of terms with HTML entities.
    return tuple(sorted((html.unescape(text_of(term, "name")), id_of(term)) for term in terms))


def instant_of(row: Row, name: str = "date_modified_gmt") -> datetime | None:
    """Returns a GMT time of an object, or null when it is absent or unreadable."""
    value = row.get(name)
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    except ValueError:
        return None


def product_of(row: Row, variations: Iterable[Row], *, base: str, currency: str | None) -> Product:
    """Returns a product with its variants. Raises UnusableResponse.

    `variations` are the product's own rows, empty for a simple product.
    """
    product = _product(row, base=base, currency=currency)
    kind = text_of(row, "type")
    if kind == "simple":
        variants: tuple[Variant, ...] = (_variant(row, product, None),)
    else:
        variants = tuple(_variant(variation, product, row) for variation in variations)
    return replace(product, variants=variants)


def _product(row: Row, *, base: str, currency: str | None) -> Product:
    number, kind = id_of(row), text_of(row, "type")
    status, visibility = text_of(row, "status"), text_of(row, "catalog_visibility")
    categories = tuple(html.unescape(text_of(category, "name")) for category in _rows(row, "categories"))
    images = _rows(row, "images")
    return Product(
        id=number,
        title=text_of(row, "name"),
        handle=_text(row, "slug"),
        kind=kind,
        status=status,
        visible=status == "publish" and visibility != "hidden",
        visibility=visibility,
        tags=tuple(name for name, _ in names_of(row, "tags")),
        type=next(iter(categories), None),
        vendor=None,
        description=_text(row, "description"),
        images=tuple(_text(image, "src") for image in images),
        image_alts=tuple(_text(image, "alt") for image in images),
        variants=(),
        currency=currency,
        stock=quantity_of(row),
        tracked=row.get("manage_stock") is True,
        backorders_allowed=row.get("backorders_allowed") is True,
        tag_ids=names_of(row, "tags"),
        categories=categories,
        category=next(iter(categories), None),
        sellable=kind in _SELLABLE,
        url=f"{base}/wp-admin/post.php?post={number}&action=edit",
        modified_at=instant_of(row),
        created_at=instant_of(row, "date_created_gmt"),
    )


def _variant(row: Row, product: Product, parent: Row | None) -> Variant:
    variant_id, managed = id_of(row), row.get("manage_stock")
    if managed not in (True, False, "parent"):
        raise UnusableResponse("manage_stock is not as documented")
    regular, sale = _text(row, "regular_price"), _text(row, "sale_price")
    by_parent, status = managed == "parent", text_of(row, "status")
    target = product.id if parent is None else f"{product.id}/{variant_id}"
    return Variant(
        id=target,
        product_id=product.id,
        product_title=product.title,
        title="" if parent is None else _text(row, "name"),
        sku=_own_sku(row, parent),
        barcode=_text(row, "global_unique_id"),
        price=(sale or regular) or None,
        compare_at=regular or None if sale else None,
        currency=product.currency,
        stock=quantity_of(row),
        tracked=managed is not False,
        backorders_allowed=row.get("backorders_allowed") is True,
        stock_target=product.id if by_parent else target,
        product_type=product.kind,
        status=status,
        visible=product.visible and status == "publish",
        tags=product.tags,
        url=product.url,
        stock_managed_by_parent=by_parent,
        regular_price=regular,
        sale_price=sale,
        sale_from=_optional(row, "date_on_sale_from_gmt"),
        sale_to=_optional(row, "date_on_sale_to_gmt"),
        weight=_optional(row, "weight"),
        ships=row.get("virtual") is not True,
        categories=product.categories,
        modified_at=instant_of(row),
        created_at=instant_of(row, "date_created_gmt"),
    )


def _optional(row: Row, name: str) -> str | None:
    return _text(row, name) or None


def _own_sku(row: Row, parent: Row | None) -> str:
    """Returns the SKU; empty for a variation that only repeats its parent's."""
    sku = _text(row, "sku")
    return "" if parent is not None and sku == _text(parent, "sku") else sku


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _rows(row: Row, name: str) -> list[Row]:
    value = row.get(name)
    return [_row(item) for item in value] if isinstance(value, list) else []


def _row(value: Decoded) -> Row:
    if not isinstance(value, dict):
        raise UnusableResponse("an object was expected")
    return value


def _object(response: PlatformResponse) -> Row | None:
    try:
        decoded = decoded_of(response)
    except (WrongResponder, UnusableResponse):
        return None
    return decoded if isinstance(decoded, dict) else None


def _failure(response: PlatformResponse, code: Decoded, text: str) -> CallError:
    wait = response.headers.get("retry-after", "")
    if response.status == 503:
        named = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 7 else None
        return PlatformUnavailable("The shop is being maintained.", wait_s=named, platform_text=text)
    if response.status == 501:
        return Invalid([], "The shop does not offer this.", platform_text=text)
    if isinstance(code, str) and code.startswith("woocommerce_"):
        return UnusableResponse(f"the shop failed with {code}", platform_text=text)
    return PlatformUnavailable("The shop had a server error.", platform_text=text)


def _params(body: Mapping[str, Decoded] | None) -> dict[str, str]:
    data = (body or {}).get("data")
    params = data.get("params") if isinstance(data, dict) else None
    if isinstance(params, dict):
        return {name: str(reason)[:300] for name, reason in params.items()}
    if isinstance(params, list):
        return {str(name): "" for name in params}
    return {}
