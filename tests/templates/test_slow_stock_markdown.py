"""Tests marking down slow stock: what counts as slow, how far prices fall, and how often.

See docs/design/templates-catalogue.md#slow-stock-markdown.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from steward.connectors.base.queries import RecordPage
from steward.connectors.base.records import Order, OrderLine
from steward.model.change import Outcome
from steward.model.ids import IntegrationId
from steward.model.run import Mode
from steward.templates.base import SetupContext
from steward.templates.slow_stock_markdown import MARKDOWNS, TEMPLATE, check_setup
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.stage import NOW, SHOP, Shop, Stage, connection, product, variant

NAME = "slow-stock-markdown"
_GOODS = (
    ProductSpec("Pot", Item("POT-1", price="20.00", stock=5), age_days=200),
    ProductSpec("Mug", sizes={"S": Item("MUG-S", stock=3), "L": Item("MUG-L", stock=0)}, age_days=200),
    ProductSpec("Bowl", Item("BOWL-1", stock=4), age_days=200),
    ProductSpec("Vase", Item("VASE-1", stock=None), age_days=200),
    ProductSpec("Jug", Item("JUG-1", stock=4), age_days=3),
    ProductSpec("Cup", Item("CUP-1", stock=4), age_days=200, status="draft"),
)


async def test_on_each_platform_slow_sellers_are_marked_down_once_and_reported(store: PlatformStore) -> None:
    """Marks down the same variants on both platforms and posts one message; a second run has nothing.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    store.stock(*_GOODS)
    store.sell("BOWL-1", days=10)
    store.sell("POT-1", days=100)
    store.sell("MUG-S", days=5, counts=False)
    inputs = {"no_sale_days": 60, "percent": 25, "floor": "none", "teams": store.both.teams()}
    automation = await store.set_up(NAME, inputs)
    expected = [
        ("Pot (POT-1)", {"Price": ("20.00", "15.00"), "Compare-at price": (None, "20.00")}),
        ("Mug, S (MUG-S)", {"Price": ("10.00", "7.50"), "Compare-at price": (None, "10.00")}),
    ]
    tried = await store.run(automation, Mode.TEST)
    assert (tried.changes[:2], store.writes(), store.both.posted()) == (expected, 0, [])
    came = await store.run(automation)
    assert came.changes[:2] == expected
    assert came.result == {
        "checked": 6,
        "slow": 2,
        "changed": 2,
        "at_floor": 0,
        "without_cost": 0,
        "too_new": 1,
        "done_before": 0,
    }
    assert store.variants("Pot")["POT-1"][:2] == ("15.00", "20.00")
    [message] = store.both.posted()
    assert message["text"].startswith("2 variants marked down at ")
    again = await store.run(automation)
    assert (again.changes, again.result["done_before"], again.result["slow"]) == ([], 2, 0)
    assert len(store.both.posted()) == 1


async def test_the_cost_is_the_floor_where_the_store_has_it(store: PlatformStore) -> None:
    """Marks down no further than the cost, and not at all without a known cost.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    store.stock(
        ProductSpec("Pot", Item("POT-1", price="20.00", cost="16.00"), age_days=200),
        ProductSpec("Mug", Item("MUG-1", price="20.00", cost="8.00"), age_days=200),
        ProductSpec("Jug", Item("JUG-1", price="20.00", cost="20.00"), age_days=200),
        ProductSpec("Cup", Item("CUP-1", price="20.00", cost=None), age_days=200),
    )
    came = await store.run(await store.set_up(NAME, {"no_sale_days": 30, "percent": 50}))
    if store.platform == "woocommerce":
        assert (came.changes, came.result["without_cost"]) == ([], 4)
        return
    assert [fields["Price"] for _, fields in came.changes] == [("20.00", "16.00"), ("20.00", "10.00")]
    assert came.messages == [
        "Not sold for 30 days or more. Stock 5. Cost 16.00. Margin after 0.0 %.",
        "Not sold for 30 days or more. Stock 5. Cost 8.00. Margin after 20.0 %.",
    ]
    counts = [came.result[name] for name in ("slow", "changed", "at_floor", "without_cost")]
    assert counts == [4, 2, 1, 1]


def test_sales_beyond_sixty_days_need_the_wider_permission() -> None:
    """Refuses more than 60 days on a Shopify store without the right `read_all_orders`.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    for days, rights, is_refused in ((60, [], False), (61, [], True), (61, ["read_all_orders"], False)):
        store = connection("shopify", IntegrationId(20), facts={"rights": rights})
        inputs = TEMPLATE.check_inputs({"percent": 10, "no_sale_days": days}).inputs
        faults = check_setup(inputs, SetupContext(store, {}))
        assert list(faults) == (["inputs.no_sale_days"] if is_refused else [])
    inputs = TEMPLATE.check_inputs({"percent": 10, "no_sale_days": 730}).inputs
    assert check_setup(inputs, SetupContext(connection("woocommerce", SHOP), {})) == {}


# --- the steps alone


@dataclass
class OrderWriter(Shop):
    """Adds orders to the fake shop."""

    orders: list[Order] = field(default_factory=list)

    def read(self, op: Any, params: Any) -> AsyncIterator[RecordPage[Any]]:
        """Yields orders or other records as a store's reader does."""
        return self._orders(params) if op.name == "orders" else super().read(op, params)

    async def _orders(self, query: Any) -> AsyncIterator[RecordPage[Order]]:
        self.reads.append(f"orders since {query.created_after.isoformat()}")
        late = [order for order in self.orders if order.created_at and order.created_at > query.created_after]
        yield RecordPage((*late, *late))


