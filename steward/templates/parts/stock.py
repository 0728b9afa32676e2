"""Selects products, and determines which of their stock numbers count."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from steward.connectors.base.queries import PRODUCT, PRODUCTS, ById, ProductsQuery, RecordPage
from steward.connectors.base.records import Product, Variant
from steward.model.json import JsonValue
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import JsonRecord, StepContext, StoreAccess, StoreEvent

_PUBLISHED = ("publish", "active")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StockUnit:
    """A stock number: a variant's own, or one that a product's variations share.

    `stock` null: not tracked, or back-orderable; every decision leaves such a unit out.
    """

    id: str
    label: str
    sku: str | None
    stock: int | None
    url: str | None


def units_of(product: Product, variants: Sequence[Variant] | None = None) -> list[StockUnit]:
    """Returns the stock numbers of a product, or of some of its variants; a shared one once."""
    units: dict[str, StockUnit] = {}
    for variant in product.variants if variants is None else variants:
        if variant.stock_target in units:
            continue
        counts = variant.tracked and not variant.backorders_allowed
        shared = variant.stock_managed_by_parent
        units[variant.stock_target] = StockUnit(
            id=variant.stock_target,
            label=product.title if shared else variant.label,
            sku=None if shared else variant.sku or None,
            stock=variant.stock if counts else None,
            url=variant.url,
        )
    return list(units.values())


def total_of(product: Product) -> int | None:
    """Returns the product's stock, with negative numbers as 0; None when a unit has no number."""
    units = units_of(product)
    numbers = [max(unit.stock, 0) for unit in units if unit.stock is not None]
    return sum(numbers) if units and len(numbers) == len(units) else None


def is_live(product: Product) -> bool:
    """Returns whether the product is neither a draft nor archived."""
    return product.status in _PUBLISHED


def is_on_sale(variant: Variant) -> bool:
    """Returns whether the variant itself is published; a variation can be disabled on its own."""
    return variant.status in _PUBLISHED


class _ProductsInput(JsonRecord, frozen=True):
    all: bool = False
    tags_any: tuple[str, ...] = ()
    tags_none: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ProductFilter:
    """The filter of the products that a template reads, from the input `products`.

    Names are compared without regard to case and to whitespace at either end. A type is the product type,
    or one of the categories on platforms that have categories.
    """

    def __init__(self, products: JsonValue) -> None:
        options = _ProductsInput.from_json(products or {})
        self.all = options.all
        self._any = _folded(options.tags_any)
        self._none = _folded(options.tags_none)
        self._vendors = _folded(options.vendors)
        self._types = _folded(options.types)

    def has(self, product: Product) -> bool:
        """Returns whether the filter includes `product`."""
        tags = _folded(product.tags)
        types = _folded([product.type or "", *product.categories])
        return (
            (not self._any or bool(self._any & tags))
            and not self._none & tags
            and (not self._vendors or bool(self._vendors & _folded([product.vendor or ""])))
            and (not self._types or bool(self._types & types))
        )


def skipped_message(products: int, kinds: str = "of kinds without stock of their own") -> str | None:
    """Returns how many products a step left out, and why; None when it left out none."""
    return f"{products} {'product' if products == 1 else 'products'} {kinds} left out." if products else None


async def read_products(
    context: StepContext, *, published_only: bool, tagged: tuple[str, ...] | None = None
) -> list[Product]:
    """Returns the store's products in the order of ids, each once; after an event, only the event's.

    `tagged`: only products with one of these tags, except after an event. Raises CallError.
    """
    store = context.store
    if store is None:
        return []
    if context.event is not None:
        product = await _product_of(store, context.event)
        if (
            product is None
            or product.status == "trash"
            or (published_only and product.status not in _PUBLISHED)
        ):
            return []
        return [product]
    pages = store.reader.read(PRODUCTS, ProductsQuery(published_only=published_only, tagged=tagged))
    products: dict[str, Product] = {}
    async for product in _records(pages):
        products.setdefault(product.id, product)
    return list(products.values())


async def read_each_once(pages: AsyncIterator[RecordPage[Variant]]) -> list[Variant]:
    """Returns the variants of all pages, each once."""
    variants: dict[str, Variant] = {}
    async for variant in _records(pages):
        variants.setdefault(variant.id, variant)
    return list(variants.values())


def in_event(event: StoreEvent, unit: StockUnit) -> bool:
    """Returns whether the event is about this stock number."""
    variation = f"{event.parent_id}/{event.object_id}" if event.parent_id else event.object_id
    return unit.id in (variation, event.object_id)


def has_event_unit(context: StepContext, product: Product) -> bool:
    """Returns whether the run's event is about a stock number of the product; True without an event."""
    event = context.event
    return event is None or any(in_event(event, unit) for unit in units_of(product))


async def _product_of(store: StoreAccess, event: StoreEvent) -> Product | None:
    product_id = event.parent_id or event.object_id.partition("/")[0]
    try:
        async for product in _records(store.reader.read(PRODUCT, ById(product_id))):
            return product
    except RemoteNotFound:
        return None
    return None


async def _records(pages: AsyncIterator[RecordPage[T]]) -> AsyncIterator[T]:
    async for page in pages:
        for record in page.items:
            yield record


def _folded(names: Sequence[str]) -> frozenset[str]:
    return frozenset(folded for name in names if (folded := name.strip().casefold()))
