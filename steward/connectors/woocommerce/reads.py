"""Reads orders, refunds, customers, changed objects and raw objects of a WooCommerce shop."""

import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from decimal import Decimal

from steward.connectors.base.deliveries import ChangedQuery, Event, IdsQuery
from steward.connectors.base.queries import (
    ById,
    CustomersQuery,
    ObjectsQuery,
    OrdersQuery,
    RecordPage,
    RefundsQuery,
)
from steward.connectors.base.records import Customer, Order, Refund
from steward.connectors.woocommerce import topics
from steward.connectors.woocommerce.orders import (
    CUSTOMER_FIELDS,
    DRAFTS,
    OPEN,
    ORDER_FIELDS,
    REFUND_FIELDS,
    TAGS_KEY,
    customer_of,
    order_of,
    refund_of,
)
from steward.connectors.woocommerce.pages import ListPages, modified_since, moment, number_of
from steward.connectors.woocommerce.responses import Row, id_of
from steward.connectors.woocommerce.variations import LIST_PATH
from steward.model.json import JsonValue
from steward.outbound.errors import Invalid, RemoteNotFound, WrongAddress
from steward.outbound.response import Decoded

_SEEN_ORDER = "id,status,date_paid_gmt,refunds,date_created_gmt,date_modified_gmt"
_SEEN_PRODUCT = (
    "id,type,status,parent_id,manage_stock,stock_quantity,stock_status,date_created_gmt,date_modified_gmt"
)
_META = {"include_meta": TAGS_KEY}
# The shop's own filters by which an imported workflow may narrow its reads.
_COMMON = ("search", "exclude", "include", "orderby", "order")
_DATED = (*_COMMON, "after", "before", "modified_after", "modified_before", "dates_are_gmt", "status")
_FILTERS: dict[str, frozenset[str]] = {
    "product": frozenset(
        (
            *(*_DATED, "slug", "type", "sku", "featured", "category", "tag", "shipping_class", "on_sale"),
            *("min_price", "max_price", "stock_status", "parent"),
        )
    ),
    "order": frozenset((*_DATED, "customer", "product", "dp")),
    "customer": frozenset((*_COMMON, "email", "role")),
}


