"""Reads a Shopify store: pages in the order of ids.

Lleaves what writes are compared with to current.py.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from steward.connectors.base.connector import CurrentValue, WriteOperation
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
from steward.connectors.shopify import current, documents
from steward.connectors.shopify.answers import (
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
from steward.connectors.shopify.paging import Asking, Grouped
from steward.connectors.shopify.topics import KINDS, changed_event
from steward.model.change import Part
from steward.model.json import JsonValue
from steward.outbound.client import ReadClient
from steward.outbound.errors import RemoteNotFound

P = TypeVar("P")
I = TypeVar("I")  # noqa: E741

# Above so many objects a whole read is a bulk operation (connectors 7.1); an order is dear to page through.
BULK_FROM = 5_000
BULK_ORDERS_FROM = 1_000
_NAMED = 20


class ShopifyReader:
    """A reader of one store, known by its `domain`."""

    def __init__(
        self,
        http: ReadClient,
        changes: Mapping[str, WriteOperation[Any]],
        *,
        domain: str,
        currency: str | None,
    ) -> None:
        self._ask = Asking(http)
        self._changes = changes
        self._domain = domain
        self._currency = currency

    def read(self, op: ReadOp[P, I], params: P) -> AsyncIterator[RecordPage[I]]:
        """Pages of a read of this connector. Raises CallError; KeyError for a read it does not have."""
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
        """Each part's value as it is now, in few calls. Raises CallError."""
        return await current.values(self._ask, parts)

    async def confirm(self, part: Part) -> WriteOutcome:
        """Reads the value back: as wanted, as before, or something else; unknown while unreadable."""
        return await current.confirm(self._ask, part, self._changes[part.operation])

    async def find_marker(self, part: Part, key: str) -> bool:
        """No operation here is settled by a marker."""
        return False

    async def _products(self, ask: ProductsQuery) -> AsyncIterator[RecordPage[Product]]:
        if _all_of(ask) and await self._ask.count(documents.COUNTS, "productsCount") > BULK_FROM:
            async for page in self._bulk_products(ask):
                yield page
            return
        ids = ask.ids
        if ask.skus is not None:
            found = [variant async for page in self._variants(ask) for variant in page.items]
            named = {variant.product_id for variant in found}
            ids = tuple(
                each for each in (ids if ids is not None else sorted(named, key=int)) if each in named
            )
        async for rows, more in self._product_rows(ids, _search(ask)):
            products = [product for product in await self._whole(rows, ask) if _fits(ask, product)]
            yield RecordPage(tuple(products), next="more" if more else None)

    async def _product_rows(
        self, ids: Sequence[str] | None, query: str | None
    ) -> AsyncIterator[tuple[list[Row], bool]]:
        if ids is None:
            async for page in self._ask.pages(documents.PRODUCTS, {"query": query}, "products"):
                yield page
            return
        numbers = sorted({gid("Product", each) for each in ids}, key=lambda each: int(number_of(each)))
        most = documents.PRODUCTS_PAGE
        async for rows in self._ask.nodes(documents.PRODUCTS_BY_ID, numbers, most):
            yield [row for row in rows if "title" in row], True

    async def _whole(self, rows: Sequence[Row], ask: ProductsQuery) -> list[Product]:
        """The products of `rows` with all their variants, and all channels they are on."""
        numbers = [number_of(row.get("id")) for row in rows]
        if not numbers:
            return []
        by_product: dict[str, list[Variant]] = {number: [] for number in numbers}
        query = f"product_ids:{','.join(numbers)}"
        async for variants, _ in self._variant_rows(query, ask.location):
            for variant in variants:
                by_product.setdefault(variant.product_id, []).append(variant)
        made = []
        for number, row in zip(numbers, rows, strict=True):
            channels = await self._channels(number) if has_more(row, "resourcePublicationsV2") else None
            made.append(
                product_of(
                    row, by_product[number], domain=self._domain, currency=self._currency, channels=channels
                )
            )
        return made

    async def _channels(self, product: str) -> tuple[str, ...]:
        data = await self._ask.told(documents.PRODUCT_CHANNELS, {"id": gid("Product", product)})
        return channels_of(row_of(data.get("product")))

    async def _variant_rows(
        self, query: str | None, location: str | None
    ) -> AsyncIterator[tuple[list[Variant], bool]]:
        variables: dict[str, JsonValue] = {"query": query}
        document = documents.VARIANTS
        if location is not None:
            document, variables["location"] = documents.VARIANTS_AT, gid("Location", location)
        async for rows, more in self._ask.pages(document, variables, "productVariants"):
            yield [self._variant_of(row, location) for row in rows], more

    def _variant_of(self, row: Row, location: str | None) -> Variant:
        return variant_of(row, domain=self._domain, currency=self._currency, location=location)

    async def _bulk_products(self, ask: ProductsQuery) -> AsyncIterator[RecordPage[Product]]:
        held: list[Product] = []
        async for found in self._ask.bulk(documents.BULK_PRODUCTS):
            product = self._from_bulk(found)
            if _fits(ask, product):
                held.append(product)
            if len(held) == documents.PLAIN_PAGE:
                yield RecordPage(tuple(held), next="more")
                held = []
        yield RecordPage(tuple(held))

    def _from_bulk(self, found: Grouped) -> Product:
        """A product of a bulk result; its channels come as lines without an id."""
        own = {
            each: found.row.get(each)
            for each in ("id", "title", "status", "vendor", "productType", "tags", "hasOnlyDefaultVariant")
        }
        variants = [
            self._variant_of({**row, "product": row.get("product") or own}, None)
            for row in found.children.get("ProductVariant", ())
        ]
        channels = [number_of(sub(row, "publication").get("id")) for row in found.children.get("", ())]
        return product_of(
            found.row, variants, domain=self._domain, currency=self._currency, channels=sorted(channels)
        )

    async def _product(self, ask: ById) -> AsyncIterator[RecordPage[Product]]:
        number = await self._of_item(ask.id) if is_item(ask.id) else ask.id
        async for rows, _ in self._product_rows([number], None):
            for product in await self._whole(rows, ProductsQuery()):
                yield RecordPage((product,), total=1)
                return
        raise RemoteNotFound

    async def _of_item(self, target: str) -> str:
        """The product whose stock an inventory item is."""
        item, _ = item_and_location(target)
        data = await self._ask.told(documents.ITEM_PRODUCT, {"id": gid("InventoryItem", item)})
        found = data.get("inventoryItem")
        rows = nodes_of(row_of(found), "variants") if found is not None else []
        if not rows:
            raise RemoteNotFound
        return number_of(sub(rows[0], "product").get("id"))

    async def _variants(self, ask: ProductsQuery) -> AsyncIterator[RecordPage[Variant]]:
        if ask.skus is not None:
            async for page in self._by_sku(ask, ask.skus):
                yield page
            return
        if ask.ids is not None:
            async for products in self._products(replace(ask, ids=ask.ids)):
                found = [each for product in products.items if product.sellable for each in product.variants]
                yield RecordPage(tuple(found), next=products.next)
            return
        if _all_of(ask) and await self._ask.count(documents.COUNTS, "productVariantsCount") > BULK_FROM:
            async for products in self._bulk_products(ask):
                found = [each for product in products.items if product.sellable for each in product.variants]
                yield RecordPage(tuple(found), next=products.next)
            return
        async for variants, more in self._variant_rows(_search_variants(ask), ask.location):
            fitting = [each for each in variants if _sells(each) and (each.visible or not ask.published_only)]
            yield RecordPage(tuple(fitting), next="more" if more else None)

    async def _by_sku(self, ask: ProductsQuery, skus: Sequence[str]) -> AsyncIterator[RecordPage[Variant]]:
        """The search may find more than the very SKUs asked for, so they are compared once more."""
        wanted = [sku for sku in dict.fromkeys(skus) if sku]
        for at in range(0, len(wanted), _NAMED):
            named = wanted[at : at + _NAMED]
            async for variants, more in self._variant_rows(either("sku", named), ask.location):
                found = [
                    each
                    for each in variants
                    if each.sku in named
                    and _sells(each)
                    and (ask.ids is None or each.product_id in ask.ids)
                    and (each.visible or not ask.published_only)
                ]
                yield RecordPage(tuple(found), next="more" if more or at + _NAMED < len(wanted) else None)

    async def _variant(self, ask: ById) -> AsyncIterator[RecordPage[Variant]]:
        number = ask.id.rpartition("/")[2]
        async for rows in self._ask.nodes(documents.VARIANTS_BY_ID, [gid("ProductVariant", number)], 1):
            for row in rows:
                yield RecordPage((self._variant_of(row, None),), total=1)
                return
        raise RemoteNotFound

    async def _orders(self, ask: OrdersQuery) -> AsyncIterator[RecordPage[Order]]:
        if ask.ids is not None:
            numbers = sorted({gid("Order", each) for each in ask.ids}, key=lambda each: int(number_of(each)))
            async for rows in self._ask.nodes(documents.ORDERS_BY_ID, numbers, documents.ORDERS_PAGE):
                found = [await self._order_of(row) for row in rows if "name" in row]
                yield RecordPage(tuple(each for each in found if _fits_order(ask, each)), next="more")
            yield RecordPage(())
            return
        query = _search_orders(ask)
        if query is None and await self._ask.count(documents.ORDERS_COUNT, "ordersCount") > BULK_ORDERS_FROM:
            async for page in self._bulk_orders():
                yield page
            return
        async for rows, more in self._ask.pages(documents.ORDERS, {"query": query}, "orders"):
            found = [await self._order_of(row) for row in rows]
            yield RecordPage(
                tuple(each for each in found if _fits_order(ask, each)), next="more" if more else None
            )

    async def _bulk_orders(self) -> AsyncIterator[RecordPage[Order]]:
        held: list[Order] = []
        async for found in self._ask.bulk(documents.BULK_ORDERS):
            sent_from = list(found.children.get("FulfillmentOrder", ()))
            row: Row = {**found.row, "fulfillmentOrders": {"nodes": [*sent_from]}}
            lines = [line_of(each) for each in found.children.get("LineItem", ())]
            held.append(order_of(row, lines, domain=self._domain))
            if len(held) == documents.PLAIN_PAGE:
                yield RecordPage(tuple(held), next="more")
                held = []
        yield RecordPage(tuple(held))

    async def _order(self, ask: ById) -> AsyncIterator[RecordPage[Order]]:
        async for page in self._orders(OrdersQuery(ids=(ask.id,))):
            for order in page.items:
                yield RecordPage((order,), total=1)
                return
        raise RemoteNotFound

    async def _order_of(self, row: Row) -> Order:
        """An order with all its lines: those that did not fit in the page are fetched."""
        lines: list[OrderLine] = [line_of(each) for each in nodes_of(row, "lineItems")]
        if has_more(row, "lineItems"):
            lines = []
            variables: dict[str, JsonValue] = {"id": text(row, "id")}
            async for rows, _ in self._ask.pages(documents.ORDER_LINES, variables, "order", "lineItems"):
                lines += [line_of(each) for each in rows]
        return order_of(row, lines, domain=self._domain)

    async def _refunds(self, ask: RefundsQuery) -> AsyncIterator[RecordPage[Refund]]:
        data = await self._ask.told(documents.REFUNDS, {"id": gid("Order", ask.order_id)})
        found = data.get("order")
        if found is None:
            raise RemoteNotFound
        refunds = refunds_of(row_of(found))
        yield RecordPage(refunds, total=len(refunds))

    async def _customers(self, ask: CustomersQuery) -> AsyncIterator[RecordPage[Customer]]:
        if ask.ids is not None:
            numbers = sorted(
                {gid("Customer", each) for each in ask.ids}, key=lambda each: int(number_of(each))
            )
            async for rows in self._ask.nodes(documents.CUSTOMERS_BY_ID, numbers, documents.CUSTOMERS_PAGE):
                found = [customer_of(row, domain=self._domain) for row in rows if "displayName" in row]
                yield RecordPage(tuple(found), next="more")
            yield RecordPage(())
            return
        if (
            ask.modified_after is None
            and await self._ask.count(documents.CUSTOMERS_COUNT, "customersCount") > BULK_FROM
        ):
            async for page in self._bulk_customers():
                yield page
            return
        query = _since("updated_at", ask.modified_after)
        async for rows, more in self._ask.pages(documents.CUSTOMERS, {"query": query or None}, "customers"):
            found = [customer_of(row, domain=self._domain) for row in rows]
            yield RecordPage(tuple(found), next="more" if more else None)

    async def _bulk_customers(self) -> AsyncIterator[RecordPage[Customer]]:
        held: list[Customer] = []
        async for found in self._ask.bulk(documents.BULK_CUSTOMERS):
            held.append(customer_of(found.row, domain=self._domain))
            if len(held) == documents.PLAIN_PAGE:
                yield RecordPage(tuple(held), next="more")
                held = []
        yield RecordPage(tuple(held))

    async def _customer(self, ask: ById) -> AsyncIterator[RecordPage[Customer]]:
        async for page in self._customers(CustomersQuery(ids=(ask.id,))):
            for customer in page.items:
                yield RecordPage((customer,), total=1)
                return
        raise RemoteNotFound

    async def _draft_order(self, ask: ById) -> AsyncIterator[RecordPage[DraftOrder]]:
        data = await self._ask.told(documents.DRAFT_ORDER, {"id": gid("DraftOrder", ask.id)})
        found = data.get("draftOrder")
        if found is None:
            raise RemoteNotFound
        yield RecordPage((draft_of(row_of(found), domain=self._domain),), total=1)

    async def _metafield(self, ask: MetafieldQuery) -> AsyncIterator[RecordPage[Metafield]]:
        found = await current.metafield(self._ask, ask)
        yield RecordPage(() if found is None else (found,))

    async def _redirect(self, ask: RedirectQuery) -> AsyncIterator[RecordPage[Redirect]]:
        found = await current.redirect(self._ask, ask.path)
        yield RecordPage(() if found is None else (found,))

    async def _fields(self, ask: FieldsQuery) -> AsyncIterator[RecordPage[ObjectFields]]:
        yield RecordPage((await current.fields(self._ask, ask, self._domain),), total=1)

    async def _flow_object(self, ask: FlowObjectQuery) -> AsyncIterator[RecordPage[dict[str, JsonValue]]]:
        yield RecordPage((await FlowReads(self._ask).one(ask),), total=1)

    async def _flow_objects(self, ask: FlowObjectsQuery) -> AsyncIterator[RecordPage[dict[str, JsonValue]]]:
        yield RecordPage(tuple(await FlowReads(self._ask).many(ask)))

    async def _changed(self, ask: ChangedQuery) -> AsyncIterator[RecordPage[Event]]:
        kind = KINDS[ask.object_type]
        query = _since("updated_at", ask.modified_after) or None
        async for rows, more in self._ask.pages(kind.changed, {"query": query}, kind.root):
            events = [changed_event(ask.object_type, row, since=ask.modified_after) for row in rows]
            yield RecordPage(tuple(events), next="more" if more else None)

    async def _ids(self, ask: IdsQuery) -> AsyncIterator[RecordPage[str]]:
        kind = KINDS[ask.object_type]
        async for rows, more in self._ask.pages(kind.changed, {"query": None}, kind.root):
            yield RecordPage(tuple(number_of(row.get("id")) for row in rows), next="more" if more else None)


