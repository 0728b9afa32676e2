"""Reads a Shopify store page by page in the order of ids; current.py reads the values of writes."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from steward.connectors.base.connector import AnyWriteOperation, CurrentValue
from steward.connectors.base.deliveries import ChangedQuery, Event, IdsQuery
from steward.connectors.base.queries import (
    ById,
    CustomersQuery,
    FieldsQuery,
    FlowObjectQuery,
    FlowObjectsQuery,
    MetafieldQuery,
    OrdersQuery,
    ProductsQuery,
    ReadOp,
    RecordPage,
    RedirectQuery,
    RefundsQuery,
)
from steward.connectors.base.records import (
    Customer,
    DraftOrder,
    Metafield,
    ObjectFields,
    Order,
    OrderLine,
    Product,
    Redirect,
    Refund,
    Variant,
)
from steward.connectors.base.writing import WriteOutcome
from steward.connectors.shopify import current, documents, undo_operations
from steward.connectors.shopify.flow_reads import FlowReads
from steward.connectors.shopify.objects import (
    channels_of,
    customer_of,
    draft_of,
    has_more,
    is_item,
    item_and_location,
    line_of,
    order_of,
    product_of,
    refunds_of,
    variant_of,
)
from steward.connectors.shopify.paging import BulkObject, StoreQueries
from steward.connectors.shopify.responses import (
    Row,
    either,
    gid,
    nodes_of,
    number_of,
    quoted,
    row_of,
    sub,
    text,
)
from steward.connectors.shopify.topics import EVENT_OBJECTS, changed_event
from steward.model.change import Part
from steward.model.json import JsonValue
from steward.model.undo import LookUpResult
from steward.outbound.client import ReadClient
from steward.outbound.errors import RemoteNotFound

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741

# For more objects than this, a full read is a bulk operation; orders are expensive to page through.
BULK_THRESHOLD = 5_000
BULK_ORDERS_THRESHOLD = 1_000
_SKUS_PER_QUERY = 20


class ShopifyReader:
    """A reader of one store, identified by its `domain`."""

    def __init__(
        self,
        http: ReadClient,
        changes: Mapping[str, AnyWriteOperation],
        *,
        domain: str,
        currency: str | None,
    ) -> None:
        self._queries = StoreQueries(http)
        self._changes = changes
        self._domain = domain
        self._currency = currency

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Returns the pages of a read. Raises CallError; KeyError for an unsupported read."""
        reads: dict[str, Callable[[Any], AsyncIterator[RecordPage[Any]]]] = {
            "products": self._products,
            "product": self._product,
            "variants": self._variants,
            "variant": self._variant,
            "orders": self._orders,
            "order": self._order,
            "refunds": self._refunds,
            "customers": self._customers,
            "customer": self._customer,
            "draft_order": self._draft_order,
            "metafield": self._metafield,
            "redirect": self._redirect,
            "fields": self._fields,
            "flow.object": self._flow_object,
            "flow.objects": self._flow_objects,
            "changed": self._changed,
            "ids": self._ids,
        }
        return cast("AsyncIterator[RecordPage[I]]", reads[op.name](params))

    async def current(self, parts: Sequence[Part]) -> list[CurrentValue]:
        """Returns the current value of each part, in few calls. Raises CallError."""
        return await current.values(self._queries, parts)

    async def confirm(self, part: Part) -> WriteOutcome:
        """Reads the value back: as expected, as before, or something else; unknown while unreadable."""
        return await current.confirm(self._queries, part, self._changes[part.operation])

    async def find_marker(self, part: Part, key: str) -> bool:
        """Returns False: no Shopify operation uses a marker."""
        return False

    async def look_up_inverses(
        self, parts: Sequence[Part], *, is_overwritten: bool = False
    ) -> list[LookUpResult]:
        """Looks up the id or digest that each part's inverse needs. Raises CallError."""
        look_up = undo_operations.look_up_overwritten if is_overwritten else undo_operations.look_up
        return [await look_up(self._queries, part) for part in parts]

    async def _products(self, query: ProductsQuery) -> AsyncIterator[RecordPage[Product]]:
        if await self._is_worth_bulk(query, "productsCount"):
            async for page in self._bulk_products(query):
                yield page
            return
        ids = query.ids if query.skus is None else await self._ids_with_skus(query, query.skus)
        async for rows, more in self._product_rows(ids, _search(query)):
            products = [
                product for product in await self._with_variants(rows, query) if _matches(query, product)
            ]
            yield RecordPage(tuple(products), next="more" if more else None)

    async def _is_worth_bulk(self, query: ProductsQuery, count_name: str) -> bool:
        if query.in_pages or not _all_of(query):
            return False
        return await self._queries.count(documents.COUNTS, count_name) > BULK_THRESHOLD

    async def _ids_with_skus(self, query: ProductsQuery, skus: Sequence[str]) -> list[str]:
        pages = self._by_sku(query, skus)
        matching_ids = {variant.product_id async for page in pages for variant in page.items}
        if query.ids is None:
            return sorted(matching_ids, key=int)
        return [product_id for product_id in query.ids if product_id in matching_ids]

    async def _product_rows(
        self, ids: Sequence[str] | None, query: str | None
    ) -> AsyncIterator[tuple[list[Row], bool]]:
        if ids is None:
            async for page in self._queries.pages(documents.PRODUCTS, {"query": query}, "products"):
                yield page
            return
        global_ids = _sorted_gids("Product", ids)
        async for rows in self._queries.nodes(documents.PRODUCTS_BY_ID, global_ids, documents.PRODUCTS_PAGE):
            yield [row for row in rows if "title" in row], True

    async def _with_variants(self, rows: Sequence[Row], query: ProductsQuery) -> list[Product]:
        """Returns the products of `rows` with all their variants and all their channels."""
        numbers = [number_of(row.get("id")) for row in rows]
        if not numbers:
            return []
        by_product: dict[str, list[Variant]] = {number: [] for number in numbers}
        search = f"product_ids:{','.join(numbers)}"
        async for variants, _ in self._variant_rows(search, query.location):
            for variant in variants:
                by_product.setdefault(variant.product_id, []).append(variant)
        products = []
        for number, row in zip(numbers, rows, strict=True):
            channels = await self._channels(number) if has_more(row, "resourcePublicationsV2") else None
            products.append(
                product_of(
                    row, by_product[number], domain=self._domain, currency=self._currency, channels=channels
                )
            )
        return products

    async def _channels(self, product: str) -> tuple[str, ...]:
        data = await self._queries.execute(documents.PRODUCT_CHANNELS, {"id": gid("Product", product)})
        return channels_of(row_of(data.get("product")))

    async def _variant_rows(
        self, query: str | None, location: str | None
    ) -> AsyncIterator[tuple[list[Variant], bool]]:
        variables: dict[str, JsonValue] = {"query": query}
        document = documents.VARIANTS
        if location is not None:
            document, variables["location"] = documents.VARIANTS_AT, gid("Location", location)
        async for rows, more in self._queries.pages(document, variables, "productVariants"):
            yield [self._variant_of(row, location) for row in rows], more

    def _variant_of(self, row: Row, location: str | None) -> Variant:
        return variant_of(row, domain=self._domain, currency=self._currency, location=location)

    async def _bulk_products(self, query: ProductsQuery) -> AsyncIterator[RecordPage[Product]]:
        products: list[Product] = []
        async for bulk_object in self._queries.bulk(documents.BULK_PRODUCTS):
            product = self._from_bulk(bulk_object)
            if _matches(query, product):
                products.append(product)
            if len(products) == documents.PLAIN_PAGE:
                yield RecordPage(tuple(products), next="more")
                products = []
        yield RecordPage(tuple(products))

    def _from_bulk(self, bulk_object: BulkObject) -> Product:
        """Returns a product of a bulk result; its channels are lines without an id."""
        product_row = {
            name: bulk_object.row.get(name)
            for name in ("id", "title", "status", "vendor", "productType", "tags", "hasOnlyDefaultVariant")
        }
        variants = [
            self._variant_of({**row, "product": row.get("product") or product_row}, None)
            for row in bulk_object.children.get("ProductVariant", ())
        ]
        channels = [number_of(sub(row, "publication").get("id")) for row in bulk_object.children.get("", ())]
        return product_of(
            bulk_object.row, variants, domain=self._domain, currency=self._currency, channels=sorted(channels)
        )

    async def _product(self, query: ById) -> AsyncIterator[RecordPage[Product]]:
        number = await self._of_item(query.id) if is_item(query.id) else query.id
        async for rows, _ in self._product_rows([number], None):
            for product in await self._with_variants(rows, ProductsQuery()):
                yield RecordPage((product,), total=1)
                return
        raise RemoteNotFound

    async def _of_item(self, target: str) -> str:
        """Returns the product of an inventory item."""
        item, _ = item_and_location(target)
        data = await self._queries.execute(documents.ITEM_PRODUCT, {"id": gid("InventoryItem", item)})
        item_row = data.get("inventoryItem")
        rows = nodes_of(row_of(item_row), "variants") if item_row is not None else []
        if not rows:
            raise RemoteNotFound
        return number_of(sub(rows[0], "product").get("id"))

    async def _variants(self, query: ProductsQuery) -> AsyncIterator[RecordPage[Variant]]:
        if query.skus is not None:
            pages = self._by_sku(query, query.skus)
        elif query.ids is not None:
            pages = _sellable_variants(self._products(query))
        elif await self._is_worth_bulk(query, "productVariantsCount"):
            pages = _sellable_variants(self._bulk_products(query))
        else:
            pages = self._searched_variants(query)
        async for page in pages:
            yield page

    async def _searched_variants(self, query: ProductsQuery) -> AsyncIterator[RecordPage[Variant]]:
        async for variants, more in self._variant_rows(_search_variants(query), query.location):
            fitting = [variant for variant in variants if _fits_variant(query, variant)]
            yield RecordPage(tuple(fitting), next="more" if more else None)

    async def _by_sku(self, query: ProductsQuery, skus: Sequence[str]) -> AsyncIterator[RecordPage[Variant]]:
        """Yields variants with exactly those SKUs; the store's search may match more."""
        distinct_skus = [sku for sku in dict.fromkeys(skus) if sku]
        for start in range(0, len(distinct_skus), _SKUS_PER_QUERY):
            batch = distinct_skus[start : start + _SKUS_PER_QUERY]
            async for variants, more in self._variant_rows(either("sku", batch), query.location):
                matching = [
                    variant for variant in variants if variant.sku in batch and _fits_variant(query, variant)
                ]
                yield RecordPage(
                    tuple(matching),
                    next="more" if more or start + _SKUS_PER_QUERY < len(distinct_skus) else None,
                )

    async def _variant(self, query: ById) -> AsyncIterator[RecordPage[Variant]]:
        number = query.id.rpartition("/")[2]
        async for rows in self._queries.nodes(documents.VARIANTS_BY_ID, [gid("ProductVariant", number)], 1):
            for row in rows:
                yield RecordPage((self._variant_of(row, None),), total=1)
                return
        raise RemoteNotFound

    async def _orders(self, query: OrdersQuery) -> AsyncIterator[RecordPage[Order]]:
        search = _search_orders(query)
        if query.ids is not None:
            pages = self._orders_by_id(query, query.ids)
        elif (
            search is None
            and not query.in_pages
            and await self._queries.count(documents.ORDERS_COUNT, "ordersCount") > BULK_ORDERS_THRESHOLD
        ):
            pages = self._bulk_orders()
        else:
            pages = self._searched_orders(query, search)
        async for page in pages:
            yield page

    async def _orders_by_id(self, query: OrdersQuery, ids: Sequence[str]) -> AsyncIterator[RecordPage[Order]]:
        global_ids = _sorted_gids("Order", ids)
        async for rows in self._queries.nodes(documents.ORDERS_BY_ID, global_ids, documents.ORDERS_PAGE):
            orders = [await self._order_of(row) for row in rows if "name" in row]
            yield RecordPage(tuple(order for order in orders if _fits_order(query, order)), next="more")
        yield RecordPage(())

    async def _searched_orders(
        self, query: OrdersQuery, search: str | None
    ) -> AsyncIterator[RecordPage[Order]]:
        async for rows, more in self._queries.pages(documents.ORDERS, {"query": search}, "orders"):
            orders = [await self._order_of(row) for row in rows]
            yield RecordPage(
                tuple(order for order in orders if _fits_order(query, order)), next="more" if more else None
            )

    async def _bulk_orders(self) -> AsyncIterator[RecordPage[Order]]:
        orders: list[Order] = []
        async for bulk_object in self._queries.bulk(documents.BULK_ORDERS):
            sent_from = list(bulk_object.children.get("FulfillmentOrder", ()))
            row: Row = {**bulk_object.row, "fulfillmentOrders": {"nodes": [*sent_from]}}
            lines = [line_of(line_row) for line_row in bulk_object.children.get("LineItem", ())]
            orders.append(order_of(row, lines, domain=self._domain))
            if len(orders) == documents.PLAIN_PAGE:
                yield RecordPage(tuple(orders), next="more")
                orders = []
        yield RecordPage(tuple(orders))

    async def _order(self, query: ById) -> AsyncIterator[RecordPage[Order]]:
        async for page in self._orders(OrdersQuery(ids=(query.id,))):
            for order in page.items:
                yield RecordPage((order,), total=1)
                return
        raise RemoteNotFound

    async def _order_of(self, row: Row) -> Order:
        """Returns an order with all its lines; fetches those that did not fit in the page."""
        lines: list[OrderLine] = [line_of(line_row) for line_row in nodes_of(row, "lineItems")]
        if has_more(row, "lineItems"):
            lines = []
            variables: dict[str, JsonValue] = {"id": text(row, "id")}
            async for rows, _ in self._queries.pages(documents.ORDER_LINES, variables, "order", "lineItems"):
                lines += [line_of(line_row) for line_row in rows]
        return order_of(row, lines, domain=self._domain)

    async def _refunds(self, query: RefundsQuery) -> AsyncIterator[RecordPage[Refund]]:
        data = await self._queries.execute(documents.REFUNDS, {"id": gid("Order", query.order_id)})
        order = data.get("order")
        if order is None:
            raise RemoteNotFound
        refunds = refunds_of(row_of(order))
        yield RecordPage(refunds, total=len(refunds))

    async def _customers(self, query: CustomersQuery) -> AsyncIterator[RecordPage[Customer]]:
        if query.ids is not None:
            pages = self._customers_by_id(query.ids)
        elif (
            query.modified_after is None
            and await self._queries.count(documents.CUSTOMERS_COUNT, "customersCount") > BULK_THRESHOLD
        ):
            pages = self._bulk_customers()
        else:
            pages = self._searched_customers(_from_term("updated_at", query.modified_after) or None)
        async for page in pages:
            yield page

    async def _customers_by_id(self, ids: Sequence[str]) -> AsyncIterator[RecordPage[Customer]]:
        global_ids, page_size = _sorted_gids("Customer", ids), documents.CUSTOMERS_PAGE
        async for rows in self._queries.nodes(documents.CUSTOMERS_BY_ID, global_ids, page_size):
            customers = [customer_of(row, domain=self._domain) for row in rows if "displayName" in row]
            yield RecordPage(tuple(customers), next="more")
        yield RecordPage(())

    async def _searched_customers(self, search: str | None) -> AsyncIterator[RecordPage[Customer]]:
        async for rows, more in self._queries.pages(documents.CUSTOMERS, {"query": search}, "customers"):
            customers = [customer_of(row, domain=self._domain) for row in rows]
            yield RecordPage(tuple(customers), next="more" if more else None)

    async def _bulk_customers(self) -> AsyncIterator[RecordPage[Customer]]:
        customers: list[Customer] = []
        async for bulk_object in self._queries.bulk(documents.BULK_CUSTOMERS):
            customers.append(customer_of(bulk_object.row, domain=self._domain))
            if len(customers) == documents.PLAIN_PAGE:
                yield RecordPage(tuple(customers), next="more")
                customers = []
        yield RecordPage(tuple(customers))

    async def _customer(self, query: ById) -> AsyncIterator[RecordPage[Customer]]:
        async for page in self._customers(CustomersQuery(ids=(query.id,))):
            for customer in page.items:
                yield RecordPage((customer,), total=1)
                return
        raise RemoteNotFound

    async def _draft_order(self, query: ById) -> AsyncIterator[RecordPage[DraftOrder]]:
        data = await self._queries.execute(documents.DRAFT_ORDER, {"id": gid("DraftOrder", query.id)})
        draft_row = data.get("draftOrder")
        if draft_row is None:
            raise RemoteNotFound
        yield RecordPage((draft_of(row_of(draft_row), domain=self._domain),), total=1)

    async def _metafield(self, query: MetafieldQuery) -> AsyncIterator[RecordPage[Metafield]]:
        metafield = await current.metafield(self._queries, query)
        yield RecordPage(() if metafield is None else (metafield,))

    async def _redirect(self, query: RedirectQuery) -> AsyncIterator[RecordPage[Redirect]]:
        redirect = await current.redirect(self._queries, query.path)
        yield RecordPage(() if redirect is None else (redirect,))

    async def _fields(self, query: FieldsQuery) -> AsyncIterator[RecordPage[ObjectFields]]:
        yield RecordPage((await current.fields(self._queries, query, self._domain),), total=1)

    async def _flow_object(self, query: FlowObjectQuery) -> AsyncIterator[RecordPage[dict[str, JsonValue]]]:
        yield RecordPage((await FlowReads(self._queries).read_one(query),), total=1)

    async def _flow_objects(self, query: FlowObjectsQuery) -> AsyncIterator[RecordPage[dict[str, JsonValue]]]:
        yield RecordPage(tuple(await FlowReads(self._queries).read_many(query)))

    async def _changed(self, query: ChangedQuery) -> AsyncIterator[RecordPage[Event]]:
        kind = EVENT_OBJECTS[query.object_type]
        search = _from_term("updated_at", query.modified_after) or None
        async for rows, more in self._queries.pages(kind.changed, {"query": search}, kind.root):
            events = [changed_event(query.object_type, row, since=query.modified_after) for row in rows]
            yield RecordPage(tuple(events), next="more" if more else None)

    async def _ids(self, query: IdsQuery) -> AsyncIterator[RecordPage[str]]:
        kind = EVENT_OBJECTS[query.object_type]
        async for rows, more in self._queries.pages(kind.changed, {"query": None}, kind.root):
            yield RecordPage(tuple(number_of(row.get("id")) for row in rows), next="more" if more else None)


