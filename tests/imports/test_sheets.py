"""Tests spreadsheet steps that clear ranges, delete rows and add tabs."""

from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.change import Outcome
from steward.model.run import Mode, RunStatus
from tests.imports.exports import automated, chain, code, node
from tests.runs.shop import Shop


def rows_of(shop: Shop) -> list[list[Any]]:
    """Returns the cells of the first tab."""
    [tab, *_] = shop.world.state.google.books["sheet-prices"].tabs
    return tab.values()


def filled(shop: Shop) -> None:
    """Fills the tab with a header and nine rows."""
    [tab] = shop.world.state.google.books["sheet-prices"].tabs
    tab.cells = {(0, 0): "Code", (0, 1): "Price"}
    tab.cells |= {(position, 0): f"A{position}" for position in range(1, 10)} | {
        (index, 1): index for index in range(1, 10)
    }


def sheet(operation: str, **more: Any) -> dict[str, Any]:
    """Returns a step on the tab Prices."""
    location = {"mode": "name", "value": "Prices"}
    return node("Sheet", "googleSheets", 4.5, {"operation": operation, "sheetName": location, **more})


FIELDS = {"values": [{"column": "Price", "fieldValue": 9}]}


async def approved(shop: Shop, items: str, step: dict[str, Any]) -> None:
    """Runs the step for these items as a test run and live, and approves everything that it proposes."""
    bound = {"integration_id": shop.connections["spreadsheet"].integration_id}
    bindings = {"Sheet": bound | {"kind": "spreadsheet", "target": None}}
    automation = await automated(shop, chain(code("Items", items), step), bindings=bindings)
    before = rows_of(shop)
    tried = await shop.run_and_drain(automation, Mode.TEST)
    assert tried.status is RunStatus.SUCCEEDED, tried
    run = await shop.waiting(automation)
    assert rows_of(shop) == before
    assert len(await shop.changes(run)) == len(await shop.changes(tried))
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.APPLIED}


async def test_rows_are_deleted_item_by_item(shop: Shop) -> None:
    """Counts the rows of each deletion without those deleted before it, as n8n does.

    See docs/design/imports-n8n.md#node-types.
    """
    filled(shop)
    sheet_step = sheet("delete", startIndex="={{ $json.at }}", numberToDelete="={{ $json.n }}")
    await approved(shop, "return [{json: {at: 3, n: 2}}, {json: {at: 3, n: 1}}]", sheet_step)
    assert [row[0] for row in rows_of(shop)] == ["Code", "A1", "A5", "A6", "A7", "A8", "A9"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_rows_columns_ranges_and_all_but_the_header_are_cleared(shop: Shop) -> None:
    """Clears rows, columns, a range, and everything but the header.

    See docs/design/imports-n8n.md#node-types.
    """
    script = "return [{json: {}}, {json: {}}]"
    filled(shop)
    await approved(shop, script, sheet("clear", clear="specificRows", startIndex=2, rowsToDelete=2))
    assert rows_of(shop)[:4] == [["Code", "Price"], [], [], ["A3", 3]]
    await approved(shop, script, sheet("clear", clear="specificColumns", startIndex="b", columnsToDelete=1))
    assert rows_of(shop)[3] == ["A3"]
    await approved(shop, script, sheet("clear", clear="specificRange", range="a4:a5"))
    assert rows_of(shop)[3:6] == [[], [], ["A5"]]
    await approved(shop, script, sheet("clear", keepFirstRow=True))
    assert rows_of(shop) == [["Code"]]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_tab_is_added_once_for_each_title(shop: Shop) -> None:
    """Adds a tab for each new title, once. See docs/design/imports-n8n.md#node-types."""
    titles = "return ['May', 'June', 'May', 'Prices'].map(t => ({json: {t}}))"
    await approved(shop, titles, sheet("create", title="={{ $json.t }}"))
    tabs = shop.world.state.google.books["sheet-prices"].tabs
    assert [tab.title for tab in tabs] == ["Prices", "May", "June"]


MAPPED = {"Price": 9, "row_number": "={{ $json.line }}"}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("step", "row"),
    [
        (sheet("update", columns={"matchingColumns": ["row_number"], "value": MAPPED}), ["A4", 9]),
        (
            sheet("update", columnToMatchOn="Code", valueToMatchOn="={{ $json.code }}", fieldsUi=FIELDS)
            | {"typeVersion": 3},
            ["A4", 9],
        ),
        (
            sheet("appendOrUpdate", columnToMatchOn="Code", valueToMatchOn="B1", fieldsUi=FIELDS)
            | {"typeVersion": 3},
            ["B1", 9],
        ),
    ],
)
async def test_the_row_is_the_one_that_the_step_names(
    shop: Shop, step: dict[str, Any], row: list[Any]
) -> None:
    """Updates the row that the step's mapping names, not the row that the item was read from."""
    filled(shop)
    await approved(shop, "return [{json: {row_number: 2, line: 5, Code: 'A1', code: 'A4'}}]", step)
    assert row in rows_of(shop)
    assert rows_of(shop)[1] == ["A1", 1]