def _all_of(ask: ProductsQuery) -> bool:
    """Whether everything is read, but for what is not published: then a bulk query is worth its wait."""
    limits = (ask.ids, ask.skus, ask.modified_after, ask.location, ask.tagged)
    return all(limit is None for limit in limits)


def _fits(ask: ProductsQuery, product: Product) -> bool:
    """What the store's search is not trusted with is looked at once more."""
    if ask.published_only and not product.visible:
        return False
    tags = {tag.casefold() for tag in product.tags}
    return ask.tagged is None or any(tag.casefold() in tags for tag in ask.tagged)


def _sells(variant: Variant) -> bool:
    return variant.product_type in ("simple", "variable")


def _search(ask: ProductsQuery) -> str | None:
    terms = [_since("updated_at", ask.modified_after)]
    terms.append("status:active" if ask.published_only else "")
    terms.append(f"({either('tag', ask.tagged)})" if ask.tagged else "")
    return " AND ".join(term for term in terms if term) or None


def _search_variants(ask: ProductsQuery) -> str | None:
    terms = [_since("updated_at", ask.modified_after)]
    terms.append("product_status:active" if ask.published_only else "")
    terms.append(f"({either('tag', ask.tagged)})" if ask.tagged else "")
    return " AND ".join(term for term in terms if term) or None


