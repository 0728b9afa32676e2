"""Tests showing products that are back in stock: which are shown, and what is left alone.

See docs/design/templates-catalogue.md#show-back-in-stock-products.
"""

from pathlib import Path
from typing import Any

import pytest

from steward.model.run import Mode
from steward.steps.base import StoreEvent
from steward.templates.show_back_in_stock_products import HIDING, TEMPLATE
from tests.fake_clock import FakeClock
from tests.templates.sample_products import PLATFORMS, Item, PlatformStore, ProductSpec
from tests.templates.stage import Shop, Stage, StoredMemory, product, variant
from tests.templates.two_platforms import open_both

_MARKED = ("auto-hidden", "tea")


def _stage(*products: Any, **inputs: Any) -> Stage:
    return Stage(TEMPLATE, inputs, shop=Shop(list(products)))


def _hidden(number: str = "7", stock: int | None = 3, **changed: Any) -> Any:
    about = {"tags": ("auto-hidden",), "visible": False, "visibility": "hidden", **changed}
    return product(variant(number, stock=stock, tracked=stock is not None), **about)


async def test_on_each_platform_what_is_back_is_shown_once_and_the_rest_is_left(store: PlatformStore) -> None:
    """Gives the same changes on both platforms; a test run writes nothing and a second run proposes nothing.

    See docs/design/templates-catalogue.md#show-back-in-stock-products.
    """
    store.stock(
        ProductSpec("Teapot", Item("POT-1", stock=4), tags=_MARKED, hidden=True),
        ProductSpec("Mug", sizes={"S": Item("MUG-S", stock=0), "L": Item("MUG-L", stock=1)}, tags=_MARKED),
        ProductSpec("Bowl", Item("BOWL-1", stock=-3), tags=_MARKED, hidden=True),
        ProductSpec("Gift", Item("GIFT-1", stock=None), tags=_MARKED, hidden=True),
        ProductSpec("Tray", Item("TRAY-1", stock=9), hidden=True),
        ProductSpec("Draft", Item("DRAFT-1", stock=9), tags=_MARKED, status="draft"),
    )
    automation = await store.set_up("show-back-in-stock-products", {})
    expected = [
        ("Teapot (POT-1)", {"Visible": (False, True), "Tags": (list(_MARKED), ["tea"])}),
        ("Mug", {"Tags": (list(_MARKED), ["tea"])}),
    ]
    tried = await store.run(automation, Mode.TEST)
    assert (tried.changes, store.writes(), tried.result["shown"]) == (expected, 0, 2)
    came = await store.run(automation)
    assert (came.changes, came.outcomes) == (expected, ["applied"] * 2)
    assert came.result == {
        "checked": 5,
        "in_stock": 2,
        "shown": 2,
        "still_out": 1,
        "products": [{"label": "Teapot (POT-1)", "stock": 4}, {"label": "Mug", "stock": 1}],
    }
    assert [store.is_visible(title) for title in ("Teapot", "Bowl", "Gift", "Tray")] == [True] + [False] * 3
    assert (store.tags("Teapot"), store.tags("Bowl")) == (["tea"], list(_MARKED))
    again = await store.run(automation)
    assert (again.changes, again.result["in_stock"], again.result["checked"]) == ([], 0, 3)


async def test_hidden_products_regain_their_earlier_visibility(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Shows what the hiding automation hid with its visibility from before; then both propose nothing.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    both = await open_both(database_url, clock, tmp_path)
    for store in (PlatformStore(platform, both) for platform in PLATFORMS):
        store.stock(ProductSpec("Teapot", Item("POT-1", stock=0), tags=("tea",)))
        rows = list(both.shop.world.state.shop.products.values())
        if store.platform == "woocommerce":
            rows[0]["catalog_visibility"] = "search"
        hide = await store.set_up("hide-out-of-stock-products", {})
        show = await store.set_up("show-back-in-stock-products", {})
        await store.run(hide)
        assert (store.is_visible("Teapot"), (await store.run(show)).changes) == (False, [])
        store.set_stock("Teapot", 6)
        assert len((await store.run(show)).changes) == 1
        assert (store.is_visible("Teapot"), store.tags("Teapot")) == (True, ["tea"])
        assert rows[0]["catalog_visibility"] == "search"
        assert (await store.run(hide)).changes == (await store.run(show)).changes == []
    await both.shop.service.close()


async def test_without_a_remembered_visibility_it_becomes_visible() -> None:
    """Makes a product visible when no visibility of this store is remembered.

    See docs/design/templates-catalogue.md#show-back-in-stock-products.
    """
    stage = _stage(_hidden())
    stage.memory.others[HIDING] = StoredMemory({("visibility", "12:7"): "search"})
    await stage.run()
    assert stage.shop.current_product("7").visibility == "visible"


@pytest.mark.parametrize(("stock", "shown_ids"), [(2, []), (3, ["7"])])
async def test_the_level_itself_is_enough(stock: int, shown_ids: list[str]) -> None:
    """Shows a product whose stock is at the threshold, but not one below it.

    See docs/design/templates-catalogue.md#show-back-in-stock-products.
    """
    run = await _stage(_hidden(stock=stock), threshold=3).run()
    assert [proposal.object.id for proposal in run.proposals] == shown_ids


async def test_the_stock_is_the_sum_and_a_negative_one_counts_as_zero() -> None:
    """Adds up the stock of all variants, where a negative number counts as 0.

    See docs/design/templates.md#e7-negative-stock and docs/design/templates.md#e9-variants.
    """
    each_product = product(
        variant("1/1", stock=2), variant("1/2", stock=-9), tags=("auto-hidden",), visible=False
    )
    assert len((await _stage(each_product, threshold=2).run()).proposals) == 1


async def test_an_event_looks_at_its_own_product_alone() -> None:
    """Reads and shows only the product that the event names. See docs/design/templates.md#rules."""
    stage = _stage(_hidden("1"), _hidden("2"))
    run = await stage.run(event=StoreEvent("inventory_levels/update", "product", "2"))
    assert ([proposal.object.id for proposal in run.proposals], stage.shop.reads[0]) == (["2"], "product")


async def test_exactly_limit_is_allowed_and_one_more_fails() -> None:
    """Proposes exactly `limit` changes; with one more it fails and proposes none.

    See docs/design/templates.md#e11-over-the-limit.
    """
    many = [_hidden(str(number)) for number in range(1, 4)]
    assert len((await _stage(*many, limit=3).run()).proposals) == 3
    run = await _stage(*many, limit=2).run()
    assert run.failed is not None
    assert (run.failed.code, run.proposals) == ("too_many_changes", [])


async def test_a_channel_the_store_does_not_have_is_refused_at_set_up(store: PlatformStore) -> None:
    """Refuses a channel that a Shopify store does not have; ignores it on WooCommerce.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    faults = await store.refused("show-back-in-stock-products", {"channels": ["Market"]})
    assert list(faults) == (["inputs.channels"] if store.platform == "shopify" else [])
