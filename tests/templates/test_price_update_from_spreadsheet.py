"""Tests prices from a spreadsheet: which rows are used, and which are refused and why.

See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
"""

import json
from typing import Any

import pytest

from steward.model.change import Outcome
from steward.model.run import Mode
from steward.templates.price_update_from_spreadsheet import TEMPLATE
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.stage import SHEET, SHOP, Sheet, Shop, Stage, connection, product, variant

_HEAD = ["SKU", "Price", "Was"]


def _stage(rows: list[list[Any]], *products: Any, **inputs: Any) -> Stage:
    all_inputs = {
        "sheet": {"integration_id": int(SHEET)},
        "sku_column": "SKU",
        "price_column": "Price",
        **inputs,
    }
    held = products or (product(variant("7", "A")),)
    return Stage(TEMPLATE, all_inputs, shop=Shop(list(held)), sheet=Sheet([_HEAD, *rows]))


async def _refusal(rows: list[list[Any]], *products: Any, **inputs: Any) -> tuple[Any, ...]:
    """Returns row, key and code of the one refused row of a run that proposes nothing."""
    run = await _stage(rows, *products, **inputs).run()
    assert run.proposals == []
    [refused] = run.result["refused_rows"]
    assert refused["message"]
    return refused["row"], refused["key"], refused["code"]


_GOODS = (
    ProductSpec("Teapot", Item("POT-1", price="24.90")),
    ProductSpec("Mug", sizes={"S": Item("MUG-S", price="4.00"), "L": Item("MUG-L", price="6.00")}),
    ProductSpec("Bowl", Item("BOWL-1", price="8.00", compare_at="9.00")),
    ProductSpec("Vase", Item("TWICE", price="8.00")),
    ProductSpec("Jar", Item("TWICE", price="8.00")),
    ProductSpec("Tray", Item("", price="3.00")),
)
_ROWS: list[list[Any]] = [
    ["POT-1", 29.9, 34.9],
    [" MUG-S ", "€ 3,50", None],
    ["mug-l", 7, None],
    ["BOWL-1", "8.00", None],
    ["TWICE", 9, None],
    ["POT-9", 9, None],
    ["MUG-L", "6.005", None],
    [],
]


async def test_on_each_platform_the_prices_of_the_sheet_are_set_once(store: PlatformStore) -> None:
    """Sets the same prices on both platforms and refuses the same rows; a second run proposes nothing.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    store.stock(*_GOODS)
    tab = store.shop.world.state.google.books["sheet-prices"].tab("Prices")
    rows = [_HEAD, *_ROWS]
    tab.cells = {(index, column): cell for index, row in enumerate(rows) for column, cell in enumerate(row)}
    inputs = {
        "sheet": store.both.sheet("Prices"),
        "sku_column": "SKU",
        "price_column": "Price",
        "compare_at_column": "Was",
        "number_format": "point",
    }
    automation = await store.set_up("price-update-from-spreadsheet", inputs)
    expected = [
        ("Teapot (POT-1)", {"Price": ("24.90", "29.90"), "Compare-at price": (None, "34.90")}),
        ("Mug, S (MUG-S)", {"Price": ("4.00", "3.50")}),
        ("Bowl (BOWL-1)", {"Compare-at price": ("9.00", None)}),
    ]
    codes = ["4 mug-l sku_case_differs", "6 TWICE sku_ambiguous", "8 MUG-L too_many_decimals"]
    counts = {"rows": 7, "matched": 3, "changed": 3, "unchanged": 0, "not_found": 1, "refused": 3}
    tried = await store.run(automation, Mode.TEST)
    assert (tried.changes, store.writes()) == (expected, 0)
    came = await store.run(automation)
    assert (came.changes, set(came.outcomes)) == (expected, {"applied"})
    refused = came.result["refused_rows"]
    assert came.result == {**counts, "refused_rows": refused}
    assert [f"{row['row']} {row['key']} {row['code']}" for row in refused] == codes
    assert came.messages == ["+20.1 %. Row 2 of the sheet.", "-12.5 %. Row 3 of the sheet.", came.messages[2]]
    assert store.variants("Teapot")["POT-1"][:2] == ("29.90", "34.90")
    assert store.variants("Bowl")["BOWL-1"][:2] == ("8.00", None)
    again = await store.run(automation)
    assert (again.changes, again.result["unchanged"]) == ([], 3)


async def test_a_price_that_differs_is_proposed_with_what_stands_beside_it() -> None:
    """Shows the price before and after, the difference in per cent and the row of the sheet.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    stage = _stage([["A", 11]])
    run = await stage.run()
    [proposal] = run.proposals
    [field] = proposal.fields
    assert (field.label, field.before, field.after, field.kind.value, field.currency) == (
        "Price",
        "10.00",
        "11.00",
        "money",
        "EUR",
    )
    assert (proposal.object.type, proposal.message) == ("variant", "+10.0 %. Row 2 of the sheet.")
    assert stage.shop.current_product("7").variants[0].price == "11.00"
    assert run.result == {
        "rows": 1,
        "matched": 1,
        "changed": 1,
        "unchanged": 0,
        "not_found": 0,
        "refused": 0,
        "refused_rows": [],
    }
    assert run.summary.text == "1 of 1 price changed."


