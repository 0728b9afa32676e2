"""Tests reports over several stores: stock joined by SKU, and prices compared.

See docs/design/templates-catalogue.md#stock-report-across-stores.
"""

from typing import Any

import pytest

from steward.fake_platforms.sheets import FakeTab
from steward.model.ids import IntegrationId
from steward.model.run import Mode, RunStatus
from steward.steps.base import AccountAccess
from steward.templates.base import Template
from steward.templates.price_difference_report import TEMPLATE as PRICES
from steward.templates.stock_report_across_stores import TEMPLATE as STOCK
from tests.templates.sample_products import Item, ProductSpec, fill_shopify, fill_woocommerce
from tests.templates.stage import (
    SHOP,
    TEAMS,
    Shop,
    Stage,
    StageRun,
    card_lines,
    connection,
    product,
    variant,
)
from tests.templates.two_platforms import ConnectedService, lines_of

TAB, OTHER = "Report", IntegrationId(14)
READS = ("woocommerce", "shopify")

WOO = [
    ProductSpec("Cup", Item("CUP", "8.00", stock=3)),
    ProductSpec("Low", Item("LOW", "5.00", stock=-2)),
    ProductSpec("Nameless", Item("", stock=1)),
    ProductSpec("Only here", Item("ONE", stock=50)),
    ProductSpec(
        "Pot", sizes={"Small": Item("POT", "9.00", stock=20), "Large": Item("POT", "9.00", stock=-4)}
    ),
    ProductSpec("Tray", Item("TRAY", "4.00", stock=None)),
]
SHOPIFY = [
    ProductSpec("A cup", Item("CUP", "8.20", stock=30)),
    ProductSpec("Lamp", Item("low", "5.00", stock=60)),
    ProductSpec("Pot", Item("POT", "9.00", stock=7)),
    ProductSpec("Draft", Item("DRAFT", "1.00", stock=9), status="draft"),
    ProductSpec("Tray", Item("TRAY", "4.00", stock=8)),
]


def _populate(both: ConnectedService) -> None:
    fill_woocommerce(both.shop, WOO)
    fill_shopify(both.store, SHOPIFY)
    both.shop.world.state.google.books["sheet-prices"].tabs.append(FakeTab(77, TAB))


async def test_stock_is_joined_by_sku_in_the_order_of_the_stores(both: ConnectedService) -> None:
    """Joins stock by SKU in the order of the stores.

    A missing SKU is empty, sums and untracked stock are marked.
    See docs/design/templates-catalogue.md#stock-report-across-stores.
    """
    _populate(both)
    inputs = {"threshold": 3, "sheet": both.sheet(TAB), "teams": both.teams()}
    automation = await both.set_up("stock-report-across-stores", inputs, reads=READS)
    expected = {"stores": 2, "skus": 7, "low": 2, "only_in_one": 4, "ambiguous": 1}
    assert ((await both.run(automation, Mode.TEST)).result, both.written()) == (expected, [])
    run = await both.run(automation)
    assert (run.status, run.result) == (RunStatus.SUCCEEDED, expected)
    assert both.cells(TAB) == [
        ["SKU", "Product", "Stock: The woocommerce", "Stock: The shopify", "Note"],
        ["CUP", "Cup", 3, 30],
        ["DRAFT", "Draft", "", 9],
        ["LOW", "Low", -2, "", "also written low"],
        ["ONE", "Only here", 50],
        ["POT", "Pot, Small", "20 (2 variants)", 7],
        ["TRAY", "Tray", "not tracked", 8],
        ["low", "Lamp", "", 60, "also written LOW"],
    ]
    assert lines_of(both.posted()[0]) == [
        "2 SKUs are at or under 3",
        "CUP, Cup: The woocommerce: 3",
        "LOW, Low: The woocommerce: -2",
    ]


