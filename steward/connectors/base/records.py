"""The records that every connector's readers return, so that a template is written only once.

`docs/design/connectors.md#common-records` describes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from steward.model.json import JsonValue

# A cell as the sheet holds it: numbers exact, never binary fractions; empty is null.
Cell: TypeAlias = str | Decimal | bool | None


@dataclass(frozen=True, slots=True)
class Variant:
    """The unit of price and stock: a variant, a simple product, or a variation.

    `stock` null: not tracked here. `stock_managed_by_parent`: `stock` is a number that its product shares
    with other variations; it is counted and written once, at `stock_target`. `regular_price` and
    `sale_price` are the platform's own fields, if it has them; `price` and `compare_at` are the common
    form. `item_id` is the platform's id of the counted object, if that is not the variant, and
    `location_id` the location whose `stock` was requested.
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
    item_id: str | None = None
    location_id: str | None = None
    created_at: datetime | None = None
    country_of_origin: str | None = None
    hs_code: str | None = None
    ships: bool = True

    @property
    def label(self) -> str:
        """Product, variant and SKU as people know them."""
        name = f"{self.product_title}, {self.title}" if self.title else self.product_title
        return f"{name} ({self.sku})" if self.sku else name


@dataclass(frozen=True, slots=True)
class Product:
    """A product with all its variants; `visibility` is the platform's own value for `visible`.

    `kind` is the platform's form (simple, variable, grouped, external …); `sellable` is false for forms
    that templates leave out and count. `channels`: ids of the sales channels it is on. `image_alts`: the
    alternative texts of the images in their order, as far as the platform returns them. `category`: its
    path in the platform's own taxonomy; on WooCommerce the first category.
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
    created_at: datetime | None = None
    image_alts: tuple[str, ...] = ()
    seo_title: str = ""
    seo_description: str = ""
    channels: tuple[str, ...] = ()
    category: str | None = None

    @property
    def label(self) -> str:
        """The product's name, with its SKU when its only variant is the product itself."""
        if len(self.variants) == 1 and self.kind == "simple":
            return self.variants[0].label
        return self.title


@dataclass(frozen=True, slots=True)
class OrderLine:
    """A line of an order; `open_quantity` is not yet sent or removed, null if the platform omits it."""

    id: str
    product_id: str | None
    variant_id: str | None
    sku: str
    title: str
    quantity: int
    total: str
    open_quantity: int | None = None
    ships: bool = True


@dataclass(frozen=True, slots=True)
class Refund:
    """Money refunded on an order, with its time; `amount` is in the order's `currency`."""

    id: str
    amount: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class FulfilmentOrder:
    """The part of an order that one location fulfils.

    `status` is open, in_progress, on_hold, scheduled, closed or cancelled.
    """

    id: str
    status: str


@dataclass(frozen=True, slots=True)
class Authorization:
    """A payment that is reserved and not captured yet."""

    id: str
    amount: str
    gateway: str = ""


class Payment(StrEnum):
    """The payment state of an order, in values that all platforms share."""

    PENDING = "pending"
    ON_HOLD = "on_hold"
    AUTHORIZED = "authorized"
    PARTLY_PAID = "partly_paid"
    PAID = "paid"
    PARTLY_REFUNDED = "partly_refunded"
    REFUNDED = "refunded"
    VOIDED = "voided"


class Fulfilment(StrEnum):
    """The fulfilment state of an order."""

    UNFULFILLED = "unfulfilled"
    PARTIAL = "partial"
    FULFILLED = "fulfilled"
    ON_HOLD = "on_hold"


class Risk(StrEnum):
    """The platform's risk assessment of an order; PENDING: not assessed yet."""

    PENDING = "pending"
    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Order:
    """An order; sums are decimal text in `currency`.

    `net` is the total without tax; `country` the shipping country, else the billing country. `refunds` are
    the refunds that the platform returns with the order; their time is null if the platform omits it.
    `status` is the platform's own value. `returning`: goods are being returned.
    """

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
    payment: Payment = Payment.PENDING
    fulfilment: Fulfilment = Fulfilment.UNFULFILLED
    paid_at: datetime | None = None
    fulfilled_at: datetime | None = None
    closed_at: datetime | None = None
    customer_name: str = ""
    email: str = ""
    country: str | None = None
    net: str = "0"
    tax: str = "0"
    refunded: str = "0"
    refunds: tuple[Refund, ...] = ()
    discount_codes: tuple[str, ...] = ()
    note: str = ""
    test: bool = False
    risk: Risk = Risk.NONE
    risk_reasons: tuple[str, ...] = ()
    fulfilment_orders: tuple[FulfilmentOrder, ...] = ()
    authorizations: tuple[Authorization, ...] = ()
    billing_country: str | None = None
    returning: bool = False
    customer_first_name: str | None = None
    customer_last_name: str | None = None

    @property
    def label(self) -> str:
        """Number and name as people know them."""
        return f"{self.number}, {self.customer_name}" if self.customer_name else self.number


@dataclass(frozen=True, slots=True)
class DraftOrder:
    """An order that is not yet placed."""

    id: str
    number: str
    status: str
    tags: tuple[str, ...]
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Customer:
    """A customer; counts and sums are null where the platform does not return them."""

    id: str
    email: str
    name: str
    tags: tuple[str, ...]
    orders_count: int | None
    spent: str | None
    modified_at: datetime | None
    url: str | None = None
    note: str = ""
    currency: str | None = None
    first_name: str | None = None
    last_name: str | None = None

    @property
    def label(self) -> str:
        """The name, else the address."""
        return self.name or self.email or self.id


@dataclass(frozen=True, slots=True)
class Metafield:
    """A value that a merchant stores with an object, as text of `type`; `digest` is the read version."""

    namespace: str
    key: str
    type: str
    value: str
    digest: str | None


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect from a path of the shop."""

    id: str
    path: str
    target: str


@dataclass(frozen=True, slots=True)
class ObjectFields:
    """An object with some of its fields by the platform's own names; `kind` is the platform's too."""

    kind: str
    id: str
    label: str
    values: Mapping[str, JsonValue]
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of the store, for platforms whose tags have ids."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class SheetTab:
    """A tab of a spreadsheet, with its position."""

    id: str
    title: str
    index: int


@dataclass(frozen=True, slots=True)
class CloudFile:
    """A file of a cloud account: its path within the bucket, size in bytes, entity tag and time."""

    path: str
    size: int
    etag: str
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file's content; `body` is null when it is still the version the reader already had."""

    file: CloudFile
    body: bytes | None


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A row with its number in the sheet, from 1; trailing empty cells are absent."""

    number: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class SheetTable:
    """A whole tab: every row up to the last used one, with the header row; `zone` is the sheet's.

    `height`: the number of rows in the tab, used or not; 0 when unknown.
    """

    spreadsheet_id: str
    tab: str
    rows: tuple[SheetRow, ...]
    zone: str | None = None
    height: int = 0


# Currencies whose smallest unit is not a hundredth (ISO 4217); all others have two decimals.
_NO_DECIMALS = frozenset(
    (
        *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"),
        *("RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"),
    )
)
_THREE_DECIMALS = frozenset(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"))


def currency_decimals(currency: str | None) -> int:
    """Returns the number of decimals of amounts in `currency`; 2 when the currency is unknown."""
    if currency in _NO_DECIMALS:
        return 0
    return 3 if currency in _THREE_DECIMALS else 2