async def test_a_second_run_proposes_nothing() -> None:
    """Counts a price that equals the sheet as unchanged.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    stage = _stage([["A", 11, 14]], compare_at_column="Was")
    await stage.run()
    again = await stage.run()
    assert again.proposals == []
    assert (again.result["matched"], again.result["unchanged"]) == (1, 1)
    assert again.summary.text == "No price differs from the sheet."


async def test_a_sku_that_is_not_in_the_store_is_counted_and_the_others_continue() -> None:
    """Counts the SKU as `not_found` and changes the others.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    run = await _stage([["B", 5], ["A", 11]]).run()
    assert (run.result["not_found"], run.result["changed"]) == (1, 1)
    assert "1 SKU of the sheet is not in the store." in run.summary.text


async def test_a_sku_of_the_store_that_is_not_in_the_sheet_is_left_alone() -> None:
    """Leaves a variant alone whose SKU the sheet does not have.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    run = await _stage([["A", 11]], product(variant("7", "A")), product(variant("8", "B"))).run()
    assert [proposal.object.id for proposal in run.proposals] == ["7"]


async def test_an_empty_price_leaves_the_row_alone() -> None:
    """Refuses a row with an empty price as `price_empty`.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    assert await _refusal([["A", None]]) == (2, "A", "price_empty")
    assert await _refusal([["A", "\u00a0"]]) == (2, "A", "price_empty")


