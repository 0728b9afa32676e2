"""Tests ending a sale: which prices are restored, and what people changed since.

See docs/design/templates-catalogue.md#sale-end.
"""

from typing import Any

import pytest

from steward.model.change import Outcome
from steward.model.run import Mode
from steward.templates.sale_end import TEMPLATE
from tests.templates.order_stage import CHANGES
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.stage import SHOP, Shop, Stage, StoredMemory, connection, product, variant

SALE_ID = "01KAGQ3W8ZJ4T6V9X2B5C7D8EF"
_SALE: dict[str, Any] = {"products": {"all": True}, "percent": 50}


def _sold(old: str = "10.00", new: str = "5.00", *, of: str = "1", run: str = "r1") -> dict[str, Any]:
    about = {"compare_at": None, "sku": "A", "label": "Tea"}
    return {"product": of, "old": old, "new": new, "run": run, **about}


def _stage(*products: Any, sold: dict[str, Any], **inputs: Any) -> Stage:
    stage = Stage(TEMPLATE, {"sale_automation_id": SALE_ID, **inputs}, shop=Shop(list(products)))
    stored = {("sale", f"11:{number}"): value for number, value in sold.items()}
    stage.memory.others[SALE_ID] = StoredMemory({**stored, ("sale", "12:1"): _sold()})
    return stage


@pytest.mark.parametrize(("was", "becomes"), [("10.00", "10.00"), ("9.00", None), ("12.00", "12.00")])
async def test_a_compare_at_that_was_not_above_its_price_does_not_keep_the_sale_going(
    was: str, becomes: str | None
) -> None:
    """Restores the price, and keeps the compare-at price only where it is not below it.

    See docs/design/templates-catalogue.md#sale-end.
    """
    sold = {"1": {**_sold(), "compare_at": was}}
    stage = _stage(product(_on_sale("1")), sold=sold)
    stage.store, stage.changes = connection("shopify", SHOP), CHANGES["shopify"]
    [proposal] = (await stage.run(outcome=Outcome.APPLIED)).proposals
    after: Any = proposal.parts[0].after
    assert (after["price"], after["compare_at"]) == ("10.00", becomes)


def _on_sale(number: str = "1", **changed: Any) -> Any:
    price = {"price": "5.00", "compare_at": "10.00", "regular_price": "10.00", "sale_price": "5.00"}
    return variant(number, **{**price, **changed})


async def test_on_each_platform_a_sale_ends_and_the_prices_are_as_before(store: PlatformStore) -> None:
    """Restores prices and tags on both platforms; what people changed or deleted is left alone.

    See docs/design/templates-catalogue.md#sale-end.
    """
    store.stock(
        ProductSpec("Teapot", Item("POT-1", price="24.90"), tags=("tea",)),
        ProductSpec("Mug", sizes={"S": Item("MUG-S", price="4.00"), "L": Item("MUG-L", price="6.00")}),
        ProductSpec("Bowl", Item("BOWL-1", price="8.00")),
        ProductSpec("Vase", Item("VASE-1", price="8.00")),
    )
    before = store.variants("Mug")
    start = await store.set_up("sale-start", _SALE)
    await store.run(start)
    assert store.variants("Mug") != before
    end = await store.set_up("sale-end", {"sale_automation_id": start.id})
    store.set_price("Bowl", "7.00")
    store.remove("Vase")
    expected = [
        ("Teapot (POT-1)", {"Price": ("12.45", "24.90"), "Compare-at price": ("24.90", None)}),
        ("Mug, S (MUG-S)", {"Price": ("2.00", "4.00"), "Compare-at price": ("4.00", None)}),
        ("Mug, L (MUG-L)", {"Price": ("3.00", "6.00"), "Compare-at price": ("6.00", None)}),
        ("Teapot (POT-1)", {"Tags": (["sale", "tea"], ["tea"])}),
        ("Mug", {"Tags": (["sale"], [])}),
    ]
    written = store.writes()
    tried = await store.run(end, Mode.TEST)
    assert (tried.changes, store.writes()) == (expected, written)
    came = await store.run(end)
    assert (came.changes, set(came.outcomes)) == (expected, {"applied"})
    assert came.result == {
        "remembered": 5,
        "restored": 3,
        "changed_since": 1,
        "gone": 1,
        "left": [
            {"sku": "BOWL-1", "label": "Bowl (BOWL-1)", "why": "price changed since the sale began"},
            {"sku": "VASE-1", "label": "Vase (VASE-1)", "why": "it no longer exists"},
        ],
    }
    assert (store.variants("Mug"), store.tags("Mug"), store.tags("Bowl")) == (before, [], ["sale"])
    again = await store.run(end)
    assert (again.changes, again.result["changed_since"], again.result["restored"]) == ([], 1, 0)


