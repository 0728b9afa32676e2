"""Reads the products of a WooCommerce shop, and the values that writes are compared with."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from steward.connectors.base.connector import AnyWriteOperation, CurrentValue
from steward.connectors.base.inverses import NOT_LOOKED_UP
from steward.connectors.base.queries import (
    ById,
    FlowObjectQuery,
    FlowObjectsQuery,
    NoParameters,
    ObjectsQuery,
    PathQuery,
    ProductsQuery,
    ReadOp,
    RecordPage,
)
from steward.connectors.base.records import Product, Tag, Variant
from steward.connectors.base.store_operation import read_back
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.connectors.woocommerce.flow_objects import flow_object, unsupported_paths
from steward.connectors.woocommerce.operations_orders import CANCELLED
from steward.connectors.woocommerce.orders import tags_of
from steward.connectors.woocommerce.pages import MAX_IDS_A_CALL, PREFIX, ListPages, modified_since, number_of
from steward.connectors.woocommerce.reads import OrderAndCustomerReader
from steward.connectors.woocommerce.responses import (
    PRODUCT_FIELDS,
    VARIATION_FIELDS,
    Row,
    id_of,
    instant_of,
    names_of,
    product_of,
    quantity_of,
    rows_of,
    text_of,
)
from steward.connectors.woocommerce.tag_names import sent_name, stored_key, tag_key
from steward.connectors.woocommerce.variations import VariationReader
from steward.model.change import Part
from steward.model.json import JsonValue
from steward.model.undo import LookUpResult
from steward.outbound.client import ReadClient
from steward.outbound.errors import CallError, Invalid, RemoteNotFound
from steward.outbound.response import PlatformResponse

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741

_ORDER_VALUE = "id,status,date_paid_gmt,meta_data,date_modified_gmt"
_CUSTOMER_VALUE = "id,meta_data,date_modified_gmt"
_NOTE = "order.add_note"
_MAKE_TAG = "product_tag.create"
# Without settings, payment gateways, webhooks and the like: they reveal keys.
_READABLE = re.compile(
    PREFIX + r"/(?:products|orders|customers|coupons|reports)(?:/[A-Za-z0-9_-]{1,80}){0,6}/?"
)
# The parameters that a path may have. WordPress takes `_method` in a query for the request's method,
# `rest_route` for its path, and other spellings for both: a read could change the shop or reveal keys.
_QUERY_PARAMETERS = frozenset(
    re.findall(
        r"\w+",
        """
        _fields after attribute attribute_term before category code context customer date_max date_min
        dates_are_gmt dp email exclude exclude_meta exclude_status exclude_types featured hide_empty include
        include_meta include_status include_types max_price min_price modified_after modified_before offset
        on_sale order orderby page parent parent_exclude per_page period product product_exclude role search
        search_fields search_sku shipping_class sku slug status stock_status tag tax_class type virtual
        """,
    )
)


class WooCommerceReader:
    """Reads one shop.

    `base` is its address, for links to its own pages. `lists_variations` says whether the shop lists the
    variations of all its products.
    """

    def __init__(
        self,
        http: ReadClient,
        changes: Mapping[str, AnyWriteOperation],
        *,
        base: str,
        currency: str | None,
        lists_variations: bool = False,
    ) -> None:
        self._http = http
        self._pages = ListPages(http)
        self._others = OrderAndCustomerReader(self._pages, base=base, lists_variations=lists_variations)
        self._lists_variations = lists_variations
        self._tags_read: list[RecordPage[Tag]] | None = None
        self._changes = changes
        self._base = base
        self._currency = currency

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Yields the pages of a read. Raises CallError; KeyError for an unsupported read."""
        reads: dict[str, Callable[[Any], AsyncIterator[RecordPage[Any]]]] = {
            "products": self._products,
            "product": self._product,
            "variants": self._variants,
            "variant": self._variant,
            "tags": self._tags,
            "categories": partial(self._terms, "/products/categories"),
            "orders": self._others.orders,
            "order": self._others.order,
            "refunds": self._others.refunds,
            "customers": self._others.customers,
            "customer": self._others.customer,
            "objects": self._others.objects,
            "path": self._at_path,
            "flow.object": self._flow_object,
            "flow.objects": self._flow_objects,
            "changed": self._others.changed,
            "ids": self._others.ids,
        }
        return cast("AsyncIterator[RecordPage[I]]", reads[op.name](params))

    async def _at_path(self, query: PathQuery) -> AsyncIterator[RecordPage[PlatformResponse]]:
        """Yields the response at a path of the shop's own objects. Raises for other paths and parameters."""
        if not _READABLE.fullmatch(query.path):
            raise Invalid(["path"], "Of the shop, products, orders, customers, coupons and reports are read.")
        for name, _ in query.query:
            if name.removesuffix("[]") not in _QUERY_PARAMETERS:
                raise Invalid([name], f"The shop cannot be asked by “{name[:80]}” here. Leave it out.")
        yield RecordPage((await self._http.get(query.path, dict(query.query), operation="path"),), total=1)

    async def _flow_object(self, query: FlowObjectQuery) -> AsyncIterator[RecordPage[dict[str, JsonValue]]]:
        """Yields one object as Shopify Flow sees it. Raises for a field without a counterpart."""
        reads: dict[str, Callable[[ById], AsyncIterator[RecordPage[Any]]]] = {
            "order": self._others.order,
            "product": self._product,
            "customer": self._others.customer,
        }
        missing = [query.root] if query.root not in reads else unsupported_paths(query.root, query.paths)
        if missing:
            raise Invalid([missing[0]], f"“{missing[0][:80]}” has no counterpart in WooCommerce.")
        async for page in reads[query.root](ById(query.id)):
            yield RecordPage(tuple(flow_object(record) for record in page.items), total=page.total)

    async def _flow_objects(self, query: FlowObjectsQuery) -> AsyncIterator[RecordPage[dict[str, JsonValue]]]:
        """Yields the newest objects as Shopify Flow sees them. Raises for any other search or order."""
        if query.query.strip() or (query.sort or "").lower() != "id desc":
            raise Invalid(["query"], "Lists are fetched by a search of Shopify's, which WooCommerce lacks.")
        root = query.root.removesuffix("s")
        newest = ObjectsQuery(root, None, (("orderby", "id"), ("order", "desc")), min(query.limit, 100))
        paths = tuple(root + path.removeprefix(query.root) for path in query.paths)
        async for rows in self._others.objects(newest):
            for row in rows.items:
                async for page in self._flow_object(FlowObjectQuery(root, str(row.get("id")), paths)):
                    yield page

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Returns the current value of each part, in few calls. Raises CallError."""
        ids_by_resource: dict[tuple[str, str], set[str]] = defaultdict(set)
        for part in parts:
            if part.operation != _MAKE_TAG:
                parent, _, object_id = part.target.rpartition("/")
                ids_by_resource[_resource(part.operation), parent].add(object_id)
        rows: dict[tuple[str, str], Row] = {}
        for (resource, parent), ids in ids_by_resource.items():
            rows_by_target = await self._by_ids(
                resource, parent, sorted(ids, key=lambda object_id: int(number_of(object_id)))
            )
            rows |= {(resource, target): row for target, row in rows_by_target.items()}
        tags = {part.target for part in parts if part.operation == _MAKE_TAG}
        tag_values = {name: await self._tag_value(name) for name in sorted(tags)}
        return [
            CurrentValue(part, tag_values[part.target])
            if part.operation == _MAKE_TAG
            else self._current(part, rows.get((_resource(part.operation), part.target)))
            for part in parts
        ]

    def _current(self, part: Part, row: Row | None) -> CurrentValue:
        if row is None or row.get("status") == "trash":
            return CurrentValue(part, None, is_gone=True)
        if part.operation == _NOTE:
            return CurrentValue(part, None)
        return CurrentValue(part, value_of(part.operation, row), modified_at=instant_of(row))

    async def confirm(self, part: Part) -> WriteOutcome:
        """Reads a part's value back and returns its outcome: unknown while it cannot be read."""
        try:
            [now] = await self.current([part])
        except CallError as error:
            return WriteOutcome.of_error(WriteState.UNKNOWN, error)
        return read_back(self._changes[part.operation], now)

    async def find_marker(self, part: Part, key: str) -> bool:
        """Returns whether the order has a note that ends with the write key. Raises CallError."""
        path = f"{PREFIX}/orders/{number_of(part.target)}/notes"
        rows = rows_of(await self._http.get(path, {"_fields": "id,note"}, operation="notes"))
        return any(note_mark(key) in text_of(row, "note") for row in rows)

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Returns, for each part, that there is nothing to look up: every inverse is known beforehand."""
        return [NOT_LOOKED_UP for _ in parts]

    async def _products(self, query: ProductsQuery) -> AsyncIterator[RecordPage[Product]]:
        read_count = 0
        is_whole = not any(
            narrowing is not None for narrowing in (query.ids, query.skus, query.tagged, query.modified_after)
        )
        variations = VariationReader(self._pages, listed=self._lists_variations, reads_catalogue=is_whole)
        async for rows, total in self._product_rows(query):
            read_count += len(rows)
            async for _ in variations.load(rows):
                yield RecordPage((), total=total)
            products = await self._with_variations(rows, variations)
            yield RecordPage(
                tuple(products), next=str(read_count) if read_count < (total or 0) else None, total=total
            )

    async def _product(self, query: ById) -> AsyncIterator[RecordPage[Product]]:
        row = await self._pages.fetch_one(f"/products/{number_of(query.id)}", PRODUCT_FIELDS, "product")
        if row.get("type") == "variation":
            raise RemoteNotFound
        variations = VariationReader(self._pages, listed=self._lists_variations, reads_catalogue=False)
        [product] = await self._with_variations([row], variations)
        yield RecordPage((product,), total=1)

    async def _variants(self, query: ProductsQuery) -> AsyncIterator[RecordPage[Variant]]:
        async for page in self._products(query):
            sellable = [product for product in page.items if product.sellable]
            variants = [variant for product in sellable for variant in product.variants]
            if query.skus is not None:
                variants = [variant for variant in variants if variant.sku in query.skus]
            yield RecordPage(tuple(variants), next=page.next)

    async def _variant(self, query: ById) -> AsyncIterator[RecordPage[Variant]]:
        parent, _, _ = query.id.partition("/")
        async for page in self._product(ById(parent)):
            matching = [variant for variant in page.items[0].variants if variant.id == query.id]
            if not matching:
                raise RemoteNotFound
            yield RecordPage((matching[0],), total=1)

    async def _tags(self, query: NoParameters) -> AsyncIterator[RecordPage[Tag]]:
        """Yields the shop's tags, which this reader reads once: each changed product needs them."""
        if self._tags_read is None:
            pages = [page async for page in self._terms("/products/tags", query)]
            self._tags_read = pages
        for page in self._tags_read:
            yield page

    async def _terms(self, path: str, query: NoParameters) -> AsyncIterator[RecordPage[Tag]]:
        async for rows, total in self._pages.fetch_all(path, {"_fields": "id,name"}, "terms"):
            terms = names_of({"terms": list(rows)}, "terms")
            yield RecordPage(tuple(Tag(number, name) for name, number in terms), total=total)

    async def _product_rows(self, query: ProductsQuery) -> AsyncIterator[tuple[list[Row], int | None]]:
        params = {"_fields": PRODUCT_FIELDS} | ({"status": "publish"} if query.published_only else {})
        params |= modified_since(query.modified_after)
        if query.tagged is not None:
            tag_ids = await self._tag_ids(query.tagged)
            if not tag_ids:
                return
            params["tag"] = ",".join(tag_ids)
        ids = query.ids
        if query.skus is not None and not any("," in sku for sku in query.skus):
            # The filter takes a list joined by commas; if a SKU contains a comma, everything is read.
            sku_ids = await self._products_of_skus(query.skus)
            ids = sku_ids if ids is None else tuple(filter(set(ids).__contains__, sku_ids))
        async for page in self._pages.fetch("/products", ids, params, "products"):
            yield page

    async def _tag_ids(self, tags: Sequence[str]) -> list[str]:
        """Returns the ids of the tags that the shop has, ignoring case."""
        ids: dict[str, list[str]] = defaultdict(list)
        async for page in self._tags(NoParameters()):
            for tag in page.items:
                ids[tag_key(tag.name)].append(tag.id)
        keys = dict.fromkeys(stored_key(tag, ids) for tag in tags)
        return [number for key in keys for number in ids.get(key, ())]

    async def _products_of_skus(self, skus: Sequence[str]) -> tuple[str, ...]:
        product_ids: set[str] = set()
        for start in range(0, len(skus), MAX_IDS_A_CALL):
            params = {
                "sku": ",".join(skus[start : start + MAX_IDS_A_CALL]),
                "_fields": "id,type,parent_id",
                "status": "any",
            }
            async for rows, _ in self._pages.fetch_all("/products", params, "products"):
                for row in rows:
                    parent = row.get("parent_id")
                    product_ids.add(str(parent) if row.get("type") == "variation" and parent else id_of(row))
        return tuple(product_ids)

    async def _with_variations(self, rows: Sequence[Row], variations: VariationReader) -> list[Product]:
        by_product = await variations.of_page(rows)
        return [
            product_of(row, by_product.get(id_of(row), ()), base=self._base, currency=self._currency)
            for row in rows
        ]

    async def _by_ids(self, resource: str, parent: str, ids: Sequence[str]) -> dict[str, Row]:
        path, fields = _RESOURCES[resource]
        if parent:
            path, fields = f"/products/{number_of(parent)}/variations", VARIATION_FIELDS
        params = {"_fields": fields} | ({"role": "all"} if resource == "customer" else {"status": "any"})
        rows: dict[str, Row] = {}
        try:
            async for page, _ in self._pages.fetch_by_ids(path, ids, params, "current"):
                rows |= {f"{parent}/{id_of(row)}" if parent else id_of(row): row for row in page}
        except RemoteNotFound:
            return {}
        return rows

    async def _tag_value(self, name: str) -> JsonValue:
        params = {"search": sent_name(name), "_fields": "id,name"}
        values: dict[str, JsonValue] = {}
        async for rows, _ in self._pages.fetch_all("/products/tags", params, "current"):
            for tag_name, number in names_of({"tags": list(rows)}, "tags"):
                values.setdefault(tag_key(tag_name), {"name": tag_name, "id": number})
        return values.get(stored_key(name, values))


