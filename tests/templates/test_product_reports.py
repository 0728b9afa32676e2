"""Tests reports on products: what counts as missing or duplicate, and the list in the sheet.

See docs/design/templates-catalogue.md#missing-product-data-audit.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from steward.fake_platforms import catalogue
from steward.fake_platforms.sheets import FakeTab
from steward.model.run import Mode, RunStatus
from steward.templates.parts.gaps import gap_words, has_text
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.two_platforms import ConnectedService, lines_of

TAB = "Report"


def _tab(both: ConnectedService, rows: list[list[Any]] | None = None) -> FakeTab:
    """Adds a tab to the connected spreadsheet and returns it."""
    fake_tab = FakeTab(77, TAB)
    fake_tab.cells = {
        (index, column): cell for index, row in enumerate(rows or []) for column, cell in enumerate(row)
    }
    both.shop.world.state.google.books["sheet-prices"].tabs.append(fake_tab)
    return fake_tab


def _row(store: PlatformStore, title: str) -> dict[str, Any]:
    if store.platform == "shopify":
        return next(row for row in store.fake.of("Product") if row["title"] == title)
    rows = store.shop.world.state.shop.products.values()
    return next(row for row in rows if row["name"] == title)


def _describe(
    store: PlatformStore, title: str, *, text: str, image: str | None, data: list[Mapping[str, Any]]
) -> None:
    """Sets a product's description, its image with this text (None: no image), and fields of its variants."""
    row = _row(store, title)
    if store.platform == "shopify":
        row["descriptionHtml"] = text
        preview = {"image": {"url": "https://cdn.example/1.jpg"}}
        row["featuredMedia"] = None if image is None else {
            "__typename": "MediaImage", "alt": image, "preview": preview,
        }  # fmt: skip
        for variant, own_values in zip(store.fake.owned(row["id"]), data, strict=True):
            variant["barcode"] = own_values.get("barcode")
            weight = {"value": float(own_values.get("weight", 0)), "unit": "KILOGRAMS"}
            item = store.fake.rows[variant["item"]]
            item["measurement"] = {"id": "m", "weight": weight}
            item["requiresShipping"] = own_values.get("ships", True)
        return
    row["description"] = text
    row["images"] = [] if image is None else [{"id": 1, "src": "https://cdn.example/1.jpg", "alt": image}]
    woo = store.shop.world.state.shop
    for variant, own_values in zip(
        [woo.variations[variation] for variation in row["variations"]] or [row], data, strict=True
    ):
        variant["global_unique_id"] = own_values.get("barcode", "")
        variant["weight"] = own_values.get("weight", "")
        variant["virtual"] = not own_values.get("ships", True)


CHECKS = ["image", "image_alt", "description", "sku", "barcode", "weight", "type"]


def _populate(store: PlatformStore) -> None:
    store.stock(
        ProductSpec("Bare"),
        ProductSpec("Book", Item("BOOK")),
        ProductSpec("Full", Item("FULL")),
        ProductSpec("Draft", status="draft"),
        ProductSpec("Shirt", sizes={"Small": Item(""), "Large": Item("")}),
    )
    _describe(store, "Bare", text="<p>&nbsp;</p><br>", image=None, data=[{}])
    _describe(store, "Book", text="<p>Read it.</p>", image="A book", data=[{"barcode": "1", "ships": False}])
    _describe(store, "Full", text="Fine", image="A pot", data=[{"barcode": "2", "weight": "1.5"}])
    both_lack = [{"barcode": "3", "weight": "0"}, {"weight": "0.3"}]
    _describe(store, "Shirt", text="<img src='x'>", image=" ", data=both_lack)


GAPS = [
    ["Bare", "image, description, SKU, barcode, weight"],
    [
        "Shirt",
        "text of an image, SKU (2 of 2 variants), barcode (1 of 2 variants), weight (1 of 2 variants)",
    ],
]


