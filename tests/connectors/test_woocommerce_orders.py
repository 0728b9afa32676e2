"""Orders, customers and statuses: read as common records, changed once, and notes found again."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from steward.connectors.base.commands import (
    AddNote,
    CancelOrder,
    SetCustomerTags,
    SetOrderStatus,
    SetOrderTags,
    SetStatus,
)
from steward.connectors.base.deliveries import CHANGED, IDS, ChangedQuery, IdsQuery
from steward.connectors.base.queries import (
    CATEGORIES,
    CUSTOMER,
    CUSTOMERS,
    OBJECTS,
    ORDER,
    ORDERS,
    PRODUCTS,
    REFUNDS,
    ById,
    CustomersQuery,
    NoParameters,
    ObjectsQuery,
    OrdersQuery,
    ProductsQuery,
    RefundsQuery,
)
from steward.connectors.base.records import Fulfilment, Payment
from steward.connectors.base.writing import WriteState
from steward.connectors.woocommerce.orders import order_of, tags_of
from steward.model.change import Batch, Recovery
from steward.model.undo import undoability
from steward.outbound.errors import Invalid, RemoteNotFound
from tests.connectors.fake_connections import Connection, FakePlatformsClient
from tests.connectors.recorded import exchange
from tests.connectors.test_woocommerce_world import CASES

APPLIED = WriteState.APPLIED


async def test_orders_customers_and_refunds_are_read_whole_and_nothing_is_written(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Reads orders, customers and refunds with each filter, and writes nothing.

    See docs/design/connectors.md#common-records and docs/design/connectors.md#test-mode.
    """
    held = world.world.state.shop
    orders = await shop.all(ORDERS, OrdersQuery())
    assert [int(each_order.id) for each_order in orders] == sorted(held.orders)
    customers = await shop.all(CUSTOMERS, CustomersQuery())
    assert {customer.email for customer in customers} == {row["email"] for row in held.customers.values()}
    assert await shop.all(CATEGORIES, NoParameters())
    open_ones = await shop.all(ORDERS, OrdersQuery(open_only=True))
    assert {item.status for item in open_ones} <= {"pending", "processing", "on-hold"}
    assert [entry.id for entry in await shop.all(ORDERS, OrdersQuery(ids=(orders[2].id, "999999")))] == [
        orders[2].id
    ]
    named = await shop.all(ORDERS, OrdersQuery(customer_id=customers[0].id))
    assert {element.customer_id for element in named} <= {customers[0].id}
    middle = sorted(placed_order.created_at for placed_order in orders if placed_order.created_at)[20]
    later = await shop.all(ORDERS, OrdersQuery(created_after=middle))
    assert later
    assert all(
        placed_order.created_at is not None and placed_order.created_at > middle for placed_order in later
    )
    [order] = await shop.all(ORDER, ById(orders[0].id))
    assert order == orders[0]
    [person] = await shop.all(CUSTOMER, ById(customers[0].id))
    assert person.name
    for op, query in ((ORDER, ById("999999")), (CUSTOMER, ById("x"))):
        with pytest.raises(RemoteNotFound):
            await shop.all(op, query)
    # The shop takes the order as a filter of refunds and does not say that there is none.
    assert await shop.all(REFUNDS, RefundsQuery("999999")) == []
    assert world.written() == []


def test_a_recorded_order_says_how_far_it_is_paid_and_sent() -> None:
    """Derives payment and fulfilment of a recorded order; cash on delivery counts as authorised.

    See docs/design/connectors.md#common-records.
    """
    row = exchange("orders.get")["response"]["body"]
    order = order_of(row, base="https://shop.example")
    assert (order.payment, order.fulfilment, order.country, order.net) == (
        Payment.PAID, Fulfilment.FULFILLED, "DE", "25.50",
    )  # fmt: skip
    assert (order.lines[0].sku, order.lines[0].variant_id, order.lines[0].open_quantity) == (
        "SKU-003",
        "12",
        0,
    )
    refunds = exchange("order.after_refund")["response"]["body"]["refunds"]
    cases: list[tuple[dict[str, Any], Payment]] = [
        ({"refunds": refunds}, Payment.PARTLY_REFUNDED),
        ({"status": "refunded"}, Payment.REFUNDED),
        ({"refunds": [{"id": 1, "reason": "", "total": "-25.50"}]}, Payment.REFUNDED),
        ({"status": "processing", "date_paid_gmt": None}, Payment.AUTHORIZED),
        ({"status": "pending", "date_paid_gmt": None}, Payment.PENDING),
        ({"status": "on-hold", "date_paid_gmt": None}, Payment.ON_HOLD),
        ({"status": "cancelled", "date_paid_gmt": None}, Payment.VOIDED),
    ]
    for change, payment in cases:
        assert order_of({**row, **change}, base="").payment is payment
    for value in ("sale, big", ["big", "sale"], ["sale", "", "big "]):
        assert tags_of({"meta_data": [{"id": 1, "key": "steward_tags", "value": value}]}) == ("big", "sale")
    assert tags_of({"meta_data": [{"key": "other", "value": "x"}]}) == ()


