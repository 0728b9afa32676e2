"""Tests the supplier file: rows of a CSV file set stock and prices, and some files fail the run.

See docs/design/templates-catalogue.md#supplier-feed-import.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from steward.fake_platforms.seed import BUCKET
from steward.model.run import Mode, RunStatus
from steward.steps.base import StepFailed
from steward.steps.skus import Skus
from steward.templates.parts.sku_rows import JoinedRows, join_rows
from steward.templates.parts.supplier_file import table_of
from steward.templates.parts.supplier_rows import FeedRow, FeedRules, VariantUpdate
from tests.templates.sample_products import Item, PlatformStore, ProductSpec
from tests.templates.stage import variant

NAME, PATH = "supplier-feed-import", "feeds/tea.csv"


class Feed:
    """Holds the supplier's file beside a store."""

    def __init__(self, store: PlatformStore) -> None:
        self.store = store

    def put(self, text: str | bytes, *, hours: float = 0) -> None:
        """Writes the file, dated some hours ago."""
        world = self.store.shop.world
        content = text.encode() if isinstance(text, str) else text
        world.state.store.put(
            BUCKET, PATH, content, modified_at=self.store.shop.clock.now() - timedelta(hours=hours)
        )

    def inputs(self, **more: Any) -> dict[str, Any]:
        """Returns inputs that take stock and price from the file."""
        number = int(self.store.shop.connections["cloud_s3"].integration_id)
        file = {"integration_id": number, "path": PATH, "delimiter": ";"}
        named = {"sku_column": "Artikel", "stock_column": "Bestand", "price_column": "Preis"}
        return {"file": file, **named, **more}

    async def set_up(self, **more: Any) -> Any:
        """Creates the automation."""
        return await self.store.set_up(NAME, self.inputs(**more))

    async def code(self, automation: Any) -> str | None:
        """Runs the automation and returns the code of the step that failed."""
        came = await self.store.run(automation)
        assert came.run.status is RunStatus.FAILED
        assert came.changes == []
        return next(step["code"] for step in await self.store.shop.steps(came.run) if step["code"])


@pytest.fixture
async def feed(store: PlatformStore) -> Feed:
    """Provides a store with the bucket connected."""
    await store.shop.connect("cloud_s3", store.shop.world.described()["cloud_s3"])
    return Feed(store)


_GOODS = (
    ProductSpec("Pot", Item("POT-1", price="10.00", stock=5)),
    ProductSpec("Mug", sizes={"S": Item("MUG-S", stock=3), "L": Item("MUG-L", stock=2)}),
    ProductSpec("Vase", Item("VASE-1", stock=None)),
    ProductSpec("Other", Item("OTHER-1", stock=8)),
)
_FILE = """Artikel;Bestand;Text;Preis
POT-1;7;"black; glazed
twice";8,00
MUG-S;3;;8
mug-l;1;;8
VASE-1;1;;8
NEW-1;1;;8
;1;;8
;;;
POT-9;1;8
"""


async def test_on_each_platform_the_file_sets_stock_and_prices_in_one_change(feed: Feed) -> None:
    """Sets stock and price in one change on both platforms; the same file again changes nothing.

    See docs/design/templates-catalogue.md#supplier-feed-import.
    """
    store = feed.store
    store.stock(*_GOODS)
    feed.put(_FILE, hours=1)
    automation = await feed.set_up(markup=25)
    expected = [("Pot (POT-1)", {"Stock": (5, 7)})]
    tried = await store.run(automation, Mode.TEST)
    assert (tried.changes, store.writes()) == (expected, 0)
    came = await store.run(automation)
    assert (came.changes, came.outcomes) == (expected, ["applied"])
    assert str(came.messages[0]).startswith("tea.csv of 2026-")
    assert str(came.messages[0]).endswith(" UTC, row 2.")
    result = dict(came.result)
    refused = [(item["row"], item["key"], item["code"]) for item in result.pop("refused_rows")]
    assert refused == [
        (4, "mug-l", "sku_case_differs"),
        (5, "VASE-1", "untracked"),
        (7, None, "sku_missing"),
        (9, "POT-9", "row_broken"),
    ]
    assert result.pop("file_date").endswith("Z")
    assert result == {
        "rows": 7,
        "matched": 2,
        "changed": 1,
        "unchanged": 1,
        "not_found": 1,
        "missing": 0,
        "refused": 4,
    }
    again = await store.run(automation)
    assert (again.changes, again.result["rows"], again.run.status) == ([], 0, RunStatus.SUCCEEDED)
    feed.put("Artikel;Bestand;Preis\nPOT-1;6;10\nMUG-S;3;8\n")
    both = await store.run(automation)
    assert both.changes == [("Pot (POT-1)", {"Stock": (7, 6), "Price": ("10.00", "12.50")})]
    assert store.variants("Pot")["POT-1"] == ("12.50", None, 6)