def _search_orders(ask: OrdersQuery) -> str | None:
    terms = [
        _since("created_at", ask.created_after),
        _until("created_at", ask.created_before),
        _since("updated_at", ask.modified_after),
        "status:open" if ask.open_only else "",
        f"({either('status', ask.statuses)})" if ask.statuses else "",
        f"customer_id:{quoted(ask.customer_id)}" if ask.customer_id else "",
    ]
    return " AND ".join(term for term in terms if term) or None


def _fits_order(ask: OrdersQuery, order: Order) -> bool:
    """The limits held once more: a search language may take them another way than they were meant."""
    created, modified = order.created_at, order.modified_at
    return (
        (ask.created_after is None or (created is not None and created > ask.created_after))
        and (ask.created_before is None or (created is not None and created < ask.created_before))
        and (ask.modified_after is None or (modified is not None and modified > ask.modified_after))
        and (not ask.open_only or order.status == "open")
        and (not ask.statuses or order.status in ask.statuses)
        and (ask.customer_id is None or order.customer_id == ask.customer_id)
    )


def _since(name: str, instant: datetime | None) -> str:
    return f"{name}:>'{_moment(instant)}'" if instant is not None else ""


def _until(name: str, instant: datetime | None) -> str:
    return f"{name}:<'{_moment(instant)}'" if instant is not None else ""


def _moment(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
