"""Tests how rows of a sheet are matched to variants.

See docs/design/templates.md#e1-comparing-skus-and-barcodes.
"""

from decimal import Decimal
from typing import Any

import pytest

from steward.connectors.base.records import SheetRow, SheetTable
from steward.steps.base import StepFailed
from steward.steps.rows import cell_from_json, cell_to_json, named_rows
from steward.steps.skus import RowRefused, Skus, key_of
from tests.templates.stage import variant


def _table(*rows: list[Any]) -> SheetTable:
    return SheetTable("1", "Prices", tuple(SheetRow(index, tuple(row)) for index, row in enumerate(rows, 1)))


def _failure(table: SheetTable, *names: str) -> str:
    with pytest.raises(StepFailed) as failed:
        named_rows(table, names)
    return failed.value.code


@pytest.mark.parametrize(
    ("cell", "key"),
    [
        ("  TEA-1\u00a0", "TEA-1"),
        ("\u2003TEA-1\t", "TEA-1"),
        ("\ufeff TEA-1\u200b", "TEA-1"),
        ("\ufeff\u200b", ""),
        ("Te\u0301a", "T\u00e9a"),
        ("tea-1", "tea-1"),
        (Decimal(12345678901234567890), "12345678901234567890"),
        (Decimal("1E+3"), "1000"),
        (Decimal("1200.0"), "1200"),
        (Decimal("1.50"), "1.5"),
        ("007", "007"),
        (None, ""),
        (True, "TRUE"),
    ],
)
def test_keys_are_compared_regardless_of_spacing_and_number_format(cell: Any, key: str) -> None:
    """Ignores outer white space, Unicode composition and the format of numbers; case counts.

    See docs/design/templates.md#e1-comparing-skus-and-barcodes.
    """
    assert key_of(cell) == key


def test_a_sku_in_other_case_is_refused_and_named() -> None:
    """Refuses a SKU that differs in case, and names the SKU that exists.

    See docs/design/templates.md#e1-comparing-skus-and-barcodes.
    """
    skus = Skus([variant("1", "Tea-1")])
    with pytest.raises(RowRefused, match="Tea-1") as refused:
        skus.find("TEA-1")
    assert refused.value.code == "sku_case_differs"


def test_an_exact_sku_wins_over_one_in_other_case() -> None:
    """Prefers the exact SKU to one that differs in case.

    See docs/design/templates.md#e1-comparing-skus-and-barcodes.
    """
    skus = Skus([variant("1", "Tea-1"), variant("2", "TEA-1")])
    found_variant = skus.find("TEA-1")
    assert found_variant is not None
    assert found_variant.id == "2"
    assert skus.find("tea-1") is None, "two candidates are not exactly one"


def test_a_sku_of_several_variants_is_ambiguous() -> None:
    """Refuses a SKU that several variants have, instead of taking the first.

    See docs/design/templates.md#e3-duplicate-skus.
    """
    with pytest.raises(RowRefused) as refused:
        Skus([variant("1", "A"), variant("2", " A ")]).find("A")
    assert refused.value.code == "sku_ambiguous"


def test_a_variant_without_a_sku_is_never_matched() -> None:
    """Never matches a variant without a SKU.

    See docs/design/templates.md#e2-missing-skus.
    """
    skus = Skus([variant("1", ""), variant("2", " ")])
    assert skus.find("") is None


def test_a_sheet_without_a_header_fails() -> None:
    """Fails for a sheet without a header row.

    See docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    assert _failure(_table(), "SKU") == "sheet_empty"
    assert _failure(_table([None, "  "], ["A", 1]), "SKU") == "sheet_empty"


def test_a_named_column_must_occur_exactly_once() -> None:
    """Refuses a named column that is missing or occurs twice.

    See docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    assert _failure(_table(["SKU", "Cost"]), "SKU", "Price") == "column_missing"
    assert _failure(_table(["SKU", "Price", " price "]), "SKU", "Price") == "column_repeated"


def test_other_columns_may_be_repeated() -> None:
    """Accepts a repeated column that is not named.

    See docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    rows = named_rows(_table(["SKU", "Note", "Note", "Price"], ["A", 1, 2, 3]), ["SKU", "Price"])
    assert rows[0].cells == ("A", 3)


def test_headers_are_compared_without_case_and_outer_blanks() -> None:
    """Compares headers without regard to case and outer white space.

    See docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    assert named_rows(_table([" sku ", "PRICE"], ["A", 5]), ["SKU", "Price"])[0].cells == ("A", 5)


def test_a_header_without_rows_is_no_failure() -> None:
    """Accepts a header without rows.

    See docs/design/templates.md#e4-empty-sheets-and-columns.
    """
    assert named_rows(_table(["SKU", "Price"]), ["SKU", "Price"]) == ()


def test_empty_rows_are_skipped_and_row_numbers_stay() -> None:
    """Skips empty rows; the others keep their row numbers in the sheet.

    See docs/design/templates.md#e2-missing-skus.
    """
    table = _table(["SKU", "Price"], ["A", 1], [None, " "], [], [None, None, "note"], ["B"])
    rows = named_rows(table, ["SKU", "Price", None])
    assert [(row.number, row.cells) for row in rows] == [
        (2, ("A", 1, None)),
        (5, (None, None, None)),
        (6, ("B", None, None)),
    ]


@pytest.mark.parametrize("cell", [None, "12", "=A1", True, False, Decimal("12.50"), Decimal("1E+3")])
def test_a_cell_survives_the_journal_exactly(cell: Any) -> None:
    """Restores a cell with its type from the journal.

    See docs/design/runs.md#execution.
    """
    back = cell_from_json(cell_to_json(cell))
    assert (back, type(back), str(back)) == (cell, type(cell), str(cell))