class OrderAndCustomerReader:
    """Reads everything but products from one shop."""

    def __init__(self, pages: ListPages, *, base: str, lists_variations: bool) -> None:
        self._pages = pages
        self._base = base
        self._lists_variations = lists_variations

    async def orders(self, query: OrdersQuery) -> AsyncIterator[RecordPage[Order]]:
        """Yields orders without drafts. Raises CallError."""
        params = _order_params(query)
        async for rows, total in self._pages.fetch("/orders", query.ids, params, "orders"):
            orders = tuple(order_of(row, base=self._base) for row in _without_drafts(rows))
            yield RecordPage(orders, total=total)

    async def order(self, query: ById) -> AsyncIterator[RecordPage[Order]]:
        """Yields one order. Raises RemoteNotFound for an order in the trash."""
        row = await self._pages.fetch_one(f"/orders/{number_of(query.id)}", ORDER_FIELDS, "order")
        yield RecordPage((order_of(row, base=self._base),), total=1)

    async def refunds(self, query: RefundsQuery) -> AsyncIterator[RecordPage[Refund]]:
        """Yields the refunds of an order with their times."""
        path = f"/orders/{number_of(query.order_id)}/refunds"
        async for rows, total in self._pages.fetch_all(path, {"_fields": REFUND_FIELDS}, "refunds"):
            yield RecordPage(tuple(refund_of(row) for row in rows), total=total)

    async def customers(self, query: CustomersQuery) -> AsyncIterator[RecordPage[Customer]]:
        """Yields customers of every role; filters them by time here, because the shop has no such filter."""
        params = {"_fields": CUSTOMER_FIELDS, "role": "all", **_META}
        after = query.modified_after
        async for rows, total in self._pages.fetch("/customers", query.ids, params, "customers"):
            records = [customer_of(row, base=self._base) for row in rows]
            modified = [
                customer
                for customer in records
                if after is None or customer.modified_at is None or customer.modified_at > after
            ]
            yield RecordPage(tuple(modified), total=total)

    async def customer(self, query: ById) -> AsyncIterator[RecordPage[Customer]]:
        """Yields one customer."""
        row = await self._pages.fetch_one(f"/customers/{number_of(query.id)}", CUSTOMER_FIELDS, "customer")
        yield RecordPage((customer_of(row, base=self._base),), total=1)

    async def objects(self, query: ObjectsQuery) -> AsyncIterator[RecordPage[dict[str, JsonValue]]]:
        """Yields objects as the shop serves them, for imported workflows. Raises for an unknown filter."""
        if query.resource not in _FILTERS:
            raise Invalid(["resource"], "There are products, orders and customers.")
        path = f"/{query.resource}s"
        if query.id is not None:
            row = await self._pages.fetch_one(f"{path}/{number_of(query.id)}", "", "objects")
            yield RecordPage((raw_object(row),), total=1)
            return
        params = dict(query.filters)
        for name in params.keys() - _FILTERS[query.resource]:
            raise Invalid([name], f"The shop cannot be asked by {name[:80]}.")
        remaining = sys.maxsize if query.limit is None else query.limit
        if remaining <= 0:
            return
        async for rows, total in self._pages.fetch_all(path, params, "objects", size=min(remaining, 100)):
            page_rows = rows[:remaining]
            yield RecordPage(tuple(raw_object(row) for row in page_rows), total=total)
            remaining -= len(page_rows)
            if remaining <= 0:
                return

    async def changed(self, query: ChangedQuery) -> AsyncIterator[RecordPage[Event]]:
        """Yields an event for each object changed since `modified_after`; also serves the initial read.

        An object created since then also has a creation event. If the shop lists the variations of all
        products, changed variations are read from that list, else with the changed products.
        """
        kind = query.object_type
        if kind not in (topics.ORDER, topics.PRODUCT):
            return
        fields = _SEEN_ORDER if kind == topics.ORDER else _SEEN_PRODUCT
        params = {"_fields": fields, "status": "any", **modified_since(query.modified_after)}
        parents: list[str] = []
        async for rows, total in self._pages.fetch_all(f"/{kind}s", params, "changed"):
            live_rows = _without_drafts(rows)
            parents += [id_of(row) for row in live_rows if row.get("type") == "variable"]
            yield RecordPage(
                tuple(event for row in live_rows for event in _events(kind, row, query)), total=total
            )
        if kind == topics.PRODUCT:
            async for page in self._changed_variations(parents, params, query):
                yield page

    async def ids(self, query: IdsQuery) -> AsyncIterator[RecordPage[str]]:
        """Yields every id of a type, with drafts but without the trash."""
        if query.object_type not in (topics.ORDER, topics.PRODUCT):
            return
        params = {"_fields": "id", "status": "any"}
        async for rows, total in self._pages.fetch_all(f"/{query.object_type}s", params, "ids"):
            yield RecordPage(tuple(id_of(row) for row in rows), total=total)

    async def _changed_variations(
        self, parents: Sequence[str], params: Mapping[str, str], query: ChangedQuery
    ) -> AsyncIterator[RecordPage[Event]]:
        """Yields the changed variations of all products, or of `parents` if the shop cannot list them."""
        if self._lists_variations:
            try:
                async for rows, _ in self._pages.fetch_all(LIST_PATH, params, "changed"):
                    # A variation whose product was permanently deleted belongs to no product.
                    held = [{**row, "type": "variation"} for row in rows if row.get("parent_id")]
                    yield RecordPage(
                        tuple(event for row in held for event in _events(topics.PRODUCT, row, query))
                    )
            except (RemoteNotFound, WrongAddress):
                # The shop was downgraded since it was last checked.
                self._lists_variations = False
            else:
                return
        for parent in parents:
            yield RecordPage(tuple(await self._variations_of(parent, query)))

    async def _variations_of(self, parent: str, query: ChangedQuery) -> list[Event]:
        events_found: list[Event] = []
        path, params = f"/products/{parent}/variations", {"_fields": _SEEN_PRODUCT}
        async for rows, _ in self._pages.fetch_all(path, params, "changed"):
            for row in rows:
                held = {**row, "type": "variation", "parent_id": int(parent)}
                events = _events(topics.PRODUCT, held, query)
                after = query.modified_after
                events_found += [
                    event
                    for event in events
                    if after is None or event.modified_at is None or event.modified_at > after
                ]
        return events_found


def _without_drafts(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.get("status") not in DRAFTS]


def _order_params(query: OrdersQuery) -> dict[str, str]:
    statuses = query.statuses or (OPEN if query.open_only else None)
    params = {"_fields": ORDER_FIELDS, **_META, "status": ",".join(statuses) if statuses else "any"}
    if query.customer_id is not None:
        params["customer"] = number_of(query.customer_id)
    dates = {
        "after": query.created_after,
        "before": query.created_before,
        "modified_after": query.modified_after,
    }
    date_params = {name: moment(instant) for name, instant in dates.items() if instant is not None}
    return params | ({**date_params, "dates_are_gmt": "true"} if date_params else {})


def _events(kind: str, row: Row, query: ChangedQuery) -> list[Event]:
    updated = topics.event_of(f"{kind}.updated", row)
    after, created = query.modified_after, updated.created_at
    if after is None or created is None or created <= after:
        return [updated]
    return [topics.event_of(f"{kind}.created", row), updated]


def raw_object(row: Mapping[str, Decoded]) -> dict[str, JsonValue]:
    """Returns an object as the shop serves it, as JSON values."""
    return {name: _json(value) for name, value in row.items()}


def _json(value: Decoded) -> JsonValue:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return raw_object(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_json(item) for item in value]
    return value