def _stage(*variants: Any, sold: Any = (), **inputs: Any) -> Stage:
    products = [product(replace(variant, created_at=NOW - timedelta(days=300))) for variant in variants]
    shop = OrderWriter(products)
    shop.orders = list(sold)
    all_inputs = {"no_sale_days": 30, "percent": 20, "floor": "none", **inputs}
    return Stage(TEMPLATE, all_inputs, shop=shop)


def _order(days: float, number: str = "1", **changed: Any) -> Order:
    line = OrderLine("1", number, number, "A", "Tea", 1, "9.00")
    about: dict[str, Any] = {"status": "completed", "paid": True, "fulfilled": True, "cancelled_at": None}
    about |= {"total": "9.00", "currency": "EUR", "tags": (), "customer_id": None, "modified_at": None}
    about |= {"created_at": NOW - timedelta(days=days), "lines": (line,), **changed}
    return Order(id=str(days), number=str(days), **about)


@pytest.mark.parametrize(
    ("order", "is_slow"),
    [
        (_order(1), False),
        (_order(30.2), False),  # the day begins at midnight of the automation's zone: 30 days and 8 hours ago
        (_order(30.4), True),
        (_order(1, test=True), True),
        (_order(1, cancelled_at=NOW), True),
        (_order(1, number="2"), True),
        (_order(1, currency="USD"), False),
    ],
)
async def test_a_sale_within_the_days_is_a_sale(order: Order, is_slow: bool) -> None:
    """Counts sales within the days in any currency; test orders and cancelled ones are no sales.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    assert len((await _stage(variant("1"), sold=[order]).run()).proposals) == is_slow


async def test_too_little_stock_and_what_is_new_are_left_alone() -> None:
    """Leaves variants below the minimum stock alone; exactly that stock is enough.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    stage = _stage(variant("1", stock=4), variant("2", stock=5), variant("3", stock=-2), min_stock=5)
    assert [proposal.object.id for proposal in (await stage.run()).proposals] == ["2"]


async def test_a_variant_is_marked_down_again_only_after_as_many_days_and_as_often_as_allowed() -> None:
    """Marks down again after `no_sale_days`, at most `max_times`, keeping the first compare-at price.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    stage, came = _stage(variant("1"), max_times=2), []
    for age in (0, 10, 31, 10, 31):  # days since the last markdown
        for (space, _), mark in stage.memory.kept.items():
            if space == MARKDOWNS:
                mark["changed_at"] = (NOW - timedelta(days=age)).isoformat()
        run = await stage.run()
        came.append((len(run.proposals), run.result["done_before"]))
    assert came == [(1, 0), (0, 1), (1, 0), (0, 1), (0, 1)]
    now = stage.shop.current_product("1").variants[0]
    assert (now.price, now.compare_at) == ("6.40", "10.00")


async def test_a_price_raised_above_the_original_restarts_the_markdown() -> None:
    """Starts again after a raised price, because compare-at may not be below the price.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    stage = _stage(variant("1"), max_times=2)
    await stage.run()
    stage.memory.kept[MARKDOWNS, "11:1"]["changed_at"] = (NOW - timedelta(days=31)).isoformat()
    raised = {"price": "30.00", "regular_price": "30.00", "sale_price": "", "compare_at": None}
    now = stage.shop.current_product("1")
    stage.shop.products[0] = replace(now, variants=(replace(now.variants[0], **raised),))
    [proposal] = (await stage.run()).proposals
    assert [(field.before, field.after) for field in proposal.fields] == [("30.00", "24.00"), (None, "30.00")]


async def test_a_sale_in_between_sets_the_count_to_zero() -> None:
    """Starts the count again after a sale, also one that was before the days but after the last run.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    stage = _stage(variant("1"))
    await stage.run()
    stage.memory.kept[MARKDOWNS, "11:1"]["changed_at"] = (NOW - timedelta(days=90)).isoformat()
    assert (await stage.run()).result["done_before"] == 1
    stage.memory.kept["orders_read", "until"] = (NOW - timedelta(days=85)).isoformat()
    stage.shop.orders = [_order(60)]
    run = await stage.run()
    assert (len(run.proposals), run.result["done_before"]) == (1, 0)
    assert stage.memory.kept[MARKDOWNS, "11:1"]["times"] == 1


async def test_declined_changes_are_neither_remembered_nor_reported() -> None:
    """Remembers no declined markdown and sends no message about it.

    See docs/design/templates-catalogue.md#slow-stock-markdown.
    """
    stage = _stage(variant("1"), teams={"integration_id": 13})
    run = await stage.run(outcome=Outcome.DECLINED)
    assert [proposal.object.type for proposal in run.proposals] == ["variant"]
    assert [space for space, _ in stage.memory.kept] == ["orders_read"]


async def test_exactly_limit_is_allowed_and_one_more_fails() -> None:
    """Proposes exactly `limit` changes; with one more it fails and proposes none.

    See docs/design/templates.md#e11-over-the-limit.
    """
    many = [variant(str(number)) for number in range(1, 4)]
    assert len((await _stage(*many, limit=3).run()).proposals) == 3
    run = await _stage(*many, limit=2).run()
    assert run.failed is not None
    assert (run.failed.code, run.proposals) == ("too_many_changes", [])
