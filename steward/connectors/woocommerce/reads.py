"""Reads of a WooCommerce shop beside its products.

Oorders, refunds, customers, what changed, raw objects.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
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
from steward.connectors.woocommerce.answers import Row, id_of
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
from steward.connectors.woocommerce.pages import ListPages, moment, number_of
from steward.connectors.woocommerce.variations import LIST_PATH
from steward.model.json import JsonValue
from steward.outbound.errors import Invalid, RemoteNotFound, WrongAddress
from steward.outbound.response import Decoded

_SEEN_ORDER = "id,status,date_paid_gmt,refunds,date_created_gmt,date_modified_gmt"
_SEEN_PRODUCT = (
    "id,type,status,parent_id,manage_stock,stock_quantity,stock_status,date_created_gmt,date_modified_gmt"
)
_META = {"include_meta": TAGS_KEY}
# What an imported workflow may narrow its reads by: names of the shop's own filters.
_EVERY = ("search", "exclude", "include", "orderby", "order")
_DATED = (*_EVERY, "after", "before", "modified_after", "modified_before", "dates_are_gmt", "status")
_FILTERS: dict[str, frozenset[str]] = {
    "product": frozenset(
        (
            *(*_DATED, "slug", "type", "sku", "featured", "category", "tag", "shipping_class", "on_sale"),
            *("min_price", "max_price", "stock_status", "parent"),
        )
    ),
    "order": frozenset((*_DATED, "customer", "product", "dp")),
    "customer": frozenset((*_EVERY, "email", "role")),
}


class OrderAndCustomerReader:
    """The reads of one shop beside its products."""

    def __init__(self, pages: ListPages, *, base: str, lists_variations: bool) -> None:
        self._pages = pages
        self._base = base
        self._lists_variations = lists_variations

    async def orders(self, ask: OrdersQuery) -> AsyncIterator[RecordPage[Order]]:
        """Orders, drafts left out. Raises CallError."""
        params: dict[str, str] = {"_fields": ORDER_FIELDS, **_META}
        statuses = ask.statuses or (OPEN if ask.open_only else None)
        params["status"] = ",".join(statuses) if statuses else "any"
        if ask.customer_id is not None:
            params["customer"] = number_of(ask.customer_id)
        dates = {
            "after": ask.created_after,
            "before": ask.created_before,
            "modified_after": ask.modified_after,
        }
        named = {name: moment(at) for name, at in dates.items() if at is not None}
        params |= {**named, "dates_are_gmt": "true"} if named else {}
        read = (
            self._pages.fetch_all("/orders", params, "orders")
            if ask.ids is None
            else self._pages.fetch_by_ids("/orders", ask.ids, params, "orders")
        )
        async for rows, total in read:
            kept = [row for row in rows if row.get("status") not in DRAFTS]
            yield RecordPage(tuple(order_of(row, base=self._base) for row in kept), total=total)

    async def order(self, ask: ById) -> AsyncIterator[RecordPage[Order]]:
        """One order. Raises RemoteNotFound for one in the trash."""
        row = await self._pages.fetch_one(f"/orders/{number_of(ask.id)}", ORDER_FIELDS, "order")
        yield RecordPage((order_of(row, base=self._base),), total=1)

    async def refunds(self, ask: RefundsQuery) -> AsyncIterator[RecordPage[Refund]]:
        """The refunds of an order, with their times."""
        path = f"/orders/{number_of(ask.order_id)}/refunds"
        async for rows, total in self._pages.fetch_all(path, {"_fields": REFUND_FIELDS}, "refunds"):
            yield RecordPage(tuple(refund_of(row) for row in rows), total=total)

    async def customers(self, ask: CustomersQuery) -> AsyncIterator[RecordPage[Customer]]:
        """Customers of every role; the shop has no filter by time, so it is looked at here."""
        params = {"_fields": CUSTOMER_FIELDS, "role": "all", **_META}
        read = (
            self._pages.fetch_all("/customers", params, "customers")
            if ask.ids is None
            else self._pages.fetch_by_ids("/customers", ask.ids, params, "customers")
        )
        after = ask.modified_after
        async for rows, total in read:
            found = [customer_of(row, base=self._base) for row in rows]
            kept = [
                each
                for each in found
                if after is None or each.modified_at is None or each.modified_at > after
            ]
            yield RecordPage(tuple(kept), total=total)

    async def customer(self, ask: ById) -> AsyncIterator[RecordPage[Customer]]:
        """One customer."""
        row = await self._pages.fetch_one(f"/customers/{number_of(ask.id)}", CUSTOMER_FIELDS, "customer")
        yield RecordPage((customer_of(row, base=self._base),), total=1)

    async def objects(self, ask: ObjectsQuery) -> AsyncIterator[RecordPage[dict[str, JsonValue]]]:
        """Objects as the shop gives them, for imported workflows. Raises Invalid for another filter."""
        if ask.resource not in _FILTERS:
            raise Invalid(["resource"], "There are products, orders and customers.")
        path = f"/{ask.resource}s"
        if ask.id is not None:
            row = await self._pages.fetch_one(f"{path}/{number_of(ask.id)}", "", "objects")
            yield RecordPage((_raw(row),), total=1)
            return
        params = dict(ask.filters)
        for name in params.keys() - _FILTERS[ask.resource]:
            raise Invalid([name], f"The shop cannot be asked by {name[:80]}.")
        left = ask.limit
        if left is not None and left <= 0:
            return
        size = 100 if left is None else min(left, 100)
        async for rows, total in self._pages.fetch_all(path, params, "objects", size=size):
            kept = rows if left is None else rows[:left]
            yield RecordPage(tuple(_raw(row) for row in kept), total=total)
            if left is not None:
                left -= len(kept)
                if left <= 0:
                    return

    async def changed(self, ask: ChangedQuery) -> AsyncIterator[RecordPage[Event]]:
        """What deliveries would have told since then; also the first fill of what was last seen.

        An object that came into being since is told as created as well. Where the shop lists the variations
        of all products, those that changed are read from that list; else with the products that changed.
        """
        kind = ask.object_type
        if kind not in (topics.ORDER, topics.PRODUCT):
            return
        fields = _SEEN_ORDER if kind == topics.ORDER else _SEEN_PRODUCT
        params: dict[str, str] = {"_fields": fields, "status": "any"}
        if ask.modified_after is not None:
            params |= {"modified_after": moment(ask.modified_after), "dates_are_gmt": "true"}
        parents: list[str] = []
        async for rows, total in self._pages.fetch_all(f"/{kind}s", params, "changed"):
            kept = [row for row in rows if row.get("status") not in DRAFTS]
            parents += [id_of(row) for row in kept if row.get("type") == "variable"]
            yield RecordPage(tuple(event for row in kept for event in _events(kind, row, ask)), total=total)
        if kind == topics.PRODUCT:
            async for page in self._changed_variations(parents, params, ask):
                yield page

    async def ids(self, ask: IdsQuery) -> AsyncIterator[RecordPage[str]]:
        """Every id of a type, drafts and all but the trash."""
        if ask.object_type not in (topics.ORDER, topics.PRODUCT):
            return
        params = {"_fields": "id", "status": "any"}
        async for rows, total in self._pages.fetch_all(f"/{ask.object_type}s", params, "ids"):
            yield RecordPage(tuple(id_of(row) for row in rows), total=total)

    async def _changed_variations(
        self, parents: Sequence[str], params: Mapping[str, str], ask: ChangedQuery
    ) -> AsyncIterator[RecordPage[Event]]:
        """The changed variations of all products; of `parents` alone where the shop has no list of them."""
        if self._lists_variations:
            try:
                async for rows, _ in self._pages.fetch_all(LIST_PATH, params, "changed"):
                    # One whose product is gone for good belongs to no product.
                    held = [{**row, "type": "variation"} for row in rows if row.get("parent_id")]
                    yield RecordPage(
                        tuple(event for row in held for event in _events(topics.PRODUCT, row, ask))
                    )
            except (RemoteNotFound, WrongAddress):
                # The shop went back to an older version since it was last checked.
                self._lists_variations = False
            else:
                return
        for parent in parents:
            yield RecordPage(tuple(await self._variations_of(parent, ask)))

    async def _variations_of(self, parent: str, ask: ChangedQuery) -> list[Event]:
        found: list[Event] = []
        path, params = f"/products/{parent}/variations", {"_fields": _SEEN_PRODUCT}
        async for rows, _ in self._pages.fetch_all(path, params, "changed"):
            for row in rows:
                held = {**row, "type": "variation", "parent_id": int(parent)}
                events = _events(topics.PRODUCT, held, ask)
                after = ask.modified_after
                found += [
                    event
                    for event in events
                    if after is None or event.modified_at is None or event.modified_at > after
                ]
        return found


def _events(kind: str, row: Row, ask: ChangedQuery) -> list[Event]:
    updated = topics.event_of(f"{kind}.updated", row)
    after, created = ask.modified_after, updated.created_at
    if after is None or created is None or created <= after:
        return [updated]
    return [topics.event_of(f"{kind}.created", row), updated]


def _raw(row: Mapping[str, Decoded]) -> dict[str, JsonValue]:
    return {name: _json(value) for name, value in row.items()}


def _json(value: Decoded) -> JsonValue:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return _raw(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_json(each) for each in value]
    return value
