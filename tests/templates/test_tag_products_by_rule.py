"""Tests tagging products by rule: what each rule matches, and which tags are added and removed.

See docs/design/templates-catalogue.md#tag-products-by-rule.
"""

from datetime import timedelta
from typing import Any

import pytest

from steward.model.run import Mode
from steward.steps.base import StoreEvent
from steward.templates.base import SetupContext
from steward.templates.tag_products_by_rule import TEMPLATE, check_setup
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.stage import NOW, SHOP, Shop, Stage, connection, product, variant


def _stage(*products: Any, **inputs: Any) -> Stage:
    return Stage(TEMPLATE, {"tag": "picked", **inputs}, shop=Shop(list(products)))


_GOODS = (
    ProductSpec("Teapot", Item("POT-1", price="8.00", compare_at="10.00"), tags=("tea",), age_days=10),
    ProductSpec(
        "Mug", sizes={"S": Item("MUG-S", price="4.00"), "L": Item("MUG-L", price="6.00")}, age_days=40
    ),
    ProductSpec(
        "Bowl", Item("BOWL-1", price="30.00", cost=None), tags=("picked",), type="Glass", vendor="Lab"
    ),
)
_ON, _OFF = ([], ["picked"]), (["picked"], [])
_POT, _MUG, _BOWL = "Teapot (POT-1)", "Mug", "Bowl (BOWL-1)"
_POT_ON = (["tea"], ["picked", "tea"])
_THREE = {_POT: _POT_ON, _MUG: _ON, _BOWL: _OFF}


_RULES: list[tuple[dict[str, Any], int, dict[str, Any]]] = [
    ({"when": "on_sale"}, 1, {_POT: _POT_ON, _BOWL: _OFF}),
    ({"when": "new", "days": 40}, 2, _THREE),
    ({"when": "type", "types": [" pottery "]}, 2, _THREE),
    ({"when": "price_range", "min_price": "6", "max_price": "8"}, 2, _THREE),
    ({"when": "price_range", "min_price": "6.01", "remove_when_not": False}, 2, {_POT: _POT_ON}),
]


async def test_on_each_platform_a_rule_tags_and_untags(store: PlatformStore) -> None:
    """Gives the same tags on both platforms; a test run writes nothing and a second run proposes nothing.

    See docs/design/templates-catalogue.md#tag-products-by-rule.
    """
    for inputs, matched, changes in _RULES:
        store.stock(*_GOODS)
        automation = await store.set_up("tag-products-by-rule", {"tag": "picked", **inputs})
        written = store.writes()
        tried = await store.run(automation, Mode.TEST)
        expected = {name: {"Tags": tags} for name, tags in changes.items()}
        assert (dict(tried.changes), store.writes()) == (expected, written), inputs
        came = await store.run(automation)
        assert (dict(came.changes), set(came.outcomes)) == (expected, {"applied"})
        off = sum(tags == _OFF for tags in changes.values())
        on = len(changes) - off
        assert came.result == {"checked": 3, "matched": matched, "tagged": on, "untagged": off}
        assert (await store.run(automation)).changes == []


@pytest.mark.parametrize("when", [{"when": "vendor", "vendors": ["LAB"]}, {"when": "missing_cost"}])
async def test_fields_that_woocommerce_does_not_have_are_refused(
    store: PlatformStore, when: dict[str, Any]
) -> None:
    """Refuses `vendor` and `missing_cost` on WooCommerce, and matches them on Shopify.

    See docs/design/templates-catalogue.md#tag-products-by-rule.
    """
    all_inputs = {"tag": "odd", **when}
    if store.platform == "woocommerce":
        assert list(await store.refused("tag-products-by-rule", all_inputs)) == ["inputs.when"]
        return
    store.stock(*_GOODS)
    came = await store.run(await store.set_up("tag-products-by-rule", all_inputs))
    assert came.changes == [(_BOWL, {"Tags": (["picked"], ["odd", "picked"])})]
    words = "Vendor: LAB." if when["when"] == "vendor" else "A variant has no cost price."
    assert came.messages == [words]


