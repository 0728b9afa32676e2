"""Store records as compact JSON and back, so that a step's output can be journaled (engine 10).

A table names its fields once; what no step decides on (descriptions, pictures, most times) is left out.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from steward.connectors.base.records import Product, Variant
from steward.model.json import JsonObject, JsonValue

_VARIANT = (
    "id product_id product_title title sku barcode price compare_at currency stock tracked backorders_allowed"
    " stock_target product_type status visible url stock_managed_by_parent regular_price sale_price sale_from"
    " sale_to cost location_id created_at"
)
VARIANT_FIELDS = tuple(_VARIANT.split())
# Within a product, what the product itself says is not repeated.
_OF_PRODUCT = ("product_id", "product_title", "currency", "product_type", "url")
_IN_PRODUCT = tuple(name for name in VARIANT_FIELDS if name not in (*_OF_PRODUCT, "barcode", "created_at"))
_PRODUCT = (
    "id title kind status visible visibility tags type vendor currency stock tracked backorders_allowed"
    " tag_ids categories sellable url created_at channels"
)
PRODUCT_FIELDS = tuple(_PRODUCT.split())


def kept_variants(variants: Iterable[Variant]) -> JsonObject:
    """Variants as a table."""
    return {
        "fields": list(VARIANT_FIELDS),
        "rows": [[_plain(getattr(variant, name)) for name in VARIANT_FIELDS] for variant in variants],
    }


def variants_of(kept: JsonValue) -> list[Variant]:
    """Variants out of their table, in its order."""
    return [_variant(row) for row in _rows(kept)]


def kept_products(products: Iterable[Product]) -> JsonObject:
    """Products with their variants as a table."""
    rows: list[JsonValue] = []
    for product in products:
        variants = [[getattr(each, name) for name in _IN_PRODUCT] for each in product.variants]
        own = [_plain(getattr(product, name)) for name in PRODUCT_FIELDS]
        rows.append([*own, variants])
    return {"fields": [*PRODUCT_FIELDS, "variants"], "variant_fields": list(_IN_PRODUCT), "rows": rows}


def products_of(kept: JsonValue) -> list[Product]:
    """Products out of their table, in its order."""
    names = kept["variant_fields"] if isinstance(kept, Mapping) else ()
    return [_product(row, names) for row in _rows(kept)]


def _rows(kept: Any) -> Iterable[dict[str, Any]]:
    for row in kept["rows"]:
        yield dict(zip(kept["fields"], row, strict=True))


def _variant(row: dict[str, Any]) -> Variant:
    row["created_at"] = _instant(row["created_at"])
    return Variant(**row)


def _product(row: dict[str, Any], names: Any) -> Product:
    about = {
        "product_id": row["id"],
        "product_title": row["title"],
        "currency": row["currency"],
        "product_type": row["kind"],
        "url": row["url"],
        "barcode": "",
    }
    variants = tuple(Variant(**about, **dict(zip(names, each, strict=True))) for each in row.pop("variants"))
    row |= {name: tuple(row[name]) for name in ("tags", "categories", "channels")}
    row["tag_ids"] = tuple((name, number) for name, number in row["tag_ids"])
    row["created_at"] = _instant(row["created_at"])
    return Product(**row, handle="", description="", images=(), variants=variants)


def _instant(kept: Any) -> datetime | None:
    return datetime.fromisoformat(kept) if isinstance(kept, str) else None


def _plain(value: Any) -> JsonValue:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    plain: JsonValue = value
    return plain
