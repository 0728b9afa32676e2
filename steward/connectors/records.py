"""The records every connector's readers give, so that a template is written once (connectors 2.2)."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

# A cell as the sheet holds it: numbers exact, never binary fractions; empty is null.
Cell: TypeAlias = str | Decimal | bool | None


@dataclass(frozen=True, slots=True)
class Variant:
    """The unit of price and stock: a variant, a simple product, or a variation (templates E9).

    `stock` null: not tracked here. `stock_managed_by_parent`: `stock` is the number its product shares
    with its other variations; it is counted and written once, at `stock_target`. `regular_price` and
    `sale_price` are the platform's own fields where it has such; `price` and `compare_at` the common form.
    """

    id: str
    product_id: str
    product_title: str
    title: str
    sku: str
    barcode: str
    price: str | None
    compare_at: str | None
    currency: str | None
    stock: int | None
    tracked: bool
    backorders_allowed: bool
    stock_target: str
    product_type: str
    status: str
    visible: bool
    tags: tuple[str, ...] = ()
    url: str | None = None
    stock_managed_by_parent: bool = False
    regular_price: str = ""
    sale_price: str = ""
    sale_from: str | None = None
    sale_to: str | None = None
    weight: str | None = None
    cost: str | None = None
    categories: tuple[str, ...] = ()
    vendor: str | None = None
    modified_at: datetime | None = None

    @property
    def label(self) -> str:
        """Product, variant and SKU, as people know it (templates 2)."""
        name = f"{self.product_title}, {self.title}" if self.title else self.product_title
        return f"{name} ({self.sku})" if self.sku else name


@dataclass(frozen=True, slots=True)
class Product:
    """A product with all its variants; `visibility` is the platform's own word for `visible`.

    `kind` is the platform's form (simple, variable, grouped, external …); `sellable` is false for forms
    that templates leave out and count (templates E9).
    """

    id: str
    title: str
    handle: str
    kind: str
    status: str
    visible: bool
    visibility: str
    tags: tuple[str, ...]
    type: str | None
    vendor: str | None
    description: str
    images: tuple[str, ...]
    variants: tuple[Variant, ...]
    currency: str | None
    stock: int | None
    tracked: bool
    backorders_allowed: bool
    tag_ids: tuple[tuple[str, str], ...] = ()
    categories: tuple[str, ...] = ()
    sellable: bool = True
    url: str | None = None
    modified_at: datetime | None = None

    @property
    def label(self) -> str:
        """The product's name, with its SKU when it is its own only variant."""
        if len(self.variants) == 1 and self.variants[0].id == self.id:
            return self.variants[0].label
        return self.title


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One line of an order."""

    id: str
    product_id: str | None
    variant_id: str | None
    sku: str
    title: str
    quantity: int
    total: str


@dataclass(frozen=True, slots=True)
class Order:
    """An order; sums are decimal text in `currency`."""

    id: str
    number: str
    status: str
    paid: bool
    fulfilled: bool
    cancelled_at: datetime | None
    total: str
    currency: str
    tags: tuple[str, ...]
    customer_id: str | None
    lines: tuple[OrderLine, ...]
    created_at: datetime | None
    modified_at: datetime | None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer; counts and sums are null where the platform does not tell them."""

    id: str
    email: str
    name: str
    tags: tuple[str, ...]
    orders_count: int | None
    spent: str | None
    modified_at: datetime | None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag the store knows, for platforms whose tags have ids."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of a spreadsheet, in its order."""

    id: str
    title: str
    index: int


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A row with its number in the sheet, from 1; trailing empty cells are absent."""

    number: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class SheetTable:
    """A whole tab: every row up to the last used one, the header row included; `zone` is the sheet's."""

    spreadsheet_id: str
    tab: str
    rows: tuple[SheetRow, ...]
    zone: str | None = None


# Currencies whose smallest unit is not a hundredth (ISO 4217); every other one has two decimals.
_NO_DECIMALS = frozenset(
    (
        *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"),
        *("RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"),
    )
)
_THREE_DECIMALS = frozenset(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"))


def currency_decimals(currency: str | None) -> int:
    """How many decimals amounts of `currency` have (templates E6); two when it is not known."""
    if currency in _NO_DECIMALS:
        return 0
    return 3 if currency in _THREE_DECIMALS else 2
