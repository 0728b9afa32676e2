"""The reads by their stable names, with their parameters and records; connectors implement them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from steward.connectors.base.records import (
    CloudFile,
    Customer,
    DraftOrder,
    FileContent,
    Metafield,
    ObjectFields,
    Order,
    Product,
    Redirect,
    Refund,
    SheetTab,
    SheetTable,
    Tag,
    Variant,
)
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Patched
from steward.outbound.response import RESPONSE_BYTES, PlatformResponse

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741


@dataclass(frozen=True, slots=True)
class ReadOp(Generic[P, I]):
    """A read by its stable name, with the types of its parameters and records."""

    name: str
    params: type[P]
    item: type[I]
    cost: int = 1


@dataclass(frozen=True, slots=True)
class RecordPage(Generic[I]):
    """A page of a read; `next` is opaque, and null on the last page."""

    items: tuple[I, ...]
    next: str | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class ProductsQuery:
    """Products in the order of their ids; `ids` null: all.

    `skus` matches variations too; `tagged`: those with one of these tags. `location`: stock is the quantity
    at that location, on platforms with locations. `in_pages`: the caller may stop after the first pages.
    """

    ids: tuple[str, ...] | None = None
    skus: tuple[str, ...] | None = None
    modified_after: datetime | None = None
    published_only: bool = False
    tagged: tuple[str, ...] | None = None
    location: str | None = None
    in_pages: bool = False


@dataclass(frozen=True, slots=True)
class OrdersQuery:
    """Orders in the order of their ids, without drafts; `ids` null: all that match the other limits.

    `open_only`: neither cancelled nor archived (WooCommerce: nor completed, refunded or failed). `statuses`
    are the platform's own values. `in_pages`: the caller may stop after the first pages.
    """

    ids: tuple[str, ...] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    modified_after: datetime | None = None
    open_only: bool = False
    statuses: tuple[str, ...] | None = None
    customer_id: str | None = None
    in_pages: bool = False


@dataclass(frozen=True, slots=True)
class CustomersQuery:
    """Customers in the order of their ids; `ids` null: all.

    Not every platform filters by `modified_after`: for WooCommerce the connector reads all and filters them.
    """

    ids: tuple[str, ...] | None = None
    modified_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class RefundsQuery:
    """The refunds of one order, each with its time."""

    order_id: str


@dataclass(frozen=True, slots=True)
class ObjectsQuery:
    """Objects as the platform returns them, for imported workflows.

    `resource` is product, order or customer. `filters` are the platform's own; `limit` null: all.
    """

    resource: str
    id: str | None = None
    filters: tuple[tuple[str, str], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class PathQuery:
    """The platform's response to a GET of a path, for imported workflows.

    `path` is the whole path without a query; paths that return keys or settings are refused. `body` is for
    platforms where the read is a POST.
    """

    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class HttpQuery:
    """The response to one request of an imported workflow at an account, by its whole address.

    `content` is the body of a GraphQL query that changes nothing; without it the request is a GET or HEAD.
    `max_bytes` limits the body of the response.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    content: bytes = b""
    max_bytes: int = RESPONSE_BYTES


@dataclass(frozen=True, slots=True)
class FlowObjectQuery:
    """An object as Shopify Flow sees it: the values at `paths`, which begin with `root`."""

    root: str
    id: str
    paths: tuple[str, ...]
    patched: tuple[Patched, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowObjectsQuery:
    """Objects that a Shopify Flow workflow fetches: `root` is orders, products or customers.

    Paths begin with `root`. `query` is the platform's search, `sort` the workflow's sort order, `limit` at
    most 100.
    """

    root: str
    paths: tuple[str, ...]
    query: str = ""
    sort: str | None = None
    limit: int = 100
    patched: tuple[Patched, ...] = ()


@dataclass(frozen=True, slots=True)
class MetafieldQuery:
    """A metafield of an object, named by its kind (Product, Order …) and its number."""

    kind: str
    id: str
    namespace: str
    key: str


@dataclass(frozen=True, slots=True)
class RedirectQuery:
    """The redirect of a path of the shop."""

    path: str


@dataclass(frozen=True, slots=True)
class FieldsQuery:
    """The plain fields of one object by the platform's own names: Product, Order or Customer."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class ById:
    """An object by the platform's id; a variation as `product_id/variation_id`."""

    id: str


@dataclass(frozen=True, slots=True)
class ValuesQuery:
    """A whole tab, or its cells in `area` (A1 notation, such as B2:D or 3:9); `tab` null: the first one.

    `spreadsheet_id`: for an account with more than one spreadsheet. `values` and `dates` are Google's names
    for how cells are given: UNFORMATTED_VALUE, FORMATTED_VALUE or FORMULA; SERIAL_NUMBER or FORMATTED_STRING.
    """

    tab: str | None = None
    area: str | None = None
    spreadsheet_id: str | None = None
    values: str = "UNFORMATTED_VALUE"
    dates: str = "SERIAL_NUMBER"


@dataclass(frozen=True, slots=True)
class FilesQuery:
    """Files below a folder of the connection; null: all of them."""

    folder: str | None = None
    modified_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class FileQuery:
    """A whole file, at most 20 MiB; not fetched when its tag still is `unless_etag`."""

    path: str
    unless_etag: str | None = None


@dataclass(frozen=True, slots=True)
class TabsQuery:
    """The tabs of a spreadsheet; null: the connection's spreadsheet."""

    spreadsheet_id: str | None = None


@dataclass(frozen=True, slots=True)
class NoParameters:
    """A read without parameters."""


# The canonical reads: connectors that support one use exactly this record.
PRODUCTS = ReadOp("products", ProductsQuery, Product)
PRODUCT = ReadOp("product", ById, Product)
VARIANTS = ReadOp("variants", ProductsQuery, Variant)
VARIANT = ReadOp("variant", ById, Variant)
ORDERS = ReadOp("orders", OrdersQuery, Order)
ORDER = ReadOp("order", ById, Order)
REFUNDS = ReadOp("refunds", RefundsQuery, Refund)
CUSTOMERS = ReadOp("customers", CustomersQuery, Customer)
CUSTOMER = ReadOp("customer", ById, Customer)
DRAFT_ORDER = ReadOp("draft_order", ById, DraftOrder)
CATEGORIES = ReadOp("categories", NoParameters, Tag)
OBJECTS: ReadOp[ObjectsQuery, dict[str, JsonValue]] = ReadOp("objects", ObjectsQuery, dict)
PATH = ReadOp("path", PathQuery, PlatformResponse)
HTTP = ReadOp("http", HttpQuery, PlatformResponse)
FLOW_OBJECT: ReadOp[FlowObjectQuery, dict[str, JsonValue]] = ReadOp("flow.object", FlowObjectQuery, dict)
FLOW_OBJECTS: ReadOp[FlowObjectsQuery, dict[str, JsonValue]] = ReadOp("flow.objects", FlowObjectsQuery, dict)
METAFIELD = ReadOp("metafield", MetafieldQuery, Metafield)
REDIRECT = ReadOp("redirect", RedirectQuery, Redirect)
FIELDS = ReadOp("fields", FieldsQuery, ObjectFields)
FILES = ReadOp("files", FilesQuery, CloudFile)
FILE = ReadOp("file", FileQuery, FileContent)
TABS = ReadOp("tabs", TabsQuery, SheetTab)
TAGS = ReadOp("tags", NoParameters, Tag)
VALUES = ReadOp("values", ValuesQuery, SheetTable)
