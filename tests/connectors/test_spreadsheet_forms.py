"""Further spreadsheet changes: cleared ranges, deleted rows, new tabs, and ranges of any form."""

from typing import Any

import pytest

from steward.connectors.base.commands import AddTab, ClearCells, DeleteRows
from steward.connectors.base.queries import TABS, VALUES, TabsQuery, ValuesQuery
from steward.connectors.base.writing import WriteState
from steward.connectors.spreadsheet import reader as reading
from steward.fake_platforms.sheets import FakeTab
from steward.model.change import Proposal
from steward.outbound.errors import RemoteNotFound
from tests.connectors.fake_connections import Connection, FakePlatformsClient
from tests.connectors.test_woocommerce_world import CASES

NAMES = ("sheet.clear", "sheet.delete_rows", "sheet.add_tab")


def prices(world: FakePlatformsClient) -> FakeTab:
    """Returns the tab as the fake service stores it."""
    tab: FakeTab = world.world.state.google.books["sheet-prices"].tab("Prices")
    return tab


async def proposal(sheet: Connection, name: str) -> Proposal:
    """Returns one planned change of each kind."""
    [table] = await sheet.all(VALUES, ValuesQuery("Prices"))
    [tab] = [sheet_tab for sheet_tab in await sheet.all(TABS, TabsQuery()) if sheet_tab.title == "Prices"]
    three = tuple(row.cells for row in table.rows[2:5])
    asks: dict[str, Any] = {
        "sheet.clear": ClearCells("Prices", "A3:B5", three),
        "sheet.delete_rows": DeleteRows("Prices", tab.id, 3, 3, len(table.rows), three),
        "sheet.add_tab": AddTab("New", frozenset({"Prices"})),
    }
    [planned] = sheet.plan(name, asks[name]).proposals
    return planned


@pytest.mark.parametrize("name", NAMES)
async def test_a_change_is_made_once_and_read_back(
    sheet: Connection, world: FakePlatformsClient, name: str
) -> None:
    """Applies each change once; reading shows the value before and then the value after.

    See docs/design/connectors.md#operations and docs/design/imports-n8n.md#node-types.
    """
    tab, expected_value = prices(world), await proposal(sheet, name)
    before = tab.values()
    op, [part] = sheet.connector.writes[name], expected_value.parts
    [now] = await sheet.reader().current([part])
    assert op.same(part.before, now.value)
    assert (await sheet.send([part]))[0].state is WriteState.APPLIED
    [now] = await sheet.reader().current([part])
    assert op.same(part.after, now.value)
    assert (await sheet.reader().confirm(part)).state is WriteState.APPLIED
    expected = {
        "sheet.clear": [*before[:2], [], [], [], *before[5:]],
        "sheet.delete_rows": before[:2] + before[5:],
        "sheet.add_tab": before,
    }
    assert tab.values() == expected[name]
    if name == "sheet.add_tab":
        assert "New" in {sheet_tab.title for sheet_tab in await sheet.all(TABS, TabsQuery())}


@pytest.mark.parametrize(("fault", "state", "settled"), CASES[:8], ids=[str(case[0]) for case in CASES[:8]])
@pytest.mark.parametrize("name", NAMES)
async def test_a_change_that_breaks_arrives_once_and_is_settled(
    sheet: Connection,
    world: FakePlatformsClient,
    name: str,
    fault: dict[str, Any],
    state: WriteState,
    settled: WriteState,
) -> None:
    """Writes once when a call breaks, and settles the outcome by reading.

    See docs/design/writes.md#idempotency-classes and docs/design/connectors.md#tests.
    """
    [part] = (await proposal(sheet, name)).parts
    world.world.state.faults.make({"method": "POST", "path": "/sheets/**", **fault})
    [outcome] = await sheet.send([part])
    assert outcome.state is state
    assert len(world.written()) == 1
    await world.clock.advance(60)
    assert (await sheet.reader().confirm(part)).state is settled


async def test_somebody_elses_row_is_a_conflict(sheet: Connection, world: FakePlatformsClient) -> None:
    """Reports a conflict when another person's row has moved to the number to be deleted."""
    [part] = (await proposal(sheet, "sheet.delete_rows")).parts
    prices(world).cells[2, 0] = "OTHER"
    [now] = await sheet.reader().current([part])
    op = sheet.connector.writes["sheet.delete_rows"]
    assert not op.same(part.before, now.value)
    assert not op.same(part.after, now.value)
    assert (await sheet.reader().confirm(part)).state is WriteState.CONFLICT


@pytest.mark.parametrize(
    ("area", "first", "cells"),
    [
        ("A1:B2", 1, 2), ("A3", 3, 1), ("B:B", 1, None), ("3:4", 3, 2), ("A3:B", 3, None),
        ("A900:B910", 900, 0),
    ],
)  # fmt: skip
async def test_ranges_of_every_form_are_read(
    sheet: Connection, world: FakePlatformsClient, area: str, first: int, cells: int | None
) -> None:
    """Reads ranges of every A1 form. See docs/design/connectors.md#google-sheets."""
    [table] = await sheet.all(VALUES, ValuesQuery("Prices", area))
    if cells is not None:
        assert len(table.rows) == cells
    if table.rows:
        assert table.rows[0].number == first


async def test_a_large_tab_is_read_in_blocks(
    sheet: Connection, world: FakePlatformsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads a large tab in blocks and keeps the number of every row."""
    monkeypatch.setattr(reading, "CELLS_A_CALL", 260)
    tab = prices(world)
    tab.rows, whole = 95, tab.values()
    for row in range(30, 95):
        tab.cells[row, 0] = f"S{row}"
    [table] = await sheet.all(VALUES, ValuesQuery("Prices"))
    assert [row.number for row in table.rows] == list(range(1, 96))
    assert [len(row.cells) for row in table.rows[len(whole) : 30]] == [0] * (30 - len(whole))
    assert table.rows[-1].cells == ("S94",)


async def test_bad_asks_are_problems(sheet: Connection) -> None:
    """Reports invalid requests as problems and equal ones as unchanged; a foreign spreadsheet is not found.

    See docs/design/connectors.md#change-operations.
    """
    bad: list[tuple[str, Any]] = [
        ("sheet.clear", ClearCells("Prices", "A1;B2", ())),
        ("sheet.clear", ClearCells("", None, ())),
        ("sheet.delete_rows", DeleteRows("Prices", "0", 0, 1, 5, ())),
        ("sheet.delete_rows", DeleteRows("Prices", "0", 5, 2, 5, ())),
        ("sheet.delete_rows", DeleteRows("Prices", "x", 1, 1, 5, ())),
        ("sheet.add_tab", AddTab("x" * 101)),
    ]
    for name, query in bad:
        assert sheet.plan(name, query).problems
    assert sheet.plan("sheet.add_tab", AddTab("Log", frozenset({"Log"}))).unchanged == ("Log",)
    assert sheet.plan("sheet.clear", ClearCells("Log", None, ())).unchanged
    with pytest.raises(RemoteNotFound):
        await sheet.all(VALUES, ValuesQuery("Prices", spreadsheet_id="another"))
