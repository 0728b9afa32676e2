"""Tests starting a sale: prices go down, tags are added, and the old prices are remembered.

See docs/design/templates-catalogue.md#sale-start.
"""

from decimal import Decimal
from typing import Any

import pytest

from steward.model.change import Outcome
from steward.model.run import Mode
from steward.steps.skus import RowRefused
from steward.templates.parts.markdowns import MarkdownInputs, marked_down
from steward.templates.sale_start import SALE, TEMPLATE
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.stage import Shop, Stage, product, variant

_ALL: dict[str, Any] = {"products": {"all": True}, "percent": 20}


def _stage(*products: Any, **inputs: Any) -> Stage:
    return Stage(TEMPLATE, {**_ALL, **inputs}, shop=Shop(list(products)))


_GOODS = (
    ProductSpec("Teapot", Item("POT-1", price="24.90"), tags=("winter",)),
    ProductSpec(
        "Mug", sizes={"S": Item("MUG-S", price="4.99"), "L": Item("", price="7.00")}, tags=("winter",)
    ),
    ProductSpec("Bowl", Item("BOWL-1", price="8.00", compare_at="9.00"), tags=("winter",)),
    ProductSpec("Vase", Item("VASE-1", price="12.00"), tags=("sale", "winter")),
    ProductSpec("Bead", Item("BEAD-1", price="0.05"), tags=("winter",)),
    ProductSpec("Tray", Item("TRAY-1", price="9.00")),
)


async def test_on_each_platform_a_sale_begins_once(store: PlatformStore) -> None:
    """Gives the same changes on both platforms; a test run writes nothing and a second run proposes nothing.

    See docs/design/templates-catalogue.md#sale-start and docs/design/templates.md#e2-missing-skus.
    """
    store.stock(*_GOODS)
    inputs = {"products": {"tags_any": ["winter"]}, "percent": 20, "round_to": ".99"}
    automation = await store.set_up("sale-start", inputs)
    expected = [
        ("Teapot (POT-1)", {"Price": ("24.90", "18.99"), "Compare-at price": (None, "24.90")}),
        ("Mug, S (MUG-S)", {"Price": ("4.99", "3.99"), "Compare-at price": (None, "4.99")}),
        ("Mug, L", {"Price": ("7.00", "4.99"), "Compare-at price": (None, "7.00")}),
        ("Teapot (POT-1)", {"Tags": (["winter"], ["sale", "winter"])}),
        ("Mug", {"Tags": (["winter"], ["sale", "winter"])}),
    ]
    tried = await store.run(automation, Mode.TEST)
    assert (tried.changes, store.writes()) == (expected, 0)
    came = await store.run(automation)
    assert (came.changes, set(came.outcomes), came.messages[:3]) == (expected, {"applied"}, ["20 % off."] * 3)
    assert came.result == {
        "checked": 6,
        "changed": 3,
        "already_on_sale": 2,
        "refused": 1,
        "refused_rows": [
            {
                "row": None,
                "key": "BEAD-1",
                "code": "no_sensible_price",
                "message": "20 % off 0.05, down to .99, leaves no price above 0.",
            }
        ],
    }
    actual = (came.run.summary or {})["text"]
    assert str(actual).startswith("3 of 3 prices changed. 2 of 2 products tagged. 2 were on sale already.")
    assert store.variants("Mug")["MUG-S"][:2] == ("3.99", "4.99")
    again = await store.run(automation)
    assert (again.changes, again.result["already_on_sale"]) == ([], 5)


async def test_without_a_compare_at_price_only_the_price_changes(store: PlatformStore) -> None:
    """Changes only the price when `set_compare_at` is false.

    See docs/design/templates-catalogue.md#sale-start.
    """
    store.stock(_GOODS[0])
    automation = await store.set_up("sale-start", {**_ALL, "set_compare_at": False})
    came = await store.run(automation)
    assert came.changes[0] == ("Teapot (POT-1)", {"Price": ("24.90", "19.92")})
    assert store.variants("Teapot")["POT-1"][:2] == ("19.92", None)
    assert (await store.run(automation)).changes == []


@pytest.mark.parametrize(
    ("price", "percent", "ending", "currency", "new"),
    [
        ("10.05", "50", "none", "EUR", "5.03"),
        ("10.00", "33.3", "none", "EUR", "6.67"),
        ("24.99", "20", ".99", "EUR", "19.99"),
        ("24.98", "20", ".99", "EUR", "18.99"),
        ("24.99", "20", ".95", "EUR", "19.95"),
        ("24.99", "20", ".00", "EUR", "19.00"),
        ("20.00", "5", ".00", "EUR", "19.00"),
        ("1999", "15", ".99", "JPY", "1699"),
        ("10.005", "10", ".95", "KWD", "8.950"),
        ("10.005", "10", "none", "KWD", "9.005"),
    ],
)
def test_a_price_is_rounded_half_up_and_then_down_to_its_ending(
    price: str, percent: str, ending: str, currency: str, new: str
) -> None:
    """Rounds half up to the currency's decimals, then down to the ending.

    Currencies without cents have no ending.
    See docs/design/templates-catalogue.md#sale-start and docs/design/templates.md#e6-decimals.
    """
    options = MarkdownInputs(Decimal(percent), ending)
    assert marked_down(variant(price=price, currency=currency), options) == new


