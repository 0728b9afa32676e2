"""Tests tagging customers by spend: what counts as spend, which tier it reaches, and which tags change.

See docs/design/templates-catalogue.md#tag-customers-by-spend.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steward.connectors.base.queries import RecordPage
from steward.connectors.base.records import Customer, Order, Payment
from steward.model.run import Mode, RunStatus
from steward.steps.base import StoreEvent, TooManyChanges
from steward.templates.base import SetupContext
from steward.templates.tag_customers_by_spend import TEMPLATE
from tests.templates.order_stage import CHANGES, Orders, OrderStage, ids, order
from tests.templates.sales import LineSpec, Market, Sale
from tests.templates.stage import NOW, SHOP, connection

TIERS = [{"tag": "silver", "min_spend": "100.00"}, {"tag": "gold", "min_spend": "250"}]


def _spent(total: str) -> tuple[LineSpec, ...]:
    return (LineSpec(total=total),)


# (customer, tags before, orders, tags after): spend is paid orders of the last 30 days less refunds
PEOPLE: tuple[tuple[str, tuple[str, ...], tuple[Sale, ...], list[str]], ...] = (
    (
        "Ada",
        ("silver", "wholesale"),
        (Sale("A1", _spent("150.00"), payment="paid"), Sale("A2", _spent("100.00"), payment="paid")),
        ["gold", "wholesale"],
    ),
    ("Ben", (), (Sale("B1", _spent("99.99"), payment="paid"), Sale("B2", _spent("90.00"))), []),
    ("Cleo", ("Gold",), (Sale("C1", _spent("100.00"), payment="paid"),), ["silver"]),
    ("Dora", ("gold",), (Sale("D1", _spent("400.00"), payment="paid", hours=32 * 24),), []),
    (
        "Emil",
        ("silver",),
        (Sale("E1", _spent("400.00"), payment="partly_refunded", refunded="250.00"),),
        ["silver"],
    ),
    ("Fay", ("silver",), (Sale("F1", _spent("300.00"), payment="paid", cancelled=True),), []),
    ("Gus", ("GOLD",), (Sale("G1", _spent("300.00"), payment="paid"),), ["GOLD"]),
)
CHANGED = {name for name, before, _, after in PEOPLE if sorted(before) != after}


async def test_customers_have_the_tag_of_the_highest_tier_they_reached(market: Market) -> None:
    """Gives each customer the tag of their tier, reached at exactly its bound, and leaves other tags alone.

    See docs/design/templates-catalogue.md#tag-customers-by-spend.
    """
    for name, before, sales, _ in PEOPLE:
        market.people(name, tags=before)
        market.place(*(replace(sale, buyer=name) for sale in sales))
    market.place(Sale("X1", _spent("900.00"), payment="paid"))  # an order of a guest
    automation = await market.set_up("tag-customers-by-spend", tiers=TIERS, window_days=30)
    tried = await market.run(automation, Mode.TEST)
    assert (set(tried.changes), market.store.writes()) == (CHANGED, 0)
    came = await market.run(automation)
    assert came.run.status is RunStatus.SUCCEEDED
    assert {name: market.tags(name) for name, *_ in PEOPLE} == {name: after for name, _, _, after in PEOPLE}
    assert came.changes["Ada"] == {"Tags": (["silver", "wholesale"], ["gold", "wholesale"])}
    assert came.beside["Ada"] == "Spend 250.00 EUR. Tier before: silver; after: gold."
    assert came.result == {
        "checked": 7,
        "changed": 4,
        "unchanged": 3,
        "by_tier": [{"tag": "silver", "customers": 2}, {"tag": "gold", "customers": 2}],
    }
    assert (await market.run(automation)).changes == {}


@dataclass
class Shop(Orders):
    """Adds customers to the fake store of orders."""

    people: list[Customer] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)

    async def read(self, op: Any, params: Any) -> Any:
        """Yields pages as a store's reader does; customers come twice.

        See docs/design/templates.md#e10-pages.
        """
        self.ops.append(op.name)
        if op.name in ("customers", "customer"):
            expected = getattr(params, "id", None)
            yield RecordPage(tuple(customer for customer in self.people if expected in (None, customer.id)))
            yield RecordPage(tuple(self.people[:1]))
        else:
            async for page in super().read(op, params):
                yield page


def _customer(number: str, spent: str | None = None, **changed: Any) -> Customer:
    about: dict[str, Any] = {
        "id": number, "email": f"c{number}@shop.example", "name": "", "tags": (), "orders_count": None,
        "spent": spent, "modified_at": NOW, "currency": "EUR",
    }  # fmt: skip
    return Customer(**{**about, **changed})


def _paid(number: str, customer: str | None, total: str, **changed: Any) -> Order:
    paid = {"paid": True, "payment": Payment.PAID, "customer_id": customer, "total": total}
    return order(number, **{**paid, **changed})


def _tagging(people: list[Customer], orders: list[Order], **inputs: Any) -> OrderStage:
    return OrderStage(
        TEMPLATE,
        {"tiers": TIERS, **inputs},
        shop=Shop(orders, people=people),
        store=connection("shopify", SHOP),
        changes=CHANGES["shopify"],
    )


async def test_the_platforms_own_total_is_used_where_it_gives_one() -> None:
    """Uses the platform's total without reading orders, unless it is in another currency.

    See docs/design/templates-catalogue.md#tag-customers-by-spend and
    docs/design/templates.md#e13-currencies.
    """
    people = [_customer("1", "250.00"), _customer("2", "99.99")]
    stage = _tagging(people, [])
    run = await stage.run()
    assert (ids(run), run.result["checked"], stage.shop.ops) == (["1"], 2, ["customers"])
    foreign = _tagging([_customer("1", "900.00", currency="USD")], [_paid("5", "1", "100.00")])
    assert (await foreign.run()).result["by_tier"][0] == {"tag": "silver", "customers": 1}
    assert foreign.shop.ops == ["customers", "orders"]


@pytest.mark.parametrize(
    "changed",
    [
        {"paid": False, "payment": Payment.AUTHORIZED},
        {"currency": "USD"},
        {"test": True},
        {"cancelled_at": NOW},
        {"refunded": "20.01"},
    ],
)
async def test_unpaid_test_and_foreign_orders_do_not_count_as_spend(changed: dict[str, Any]) -> None:
    """Leaves unpaid and cancelled orders, test orders, other currencies and refunds out of the spend.

    See docs/design/templates-catalogue.md#tag-customers-by-spend and
    docs/design/templates.md#e13-currencies.
    """
    stage = _tagging([_customer("1")], [_paid("5", "1", "120.00", **changed)])
    assert ids(await stage.run()) == []


async def test_the_window_begins_with_a_local_day() -> None:
    """Begins the window with a day of Berlin: 30 days before 20 November is 20 October at 22:00 UTC.

    See docs/design/templates.md#e16-days-and-windows.
    """
    start = datetime(2026, 10, 20, 22, 0, tzinfo=UTC)
    before = start - timedelta(seconds=1)
    for placed, tagged_ids in ((start, ["1"]), (before, [])):
        stage = _tagging([_customer("1")], [_paid("5", "1", "120.00", created_at=placed)], window_days=30)
        assert ids(await stage.run()) == tagged_ids


async def test_an_event_looks_at_the_customer_of_its_order_alone() -> None:
    """Reads only the customer of the event's order; a guest or a deleted order gives none.

    See docs/design/templates.md#rules.
    """
    people = [_customer("1", "300.00"), _customer("2", "300.00")]
    stage = _tagging(people, [_paid("5", "2", "20.00"), _paid("6", None, "900.00")])
    run = await stage.run(event=StoreEvent("orders/paid", "order", "5"))
    assert (ids(run), run.result["checked"]) == (["2"], 1)
    for number in ("6", "7"):
        none = await stage.run(event=StoreEvent("orders/paid", "order", number))
        assert (none.failed, none.result["checked"]) == (None, 0)


def test_two_tiers_alike_are_refused() -> None:
    """Refuses tiers with the same tag, whatever its case, or the same bound.

    See docs/design/templates-catalogue.md#tag-customers-by-spend.
    """
    alike = [*TIERS, {"tag": "Silver", "min_spend": "1"}, {"tag": "x", "min_spend": "250.0"}]
    refused = TEMPLATE.check_connections({"tiers": alike}, SetupContext(None, {}))
    assert list(refused) == ["inputs.tiers.2", "inputs.tiers.3"]


async def test_too_many_changes_are_not_proposed() -> None:
    """Proposes exactly `limit` changes and fails on one more.

    See docs/design/templates.md#e11-over-the-limit.
    """
    people = [_customer(str(number), "250.00") for number in range(3)]
    assert len((await _tagging(people, [], limit=3).run()).proposals) == 3
    assert isinstance((await _tagging(people, [], limit=2).run()).failed, TooManyChanges)
