"""Tests hiding sold-out products: which are hidden, tagged, left alone and corrected.

See docs/design/templates-catalogue.md#hide-out-of-stock-products.
"""

from typing import Any

import pytest

from steward.model.change import Outcome
from steward.model.ids import IntegrationId
from steward.model.run import Mode
from steward.steps.base import StoreEvent
from steward.templates.hide_out_of_stock_products import TEMPLATE
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.stage import Shop, Stage, connection, product, variant


def _stage(*products: Any, **inputs: Any) -> Stage:
    return Stage(TEMPLATE, inputs, shop=Shop(list(products)))


def _out(number: str = "7", **changed: Any) -> Any:
    return product(variant(number, stock=0), **changed)


async def test_a_sold_out_product_is_hidden_and_marked_in_one_change() -> None:
    """Hides and tags the product in one change of three parts.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    stage = _stage(_out(tags=("tea",), tag_ids=(("tea", "1"),)), product(variant("8", stock=1)))
    run = await stage.run()
    [proposal] = run.proposals
    assert proposal.action.value == "unpublish"
    assert (proposal.object.type, proposal.object.id, proposal.message) == ("product", "7", "Stock 0.")
    assert [(field.label, field.before, field.after) for field in proposal.fields] == [
        ("Visible", True, False),
        ("Tags", ["tea"], ["auto-hidden", "tea"]),
    ]
    assert [part.operation for part in proposal.parts] == [
        "product_tag.create",
        "product.set_visible",
        "product.set_tags",
    ]
    assert run.result == {
        "checked": 2,
        "sold_out": 1,
        "hidden": 1,
        "already_hidden": 0,
        "products": [{"label": "Tea 7 (TEA-1)", "stock": 0}],
    }
    assert stage.shop.current_product("7").visible is False
    assert "auto-hidden" in stage.shop.current_product("7").tags


async def test_a_second_run_proposes_nothing() -> None:
    """Counts the products that the first run hid as `already_hidden`.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    stage = _stage(_out())
    await stage.run()
    again = await stage.run()
    assert again.proposals == []
    assert (again.result["sold_out"], again.result["already_hidden"]) == (1, 1)


async def test_the_level_itself_is_sold_out_and_one_above_is_not() -> None:
    """Hides a product at the threshold, but not one above it.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    stage = _stage(product(variant("1", stock=3)), product(variant("2", stock=4)), threshold=3)
    assert [proposal.object.id for proposal in (await stage.run()).proposals] == ["1"]


async def test_the_stock_is_the_sum_over_the_variants() -> None:
    """Adds up the stock of all variants, where a negative number counts as 0.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    keeps = product(variant("1/1", stock=2), variant("1/2", stock=-5))
    hides = product(variant("2/1", stock=0), variant("2/2", stock=-5))
    run = await _stage(keeps, hides).run()
    assert [proposal.object.id for proposal in run.proposals] == ["2"]
    assert run.result["products"][0]["stock"] == 0


async def test_an_untracked_or_back_orderable_variant_keeps_its_product_visible() -> None:
    """Leaves a product visible if one of its variants is not tracked or can be back-ordered.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products and
    docs/design/templates.md#e8-untracked-stock.
    """
    odd = (variant("1/2", stock=None, tracked=False), variant("1/2", stock=0, backorders_allowed=True))
    for each_variant in odd:
        assert (await _stage(product(variant("1/1", stock=0), each_variant)).run()).proposals == []


async def test_a_stock_shared_through_the_parent_is_counted_once() -> None:
    """Counts a stock that variants share through their parent once.

    See docs/design/templates.md#e9-variants.
    """
    shared = {"stock_target": "1", "stock_managed_by_parent": True, "stock": 2}
    each_product = product(variant("1/1", **shared), variant("1/2", **shared))
    assert (await _stage(each_product, threshold=2).run()).result["products"] == [
        {"label": "Tea 1", "stock": 2}
    ]


async def test_kinds_without_stock_of_their_own_are_left_out() -> None:
    """Leaves out kinds of products that have no stock. See docs/design/templates.md#e9-variants."""
    run = await _stage(product(id="8", kind="grouped", sellable=False)).run()
    assert (run.result["checked"], run.proposals) == (0, [])


async def test_products_hidden_by_people_are_never_tagged() -> None:
    """Leaves a product that a person hid alone, without tagging it.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    run = await _stage(_out(visible=False, visibility="hidden")).run()
    assert (run.proposals, run.result["already_hidden"]) == ([], 1)


async def test_products_hidden_again_by_people_are_left_alone() -> None:
    """Leaves a product alone that a person hid after it was visible and untagged again.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    stage = _stage(_out())
    await stage.run()
    stage.shop.products = [_out()]
    stage.shop.products = [_out(visible=False, visibility="hidden")]
    assert (await stage.run()).proposals == []