@pytest.mark.parametrize("zero", [0, "0", "0,00", "-0"])
async def test_a_price_of_zero_is_refused(zero: Any) -> None:
    """Refuses a row with a price of zero as `price_zero`.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    assert await _refusal([["A", zero]]) == (2, "A", "price_zero")


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("1,234", "number_ambiguous"),
        ("$12", "currency_differs"),
        ("12 %", "not_a_number"),
        ("#REF!", "not_a_number"),
        (-5, "negative"),
        ("10.505", "number_ambiguous"),
        (10.505, "too_many_decimals"),
        (True, "not_a_number"),
    ],
)
async def test_a_cell_that_is_no_price_is_refused(cell: Any, code: str) -> None:
    """Refuses cells that are ambiguous, negative, in another currency, too precise or not a number.

    See docs/design/templates.md#e5-numbers-as-text and docs/design/templates.md#e6-decimals.
    """
    assert await _refusal([["A", cell]]) == (2, "A", code)


async def test_the_form_of_numbers_decides_the_ambiguous_ones() -> None:
    """Reads `1.234` as 1234 with the number format `comma`.

    See docs/design/templates.md#e5-numbers-as-text.
    """
    dear = product(variant("7", "A", price="1200.00", regular_price="1200.00"))
    run = await _stage([["A", "1.234"]], dear, number_format="comma").run()
    assert run.proposals[0].fields[0].after == "1234.00"


async def test_a_row_with_values_but_no_sku_is_refused() -> None:
    """Refuses a row with values but without a SKU as `sku_missing`.

    See docs/design/templates.md#e2-missing-skus.
    """
    assert await _refusal([[None, 5]]) == (2, None, "sku_missing")
    assert await _refusal([[" ", None, 3]]) == (2, None, "sku_missing")


async def test_a_sku_in_other_letters_is_refused() -> None:
    """Refuses a SKU that differs in case alone as `sku_case_differs`.

    See docs/design/templates.md#e1-comparing-skus-and-barcodes.
    """
    assert await _refusal([["a", 11]]) == (2, "a", "sku_case_differs")


async def test_a_sku_of_several_variants_changes_none_of_them() -> None:
    """Refuses a SKU of several variants as `sku_ambiguous`.

    See docs/design/templates.md#e3-duplicate-skus.
    """
    two = (product(variant("7", "A")), product(variant("8", "A")))
    assert await _refusal([["A", 11]], *two) == (2, "A", "sku_ambiguous")


async def test_a_sku_twice_with_the_same_values_is_used_once() -> None:
    """Uses a SKU once when its rows give the same price in any notation.

    See docs/design/templates.md#e3-duplicate-skus.
    """
    run = await _stage([["A", 11], [" A ", "11,00"], ["A", "€ 11"]]).run()
    assert (len(run.proposals), run.result["rows"], run.result["refused"]) == (1, 3, 0)


@pytest.mark.parametrize("other", [12, None, "x"])
async def test_a_sku_twice_with_different_values_is_refused_every_time(other: Any) -> None:
    """Refuses every row of a SKU whose rows differ as `sku_repeated`.

    See docs/design/templates.md#e3-duplicate-skus.
    """
    run = await _stage([["A", 11], ["A", other]]).run()
    assert run.proposals == []
    assert [(row["row"], row["code"]) for row in run.result["refused_rows"]] == [
        (2, "sku_repeated"),
        (3, "sku_repeated"),
    ]


async def test_a_number_cell_of_a_sku_is_its_digits() -> None:
    """Matches a number cell with the SKU of the same digits.

    See docs/design/templates.md#e1-comparing-skus-and-barcodes.
    """
    run = await _stage([[4006381333931, 11]], product(variant("7", "4006381333931"))).run()
    assert len(run.proposals) == 1


async def test_a_change_at_the_most_allowed_passes_and_one_cent_more_does_not() -> None:
    """Allows a change of 30 % up or down and refuses one cent more as `change_too_large`.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    for index, past in ((13, 13.01), (7, 6.99)):
        assert len((await _stage([["A", index]]).run()).proposals) == 1
        assert await _refusal([["A", past]]) == (2, "A", "change_too_large")


@pytest.mark.parametrize("before", [None, "0", "0.00", "abc"])
async def test_a_variant_without_a_price_may_get_any_with_a_warning(before: str | None) -> None:
    """Proposes any price for a variant without a price, with a warning.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    each_product = product(variant("7", "A", price=before, regular_price=before or ""))
    [proposal] = (await _stage([["A", 900]], each_product).run()).proposals
    assert str(proposal.message).startswith("Warning")


async def test_compare_at_is_left_alone_without_its_column() -> None:
    """Changes only the sale price of a variant on sale when no compare-at column is chosen.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    sale = {"price": "8.00", "compare_at": "10.00", "sale_price": "8.00"}
    stage = _stage([["A", 9]], product(variant("7", "A", **sale)))
    [proposal] = (await stage.run()).proposals
    assert proposal.parts[0].arguments == {"regular_price": "10.00", "sale_price": "9.00"}