NUMBERED = {"matchingColumns": ["row_number"], "value": MAPPED | {"Code": "B1"}}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_an_item_without_a_row_number_is_appended(shop: Shop) -> None:
    """Appends items whose `row_number` is empty or missing, and changes the row of another."""
    filled(shop)
    items = "return [{json: {line: ''}}, {json: {row_number: 3}}, {json: {line: 4}}]"
    await approved(shop, items, sheet("appendOrUpdate", columns=NUMBERED))
    assert rows_of(shop)[2:5] == [["A2", 2], ["B1", 9], ["A4", 4]]
    assert rows_of(shop)[10:] == [["B1", 9], ["B1", 9]]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("operation", ["update", "appendOrUpdate"])
async def test_the_header_cannot_be_updated(shop: Shop, operation: str) -> None:
    """Fails an item whose `row_number` is the header's, and proposes nothing."""
    filled(shop)
    bound = {"integration_id": shop.connections["spreadsheet"].integration_id}
    steps = chain(code("Items", "return [{json: {line: 1}}]"), sheet(operation, columns=NUMBERED))
    bindings = {"Sheet": bound | {"kind": "spreadsheet", "target": None}}
    run = await shop.run_and_drain(await automated(shop, steps, bindings=bindings))
    assert run.status is RunStatus.FAILED
    assert "“row_number” of this step is not a whole number from 2 on." in str(run.message)
    assert rows_of(shop)[0] == ["Code", "Price"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("version", "row"), [(4.6, ["B2", 1]), (4.7, ["B2"])])
async def test_an_empty_value_clears_a_cell_from_version_4_7_on(
    shop: Shop, version: float, row: list[Any]
) -> None:
    """Leaves the cell of an empty value as it is before version 4.7, as n8n's change notes say."""
    filled(shop)
    value = {"row_number": 2, "Code": "B2", "Price": "={{ $json.price }}"}
    step = sheet("update", columns={"matchingColumns": ["row_number"], "value": value})
    await approved(shop, "return [{json: {price: ''}}]", step | {"typeVersion": version})
    assert rows_of(shop)[1] == row


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (sheet("append", columns={"value": {"Price": "={{ $json.p }}"}}), ("warning", "stays a text")),
        (
            sheet("append", columns={"value": {"Price": "==A{{ $json.p }}*2"}}),
            ("error", "a formula into “Price”"),
        ),
        (sheet("append", options={"cellFormat": "RAW"}, columns={"value": {"Price": "==A2"}}), None),
        (sheet("append") | {"typeVersion": 2}, None),
        (
            sheet("append", columns={"value": {"Price": "={{ '=A' + $json.p }}"}}),
            ("error", "a formula into “Price”"),
        ),
        (
            sheet("append", fieldsUi={"fieldValues": [{"fieldId": "Price", "fieldValue": "==A2"}]})
            | {"typeVersion": 3},
            ("error", "a formula into “Price”"),
        ),
        (sheet("read", options={"usePathForKeyRow": False, "continue": True}) | {"typeVersion": 2}, None),
        (sheet("read", options={"usePathForKeyRow": True}), ("error", "“Use Path For Key Row” does not run")),
        (sheet("read", options={"outputFormatting": {"values": {"date": "LONG"}}}), ("error", "not known")),
    ],
)
def test_an_import_says_how_cells_are_written_and_read(
    step: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    """Warns that texts stay texts, and refuses formulas and formats that are not known.

    See docs/design/imports-n8n.md#node-types.
    """
    findings = [finding for finding in read_value(chain(step)).findings if finding.code == "parameter"]
    actual = [(str(finding.level), finding.message) for finding in findings if finding.level != "note"]
    assert len(actual) == (expected is not None), actual
    assert all(expected and level == expected[0] and expected[1] in message for level, message in actual)


@pytest.mark.parametrize(
    "step",
    [
        sheet("delete", toDelete="columns"),
        sheet("clear", clear="theOldOnes"),
        sheet("create"),
        sheet("create", title="May", options={"tabColor": "0aa"}),
        sheet("remove"),
        sheet("create", title="May") | {"typeVersion": 2},
        sheet("create", title="Book", resource="spreadsheet"),
    ],
)
def test_unsupported_operations_are_errors_at_import(step: dict[str, Any]) -> None:
    """Reports each operation or option that is not supported as a `parameter` error.

    See docs/design/imports-n8n.md#rules.
    """
    findings = read_value(chain(step)).findings
    assert ("error", "parameter") in [(str(finding.level), finding.code) for finding in findings]