async def test_gaps_are_listed_alike_on_both_platforms(store: PlatformStore) -> None:
    """Lists the same gaps on both platforms, one row for each product; what is not shipped needs no weight.

    See docs/design/templates-catalogue.md#missing-product-data-audit.
    """
    _populate(store)
    _tab(store.both)
    inputs = {"checks": CHECKS, "sheet": store.both.sheet(TAB), "teams": store.both.teams()}
    automation = await store.set_up("missing-product-data-audit", inputs)
    tried = await store.run(automation, Mode.TEST)
    expected = {
        "checked": 4,
        "with_gaps": 2,
        "by_check": [
            {"check": "image", "products": 1},
            {"check": "image_alt", "products": 1},
            {"check": "description", "products": 1},
            {"check": "sku", "products": 2},
            {"check": "barcode", "products": 2},
            {"check": "weight", "products": 2},
            {"check": "type", "products": 0},
        ],
        "products": [{"label": label, "missing": missing} for label, missing in GAPS],
    }
    assert (tried.result, store.both.written()) == (expected, [])
    assert (await store.run(automation)).result == expected
    header, *rows = store.both.cells(TAB)
    assert (header, [row[:2] for row in rows]) == (["Product", "Missing", "Link"], GAPS)
    [message] = store.both.posted()
    assert lines_of(message)[1:5] == [
        "Image: 1 product",
        "Text of an image: 1 product",
        "Description: 1 product",
        "SKU: 2 products",
    ]


async def test_a_list_takes_the_place_of_the_one_before(store: PlatformStore) -> None:
    """Replaces the list of the last run, and writes nothing when it is the same.

    Without gaps the list and the message say so.
    See docs/design/templates-catalogue.md#missing-product-data-audit.
    """
    _populate(store)
    _tab(store.both)
    inputs = {"checks": ["image"], "sheet": store.both.sheet(TAB), "teams": store.both.teams()}
    automation = await store.set_up("missing-product-data-audit", inputs)
    await store.run(automation)
    assert len(store.both.cells(TAB)) == 2
    before = len(store.both.written())
    again = await store.both.run(automation)
    assert "The sheet already contains this list." in str(again.summary)
    assert [record["service"] for record in store.both.written()[before:]] == ["teams"]
    _describe(store, "Bare", text="x", image="x", data=[{}])
    await store.run(automation)
    assert store.both.cells(TAB) == [["Product", "Missing", "Link"], ["Nothing is missing."]]
    assert lines_of(store.both.posted()[-1])[0].startswith("Nothing is missing from the 4 products")


async def test_a_tab_that_holds_something_else_is_left_alone(both: ConnectedService) -> None:
    """Fails with `wrong_header` or `tab_missing`; writes and posts nothing.

    See docs/design/templates-catalogue.md#missing-product-data-audit.
    """
    both.shop.world.state.shop.products.clear()
    tab = _tab(both, [["Product", "Price"], ["Cup", "1.00"]])
    before = dict(tab.cells)
    inputs = {"checks": ["image"], "sheet": both.sheet(TAB), "teams": both.teams()}
    automation = await both.set_up("missing-product-data-audit", inputs, on="woocommerce")
    run = await both.run(automation)
    steps = await both.shop.steps(run)
    assert (run.status, run.code, steps[-1]["code"]) == (RunStatus.FAILED, "step_failed", "wrong_header")
    assert (tab.cells, both.written()) == (before, [])
    gone = {**inputs, "sheet": both.sheet("No such tab")}
    run = await both.run(await both.set_up("missing-product-data-audit", gone, on="woocommerce"))
    assert (await both.shop.steps(run))[-1]["code"] == "tab_missing"


async def test_a_list_longer_than_the_tab_is_written_whole(both: ConnectedService) -> None:
    """Writes a list longer than the tab whole, and a shorter one after it without old rows.

    See docs/design/templates-catalogue.md#missing-product-data-audit.
    """
    shop = both.shop.world.state.shop
    catalogue.load_products(shop, 60, 1, both.shop.clock.now())
    tab = _tab(both)
    tab.rows = 40
    inputs = {"checks": ["image"], "sheet": both.sheet(TAB)}
    automation = await both.set_up("missing-product-data-audit", inputs, on="woocommerce")
    run = await both.run(automation)
    assert (run.status, len(both.cells(TAB))) == (RunStatus.SUCCEEDED, 61)
    assert both.cells(TAB)[1][0] == "Product 00001 (P-00001)"
    assert both.cells(TAB)[60][:2] == ["Product 00060", "image"]
    for row in list(shop.products.values())[5:]:
        row["images"] = [{"id": 1, "src": "https://cdn.example/1.jpg", "alt": ""}]
    await both.run(automation)
    assert len(both.cells(TAB)) == 6


