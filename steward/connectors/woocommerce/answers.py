"""Reads what WooCommerce answers: its errors as the common family, its objects as the common records."""

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


def error_of(answer: PlatformResponse, *, write: bool) -> CallError:
    """The error an answer that is no 2xx stands for (connectors 4, WooCommerce)."""
    body = _object(answer)
    code = body.get("code") if body else None
    told = str(body.get("message", "")) if body else answer.body[:300].decode("utf-8", "replace")
    text = answer.quote(told)
    if answer.status >= 500:
        return _failure(answer, code, text)
    if 300 <= answer.status < 400 or not isinstance(code, str):
        page = page_error(answer)
        if page is not None:
            return page
        if answer.status == 401 or (answer.status == 403 and not write):
            return Unauthorized(platform_text=text)
        return WrongAddress(platform_text=text)
    if answer.status == 401:
        # The recorded code for a wrong secret and for a missing right is one and the same; before every
        # write the object was read with this key, so on a write it is the right that is missing.
        if code == "woocommerce_rest_authentication_error" and write:
            return MissingRight("change this shop", platform_text=text)
        return Unauthorized(
            "The shop did not accept the key. It may be wrong or revoked, or a proxy in front of the shop"
            " hides from WordPress that the call came over https.",
            platform_text=text,
        )
    if answer.status == 403:
        return MissingRight("change this shop" if write else "read this shop", platform_text=text)
    if code == "rest_no_route":
        return WrongAddress("There is no WooCommerce at this address.", platform_text=text)
    if is_gone(code) or answer.status == 404:
        return RemoteNotFound(platform_text=text)
    if answer.status == 413:
        return Invalid([], "The shop takes at most 100 items in one call.", platform_text=text)
    return Invalid(_params(body), platform_text=text)


def is_gone(code: str) -> bool:
    """Whether an error code says that the object does not exist."""
    return code.endswith("_invalid_id") or code == "woocommerce_rest_invalid_product_id"


def error_code(answer: PlatformResponse) -> tuple[str | None, Row]:
    """`code` and `data` of an error answer; null and empty when it is none of WordPress' own."""
    body = _object(answer) or {}
    code, data = body.get("code"), body.get("data")
    return (code if isinstance(code, str) else None), (data if isinstance(data, dict) else {})


def rows_of(answer: PlatformResponse) -> list[Row]:
    """A list answer. Raises UnusableResponse, or the error it stands for."""
    if not answer.ok:
        raise error_of(answer, write=False)
    decoded = decoded_of(answer)
    if not isinstance(decoded, list):
        raise UnusableResponse("a list was expected")
    return [_row(item) for item in decoded]


def row_of(answer: PlatformResponse) -> Row:
    """An object answer. Raises UnusableResponse, or the error it stands for."""
    if not answer.ok:
        raise error_of(answer, write=False)
    return _row(decoded_of(answer))


def id_of(row: Row) -> str:
    """The object's id as text. Raises UnusableResponse."""
    value = row.get("id")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UnusableResponse("an object has no id")
    return str(value)


def text_of(row: Row, name: str) -> str:
    """A text that must be there. Raises UnusableResponse."""
    value = row.get(name)
    if not isinstance(value, str):
        raise UnusableResponse(f"{name} is not text")
    return value


def quantity_of(row: Row) -> int | None:
    """The stock, when it is tracked. Raises UnusableResponse for a fraction that is no whole number."""
    value = row.get("stock_quantity")
    if row.get("manage_stock") is False or value is None:
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnusableResponse("stock_quantity is not a whole number")
    return value


def names_of(row: Row, name: str) -> tuple[tuple[str, str], ...]:
    """(name, id) of each term of a list such as `tags`, sorted by name. Raises UnusableResponse."""
    found = row.get(name)
    if not isinstance(found, list):
        raise UnusableResponse(f"{name} is not a list")
    terms = [_row(item) for item in found]
    # WordPress keeps the names of terms with its entities in them.
    return tuple(sorted((html.unescape(text_of(term, "name")), id_of(term)) for term in terms))


def instant_of(row: Row, name: str = "date_modified_gmt") -> datetime | None:
    """A GMT time of an object; null when it is absent or unreadable."""
    value = row.get(name)
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    except ValueError:
        return None