async def test_skus_missing_from_the_file_are_set_to_zero_on_request(feed: Feed) -> None:
    """Sets what the file no longer names to 0, if a live run matched it; fails if too many are missing.

    See docs/design/templates-catalogue.md#supplier-feed-import.
    """
    store = feed.store
    store.stock(
        *(ProductSpec(f"P{number}", Item(f"P-{number}", stock=number)) for number in range(1, 6)), _GOODS[3]
    )
    full = "Artikel;Bestand\n" + "".join(f"P-{row_number};{row_number}\n" for row_number in range(1, 6))
    feed.put(full)
    inputs = {**feed.inputs(missing="set_zero")}
    del inputs["price_column"]
    automation = await store.set_up(NAME, inputs)
    assert (await store.run(automation)).changes == []
    feed.put(full.replace("P-5;5\n", "").replace("P-4;4\n", ""))
    assert await feed.code(automation) == "too_many_missing"
    feed.put(full.replace("P-5;5\n", ""))
    came = await store.run(automation)
    assert came.changes == [("P5 (P-5)", {"Stock": (5, 0)})]
    assert str(came.messages[0]).startswith("No longer in the file.")
    assert (came.result["missing"], store.variants("Other")["OTHER-1"][2]) == (1, 8)
    feed.put(full.replace("P-5;5\n", "P-5;x\n"))
    assert (await store.run(automation)).result["missing"] == 0


async def test_a_file_that_cannot_be_used_fails_the_run(feed: Feed) -> None:
    """Fails with a code for a missing, old, large or empty file; a file just young enough succeeds.

    See docs/design/templates-catalogue.md#supplier-feed-import.
    """
    feed.store.stock(_GOODS[0])
    automation = await feed.set_up(max_age_hours=2)
    assert await feed.code(automation) == "file_missing"
    for text, hours, code in (
        (_FILE, 2.5, "file_too_old"),
        (b"x" * (20 * 1024 * 1024 + 1), 0, "file_too_large"),
        ("Artikel;Bestand;Preis\n", 0, "file_empty"),
    ):
        feed.put(text, hours=hours)
        assert await feed.code(automation) == code
    feed.put(_FILE, hours=1.9)
    assert (await feed.store.run(automation)).run.status is RunStatus.SUCCEEDED


async def test_a_location_has_to_be_named_only_when_stock_is_written(feed: Feed) -> None:
    """Requires a location only when stock is written and a Shopify store has several.

    See docs/design/templates-catalogue.md#supplier-feed-import and docs/design/templates.md#e14-locations.
    """
    store = feed.store
    if store.platform == "shopify":
        store.fake.add_location("Harbour")
        await store.look_again()
        assert list(await store.refused(NAME, feed.inputs())) == ["inputs.location"]
    prices = feed.inputs()
    del prices["stock_column"]
    assert await store.refused(NAME, prices) == {}
    store.stock(_GOODS[0])
    feed.put("Artikel;Preis\nPOT-1;12\n")
    came = await store.run(await store.set_up(NAME, prices))
    assert came.changes == [("Pot (POT-1)", {"Price": ("10.00", "12.00")})]