async def test_a_new_price_over_the_compare_at_that_is_left_alone_is_refused() -> None:
    """Refuses a price at or above the compare-at price that stays.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    sale = {"price": "9.00", "compare_at": "10.00", "sale_price": "9.00"}
    code = await _refusal([["A", 10]], product(variant("7", "A", **sale)))
    assert code == (2, "A", "compare_at_not_above")


async def test_compare_at_goes_to_the_platforms_own_fields() -> None:
    """Writes the compare-at price as WooCommerce's regular price and the price as its sale price.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    [proposal] = (await _stage([["A", 9, 12]], compare_at_column="Was").run()).proposals
    assert proposal.parts[0].arguments == {"regular_price": "12.00", "sale_price": "9.00"}
    assert [(field.label, field.before, field.after) for field in proposal.fields] == [
        ("Price", "10.00", "9.00"),
        ("Compare-at price", None, "12.00"),
    ]


async def test_an_empty_compare_at_is_removed() -> None:
    """Removes the compare-at price when its cell is empty.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    sale = {"price": "8.00", "compare_at": "10.00", "sale_price": "8.00"}
    stage = _stage([["A", 8, None]], product(variant("7", "A", **sale)), compare_at_column="Was")
    [proposal] = (await stage.run()).proposals
    assert proposal.parts[0].arguments == {"regular_price": "8.00", "sale_price": ""}
    assert str(proposal.message).startswith("The price stays.")


@pytest.mark.parametrize("compare", [9, 8.99])
async def test_a_compare_at_that_is_not_above_is_refused(compare: float) -> None:
    """Refuses a compare-at price that is not above the price.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    code = await _refusal([["A", 9, compare]], compare_at_column="Was")
    assert code == (2, "A", "compare_at_not_above")


async def test_a_running_sale_keeps_its_dates_and_they_are_named() -> None:
    """Names the end date of a running sale beside the change.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    sale = {"price": "8.00", "compare_at": "10.00", "sale_price": "8.00", "sale_to": "2026-12-01T00:00:00"}
    [proposal] = (await _stage([["A", 9]], product(variant("7", "A", **sale))).run()).proposals
    assert "2026-12-01" in str(proposal.message)


async def test_a_price_has_the_decimals_of_the_stores_currency() -> None:
    """Proposes prices with the decimals of the store's currency, such as none for yen.

    See docs/design/templates.md#e6-decimals and docs/design/templates.md#e13-currencies.
    """
    yen = {"currency": "JPY", "price": "1000", "regular_price": "1000"}
    for cell, proposed in (("1100", "1100"), ("1100.00", "1100")):
        stage = _stage([["A", cell]], product(variant("7", "A", **yen), currency="JPY"))
        stage.store = connection("woocommerce", SHOP, currency="JPY")
        assert (await stage.run()).proposals[0].fields[0].after == proposed


async def test_variations_are_the_unit() -> None:
    """Changes only the variation that has the SKU. See docs/design/templates.md#e9-variants."""
    run = await _stage([["B", 11]], product(variant("7/1", "A"), variant("7/2", "B"))).run()
    assert [proposal.object.id for proposal in run.proposals] == ["7/2"]


async def test_every_page_is_read_before_anything_is_compared() -> None:
    """Reads every page first, so that a variant on two pages is not ambiguous.

    See docs/design/templates.md#e10-pages.
    """
    many = [product(variant(str(n), f"S{n}")) for n in range(1, 8)]
    rows: list[list[Any]] = [[f"S{n}", 11] for n in range(1, 8)]
    run = await _stage(rows, *many).run()
    assert (len(run.proposals), run.result["refused"]) == (7, 0)
    assert run.counts.read == 7 + 7