@pytest.mark.parametrize(
    ("price", "percent", "ending"),
    [
        ("0.00", "10", "none"),
        (None, "10", "none"),
        ("0.01", "10", "none"),
        ("1.20", "20", ".99"),
        ("x", "5", "none"),
    ],
)
def test_a_price_that_makes_no_sense_is_refused(price: str | None, percent: str, ending: str) -> None:
    """Refuses a new price that is not above 0, or not below the old one.

    See docs/design/templates-catalogue.md#sale-start.
    """
    with pytest.raises(RowRefused) as refused:
        marked_down(variant(price=price), MarkdownInputs(Decimal(percent), ending))
    assert refused.value.code == "no_sensible_price"


async def test_free_products_and_those_without_a_price_are_left_alone() -> None:
    """Checks products that are free or without a price, but neither changes nor refuses them.

    See docs/design/templates-catalogue.md#sale-start.
    """
    free = [product(variant("1", price="0.00")), product(variant("2", price=None, regular_price=""))]
    run = await _stage(*free).run()
    counts = {"checked": 2, "changed": 0, "already_on_sale": 0, "refused": 0, "refused_rows": []}
    assert (run.proposals, run.result) == ([], counts)


async def test_applied_markdowns_are_remembered_with_both_prices() -> None:
    """Remembers both prices of what was applied, and nothing of declined changes and test runs.

    See docs/design/templates-catalogue.md#sale-start.
    """
    stage = _stage(product(variant("1")), product(variant("2/1", "B", price="5.00")))
    await stage.run(outcome=Outcome.DECLINED)
    assert stage.memory.kept == {}
    await stage.run(mode=Mode.TEST)
    assert stage.memory.kept == {}
    await stage.run()
    stored = {
        key: (value["old"], value["compare_at"], value["new"])
        for (_, key), value in stage.memory.kept.items()
    }
    assert stored == {"11:1": ("10.00", None, "8.00"), "11:2/1": ("5.00", None, "4.00")}
    assert {space for space, _ in stage.memory.kept} == {SALE}


async def test_approved_changes_that_failed_are_named() -> None:
    """Lists a change that was approved but failed as refused with the code `failed`.

    See docs/design/templates-catalogue.md#sale-start.
    """
    run = await _stage(product(variant("1", "A"))).run(outcome=Outcome.FAILED)
    [row] = run.result["refused_rows"]
    assert (row["key"], row["code"], run.result["changed"], run.result["refused"]) == ("A", "failed", 0, 1)


async def test_a_product_whose_tag_failed_is_tagged_by_the_next_run_and_not_marked_down_again() -> None:
    """Adds only the tag in the next run, without lowering the price again.

    See docs/design/templates-catalogue.md#sale-start.
    """
    stage = _stage(product(variant("1")), set_compare_at=False)
    await stage.run(only=["variant.set_price"])
    again = await stage.run()
    assert [[part.operation for part in proposal.parts] for proposal in again.proposals] == [
        ["product_tag.create", "product.set_tags"]
    ]
    assert stage.shop.current_product("1").variants[0].price == "8.00"
    assert (await stage.run()).proposals == []


async def test_prices_and_tags_count_towards_the_limit() -> None:
    """Counts price and tag as two changes towards the limit.

    See docs/design/templates.md#e11-over-the-limit.
    """
    assert len((await _stage(product(variant("1")), limit=2).run()).proposals) == 2
    run = await _stage(product(variant("1")), limit=1).run()
    assert run.failed is not None
    assert (run.failed.code, run.proposals) == ("too_many_changes", [])


async def test_a_vendor_is_refused_where_products_have_none(store: PlatformStore) -> None:
    """Refuses a filter by vendor on WooCommerce, and an empty filter on both platforms.

    See docs/design/templates.md#data-file.
    """
    faults = await store.refused("sale-start", {"products": {"vendors": ["Kiln"]}, "percent": 5})
    assert list(faults) == (["inputs.products.vendors"] if store.platform == "woocommerce" else [])
    assert list(await store.refused("sale-start", {"products": {}, "percent": 5})) == ["inputs.products"]