def test_a_range_the_wrong_way_round_is_refused() -> None:
    """Refuses a maximum price below the minimum; equal prices are a range.

    See docs/design/templates-catalogue.md#tag-products-by-rule.
    """
    ends = {"when": "price_range", "tag": "x", "min_price": "9.50", "remove_when_not": True}
    world = SetupContext(connection("woocommerce", SHOP), {})
    assert list(check_setup({**ends, "max_price": "9.49"}, world)) == ["inputs.max_price"]
    assert check_setup({**ends, "max_price": "9.5"}, world) == {}


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"when": "on_sale", "days": 3}, "inputs.days"),
        ({"when": "new", "days": 3, "types": ["a"]}, "inputs.types"),
        ({"when": "new", "days": 3, "max_price": "3"}, "inputs.max_price"),
        ({"when": "new"}, "inputs.days"),
        ({"when": "vendor", "vendors": []}, "inputs.vendors"),
    ],
)
def test_a_field_of_another_rule_is_refused_on_its_own_path(inputs: dict[str, Any], path: str) -> None:
    """Reports a field of another rule, or a missing field of the rule, on its own path.

    See docs/design/templates-catalogue.md#tag-products-by-rule.
    """
    assert list(TEMPLATE.check_inputs({"tag": "x", **inputs}).errors) == [path]


@pytest.mark.parametrize(("hours", "is_new"), [(48, True), (49, False)])
async def test_new_ends_with_the_last_of_its_days(hours: int, is_new: bool) -> None:
    """A product is new up to exactly that many days.

    See docs/design/templates-catalogue.md#tag-products-by-rule.
    """
    each_product = product(variant("1"), created_at=NOW - timedelta(hours=hours))
    assert len((await _stage(each_product, when="new", days=2).run()).proposals) == is_new


async def test_kinds_that_are_left_out_are_not_tagged() -> None:
    """Neither checks nor tags products that cannot be sold. See docs/design/templates.md#e9-variants."""
    grouped = product(id="8", kind="grouped", sellable=False, type="Tea")
    run = await _stage(grouped, when="type", types=["tea"]).run()
    assert (run.result["checked"], run.proposals) == (0, [])


async def test_a_compare_at_price_that_is_not_above_the_price_is_no_sale() -> None:
    """A compare-at price that is not a number, or not above the price, is no sale.

    See docs/design/templates-catalogue.md#tag-products-by-rule.
    """
    odd = [variant("1", compare_at="10.00"), variant("2", compare_at="ask"), variant("3", price=None)]
    assert (await _stage(*map(product, odd), when="on_sale").run()).result["matched"] == 0


async def test_an_event_looks_at_its_own_product_alone() -> None:
    """Reads only the event's product; one that is gone matches nothing.

    See docs/design/templates.md#rules.
    """
    stage = _stage(
        *(product(variant(variant_id), type="Tea") for variant_id in "12"), when="type", types=["Tea"]
    )
    run = await stage.run(event=StoreEvent("products/update", "product", "2"))
    assert [proposal.object.id for proposal in run.proposals] == ["2"]
    gone = await stage.run(event=StoreEvent("products/update", "product", "9"))
    assert (gone.failed, gone.result["checked"]) == (None, 0)


async def test_a_product_that_cannot_be_tagged_is_named_and_left() -> None:
    """Names the product that cannot be tagged, and tags the others.

    See docs/design/templates.md#data-rules.
    """
    products = [
        product(variant(variant_id), type="Tea", tags=tags)
        for variant_id, tags in (("1", ("a, b",)), ("2", ()))
    ]
    run = await _stage(*products, when="type", types=["Tea"]).run()
    assert [proposal.object.id for proposal in run.proposals] == ["2"]
    assert "Tea 1" in str(run.messages[1])


async def test_exactly_limit_is_allowed_and_one_more_fails() -> None:
    """Proposes exactly `limit` changes; with one more it fails and proposes none.

    See docs/design/templates.md#e11-over-the-limit.
    """
    many = [product(variant(str(number)), type="Tea") for number in range(1, 4)]
    assert len((await _stage(*many, when="type", types=["Tea"], limit=3).run()).proposals) == 3
    run = await _stage(*many, when="type", types=["Tea"], limit=2).run()
    assert run.failed is not None
    assert (run.failed.code, run.proposals) == ("too_many_changes", [])
