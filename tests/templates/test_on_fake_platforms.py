"""Runs templates through the real connectors over HTTP against the fake platforms."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from steward.connectors.base.writing import WriteState
from steward.fake_platforms.seed import WORKFLOW
from steward.model.change import Outcome
from steward.outbound.errors import CallError
from steward.steps.base import StoreEvent
from steward.templates import hide_out_of_stock_products, low_stock_alert, price_update_from_spreadsheet
from tests.connectors.fake_connections import FakePlatformsClient, outside
from tests.fake_clock import FakeClock
from tests.templates.stage import SHEET, SHOP, TEAMS, Stage, connection


class PlatformsBed:
    """Holds the fake platforms, with stages whose shop and sheet are read by the connectors."""

    def __init__(self, clock: FakeClock) -> None:
        self.outside: FakePlatformsClient = outside(clock)
        self.shop = self.outside.connection("woocommerce")
        self.sheet = self.outside.connection("spreadsheet")
        self.teams = self.outside.connection("teams")

    def stage(self, template: Any, **inputs: Any) -> Stage:
        """Returns a stage on the fake shop."""
        return Stage(
            template,
            inputs,
            shop=self.shop.reader(),
            sheet=self.sheet.reader(),
            store=connection("woocommerce", SHOP),
            changes=self.shop.connector.writes,
        )

    def rows(self, kind: str = "simple") -> list[dict[str, Any]]:
        """Returns the shop's products of one type."""
        return [row for row in self.outside.world.state.shop.products.values() if row["type"] == kind]

    @property
    def written(self) -> list[dict[str, Any]]:
        """Returns every write that arrived."""
        return self.outside.written()


@pytest.fixture
async def world(clock: FakeClock) -> AsyncIterator[PlatformsBed]:
    """Provides new fake platforms."""
    new_world = PlatformsBed(clock)
    yield new_world
    await new_world.outside.outbound.aclose()


def _hide(world: PlatformsBed, **inputs: Any) -> Stage:
    return world.stage(hide_out_of_stock_products.TEMPLATE, **inputs)


async def test_sold_out_products_are_hidden_marked_and_then_left_alone(world: PlatformsBed) -> None:
    """Hides and tags all sold-out products; the run itself writes nothing, and a second one proposes nothing.

    See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    stage = _hide(world)
    sold_out = {
        str(row["id"]) for row in world.rows() if row["manage_stock"] and (row["stock_quantity"] or 0) <= 0
    }
    assert sold_out
    run = await stage.run(approve=False)
    assert world.written == []
    assert {proposal.object.id for proposal in run.proposals} >= sold_out
    states = await world.shop.apply(run.proposals)
    assert set(states) <= {WriteState.APPLIED}
    hidden = [row for row in world.rows() if row["catalog_visibility"] == "hidden"]
    assert {str(row["id"]) for row in hidden} == sold_out
    assert all("auto-hidden" in [tag["name"] for tag in row["tags"]] for row in hidden)
    again = await stage.run(approve=False)
    assert again.proposals == []
    assert again.result["already_hidden"] == run.result["sold_out"]


async def test_an_inventory_event_reads_one_product(world: PlatformsBed) -> None:
    """Reads only the product of the variation that the event names. See docs/design/templates.md#rules."""
    parent = world.rows("variable")[0]
    for number in parent["variations"]:
        world.outside.world.state.shop.variations[number]["stock_quantity"] = 0
    event = StoreEvent(
        "inventory_levels/update", "variation", str(parent["variations"][0]), str(parent["id"])
    )
    run = await _hide(world).run(event=event, approve=False)
    assert (run.result["checked"], [proposal.object.id for proposal in run.proposals]) == (
        1,
        [str(parent["id"])],
    )


async def test_a_deleted_product_of_an_event_is_no_failure(world: PlatformsBed) -> None:
    """Succeeds without changes when the product of the event does not exist.

    See docs/design/templates.md#rules.
    """
    event = StoreEvent("inventory_levels/update", "product", "999999")
    run = await _hide(world).run(event=event, approve=False)
    assert (run.failed, run.proposals) == (None, [])


async def test_the_alert_lists_low_stock_and_reaches_the_channel(world: PlatformsBed) -> None:
    """Posts the low variants in one message; a second run posts none.

    See docs/design/templates-catalogue.md#low-stock-alert and docs/design/templates.md#e17-sends.
    """
    teams = {"integration_id": int(TEAMS)}
    stage = world.stage(low_stock_alert.TEMPLATE, threshold=5, teams=teams)
    run = await stage.run()
    assert world.written == []
    assert run.result["low"] > 0
    assert run.result["untracked"] > 0
    assert await world.teams.apply(run.proposals) == [WriteState.APPLIED]
    [message] = world.outside.world.state.teams.inbox[WORKFLOW]
    assert message["text"].startswith(f"{run.result['low']} variants low in stock")
    assert (await stage.run()).proposals == []