async def plans(shop: Connection) -> dict[str, Any]:
    """Returns one change of every operation."""
    order = (await shop.all(ORDERS, OrdersQuery(statuses=("processing",))))[0]
    waiting = (await shop.all(ORDERS, OrdersQuery(statuses=("pending", "on-hold"))))[0]
    customer = (await shop.all(CUSTOMERS, CustomersQuery()))[0]
    product = (await shop.all(PRODUCTS, ProductsQuery()))[0]
    return {
        "order.set_tags": SetOrderTags(order, ("big", "Gold")),
        "customer.set_tags": SetCustomerTags(customer, ("vip",)),
        "order.set_status": SetOrderStatus(order, "completed"),
        "order.cancel": CancelOrder(waiting),
        "product.set_status": SetStatus(product, "draft" if product.status == "publish" else "publish"),
        "order.add_note": AddNote(order, "Checked by hand"),
    }


NAMES = (
    *("order.set_tags", "customer.set_tags", "order.set_status", "order.cancel", "product.set_status"),
    "order.add_note",
)


@pytest.mark.parametrize(("fault", "state", "settled"), CASES, ids=[str(case[0]) for case in CASES])
@pytest.mark.parametrize("name", NAMES)
async def test_a_write_that_breaks_arrives_once_and_is_settled(
    shop: Connection,
    world: FakePlatformsClient,
    name: str,
    fault: dict[str, Any],
    state: WriteState,
    settled: WriteState,
) -> None:
    """Sends a breaking write once and settles a note by its marker and the rest by reading.

    See docs/design/writes.md#protocol-of-one-write and docs/design/writes.md#idempotency-classes.
    """
    [proposal] = shop.plan(name, (await plans(shop))[name]).proposals
    [part] = proposal.parts
    op = shop.connector.writes[name]
    [before] = await shop.reader().current([part])
    assert op.same(part.before, before.value)
    methods = ("POST", "PUT")
    for method in methods:
        world.world.state.faults.make({"method": method, "path": "/wp-json/wc/v3/**", **fault})
    keys = world.keys(1)
    [outcome] = await shop.writer(keys).apply(Batch((part,), tuple(keys), keys[0]))
    assert outcome.state is state
    assert len(world.written()) == 1
    await world.clock.advance(60)
    if op.recovery is Recovery.MARKED:
        assert await shop.reader().find_marker(part, keys[0]) is (settled is APPLIED)
        assert not await shop.reader().find_marker(part, "another key")
    else:
        assert (await shop.reader().confirm(part)).state is settled
    assert len(world.written()) == 1