# --- rows


def _joined(*rows: tuple[str, str, str], **changed: Any) -> JoinedRows[VariantUpdate]:
    about = {"currency": "EUR", "number_format": "auto", "with_stock": True, "with_price": True, "markup": 0}
    skus = Skus([variant("1", "A", stock=1), variant("2", "B"), variant("3", "B"), variant("4", "C")])
    feed_rows = [FeedRow(index, *cells) for index, cells in enumerate(rows, start=2)]
    rules = FeedRules(**{**about, **changed})
    return join_rows(feed_rows, skus, values_of=rules.values, update_of=rules.update)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (("A", "1.5", "3"), "not_whole"),
        (("A", "", "3"), "stock_empty"),
        (("A", "1", ""), "price_empty"),
        (("A", "1", "0,00"), "price_zero"),
        (("A", "1", "-3"), "negative"),
        (("A", "1", "1,234"), "number_ambiguous"),
        (("A", "1", "3,005 "), "number_ambiguous"),
        (("A", "1", "10.1234"), "too_many_decimals"),
        (("A", "1", "$ 3"), "currency_differs"),
        (("A", "#N/A", "3"), "not_a_number"),
        (("A", "1000001", "3"), "out_of_range"),
        (("B", "1", "3"), "sku_ambiguous"),
        (("a", "1", "3"), "sku_case_differs"),
        (("", "1", "3"), "sku_missing"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_with_its_code(row: tuple[str, str, str], code: str) -> None:
    """Refuses the row with its code, and uses the others.

    See docs/design/templates-catalogue.md#supplier-feed-import.
    """
    joined = _joined(row, ("C", "1", "3"))
    assert ([refusal.code for refusal in joined.refused], len(joined.updates)) == (
        [code],
        1,
    )


def test_a_negative_stock_is_read_as_zero_with_a_note() -> None:
    """Reads a negative stock as 0, with a note.

    See docs/design/templates-catalogue.md#supplier-feed-import and
    docs/design/templates.md#e7-negative-stock.
    """
    [expected] = _joined(("A", "-4", "3")).updates
    assert (expected.stock, expected.note) == (0, "-4 in the file, read as 0.")


def test_a_sku_twice_counts_once_when_its_rows_agree() -> None:
    """Uses a SKU once when its rows agree, and refuses every row when they differ.

    See docs/design/templates.md#e3-duplicate-skus.
    """
    assert len(_joined(("A", "1", "3"), (" A", "1.0", "3,00")).updates) == 1
    joined = _joined(("A", "1", "3"), ("A", "2", "3"))
    assert [(refusal.row, refusal.code) for refusal in joined.refused] == [
        (2, "sku_repeated"),
        (3, "sku_repeated"),
    ]


@pytest.mark.parametrize(
    ("price", "markup", "currency", "rounded"),
    [
        ("10", "12.5", "EUR", "11.25"),
        ("9.99", "5", "EUR", "10.49"),
        ("0.10", "5", "EUR", "0.11"),
        ("99", "2.5", "JPY", "101"),
    ],
)
def test_a_markup_is_rounded_half_up_once(price: str, markup: str, currency: str, rounded: str) -> None:
    """Rounds the price with its markup half up, to the currency's decimals.

    See docs/design/templates.md#e6-decimals.
    """
    rules = FeedRules(currency, "point", with_stock=False, with_price=True, markup=Decimal(markup))
    assert rules.price(FeedRow(2, "A", None, price)) == rounded


def test_a_file_keeps_its_quoted_cells_and_loses_its_mark() -> None:
    """Drops the byte-order mark, keeps delimiters and line breaks within quotes, and reads windows-1252.

    See docs/design/templates-catalogue.md#supplier-feed-import.
    """
    body = '\ufeffSKU\tStock\r\n"A\t1"\t"4\n"\r\n'.encode()
    table = table_of(body, encoding="utf-8", delimiter="\t", columns=["sku", "stock"])
    assert [(row.number, row.cells) for row in table.rows] == [(2, ("A\t1", "4\n"))]
    latin = "SKU,Stock\nT\u00e9,1\n".encode("cp1252")
    table = table_of(latin, encoding="windows-1252", delimiter=",", columns=["SKU"])
    assert table.rows[0].cells == ("T\u00e9",)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("SKU,Stock\nT\u00e9,1\n".encode("cp1252"), "file_unreadable"),
        (b'SKU,Stock\n"A,1\nB,2\n', "file_unreadable"),
        (b"", "file_empty"),
        (b"SKU,Stock\n,\n", "file_empty"),
        (b",\nA,1\n", "file_empty"),
        (b"SKU,Number\nA,1\n", "column_missing"),
        (b"SKU,Stock,stock \nA,1,1\n", "column_repeated"),
    ],
)
def test_a_text_that_is_no_such_table_fails_with_its_code(body: bytes, code: str) -> None:
    """Fails with a code for unreadable, empty or wrong tables, such as a quote that is never closed.

    See docs/design/templates-catalogue.md#supplier-feed-import.
    """
    with pytest.raises(StepFailed) as failed:
        table_of(body, encoding="utf-8", delimiter=",", columns=["SKU", "Stock"])
    assert failed.value.code == code


