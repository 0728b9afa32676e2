"""Tests tagging orders by rule: which orders match, since when they are read, and which lose the tag."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from steward.model.run import Mode, RunStatus
from steward.steps.base import StoreEvent, TooManyChanges
from steward.templates.tag_orders_by_rule import TEMPLATE
from tests.templates.order_stage import Orders, OrderStage, ago, ids, line, order, stage
from tests.templates.sales import LineSpec, Market, Sale
from tests.templates.stage import NOW

TAG = "big-order"
_BIG = (LineSpec(total="260.00"),)
# (order, the rule in words when it matches all of: total ≥ 250.00, country DE or AT)
SALES: tuple[tuple[Sale, str | None], ...] = (
    (Sale("A1", _BIG), "total 260.00 is at least 250.00; country is DE"),
    (Sale("A2", (LineSpec(total="250.00"),), country="AT"), "total 250.00 is at least 250.00; country is AT"),
    (Sale("A3", (LineSpec(total="249.99"),)), None),
    (Sale("A4", _BIG, country="FR"), None),
    (Sale("A5", _BIG, country="", billing="AT"), "total 260.00 is at least 250.00; country is AT"),
    (Sale("A6", _BIG, country="", billing=""), None),
    (Sale("A7", _BIG, cancelled=True), None),
    (Sale("A8", _BIG, currency="CHF"), None),
)
MATCHING = {sale.number: rule for sale, rule in SALES if rule is not None}


async def test_orders_that_match_every_rule_are_tagged_once(market: Market) -> None:
    """Tags each order that matches every rule once; other currencies and cancelled orders do not match.

    See docs/design/templates-catalogue.md#tag-orders-by-rule and docs/design/templates.md#e13-currencies.
    """
    market.place(*(sale for sale, _ in SALES))
    market.edit("A1", tags=("gift",))
    automation = await market.set_up(
        "tag-orders-by-rule", tag=TAG, min_total="250.00", countries=["DE", "AT"]
    )
    tried = await market.run(automation, Mode.TEST)
    assert (set(tried.changes), market.store.writes()) == (set(MATCHING), 0)
    came = await market.run(automation)
    assert came.run.status is RunStatus.SUCCEEDED
    assert came.changes["A1"] == {"Tags": (["gift"], [TAG, "gift"])}
    assert came.beside == {number: f"Order {number}: {rule}." for number, rule in MATCHING.items()}
    assert [market.tags(number) for number in MATCHING] == [[TAG, "gift"], [TAG], [TAG]]
    assert came.result == {
        "checked": 7,
        "matched": 3,
        "tagged": 3,
        "untagged": 0,
        "orders": [{"number": number, "added": True, "rule": rule} for number, rule in MATCHING.items()],
    }
    assert (await market.run(automation)).changes == {}
    assert list(await market.store.refused("tag-orders-by-rule", {"tag": TAG})) == ["inputs"]


def _tagging(*orders: Any, **inputs: Any) -> OrderStage:
    return stage(TEMPLATE, *orders, **{"tag": TAG, **inputs})


async def test_codes_and_skus_are_compared_as_people_write_them() -> None:
    """Compares discount codes without case, and SKUs exactly but for outer blanks.

    See docs/design/templates-catalogue.md#tag-orders-by-rule.
    """
    run = await _tagging(
        order("1", lines=(line("\u00a0TEA-1 "),), discount_codes=("Spring",)),
        order("2", lines=(line("tea-1"),), discount_codes=("SPRING",)),
        order("3", lines=(line(""), line("MUG-2")), discount_codes=("SPRING",)),
        order("4", discount_codes=("SUMMER",)),
        discount_code="spring",
        skus=["TEA-1", "MUG-2"],
    ).run()
    assert ids(run) == ["1", "3"]
    assert run.proposals[1].message == "Order #3: discount code SPRING was used; holds MUG-2."


async def test_only_orders_changed_since_the_last_run_that_succeeded_are_read() -> None:
    """Reads orders changed since 24 h before set-up, later since the last run less ten minutes.

    See docs/design/templates-catalogue.md#tag-orders-by-rule.
    """
    stage = _tagging(order("1", modified_at=ago(23)), order("2", modified_at=ago(25)), min_total="1")
    stage.now = NOW + timedelta(hours=2)
    assert ids(await stage.run()) == ["1"]
    stage.shop = Orders([order("3", modified_at=ago(-1.9)), order("4", modified_at=ago(-1.7))])
    stage.now = NOW + timedelta(hours=3)
    assert ids(await stage.run(mode=Mode.TEST)) == ["3"]
    assert stage.shop.asks[-1].modified_after == NOW + timedelta(hours=1, minutes=50)


async def test_a_run_for_an_event_reads_its_order_alone_and_moves_no_window() -> None:
    """Reads only the event's order, which may be deleted, and does not move the window.

    See docs/design/templates.md#rules.
    """
    stage = _tagging(order("1"), order("2"), min_total="1")
    run = await stage.run(event=StoreEvent("orders/create", "order", "2"))
    assert (ids(run), run.result["checked"]) == (["2"], 1)
    assert not [key for key in stage.memory.kept if key[0] == "orders_read"]
    gone = await stage.run(event=StoreEvent("orders/create", "order", "9"))
    assert (gone.failed, gone.proposals, gone.result["checked"]) == (None, [], 0)


async def test_the_tag_is_removed_from_orders_this_automation_tagged() -> None:
    """Removes the tag from orders that this automation tagged and that no longer match, and from no others.

    See docs/design/templates-catalogue.md#tag-orders-by-rule.
    """
    big, small = order("1", total="260.00"), order("2", tags=(TAG,))
    stage = _tagging(big, small, min_total="250", remove_when_not=True)
    await stage.run(mode=Mode.TEST)
    assert stage.memory.kept == {}
    assert ids(await stage.run()) == ["1"]
    stage.shop = Orders([replace(big, tags=(TAG, "gift"), total="20.00", modified_at=NOW), small])
    run = await stage.run()
    [proposal] = run.proposals
    assert (proposal.fields[0].before, proposal.fields[0].after) == ([TAG, "gift"], ["gift"])
    assert run.result["orders"] == [{"number": "#1", "added": False, "rule": "no longer matches"}]
    assert (run.result["tagged"], run.result["untagged"]) == (0, 1)
    assert not [key for key in stage.memory.kept if key[0] == "tagged"]


async def test_with_other_rules_tagged_orders_are_judged_again() -> None:
    """Judges orders that it tagged again when the rules have changed.

    See docs/design/templates-catalogue.md#tag-orders-by-rule.
    """
    old = order("1", total="260.00")
    stage = _tagging(old, min_total="250", remove_when_not=True)
    await stage.run()
    stage.shop = Orders([replace(old, tags=(TAG,), modified_at=ago(100))])
    assert ids(await stage.run()) == []
    stage.inputs["min_total"] = "300"
    assert ids(await stage.run()) == ["1"]


async def test_too_many_changes_are_not_proposed() -> None:
    """Proposes exactly `limit` changes and fails on one more; an order on two pages counts once.

    See docs/design/templates.md#e11-over-the-limit and docs/design/templates.md#e10-pages.
    """
    orders = [order(str(number)) for number in range(4)]
    assert len((await _tagging(*orders, min_total="1", limit=4).run()).proposals) == 4
    run = await _tagging(*orders, min_total="1", limit=3).run()
    assert isinstance(run.failed, TooManyChanges)
    assert (run.failed.changes, run.proposals) == (4, [])


@pytest.mark.parametrize("changed", [{"test": True}, {"cancelled_at": NOW}, {"currency": "USD"}])
async def test_orders_that_do_not_count(changed: dict[str, Any]) -> None:
    """Leaves out test orders, cancelled orders and other currencies.

    See docs/design/templates.md#e15-orders-that-do-not-count and docs/design/templates.md#e13-currencies.
    """
    assert ids(await _tagging(order("1", **changed), min_total="1").run()) == []