async def test_variants_without_a_sku_are_counted() -> None:
    """Says how many variants without a SKU cannot be matched.

    See docs/design/templates.md#e2-missing-skus.
    """
    goods = [product(variant("7", "A")), product(variant("8", "")), product(variant("9", " "))]
    run = await _stage([["A", 11]], *goods).run()
    assert run.messages[1] == "2 variants without a SKU cannot be matched."
    assert [proposal.object.id for proposal in run.proposals] == ["7"]


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ([], "sheet_empty"),
        (["SKU", "Cost"], "column_missing"),
        (["SKU", "Price", "price"], "column_repeated"),
    ],
)
async def test_a_sheet_that_cannot_be_read_fails_the_run(head: list[Any], code: str) -> None:
    """Fails the run on an empty sheet, and on a missing or repeated column.

    See docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    stage = _stage([])
    stage.sheet.rows = [head] if head else []
    run = await stage.run()
    assert run.failed is not None
    assert run.failed.code == code
    assert "No price was changed." in run.summary.text


async def test_a_header_without_rows_succeeds_with_nothing() -> None:
    """Succeeds without changes on a sheet with a header alone.

    See docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    run = await _stage([]).run()
    assert (run.failed, run.result["rows"]) == (None, 0)


async def test_a_tab_that_is_gone_fails_the_run_naming_it() -> None:
    """Fails with `tab_missing` and names the tab. See docs/design/templates.md#rules."""
    stage = _stage([["A", 11]], sheet={"integration_id": int(SHEET), "tab": "Old"})
    run = await stage.run()
    assert run.failed is not None
    assert (run.failed.code, "Old" in run.failed.message) == ("tab_missing", True)


async def test_exactly_limit_is_allowed_and_one_more_fails_before_anybody_is_asked() -> None:
    """Proposes exactly `limit` changes; with one more it fails and proposes none.

    See docs/design/templates.md#e11-over-the-limit.
    """
    many = [product(variant(str(n), f"S{n}")) for n in range(1, 4)]
    rows: list[list[Any]] = [[f"S{n}", 11] for n in range(1, 4)]
    assert len((await _stage(rows, *many, limit=3).run()).proposals) == 3
    run = await _stage(rows, *many, limit=2).run()
    assert run.failed is not None
    assert (run.failed.code, run.proposals) == ("too_many_changes", [])
    assert run.summary.text == "No price was changed."


async def test_a_test_run_says_what_would_change_and_changes_nothing() -> None:
    """Says how many prices would change, and changes none. See docs/design/templates.md#rules."""
    stage = _stage([["A", 11]])
    run = await stage.run(mode=Mode.TEST)
    assert (run.summary.text, run.result["changed"]) == ("1 price would be changed.", 1)
    assert stage.shop.current_product("7").variants[0].price == "10.00"


async def test_a_declined_change_has_its_own_outcome() -> None:
    """Counts declined changes apart from those that were made. See docs/design/writes.md#reconciliation."""
    run = await _stage([["A", 11]]).run(outcome=Outcome.DECLINED)
    assert (run.summary.text, run.result["changed"]) == ("0 of 1 price changed, 1 left out.", 0)


async def test_the_result_lists_the_first_200_refused_rows_and_counts_all() -> None:
    """Lists the first 200 refused rows and counts all. See docs/design/templates.md#rules."""
    rows: list[list[Any]] = [[None, 5]] * 201
    run = await _stage(rows).run()
    assert (run.result["refused"], len(run.result["refused_rows"])) == (201, 200)


async def test_a_result_of_long_texts_stays_under_64_kib() -> None:
    """Leaves rows out of the list, but not out of the count, to keep the result under 64 KiB.

    See docs/design/api/runs.md#run.
    """
    rows: list[list[Any]] = [["茶" * 300 + str(n), "茶" * 300] for n in range(201)]
    held = [product(variant(str(n), row[0])) for n, row in enumerate(rows)]
    run = await _stage(rows, *held).run()
    assert run.result["refused"] == 201
    assert 50 < len(run.result["refused_rows"]) < 200
    assert len(json.dumps(run.result, ensure_ascii=False).encode()) <= 64 * 1024
