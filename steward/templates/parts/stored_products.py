"""Products and variants in a step's output: tables without descriptions, images and most times."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from steward.connectors.base.records import Product, Variant
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.base import RecordTable

_VARIANT = (
    "id product_id product_title title sku barcode price compare_at currency stock tracked backorders_allowed"
    " stock_target product_type status visible url stock_managed_by_parent regular_price sale_price sale_from"
    " sale_to cost location_id created_at"
)
_VARIANT_FIELDS = tuple(_VARIANT.split())
# Values of the product itself are not repeated in its variants.
_OF_PRODUCT = ("product_id", "product_title", "currency", "product_type", "url")
_IN_PRODUCT = tuple(name for name in _VARIANT_FIELDS if name not in (*_OF_PRODUCT, "barcode", "created_at"))
_PRODUCT = (
    "id title kind status visible visibility tags type vendor currency stock tracked backorders_allowed"
    " tag_ids categories sellable url created_at channels"
)
_PRODUCT_FIELDS = tuple(_PRODUCT.split())


class VariantTable(RecordTable[Variant]):
    """Variants in a step's output."""

    @staticmethod
    def encode(records: Iterable[Variant]) -> JsonObject:
        """Returns the variants as a table."""
        return {
            "fields": list(_VARIANT_FIELDS),
            "rows": [[_plain(getattr(variant, name)) for name in _VARIANT_FIELDS] for variant in records],
        }

    @staticmethod
    def decode(table: JsonObject) -> Iterable[Variant]:
        """Yields the variants of a table."""
        return (_variant(row) for row in _rows(table))


class ProductTable(RecordTable[Product]):
    """Products with their variants in a step's output."""

    @staticmethod
    def encode(records: Iterable[Product]) -> JsonObject:
        """Returns the products as a table."""
        rows: list[JsonValue] = []
        for product in records:
            variants = [[getattr(variant, name) for name in _IN_PRODUCT] for variant in product.variants]
            rows.append([*(_plain(getattr(product, name)) for name in _PRODUCT_FIELDS), variants])
        return {"fields": [*_PRODUCT_FIELDS, "variants"], "variant_fields": list(_IN_PRODUCT), "rows": rows}

    @staticmethod
    def decode(table: Mapping[str, AnyJson]) -> Iterable[Product]:
        """Yields the products of a table."""
        return (_product(row, table["variant_fields"]) for row in _rows(table))


def _rows(table: Mapping[str, AnyJson]) -> Iterable[dict[str, JsonValue]]:
    return (dict(zip(table["fields"], row, strict=True)) for row in table["rows"])


def _variant(row: dict[str, AnyJson]) -> Variant:
    row["created_at"] = _time(row["created_at"])
    return Variant(**row)


def _product(row: dict[str, AnyJson], variant_fields: Sequence[str]) -> Product:
    common = {
        "product_id": row["id"],
        "product_title": row["title"],
        "currency": row["currency"],
        "product_type": row["kind"],
        "url": row["url"],
        "barcode": "",
    }
    variants = tuple(
        Variant(**common, **dict(zip(variant_fields, cells, strict=True))) for cells in row.pop("variants")
    )
    row |= {name: tuple(row[name]) for name in ("tags", "categories", "channels")}
    row["tag_ids"] = tuple((name, tag_id) for name, tag_id in row["tag_ids"])
    row["created_at"] = _time(row["created_at"])
    return Product(**row, handle="", description="", images=(), variants=variants)


def _time(text: JsonValue) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(member) for member in value]
    plain: JsonValue = value
    return plain
