"""Stock as people mean it.

Wwhat is counted, what is left out, and which products are looked at (E7 to E9).
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from steward.connectors.base.queries import PRODUCT, PRODUCTS, ById, ProductsQuery, RecordPage
from steward.connectors.base.records import Product, Variant
from steward.model.json import JsonObject, JsonValue
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import StepContext, StoreAccess, StoreEvent

_LIVE = ("publish", "active")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unit:
    """One number of stock: a variant's own, or one that a product's variations share (E9).

    `stock` null: not tracked, or back-orderable; such a unit is left out of every decision (E8).
    """

    id: str
    label: str
    sku: str | None
    stock: int | None
    url: str | None


def units_of(product: Product, variants: Sequence[Variant] | None = None) -> list[Unit]:
    """The numbers of stock of a product (or of some of its variants), a shared one once, in their order."""
    units: dict[str, Unit] = {}
    for variant in product.variants if variants is None else variants:
        if variant.stock_target in units:
            continue
        counted = variant.tracked and not variant.backorders_allowed
        shared = variant.stock_managed_by_parent
        units[variant.stock_target] = Unit(
            id=variant.stock_target,
            label=product.title if shared else variant.label,
            sku=None if shared else variant.sku or None,
            stock=variant.stock if counted else None,
            url=variant.url,
        )
    return list(units.values())


def total_of(product: Product) -> int | None:
    """The product's stock, a negative number counted as 0 (E7); None when one of its units has no number,
    or it has none at all: nothing is decided about such a product (E8)."""
    units = units_of(product)
    counted = [max(unit.stock, 0) for unit in units if unit.stock is not None]
    return sum(counted) if units and len(counted) == len(units) else None


def is_live(product: Product) -> bool:
    """Whether the product is neither a draft nor archived."""
    return product.status in _LIVE


def is_on_sale(variant: Variant) -> bool:
    """Whether the variant itself is published; a variation can be switched off on its own."""
    return variant.status in _LIVE


class Wanted:
    """Which products a template looks at (templates 4, `products`).

    Names are compared without regard to case and outer blanks. A type is the product type, or one of the
    categories where the platform has those.
    """

    def __init__(self, ask: JsonValue) -> None:
        given: JsonObject = ask if isinstance(ask, Mapping) else {}
        self.all = given.get("all") is True
        self._any = _folded(given.get("tags_any"))
        self._none = _folded(given.get("tags_none"))
        self._vendors = _folded(given.get("vendors"))
        self._types = _folded(given.get("types"))

    def has(self, product: Product) -> bool:
        """Whether `product` is one of them."""
        tags = _folded(product.tags)
        types = _folded([product.type or "", *product.categories])
        return (
            (not self._any or bool(self._any & tags))
            and not self._none & tags
            and (not self._vendors or bool(self._vendors & _folded([product.vendor or ""])))
            and (not self._types or bool(self._types & types))
        )


async def read_products(
    at: StepContext, *, published_only: bool, tagged: tuple[str, ...] | None = None
) -> list[Product]:
    """The products of the store in the order of ids, each once (E10); of an event's run only its own.

    `tagged`: of a list only those with one of these tags. A product that no longer exists when its event is
    read is none. Raises CallError.
    """
    store = at.store
    if store is None:
        return []
    if at.event is not None:
        product = await _product_of(store, at.event)
        if product is None or product.status == "trash" or (published_only and product.status not in _LIVE):
            return []
        return [product]
    pages = store.reader.read(PRODUCTS, ProductsQuery(published_only=published_only, tagged=tagged))
    found: dict[str, Product] = {}
    async for product in _items(pages):
        found.setdefault(product.id, product)
    return list(found.values())


def in_event(event: StoreEvent, unit: Unit) -> bool:
    """Whether the event is about this number of stock."""
    own = f"{event.parent_id}/{event.object_id}" if event.parent_id else event.object_id
    return unit.id in (own, event.object_id)


async def _product_of(store: StoreAccess, event: StoreEvent) -> Product | None:
    number = event.parent_id or event.object_id.partition("/")[0]
    try:
        async for product in _items(store.reader.read(PRODUCT, ById(number))):
            return product
    except RemoteNotFound:
        return None
    return None


async def _items(pages: AsyncIterator[RecordPage[T]]) -> AsyncIterator[T]:
    async for page in pages:
        for item in page.items:
            yield item


def _folded(names: object) -> frozenset[str]:
    if not isinstance(names, Sequence):
        return frozenset()
    return frozenset(folded for name in names if (folded := str(name).strip().casefold()))