async def test_a_check_the_platform_has_no_field_for_is_refused(store: PlatformStore) -> None:
    """Refuses `hs_code` and `vendor` on WooCommerce with errors on `inputs.checks.<n>`.

    See docs/design/templates-catalogue.md#missing-product-data-audit.
    """
    inputs = {"checks": ["image", "hs_code", "vendor"], "teams": store.both.teams()}
    refused = set(await store.refused("missing-product-data-audit", inputs))
    assert refused == ({"inputs.checks.1", "inputs.checks.2"} if store.platform == "woocommerce" else set())


@pytest.mark.parametrize(
    ("markup", "is_there"),
    [
        ("", False),
        (" \u00a0\u200b ", False),
        ("<p></p><div><br/></div>", False),
        ("<p>&nbsp;&#160;</p>", False),
        ("<p>x</p>", True),
        ("&lt;", True),
        ('<p><img src="x"></p>', True),
    ],
)
def test_text_of_blanks_or_empty_tags_is_none(markup: str, is_there: bool) -> None:
    """Takes mark-up for empty unless it holds text or an image.

    See docs/design/templates-catalogue.md#missing-product-data-audit.
    """
    assert has_text(markup) is is_there


def test_one_variant_is_not_counted() -> None:
    """Names the number of variants only for a variant's field and more than one variant.

    See docs/design/templates-catalogue.md#missing-product-data-audit.
    """
    assert gap_words("weight", 1, 1) == "weight"
    assert gap_words("image", 0, 3) == "image"
    assert gap_words("weight", 3, 3) == "weight (3 of 3 variants)"


# --- duplicates


def _doubles(store: PlatformStore) -> None:
    store.stock(
        ProductSpec("Cup", Item(" A-1\u00a0")),
        ProductSpec("Draft", Item("A-1"), status="draft"),
        ProductSpec("Nameless", Item("")),
        ProductSpec("Pot", sizes={"Small": Item("a-1"), "Large": Item("B"), "Huge": Item("")}),
        ProductSpec("Tray", Item("A-1")),
    )


async def test_values_used_more_than_once_are_listed_alike_on_both_platforms(store: PlatformStore) -> None:
    """Lists the same duplicates on both platforms, whatever their blanks and case.

    Empty values are no duplicates, and drafts count with `across_drafts`.
    See docs/design/templates-catalogue.md#duplicate-sku-check.
    """
    _doubles(store)
    _tab(store.both)
    inputs = {"sheet": store.both.sheet(TAB), "teams": store.both.teams()}
    automation = await store.set_up("duplicate-sku-check", inputs)
    tried = await store.run(automation, Mode.TEST)
    expected = {
        "checked": 6,
        "duplicates": 1,
        "without_value": 2,
        "groups": [{"field": "sku", "value": "A-1", "count": 3}],
    }
    assert (tried.result, store.both.written()) == (expected, [])
    assert (await store.run(automation)).result == expected
    note = "differing in spaces before or after and in capitals"
    assert store.both.cells(TAB) == [
        ["Field", "Value", "Times", "Used by", "Note"],
        ["SKU", "A-1", 3, "Cup; Pot, Small; Tray", note],
    ]
    assert lines_of(store.both.posted()[0])[1:] == [f"SKU A-1: 3 times ({note}), by Cup; Pot, Small; Tray"]
    exact = {"ignore_case": False, "across_drafts": True, "teams": store.both.teams()}
    all_of_them = await store.run(await store.set_up("duplicate-sku-check", exact))
    assert (all_of_them.result["checked"], all_of_them.result["groups"]) == (
        7,
        [{"field": "sku", "value": "A-1", "count": 3}],
    )


async def test_the_absence_of_duplicates_is_reported(both: ConnectedService) -> None:
    """Says in the sheet and in the message that there are none; values of two fields do not match each other.

    See docs/design/templates-catalogue.md#duplicate-sku-check.
    """
    both.store.add_product("Cup", sku="X")
    [row] = both.store.of("ProductVariant")
    row["barcode"] = "X"
    _tab(both)
    inputs = {"fields": ["sku", "barcode"], "sheet": both.sheet(TAB), "teams": both.teams()}
    run = await both.run(await both.set_up("duplicate-sku-check", inputs, on="shopify"))
    assert run.result == {"checked": 1, "duplicates": 0, "without_value": 0, "groups": []}
    assert both.cells(TAB)[1:] == [["No duplicates."]]
    assert lines_of(both.posted()[0]) == ["No SKU or Barcode is used more than once at The shopify"]