async def test_a_marked_product_that_is_visible_again_is_hidden_again() -> None:
    """Changes only the visibility of a product that still has the tag.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    run = await _stage(_out(tags=("Auto-Hidden",))).run()
    assert [part.operation for part in run.proposals[0].parts] == ["product.set_visible"]


async def test_a_known_tag_is_used_in_the_letters_the_store_has() -> None:
    """Uses an existing tag in its own spelling instead of creating another one.

    See docs/design/templates-catalogue.md#tag-products-by-rule.
    """
    stage = _stage(_out())
    stage.shop.tags = {"AUTO-Hidden": "5"}
    [proposal] = (await stage.run()).proposals
    assert [part.operation for part in proposal.parts] == ["product.set_visible", "product.set_tags"]
    assert proposal.parts[1].arguments["tags"] == ["AUTO-Hidden"]


async def test_the_visibility_before_is_remembered() -> None:
    """Remembers the visibility of WooCommerce before hiding, so that it can be restored.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    stage = _stage(_out(visibility="search"))
    await stage.run()
    assert stage.memory.kept == {("visibility", "11:7"): "search"}


@pytest.mark.parametrize("outcome", [Outcome.DECLINED, Outcome.CONFLICT, Outcome.EXPIRED])
async def test_unmade_changes_are_not_remembered(outcome: Outcome) -> None:
    """Remembers nothing of a change that was declined, expired or in conflict.

    See docs/design/templates.md#rules.
    """
    stage = _stage(_out())
    run = await stage.run(outcome=outcome)
    assert stage.memory.kept == {}
    assert (run.result["hidden"], run.result["products"]) == (0, [])


async def test_a_product_whose_marker_failed_is_put_right_by_the_next_run() -> None:
    """Adds the missing tag in the next run, and remembers the visibility from before the first one.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    stage = _stage(_out())
    first = await stage.run(only=["product_tag.create", "product.set_visible"])
    assert first.result["hidden"] == 0
    assert (stage.shop.current_product("7").visible, stage.shop.current_product("7").tags) == (False, ())
    second = await stage.run()
    assert [part.operation for part in second.proposals[0].parts] == ["product.set_tags"]
    assert stage.shop.current_product("7").tags == ("auto-hidden",)
    assert stage.memory.kept == {("visibility", "11:7"): "visible"}
    assert (await stage.run()).proposals == []


async def test_a_half_done_product_shown_by_a_person_is_forgotten() -> None:
    """Forgets a product that a person made visible again; hidden by hand later, it is not tagged.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    stage = _stage(_out())
    await stage.run(only=["product_tag.create", "product.set_visible"])
    stage.shop.products = [product(variant("7", stock=4))]
    await stage.run()
    stage.shop.products = [_out(visible=False, visibility="hidden")]
    assert (await stage.run()).proposals == []


async def test_a_product_that_cannot_be_marked_is_not_hidden() -> None:
    """Hides and tags both or neither; names the product that cannot be tagged.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    run = await _stage(_out("1", tags=("odd, tag",)), _out("2")).run()
    assert [proposal.object.id for proposal in run.proposals] == ["2"]
    assert "Tea 1" in str(run.messages[1])
    assert run.result["sold_out"] == 2


async def test_exactly_limit_is_allowed_and_one_more_fails_before_anybody_is_asked() -> None:
    """Proposes exactly `limit` changes; with one more it fails and proposes none.

    See docs/design/templates.md#e11-over-the-limit.
    """
    many = [_out(str(number)) for number in range(1, 4)]
    assert len((await _stage(*many, limit=3).run()).proposals) == 3
    run = await _stage(*many, limit=2).run()
    assert run.failed is not None
    assert (run.failed.code, run.proposals) == ("too_many_changes", [])
    assert run.failed.message.startswith("3 ")
    assert run.result["sold_out"] == 3
    assert "Nothing was hidden." in run.summary.text


async def test_a_test_run_says_what_would_be_hidden_and_changes_nothing() -> None:
    """Says what would be hidden, changes nothing and remembers nothing.

    See docs/design/templates.md#rules.
    """
    stage = _stage(_out())
    run = await stage.run(mode=Mode.TEST)
    assert "1 product would be hidden." in run.summary.text
    assert (run.result["hidden"], stage.shop.current_product("7").visible, stage.memory.kept) == (1, True, {})


async def test_a_waiting_run_says_what_would_be_hidden() -> None:
    """The summary of a waiting run says what would be hidden. See docs/design/api/runs.md#run."""
    run = await _stage(_out()).run(approve=False)
    assert "1 product would be hidden." in run.summary.text
    assert run.result["hidden"] == 0