def _prices(world: PlatformsBed, **inputs: Any) -> Stage:
    all_inputs: dict[str, Any] = {
        "sheet": {"integration_id": int(SHEET), "tab": "Prices"},
        "sku_column": "SKU",
        "price_column": "Price",
        "max_change_percent": 95,
        **inputs,
    }
    return world.stage(price_update_from_spreadsheet.TEMPLATE, **all_inputs)


def _write_sheet(world: PlatformsBed, rows: list[list[Any]]) -> None:
    tab = world.outside.world.state.google.books[world.sheet.secrets.plain["spreadsheet_id"]].tab("Prices")
    tab.cells = {(index, column): cell for index, row in enumerate(rows) for column, cell in enumerate(row)}


async def test_prices_of_the_sheet_are_set_and_then_left_alone(world: PlatformsBed) -> None:
    """Sets prices of simple products and variations from number cells and texts; refuses rows without a SKU.

    See docs/design/templates-catalogue.md#price-update-from-spreadsheet.
    """
    simple = next(row for row in world.rows() if not row["sale_price"])
    parent = world.rows("variable")[0]
    variation = world.outside.world.state.shop.variations[parent["variations"][0]]
    _write_sheet(
        world,
        [
            ["SKU", "Note", "Price"],
            [simple["sku"], "", float(simple["regular_price"]) + 1],
            [variation["sku"], "", f"€ {float(variation['regular_price']) + 2:.2f}"],
            ["NOT-HERE", "", 5],
            ["", "", ""],
            ["", "just a note", ""],
            [simple["sku"].lower(), "", 5],
        ],
    )
    stage = _prices(world)
    run = await stage.run(approve=False)
    assert run.failed is None
    assert world.written == []
    assert {proposal.object.id for proposal in run.proposals} == {
        str(simple["id"]),
        f"{parent['id']}/{variation['id']}",
    }
    assert (run.result["rows"], run.result["matched"], run.result["not_found"]) == (5, 2, 1)
    refused = [(each_row["row"], each_row["code"]) for each_row in run.result["refused_rows"]]
    assert refused == [(6, "sku_missing"), (7, "sku_case_differs")]
    expected = f"{float(simple['regular_price']) + 1:.2f}"
    assert set(await world.shop.apply(run.proposals)) == {WriteState.APPLIED}
    assert world.outside.world.state.shop.products[simple["id"]]["regular_price"] == expected
    assert (await stage.run(approve=False)).proposals == []


async def test_the_seeded_sheet_gives_ten_prices(world: PlatformsBed) -> None:
    """Proposes 10 prices; 8 are equal, one SKU is unknown and one price is empty.

    See docs/design/fake-platforms.md#services.
    """
    run = await _prices(world, max_change_percent=30).run(approve=False)
    result = run.result
    assert (len(run.proposals), result["unchanged"], result["not_found"]) == (10, 8, 1)
    assert [row["code"] for row in result["refused_rows"]] == ["price_empty"]


async def test_a_tab_that_was_renamed_fails_the_run(world: PlatformsBed) -> None:
    """Fails the run with `tab_missing`. See docs/design/templates.md#rules."""
    stage = _prices(world, sheet={"integration_id": int(SHEET), "tab": "Gone"})
    run = await stage.run(approve=False)
    assert run.failed is not None
    assert run.failed.code == "tab_missing"


async def test_an_emptied_tab_fails_the_run(world: PlatformsBed) -> None:
    """Fails the run with `sheet_empty`. See docs/design/templates.md#e4-empty-sheets-and-columns."""
    _write_sheet(world, [])
    run = await _prices(world).run(approve=False)
    assert run.failed is not None
    assert run.failed.code == "sheet_empty"


async def test_a_later_page_that_cannot_be_read_ends_the_run(world: PlatformsBed) -> None:
    """Raises CallError when a later page cannot be read, without deciding on half a list.

    See docs/design/templates.md#e10-pages.
    """
    world.outside.world.load_products(150)
    fault = {"kind": "status", "method": "GET", "path": "/wp-json/wc/v3/products", "status": 507, "skip": 1}
    injected_fault = world.outside.world.state.faults.make(fault)
    with pytest.raises(CallError):
        await _hide(world).run(approve=False)
    assert (injected_fault.hits, world.written) == (1, [])


async def test_the_value_before_a_change_is_that_read_before_the_write(world: PlatformsBed) -> None:
    """The part's `before` equals the read just before the write, unless the product has changed.

    See docs/design/templates.md#e12-changed-or-deleted-meanwhile.
    """
    [proposal, *_] = (await _hide(world).run(outcome=Outcome.DECLINED)).proposals
    part = next(part for part in proposal.parts if part.operation == "product.set_visible")
    [now] = await world.shop.reader().current([part])
    assert now.value == part.before
    world.outside.world.state.shop.products[int(part.target)]["catalog_visibility"] = "search"
    [now] = await world.shop.reader().current([part])
    assert now.value not in (part.before, part.after)