async def test_another_order_of_stores_is_another_table_in_the_same_tab(both: ConnectedService) -> None:
    """Writes columns in the order of `connections` and replaces its own list.

    Refuses a tab whose stores have another order.
    See docs/design/templates-catalogue.md#stock-report-across-stores.
    """
    _populate(both)
    inputs = {"threshold": 3, "low_only": True, "sheet": both.sheet(TAB)}
    automation = await both.set_up("stock-report-across-stores", inputs, reads=READS)
    await both.run(automation)
    assert [row[0] for row in both.cells(TAB)] == ["SKU", "CUP", "LOW"]
    renamed = "UPDATE connections SET name = 'Outlet' WHERE org_id = :org AND kind = 'shopify'"
    assert await both.shop.tamper(renamed) == 1
    assert (await both.run(automation)).status is RunStatus.SUCCEEDED
    assert both.cells(TAB)[0][3] == "Stock: Outlet"
    turned = await both.set_up("stock-report-across-stores", inputs, reads=tuple(reversed(READS)))
    foreign = await both.run(turned)
    assert (await both.shop.steps(foreign))[-1]["code"] == "wrong_header"


async def test_prices_are_compared_within_a_currency(both: ConnectedService) -> None:
    """Compares prices of published products that both stores have; a tolerance leaves equal ones out.

    See docs/design/templates-catalogue.md#price-difference-report and docs/design/templates.md#e9-variants.
    """
    _populate(both)
    inputs = {"sheet": both.sheet(TAB), "teams": both.teams()}
    automation = await both.set_up("price-difference-report", inputs, reads=READS)
    row = {"key": "CUP", "lowest": "8.00", "highest": "8.20", "currency": "EUR"}
    expected = {
        "stores": 2,
        "compared": 3,
        "different": 1,
        "other_currency": 0,
        "ambiguous": 0,
        "rows": [row],
    }
    assert ((await both.run(automation, Mode.TEST)).result, both.written()) == (expected, [])
    assert (await both.run(automation)).result == expected
    assert both.cells(TAB)[1:] == [["CUP", "Cup", "EUR", 8, 8.2, "+2.5 %", 8, 8.2]]
    assert len(await both.shop.changes(await both.run(automation))) == 1  # the sheet holds the list already
    assert lines_of(both.posted()[0]) == ["1 SKU has different prices", "CUP, Cup: 8.00 to 8.20 EUR (+2.5 %)"]
    wide = {"tolerance": 2.5, "sheet": both.sheet(TAB), "teams": both.teams()}
    same = await both.run(await both.set_up("price-difference-report", wide, reads=READS))
    assert same.result is not None
    assert (same.result["different"], both.cells(TAB)[1:], len(both.posted())) == (
        0,
        [["No price differs."]],
        2,
    )


async def test_a_store_that_cannot_be_read_is_named_and_nothing_is_written(both: ConnectedService) -> None:
    """Fails with the name of the store, and writes nothing to the sheet.

    See docs/design/templates-catalogue.md#stock-report-across-stores.
    """
    _populate(both)
    both.shop.fault("status", "GET", "/wp-json/**", status=403, count=100)
    for name in ("stock-report-across-stores", "price-difference-report"):
        automation = await both.set_up(name, {"sheet": both.sheet(TAB)}, reads=READS)
        run = await both.run(automation)
        assert (run.status, both.cells(TAB), both.written()) == (RunStatus.FAILED, [], [])
        assert str(run.message).startswith("The woocommerce could not be read.")


# --- step by step, with shops of any content


def _beside(template: Template, first: list[Any], second: list[Any], **inputs: Any) -> Stage:
    """Returns a stage that reads two shops and posts."""
    access = {
        number: AccountAccess(connection("woocommerce", number), Shop(products), {})
        for number, products in ((SHOP, first), (OTHER, second))
    }
    all_inputs = {"teams": {"integration_id": int(TEAMS)}, **inputs}
    return Stage(template, all_inputs, accounts=access, reads=(SHOP, OTHER))