async def test_only_a_sale_of_the_same_store_can_be_ended(store: PlatformStore) -> None:
    """Refuses a sale of another store, another template and an unknown id.

    See docs/design/templates-catalogue.md#sale-end.
    """
    other = "shopify" if store.platform == "woocommerce" else "woocommerce"
    abroad = await store.both.set_up("sale-start", _SALE, on=other)
    no_sale = await store.set_up("hide-out-of-stock-products", {})
    for number in (abroad.id, no_sale.id, SALE_ID):
        faults = await store.refused("sale-end", {"sale_automation_id": number})
        assert list(faults) == ["inputs.sale_automation_id"]


async def test_an_empty_memory_is_reported_and_is_no_failure() -> None:
    """Says that no price is remembered, ignoring the prices of other stores, and reads nothing.

    See docs/design/templates-catalogue.md#sale-end.
    """
    stage = _stage(product(variant("1", price="5.00")), sold={})
    run = await stage.run()
    assert (run.failed, run.proposals, run.summary.text) == (None, [], "The sale remembers no price.")
    assert stage.shop.reads == []


async def test_the_compare_at_price_of_before_comes_back() -> None:
    """Restores the compare-at price from before the sale. See docs/design/templates-catalogue.md#sale-end."""
    stage = _stage(product(_on_sale()), sold={"1": {**_sold(), "compare_at": "12.00"}})
    await stage.run()
    now = stage.shop.current_product("1").variants[0]
    assert (now.price, now.compare_at) == ("10.00", "12.00")


async def test_a_product_with_one_variant_changed_by_hand_keeps_its_tag() -> None:
    """Restores the other variants, but leaves the tag, when a person changed one variant.

    See docs/design/templates-catalogue.md#sale-end.
    """
    two = product(_on_sale("1/1"), variant("1/2", price="6.00"), tags=("sale",))
    run = await _stage(two, sold={"1/1": _sold(), "1/2": _sold()}).run()
    assert [proposal.object.type for proposal in run.proposals] == ["variant"]


async def test_a_price_put_back_by_hand_is_a_change_by_hand() -> None:
    """Counts a price that a person restored as changed since the sale.

    See docs/design/templates-catalogue.md#sale-end.
    """
    each_product = product(variant("1", price="10.00"), tags=("sale",))
    run = await _stage(each_product, sold={"1": _sold()}).run()
    assert (run.proposals, run.result["changed_since"]) == ([], 1)


async def test_a_tag_that_failed_is_removed_by_the_next_run() -> None:
    """Removes the tag in the next run, which does not take its own restored price for a person's.

    See docs/design/templates-catalogue.md#sale-end.
    """
    stage = _stage(product(_on_sale(), tags=("sale",)), sold={"1": _sold()})
    await stage.run(only=["variant.set_price"])
    assert stage.shop.current_product("1").tags == ("sale",)
    again = await stage.run()
    assert ([proposal.object.type for proposal in again.proposals], again.result["changed_since"]) == (
        ["product"],
        0,
    )
    assert (await stage.run()).proposals == []


async def test_prices_and_tags_count_towards_the_limit() -> None:
    """Counts price and tag as two changes towards the limit.

    See docs/design/templates.md#e11-over-the-limit.
    """
    each_product = product(_on_sale(), tags=("sale",))
    assert len((await _stage(each_product, sold={"1": _sold()}, limit=2).run()).proposals) == 2
    run = await _stage(each_product, sold={"1": _sold()}, limit=1).run()
    assert run.failed is not None
    assert (run.failed.code, run.proposals) == ("too_many_changes", [])