_RESOURCES = {
    "product": ("/products", PRODUCT_FIELDS),
    "order": ("/orders", _ORDER_VALUE),
    "customer": ("/customers", _CUSTOMER_VALUE),
}


def _resource(operation: str) -> str:
    kind = operation.partition(".")[0]
    return kind if kind in _RESOURCES else "product"


def note_mark(key: str) -> str:
    """Returns the marker at the end of a note, by which the note is identified."""
    return f"(ref {key})"


def value_of(operation: str, row: Row) -> dict[str, JsonValue]:
    """Returns the value that an operation changes, from a read or written object. Raises UnusableResponse."""
    match operation:
        case "variant.set_price":
            return {name: text_of(row, name) for name in ("regular_price", "sale_price")}
        case "inventory.set":
            return {"stock_quantity": quantity_of(row)}
        case "product.set_visible":
            return {"catalog_visibility": text_of(row, "catalog_visibility")}
        case "product.set_status" | "order.set_status":
            return {"status": text_of(row, "status")}
        case "order.cancel":
            status = text_of(row, "status")
            # Once an order is cancelled, it does not matter whether it had been paid.
            paid = {} if status == CANCELLED else {"paid": instant_of(row, "date_paid_gmt") is not None}
            return {"status": status, **paid}
        case "order.set_tags" | "customer.set_tags":
            return {"tags": list(tags_of(row))}
        case _:
            return {"tags": [name for name, _ in names_of(row, "tags")]}