def _sorted_gids(kind: str, ids: Iterable[str]) -> list[str]:
    """Returns the distinct global ids in the order of their numbers."""
    return sorted({gid(kind, number) for number in ids}, key=lambda global_id: int(number_of(global_id)))


async def _sellable_variants(
    product_pages: AsyncIterator[RecordPage[Product]],
) -> AsyncIterator[RecordPage[Variant]]:
    async for page in product_pages:
        sellable = [variant for product in page.items if product.sellable for variant in product.variants]
        yield RecordPage(tuple(sellable), next=page.next)


def _all_of(query: ProductsQuery) -> bool:
    """Returns whether the query reads all products, except perhaps unpublished ones."""
    limits = (query.ids, query.skus, query.modified_after, query.location, query.tagged)
    return all(limit is None for limit in limits)


def _matches(query: ProductsQuery, product: Product) -> bool:
    """Returns whether a product matches the limits that the store's search does not apply reliably."""
    if query.published_only and not product.visible:
        return False
    tags = {tag.casefold() for tag in product.tags}
    return query.tagged is None or any(tag.casefold() in tags for tag in query.tagged)


def _fits_variant(query: ProductsQuery, variant: Variant) -> bool:
    return (
        variant.product_type in ("simple", "variable")
        and (query.ids is None or variant.product_id in query.ids)
        and (variant.visible or not query.published_only)
    )


