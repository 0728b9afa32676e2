"""Tests templates on generated shops and sheets: no change is undone, no price is 0, no limit exceeded.

See docs/design/templates.md#data-rules.
"""

import asyncio
from collections.abc import Coroutine
from decimal import Decimal
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from steward.templates import hide_out_of_stock_products, low_stock_alert, price_update_from_spreadsheet
from tests.templates.stage import SHEET, TEAMS, Sheet, Shop, Stage, StageRun, product, variant

T = TypeVar("T")
_SKUS = st.sampled_from(["A", "a", "B", " B", "C", "", "Te\u0301a", "T\u00e9a", "12"])
_PRICES = st.one_of(st.none(), st.decimals("0", "99", places=2).map(str))
_STOCK = st.one_of(st.none(), st.integers(-3, 12))


@st.composite
def _products(draw: st.DrawFn) -> list[Any]:
    created_items = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        count = draw(st.integers(0, 3))
        names = (
            [str(number)] if count == 0 else [f"{number}/{own_value}" for own_value in range(1, count + 1)]
        )
        variants = []
        for name in names:
            regular, sale = draw(_PRICES), draw(_PRICES)
            on_sale = bool(regular and sale and Decimal(sale) < Decimal(regular))
            stock = draw(_STOCK)
            variants.append(
                variant(
                    name,
                    draw(_SKUS),
                    price=sale if on_sale else regular,
                    compare_at=regular if on_sale else None,
                    regular_price=regular or "",
                    sale_price=(sale or "") if on_sale else "",
                    stock=stock,
                    tracked=stock is not None,
                    backorders_allowed=draw(st.booleans()) and draw(st.booleans()),
                )
            )
        tags = draw(st.sampled_from([(), ("tea",), ("auto-hidden",), ("Auto-Hidden", "tea")]))
        visible = draw(st.booleans())
        created_items.append(
            product(*variants, tags=tags, visible=visible, visibility="catalog" if visible else "hidden")
        )
    return created_items


_CELLS = st.one_of(
    st.none(),
    st.integers(-2, 120),
    st.decimals("0", "120", places=2).map(float),
    st.sampled_from(["12,50", "1,234", "€ 9", "$9", "x", "0", "10.505", " 7.25 "]),
)
_ROWS = st.lists(st.tuples(_SKUS, _CELLS, _CELLS).map(list), max_size=8)


def _run(walk: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(walk)


def _settled(stage: Stage, limit: int) -> StageRun:
    """Returns the first run; a second one proposes nothing, unless the first was over the limit."""
    first = _run(stage.run())
    assert len(first.proposals) <= limit
    if first.failed is None:
        assert _run(stage.run()).proposals == []
    else:
        assert (first.failed.code, first.proposals) == ("too_many_changes", [])
    return first


@given(_products(), _ROWS, st.booleans(), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_prices_are_above_zero_and_stay(
    products: list[Any], rows: list[list[Any]], with_was: bool, limit: int
) -> None:
    """Sets prices above 0, each once, with the sale price below the regular price.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    inputs: dict[str, Any] = {
        "sheet": {"integration_id": int(SHEET)},
        "sku_column": "SKU",
        "price_column": "Price",
        "compare_at_column": "Was" if with_was else None,
        "limit": limit,
        "max_change_percent": 95,
    }
    sheet = Sheet([["SKU", "Price", "Was"], *rows])
    stage = Stage(price_update_from_spreadsheet.TEMPLATE, inputs, shop=Shop(products), sheet=sheet)
    run = _settled(stage, limit)
    for proposal in run.proposals:
        after: Any = proposal.parts[0].after
        regular, sale = after["regular_price"], after["sale_price"]
        assert Decimal(sale or regular) > 0
        assert not sale or Decimal(sale) < Decimal(regular)
    ids = [proposal.object.id for proposal in run.proposals]
    assert len(set(ids)) == len(ids)
    result = run.result
    assert result["matched"] + result["not_found"] + result["refused"] <= result["rows"]
    assert result["rows"] == sum(any(cell not in (None, "") for cell in row) for row in rows)


@given(_products(), st.integers(0, 3), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_only_sold_out_products_are_hidden_and_stay_so(
    products: list[Any], threshold: int, limit: int
) -> None:
    """Hides only visible, tracked products at or under the threshold, and changes no others.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products and
    docs/design/templates.md#e7-negative-stock.
    """
    before = {product.id: product for product in products}
    inputs = {"threshold": threshold, "limit": limit}
    stage = Stage(hide_out_of_stock_products.TEMPLATE, inputs, shop=Shop(list(products)))
    run = _settled(stage, limit)
    for proposal in run.proposals:
        was = before[str(proposal.object.id)]
        assert was.visible
        assert all(variant.tracked and not variant.backorders_allowed for variant in was.variants)
        assert sum(max(each_variant.stock, 0) for each_variant in was.variants) <= threshold
        now = stage.shop.current_product(was.id)
        assert not now.visible
        assert "auto-hidden" in [tag.casefold() for tag in now.tags]
        assert {tag.casefold() for tag in was.tags} <= {tag.casefold() for tag in now.tags}
    untouched = before.keys() - {proposal.object.id for proposal in run.proposals}
    assert all(stage.shop.current_product(number) == before[number] for number in untouched)


@given(_products(), st.integers(0, 6), st.booleans())
@settings(max_examples=100, deadline=None)
def test_an_alert_is_given_once(products: list[Any], threshold: int, include_untracked: bool) -> None:
    """Sends one message for all low variants; a second run sends none.

    See docs/design/templates-catalogue.md#low-stock-alert.
    """
    inputs = {
        "threshold": threshold,
        "teams": {"integration_id": int(TEAMS)},
        "include_untracked": include_untracked,
    }
    run = _settled(Stage(low_stock_alert.TEMPLATE, inputs, shop=Shop(products)), limit=1)
    result = run.result
    assert result["new"] == result["low"] <= result["checked"]
    assert result["untracked"] + result["low"] <= result["checked"]
    assert bool(run.proposals) is bool(result["variants"])