async def test_a_file_that_matched_nothing_is_looked_at_again_once_the_shop_has_its_skus(
    feed: Feed,
) -> None:
    """Applies the same file again once the shop has SKUs that it lacked before."""
    store = feed.store
    store.stock(ProductSpec("Other", Item("OTHER-1", stock=8)))
    feed.put("Artikel;Bestand;Preis\nPOT-1;7;8,00\nMUG-S;4;9,00\n", hours=1)
    automation = await feed.set_up()
    first = await store.run(automation)
    assert (first.changes, first.result["not_found"], first.run.status) == ([], 2, RunStatus.SUCCEEDED)
    still = await store.run(automation)
    assert (still.changes, still.result["rows"], still.result["not_found"]) == ([], 0, 2)
    store.stock(ProductSpec("Pot", Item("POT-1", price="10.00", stock=5)))
    tried = await store.run(automation, Mode.TEST)
    came = await store.run(automation)
    expected = [("Pot (POT-1)", {"Stock": (5, 7), "Price": ("10.00", "8.00")})]
    assert (tried.changes, came.changes, came.outcomes) == (expected, expected, ["applied"])
    assert (came.result["matched"], came.result["not_found"]) == (1, 1)


async def test_unchanged_rows_of_a_file_set_no_stock_again(feed: Feed) -> None:
    """Sets only SKUs that were missing before, because the stock of the others may have been sold since."""
    store = feed.store
    store.stock(ProductSpec("Pot", Item("POT-1", price="8.00", stock=5)))
    feed.put("Artikel;Bestand;Preis\nPOT-1;7;8,00\nNEW-1;1;9,00\n", hours=1)
    automation = await feed.set_up(missing="set_zero")
    assert (await store.run(automation)).changes == [("Pot (POT-1)", {"Stock": (5, 7)})]
    store.stock(
        ProductSpec("Pot", Item("POT-1", price="8.00", stock=2)),
        ProductSpec("New", Item("NEW-1", price="9.00", stock=0)),
    )
    assert (await store.run(automation)).changes == [("New (NEW-1)", {"Stock": (0, 1)})]
    done = await store.run(automation)
    assert (done.changes, done.result["rows"], done.result["not_found"]) == ([], 0, 0)
    feed.put("Artikel;Bestand;Preis\nPOT-1;7;8,00\nNEW-1;1;9,00\nLATE-1;1;9,00\n")
    assert (await store.run(automation)).changes == [("Pot (POT-1)", {"Stock": (2, 7)})]