def _search(query: ProductsQuery) -> str | None:
    terms = [_from_term("updated_at", query.modified_after)]
    terms.append("status:active" if query.published_only else "")
    terms.append(f"({either('tag', query.tagged)})" if query.tagged else "")
    return " AND ".join(term for term in terms if term) or None


def _search_variants(query: ProductsQuery) -> str | None:
    terms = [_from_term("updated_at", query.modified_after)]
    terms.append("product_status:active" if query.published_only else "")
    terms.append(f"({either('tag', query.tagged)})" if query.tagged else "")
    return " AND ".join(term for term in terms if term) or None


def _search_orders(query: OrdersQuery) -> str | None:
    terms = [
        _from_term("created_at", query.created_after),
        _to_term("created_at", query.created_before),
        _from_term("updated_at", query.modified_after),
        "status:open" if query.open_only else "",
        f"({either('status', query.statuses)})" if query.statuses else "",
        f"customer_id:{quoted(query.customer_id)}" if query.customer_id else "",
    ]
    return " AND ".join(term for term in terms if term) or None


def _fits_order(query: OrdersQuery, order: Order) -> bool:
    """Returns whether an order matches the limits, which the search language may interpret differently."""
    return (
        _is_between(order.created_at, query.created_after, query.created_before)
        and _is_between(order.modified_at, query.modified_after, None)
        and (not query.open_only or order.status == "open")
        and (not query.statuses or order.status in query.statuses)
        and (query.customer_id is None or order.customer_id == query.customer_id)
    )


def _is_between(instant: datetime | None, after: datetime | None, before: datetime | None) -> bool:
    """Returns whether an instant is within the exclusive limits; an unknown one is only if there are none."""
    if after is None and before is None:
        return True
    if instant is None:
        return False
    return (after is None or instant > after) and (before is None or instant < before)


def _from_term(name: str, instant: datetime | None) -> str:
    return f"{name}:>'{_moment(instant)}'" if instant is not None else ""


def _to_term(name: str, instant: datetime | None) -> str:
    return f"{name}:<'{_moment(instant)}'" if instant is not None else ""


def _moment(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