async def test_an_event_looks_at_its_own_product_alone() -> None:
    """Reads and hides only the product that the event names. See docs/design/templates.md#rules."""
    stage = _stage(_out("1"), product(variant("2/1", stock=0), variant("2/2", stock=0)))
    run = await stage.run(event=StoreEvent("inventory_levels/update", "variation", "1", "2"))
    assert [proposal.object.id for proposal in run.proposals] == ["2"]
    assert stage.shop.reads == ["product", "tags"]


async def test_an_event_of_a_product_that_is_gone_hides_nothing() -> None:
    """Succeeds without changes when the product of the event no longer exists.

    See docs/design/templates.md#rules.
    """
    run = await _stage(_out("1")).run(event=StoreEvent("inventory_levels/update", "product", "9"))
    assert (run.failed, run.proposals) == (None, [])


async def test_a_channel_the_store_no_longer_has_fails_the_run() -> None:
    """Fails with `channel_missing` when the connection has no such channel.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    facts = {"channels": [["1", "Till", True]]}
    stage = _stage(_out())
    stage.store = connection("shopify", IntegrationId(11), facts=facts)
    run = await stage.run()
    assert run.failed is not None
    assert run.failed.code == "channel_missing"
    assert run.result["checked"] == 0


_GOODS = (
    ProductSpec("Teapot", Item("POT-1", stock=0), tags=("tea",)),
    ProductSpec("Mug", sizes={"Small": Item("MUG-S", stock=0), "Large": Item("MUG-L", stock=-2)}),
    ProductSpec("Bowl", sizes={"Small": Item("BOWL-S", stock=0), "Large": Item("BOWL-L", stock=1)}),
    ProductSpec("Gift", Item("GIFT-1", stock=None)),
    ProductSpec("Tray", Item("TRAY-1", stock=0), hidden=True),
)


async def test_on_each_platform_what_is_sold_out_is_hidden_marked_and_then_left_alone(
    store: PlatformStore,
) -> None:
    """Gives the same changes on both platforms; a test run writes nothing and a second run proposes nothing.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    store.stock(*_GOODS)
    automation = await store.set_up("hide-out-of-stock-products", {})
    expected = [
        ("Teapot (POT-1)", {"Visible": (True, False), "Tags": (["tea"], ["auto-hidden", "tea"])}),
        ("Mug", {"Visible": (True, False), "Tags": ([], ["auto-hidden"])}),
    ]
    tried = await store.run(automation, mode=Mode.TEST)
    assert (tried.changes, store.writes(), tried.result["hidden"]) == (expected, 0, 2)
    came = await store.run(automation)
    assert (came.changes, came.outcomes) == (expected, ["applied"] * 2)
    beside = "Stock 0." if store.platform == "woocommerce" else "Stock 0. Channels: Online Store."
    assert came.messages == [beside, beside]
    assert {title: store.is_visible(title) for title in ("Teapot", "Mug", "Bowl", "Gift", "Tray")} == {
        "Teapot": False,
        "Mug": False,
        "Bowl": True,
        "Gift": True,
        "Tray": False,
    }
    assert [store.tags(title) for title in ("Teapot", "Tray")] == [["auto-hidden", "tea"], []]
    again = await store.run(automation)
    counts = {name: again.result[name] for name in ("checked", "sold_out", "hidden", "already_hidden")}
    assert (again.changes, counts) == (
        [],
        {"checked": 5, "sold_out": 3, "hidden": 0, "already_hidden": 3},
    )


async def test_a_product_stays_on_the_channels_that_are_not_named(store: PlatformStore) -> None:
    """Hides the product on the named channels alone; an unknown channel of Shopify is refused.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    if store.platform == "woocommerce":
        assert await store.refused("hide-out-of-stock-products", {"channels": ["Market"]}) == {}
        return
    store.stock(_GOODS[0])
    await store.run(await store.set_up("hide-out-of-stock-products", {"channels": ["Point of Sale"]}))
    assert store.is_visible("Teapot")
    faults = await store.refused("hide-out-of-stock-products", {"channels": ["Market"]})
    assert list(faults) == ["inputs.channels"]


async def test_only_the_products_wanted_are_hidden() -> None:
    """Leaves out products that the filter `products` excludes.

    See docs/design/templates.md#shared-definitions.
    """
    stage = _stage(_out("1", tags=("keep",)), _out("2"), products={"tags_none": ["KEEP"]})
    assert [proposal.object.id for proposal in (await stage.run()).proposals] == ["2"]
