"""Tests store records that pass through the journal, and how stock is counted.

See docs/design/runs.md#execution and docs/design/templates.md#e7-negative-stock.
"""

import json

import pytest

from steward.templates.parts.stock import ProductFilter, total_of, units_of
from steward.templates.parts.stored_products import ProductTable, VariantTable
from tests.templates.stage import product, variant

_SHARED = {"stock_target": "3", "stock_managed_by_parent": True, "stock": 4}


def test_products_are_restored_from_the_journal() -> None:
    """Restores products from the journal, except for descriptions and images.

    See docs/design/runs.md#execution.
    """
    products = [
        product(variant("3/1", "A", compare_at="12.00"), variant("3/2", "", stock=None), tags=("a", "b")),
        product(variant("9"), tag_ids=(("x", "4"),), vendor="Ceylon", type="Tea"),
    ]
    back = ProductTable.from_json(json.loads(json.dumps(ProductTable(products).json)))
    for was, now in zip(products, back, strict=True):
        assert now.description == ""
        for name in ("id", "title", "tags", "tag_ids", "variants", "visibility", "label", "vendor", "type"):
            assert getattr(now, name) == getattr(was, name), name


def test_variants_are_restored_from_the_journal() -> None:
    """Restores variants from the journal.

    See docs/design/runs.md#execution.
    """
    variants = [variant("3/1", "A", sale_from="2026-11-01T00:00:00", barcode="4006381333931")]
    assert list(VariantTable.from_json(json.loads(json.dumps(VariantTable(variants).json)))) == variants


def test_five_thousand_products_fit_into_the_journal() -> None:
    """Stores a product with three variants in under 1 KB; the journal's limit is 8 MiB."""
    tea = product(*(variant(f"31337/{n}", f"TEA-EARL-GREY-{n:03}") for n in range(3)), tags=("tea", "black"))
    assert len(json.dumps(ProductTable([tea] * 5000).json, separators=(",", ":"))) < 5 * 1024 * 1024


def test_the_stock_of_a_product_is_the_sum_over_its_variants() -> None:
    """Sums the stock of all variants; negative stock counts as 0.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    assert total_of(product(variant("3/1", stock=5), variant("3/2", stock=-3))) == 5


@pytest.mark.parametrize(
    "odd", [variant("3/2", tracked=False, stock=None), variant("3/2", backorders_allowed=True, stock=0)]
)
def test_an_untracked_or_back_orderable_variant_leaves_the_stock_unknown(odd: object) -> None:
    """Returns None if a variant is untracked or can be back-ordered.

    See docs/design/templates.md#e8-untracked-stock.
    """
    assert total_of(product(variant("3/1", stock=0), odd)) is None  # type: ignore[arg-type]


def test_a_stock_shared_through_the_parent_is_counted_once() -> None:
    """Counts stock that variants share through their parent once.

    See docs/design/templates.md#e9-variants.
    """
    whole = product(variant("3/1", "A", **_SHARED), variant("3/2", "B", **_SHARED), variant("3/9", stock=1))
    assert total_of(whole) == 5
    assert next((unit.id, unit.label, unit.stock) for unit in units_of(whole)) == ("3", "Tea 3", 4)


def test_a_variable_product_without_variations_has_no_stock() -> None:
    """Returns None for a variable product without variations, which is thus not sold out.

    See docs/design/templates.md#e9-variants.
    """
    assert total_of(product(id="3", kind="variable")) is None


@pytest.mark.parametrize(
    ("query", "is_wanted"),
    [
        ({}, True),
        ({"all": True}, True),
        ({"tags_any": ["TEA ", "x"]}, True),
        ({"tags_any": ["coffee"]}, False),
        ({"tags_none": ["tea"]}, False),
        ({"types": [" loose leaf"]}, True),
        ({"types": ["Gifts"]}, True),
        ({"vendors": ["Nobody"]}, False),
        ({"tags_any": ["tea"], "types": ["Cups"]}, False),
    ],
)
def test_a_product_filter_requires_all_its_conditions(query: dict[str, object], is_wanted: bool) -> None:
    """Requires all conditions of the filter, ignoring case and outer white space.

    See docs/design/templates.md#shared-definitions.
    """
    tea = product(variant(), tags=("Tea",), type="Loose Leaf", categories=("Loose Leaf", "Gifts"))
    assert ProductFilter(query).has(tea) is is_wanted