async def test_a_change_is_applied_once_and_then_is_no_change(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Applies each change once; cancellations and notes cannot be undone, and equal values are no change.

    See docs/design/connectors.md#change-operations.
    """
    for name, query in (await plans(shop)).items():
        [proposal] = shop.plan(name, query).proposals
        assert (await shop.send(proposal.parts))[0].state is APPLIED
        inverses = [shop.connector.writes[part.operation].inverse(part) for part in proposal.parts]
        assert undoability(inverses).undoable == (name not in ("order.cancel", "order.add_note"))
        if name != "order.add_note":
            [now] = await shop.reader().current(proposal.parts)
            assert shop.connector.writes[name].same(proposal.parts[0].after, now.value)
    again = (await shop.all(ORDERS, OrdersQuery(ids=("1",)))) or (await shop.all(ORDERS, OrdersQuery()))[:1]
    assert shop.plan("order.set_status", SetOrderStatus(again[0], again[0].status)).proposals == ()
    cleared = [order for order in await shop.all(ORDERS, OrdersQuery()) if order.tags]
    [proposal] = shop.plan("order.set_tags", SetOrderTags(cleared[0], ())).proposals
    assert (await shop.send(proposal.parts))[0].state is APPLIED
    assert (await shop.all(ORDER, ById(cleared[0].id)))[0].tags == ()


async def test_an_order_paid_meanwhile_is_not_cancelled(shop: Connection, world: FakePlatformsClient) -> None:
    """Reports an order that was paid meanwhile as a conflict, and a trashed one as gone.

    See docs/design/templates-catalogue.md#cancel-unpaid-orders.
    """
    order = (await shop.all(ORDERS, OrdersQuery(statuses=("pending", "on-hold"))))[0]
    [proposal] = shop.plan("order.cancel", CancelOrder(order)).proposals
    held = world.world.state.shop.orders[int(order.id)]
    held["date_paid_gmt"] = held["date_modified_gmt"]
    [now] = await shop.reader().current(proposal.parts)
    op = shop.connector.writes["order.cancel"]
    assert not op.same(proposal.parts[0].before, now.value)
    assert not op.same(proposal.parts[0].after, now.value)
    held["status"] = "trash"
    assert (await shop.reader().current(proposal.parts))[0].is_gone


async def test_bad_values_are_problems_and_never_sent(shop: Connection) -> None:
    """Reports invalid values as problems and plans nothing. See docs/design/connectors.md#operations."""
    order = (await shop.all(ORDERS, OrdersQuery()))[0]
    product = (await shop.all(PRODUCTS, ProductsQuery()))[0]
    customer = (await shop.all(CUSTOMERS, CustomersQuery()))[0]
    asks: list[tuple[str, Any, str]] = [
        ("order.set_status", SetOrderStatus(order, "refunded"), "not_a_status"),
        ("order.set_status", SetOrderStatus(order, "cancelled"), "not_a_status"),
        ("order.cancel", CancelOrder(replace(order, status="completed")), "not_cancellable"),
        ("order.set_tags", SetOrderTags(order, ("a,b",)), "not_a_tag"),
        ("customer.set_tags", SetCustomerTags(customer, ("x" * 256,)), "not_a_tag"),
        ("product.set_status", SetStatus(product, "trash"), "not_a_status"),
        ("product.set_status", SetStatus(replace(product, status="future"), "draft"), "not_changeable"),
        ("order.add_note", AddNote(order, "  "), "not_a_note"),
        ("order.add_note", AddNote(order, "x" * 2001), "not_a_note"),
    ]
    for name, query, code in asks:
        planned = shop.plan(name, query)
        assert ([problem.code for problem in planned.problems], planned.proposals) == ([code], ())


async def test_filters_of_imported_reads_are_the_shops_own(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Reads the objects of imported workflows with the shop's own filters and limits.

    See docs/design/imports-n8n.md#node-types.
    """
    [raw] = await shop.all(OBJECTS, ObjectsQuery("order", id=str(min(world.world.state.shop.orders))))
    assert {"line_items", "billing", "_links"} <= raw.keys()
    assert len(await shop.all(OBJECTS, ObjectsQuery("product", limit=7))) == 7
    assert await shop.all(OBJECTS, ObjectsQuery("product", limit=0)) == []
    done = await shop.all(OBJECTS, ObjectsQuery("order", filters=(("status", "completed"),)))
    assert {row["status"] for row in done} == {"completed"}
    assert len(await shop.all(OBJECTS, ObjectsQuery("customer"))) > 5
    for query in (ObjectsQuery("order", filters=(("per_page", "5"),)), ObjectsQuery("coupon")):
        with pytest.raises(Invalid):
            await shop.all(OBJECTS, query)


async def test_catch_up_reports_changes_as_a_delivery_would(
    shop: Connection, world: FakePlatformsClient
) -> None:
    """Reads changed objects as the events that deliveries would have carried.

    See docs/design/events.md#catch-up and docs/design/connectors.md#topics.
    """
    held = world.world.state.shop
    filled = await shop.all(CHANGED, ChangedQuery("product"))
    assert {event.object_id for event in filled} == {
        *map(str, held.products),
        *(f"{row['parent_id']}/{number}" for number, row in held.variations.items()),
    }  # fmt: skip
    events = shop.connector.events
    assert events is not None
    assert all(events.initial_snapshot(event) for event in filled)
    now = world.clock.now()
    assert await shop.all(CHANGED, ChangedQuery("order", modified_after=now)) == []
    await world.clock.advance(60)
    order = (await shop.all(ORDERS, OrdersQuery(statuses=("processing",))))[0]
    [proposal] = shop.plan("order.set_status", SetOrderStatus(order, "completed")).proposals
    assert await shop.apply([proposal]) == [APPLIED]
    [event] = await shop.all(CHANGED, ChangedQuery("order", modified_after=now))
    assert (event.native, event.object_id) == ("order.updated", order.id)
    assert "orders/fulfilled" in events.derive(event, {"status": "processing"}, since=now).topics
    ids = await shop.all(IDS, IdsQuery("product"))
    assert sorted(map(int, ids)) == sorted(held.products)


class Shrinking(httpx.AsyncBaseTransport):
    """A list of 250 ids from which two disappear after the first page was read."""

    def __init__(self) -> None:
        self.ids = list(range(1, 251))
        self.pages: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers one page of the ids that are there now."""
        number, size = int(request.url.params["page"]), int(request.url.params["per_page"])
        self.pages.append(number)
        rows = [{"id": each, "name": f"t{each}"} for each in self.ids[(number - 1) * size : number * size]]
        headers = {"X-WP-Total": str(len(self.ids)), "X-WP-TotalPages": str(-(-len(self.ids) // size))}
        if number == 1 and len(self.ids) == 250:
            self.ids = self.ids[2:]
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(json.dumps(rows).encode()))


async def test_objects_that_move_between_pages_are_read_once(world: FakePlatformsClient) -> None:
    """Reads again from the first page when the total changes, so that no id is lost or doubled.

    See docs/design/templates.md#e10-pages.
    """
    transport = Shrinking()
    shrinking = FakePlatformsClient(world.clock, world.world, transport)
    tags = await shrinking.connection("woocommerce").all(CATEGORIES, NoParameters())
    numbers = [int(tag.id) for tag in tags]
    assert set(range(3, 251)) <= set(numbers)
    assert len(set(numbers)) == len(numbers)
    assert transport.pages == [1, 2, 1, 2, 3]