def product_of(row: Row, variations: Iterable[Row], *, base: str, currency: str | None) -> Product:
    """A product with its variants; `variations` are its own, empty for a simple one.

    Raises UnusableResponse.
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
    categories = row.get("categories")
    rows = [_row(each) for each in categories] if isinstance(categories, list) else []
    first = [html.unescape(text_of(each, "name")) for each in rows]
    images = row.get("images")
    return Product(
        id=number,
        title=text_of(row, "name"),
        handle=_text(row, "slug"),
        kind=kind,
        status=status,
        visible=status == "publish" and visibility != "hidden",
        visibility=visibility,
        tags=tuple(name for name, _ in names_of(row, "tags")),
        type=first[0] if first else None,
        vendor=None,
        description=_text(row, "description"),
        images=tuple(_text(_row(image), "src") for image in images) if isinstance(images, list) else (),
        image_alts=tuple(_text(_row(image), "alt") for image in images) if isinstance(images, list) else (),
        variants=(),
        currency=currency,
        stock=quantity_of(row),
        tracked=row.get("manage_stock") is True,
        backorders_allowed=row.get("backorders_allowed") is True,
        tag_ids=names_of(row, "tags"),
        categories=tuple(first),
        category=first[0] if first else None,
        sellable=kind in _SELLABLE,
        url=f"{base}/wp-admin/post.php?post={number}&action=edit",
        modified_at=instant_of(row),
        created_at=instant_of(row, "date_created_gmt"),
    )


def _variant(row: Row, product: Product, parent: Row | None) -> Variant:
    own, managed = id_of(row), row.get("manage_stock")
    if managed not in (True, False, "parent"):
        raise UnusableResponse("manage_stock is not as documented")
    regular, sale = _text(row, "regular_price"), _text(row, "sale_price")
    sku = _text(row, "sku")
    if parent is not None and sku == _text(parent, "sku"):
        sku = ""  # A variation that shows its parent's SKU has none of its own (templates E9).
    by_parent = managed == "parent"
    return Variant(
        id=own if parent is None else f"{product.id}/{own}",
        product_id=product.id,
        product_title=product.title,
        title="" if parent is None else _text(row, "name"),
        sku=sku,
        barcode=_text(row, "global_unique_id"),
        price=(sale or regular) or None,
        compare_at=regular or None if sale else None,
        currency=product.currency,
        stock=quantity_of(row),
        tracked=managed is not False,
        backorders_allowed=row.get("backorders_allowed") is True,
        stock_target=product.id if parent is None or by_parent else f"{product.id}/{own}",
        product_type=product.kind,
        status=text_of(row, "status"),
        visible=product.visible and text_of(row, "status") == "publish",
        tags=product.tags,
        url=product.url,
        stock_managed_by_parent=by_parent,
        regular_price=regular,
        sale_price=sale,
        sale_from=_text(row, "date_on_sale_from_gmt") or None,
        sale_to=_text(row, "date_on_sale_to_gmt") or None,
        weight=_text(row, "weight") or None,
        ships=row.get("virtual") is not True,
        categories=product.categories,
        modified_at=instant_of(row),
        created_at=instant_of(row, "date_created_gmt"),
    )


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _row(value: Decoded) -> Row:
    if not isinstance(value, dict):
        raise UnusableResponse("an object was expected")
    return value


def _object(answer: PlatformResponse) -> Row | None:
    try:
        decoded = decoded_of(answer)
    except (WrongResponder, UnusableResponse):
        return None
    return decoded if isinstance(decoded, dict) else None


def _failure(answer: PlatformResponse, code: Decoded, text: str) -> CallError:
    wait = answer.headers.get("retry-after", "")
    if answer.status == 503:
        named = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 7 else None
        return PlatformUnavailable("The shop is being maintained.", wait_s=named, platform_text=text)
    if answer.status == 501:
        return Invalid([], "The shop does not offer this.", platform_text=text)
    if isinstance(code, str) and code.startswith("woocommerce_"):
        return UnusableResponse(f"the shop failed with {code}", platform_text=text)
    return PlatformUnavailable("The shop failed to answer.", platform_text=text)


def _params(body: Mapping[str, Decoded] | None) -> dict[str, str]:
    data = (body or {}).get("data")
    params = data.get("params") if isinstance(data, dict) else None
    if isinstance(params, dict):
        return {name: str(reason)[:300] for name, reason in params.items()}
    if isinstance(params, list):
        return {str(name): "" for name in params}
    return {}