async def _compared(first: list[Any], second: list[Any], **inputs: Any) -> StageRun:
    """Runs a price comparison of two shops."""
    return await _beside(PRICES, first, second, **inputs).run()


def _priced(sku: str, price: str | None, number: str = "7", currency: str = "EUR") -> Any:
    return product(variant(number, sku, price=price, currency=currency))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("0.00", "0.00", 0),
        ("0", "0.01", 1),
        ("10.00", "10.0", 0),
        (None, "5.00", 0),
        ("100.00", "110.00", 0),
        ("100.00", "110.01", 1),
    ],
)
async def test_a_difference_is_measured_from_the_lowest(
    first: str | None, second: str, expected: int
) -> None:
    """Compares with the lowest price: any price differs from 0, and one at the tolerance does not differ.

    See docs/design/templates-catalogue.md#price-difference-report.
    """
    run = await _compared([_priced("A", first)], [_priced("A", second)], tolerance=10)
    assert run.result["different"] == expected
    assert bool(run.proposals) is bool(expected)


async def test_currencies_are_never_compared_with_each_other() -> None:
    """Counts SKUs in different currencies as `other_currency`, without comparing them.

    See docs/design/templates-catalogue.md#price-difference-report.
    """
    run = await _compared([_priced("A", "1.00")], [_priced("A", "9.00", currency="USD")])
    assert (run.result["compared"], run.result["different"], run.result["other_currency"]) == (0, 0, 1)


async def test_keys_that_differ_in_capitals_are_named_and_not_compared() -> None:
    """Names SKUs that differ in case alone, without comparing them.

    See docs/design/templates-catalogue.md#price-difference-report and
    docs/design/templates.md#e1-comparing-skus-and-barcodes.
    """
    run = await _compared([_priced("abc", "1.00")], [_priced("ABC", "9.00")], match="sku")
    assert (run.result["compared"], run.result["different"]) == (0, 0)
    assert "capitals differ: ABC, abc." in str(run.messages[1])


async def test_two_prices_in_one_store_are_listed_apart() -> None:
    """Counts a SKU with two prices in one store as ambiguous; with the same price twice it is compared.

    See docs/design/templates-catalogue.md#price-difference-report.
    """
    twice = [_priced("A", "1.00", "7"), _priced("A", "2.00", "8"), _priced("B", "3.00", "9")]
    again = [_priced("A", "1.00"), _priced("B", "4.00", "8"), _priced("B", "4.00", "9")]
    run = await _compared(twice, again)
    assert (run.result["ambiguous"], run.result["compared"], run.result["different"]) == (1, 1, 1)


async def test_a_stock_that_variants_share_counts_once() -> None:
    """Counts a stock that two variations share through their parent once.

    See docs/design/templates-catalogue.md#stock-report-across-stores.
    """
    shared = {"stock_target": "7", "stock_managed_by_parent": True, "stock": 4}
    first = [product(variant("7/1", "A", **shared), variant("7/2", "A", **shared))]
    run = await _beside(STOCK, first, [], threshold=4).run()
    assert run.result == {"stores": 2, "skus": 1, "low": 1, "only_in_one": 1, "ambiguous": 1}
    # Two shops of the same name are told apart by their numbers.
    assert card_lines(run.proposals[0])[1:] == ["A, Tea 7, size 1: Northwind Tea (11): 4 (2 variants)"]


async def test_barcodes_are_matched_when_asked_for() -> None:
    """Matches variants by trimmed barcodes, and says how many have none.

    See docs/design/templates-catalogue.md#stock-report-across-stores.
    """
    first = [product(variant("7", "X", barcode="401")), product(variant("8", "Y"))]
    second = [product(variant("1", barcode=" 401"))]
    run = await _beside(STOCK, first, second, match="barcode", threshold=0).run()
    assert (run.result["skus"], run.result["only_in_one"]) == (1, 0)
    assert run.messages[0] == "1 variant without a Barcode left out."
    assert run.proposals == []
